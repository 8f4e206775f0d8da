// The reference models of tests/data/golden (its README says what is there) through the public
// interface: opens one, runs it greedily, compares logits and tokens with the reference. For the
// programs tests/runnel/test_golden*.c.
#ifndef RN_TESTS_GOLDEN_H
#define RN_TESTS_GOLDEN_H

#include <math.h>

#include "golden_folder.h"
#include "runnel.h"

#define GOLDEN_LIST TEST_DATA "/golden/models.json"

enum { GOLDEN_PROMPT_STRIDE = 4 };

struct golden {
    char name[32], tokenizer[32];
    bool has_gguf;
    uint64_t checksum; // of model.safetensors
    rn_model *model;
    int32_t *prompt, *next;
    int n_prompt, n_next, n_vocab;
    float *logits; // every 4th row of the prompt, then the row of each step; each [n_vocab]
};

struct golden_run {
    float *logits; // [n_prompt + n_next - 1][n_vocab], by position
    int32_t *ids;
    int n_rows, n_ids, n_vocab;
};

static inline int32_t *golden_read_ids(const json_t *list, int *n) {
    *n = (int)json_array_size(list);
    int32_t *ids = calloc((size_t)*n, sizeof *ids);
    assert_non_null(ids);
    for (int i = 0; i < *n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return ids;
}

// Everything but the model. golden_unload frees it and closes the model.
static inline struct golden golden_load(const char *name) {
    struct golden g = {0};
    snprintf(g.name, sizeof g.name, "%s", name);
    json_t *list = data_json_read(GOLDEN_LIST);
    size_t index;
    const json_t *entry;
    json_array_foreach(list, index, entry) {
        if (strcmp(json_string_value(json_object_get(entry, "name")), name) != 0) continue;
        snprintf(g.tokenizer, sizeof g.tokenizer, "%s",
                 json_string_value(json_object_get(entry, "tokenizer")));
        g.has_gguf = json_is_true(json_object_get(entry, "gguf"));
        g.checksum =
            strtoull(json_string_value(json_object_get(entry, "safetensors_fnv")), NULL, 16);
    }
    json_decref(list);
    check(g.tokenizer[0], "%s is not in models.json", name);

    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/golden.json", name);
    json_t *json = data_json_read(path);
    g.prompt = golden_read_ids(json_object_get(json, "prompt_ids"), &g.n_prompt);
    g.next = golden_read_ids(json_object_get(json, "continuation_ids"), &g.n_next);
    g.n_vocab = (int)json_integer_value(json_object_get(json, "vocab_size"));
    json_decref(json);
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/logits.bin", name);
    const struct data_file file = data_file_read(path);
    const int rows = (g.n_prompt + GOLDEN_PROMPT_STRIDE - 1) / GOLDEN_PROMPT_STRIDE + g.n_next;
    assert_int_equal(file.size, (size_t)rows * (size_t)g.n_vocab * sizeof(float));
    g.logits = (float *)(void *)file.data;
    return g;
}

static inline void golden_unload(struct golden *g) {
    rn_model_close(g->model);
    free(g->prompt);
    free(g->next);
    free(g->logits);
}

static inline void golden_open(struct golden *g, const char *path) {
    rn_error err;
    check(rn_model_open(path, &g->model, &err) == RN_OK, "%s", err.message);
}

static inline void golden_open_gguf(struct golden *g) {
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", g->name);
    golden_open(g, path);
}

// The files are mapped when this returns, so the folder need not stay.
static inline void golden_open_folder(struct golden *g) {
    const struct data_folder folder = golden_folder_make(g->name, g->tokenizer);
    golden_open(g, folder.path);
    data_folder_remove(&folder);
}

// ---------------------------------------------------------------- running

static inline void golden_keep_logits(void *ctx, int position, const float *logits, int n_vocab) {
    struct golden_run *run = ctx;
    assert_int_equal(position, run->n_rows);
    memcpy(run->logits + (size_t)run->n_rows++ * (size_t)n_vocab, logits,
           (size_t)n_vocab * sizeof *logits);
}

static inline void golden_run_free(struct golden_run *run) {
    free(run->logits);
    free(run->ids);
}

// Greedy, as many tokens as the reference has. false: this machine lacks the instruction set.
static inline bool golden_generate(const struct golden *g, const rn_engine_options *options,
                                   struct golden_run *run) {
    rn_engine *engine;
    rn_error err;
    const rn_status status = rn_engine_create(g->model, options, &engine, &err);
    if (status == RN_ERR_UNSUPPORTED && options->isa) return false;
    check(status == RN_OK, "%s: %s", g->name, err.message);
    *run = (struct golden_run){.n_vocab = g->n_vocab};
    run->logits = malloc((size_t)(g->n_prompt + g->n_next) * (size_t)g->n_vocab * sizeof(float));
    run->ids = calloc((size_t)g->n_next, sizeof *run->ids);
    assert_true(run->logits && run->ids);
    const rn_request request = {.prompt = g->prompt,
                                .n_prompt = (size_t)g->n_prompt,
                                .max_tokens = g->n_next,
                                .ignore_eos = true,
                                .on_logits = golden_keep_logits,
                                .on_logits_ctx = run};
    uint64_t id;
    check(rn_engine_submit(engine, &request, &id, &err) == RN_OK, "%s", err.message);
    for (bool busy = true; busy;) {
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);)
            if (event.token >= 0) run->ids[run->n_ids++] = event.token;
    }
    rn_engine_destroy(engine);
    assert_int_equal(run->n_ids, g->n_next);
    assert_int_equal(run->n_rows, g->n_prompt + g->n_next - 1);
    return true;
}

// ---------------------------------------------------------------- comparing

// The reference's row for a position, or NULL where it is not carried. The last of the prompt is
// the first of the steps.
static inline const float *golden_row(const struct golden *g, int position) {
    const int carried = (g->n_prompt + GOLDEN_PROMPT_STRIDE - 1) / GOLDEN_PROMPT_STRIDE;
    const int step = position - (g->n_prompt - 1);
    if (step < 0 && position % GOLDEN_PROMPT_STRIDE) return NULL;
    const int row = step >= 0 ? carried + step : position / GOLDEN_PROMPT_STRIDE;
    return g->logits + (size_t)row * (size_t)g->n_vocab;
}

// A NaN is the largest difference.
static inline float golden_difference(const struct golden *g, const struct golden_run *run) {
    float largest = 0;
    for (int row = 0; row < run->n_rows; row++) {
        const float *want = golden_row(g, row),
                    *have = run->logits + (size_t)row * (size_t)g->n_vocab;
        if (!want) continue;
        for (int i = 0; i < g->n_vocab; i++) {
            const float difference = fabsf(have[i] - want[i]);
            if (!(difference <= largest)) largest = isnan(difference) ? INFINITY : difference;
        }
    }
    return largest;
}

static inline void golden_check_ids(const struct golden *g, const struct golden_run *run) {
    for (int i = 0; i < g->n_next; i++)
        check(run->ids[i] == g->next[i], "%s: token %d is %d, expected %d", g->name, i, run->ids[i],
              g->next[i]);
}

static inline void golden_check_same_bits(const struct golden_run *a, const struct golden_run *b,
                                          const char *what) {
    assert_int_equal(a->n_rows, b->n_rows);
    for (int row = 0; row < a->n_rows; row++) {
        const size_t at = (size_t)row * (size_t)a->n_vocab;
        check(memcmp(a->logits + at, b->logits + at, (size_t)a->n_vocab * sizeof(float)) == 0,
              "%s: position %d differs", what, row);
    }
}

// Every carried logit within 1e-3 with KV in f32, the same tokens with f32 and f16.
static inline void golden_check_reference(const struct golden *g, const char *form) {
    struct golden_run run;
    golden_generate(g, &(rn_engine_options){.kv_type = "f32", .logit_rows = 512}, &run);
    const float difference = golden_difference(g, &run);
    print_message("%s, %s: largest difference %.2e\n", g->name, form, (double)difference);
    check(difference <= 1e-3f, "%s: largest difference is %g", g->name, (double)difference);
    golden_check_ids(g, &run);
    golden_run_free(&run);
    golden_generate(g, &(rn_engine_options){.kv_type = "f16", .logit_rows = 512}, &run);
    golden_check_ids(g, &run);
    golden_run_free(&run);
}

#endif
