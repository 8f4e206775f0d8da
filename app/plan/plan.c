// `runnel plan`: memory, speed and users of a model on a machine, from shapes and figures alone. No
// weight is read and no step of the model runs. This file reads the options; sizing.c computes,
// outline.c and the files beside it show.
#include <stdlib.h>
#include <string.h>

#include "bench/plot.h"
#include "models/find.h"
#include "plan/outline.h"
#include "terminal/interrupt.h"

enum { LAST_ROW = 64 }; // users, unless more were asked for

// ---------------------------------------------------------------- options

static bool is_typed(const struct options *options, enum option_id id) {
    return options->value[id].origin == ORIGIN_COMMAND_LINE;
}

static int length_fail(const struct options *options, enum option_id id, int value,
                       const char *limit, int most) {
    char name[OPTION_NAME_SIZE];
    return app_fail(APP_USAGE, "%s: %d is more than %s, %d", option_name(options, id, name), value,
                    limit, most);
}

// A context alone is nearly full: its last tokens are the output.
static void lengths_choose(const struct options *options, struct workload *w) {
    const bool has_prompt = option_given(options, OPT_N_PROMPT),
               has_gen = option_given(options, OPT_N_GEN);
    if (!option_given(options, OPT_CTX)) {
        w->n_ctx = w->n_prompt + w->n_gen;
        return;
    }
    w->n_ctx = option_int(options, OPT_CTX);
    if (!has_gen && w->n_gen > w->n_ctx / 2) w->n_gen = w->n_ctx / 2 ? w->n_ctx / 2 : 1;
    if (!has_prompt) w->n_prompt = w->n_ctx > w->n_gen ? w->n_ctx - w->n_gen : 1;
}

static int workload_read(const struct options *options, struct workload *out) {
    *out = (struct workload){.n_prompt = option_int(options, OPT_N_PROMPT),
                             .n_gen = option_int(options, OPT_N_GEN),
                             .n_shared = option_int(options, OPT_SHARED_PREFIX),
                             .users = option_int(options, OPT_USERS),
                             .n_draft = option_int(options, OPT_DRAFT_MAX),
                             .acceptance = option_real(options, OPT_ACCEPTANCE),
                             .batch_tokens = option_int(options, OPT_BATCH_TOKENS),
                             .has_batch_tokens = option_given(options, OPT_BATCH_TOKENS),
                             .kv_type = option_text(options, OPT_KV_TYPE)};
    char name[OPTION_NAME_SIZE];
    lengths_choose(options, out);
    const bool is_chosen = option_given(options, OPT_N_PROMPT) || option_given(options, OPT_N_GEN);
    if ((int64_t)out->n_prompt + out->n_gen > out->n_ctx && (is_chosen || out->n_ctx > 1))
        return app_fail(APP_USAGE, "%s: prompt and output have %lld tokens, the context has %d",
                        option_name(options, OPT_CTX, name), (long long)out->n_prompt + out->n_gen,
                        out->n_ctx);
    if (out->n_shared > out->n_prompt)
        return length_fail(options, OPT_SHARED_PREFIX, out->n_shared, "the prompt's tokens",
                           out->n_prompt);
    if (out->n_draft == 0 && option_given(options, OPT_ACCEPTANCE))
        return app_fail(APP_USAGE, "%s belongs to --draft-max, which is missing",
                        option_name(options, OPT_ACCEPTANCE, name));
    if (out->n_draft == 0 && is_typed(options, OPT_DRAFT))
        return app_fail(APP_USAGE, "%s belongs to --draft-max, which is missing",
                        option_name(options, OPT_DRAFT, name));
    return APP_OK;
}

// ---------------------------------------------------------------- the model

// A shape, or a file or folder by its path or name. A NULL format is the model's own.
static int named_open(const char *name, const char *format, rn_model **out) {
    rn_error err = {0};
    char *path = NULL;
    const int code = tools_is_shape(name) ? APP_OK : model_path_find(name, true, &path);
    if (code) return code;
    const rn_status status = tools_model_describe(path ? path : name, format, out, &err);
    free(path);
    if (!status) return APP_OK;
    const int failed = app_fail_error(&err);
    return status == RN_ERR_IO ? APP_USAGE : failed;
}

static int model_open(const struct options *options, rn_model **out) {
    const char *name = option_text(options, OPT_MODEL);
    rn_error err = {0};
    if (name) return named_open(name, option_text(options, OPT_FORMAT), out);
    if (option_given(options, OPT_FORMAT))
        return app_fail(APP_USAGE, "--format: the embedded model has its own; name a model");
    const size_t size = (size_t)(embedded_model_end - embedded_model);
    const rn_status status = rn_model_open_memory(EMBEDDED_NAME, embedded_model, size, out, &err);
    return status ? app_fail_error(&err) : APP_OK;
}

// The model that --draft names, where there are drafts. Both have the same tokens.
static int draft_open(const struct options *options, const rn_model *model, int n_draft,
                      rn_model **out) {
    const char *name = option_text(options, OPT_DRAFT);
    char option[OPTION_NAME_SIZE];
    if (!name || !n_draft) return APP_OK;
    const int code = named_open(name, NULL, out);
    if (code) return code;
    const int own = rn_model_get_info(model)->n_vocab, other = rn_model_get_info(*out)->n_vocab;
    if (own == other) return APP_OK;
    return app_fail(APP_USAGE, "%s: '%s' has %d tokens, and the model has %d: it cannot draft",
                    option_name(options, OPT_DRAFT, option), app_short(name).text, other, own);
}

static int context_check(const struct outline *outline) {
    const int most = rn_model_get_info(outline->model)->n_ctx_train;
    const enum option_id id = option_given(outline->options, OPT_CTX) ? OPT_CTX : OPT_N_PROMPT;
    if (outline->workload.n_ctx <= most) return APP_OK;
    return length_fail(outline->options, id, outline->workload.n_ctx, "the model's context", most);
}

// ---------------------------------------------------------------- the report

static int memory_fill(struct outline *outline) {
    rn_error err = {0};
    rn_status status = sizing_memory(outline->model, &outline->workload, outline->machine.memory,
                                     &outline->memory, &err);
    if (!status && outline->machine.kind == MACHINE_HERE && !outline->machine.memory) {
        outline->machine.memory = outline->memory.here_free;
        status = sizing_memory(outline->model, &outline->workload, outline->machine.memory,
                               &outline->memory, &err);
    }
    return status ? app_fail_error(&err) : APP_OK;
}

// 1, 2, 4, ... and the users that were asked for, in order.
static void rows_fill(struct outline *outline) {
    const int asked = outline->workload.users, last = asked > LAST_ROW ? asked : LAST_ROW;
    for (int users = 1; users <= last && outline->n_rows < REPORT_ROWS - 1; users *= 2) {
        if (asked > users / 2 && asked < users)
            sizing_row(outline->plan, &outline->memory, &outline->machine, &outline->workload,
                       asked, &outline->row[outline->n_rows++]);
        sizing_row(outline->plan, &outline->memory, &outline->machine, &outline->workload, users,
                   &outline->row[outline->n_rows++]);
    }
    if (outline->row[outline->n_rows - 1].users < asked)
        sizing_row(outline->plan, &outline->memory, &outline->machine, &outline->workload, asked,
                   &outline->row[outline->n_rows++]);
}

static const struct plan *draft_plan(const struct outline *outline) {
    return outline->workload.draft ? tools_plan(outline->workload.draft) : NULL;
}

static int model_report(struct outline *outline, struct replay_trace *trace) {
    const struct options *options = outline->options;
    const bool has_speed = option_given(options, OPT_SPEED);
    rn_error err = {0};
    int code = APP_OK;
    // which devices suffice is a question without a machine, unless one is named
    if (outline->machine.kind == MACHINE_NONE && !has_speed)
        code = machine_measure(options, outline->plan, draft_plan(outline), outline->term,
                               &outline->machine);
    else if (outline->machine.kind == MACHINE_NONE)
        machine_of_bytes(outline->workload.kv_type, &outline->machine);
    if (!code) code = machine_kv_check(options, &outline->machine);
    if (!code && !option_given(options, OPT_KV_TYPE))
        outline->workload.kv_type = outline->machine.on.kv_default;
    if (!code && machine_runs(&outline->machine, outline->model, outline->workload.kv_type, &err))
        code = app_fail_error(&err);
    if (!code) outline->workload = workload_on(&outline->workload, &outline->machine);
    if (!code) code = memory_fill(outline);
    if (code) return code;
    if (outline->machine.kind != MACHINE_NONE) rows_fill(outline);
    code = outline_print(outline);
    if (!code && has_speed) code = need_report(outline, option_real(options, OPT_SPEED));
    if (!code && trace) code = replay_report(outline, trace);
    if (!code && option_given(options, OPT_SVG))
        code = roofline_write(outline, option_text(options, OPT_SVG));
    if (!code && option_given(options, OPT_MEMORY_SVG))
        code = memory_write(outline, option_text(options, OPT_MEMORY_SVG));
    return code;
}

// Options that would have no effect. In the environment or a file they may be for other commands.
static int effects_check(const struct options *options, const struct machine *machine) {
    static const enum option_id of_model[] = {
        OPT_MODEL,        OPT_FORMAT,         OPT_USERS,     OPT_SPEED,
        OPT_CTX,          OPT_N_PROMPT,       OPT_N_GEN,     OPT_SVG,
        OPT_KV_TYPE,      OPT_SHARED_PREFIX,  OPT_DRAFT_MAX, OPT_DRAFT,
        OPT_BATCH_TOKENS, OPT_REPLAY,         OPT_MAX_SEQS,  OPT_ACCEPTANCE,
        OPT_MEMORY_SVG,   OPT_PAGE_STORE_SIZE};
    static const enum option_id of_rates[] = {OPT_THREADS, OPT_ISA, OPT_MEASURE, OPT_BACKEND,
                                              OPT_DEVICE}; // a number
    char name[OPTION_NAME_SIZE];
    for (size_t i = 0; i < sizeof of_model / sizeof *of_model; i++)
        if (option_given(options, OPT_MATRIX) && is_typed(options, of_model[i]))
            return app_fail(APP_USAGE, "%s belongs to a model, and --matrix plans without one",
                            option_name(options, of_model[i], name));
    if (is_typed(options, OPT_MAX_SEQS) && !option_given(options, OPT_REPLAY))
        return app_fail(APP_USAGE, "%s belongs to --replay, which is missing",
                        option_name(options, OPT_MAX_SEQS, name));
    const char *other = machine->kind == MACHINE_DEVICE    ? "--device names another"
                        : machine->kind == MACHINE_GIVEN   ? "--bandwidth gives another's"
                        : option_given(options, OPT_SPEED) ? "--speed asks for devices of the table"
                                                           : NULL;
    for (size_t i = 0; other && i < sizeof of_rates / sizeof *of_rates; i++)
        if (is_typed(options, of_rates[i]) &&
            (of_rates[i] != OPT_DEVICE || machine->kind == MACHINE_NONE))
            return app_fail(APP_USAGE, "%s belongs to the rates of this machine, and %s",
                            option_name(options, of_rates[i], name), other);
    return APP_OK;
}

// Options that need a machine, beside a question for one.
static int combinations_check(const struct options *options, const struct machine *machine) {
    static const enum option_id with_machine[] = {OPT_SVG, OPT_REPLAY};
    char first[OPTION_NAME_SIZE], second[OPTION_NAME_SIZE];
    for (int i = 0; i < 2; i++) {
        const bool is_given = option_given(options, with_machine[i]);
        if (is_given && option_given(options, OPT_SPEED) && machine->kind == MACHINE_NONE)
            return app_fail(APP_USAGE, "%s with %s needs --device or --bandwidth",
                            option_name(options, with_machine[i], first),
                            option_name(options, OPT_SPEED, second));
    }
    if (option_given(options, OPT_MATRIX) &&
        options->value[OPT_MODEL].origin == ORIGIN_COMMAND_LINE)
        return app_fail(APP_USAGE, "%s and '%s' exclude each other",
                        option_name(options, OPT_MATRIX, first),
                        app_short(option_text(options, OPT_MODEL)).text);
    const int code = effects_check(options, machine);
    if (code) return code;
    static const enum option_id plots[] = {OPT_SVG, OPT_MEMORY_SVG};
    for (int i = 0; i < 2; i++) {
        const char *path = option_text(options, plots[i]);
        const int refused = path ? plot_check(option_name(options, plots[i], first), path) : APP_OK;
        if (refused) return refused;
    }
    return APP_OK;
}

static int matrix_run(struct outline *outline) {
    const int code = outline->machine.kind == MACHINE_NONE ? matrix_measure(outline) : APP_OK;
    return code ? code : matrix_report(outline, option_text(outline->options, OPT_MATRIX));
}

static int report_run(struct outline *outline) {
    if (option_given(outline->options, OPT_MATRIX)) return matrix_run(outline);
    rn_model *model = NULL, *draft = NULL;
    struct replay_trace *trace = NULL;
    int code = model_open(outline->options, &model);
    if (code) return code;
    outline->model = model;
    outline->plan = tools_plan(model);
    code = context_check(outline);
    if (!code) code = draft_open(outline->options, model, outline->workload.n_draft, &draft);
    outline->workload.draft = draft;
    if (!code && option_given(outline->options, OPT_REPLAY))
        code = replay_open(outline, option_text(outline->options, OPT_REPLAY), &trace);
    if (!code) code = model_report(outline, trace);
    replay_close(trace);
    rn_model_close(draft);
    rn_model_close(model);
    return code;
}

int command_plan(const struct options *options) {
    struct term term;
    struct outline *outline = calloc(1, sizeof *outline);
    if (!outline) return app_fail(APP_FAILED, "out of memory");
    term_init(&term, options);
    outline->options = options;
    outline->term = &term;
    interrupt_ends();
    int code = workload_read(options, &outline->workload);
    if (!code) code = machine_read(options, &outline->machine);
    if (!code) code = combinations_check(options, &outline->machine);
    if (!code && option_flag(options, OPT_JSON) && !(outline->json = json_object()))
        code = app_fail(APP_FAILED, "out of memory");
    if (!code) code = report_run(outline);
    if (!code && outline->json) {
        code = json_print(outline->json, JSON_REAL_PRECISION(9));
        outline->json = NULL;
    }
    json_decref(outline->json);
    machine_forget(&outline->machine);
    free(outline);
    return code;
}
