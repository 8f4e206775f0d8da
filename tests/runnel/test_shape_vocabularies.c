// Shapes over vocabularies of real files: the bytes of a token are those that it adds to a text,
// and masks are what these bytes say.
#include "base/utf8.h"
#include "engine/choice/shape.h"
#include "golden.h"
#include "runnel.h"

static const char *const sets[] = {"deepseek-v3", "falcon",  "gpt-2",     "gpt-4o", "llama-bpe",
                                   "qwen2",       "spm-bpe", "starcoder", "tekken"};
enum { N_SETS = sizeof sets / sizeof *sets, N_VOCAB_MAX = 4096, N_STEPS = 24 };

static const struct {
    rn_shape_kind kind;
    const char *text;
} sources[] = {
    {RN_SHAPE_SCHEMA, "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"n\":{"
                      "\"type\":\"number\"},\"tags\":{\"type\":\"array\",\"items\":{\"type\":"
                      "\"string\",\"maxLength\":9}}},\"required\":[\"name\",\"tags\"]}"},
    {RN_SHAPE_REGEX, "[\\w .,]{1,40}(?: -> |\\u00e9+)[^\"]*"},
    {RN_SHAPE_STRUCTURE, "{\"type\":\"triggered_tags\",\"triggers\":[\"<f\"],\"tags\":[{\"begin\":"
                         "\"<f=a>\",\"content\":{\"type\":\"json_schema\",\"style\":\"qwen_xml\","
                         "\"json_schema\":{\"type\":\"object\"}},\"end\":\"</f>\"}]}"},
};
enum { N_SOURCES = sizeof sources / sizeof *sources };

static uint64_t seed = 88172645463325252u;
static uint32_t below(uint32_t n) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32) % n;
}

static rn_model *open_vocab(const char *set) {
    char path[DATA_PATH_BYTES];
    rn_model *model;
    rn_error err;
    snprintf(path, sizeof path, TEST_DATA "/tokenizers/%s/vocab.gguf", set);
    check(rn_model_open_vocab(path, &model, &err) == RN_OK, "%s", err.message);
    return model;
}

// An x before the token, since some vocabularies drop a blank where a text starts.
static void check_bytes(const rn_model *model, const char *set, int32_t x, int32_t id) {
    const int32_t ids[] = {x, id};
    char *text;
    size_t len, own;
    const char *bytes = rn_token_bytes(model, id, &own);
    for (size_t i = 0, n; i < own; i += n) { // half a character is no text of its own
        n = utf8_length((const uint8_t *)bytes + i, own - i);
        if (n == 0) return;
    }
    check(rn_detokenize(model, ids, 2, false, &text, &len, NULL) == RN_OK, "%s", set);
    check(len == own + 1 || len == 1, "%s: token %d adds %zu bytes, expected %zu", set, id, len - 1,
          own); // a special token adds none
    check(len == 1 || memcmp(text + 1, bytes, own) == 0, "%s: token %d", set, id);
    rn_free(text);
}

static bool has(const uint64_t *bits, int32_t id) { return bits[id / 64] >> (id % 64) & 1; }

// Every token of the vocabulary against the definition.
static void check_mask(struct constraint_run *run, const rn_model *model, const uint64_t *bits,
                       int n, const char *what) {
    for (int32_t id = 0; id < n; id++) {
        const rn_constraint hook = constraint_hook(run);
        size_t len;
        const char *bytes = rn_token_bytes(model, id, &len);
        hook.advance(hook.ctx, 0, id);
        const bool by_id = constraint_feed(run, 0, "", 0);
        hook.rollback(hook.ctx, 0, 2);
        // no text has the bytes around special tokens
        const bool by_bytes = constraint_feed(run, 0, bytes, len) && !memchr(bytes, 0xFF, len) &&
                              !memchr(bytes, 0xFE, len);
        hook.rollback(hook.ctx, 0, 1);
        if (has(bits, id) == by_id && by_id == (by_bytes && len)) continue;
        // special tokens: ends, and those that free text may hold
        const int32_t ids[] = {id};
        char *text;
        size_t shown;
        check(rn_detokenize(model, ids, 1, false, &text, &shown, NULL) == RN_OK, "detokenize");
        check(shown == 0, "%s: token %d: the mask says %d, its bytes say %d", what, id,
              has(bits, id), by_bytes);
        rn_free(text);
    }
}

static void walk(const rn_model *model, const struct rn_shape *shape, int n, const char *what) {
    struct constraint_run *run;
    check(!constraint_open(shape->constraint, 1, &run, NULL), "open");
    const rn_constraint hook = constraint_hook(run);
    for (int step = 0; step < N_STEPS; step++) {
        uint64_t bits[N_VOCAB_MAX / 64];
        memset(bits, 0xff, sizeof bits);
        hook.mask(hook.ctx, 0, bits, n);
        if (step % 6 == 0) check_mask(run, model, bits, n, what);
        int32_t pick = -1;
        uint32_t found = 0;
        for (int32_t id = 0; id < n; id++)
            if (has(bits, id) && below(++found) == 0) pick = id;
        check(pick >= 0, "%s: no token left", what);
        if (constraint_may_end(run, 0) && below(8) == 0) break;
        hook.advance(hook.ctx, 0, pick);
        if (step % 5 == 4) hook.rollback(hook.ctx, 0, 2);
    }
    constraint_close(run);
}

CASE(masks_are_what_the_bytes_of_tokens_say) {
    for (int i = 0; i < N_SETS; i++) {
        rn_model *model = open_vocab(sets[i]);
        const int n = rn_model_get_info(model)->n_vocab;
        int32_t *x;
        size_t n_x;
        check(n <= N_VOCAB_MAX, "%s: %d tokens", sets[i], n);
        check(rn_tokenize(model, "x", 1, 0, &x, &n_x, NULL) == RN_OK && n_x > 0, "%s", sets[i]);
        for (int32_t id = 0; id < n; id++) {
            size_t len;
            const char *bytes = rn_token_bytes(model, id, &len);
            if (len == 1 && bytes[0] == 'x') x[0] = id;
        }
        for (int32_t id = 0; id < n; id++) check_bytes(model, sets[i], x[0], id);
        rn_free(x);
        for (int k = 0; k < N_SOURCES; k++) {
            rn_shape *shape;
            rn_error err;
            check(rn_shape_compile(model, sources[k].kind, sources[k].text, strlen(sources[k].text),
                                   &shape, &err) == RN_OK,
                  "%s", err.message);
            walk(model, shape, n, sets[i]);
            rn_shape_release(shape);
        }
        rn_model_close(model);
    }
}

TEST_PROGRAM(shape_vocabularies) { return cases_run(NULL, NULL); }
