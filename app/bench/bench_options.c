// The options of `runnel bench` as a config, and the tests that follow from it. Lists have commas
// and options may be repeated; every number is checked here, before anything is measured.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "run/engine.h"

enum {
    VERIFY_STEPS = 32, // where nothing is to be decoded
    MAX_TOKENS = 1 << 24,
    MAX_SEQS = 4096,
    ARRIVE_STREAMS = 8,
    MAX_ITL_MS = 1000000,
};

bool bench_item_next(const char **at, char *out, size_t size, size_t *len) {
    if (!*at) return false;
    *len = strcspn(*at, ",");
    snprintf(out, size, "%.*s", (int)(*len < size ? *len : size - 1), *at);
    *at = (*at)[*len] ? *at + *len + 1 : NULL;
    return true;
}

static int number_add(const char *name, const char *text, int min, int max,
                      struct bench_list *out) {
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || value < min || value > max) {
        return app_fail(APP_USAGE, "%s: '%s' is not a whole number from %d to %d", name,
                        app_short(text).text, min, max);
    }
    if (out->count == BENCH_MAX_LIST) {
        return app_fail(APP_USAGE, "%s: '%s' is one too many: at most %d are possible", name, text,
                        BENCH_MAX_LIST);
    }
    out->value[out->count++] = (int)value;
    return APP_OK;
}

int bench_numbers_read(const struct options *options, enum option_id id, int min, int max,
                       int fallback, struct bench_list *out) {
    char buffer[64], item[96];
    const char *name = option_name(options, id, buffer);
    const struct option_value *value = &options->value[id];
    for (int i = 0; i < value->n_list; i++) {
        size_t len;
        for (const char *at = value->list[i]; bench_item_next(&at, item, sizeof item, &len);) {
            const int code = number_add(name, item, min, max, out);
            if (code) return code;
        }
    }
    if (!value->n_list && fallback >= 0) out->value[out->count++] = fallback;
    return APP_OK;
}

static int model_add(struct bench_config *config, enum bench_source source, const char *name,
                     size_t len, const char *option) {
    const int most = (int)(sizeof config->model / sizeof *config->model);
    if (len == 0) return app_fail(APP_USAGE, "%s: '' is not a model", option);
    if (config->n_models == most)
        return app_fail(APP_USAGE, "%s: more than %d models", option, most);
    char *copy = strndup(name, len);
    if (!copy) return app_fail(APP_FAILED, "out of memory");
    config->model[config->n_models++] = (struct bench_model){.source = source, .name = copy};
    return APP_OK;
}

// A file whose name has commas is one model.
static int models_read(const struct options *options, enum option_id id, enum bench_source source,
                       struct bench_config *config) {
    const struct option_value *value = &options->value[id];
    char name[64];
    const char *shown = option_name(options, id, name);
    int code = APP_OK;
    for (int i = 0; !code && i < value->n_list; i++) {
        const char *at = value->list[i];
        if (source == SOURCE_FILE && access(at, F_OK) == 0) {
            code = model_add(config, source, at, strlen(at), shown);
            continue;
        }
        while (!code && at) {
            const size_t len = strcspn(at, ",");
            code = model_add(config, source, at, len, shown);
            at = at[len] ? at + len + 1 : NULL;
        }
    }
    return code;
}

static int lists_read(const struct options *options, struct bench_config *out) {
    int code;
    if ((code = bench_numbers_read(options, OPT_N_PROMPT, 0, MAX_TOKENS, -1, &out->n_prompt)))
        return code;
    if ((code = bench_numbers_read(options, OPT_N_GEN, 0, MAX_TOKENS, -1, &out->n_gen)))
        return code;
    if ((code = bench_numbers_read(options, OPT_N_DEPTH, 0, MAX_TOKENS, -1, &out->n_depth)))
        return code;
    // 0: all cores
    if ((code = bench_numbers_read(options, OPT_THREADS, 1, 1024, 0, &out->threads))) return code;
    if ((code = bench_numbers_read(options, OPT_STREAMS, 1, MAX_SEQS, -1, &out->streams)))
        return code;
    return bench_numbers_read(options, OPT_VERIFY, 1, MAX_SEQS, -1, &out->verify);
}

int bench_list_largest(const struct bench_list *list) {
    int most = 0;
    for (int i = 0; i < list->count; i++)
        if (list->value[i] > most) most = list->value[i];
    return most;
}

// The engine's tests: lengths that they need, and what is not theirs.
static int batch_read(const struct options *options, struct bench_config *out) {
    static const enum option_id others[] = {OPT_N_DEPTH, OPT_STREAMS, OPT_VERIFY, OPT_PEER,
                                            OPT_STAGES};
    char name[64], first_name[64];
    int code;
    out->arrive = option_int(options, OPT_ARRIVE);
    out->shared_prefix = option_int(options, OPT_SHARED_PREFIX);
    out->sample = option_flag(options, OPT_SAMPLE);
    if ((code = bench_numbers_read(options, OPT_BATCH, 1, MAX_SEQS,
                                   out->arrive ? ARRIVE_STREAMS : -1, &out->batch)))
        return code;
    if ((code = bench_numbers_read(options, OPT_ITL_MS, 0, MAX_ITL_MS, -1, &out->itl_ms)))
        return code;
    app_engine_memory(options, &out->memory);
    if (!out->batch.count) {
        if (out->spec.on) return APP_OK;
        // in the environment it is for the other commands too
        const bool has_memory = options->value[OPT_KV_MEMORY].origin == ORIGIN_COMMAND_LINE;
        const enum option_id alone = has_memory                          ? OPT_KV_MEMORY
                                     : option_given(options, OPT_ITL_MS) ? OPT_ITL_MS
                                     : out->sample                       ? OPT_SAMPLE
                                                                         : OPT_SHARED_PREFIX;
        if (!option_given(options, alone)) return APP_OK;
        return app_fail(APP_USAGE, "%s is for the engine, and --batch%s is missing",
                        option_name(options, alone, name),
                        alone == OPT_SHARED_PREFIX ? ""
                        : has_memory               ? ", --arrive or --speculate"
                                                   : " or --arrive");
    }
    const char *first = option_name(options, out->arrive ? OPT_ARRIVE : OPT_BATCH, first_name);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (option_given(options, others[i]))
            return app_fail(APP_USAGE, "%s cannot be combined with %s", first,
                            option_name(options, others[i], name));
    if (out->arrive && out->plot) return app_fail(APP_USAGE, "%s has no plot", first);
    if (out->arrive && out->shared_prefix >= 0)
        return app_fail(APP_USAGE, "%s cannot be combined with %s", first,
                        option_name(options, OPT_SHARED_PREFIX, name));
    if (out->shared_prefix > bench_list_largest(&out->n_prompt))
        return app_fail(APP_USAGE, "%s: %d is more than the prompt's %d tokens",
                        option_name(options, OPT_SHARED_PREFIX, name), out->shared_prefix,
                        bench_list_largest(&out->n_prompt));
    for (int i = 0; i < out->n_prompt.count; i++)
        if (out->n_prompt.value[i] < 1)
            return app_fail(APP_USAGE, "%s: prompts of 0 tokens are no requests", first);
    for (int i = 0; i < out->n_gen.count; i++)
        if (out->n_gen.value[i] < 2)
            return app_fail(APP_USAGE, "%s: --n-gen %d has no gaps between tokens", first,
                            out->n_gen.value[i]);
    if (!option_given(options, OPT_REPETITIONS)) out->repetitions = REPETITIONS_OF_BATCH;
    return APP_OK;
}

// What has no file cannot be given to another program.
static int peer_check(const struct options *options, const struct bench_config *config) {
    char name[64];
    if (!config->peer) {
        if (!config->peer_args) return APP_OK;
        return app_fail(APP_USAGE, "%s is for a peer, and --peer is missing",
                        option_name(options, OPT_PEER_ARGS, name));
    }
    for (int i = 0; i < config->n_models; i++) {
        const struct bench_model *model = &config->model[i];
        if (model->source == SOURCE_FILE) continue;
        return app_fail(APP_USAGE, "%s needs a model that is a file: %s%s has none",
                        option_name(options, OPT_PEER, name),
                        model->name ? "--synthetic " : "the embedded one",
                        model->name ? app_short(model->name).text : "");
    }
    return APP_OK;
}

static bool any_above_zero(const struct bench_list *list) {
    for (int i = 0; i < list->count; i++)
        if (list->value[i] > 0) return true;
    return false;
}

static int config_read(const struct options *options, struct bench_config *out) {
    const char *isa = option_text(options, OPT_ISA);
    *out = (struct bench_config){
        .repetitions = option_int(options, OPT_REPETITIONS),
        .batch_tokens = option_int(options, OPT_BATCH_TOKENS),
        .isa = strcmp(isa, "auto") ? isa : NULL,
        .kv_type = option_text(options, OPT_KV_TYPE),
        .peer = option_text(options, OPT_PEER),
        .peer_args = option_text(options, OPT_PEER_ARGS),
        .output = option_text(options, OPT_OUTPUT),
        .plot = option_text(options, OPT_PLOT),
        .stages = option_flag(options, OPT_STAGES),
        .quiet = option_flag(options, OPT_QUIET),
        .no_pin = option_flag(options, OPT_NO_PIN),
        .spec = {.on = option_flag(options, OPT_SPECULATE)},
    };
    int code;
    if ((code = models_read(options, OPT_MODEL, SOURCE_FILE, out))) return code;
    if ((code = models_read(options, OPT_SYNTHETIC, SOURCE_SYNTHETIC, out))) return code;
    if (!out->n_models) out->n_models = 1; // the embedded one
    if ((code = lists_read(options, out))) return code;
    if (!any_above_zero(&out->n_prompt) && !any_above_zero(&out->n_gen) && !out->verify.count)
        return app_fail(APP_USAGE, "nothing to measure: --n-prompt and --n-gen are 0");
    if ((code = batch_read(options, out))) return code;
    if ((code = bench_spec_read(options, out))) return code;
    return peer_check(options, out);
}

int bench_config_init(const struct options *options, struct bench_config *out) {
    const int code = config_read(options, out);
    if (code) bench_config_deinit(out);
    return code;
}

void bench_config_deinit(struct bench_config *config) {
    for (int i = 0; i < config->n_models; i++) free(config->model[i].name);
    config->n_models = 0;
}

// ---------------------------------------------------------------- tests

static struct bench_test test_prefill(int n_prompt, int depth, int batch) {
    return (struct bench_test){.kind = BENCH_PREFILL,
                               .n_prompt = n_prompt,
                               .n_depth = depth,
                               .n_seqs = 1,
                               .work = {.n_seqs = 1,
                                        .depth = depth,
                                        .n_positions = n_prompt,
                                        .step_tokens = n_prompt < batch ? n_prompt : batch,
                                        .advance = batch}};
}

// n_verify 0: decoding.
static struct bench_test test_steps(int n_gen, int depth, int n_seqs, int n_verify) {
    const int tokens = n_verify ? n_verify : 1;
    return (struct bench_test){.kind = n_verify ? BENCH_VERIFY : BENCH_DECODE,
                               .n_gen = n_gen,
                               .n_depth = depth,
                               .n_seqs = n_seqs,
                               .n_verify = n_verify,
                               .work = {.n_seqs = n_seqs,
                                        .depth = depth,
                                        .n_positions = n_gen - 1 + tokens,
                                        .step_tokens = tokens,
                                        .advance = 1,
                                        .all_logits = true}};
}

static void tests_at_depth(const struct bench_config *c, int depth, struct bench_test *out,
                           int *count) {
    int steps = VERIFY_STEPS;
    for (int i = 0; i < c->n_prompt.count; i++)
        if (c->n_prompt.value[i])
            out[(*count)++] = test_prefill(c->n_prompt.value[i], depth, c->batch_tokens);
    for (int i = 0; i < c->n_gen.count; i++) {
        if (!c->n_gen.value[i]) continue;
        steps = c->n_gen.value[i];
        for (int s = 0; s < c->streams.count; s++)
            out[(*count)++] = test_steps(steps, depth, c->streams.value[s], 0);
    }
    for (int i = 0; i < c->verify.count; i++)
        out[(*count)++] = test_steps(steps, depth, 1, c->verify.value[i]);
}

struct bench_test *bench_tests_make(const struct bench_config *config, int *count) {
    const size_t most =
        (size_t)config->n_depth.count *
        (size_t)(config->n_prompt.count + config->n_gen.count * config->streams.count +
                 config->verify.count);
    struct bench_test *tests = calloc(most, sizeof *tests);
    *count = 0;
    for (int i = 0; tests && i < config->n_depth.count; i++)
        tests_at_depth(config, config->n_depth.value[i], tests, count);
    return tests;
}
