// See serve_models.h. Messages of a load that fails go to standard error with the model's name;
// clients get the same words without paths.
#include "serve/serve_models.h"

#include <stdlib.h>
#include <string.h>

#include "helpers.h"
#include "models/share.h"

// ---------------------------------------------------------------- failures

// The first line without paths: a file that a message starts with is left out, and of others the
// folder is.
static void reason_public(const char *text, char *out, size_t size) {
    const char *end = strstr(text, ": ");
    if (end && memchr(text, '/', (size_t)(end - text))) text = end + 2;
    size_t n = 0, word = 0;
    for (; *text && *text != '\n' && n + 1 < size; text++) {
        if (strchr(" '\"(,", *text)) word = n + 1;
        if (*text == '/') {
            n = word;
            continue;
        }
        out[n++] = *text;
    }
    out[n] = '\0';
}

// A failure at run time is the machine's, mostly a lack of memory: it may pass. Others are the
// model's or its options'.
static rn_status status_of(int code) { return code == APP_FAILED ? RN_ERR_NOMEM : RN_ERR_MODEL; }

static rn_status fail(struct serve_source *of, int code, const char *message, rn_error *err) {
    char reason[256];
    serve_model_close(&of->model);
    app_fail(APP_OK, "%s cannot be loaded: %s", of->name, message);
    reason_public(message, reason, sizeof reason);
    return err_set(err, status_of(code), "%s", reason);
}

static rn_status need_get(struct serve_source *of, struct server_need *out, rn_error *err) {
    struct serve_model *model = &of->model;
    rn_engine_options wanted;
    struct model_share share = {0};
    model->kv_bytes = 0; // as when it was planned first
    if (serve_model_wanted(model, &wanted)) return RN_ERR_ARG;
    const rn_status status = model_share_get(model->model, of->bytes_max, &wanted, &share, err);
    model->kv_bytes = wanted.kv_bytes;
    *out = (struct server_need){.bytes = share.bytes, .available = share.free_bytes};
    memcpy(out->device, share.device, sizeof out->device);
    return status;
}

// ---------------------------------------------------------------- for the loader's thread

static rn_status on_plan(void *ctx, struct server_need *out, rn_error *err) {
    struct serve_source *of = ctx;
    char heard[512] = "";
    rn_error why = {0};
    app_fail_listen(heard, sizeof heard);
    const int code = of->model.model ? APP_OK : serve_model_open(&of->model);
    const rn_status status = code ? RN_ERR_MODEL : need_get(of, out, &why);
    app_fail_listen(NULL, 0);
    if (!status) return RN_OK;
    if (status == RN_ERR_NOMEM) return err_set(err, status, "%s", why.message);
    return fail(of, code, *heard ? heard : why.message, err);
}

static rn_status on_load(void *ctx, struct server_model *out, rn_error *err) {
    struct serve_source *of = ctx;
    char heard[512] = "";
    const uint64_t start_ns = clock_ns();
    app_fail_listen(heard, sizeof heard);
    const int code = serve_model_load(&of->model, out);
    app_fail_listen(NULL, 0);
    if (code) return fail(of, code, heard, err);
    if (!of->quiet)
        fprintf(stderr, "runnel: %s is loaded (%.1f s)\n", of->name,
                (double)(clock_ns() - start_ns) * 1e-9);
    return RN_OK;
}

static void on_unload(void *ctx) {
    struct serve_source *of = ctx;
    const bool was_loaded = of->model.engine != NULL;
    serve_model_close(&of->model);
    if (was_loaded && !of->quiet) fprintf(stderr, "runnel: %s is unloaded\n", of->name);
}

// ---------------------------------------------------------------- for any thread

static void on_describe_end(struct server_description *description) {
    serve_model_close(description->held);
    free(description->held);
}

// Its own view of the files: the loader's thread may be using the source's.
static rn_status on_describe(void *ctx, struct server_description *out, rn_error *err) {
    const struct serve_source *of = ctx;
    char heard[512] = "", reason[256];
    struct serve_model *model = calloc(1, sizeof *model);
    *out = (struct server_description){.held = model};
    if (!model) return err_set(err, RN_ERR_NOMEM, "out of memory");
    *model =
        (struct serve_model){.options = of->model.options, .term = of->model.term, .quiet = true};
    app_fail_listen(heard, sizeof heard);
    const int code = serve_model_describe(model);
    app_fail_listen(NULL, 0);
    if (code) {
        on_describe_end(out);
        reason_public(heard, reason, sizeof reason);
        return err_set(err, status_of(code), "%s", reason);
    }
    const int n_ctx = option_int(model->options, OPT_CTX);
    out->model = model->model;
    out->tmpl_source = serve_model_template(model);
    out->sampling = model->sampling.value;
    out->n_ctx = n_ctx ? n_ctx : rn_model_get_info(model->model)->n_ctx_train;
    return RN_OK;
}

// ---------------------------------------------------------------- the set

static void source_set(struct serve_models *models, const struct options *options, int index,
                       const char *name, const struct models_section *section) {
    const struct option_value *alias = &options->value[OPT_ALIAS];
    struct serve_source *of = &models->of[index];
    of->name = name;
    of->model.options = options;
    of->bytes_max = (uint64_t)options->value[OPT_MODELS_MEMORY].integer;
    models->source[index] = (struct server_source){.name = name,
                                                   .aliases = alias->list,
                                                   .n_aliases = alias->n_list,
                                                   .places = option_int(options, OPT_MAX_WAITING) +
                                                             option_int(options, OPT_MAX_SEQS),
                                                   .at_start = !section,
                                                   .keep = section && section->keep,
                                                   .idle_s = section ? section->idle_s : 0,
                                                   .ctx = of};
}

// The default model has a name, and those of --alias.
static int name_check(const struct serve_models *models, const struct options *options,
                      const char *default_name) {
    const struct option_value *alias = &options->value[OPT_ALIAS];
    for (int i = 0; default_name && i < models->file.n_sections; i++) {
        const struct models_section *section = &models->file.section[i];
        for (int j = -1; j < alias->n_list; j++) {
            const char *name = j < 0 ? default_name : alias->list[j];
            if (models_section_is_named(section, name))
                return app_fail(APP_USAGE, "--models: [%s] has a name of the model of --model, %s",
                                section->name, name);
        }
    }
    return APP_OK;
}

// The start names a section whose model cannot be opened; otherwise the first request would find
// it. It stays: its file may be replaced while the server runs.
static int heads_check(const char *path, bool quiet, struct serve_models *models) {
    for (int i = 0; i < models->file.n_sections; i++) {
        const struct models_section *section = &models->file.section[i];
        rn_error err = {0};
        if (!model_head_check(section->path, option_text(&section->options, OPT_SYNTHETIC), &err))
            continue;
        models->n_broken++;
        if (!quiet || models->n_broken == models->n)
            app_fail(APP_OK, "warning: %s:%d: [%s]: cannot be loaded: %s", err_path(path),
                     section->line, section->name, err.message);
    }
    if (models->n_broken < models->n) return APP_OK;
    return app_fail(APP_USAGE, "%s: none of its models can be loaded", err_path(path));
}

int serve_models_open(const struct options *options, const struct term *term, bool quiet,
                      const char *default_name, struct serve_models *out,
                      struct server_loading *loading) {
    const char *path = option_text(options, OPT_MODELS);
    const int first = default_name != NULL;
    *out = (struct serve_models){0};
    if (!models_file_read(options, path, &out->file)) return APP_USAGE;
    const int n = out->file.n_sections + first;
    out->of = calloc((size_t)n, sizeof *out->of);
    out->source = calloc((size_t)n, sizeof *out->source);
    if (!out->of || !out->source) return app_fail(APP_FAILED, "out of memory");
    const int code = name_check(out, options, default_name);
    if (code) return code;
    out->n = n;
    const int broken = heads_check(path, quiet, out);
    if (broken) return broken;
    if (first) source_set(out, options, 0, default_name, NULL);
    for (int i = first; i < n; i++) {
        const struct models_section *section = &out->file.section[i - first];
        source_set(out, &section->options, i, section->name, section);
    }
    for (int i = 0; i < n; i++) {
        out->of[i].model.term = term;
        out->of[i].model.quiet = true; // on_load and on_unload say one line each
        out->of[i].quiet = quiet;
    }
    *loading = (struct server_loading){
        .source = out->source,
        .n_sources = n,
        .bytes_max = (uint64_t)options->value[OPT_MODELS_MEMORY].integer,
        .plan = on_plan,
        .load = on_load,
        .unload = on_unload,
        .describe = on_describe,
        .describe_end = on_describe_end,
    };
    return APP_OK;
}

void serve_models_close(struct serve_models *models) {
    for (int i = 0; i < models->n; i++) serve_model_close(&models->of[i].model);
    free(models->of);
    free(models->source);
    models_file_free(&models->file);
    *models = (struct serve_models){0};
}
