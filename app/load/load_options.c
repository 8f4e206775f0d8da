// The options of `runnel bench serve` as a configuration. Lists, lengths and JSON are checked here,
// so that a bad value is named before a server is asked.
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/plot.h"
#include "load/load.h"
#include "terminal/json.h"

enum { OPEN_MOST = 4096, CONCURRENCY_MOST = 65536 };

// ---------------------------------------------------------------- lists

// The next item of a text with commas or blanks between; false: the end.
static bool item_next(const char **text, char out[32], bool *fits) {
    *text += strspn(*text, ", ");
    const size_t len = strcspn(*text, ", ");
    *fits = len < 32;
    snprintf(out, 32, "%.*s", (int)(len < 32 ? len : 31), *text);
    *text += len;
    return len > 0;
}

static bool number_parse(const char *text, double least, double most, bool whole, double *out) {
    char *end = NULL;
    *out = strtod(text, &end);
    const bool plain = *text && strspn(text, whole ? "0123456789" : "0123456789.") == strlen(text);
    return plain && !*end && *out >= least && *out <= most;
}

static int levels_get(const struct options *options, enum option_id id, struct load_config *out) {
    const struct option_value *value = &options->value[id];
    const bool rates = id == OPT_RATE;
    char item[32], name[OPTION_NAME_SIZE];
    bool fits;
    out->n_levels = 0;
    for (int i = 0; i < value->n_list; i++) {
        for (const char *at = value->list[i]; item_next(&at, item, &fits);) {
            double x;
            if (!fits ||
                !number_parse(item, rates ? 1e-3 : 1, rates ? 1e6 : CONCURRENCY_MOST, !rates, &x))
                return app_fail(APP_USAGE, "%s: '%s' is not a %s", option_name(options, id, name),
                                item,
                                rates ? "rate from 0.001 to 1000000"
                                      : "whole number from 1 to 65536");
            if (out->n_levels == LOAD_LEVELS_MAX)
                return app_fail(APP_USAGE, "%s: more than %d levels",
                                option_name(options, id, name), LOAD_LEVELS_MAX);
            if (rates)
                out->rate[out->n_levels] = x;
            else
                out->level[out->n_levels] = (int)x;
            out->n_levels++;
        }
    }
    if (out->n_levels == 0)
        return app_fail(APP_USAGE, "%s: the list is empty", option_name(options, id, name));
    return APP_OK;
}

static int goodput_get(const struct options *options, struct load_config *out) {
    const struct option_value *value = &options->value[OPT_GOODPUT];
    const struct {
        const char *name;
        double *to;
    } bounds[] = {{"ttft:", &out->slo.ttft_ms},
                  {"tpot:", &out->slo.tpot_ms},
                  {"e2el:", &out->slo.e2el_ms}};
    char item[32];
    bool fits;
    for (int i = 0; i < value->n_list; i++) {
        for (const char *at = value->list[i]; item_next(&at, item, &fits);) {
            bool known = false;
            for (int j = 0; j < 3 && fits; j++)
                known |= !strncmp(item, bounds[j].name, 5) &&
                         number_parse(item + 5, 1e-3, 1e9, false, bounds[j].to);
            if (!known)
                return app_fail(APP_USAGE, "--goodput: '%s' is not ttft:MS, tpot:MS or e2el:MS",
                                item);
            out->slo.any = true;
        }
    }
    return APP_OK;
}

// ---------------------------------------------------------------- values

static int lengths_get(const struct options *options, enum option_id id, struct dist *out) {
    const char *text = option_text(options, id);
    char name[OPTION_NAME_SIZE];
    if (dist_parse(text, out)) return APP_OK;
    return app_fail(APP_USAGE,
                    "%s: '%s' is not a length: N, FROM-TO, normal:MEAN:STD or lognormal:MEAN:STD",
                    option_name(options, id, name), app_short(text).text);
}

// {"a":1} becomes ,"a":1 .
static int extra_get(const struct options *options, struct load_config *out) {
    const char *text = option_text(options, OPT_EXTRA);
    if (!text) return APP_OK;
    json_error_t problem;
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
    if (!json_is_object(value)) {
        const bool other = value != NULL;
        json_decref(value);
        return app_fail(APP_USAGE, "--extra: '%s' is not a JSON object%s%s", app_short(text).text,
                        other ? "" : ": ", other ? "" : problem.text);
    }
    char *dump = json_object_size(value) ? json_dumps(value, JSON_COMPACT) : strdup("{}");
    json_decref(value);
    if (!dump) return app_fail(APP_FAILED, "out of memory");
    dump[0] = ',';
    dump[strlen(dump) - 1] = '\0';
    if (dump[1])
        out->extra = dump;
    else
        free(dump);
    return APP_OK;
}

static int json_check(const char *path) {
    const bool is_new = access(path, F_OK) != 0;
    FILE *file = fopen(path, "ab");
    if (!file)
        return app_fail(APP_USAGE, "--json: '%s': %s", app_short(path).text, strerror(errno));
    fclose(file);
    if (is_new) unlink(path);
    return APP_OK;
}

static int load_get(const struct options *options, struct load_config *out) {
    const char *trace = option_text(options, OPT_TRACE);
    int code = levels_get(options, OPT_CONCURRENCY, out);
    out->open = trace || option_given(options, OPT_RATE);
    out->most_at_once = OPEN_MOST;
    if (!code && out->open && option_given(options, OPT_CONCURRENCY)) {
        out->most_at_once = out->level[0];
        out->n_bounds = out->n_levels;
    }
    if (!code && option_given(options, OPT_RATE)) code = levels_get(options, OPT_RATE, out);
    if (!code && trace) {
        out->n_levels = 1;
        code = arrivals_read(trace, &out->trace);
    }
    if (!code) code = lengths_get(options, OPT_INPUT_TOKENS, &out->input);
    if (!code) code = lengths_get(options, OPT_OUTPUT_TOKENS, &out->output);
    if (!code) code = goodput_get(options, out);
    if (!code) code = extra_get(options, out);
    return code;
}

static void plain_get(const struct options *options, struct load_config *out) {
    out->url = option_text(options, OPT_URL);
    out->model_path = option_text(options, OPT_MODEL);
    out->server_args = option_text(options, OPT_SERVER_ARGS);
    out->api_key = option_text(options, OPT_API_KEY);
    out->model_name = option_text(options, OPT_MODEL_NAME);
    out->prompt_ids = option_flag(options, OPT_PROMPT_IDS);
    out->chat = !out->prompt_ids && !strcmp(option_text(options, OPT_ENDPOINT), "chat");
    out->ignore_eos = option_flag(options, OPT_IGNORE_EOS);
    out->poisson = !strcmp(option_text(options, OPT_ARRIVALS), "poisson");
    out->ramp = option_flag(options, OPT_RAMP);
    out->duration_s = option_real(options, OPT_DURATION);
    const bool is_whole = out->duration_s > 0 || option_given(options, OPT_TRACE);
    out->requests = is_whole && !option_given(options, OPT_REQUESTS)
                        ? 100000000
                        : option_int(options, OPT_REQUESTS);
    out->timeout_s = option_real(options, OPT_REQUEST_TIMEOUT);
    out->prefix = option_int(options, OPT_SHARED_PREFIX);
    out->groups = option_int(options, OPT_PREFIX_GROUPS);
    out->turns = option_int(options, OPT_TURNS);
    out->think_s = option_real(options, OPT_THINK_MS) * 1e-3;
    out->speedup = option_real(options, OPT_SPEEDUP);
    out->seed = (uint64_t)options->value[OPT_SEED].integer;
    out->side[0] = option_text(options, OPT_COMPARE);
    out->side[1] = options->positional;
    out->rounds = option_int(options, OPT_ROUNDS);
    out->json = option_text(options, OPT_JSON);
    out->plot = option_text(options, OPT_PLOT);
    out->check = option_flag(options, OPT_CHECK);
    out->quiet = option_flag(options, OPT_QUIET);
}

// ---------------------------------------------------------------- options that exclude each other

// Pairs: the second makes no sense beside the first.
static int pairs_check(const struct options *options) {
    static const enum option_id pairs[][2] = {
        {OPT_URL, OPT_MODEL},           {OPT_URL, OPT_SERVER_ARGS},
        {OPT_URL, OPT_COMPARE},         {OPT_TRACE, OPT_RATE},
        {OPT_TRACE, OPT_RAMP},          {OPT_TRACE, OPT_TURNS},
        {OPT_TRACE, OPT_INPUT_TOKENS},  {OPT_TRACE, OPT_OUTPUT_TOKENS},
        {OPT_TRACE, OPT_SHARED_PREFIX}, {OPT_PROMPT_IDS, OPT_TURNS},
        {OPT_COMPARE, OPT_RAMP},        {OPT_COMPARE, OPT_PLOT},
        {OPT_COMPARE, OPT_CHECK},       {OPT_COMPARE, OPT_TRACE},
    };
    char a[OPTION_NAME_SIZE], b[OPTION_NAME_SIZE];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const enum option_id first = pairs[i][0], second = pairs[i][1];
        // a model or a key in the environment is for other commands too
        if (options->value[first].origin == ORIGIN_NONE ||
            options->value[second].origin != ORIGIN_COMMAND_LINE)
            continue;
        return app_fail(APP_USAGE, "%s and %s exclude each other", option_name(options, first, a),
                        option_name(options, second, b));
    }
    return APP_OK;
}

// The first has an effect only with the second.
static int owners_check(const struct options *options) {
    static const enum option_id owners[][2] = {
        {OPT_SPEEDUP, OPT_TRACE},  {OPT_ROUNDS, OPT_COMPARE},
        {OPT_THINK_MS, OPT_TURNS}, {OPT_PREFIX_GROUPS, OPT_SHARED_PREFIX},
        {OPT_ARRIVALS, OPT_RATE},
    };
    int code = APP_OK;
    for (size_t i = 0; !code && i < sizeof owners / sizeof *owners; i++)
        code = app_belongs(options, owners[i][0], owners[i][1]);
    return code;
}

// A ramp makes its own levels, and the bound of an open load is one number.
static int levels_check(const struct options *options, const struct load_config *config) {
    if (config->ramp && config->n_levels > 1)
        return app_fail(APP_USAGE, "--ramp takes one level of load, not %d", config->n_levels);
    if (config->n_bounds > 1)
        return app_fail(APP_USAGE, "--concurrency takes one number beside %s, not %d",
                        option_given(options, OPT_RATE) ? "--rate" : "--trace", config->n_bounds);
    return APP_OK;
}

static int sides_check(const struct load_config *config) {
    if (config->side[0] && !config->side[1])
        return app_fail(APP_USAGE, "--compare: '%s' is one side; two are needed",
                        app_short(config->side[0]).text);
    if (config->side[0] && config->n_levels > 1)
        return app_fail(APP_USAGE, "--compare takes one level of load, not %d", config->n_levels);
    return APP_OK;
}

int load_config_init(const struct options *options, struct load_config *out) {
    *out = (struct load_config){0};
    plain_get(options, out);
    int code = pairs_check(options);
    if (!code) code = owners_check(options);
    if (!code) code = load_get(options, out);
    if (!code) code = levels_check(options, out);
    if (!code) code = sides_check(out);
    if (!code && out->plot) code = plot_check("--plot", out->plot);
    if (!code && out->json) code = json_check(out->json);
    if (code) load_config_deinit(out);
    return code;
}

void load_config_deinit(struct load_config *config) {
    free(config->extra);
    arrivals_free(&config->trace);
    *config = (struct load_config){0};
}
