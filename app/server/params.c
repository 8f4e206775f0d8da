// The generation fields: the rows of fields.def and of the sampling table, one after the other,
// each read by the function of its kind. Fields that fit no kind have a reader of their own here.
// Called by the prepare handlers, on a worker.
#include "params.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "helpers.h"
#include "json_edit.h"
#include "logit_bias.h"
#include "routing.h"
#include "samplers.h"

struct row;
typedef bool (*row_fn)(const struct fields *fields, const struct row *row, const char *name,
                       struct params *out);

struct row {
    unsigned families;
    const char *name; // "a.b": the field b of the object a
    row_fn read;
    size_t member, n_member; // offsets in struct params
    double min, max;         // of numbers; max also: bytes of a string, strings of a list
    size_t bytes_max;        // of a list's strings
    const char *allowed;     // JSON array
    const char *advice;      // what to do instead of a refused field; NULL if there is nothing
};

// ---------------------------------------------------------------- kinds of field

static void *member_of(const struct row *row, struct params *out) {
    return (char *)out + row->member;
}

static bool read_int(const struct fields *fields, const struct row *row, const char *name,
                     struct params *out) {
    int *member = member_of(row, out);
    int64_t value = *member;
    const bool ok = field_int(fields, name, (int64_t)row->min, (int64_t)row->max, &value);
    *member = (int)value;
    return ok;
}

static bool read_real(const struct fields *fields, const struct row *row, const char *name,
                      struct params *out) {
    return field_real(fields, name, row->min, row->max, member_of(row, out));
}

static bool read_float(const struct fields *fields, const struct row *row, const char *name,
                       struct params *out) {
    float *member = member_of(row, out);
    double value = (double)*member;
    const bool ok = field_real(fields, name, row->min, row->max, &value);
    *member = (float)value;
    return ok;
}

static bool read_bool(const struct fields *fields, const struct row *row, const char *name,
                      struct params *out) {
    return field_bool(fields, name, member_of(row, out));
}

static bool read_string(const struct fields *fields, const struct row *row, const char *name,
                        struct params *out) {
    return field_string(fields, name, (size_t)row->max, member_of(row, out), NULL);
}

static bool read_strings(const struct fields *fields, const struct row *row, const char *name,
                         struct params *out) {
    size_t *n = (void *)((char *)out + row->n_member);
    return field_strings(fields, name, (size_t)row->max, row->bytes_max, member_of(row, out), n);
}

// Whether value is the pattern; of objects, whether it has the pattern's members. 0 and 0.0 are
// equal.
static bool matches(const json_t *pattern, json_t *value) {
    if (json_is_number(pattern) && json_is_number(value))
        return json_number_value(pattern) == json_number_value(value);
    if (!json_is_object(pattern) || !json_is_object(value)) return json_equal(pattern, value);
    const char *key;
    const json_t *member;
    json_object_foreach((json_t *)(uintptr_t)pattern, key, member) {
        if (!json_equal(member, json_object_get(value, key))) return false;
    }
    return true;
}

static bool read_refused(const struct fields *fields, const struct row *row, const char *name,
                         struct params *out) {
    (void)out;
    json_t *value = json_object_get(fields->object, name);
    if (!value || json_is_null(value)) return true;
    json_t *allowed = json_loads(row->allowed, 0, NULL);
    if (!allowed) return call_refuse_memory(fields->call);
    bool found = false;
    for (size_t i = 0; i < json_array_size(allowed) && !found; i++)
        found = matches(json_array_get(allowed, i), value);
    char why[JSON_SHOWN_BYTES + 64] = "is not supported; leave it out", shown[JSON_SHOWN_BYTES];
    if (row->advice)
        snprintf(why, sizeof why, "is not supported: %s", row->advice);
    else if (json_array_size(allowed))
        snprintf(why, sizeof why, "is not supported; %s is",
                 json_shown(json_array_get(allowed, 0), shown));
    json_decref(allowed);
    return found || field_unsupported(fields, name, false, why);
}

// ---------------------------------------------------------------- fields of their own kind

static bool read_required_max_tokens(const struct fields *fields, const struct row *row,
                                     const char *name, struct params *out) {
    (void)row;
    if (!json_is_given(fields->object, name)) return field_refuse(fields, name, "field required");
    int64_t value = 0;
    const bool ok = field_int(fields, name, 1, INT32_MAX, &value);
    out->max_tokens = (int)value;
    return ok;
}

// vLLM's: the side that is cut off.
static bool read_truncation_side(const struct fields *fields, const struct row *row,
                                 const char *name, struct params *out) {
    (void)row;
    int side = 0;
    const bool ok = field_choice(fields, name, "left|right", &side);
    out->keep_start = side == 1;
    return ok;
}

// Choosing among more choices than are shown is not supported.
static bool read_best_of(const struct fields *fields, const struct row *row, const char *name,
                         struct params *out) {
    (void)row;
    int64_t value = out->n;
    if (!field_int(fields, name, 1, RN_MAX_CHOICES, &value)) return false;
    return value == out->n ||
           field_refuse(fields, name, "%d is not n, which is %d", (int)value, out->n);
}

// How many of the likeliest tokens; -1: all, as in vLLM.
static bool tops_read(const struct fields *fields, const char *name, int *out) {
    int64_t value = 0;
    if (!field_int(fields, name, RN_ALL_LOGPROBS, TOP_LOGPROBS_MAX, &value)) return false;
    *out = value < 0 ? params_vocab(fields->call) : (int)value;
    return value >= 0 || fields->call->server->config.all_logprobs ||
           field_refuse(fields, name, "-1, all of them, is for servers with --all-logprobs");
}

static bool read_top_logprobs(const struct fields *fields, const struct row *row, const char *name,
                              struct params *out) {
    (void)row;
    char shown[JSON_SHOWN_BYTES];
    if (!tops_read(fields, name, &out->top_logprobs)) return false;
    return !out->top_logprobs || out->logprobs ||
           field_refuse(fields, name, "%s is given, but logprobs is not true",
                        json_shown(json_object_get(fields->object, name), shown));
}

// 0 asks for none; more than a draft can have is no limit.
static bool read_draft_max(const struct fields *fields, const struct row *row, const char *name,
                           struct params *out) {
    (void)row;
    int64_t value = 0;
    if (!json_is_given(fields->object, name)) return true;
    const bool ok = field_int(fields, name, 0, INT32_MAX, &value);
    out->draft_max = value == 0 ? -1 : value > RN_MAX_DRAFT ? RN_MAX_DRAFT : (int)value;
    return ok;
}

// 0 asks for the logprobs of the text's own tokens.
static bool read_logprobs_count(const struct fields *fields, const struct row *row,
                                const char *name, struct params *out) {
    (void)row;
    out->logprobs = json_is_given(fields->object, name);
    return tops_read(fields, name, &out->top_logprobs);
}

// 0 asks for nothing.
static bool read_probs_count(const struct fields *fields, const struct row *row, const char *name,
                             struct params *out) {
    (void)row;
    int64_t value = 0;
    if (!field_int(fields, name, 0, TOP_LOGPROBS_MAX, &value)) return false;
    out->logprobs = value > 0;
    out->top_logprobs = (int)value;
    return true;
}

// vLLM's; 0 asks for the prompt's own tokens.
static bool read_prompt_logprobs(const struct fields *fields, const struct row *row,
                                 const char *name, struct params *out) {
    (void)row;
    char shown[JSON_SHOWN_BYTES];
    if (!json_is_given(fields->object, name)) return true;
    if (!tops_read(fields, name, &out->top_prompt_logprobs)) return false;
    out->prompt_logprobs = true;
    return !out->stream || field_refuse(fields, name, "%s is given, but a stream has none",
                                        json_shown(json_object_get(fields->object, name), shown));
}

static bool read_min_tokens(const struct fields *fields, const struct row *row, const char *name,
                            struct params *out) {
    (void)row;
    int64_t value = 0;
    if (!field_int(fields, name, 0, INT32_MAX, &value)) return false;
    if (out->max_tokens >= 0 && value > out->max_tokens)
        return field_refuse(fields, name, "%d is more than the %d tokens that may be written",
                            (int)value, out->max_tokens);
    out->min_tokens = (int)value;
    return true;
}

static bool read_stop_tokens(const struct fields *fields, const struct row *row, const char *name,
                             struct params *out) {
    (void)row;
    const json_t *array = NULL;
    const int n_vocab = params_vocab(fields->call);
    if (!field_array(fields, name, RN_MAX_STOP_TOKENS, &array)) return false;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *value = json_array_get(array, i);
        const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        char path[64], shown[JSON_SHOWN_BYTES];
        snprintf(path, sizeof path, "%s[%zu]", name, i);
        if (id < 0 || id >= n_vocab)
            return field_refuse(fields, path, "%s is not the id of a token, 0 to %d",
                                json_shown(value, shown), n_vocab - 1);
        out->stop_token[i] = (int32_t)id;
    }
    out->n_stop_token = json_array_size(array);
    return true;
}

static bool read_bad_words(const struct fields *fields, const struct row *row, const char *name,
                           struct params *out) {
    (void)row;
    if (!field_strings(fields, name, RN_MAX_BAD_WORDS, RN_MAX_BAD_WORD_BYTES, out->bad_words,
                       &out->n_bad_words))
        return false;
    for (size_t i = 0; i < out->n_bad_words; i++) {
        const char *word = out->bad_words[i];
        if (word[strspn(word, " \t\r\n")]) continue;
        char path[64], shown[JSON_SHOWN_BYTES];
        unicode_quote(word, strlen(word), shown, sizeof shown);
        snprintf(path, sizeof path, "%s[%zu]", name, i);
        return field_refuse(fields, path, "\"%s\" is blank", shown);
    }
    return true;
}

static bool read_effort(const struct fields *fields, const struct row *row, const char *name,
                        struct params *out) {
    (void)row;
    int effort = EFFORT_ABSENT;
    const bool ok = field_choice(fields, name, "none|minimal|low|medium|high|xhigh|max", &effort);
    out->effort = (enum effort)effort;
    return ok;
}

// There is one form of it, the reasoning itself.
static bool read_summary(const struct fields *fields, const struct row *row, const char *name,
                         struct params *out) {
    (void)row;
    int form = -1;
    if (!field_choice(fields, name, "auto|concise|detailed", &form)) return false;
    if (form >= 0) out->summary = true;
    return true;
}

// The sizes that are usual for models that know no efforts. The largest ones leave the model alone.
int params_effort_budget(enum effort effort) {
    static const int budgets[] = {
        [EFFORT_NONE] = 0,     [EFFORT_MINIMAL] = 256, [EFFORT_LOW] = 1024, [EFFORT_MEDIUM] = 8192,
        [EFFORT_HIGH] = 24576, [EFFORT_XHIGH] = -1,    [EFFORT_MAX] = -1,   [EFFORT_ABSENT] = -1};
    return budgets[effort];
}

// Ollama's: whether the model thinks, or how much.
static bool read_think(const struct fields *fields, const struct row *row, const char *name,
                       struct params *out) {
    static const enum effort efforts[] = {EFFORT_LOW, EFFORT_MEDIUM, EFFORT_HIGH, EFFORT_MAX};
    (void)row;
    const json_t *value = json_object_get(fields->object, name);
    int level = 0;
    if (!json_is_given(fields->object, name) || json_is_true(value)) return true;
    if (json_is_false(value)) {
        out->effort = EFFORT_NONE;
        return true;
    }
    if (!field_choice(fields, name, "low|medium|high|max", &level)) return false;
    out->effort = efforts[level];
    return true;
}

// Ollama's: -1 and -2 are up to the context.
static bool read_num_predict(const struct fields *fields, const struct row *row, const char *name,
                             struct params *out) {
    (void)row;
    int64_t value = out->max_tokens;
    const bool ok = field_int(fields, name, -2, INT32_MAX, &value);
    out->max_tokens = value < 0 ? -1 : (int)value;
    return ok;
}

// Anthropic's: of thinking that is enabled.
static bool read_thinking_budget(const struct fields *fields, const struct row *row,
                                 const char *name, struct params *out) {
    (void)row;
    int64_t value = -1;
    const char *type = json_string_value(json_object_get(fields->object, "type"));
    if (!json_is_given(fields->object, name)) return true;
    if (!field_int(fields, name, 1, INT32_MAX, &value)) return false;
    if (out->max_tokens >= 0 && value >= out->max_tokens)
        return field_refuse(fields, name, "%d is not less than max_tokens, %d", (int)value,
                            out->max_tokens);
    if (type && !strcmp(type, "enabled")) out->thinking_budget = (int)value;
    return true;
}

static bool seed_refuse(const struct fields *fields, const char *name, const char *shown) {
    return field_refuse(fields, name,
                        "%s is not between -9223372036854775808 and 18446744073709551615", shown);
}

static bool read_seed(const struct fields *fields, const struct row *row, const char *name,
                      struct params *out) {
    (void)row;
    if (!json_is_given(fields->object, name)) return true;
    const json_t *given = json_object_get(fields->object, name);
    const double real = json_is_real(given) ? json_real_value(given) : 0;
    const struct json_big *big = &fields->call->big_seed[*fields->path ? SEED_OPTIONS : SEED_BODY];
    out->sampling.has_seed = true;
    if (*big->text) {
        out->sampling.seed = big->value;
        return big->fits || seed_refuse(fields, name, big->text);
    }
    if (real >= 0x1p63 && real < 0x1p64) { // such as 1e19
        out->sampling.seed = (uint64_t)real;
        return true;
    }
    if (real >= 0x1p64 || real < -0x1p63) {
        char shown[JSON_SHOWN_BYTES];
        return seed_refuse(fields, name, json_shown(given, shown));
    }
    int64_t value = 0;
    const bool ok = field_int(fields, name, INT64_MIN, INT64_MAX, &value);
    out->sampling.seed = (uint64_t)value;
    return ok;
}

// -1, which clients may have kept as 32 bits without a sign, asks for a random one.
static bool read_seed_or_random(const struct fields *fields, const struct row *row,
                                const char *name, struct params *out) {
    const bool ok = read_seed(fields, row, name, out);
    const uint64_t seed = out->sampling.seed;
    if (json_is_given(fields->object, name) && (seed == UINT64_MAX || seed == UINT32_MAX))
        out->sampling.has_seed = false;
    return ok;
}

static bool read_logit_bias(const struct fields *fields, const struct row *row, const char *name,
                            struct params *out) {
    return logit_bias_read(fields, name, (size_t)row->max, out);
}

// The steps that the list lacks are switched off when the settings were read.
static bool read_samplers(const struct fields *fields, const struct row *row, const char *name,
                          struct params *out) {
    (void)row;
    return samplers_read(fields, name, &out->samplers_off);
}

static bool read_dry_sequence_breakers(const struct fields *fields, const struct row *row,
                                       const char *name, struct params *out) {
    if (!json_is_given(fields->object, name)) return true;
    out->sampling.dry_sequence_breakers = out->breakers;
    return field_strings(fields, name, (size_t)row->max, RN_MAX_DRY_BREAKER_BYTES, out->breakers,
                         &out->sampling.n_dry_sequence_breakers);
}

// The ids are checked here; the request makes a set of them (streams.c).
static bool read_allowed_tokens(const struct fields *fields, const struct row *row,
                                const char *name, struct params *out) {
    (void)row;
    const int n_vocab = params_vocab(fields->call);
    if (!json_is_given(fields->object, name)) return true;
    if (!field_array(fields, name, (size_t)n_vocab, &out->allowed)) return false;
    for (size_t i = 0; i < json_array_size(out->allowed); i++) {
        const json_t *item = json_array_get(out->allowed, i);
        const json_int_t id = json_is_integer(item) ? json_integer_value(item) : -1;
        char shown[JSON_SHOWN_BYTES];
        if (id < 0 || id >= n_vocab)
            return field_refuse(fields, name, "item %zu, %s, is not a token id from 0 to %d", i,
                                json_shown(item, shown), n_vocab - 1);
    }
    return json_array_size(out->allowed) || field_refuse(fields, name, "[] allows no token");
}

// ---------------------------------------------------------------- the table

#define MEMBER(name) offsetof(struct params, name)

enum { // the rows of the sampling table, for its aliases
#define SAMPLING_NUMBER(kind, id, ...) ROW_##id,
#define SAMPLING_LIST(id, ...)         ROW_##id,
#include "plan/sampling.def"
};

#define read_FLOAT read_float
#define read_INT   read_int
static const struct row sampling_rows[] = {
#define SAMPLING_NUMBER(kind, id, field, neutral, least, most, json, ...)                          \
    [ROW_##id] = {.families = FAMILY_ANY,                                                          \
                  .name = json,                                                                    \
                  .read = read_##kind,                                                             \
                  .member = MEMBER(sampling.field),                                                \
                  .min = least,                                                                    \
                  .max = most},
#define SAMPLING_LIST(id, field, item, most, json, ...)                                            \
    [ROW_##id] = {.families = FAMILY_ANY, .name = json, .read = read_##field, .max = most},
#include "plan/sampling.def"
};
#undef read_FLOAT
#undef read_INT

static const struct {
    int row;
    const char *name;
} sampling_aliases[] = {
#define SAMPLING_JSON_ALIAS(id, json) {ROW_##id, json},
#include "plan/sampling.def"
};

static const struct row rows[] = {
#define FIELD_INT(which, json, field, least, most)                                                 \
    {.families = which,                                                                            \
     .name = json,                                                                                 \
     .read = read_int,                                                                             \
     .member = MEMBER(field),                                                                      \
     .min = least,                                                                                 \
     .max = most},
#define FIELD_REAL(which, json, field, least, most)                                                \
    {.families = which,                                                                            \
     .name = json,                                                                                 \
     .read = read_real,                                                                            \
     .member = MEMBER(field),                                                                      \
     .min = least,                                                                                 \
     .max = most},
#define FIELD_BOOL(which, json, field)                                                             \
    {.families = which, .name = json, .read = read_bool, .member = MEMBER(field)},
#define FIELD_STRING(which, json, field, most)                                                     \
    {.families = which, .name = json, .read = read_string, .member = MEMBER(field), .max = most},
#define FIELD_STRINGS(which, json, field, most, bytes)                                             \
    {.families = which,                                                                            \
     .name = json,                                                                                 \
     .read = read_strings,                                                                         \
     .member = MEMBER(field),                                                                      \
     .n_member = MEMBER(n_##field),                                                                \
     .max = most,                                                                                  \
     .bytes_max = bytes},
#define FIELD_OWN(which, json, reader) {.families = which, .name = json, .read = read_##reader},
#define FIELD_REFUSED(which, json, values)                                                         \
    {.families = which, .name = json, .read = read_refused, .allowed = values},
#define FIELD_REPLACED(which, json, values, instead)                                               \
    {.families = which, .name = json, .read = read_refused, .allowed = values, .advice = instead},
#include "fields.def"
};

// ---------------------------------------------------------------- reading it

static bool row_read(const struct fields *top, const struct row *row, struct params *out) {
    const char *dot = strchr(row->name, '.');
    if (!dot || json_object_get(top->object, row->name)) return row->read(top, row, row->name, out);
    char parent[64];
    const size_t len = (size_t)(dot - row->name);
    assert(len < sizeof parent);
    memcpy(parent, row->name, len);
    parent[len] = '\0';
    const json_t *object = NULL;
    if (!field_object(top, parent, &object)) return false;
    if (!object) return true;
    const struct fields inner = fields_of(top->call, object, parent);
    return row->read(&inner, row, dot + 1, out);
}

static bool sampling_read(const struct fields *top, struct params *out) {
    for (size_t i = 0; i < sizeof sampling_rows / sizeof *sampling_rows; i++)
        if (!row_read(top, &sampling_rows[i], out)) return false;
    for (size_t i = 0; i < sizeof sampling_aliases / sizeof *sampling_aliases; i++) {
        struct row row = sampling_rows[sampling_aliases[i].row];
        row.name = sampling_aliases[i].name;
        if (!row_read(top, &row, out)) return false;
    }
    return true;
}

// One more name of the list, with the text before it. False: no more fit.
static bool name_add(char *out, size_t size, const char *before, const char *name) {
    enum { MORE = sizeof ", ..." };
    const size_t len = strlen(out);
    const int n = snprintf(out + len, size - len, "%s`%s`", before, name);
    if (n >= 0 && (size_t)n + MORE < size - len) return true;
    snprintf(out + len, size - len, ", ...");
    return false;
}

// `name` (also `alias`, `alias`)
static bool names_add(const struct served *served, char *out, size_t size) {
    const char *before = " (also ";
    if (!name_add(out, size, *out ? ", " : "", served->name)) return false;
    for (int i = 0; i < served->n_aliases; i++) {
        if (!strcmp(served->aliases[i], served->name)) continue; // the first names the model
        if (!name_add(out, size, before, served->aliases[i])) return false;
        before = ", ";
    }
    if (*before == ',') strcat(out, ")");
    return true;
}

// As many names of models as fit.
static void names_list(const struct server *server, char *out, size_t size) {
    bool fits = true;
    *out = '\0';
    for (int i = 0; i < server->n_served && fits; i++)
        fits = names_add(&server->served[i], out, size);
}

bool params_no_model(struct call *call, const char *name) {
    char shown[128], names[640];
    unicode_quote(name, strlen(name), shown, sizeof shown);
    if (call_api_of(call) == API_OLLAMA) // the sentence that its clients match
        return call_refuse(call, 404, "model", "model_not_found", "model '%s' not found", shown);
    names_list(call->server, names, sizeof names);
    return call_refuse(call, 404, "model", "model_not_found",
                       "The model `%s` does not exist. This server has %s%s", shown, names,
                       call->server->loader ? "."
                                            : "; its option --alias gives the model another name.");
}

// A server of one model has nothing to choose: clients send the name that they were set up with.
static bool takes_any_name(const struct server *server) {
    return !server->loader && !server->config.strict_model;
}

bool params_model(struct call *call, const json_t *body) {
    const struct fields fields = fields_of(call, body, "");
    const char *name = "";
    if (!field_string(&fields, "model", SIZE_MAX, &name, NULL)) return false;
    return !*name || takes_any_name(call->server) || served_is_named(call->served, name) ||
           params_no_model(call, name);
}

bool params_read(struct call *call, const json_t *body, enum family family, struct params *out) {
    *out = (struct params){.id_slot = -1,
                           .sampling = call->served->sampling,
                           .n = 1,
                           .max_tokens = call->served->max_tokens,
                           .stream = family == FAMILY_OLLAMA,
                           .include_reasoning = true,
                           .effort = EFFORT_ABSENT,
                           .thinking_budget = -1};
    struct fields top = fields_of(call, body, "");
    if (!params_model(call, body)) return false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((rows[i].families & (unsigned)family) && !row_read(&top, &rows[i], out)) return false;
    if (family == FAMILY_OLLAMA) {
        const json_t *options = NULL;
        if (!field_object(&top, "options", &options)) return false;
        top = fields_of(call, options, "options");
    }
    if (!sampling_read(&top, out) || !routing_params(call, body, out)) return false;
    samplers_apply(out->samplers_off, &out->sampling);
    const double limit_ms = call->server->config.request_s * 1e3;
    if (limit_ms > 0 && out->timeout_ms > limit_ms) out->timeout_ms = limit_ms;
    return true;
}
