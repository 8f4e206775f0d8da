// Making an engine, and the loop over its steps.
#include "run/drive.h"

#include <string.h>

#include "helpers.h"
#include "run/draft.h"
#include "run/report.h"
#include "terminal/interrupt.h"

void drive_kv_memory(const struct options *options, rn_engine_options *out) {
    const struct option_value *value = &options->value[OPT_KV_MEMORY];
    if (value->flag) {
        out->kv_pages = (uint32_t)value->integer;
    } else {
        out->kv_bytes = (uint64_t)value->integer;
    }
}

static rn_engine_options engine_options_of(const struct options *options, const rn_model *draft,
                                           bool all_logits) {
    const char *isa = option_text(options, OPT_ISA);
    const int max_seqs = option_int(options, OPT_MAX_SEQS);
    rn_engine_options out = {
        .backend = option_text(options, OPT_BACKEND),
        .isa = strcmp(isa, "auto") ? isa : NULL,
        // a plug-in's backend may have a default of its own
        .kv_type = option_given(options, OPT_KV_TYPE) ? option_text(options, OPT_KV_TYPE) : NULL,
        .n_threads = option_int(options, OPT_THREADS),
        .no_pin = option_flag(options, OPT_NO_PIN),
        .n_ctx = option_int(options, OPT_CTX),
        .max_seqs = max_seqs,
        // those that are about to run wait for a step, too
        .max_waiting = option_int(options, OPT_MAX_WAITING) + max_seqs,
        .itl_ms = option_real(options, OPT_ITL_MS),
        .no_prefix_cache = option_flag(options, OPT_NO_PREFIX_CACHE),
        .batch_tokens = option_int(options, OPT_BATCH_TOKENS),
        .logit_rows = all_logits ? -1 : 0,
    };
    if (out.batch_tokens < max_seqs && !option_given(options, OPT_BATCH_TOKENS))
        out.batch_tokens = max_seqs;
    drive_kv_memory(options, &out);
    draft_engine_options(options, draft, &out);
    if (options->command == COMMAND_EVAL) out.speculate = "off"; // it writes nothing
    return out;
}

// Before a file is loaded, someone who watches is told where memory goes. A plan that fails says
// nothing: creating the engine will.
static void memory_say(const struct options *options, const rn_model *model,
                       const rn_engine_options *engine_options, const struct term *term) {
    rn_memory_plan plan;
    if (options->command == COMMAND_SERVE) {
        if (rn_engine_plan_memory(model, engine_options, &plan, NULL) == RN_OK)
            report_print_serving(&plan, engine_options->max_seqs, term);
        return;
    }
    if (options->command != COMMAND_RUN || !option_given(options, OPT_MODEL) || !term->err_tty ||
        option_flag(options, OPT_JSON))
        return;
    if (rn_engine_plan_memory(model, engine_options, &plan, NULL) == RN_OK)
        report_print_plan(&plan, term);
}

static void context_warn(const rn_engine_info *info, int n_ctx_wanted) {
    if (info->n_ctx >= n_ctx_wanted) return;
    fprintf(stderr,
            "runnel: warning: the context is %d instead of %d: its KV memory holds no more\n",
            info->n_ctx, n_ctx_wanted);
}

int drive_create_fail(const rn_model *model, const rn_model *draft, const rn_error *err) {
    if (err->status == RN_ERR_NOMEM) {
        return app_fail(APP_FAILED, "%s: %s", err_path(rn_model_get_info(model)->path),
                        err->message);
    }
    return draft && err->status == RN_ERR_MODEL ? draft_fail(draft, model, err)
                                                : app_fail_error(err);
}

static int sizes_check(const struct options *options, const rn_engine_options *given,
                       int n_ctx_max) {
    char name[64];
    if (given->n_ctx > n_ctx_max) {
        return app_fail(APP_USAGE, "%s: %d is more than the model's context, %d",
                        option_name(options, OPT_CTX, name), given->n_ctx, n_ctx_max);
    }
    if (given->batch_tokens && given->batch_tokens < given->max_seqs) {
        return app_fail(APP_USAGE,
                        "%s: %d is less than --max-seqs, %d: each gets a token in a step",
                        option_name(options, OPT_BATCH_TOKENS, name), given->batch_tokens,
                        given->max_seqs);
    }
    return APP_OK;
}

int drive_engine_create(const struct options *options, const rn_model *model, const rn_model *draft,
                        const struct term *term, bool quiet, bool all_logits, rn_engine **out) {
    struct progress progress;
    rn_engine_options engine_options = engine_options_of(options, draft, all_logits);
    const int n_ctx_max = rn_model_get_info(model)->n_ctx_train;
    const int code = sizes_check(options, &engine_options, n_ctx_max);
    if (code) return code;
    if (!quiet && draft) draft_warn_large(draft, model);
    if (!quiet) memory_say(options, model, &engine_options, term);
    rn_error err = {0};
    engine_options.progress = progress_update;
    engine_options.progress_ctx = &progress;
    progress_begin(&progress, term, quiet, "loading");
    const rn_status status = rn_engine_create(model, &engine_options, out, &err);
    progress_end(&progress);
    if (status != RN_OK) return drive_create_fail(model, draft, &err);
    rn_engine_info info;
    rn_engine_get_info(*out, &info);
    if (!quiet && *info.note) fprintf(stderr, "runnel: %s\n", info.note);
    app_warn_slow(quiet, info.slow_formats, info.isa);
    if (!quiet) context_warn(&info, engine_options.n_ctx ? engine_options.n_ctx : n_ctx_max);
    return APP_OK;
}

struct drive {
    rn_engine *engine;
    uint64_t id;
    drive_event_fn on_event;
    void *ctx;
    bool finished;
    rn_status failure; // of a request that ended with an error
    int position;      // that it had reached
};

// Hands out the events of the last step; cancels when the receiver or the user has had enough. The
// last event then comes with the cancel or with the next step.
static void events_take(struct drive *drive) {
    bool wanted = !interrupt_seen();
    for (rn_event event; !drive->finished && rn_engine_next_event(drive->engine, &event);) {
        if (event.request != drive->id) continue;
        if (event.finish != RN_FINISH_NONE) drive->finished = true;
        if (event.finish == RN_FINISH_ERROR) {
            drive->failure = event.status;
            drive->position = event.timings->prompt_tokens + event.timings->output_tokens;
        }
        if (!drive->on_event(drive->ctx, &event)) wanted = false;
    }
    if (!drive->finished && !wanted) rn_engine_cancel(drive->engine, drive->id);
}

static int failure_print(const struct drive *drive, const rn_model *model) {
    const char *path = err_path(rn_model_get_info(model)->path);
    if (drive->failure == RN_ERR_NUMERIC) {
        return app_fail(APP_FAILED, "%s: the model gave no finite logit at position %d", path,
                        drive->position);
    }
    return app_fail(APP_FAILED, "%s: %s", path, rn_status_text(drive->failure));
}

int drive_request(rn_engine *engine, const rn_model *model, const rn_request *request,
                  drive_event_fn on_event, void *ctx) {
    struct drive drive = {.engine = engine, .on_event = on_event, .ctx = ctx};
    rn_error err = {0};
    if (rn_engine_submit(engine, request, &drive.id, &err) != RN_OK) return app_fail_error(&err);
    while (!drive.finished) {
        bool busy = false;
        const rn_status status = rn_engine_step(engine, &busy);
        if (status == RN_ERR_DEVICE && rn_engine_health(engine, &err))
            return app_fail(APP_FAILED, "the device was lost: %s", err.message);
        if (status != RN_OK) return app_fail(APP_FAILED, "%s", rn_status_text(status));
        events_take(&drive);
        if (!busy && !drive.finished) return app_fail(APP_FAILED, "the engine lost the request");
    }
    return drive.failure ? failure_print(&drive, model) : APP_OK;
}
