// The reference models of tests/data/golden (its README says what is there) through the public
// interface: opens one, runs it greedily, compares logits and tokens with the reference. For the
// programs tests/runnel/test_golden*.c.
#ifndef RN_TESTS_GOLDEN_H
#define RN_TESTS_GOLDEN_H

#include <math.h>

#include "golden_folder.h"
#include "runnel.h"

// Tests over a list name one of these; golden_load knows the models of all.
#define GOLDEN_LIST     TEST_DATA "/golden/models.json"
#define GOLDEN_HYBRIDS  TEST_DATA "/golden/hybrids.json"
#define GOLDEN_FAMILIES TEST_DATA "/golden/families.json"

enum { GOLDEN_ROWS_EVERY = 4 }; // where golden.json does not say it

struct golden {
    char name[32], tokenizer[32];
    bool has_gguf;
    bool gguf_nfc;     // the GGUF's pre-tokenizer is NFC by its name, the folder's file is not
    bool f16_flips;    // rounding keys to f16 changes the router's choice of a near tie
    uint64_t checksum; // of model.safetensors
    rn_model *model;
    int32_t *prompt, *next;
    int n_prompt, n_next, n_vocab;
    double *lead;              // [n_next], of the best logit of a step over the second
    int rows_every, ids_every; // which of the reference's logits are carried: golden_logit
    float *logits; // every so many rows of the prompt, then the row of each step; each has every
                   // so many of n_vocab
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

// Looks for the model in all lists.
static inline void golden_find(struct golden *g) {
    static const char *const lists[] = {GOLDEN_LIST, GOLDEN_HYBRIDS, GOLDEN_FAMILIES};
    for (int i = 0; i < 3; i++) {
        json_t *list = data_json_read(lists[i]);
        size_t index;
        const json_t *entry;
        json_array_foreach(list, index, entry) {
            if (strcmp(json_string_value(json_object_get(entry, "name")), g->name) != 0) continue;
            g->gguf_nfc = json_is_true(json_object_get(entry, "gguf_nfc"));
            g->f16_flips = json_is_true(json_object_get(entry, "f16_flips"));
            snprintf(g->tokenizer, sizeof g->tokenizer, "%s",
                     json_string_value(json_object_get(entry, "tokenizer")));
            g->has_gguf = json_is_true(json_object_get(entry, "gguf"));
            g->checksum =
                strtoull(json_string_value(json_object_get(entry, "safetensors_fnv")), NULL, 16);
        }
        json_decref(list);
    }
    check(g->tokenizer[0], "%s is in no list", g->name);
}

static inline int golden_read_every(const json_t *json, const char *key, int otherwise) {
    const json_t *every = json_object_get(json, key);
    return every ? (int)json_integer_value(every) : otherwise;
}

// The reference's logit of a token after a position, or NULL where it is not carried. The last
// position of the prompt is the first of the steps.
static inline const float *golden_logit(const struct golden *g, int position, int id) {
    const int step = position - (g->n_prompt - 1);
    if ((step < 0 && position % g->rows_every) || (id - position) % g->ids_every) return NULL;
    const int n_before = (g->n_prompt + g->rows_every - 1) / g->rows_every;
    const int row = step >= 0 ? n_before + step : position / g->rows_every;
    return g->logits + row * (g->n_vocab / g->ids_every) + id / g->ids_every;
}

// golden.json has the leads where rows are not carried whole.
static inline double golden_read_lead(const struct golden *g, const json_t *leads, int step) {
    if (leads) return json_number_value(json_array_get(leads, (size_t)step));
    float best = -INFINITY, second = -INFINITY;
    for (int i = 0; i < g->n_vocab; i++) {
        const float logit = *golden_logit(g, g->n_prompt - 1 + step, i);
        if (logit > best) {
            second = best;
            best = logit;
        } else if (logit > second) {
            second = logit;
        }
    }
    return (double)best - (double)second;
}

static inline void golden_read_logits(struct golden *g, const json_t *json) {
    char path[DATA_PATH_BYTES];
    const json_t *leads = json_object_get(json, "leads");
    g->rows_every = golden_read_every(json, "logits_rows_every", GOLDEN_ROWS_EVERY);
    g->ids_every = golden_read_every(json, "logits_ids_every", 1);
    assert_int_equal(g->n_vocab % g->ids_every, 0);
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/logits.bin", g->name);
    const struct data_file file = data_file_read(path);
    const int rows = (g->n_prompt + g->rows_every - 1) / g->rows_every + g->n_next;
    assert_int_equal(file.size, (size_t)(rows * (g->n_vocab / g->ids_every)) * sizeof(float));
    g->logits = (float *)(void *)file.data;
    g->lead = calloc((size_t)g->n_next, sizeof *g->lead);
    assert_non_null(g->lead);
    for (int i = 0; i < g->n_next; i++) g->lead[i] = golden_read_lead(g, leads, i);
}

// Everything but the model. golden_unload frees it and closes the model.
static inline struct golden golden_load(const char *name) {
    struct golden g = {0};
    char path[DATA_PATH_BYTES];
    snprintf(g.name, sizeof g.name, "%s", name);
    golden_find(&g);
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/golden.json", name);
    json_t *json = data_json_read(path);
    g.prompt = golden_read_ids(json_object_get(json, "prompt_ids"), &g.n_prompt);
    g.next = golden_read_ids(json_object_get(json, "continuation_ids"), &g.n_next);
    g.n_vocab = (int)json_integer_value(json_object_get(json, "vocab_size"));
    golden_read_logits(&g, json);
    json_decref(json);
    return g;
}

static inline void golden_unload(struct golden *g) {
    rn_model_close(g->model);
    free(g->prompt);
    free(g->next);
    free(g->lead);
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

// The files are open when this returns, so the folder need not stay.
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

// A NaN is the largest difference.
// Of a row; 0 where the reference carries nothing of it.
static inline float golden_row_difference(const struct golden *g, const struct golden_run *run,
                                          int row) {
    const float *have = run->logits + (size_t)row * (size_t)g->n_vocab;
    float largest = 0;
    for (int i = 0; i < g->n_vocab; i++) {
        const float *want = golden_logit(g, row, i);
        if (!want) continue;
        const float difference = fabsf(have[i] - *want);
        if (!(difference <= largest)) largest = isnan(difference) ? INFINITY : difference;
    }
    return largest;
}

static inline float golden_difference(const struct golden *g, const struct golden_run *run) {
    float largest = 0;
    for (int row = 0; row < run->n_rows; row++)
        largest = fmaxf(largest, golden_row_difference(g, run, row));
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

// Every carried logit within 1e-3 with KV in f32, the same tokens with f32 and, where no tie is in
// the way, with f16.
static inline void golden_check_reference(const struct golden *g, const char *form) {
    struct golden_run run;
    golden_generate(g, &(rn_engine_options){.kv_type = "f32", .logit_rows = 512}, &run);
    const float difference = golden_difference(g, &run);
    print_message("%s, %s: largest difference %.2e\n", g->name, form, (double)difference);
    check(difference <= 1e-3f, "%s: largest difference is %g", g->name, (double)difference);
    golden_check_ids(g, &run);
    golden_run_free(&run);
    if (g->f16_flips) return;
    golden_generate(g, &(rn_engine_options){.kv_type = "f16", .logit_rows = 512}, &run);
    golden_check_ids(g, &run);
    golden_run_free(&run);
}

#endif
