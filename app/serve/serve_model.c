// See serve_model.h. Called by serve.c on the main thread, and by serve_models.c on the loader's.
#include "serve/serve_model.h"

#include <stdlib.h>

#include "run/chat.h"
#include "run/draft.h"
#include "run/engine.h"
#include "run/report.h"

enum { BANDWIDTH_MS = 300 };

// ---------------------------------------------------------------- files

static int template_get(struct serve_model *model) {
    const char *name = option_text(model->options, OPT_CHAT_TEMPLATE);
    const int code = chat_variables_get(model->options, &model->variables);
    if (code) return code;
    if (!name && !rn_model_chat_template(model->model)) {
        if (!model->quiet) {
            fputs("runnel: warning: the model has no chat template, chats are refused; "
                  "--chat-template gives one\n",
                  stderr);
        }
        return APP_OK;
    }
    return chat_template_open(model->model, name, &model->tmpl, &model->tmpl_source);
}

int serve_model_describe(struct serve_model *model) {
    const struct options *options = model->options;
    int code = app_open_model(options, false, &model->model);
    if (!code) code = sampling_get(options, rn_model_get_info(model->model), &model->sampling);
    if (!code) code = template_get(model);
    return code;
}

int serve_model_open(struct serve_model *model) {
    const int code = serve_model_describe(model);
    return code ? code : draft_open(model->options, model->model, &model->draft);
}

const char *serve_model_template(const struct serve_model *model) {
    return model->tmpl_source ? model->tmpl_source : rn_model_chat_template(model->model);
}

// ---------------------------------------------------------------- the engine

// Each sequence gets a token in a step, so a step has room for one of each.
static int batch_check(const struct options *options, const rn_engine_options *out) {
    char name[OPTION_NAME_SIZE];
    if (out->batch_tokens == 0 || out->batch_tokens >= out->max_seqs) return APP_OK;
    return app_fail(APP_USAGE, "%s: %d is less than --max-seqs, %d: each gets a token in a step",
                    option_name(options, OPT_BATCH_TOKENS, name), out->batch_tokens, out->max_seqs);
}

int serve_model_wanted(const struct serve_model *model, rn_engine_options *out) {
    const struct options *options = model->options;
    app_engine_options(options, out);
    draft_engine_options(options, model->draft, out);
    out->max_seqs = option_int(options, OPT_MAX_SEQS);
    // sequences that are about to run wait for a step, too
    out->max_waiting = option_int(options, OPT_MAX_WAITING) + out->max_seqs;
    out->itl_ms = option_real(options, OPT_ITL_MS);
    out->no_prefix_cache = option_flag(options, OPT_NO_PREFIX_CACHE);
    if (!option_given(options, OPT_KV_MEMORY)) out->kv_bytes = model->kv_bytes;
    return batch_check(options, out);
}

static int engine_create(struct serve_model *model) {
    rn_engine_options wanted;
    rn_memory_plan plan;
    const int code = serve_model_wanted(model, &wanted);
    if (code) return code;
    if (!model->quiet) {
        draft_warn_large(model->draft, model->model);
        // a plan that fails says nothing: creating the engine will
        if (rn_engine_plan_memory(model->model, &wanted, &plan, NULL) == RN_OK)
            report_print_serving(&plan, wanted.max_seqs, model->term);
    }
    return app_engine_create(model->options, model->model, &wanted, model->term, model->quiet,
                             &model->engine);
}

static void drafters_print(const struct serve_model *model) {
    rn_engine_info info;
    rn_engine_get_info(model->engine, &info);
    report_print_drafters(&info, rn_model_get_info(model->model),
                          model->draft ? rn_model_get_info(model->draft) : NULL, model->term);
}

static void speeds_measure(struct serve_model *model) {
    rn_engine_info info;
    if (model->bandwidth > 0) return;
    rn_engine_get_info(model->engine, &info);
    model->bandwidth = rn_engine_bandwidth(model->engine, info.weight_bytes, BANDWIDTH_MS);
    model->peak = rn_engine_peak(model->engine);
}

int serve_model_load(struct serve_model *model, struct server_model *out) {
    const int code = engine_create(model);
    if (code) return code;
    if (!model->quiet) drafters_print(model);
    speeds_measure(model);
    *out = (struct server_model){
        .model = model->model,
        .engine = model->engine,
        .tmpl = model->tmpl,
        .tmpl_source = serve_model_template(model),
        .variables = model->variables,
        .sampling = model->sampling.value,
        .max_tokens = option_int(model->options, OPT_MAX_TOKENS),
        .pooling = option_text(model->options, OPT_POOLING),
        .bandwidth = model->bandwidth,
        .peak = model->peak,
    };
    return APP_OK;
}

void serve_model_close(struct serve_model *model) {
    if (model->engine) rn_engine_stop(model->engine, false);
    rn_engine_destroy(model->engine);
    rn_chat_template_destroy(model->tmpl);
    rn_model_close(model->draft);
    rn_model_close(model->model);
    free(model->tmpl_source);
    free(model->variables);
    model->engine = NULL;
    model->tmpl = NULL;
    model->draft = model->model = NULL;
    model->tmpl_source = model->variables = NULL;
}
