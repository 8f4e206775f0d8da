// Options become an engine; called by run, serve and eval. bench makes engines by itself and shares
// the words for a failure.
#include "run/engine.h"

#include <string.h>

#include "helpers.h"
#include "run/draft.h"

void app_engine_place(const struct options *options, rn_engine_options *out) {
    out->backend = option_text(options, OPT_BACKEND);
    out->device = option_int(options, OPT_DEVICE);
}

void app_engine_memory(const struct options *options, rn_engine_options *out) {
    const struct option_value *value = &options->value[OPT_KV_MEMORY];
    if (value->flag) {
        out->kv_pages = (uint32_t)value->integer;
    } else {
        out->kv_bytes = (uint64_t)value->integer;
    }
}

void app_engine_options(const struct options *options, rn_engine_options *out) {
    const char *isa = option_text(options, OPT_ISA);
    *out = (rn_engine_options){
        .isa = strcmp(isa, "auto") ? isa : NULL,
        // a plug-in's backend may have a default of its own
        .kv_type = option_given(options, OPT_KV_TYPE) ? option_text(options, OPT_KV_TYPE) : NULL,
        .state_type = option_text(options, OPT_STATE_TYPE),
        .n_threads = option_int(options, OPT_THREADS),
        .no_pin = option_flag(options, OPT_NO_PIN),
        .self_check = option_flag(options, OPT_SELF_CHECK),
        .n_ctx = option_int(options, OPT_CTX),
        // a device may have a default of its own
        .batch_tokens =
            option_given(options, OPT_BATCH_TOKENS) ? option_int(options, OPT_BATCH_TOKENS) : 0,
    };
    out->page_store = option_text(options, OPT_PAGE_STORE);
    out->page_store_bytes = (uint64_t)options->value[OPT_PAGE_STORE_SIZE].integer;
    out->page_store_memory = (uint64_t)options->value[OPT_PAGE_STORE_MEMORY].integer;
    app_engine_place(options, out);
    app_engine_memory(options, out);
}

static void note_print(void *ctx, const char *line) {
    (void)ctx;
    fprintf(stderr, "runnel: warning: %s\n", line);
}

int app_engine_fail(const rn_model *model, const rn_model *draft, const rn_error *err) {
    if (err->status == RN_ERR_NOMEM) {
        return app_fail(APP_FAILED, "%s: %s", err_path(rn_model_get_info(model)->path),
                        err->message);
    }
    return draft && err->status == RN_ERR_MODEL ? draft_fail(draft, model, err)
                                                : app_fail_error(err);
}

// Notes and warnings about the new engine.
static void engine_note(const rn_engine *engine, int n_ctx_wanted) {
    rn_engine_info info;
    rn_engine_get_info(engine, &info);
    if (*info.note) fprintf(stderr, "runnel: %s\n", info.note);
    app_warn_slow(false, info.slow_formats, info.isa);
    if (!*info.device) app_warn_threads(info.n_threads);
    if (info.n_ctx >= n_ctx_wanted) return;
    fprintf(stderr,
            "runnel: warning: the context is %d instead of %d: its KV memory holds no more\n",
            info.n_ctx, n_ctx_wanted);
}

int app_engine_create(const struct options *options, const rn_model *model,
                      const rn_engine_options *wanted, const struct term *term, bool quiet,
                      rn_engine **out) {
    const int n_ctx_max = rn_model_get_info(model)->n_ctx_train;
    if (wanted->n_ctx > n_ctx_max) {
        char name[OPTION_NAME_SIZE];
        return app_fail(APP_USAGE, "%s: %d is more than the model's context, %d",
                        option_name(options, OPT_CTX, name), wanted->n_ctx, n_ctx_max);
    }
    struct progress progress;
    rn_engine_options engine_options = *wanted;
    rn_error err = {0};
    engine_options.progress = progress_update;
    engine_options.progress_ctx = &progress;
    engine_options.store_note = quiet ? NULL : note_print;
    progress_begin(&progress, term, quiet, "loading");
    const rn_status status = rn_engine_create(model, &engine_options, out, &err);
    progress_end(&progress);
    if (status != RN_OK) return app_engine_fail(model, wanted->draft, &err);
    if (!quiet) engine_note(*out, wanted->n_ctx ? wanted->n_ctx : n_ctx_max);
    return APP_OK;
}
