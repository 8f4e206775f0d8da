// The options of `runnel bench` as a config. Every value is checked here, before anything is
// measured. Lists have commas, and options may be repeated. There are two tables: the lists with
// their ranges, and the measurements that an option belongs to.
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "models/find.h"
#include "run/draft.h"
#include "run/engine.h"

enum { MAX_TOKENS = 1 << 24, MAX_SEQS = 4096, BANDWIDTH_MS = 200, BANDWIDTH_OF_TOUR_MS = 100 };

static const char *const drafter_names[DRAFTER_COUNT] = {
    [DRAFTER_NONE] = "none",           [DRAFTER_MODEL] = "model", [DRAFTER_LOOKUP] = "lookup",
    [DRAFTER_SHARED] = "shared",       [DRAFTER_MTP] = "mtp",     [DRAFTER_AUTO] = "auto",
    [DRAFTER_SYNTHETIC] = "synthetic",
};

const char *bench_drafter_name(enum bench_drafter drafter) { return drafter_names[drafter]; }

// ---------------------------------------------------------------- lists

enum item_kind { ITEM_WHOLE, ITEM_REAL, ITEM_LENGTH, ITEM_DRAFTER };

static const struct list_row {
    enum option_id id;
    size_t offset; // of the list in the config
    enum item_kind kind;
    int min, max;
} lists[] = {
#define LIST_AT(field) offsetof(struct bench_config, field)
    {OPT_N_PROMPT, LIST_AT(n_prompt), ITEM_WHOLE, 0, MAX_TOKENS},
    {OPT_N_GEN, LIST_AT(n_gen), ITEM_WHOLE, 0, MAX_TOKENS},
    {OPT_PROMPT_GEN, LIST_AT(prompt_gen), ITEM_WHOLE, 1, MAX_TOKENS},
    {OPT_N_DEPTH, LIST_AT(n_depth), ITEM_WHOLE, 0, MAX_TOKENS},
    {OPT_THREADS, LIST_AT(threads), ITEM_WHOLE, 1, 1024},
    {OPT_STREAMS, LIST_AT(streams), ITEM_WHOLE, 1, MAX_SEQS},
    {OPT_VERIFY, LIST_AT(verify), ITEM_WHOLE, 1, MAX_SEQS},
    {OPT_BATCH, LIST_AT(batch), ITEM_WHOLE, 1, MAX_SEQS},
    {OPT_ITL_MS, LIST_AT(itl_ms), ITEM_WHOLE, 0, 1000000},
    {OPT_DRAFTERS, LIST_AT(drafters), ITEM_DRAFTER, 0, 0},
    {OPT_DRAFT_LENGTHS, LIST_AT(lengths), ITEM_LENGTH, 1, RN_MAX_DRAFT},
    {OPT_TEMPERATURES, LIST_AT(temperatures), ITEM_REAL, 0, 100},
    {OPT_ACCEPTANCE, LIST_AT(acceptances), ITEM_REAL, 0, 1},
#undef LIST_AT
};

int bench_list_at(const struct bench_list *list, int index) { return (int)list->value[index]; }

int bench_list_largest(const struct bench_list *list) {
    double most = 0;
    for (int i = 0; i < list->count; i++) most = fmax(most, list->value[i]);
    return (int)most;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

// False: the text is not such an item.
static bool item_read(const struct list_row *row, const char *text, double *out) {
    char *end = NULL;
    errno = 0;
    if (row->kind == ITEM_DRAFTER) {
        for (int i = 0; i < DRAFTER_COUNT; i++) {
            *out = i;
            if (!strcmp(text, drafter_names[i])) return true;
        }
        return false;
    }
    *out = 0;
    if (row->kind == ITEM_LENGTH && !strcmp(text, "auto")) return true;
    if (!is_digit(*text) && !(row->kind == ITEM_REAL && *text == '.')) return false;
    *out = row->kind == ITEM_REAL ? strtod(text, &end) : (double)strtoll(text, &end, 10);
    return !*end && !errno && isfinite(*out) && *out >= row->min && *out <= row->max;
}

static int item_fail(const struct list_row *row, const char *name, const char *item) {
    char wanted[96];
    if (row->kind == ITEM_DRAFTER)
        snprintf(wanted, sizeof wanted, "not one of none|model|lookup|shared|mtp|auto|synthetic");
    else
        snprintf(wanted, sizeof wanted, "%s number from %d to %d",
                 row->kind == ITEM_LENGTH ? "neither auto nor a whole"
                 : row->kind == ITEM_REAL ? "not a"
                                          : "not a whole",
                 row->min, row->max);
    return app_fail(APP_USAGE, "%s: '%s' is %s", name, app_short(item).text, wanted);
}

// Adds the items of a text with commas. name NULL: the text is the default, which is not checked.
static int items_add(const struct list_row *row, const char *name, const char *text,
                     struct bench_list *out) {
    while (text) {
        char item[96];
        const size_t len = strcspn(text, ",");
        double value;
        snprintf(item, sizeof item, "%.*s", (int)(len < sizeof item ? len : sizeof item - 1), text);
        if (!item_read(row, item, &value) && name) return item_fail(row, name, item);
        if (out->count == BENCH_MAX_LIST)
            return app_fail(APP_USAGE, "%s: '%s' is one too many: at most %d are possible", name,
                            app_short(item).text, BENCH_MAX_LIST);
        out->value[out->count++] = value;
        text = text[len] ? text + len + 1 : NULL;
    }
    return APP_OK;
}

static int lists_read(const struct options *options, struct bench_config *config) {
    int code = APP_OK;
    for (size_t i = 0; !code && i < sizeof lists / sizeof *lists; i++) {
        const struct option_value *value = &options->value[lists[i].id];
        struct bench_list *out = (struct bench_list *)((char *)config + lists[i].offset);
        char buffer[64];
        const bool given = option_given(options, lists[i].id);
        const char *name = given ? option_name(options, lists[i].id, buffer) : NULL;
        for (int j = 0; !code && j < value->n_list; j++)
            code = items_add(&lists[i], name, value->list[j], out);
    }
    return code;
}

// ---------------------------------------------------------------- models

// Adds the models of a list option. A file whose name has commas is one model.
static int models_read(const struct options *options, enum option_id id, enum bench_source source,
                       struct bench_config *config) {
    const struct option_value *value = &options->value[id];
    const int most = (int)(sizeof config->model / sizeof *config->model);
    char name[64];
    option_name(options, id, name);
    for (int i = 0; i < value->n_list; i++) {
        const bool is_file = source == SOURCE_FILE && access(value->list[i], F_OK) == 0;
        for (const char *at = value->list[i]; at;) {
            const size_t len = is_file ? strlen(at) : strcspn(at, ",");
            if (len == 0) return app_fail(APP_USAGE, "%s: '' is not a model", name);
            if (config->n_models == most)
                return app_fail(APP_USAGE, "%s: more than %d models", name, most);
            char *copy = strndup(at, len);
            if (!copy) return app_fail(APP_FAILED, "out of memory");
            config->model[config->n_models++] = (struct bench_model){source, copy};
            at = at[len] ? at + len + 1 : NULL;
        }
    }
    return APP_OK;
}

// Names of models on this machine become paths.
static int models_find(struct bench_config *config) {
    for (int i = 0; i < config->n_models; i++) {
        struct bench_model *model = &config->model[i];
        char *path = NULL;
        if (model->source != SOURCE_FILE) continue;
        const int code = model_path_find(model->name, false, &path);
        if (code) return code;
        free(model->name);
        model->name = path;
    }
    return APP_OK;
}

// ---------------------------------------------------------------- combinations

enum {
    STEPS = 1 << MEASURE_STEPS,
    STREAMS = 1 << MEASURE_STREAMS,
    DRAFTS = 1 << MEASURE_DRAFTS,
    TOUR = 1 << MEASURE_TOUR
};

static const char for_drafts[] = "is for drafts, and --speculate";

// An option is refused where the measurement does not use it.
static const struct rule {
    enum option_id id;
    unsigned measures;   // that use the option
    bool from_anywhere;  // otherwise the command line alone: elsewhere it may be for other commands
    const char *missing; // for the message where no measurement was chosen
} rules[] = {
    {OPT_N_DEPTH, STEPS | TOUR, true, ""},
    {OPT_VERIFY, STEPS, true, ""},
    {OPT_PROMPT_GEN, STEPS, true, ""},
    {OPT_PEER, STEPS, true, ""},
    {OPT_PEER_ARGS, STEPS, true, ""},
    {OPT_STAGES, STEPS, true, ""},
    {OPT_STREAMS, STEPS | DRAFTS | TOUR, true, ""},
    {OPT_BATCH, STREAMS, true, ""},
    {OPT_SPECULATE, STEPS | STREAMS | DRAFTS, false, ""},
    {OPT_ARRIVE, STREAMS, true, ""},
    {OPT_KV_MEMORY, STREAMS | DRAFTS, false,
     "is for the engine, and --batch, --arrive or --speculate"},
    {OPT_ITL_MS, STREAMS, true, "is for the engine, and --batch or --arrive"},
    {OPT_SAMPLE, STREAMS, true, "is for the engine, and --batch or --arrive"},
    {OPT_SHARED_PREFIX, STREAMS, true, "is for the engine, and --batch"},
    {OPT_DRAFTERS, DRAFTS, false, for_drafts},
    {OPT_DRAFT_LENGTHS, DRAFTS, false, for_drafts},
    {OPT_ACCEPTANCE, DRAFTS, false, for_drafts},
    {OPT_TEMPERATURES, DRAFTS, false, for_drafts},
    {OPT_FORCED, DRAFTS, false, for_drafts},
    {OPT_DRAFT, DRAFTS | TOUR, false, for_drafts},
    {OPT_DRAFT_BACKEND, DRAFTS | TOUR, false, for_drafts},
    {OPT_DRAFT_DEVICE, DRAFTS | TOUR, false, for_drafts},
};

// The option that chose the measurement, as a message names it.
static const char *chooser_name(const struct options *options, const struct bench_config *config,
                                char buffer[64]) {
    const enum option_id id = config->measure == MEASURE_TOUR     ? OPT_TOUR
                              : config->measure == MEASURE_DRAFTS ? OPT_SPECULATE
                              : config->arrive                    ? OPT_ARRIVE
                                                                  : OPT_BATCH;
    return option_name(options, id, buffer);
}

static int rules_check(const struct options *options, const struct bench_config *config) {
    char name[64], first[64];
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct rule *rule = &rules[i];
        const bool ours =
            rule->from_anywhere || options->value[rule->id].origin == ORIGIN_COMMAND_LINE;
        if (!option_given(options, rule->id) || !ours || rule->measures & 1u << config->measure)
            continue;
        option_name(options, rule->id, name);
        if (config->measure == MEASURE_STEPS)
            return app_fail(APP_USAGE, "%s %s is missing", name, rule->missing);
        return app_fail(APP_USAGE, "%s cannot be combined with %s",
                        chooser_name(options, config, first), name);
    }
    return APP_OK;
}

static int steps_check(const struct options *options, const struct bench_config *config) {
    char name[64];
    if (config->prompt_gen.count % 2)
        return app_fail(APP_USAGE,
                        "%s: '%s' is not P,N: the tokens of a prompt, and those behind it",
                        option_name(options, OPT_PROMPT_GEN, name),
                        app_short(option_text(options, OPT_PROMPT_GEN)).text);
    if (!bench_list_largest(&config->n_prompt) && !bench_list_largest(&config->n_gen) &&
        !config->verify.count && !config->prompt_gen.count)
        return app_fail(APP_USAGE, "nothing to measure: --n-prompt and --n-gen are 0");
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

static int streams_check(const struct options *options, const struct bench_config *config) {
    char name[64], first_name[64];
    const char *first = chooser_name(options, config, first_name);
    const int longest = bench_list_largest(&config->n_prompt);
    if (config->arrive && config->plot) return app_fail(APP_USAGE, "%s has no plot", first);
    if (config->arrive && config->shared_prefix >= 0)
        return app_fail(APP_USAGE, "%s cannot be combined with %s", first,
                        option_name(options, OPT_SHARED_PREFIX, name));
    if (config->shared_prefix > longest)
        return app_fail(APP_USAGE, "%s: %d is more than the prompt's %d tokens",
                        option_name(options, OPT_SHARED_PREFIX, name), config->shared_prefix,
                        longest);
    for (int i = 0; i < config->n_prompt.count; i++)
        if (bench_list_at(&config->n_prompt, i) < 1)
            return app_fail(APP_USAGE, "%s: prompts of 0 tokens are no requests", first);
    for (int i = 0; i < config->n_gen.count; i++)
        if (bench_list_at(&config->n_gen, i) < 2)
            return app_fail(APP_USAGE, "%s: --n-gen %d has no gaps between tokens", first,
                            bench_list_at(&config->n_gen, i));
    return APP_OK;
}

bool bench_has_draft(const struct bench_config *config, const struct bench_model *model) {
    return config->draft || (model->source == SOURCE_EMBEDDED && !config->no_draft);
}

static int drafts_check(const struct options *options, const struct bench_config *config) {
    char name[64];
    if (config->n_gen.count != 1 || bench_list_at(&config->n_gen, 0) < 2)
        return app_fail(APP_USAGE, "%s: --speculate takes one number of tokens, at least 2",
                        option_name(options, OPT_N_GEN, name));
    if (config->has_prompt &&
        (config->n_prompt.count != 1 || bench_list_at(&config->n_prompt, 0) < 1))
        return app_fail(APP_USAGE, "%s: --speculate takes one length, at least 1",
                        option_name(options, OPT_N_PROMPT, name));
    if (config->forced && !*config->forced)
        return app_fail(APP_USAGE, "%s: '' is no text", option_name(options, OPT_FORCED, name));
    if (config->plot && !bench_list_largest(&config->lengths))
        return app_fail(APP_USAGE, "--plot draws lengths of drafts, and --draft-lengths has none");
    for (int i = 0; i < config->drafters.count; i++)
        for (int m = 0; m < config->n_models; m++)
            if (bench_list_at(&config->drafters, i) == DRAFTER_MODEL &&
                !bench_has_draft(config, &config->model[m]))
                return app_fail(APP_USAGE,
                                "--drafters: 'model' drafts with a model, and --draft names none");
    return APP_OK;
}

static bool is_rising(const struct bench_list *list) {
    for (int i = 1; i < list->count; i++)
        if (list->value[i] <= list->value[i - 1]) return false;
    return true;
}

// A section of the tour varies one number; the others are the same for all.
static int tour_check(const struct options *options, const struct bench_config *config) {
    static const struct {
        enum option_id id;
        size_t offset; // of the list in the config
        int least;
    } single[] = {{OPT_N_PROMPT, offsetof(struct bench_config, n_prompt), 1},
                  {OPT_N_GEN, offsetof(struct bench_config, n_gen), 2},
                  {OPT_THREADS, offsetof(struct bench_config, threads), 0}};
    char name[64];
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
        const struct bench_list *list = (const void *)((const char *)config + single[i].offset);
        if (list->count != 1 || bench_list_at(list, 0) < single[i].least)
            return app_fail(APP_USAGE, "%s: --tour takes one number, at least %d",
                            option_name(options, single[i].id, name),
                            single[i].least ? single[i].least : 1);
    }
    if (!is_rising(&config->streams))
        return app_fail(APP_USAGE, "%s: --tour takes rising numbers",
                        option_name(options, OPT_STREAMS, name));
    if (!is_rising(&config->n_depth))
        return app_fail(APP_USAGE, "%s: --tour takes rising numbers",
                        option_name(options, OPT_N_DEPTH, name));
    if (strcmp(config->output, "md") != 0 && strcmp(config->output, "json") != 0)
        return app_fail(APP_USAGE, "%s: %s: the rows of --tour have different columns",
                        option_name(options, OPT_OUTPUT, name), config->output);
    return APP_OK;
}

// ---------------------------------------------------------------- the config

// The tour's own numbers, where none are given: less than a minute in all. Depths are left to the
// model's context.
static void tour_defaults(const struct options *options, struct bench_config *config) {
    static const struct bench_list streams = {{1, 2, 4, 8, 16, 32, 64}, 7};
    if (config->measure != MEASURE_TOUR) return;
    if (!option_given(options, OPT_N_PROMPT)) config->n_prompt.value[0] = 256;
    if (!option_given(options, OPT_N_GEN)) config->n_gen.value[0] = 32;
    if (!option_given(options, OPT_STREAMS)) config->streams = streams;
    if (!option_given(options, OPT_N_DEPTH)) config->n_depth.count = 0;
}

static enum bench_measure measure_of(const struct options *options) {
    if (option_flag(options, OPT_TOUR)) return MEASURE_TOUR;
    if (option_flag(options, OPT_SPECULATE)) return MEASURE_DRAFTS;
    return option_given(options, OPT_BATCH) || option_given(options, OPT_ARRIVE) ? MEASURE_STREAMS
                                                                                 : MEASURE_STEPS;
}

static int repetitions_of(const struct options *options, enum bench_measure measure) {
    if (option_given(options, OPT_REPETITIONS) || measure == MEASURE_STEPS)
        return option_int(options, OPT_REPETITIONS);
    return measure == MEASURE_STREAMS ? REPETITIONS_OF_BATCH
           : measure == MEASURE_TOUR  ? REPETITIONS_OF_TOUR
                                      : REPETITIONS_OF_SPECULATE;
}

static void scalars_read(const struct options *options, struct bench_config *out) {
    const char *isa = option_text(options, OPT_ISA);
    const char *draft = option_text(options, OPT_DRAFT);
    const bool no_draft = draft && !strcmp(draft, "none");
    const enum bench_measure measure = measure_of(options);
    *out = (struct bench_config){
        .measure = measure,
        .arrive = option_int(options, OPT_ARRIVE),
        .shared_prefix = option_int(options, OPT_SHARED_PREFIX),
        .sample = option_flag(options, OPT_SAMPLE),
        .has_prompt = option_given(options, OPT_N_PROMPT),
        .draft = no_draft ? NULL : draft,
        .no_draft = no_draft,
        .draft_backend = option_text(options, OPT_DRAFT_BACKEND),
        .draft_device = option_int(options, OPT_DRAFT_DEVICE),
        .forced = option_text(options, OPT_FORCED),
        .repetitions = repetitions_of(options, measure),
        .batch_tokens = option_int(options, OPT_BATCH_TOKENS),
        .bandwidth_ms = measure == MEASURE_TOUR ? BANDWIDTH_OF_TOUR_MS : BANDWIDTH_MS,
        .place = {.backend = option_text(options, OPT_BACKEND),
                  .device = option_int(options, OPT_DEVICE)},
        .isa = strcmp(isa, "auto") ? isa : NULL,
        .kv_type = option_given(options, OPT_KV_TYPE) ? option_text(options, OPT_KV_TYPE) : NULL,
        .peer = option_text(options, OPT_PEER),
        .peer_args = option_text(options, OPT_PEER_ARGS),
        .output = option_text(options, OPT_OUTPUT),
        .plot = option_text(options, OPT_PLOT),
        .stages = option_flag(options, OPT_STAGES),
        .quiet = option_flag(options, OPT_QUIET),
        .no_pin = option_flag(options, OPT_NO_PIN),
    };
    app_engine_memory(options, &out->memory);
}

// The device, before a model is opened. A set of the CPU's kernels is no use on another device.
static int device_find(const struct options *options, struct bench_config *config) {
    const struct tools_device *device = &config->device;
    char name[64];
    rn_error err = {0};
    if (tools_device_find(&config->place, &config->device, &err)) return app_fail_error(&err);
    if (*device->note && !config->quiet && isatty(STDERR_FILENO))
        app_fail(APP_OK, "%s", device->note);
    if (!*device->name || !config->isa) return APP_OK;
    if (!config->quiet)
        app_fail(APP_OK, "%s is for the CPU; %s has kernels of its own",
                 option_name(options, OPT_ISA, name), device->name);
    config->isa = NULL;
    return APP_OK;
}

// A draft block is a part of the models, and no model.
static int block_find(const struct options *options, struct bench_config *config) {
    char *path = NULL;
    int code = config->draft ? model_path_find(config->draft, true, &path) : APP_OK;
    if (path && rn_model_is_block(path)) {
        config->block = config->draft;
        config->draft = NULL;
        if (config->draft_backend) code = draft_fail_place(options, path);
    }
    free(path);
    return code;
}

static int config_read(const struct options *options, struct bench_config *out) {
    static int (*const checks[])(const struct options *, const struct bench_config *) = {
        [MEASURE_STEPS] = steps_check,
        [MEASURE_STREAMS] = streams_check,
        [MEASURE_DRAFTS] = drafts_check,
        [MEASURE_TOUR] = tour_check,
    };
    scalars_read(options, out);
    int code = models_read(options, OPT_MODEL, SOURCE_FILE, out);
    if (!code) code = models_read(options, OPT_SYNTHETIC, SOURCE_SYNTHETIC, out);
    if (!code) code = models_find(out);
    if (!code && !out->n_models) out->n_models = 1; // the embedded one
    if (!code) code = block_find(options, out);
    if (!code) code = lists_read(options, out);
    if (!code) tour_defaults(options, out);
    if (!code) code = rules_check(options, out);
    if (!code) code = app_belongs(options, OPT_DRAFT_DEVICE, OPT_DRAFT_BACKEND);
    if (!code) code = checks[out->measure](options, out);
    return code ? code : device_find(options, out);
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
