// The reference models of tests/data/golden through the public interface: every logit within 1e-3
// of the reference, the same greedy continuation, and the same bits whatever the chunks, the
// threads and the instruction set.
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "runnel.h"

struct golden {
    rn_model *model;
    int32_t *prompt, *next;
    int n_prompt, n_next, n_vocab;
    float *logits; // [n_prompt + n_next][n_vocab]: of the prompt, then of each step
};

struct run {
    float *logits; // [n_prompt + n_next - 1][n_vocab], by position
    int32_t *ids;
    int n_rows, n_ids, n_vocab;
};

static int32_t *read_ids(const json_t *list, int *n) {
    *n = (int)json_array_size(list);
    int32_t *ids = calloc((size_t)*n, sizeof *ids);
    for (int i = 0; i < *n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return ids;
}

static struct golden load(const char *name) {
    struct golden g = {0};
    char path[512];
    rn_error err;
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/golden.json", name);
    json_t *json = json_load_file(path, 0, NULL);
    assert_non_null(json);
    g.prompt = read_ids(json_object_get(json, "prompt_ids"), &g.n_prompt);
    g.next = read_ids(json_object_get(json, "continuation_ids"), &g.n_next);
    g.n_vocab = (int)json_integer_value(json_object_get(json, "vocab_size"));
    json_decref(json);
    const size_t n = (size_t)(g.n_prompt + g.n_next) * (size_t)g.n_vocab;
    g.logits = malloc(n * sizeof *g.logits);
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/logits.bin", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(g.logits, sizeof *g.logits, n, file), n);
    fclose(file);
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", name);
    const rn_status status = rn_model_open(path, &g.model, &err);
    check(status == RN_OK, "%s", err.message);
    return g;
}

static void unload(struct golden *g) {
    rn_model_close(g->model);
    free(g->prompt);
    free(g->next);
    free(g->logits);
}

static void keep_logits(void *ctx, int position, const float *logits, int n_vocab) {
    struct run *run = ctx;
    assert_int_equal(position, run->n_rows);
    memcpy(run->logits + (size_t)run->n_rows++ * (size_t)n_vocab, logits,
           (size_t)n_vocab * sizeof *logits);
}

// Greedy, as many tokens as the reference has. false: this machine lacks the instruction set.
static bool generate(const struct golden *g, const rn_engine_options *options, struct run *run) {
    rn_engine *engine;
    rn_error err;
    const rn_status status = rn_engine_create(g->model, options, &engine, &err);
    if (status == RN_ERR_UNSUPPORTED) return false;
    check(status == RN_OK, "%s", err.message);
    *run = (struct run){.n_vocab = g->n_vocab};
    run->logits = malloc((size_t)(g->n_prompt + g->n_next) * (size_t)g->n_vocab * sizeof(float));
    run->ids = calloc((size_t)g->n_next, sizeof *run->ids);
    const rn_request request = {.prompt = g->prompt,
                                .n_prompt = (size_t)g->n_prompt,
                                .max_tokens = g->n_next,
                                .ignore_eos = true,
                                .on_logits = keep_logits,
                                .on_logits_ctx = run};
    uint64_t id;
    assert_int_equal(rn_engine_submit(engine, &request, &id, &err), RN_OK);
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

static void run_free(struct run *run) {
    free(run->logits);
    free(run->ids);
}

// The reference's row for a position: the prompt's rows, then the steps' without their first, which
// is the prompt's last.
static const float *reference_row(const struct golden *g, int position) {
    const int row = position < g->n_prompt ? position : position + 1;
    return g->logits + (size_t)row * (size_t)g->n_vocab;
}

static float largest_difference(const struct golden *g, const struct run *run) {
    float largest = 0;
    for (int row = 0; row < run->n_rows; row++) {
        const float *want = reference_row(g, row),
                    *have = run->logits + (size_t)row * (size_t)g->n_vocab;
        for (int i = 0; i < g->n_vocab; i++)
            if (!(fabsf(have[i] - want[i]) <= largest)) largest = fabsf(have[i] - want[i]);
    }
    return largest;
}

static void check_ids(const struct golden *g, const struct run *run) {
    for (int i = 0; i < g->n_next; i++)
        check(run->ids[i] == g->next[i], "token %d is %d, expected %d", i, run->ids[i], g->next[i]);
}

static void check_same_bits(const struct run *a, const struct run *b, const rn_engine_options *o) {
    for (int row = 0; row < a->n_rows; row++) {
        const size_t at = (size_t)row * (size_t)a->n_vocab;
        check(memcmp(a->logits + at, b->logits + at, (size_t)a->n_vocab * sizeof(float)) == 0,
              "position %d differs with isa %s, %d threads, chunks of %d, KV %s", row, o->isa,
              o->n_threads, o->batch_tokens, o->kv_type);
    }
}

static void check_all_ways(const struct golden *g, const char *kv_type, const struct run *first) {
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    static const int chunks[] = {1, 7, 16, 512};
    for (int isa = 0; isa < 3; isa++)
        for (int chunk = 0; chunk < 4; chunk++)
            for (int threads = 1; threads <= 2; threads++) {
                const rn_engine_options o = {.kv_type = kv_type,
                                             .isa = isas[isa],
                                             .n_threads = threads,
                                             .batch_tokens = chunks[chunk],
                                             .logit_rows = chunks[chunk]};
                struct run run;
                if (!generate(g, &o, &run)) continue;
                check_same_bits(first, &run, &o);
                run_free(&run);
            }
}

static void check_model(const char *name) {
    struct golden g = load(name);
    struct run run;
    assert_true(generate(&g, &(rn_engine_options){.kv_type = "f32", .logit_rows = 512}, &run));
    const float difference = largest_difference(&g, &run);
    print_message("%s: largest difference %.2e\n", name, (double)difference);
    check(difference <= 1e-3f, "largest difference is %g", (double)difference);
    check_ids(&g, &run);
    check_all_ways(&g, "f32", &run);
    run_free(&run);
    assert_true(generate(&g, &(rn_engine_options){.kv_type = "f16", .logit_rows = 512}, &run));
    check_ids(&g, &run);
    check_all_ways(&g, "f16", &run);
    run_free(&run);
    unload(&g);
}

static void llama_equals_its_reference_in_every_way_to_run_it(void **state) {
    (void)state;
    check_model("llama");
}

static void llama3_rope_equals_its_reference_in_every_way_to_run_it(void **state) {
    (void)state;
    check_model("llama3-rope");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_equals_its_reference_in_every_way_to_run_it),
        cmocka_unit_test(llama3_rope_equals_its_reference_in_every_way_to_run_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
