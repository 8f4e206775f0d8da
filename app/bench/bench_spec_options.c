// The options of `runnel bench --speculate`; every value is checked here, before anything runs.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_spec.h"

enum { MAX_TEMPERATURE = 100 };

static const char *const drafter_names[BENCH_DRAFTER_COUNT] = {
    [BENCH_DRAFTER_NONE] = "none",     [BENCH_DRAFTER_MODEL] = "model",
    [BENCH_DRAFTER_LOOKUP] = "lookup", [BENCH_DRAFTER_SHARED] = "shared",
    [BENCH_DRAFTER_AUTO] = "auto",     [BENCH_DRAFTER_SYNTHETIC] = "synthetic",
};

const char *spec_drafter_name(enum bench_drafter drafter) { return drafter_names[drafter]; }

// ---------------------------------------------------------------- lists

// Adds an item to the config; name is the option's.
typedef int (*item_fn)(const char *name, const char *item, struct bench_spec_config *out);

static int items_read(const struct options *options, enum option_id id, item_fn add,
                      struct bench_spec_config *out) {
    const struct option_value *value = &options->value[id];
    char buffer[64], item[96];
    const char *name = option_name(options, id, buffer);
    for (int i = 0; i < value->n_list; i++) {
        size_t len;
        const char *at = value->list[i];
        while (bench_item_next(&at, item, sizeof item, &len)) {
            const int code = add(name, item, out);
            if (code) return code;
        }
    }
    return APP_OK;
}

static int whole_add(const char *name, const char *item, int number, struct bench_list *list) {
    if (list->count == BENCH_MAX_LIST)
        return app_fail(APP_USAGE, "%s: '%s' is one too many: at most %d are possible", name,
                        app_short(item).text, BENCH_MAX_LIST);
    list->value[list->count++] = number;
    return APP_OK;
}

static int real_add(const char *name, const char *item, double max, struct bench_reals *list) {
    char *end = NULL;
    errno = 0;
    const double number = strtod(item, &end);
    if (!strchr("0123456789.", item[0]) || !*item || *end || !isfinite(number) || number < 0 ||
        number > max)
        return app_fail(APP_USAGE, "%s: '%s' is not a number from 0 to %g", name,
                        app_short(item).text, max);
    if (list->count == BENCH_MAX_LIST)
        return app_fail(APP_USAGE, "%s: '%s' is one too many: at most %d are possible", name,
                        app_short(item).text, BENCH_MAX_LIST);
    list->value[list->count++] = number;
    return APP_OK;
}

static int drafter_add(const char *name, const char *item, struct bench_spec_config *out) {
    for (int i = 0; i < BENCH_DRAFTER_COUNT; i++)
        if (!strcmp(item, drafter_names[i])) return whole_add(name, item, i, &out->drafters);
    return app_fail(APP_USAGE, "%s: '%s' is not one of none|model|lookup|shared|auto|synthetic",
                    name, app_short(item).text);
}

static int length_add(const char *name, const char *item, struct bench_spec_config *out) {
    char *end = NULL;
    const bool is_auto = !strcmp(item, "auto");
    const long number = is_auto ? 0 : strtol(item, &end, 10);
    if (!is_auto && (item[0] < '0' || item[0] > '9' || *end || number < 1 || number > RN_MAX_DRAFT))
        return app_fail(APP_USAGE, "%s: '%s' is neither auto nor a whole number from 1 to %d", name,
                        app_short(item).text, RN_MAX_DRAFT);
    return whole_add(name, item, (int)number, &out->lengths);
}

static int temperature_add(const char *name, const char *item, struct bench_spec_config *out) {
    return real_add(name, item, MAX_TEMPERATURE, &out->temperatures);
}

static int acceptance_add(const char *name, const char *item, struct bench_spec_config *out) {
    return real_add(name, item, 1, &out->acceptances);
}

// ---------------------------------------------------------------- all of them

// Options that make no sense without the flag; what the environment has may be for other commands.
static int alone_check(const struct options *options) {
    static const enum option_id ours[] = {OPT_DRAFTERS,     OPT_DRAFT_LENGTHS, OPT_ACCEPTANCE,
                                          OPT_TEMPERATURES, OPT_FORCED,        OPT_DRAFT};
    char name[64];
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (options->value[ours[i]].origin == ORIGIN_COMMAND_LINE)
            return app_fail(APP_USAGE, "%s is for drafts, and --speculate is missing",
                            option_name(options, ours[i], name));
    return APP_OK;
}

static int others_check(const struct options *options) {
    static const enum option_id others[] = {OPT_N_DEPTH, OPT_VERIFY,        OPT_PEER,
                                            OPT_STAGES,  OPT_BATCH,         OPT_ARRIVE,
                                            OPT_SAMPLE,  OPT_SHARED_PREFIX, OPT_ITL_MS};
    char name[64], first[64];
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (option_given(options, others[i]))
            return app_fail(APP_USAGE, "%s cannot be combined with %s",
                            option_name(options, OPT_SPECULATE, first),
                            option_name(options, others[i], name));
    return APP_OK;
}

static int lists_read(const struct options *options, struct bench_spec_config *out) {
    int code = items_read(options, OPT_DRAFTERS, drafter_add, out);
    if (!code) code = items_read(options, OPT_DRAFT_LENGTHS, length_add, out);
    if (!code) code = items_read(options, OPT_TEMPERATURES, temperature_add, out);
    if (!code) code = items_read(options, OPT_ACCEPTANCE, acceptance_add, out);
    return code;
}

static int request_read(const struct options *options, struct bench_config *out) {
    char name[64];
    if (out->n_gen.count != 1 || out->n_gen.value[0] < 2)
        return app_fail(APP_USAGE, "%s: --speculate takes one number of tokens, at least 2",
                        option_name(options, OPT_N_GEN, name));
    if (option_given(options, OPT_N_PROMPT)) {
        if (out->n_prompt.count != 1 || out->n_prompt.value[0] < 1)
            return app_fail(APP_USAGE, "%s: --speculate takes one length, at least 1",
                            option_name(options, OPT_N_PROMPT, name));
        out->spec.n_prompt = out->n_prompt.value[0];
    }
    out->spec.forced = option_text(options, OPT_FORCED);
    if (out->spec.forced && !*out->spec.forced)
        return app_fail(APP_USAGE, "%s: '' is no text", option_name(options, OPT_FORCED, name));
    return APP_OK;
}

bool spec_has_draft(const struct bench_config *config, const struct bench_model *model) {
    return config->spec.draft || (model->source == SOURCE_EMBEDDED && !config->spec.no_draft);
}

static int drafters_check(const struct bench_config *config) {
    const struct bench_list *drafters = &config->spec.drafters;
    for (int i = 0; i < drafters->count; i++)
        for (int m = 0; m < config->n_models; m++)
            if (drafters->value[i] == BENCH_DRAFTER_MODEL &&
                !spec_has_draft(config, &config->model[m]))
                return app_fail(APP_USAGE,
                                "--drafters: 'model' drafts with a model, and --draft names none");
    return APP_OK;
}

int bench_spec_read(const struct options *options, struct bench_config *out) {
    struct bench_spec_config *spec = &out->spec;
    if (!spec->on) return alone_check(options);
    const char *draft = option_text(options, OPT_DRAFT);
    int code = others_check(options);
    if (!code) code = lists_read(options, spec);
    if (!code) code = request_read(options, out);
    if (code) return code;
    if (out->plot && bench_list_largest(&spec->lengths) == 0)
        return app_fail(APP_USAGE, "--plot draws lengths of drafts, and --draft-lengths has none");
    spec->no_draft = draft && !strcmp(draft, "none");
    spec->draft = spec->no_draft ? NULL : draft;
    if ((code = drafters_check(out))) return code;
    if (!option_given(options, OPT_REPETITIONS)) out->repetitions = REPETITIONS_OF_SPECULATE;
    return APP_OK;
}
