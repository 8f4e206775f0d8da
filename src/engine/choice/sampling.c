// The parameters of a request: their check by the table, and the copy that a sequence keeps. Called
// at submit.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "engine/choice/sampling.h"
#include "unicode/unicode.h"

// ---------------------------------------------------------------- the table and the struct

// The table's version of rn_sampling. The public struct is written out for its readers; a field
// that one of the two lacks, has in another place or with another type breaks the build here.
struct table_fields {
#define TABLE_FLOAT                           float
#define TABLE_INT                             int
#define SAMPLING_NUMBER(kind, id, field, ...) TABLE_##kind field;
#define SAMPLING_LIST(id, field, item, ...)                                                        \
    item const *field;                                                                             \
    size_t n_##field;
#include "plan/sampling.def"
    bool has_seed;
    uint64_t seed;
    uint64_t room[8];
};

#define SAME_FIELD(field)                                                                          \
    _Static_assert(offsetof(struct table_fields, field) == offsetof(rn_sampling, field) &&         \
                       _Generic(&((rn_sampling *)NULL)->field,                                     \
                                __typeof__(&((struct table_fields *)NULL)->field)                  \
                                : true, default                                                    \
                                : false),                                                          \
                   "rn_sampling." #field " is not as the table has it");
#define SAMPLING_NUMBER(kind, id, field, ...) SAME_FIELD(field)
#define SAMPLING_LIST(id, field, ...)         SAME_FIELD(field) SAME_FIELD(n_##field)
#include "plan/sampling.def"
SAME_FIELD(has_seed)
SAME_FIELD(seed)
_Static_assert(sizeof(struct table_fields) == sizeof(rn_sampling),
               "rn_sampling has a field that the table lacks");

rn_sampling rn_sampling_neutral(void) {
    return (rn_sampling){
#define SAMPLING_NUMBER(kind, id, field, neutral_, ...) .field = neutral_,
#include "plan/sampling.def"
    };
}

// ---------------------------------------------------------------- check

enum kind { KIND_FLOAT, KIND_INT };

static const struct number {
    const char *name;
    size_t offset;
    enum kind kind;
    double min, max;
} numbers[] = {
#define SAMPLING_NUMBER(kind_, id, field, neutral, min_, max_, ...)                                \
    {#field, offsetof(rn_sampling, field), KIND_##kind_, min_, max_},
#include "plan/sampling.def"
};

static rn_status check_number(const rn_sampling *s, const struct number *number, rn_error *err) {
    const void *at = (const char *)s + number->offset;
    const double value =
        number->kind == KIND_INT ? (double)*(const int *)at : (double)*(const float *)at;
    if (value >= number->min && value <= number->max) return RN_OK;
    if (number->kind == KIND_INT)
        return err_set(err, RN_ERR_ARG, "%s is %.0f, expected %.0f to %.0f", number->name, value,
                       number->min, number->max);
    return err_set(err, RN_ERR_ARG, "%s is %g, expected %g to %g", number->name, value, number->min,
                   number->max);
}

static const struct list {
    const char *name;
    size_t offset; // of its count
    size_t max;
} lists[] = {
#define SAMPLING_LIST(id, field, item, max_, ...) {#field, offsetof(rn_sampling, n_##field), max_},
#include "plan/sampling.def"
};

static rn_status check_list(const rn_sampling *s, const struct list *list, rn_error *err) {
    const size_t count = *(const size_t *)(const void *)((const char *)s + list->offset);
    if (count <= list->max) return RN_OK;
    return err_set(err, RN_ERR_ARG, "%s has %zu entries, expected at most %zu", list->name, count,
                   list->max);
}

static rn_status check_bias(const rn_sampling *s, rn_error *err) {
    for (size_t i = 0; i < s->n_logit_bias; i++)
        if (!(s->logit_bias[i].bias >= -100 && s->logit_bias[i].bias <= 100))
            return err_set(err, RN_ERR_ARG, "logit_bias of token %d is %g, expected -100 to 100",
                           s->logit_bias[i].token, (double)s->logit_bias[i].bias);
    return RN_OK;
}

static rn_status check_breakers(const rn_sampling *s, rn_error *err) {
    for (size_t i = 0; i < s->n_dry_sequence_breakers; i++) {
        const char *text = s->dry_sequence_breakers[i];
        const size_t len = strnlen(text, RN_MAX_DRY_BREAKER_BYTES + 1);
        if (len == 0 || len > RN_MAX_DRY_BREAKER_BYTES)
            return err_set(err, RN_ERR_ARG,
                           "dry_sequence_breakers: text %zu is %s, expected 1 to %d bytes", i,
                           len ? "too long" : "empty", RN_MAX_DRY_BREAKER_BYTES);
        if (!unicode_is_valid(text, len))
            return err_set(err, RN_ERR_ARG, "dry_sequence_breakers: text %zu is not valid UTF-8",
                           i);
    }
    return RN_OK;
}

rn_status sampling_check(const rn_sampling *sampling, rn_error *err) {
    rn_status status = sized_check("sampling", sampling->room, sizeof sampling->room, err);
    for (size_t i = 0; !status && i < sizeof numbers / sizeof *numbers; i++)
        status = check_number(sampling, &numbers[i], err);
    for (size_t i = 0; !status && i < sizeof lists / sizeof *lists; i++)
        status = check_list(sampling, &lists[i], err);
    if (!status) status = check_bias(sampling, err);
    if (!status) status = check_breakers(sampling, err);
    return status;
}

// ---------------------------------------------------------------- copy

static const char *const default_breakers[] = {"\n", ":", "\"", "*"};

static bool contains(struct text_span text, const char *const *part, size_t n_part,
                     const bool starts[256]) {
    for (size_t at = 0; at < text.len; at++) {
        if (!starts[(unsigned char)text.data[at]]) continue; // most bytes end here
        for (size_t i = 0; i < n_part; i++) {
            const size_t len = strlen(part[i]);
            if (len <= text.len - at && memcmp(text.data + at, part[i], len) == 0) return true;
        }
    }
    return false;
}

// One pass over the vocabulary's text.
static rn_status breakers_find(const rn_sampling *s, const struct tokenizer *tokenizer,
                               struct token_set *out, rn_error *err) {
    const bool given = s->dry_sequence_breakers != NULL;
    const char *const *part = given ? s->dry_sequence_breakers : default_breakers;
    const size_t n_part =
        given ? s->n_dry_sequence_breakers : sizeof default_breakers / sizeof *default_breakers;
    const int32_t n_vocab = tokenizer_size(tokenizer);
    if (s->dry_multiplier == 0 || n_part == 0) return RN_OK;
    out->bits = calloc(token_set_words(n_vocab), sizeof *out->bits);
    if (!out->bits) return err_set(err, RN_ERR_NOMEM, "no memory for the breakers of DRY");
    bool starts[256] = {false};
    for (size_t i = 0; i < n_part; i++) starts[(unsigned char)part[i][0]] = true;
    for (int32_t id = 0; id < n_vocab; id++)
        if (contains(tokenizer_bytes(tokenizer, id), part, n_part, starts))
            out->bits[id / 64] |= UINT64_C(1) << (id % 64);
    return RN_OK;
}

// In the order of their ids; biases of one id stay in the given order.
static rn_status bias_dup(const rn_sampling *s, int32_t n_vocab, const rn_logit_bias **out,
                          rn_error *err) {
    for (size_t i = 0; i < s->n_logit_bias; i++)
        if (s->logit_bias[i].token < 0 || s->logit_bias[i].token >= n_vocab)
            return err_set(err, RN_ERR_ARG, "logit_bias names token %d, expected 0 to %d",
                           s->logit_bias[i].token, n_vocab - 1);
    if (s->n_logit_bias == 0) return RN_OK;
    rn_logit_bias *copy = calloc(s->n_logit_bias, sizeof *copy);
    if (!copy) return err_set(err, RN_ERR_NOMEM, "no memory for %zu biases", s->n_logit_bias);
    for (size_t i = 0; i < s->n_logit_bias; i++) {
        size_t at = i;
        for (; at > 0 && copy[at - 1].token > s->logit_bias[i].token; at--) copy[at] = copy[at - 1];
        copy[at] = s->logit_bias[i];
    }
    *out = copy;
    return RN_OK;
}

rn_status sampling_dup(const rn_sampling *sampling, const struct tokenizer *tokenizer,
                       rn_sampling *out, struct token_set *breakers, rn_error *err) {
    *out = *sampling;
    *breakers = (struct token_set){0};
    out->logit_bias = NULL;
    out->dry_sequence_breakers = NULL;
    out->n_dry_sequence_breakers = 0;
    rn_status status = bias_dup(sampling, tokenizer_size(tokenizer), &out->logit_bias, err);
    if (!status) status = breakers_find(sampling, tokenizer, breakers, err);
    if (status) sampling_deinit(out, breakers);
    return status;
}

void sampling_deinit(rn_sampling *sampling, struct token_set *breakers) {
    free((void *)(uintptr_t)sampling->logit_bias);
    free(breakers->bits);
    sampling->logit_bias = NULL;
    sampling->n_logit_bias = 0;
    breakers->bits = NULL;
}
