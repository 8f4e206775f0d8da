// The sampling options: every row of the table becomes a field; the lists have a syntax of their
// own.
#include "run/sampling.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"

// "ID+X", "ID-X" or "ID=X".
static bool bias_parse(const char *text, int n_vocab, rn_logit_bias *out) {
    char *end = NULL;
    errno = 0;
    const long id = text[0] >= '0' && text[0] <= '9' ? strtol(text, &end, 10) : -1;
    if (id < 0 || id >= n_vocab || errno) return false;
    if (*end != '+' && *end != '-' && *end != '=') return false;
    const char *number = *end == '=' ? end + 1 : end;
    const char *digits = number + (*number == '+' || *number == '-');
    const double bias = strtod(number, &end);
    const bool decimal = (*digits >= '0' && *digits <= '9') || *digits == '.';
    if (!decimal || number[strspn(number, "0123456789.eE+-")] || end == number || *end)
        return false;
    if (!isfinite(bias) || bias < -100 || bias > 100) return false;
    *out = (rn_logit_bias){(int32_t)id, (float)bias};
    return true;
}

static int biases_get(const struct options *options, const rn_model_info *info,
                      struct sampling *out) {
    const struct option_value *given = &options->value[OPT_LOGIT_BIAS];
    for (int i = 0; i < given->n_list; i++) {
        if (!bias_parse(given->list[i], info->n_vocab, &out->bias[i])) {
            char name[64];
            return app_fail(APP_USAGE,
                            "%s: '%s' is not ID+X, ID-X or ID=X with a token id from 0 to %d and "
                            "X from -100 to 100",
                            option_name(options, OPT_LOGIT_BIAS, name),
                            app_short(given->list[i]).text, info->n_vocab - 1);
        }
    }
    out->value.logit_bias = out->bias;
    out->value.n_logit_bias = (size_t)given->n_list;
    return APP_OK;
}

// "none" alone is an empty list, which the library tells from no list.
static int breakers_get(const struct options *options, rn_sampling *out) {
    const struct option_value *given = &options->value[OPT_DRY_SEQUENCE_BREAKER];
    for (int i = 0; i < given->n_list; i++) {
        const size_t len = strlen(given->list[i]);
        if (len <= RN_MAX_DRY_BREAKER_BYTES) continue;
        char name[64];
        return app_fail(APP_USAGE, "%s: text %d, '%s', has %zu bytes; at most %d are possible",
                        option_name(options, OPT_DRY_SEQUENCE_BREAKER, name), i + 1,
                        app_short(given->list[i]).text, len, RN_MAX_DRY_BREAKER_BYTES);
    }
    out->dry_sequence_breakers = given->list;
    out->n_dry_sequence_breakers = (size_t)given->n_list;
    if (given->n_list == 1 && !strcmp(given->list[0], "none")) out->n_dry_sequence_breakers = 0;
    return APP_OK;
}

int sampling_get(const struct options *options, const rn_model_info *info, struct sampling *out) {
    rn_sampling *s = &out->value;
    *s = rn_sampling_neutral();
#define SAMPLING_MODEL(id, field, member, otherwise) s->field = info->member;
#include "plan/sampling.def"
#define OPTION_FLOAT_OF (float)option_real
#define OPTION_INT_OF   option_int
#define SAMPLING_NUMBER(kind, id, field, ...)                                                      \
    if (option_given(options, OPT_##id)) s->field = OPTION_##kind##_OF(options, OPT_##id);
#include "plan/sampling.def"
#undef OPTION_FLOAT_OF
#undef OPTION_INT_OF
    s->has_seed = option_given(options, OPT_SEED);
    s->seed = (uint64_t)options->value[OPT_SEED].integer;
    const int code = breakers_get(options, s);
    return code ? code : biases_get(options, info, out);
}
