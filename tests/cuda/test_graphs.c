// Recorded steps (graphs.c). 1. A shape is recorded when it comes again, the table is bounded, and
// the graph that was not used for longest makes way. 2. Requests that join and leave give the bits
// that each of them gives alone, whose steps have other shapes.
#include "backend/cuda/cuda.h"
#include "cuda_engine.h"
#include "runnel_model.h"
#include "streams.h"

// ---------------------------------------------------------------- the table

// A backend without stages: its steps launch nothing.
static struct cuda_backend *bare_create(void) {
    struct cuda_backend *b = calloc(1, sizeof *b);
    assert_non_null(b);
    assert_int_equal(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking), cudaSuccess);
    return b;
}

static void bare_destroy(struct cuda_backend *b) {
    cuda_graphs_free(&b->graphs);
    cudaStreamDestroy(b->stream);
    free(b);
}

// Runs a step of that shape; whether it was recorded before, or is now.
static bool run_step(struct cuda_backend *b, const struct cuda_shape *shape) {
    const uint64_t before = b->graphs.n_replayed;
    assert_int_equal(cuda_graph_run(b, shape), cudaSuccess);
    return b->graphs.n_replayed > before;
}
static bool run_shape(struct cuda_backend *b, int n_tokens, int n_splits) {
    struct cuda_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.n_tokens = n_tokens, shape.n_splits = n_splits;
    return run_step(b, &shape);
}

CASE(rows_of_a_launch_are_those_of_the_step_or_a_few_more) {
    for (int n = 0; n <= 2 * GRAPH_ROWS; n++) {
        const int own = cuda_rows_class(n, 4 * GRAPH_ROWS), most = n + 1;
        check(own >= n && own < n + (n <= 128 ? 8 : 16), "%d of %d", own, n);
        check(n > SMALL_ROWS || own == n, "%d of %d", own, n);
        check(n == 0 || own >= cuda_rows_class(n - 1, 4 * GRAPH_ROWS), "%d of %d", own, n);
        check(cuda_rows_class(n, most) == (own < most ? own : most), "%d", n);
    }
}

CASE(a_shape_is_recorded_when_it_comes_again) {
    struct cuda_backend *b = bare_create();
    assert_false(run_shape(b, 24, 1));
    assert_true(run_shape(b, 24, 1));
    assert_true(run_shape(b, 24, 1));
    assert_int_equal(b->graphs.n_recorded, 1);
    for (int i = 0; i < 3; i++) assert_false(run_shape(b, GRAPH_ROWS + 1, 1)); // too large
    // ever new shapes take the place of no graph
    for (int i = 0; i < 4 * N_GRAPHS; i++) assert_false(run_shape(b, 24, 2 + i));
    assert_true(run_shape(b, 24, 1));
    assert_int_equal(b->graphs.n_recorded, 1);
    bare_destroy(b);
}

CASE(steps_with_parts_of_prompts_are_never_recorded) {
    struct cuda_backend *b = bare_create();
    for (int i = 0; i < 4; i++) {
        struct cuda_shape shape;
        memset(&shape, 0, sizeof shape);
        shape.n_tokens = 40;
        shape.n_part[i % 2][PART_MANY] = 1;
        assert_false(run_step(b, &shape));
    }
    assert_int_equal(b->graphs.n_recorded, 0);
    bare_destroy(b);
}

CASE(the_graph_that_was_not_used_for_longest_makes_way) {
    struct cuda_backend *b = bare_create();
    for (int i = 0; i < N_GRAPHS; i++) {
        run_shape(b, 16, i);
        assert_true(run_shape(b, 16, i));
    }
    assert_int_equal(b->graphs.n_recorded, N_GRAPHS);
    assert_true(run_shape(b, 16, 0)); // the oldest one is now 1
    run_shape(b, 16, N_GRAPHS);
    assert_true(run_shape(b, 16, N_GRAPHS));
    assert_int_equal(b->graphs.n_recorded, N_GRAPHS + 1);
    for (int i = 2; i <= N_GRAPHS; i++) assert_true(run_shape(b, 16, i));
    assert_true(run_shape(b, 16, 0));
    assert_int_equal(b->graphs.n_recorded, N_GRAPHS + 1);
    run_shape(b, 16, 1);
    assert_true(run_shape(b, 16, 1));
    assert_int_equal(b->graphs.n_recorded, N_GRAPHS + 2);
    bare_destroy(b);
}

CASE(steps_run_without_graphs_where_none_can_be_recorded) {
    struct cuda_backend *b = bare_create();
    cudaStream_t own = b->stream;
    b->stream = NULL; // it cannot be captured
    for (int i = 0; i < 4; i++) assert_false(run_shape(b, 24, i / 2));
    assert_true(b->graphs.is_full && b->graphs.n_recorded == 0);
    b->stream = own;
    bare_destroy(b);
}

// ---------------------------------------------------------------- streams that join and leave

enum { N_STREAMS = 13, N_PROMPT = 3, N_OUT = 20, ALONE_EVERY = 3 };

// A number of all logits that a request was shown, in their order.
static void digest_add(void *ctx, int pos, const float *logits, int n_vocab) {
    uint64_t *digest = ctx;
    for (int i = 0; i < n_vocab; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        *digest = (*digest ^ bits) * UINT64_C(0x100000001b3);
    }
    *digest ^= (uint64_t)pos;
}

// Some requests want their logits; the others are sampled in different ways.
static void submit(rn_engine *engine, int index, struct stream *stream, uint64_t *digest) {
    int32_t prompt[N_PROMPT];
    rn_sampling sampling = rn_sampling_neutral();
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = 40 + 7 * index + i;
    sampling.temperature = index % 5 ? 1.0f : 0.0f;
    sampling.has_seed = true, sampling.seed = (uint64_t)index;
    if (index % 4 == 1) sampling.top_p = 0.9f;
    if (index % 4 == 2) sampling.top_k = 40, sampling.min_p = 0.01f;
    const rn_request request = {.prompt = prompt,
                                .n_prompt = N_PROMPT,
                                .sampling = sampling,
                                .ignore_eos = true,
                                .max_tokens = N_OUT - index % 4 * 2,
                                .on_logits = index % (2 * ALONE_EVERY) == 0 ? digest_add : NULL,
                                .on_logits_ctx = digest};
    streams_submit(engine, &request, stream);
}

CASE(streams_that_join_and_leave_give_their_own_bits) {
    static struct stream alone[N_STREAMS], mixed[N_STREAMS];
    uint64_t digest[2][N_STREAMS] = {{0}};
    rn_model *model;
    rn_error err = {0};
    assert_int_equal(rn_model_open(TEST_DATA "/golden/llama/model.gguf", &model, &err), RN_OK);
    const rn_engine_options options = {.max_seqs = N_STREAMS, .n_ctx = 64, .logit_rows = -1};
    rn_engine *engine = streams_engine(model, &options);
    for (int i = 0; i < N_STREAMS; i += ALONE_EVERY) {
        submit(engine, i, &alone[i], &digest[0][i]);
        streams_drain(engine, &alone[i], 1);
        rn_engine_forget_prefixes(engine);
    }
    int n = 0, step = 0;
    for (; n < N_STREAMS; n++) {
        submit(engine, n, &mixed[n], &digest[1][n]);
        if (n >= 8) streams_step(engine, mixed, n + 1, step++, 0);
    }
    streams_drain(engine, mixed, n);
    for (int i = 0; i < N_STREAMS; i += ALONE_EVERY) {
        streams_check_same(&alone[i], &mixed[i]);
        check(digest[0][i] == digest[1][i], "logits of request %d", i);
    }
    const rn_engine_stats stats = streams_stats(engine);
    check(stats.idle_ns > 0 && stats.late_steps < stats.steps, "%d of %d steps late, %d us idle",
          (int)stats.late_steps, (int)stats.steps, (int)(stats.idle_ns / 1000));
    if (!cuda_wanted()) {
        const struct cuda_backend *b = (const struct cuda_backend *)engine->engine.backend;
        int n_wide = 0;
        for (int i = 0; i < N_GRAPHS; i++)
            n_wide += b->graphs.graph[i].exec && b->graphs.graph[i].shape.n_tokens > SMALL_ROWS;
        print_message("%d steps, %d recorded, %d of them wide, %d replayed\n",
                      (int)b->graphs.n_steps, (int)b->graphs.n_recorded, n_wide,
                      (int)b->graphs.n_replayed);
        check(n_wide > 0, "no larger step was recorded");
    }
    rn_engine_destroy(engine);
    rn_model_close(model);
}

// ---------------------------------------------------------------- few streams with long contexts

// Their small steps have the form of streams, where a stream alone has another one.
CASE(few_streams_with_long_contexts_give_their_own_bits) {
    enum { N = 4, N_SHARED = 2 * SPLIT_TOKENS, N_LONG = N_SHARED + 30, N_MORE = 8 };
    static struct stream alone[N], mixed[N];
    static int32_t prompt[N][N_LONG];
    rn_sampling sampling = rn_sampling_neutral(); // ids depend on all bits of the logits, nearly
    rn_model *model;
    rn_error err = {0};
    assert_int_equal(rn_model_open(MODELS_DIR "/tale-1m-q8_0.gguf", &model, &err), RN_OK);
    const rn_engine_options options = {.max_seqs = N, .n_ctx = 1024, .speculate = "off"};
    rn_engine *engine = streams_engine(model, &options);
    sampling.has_seed = true;
    for (int pass = 0; pass < 2; pass++) {
        struct stream *streams = pass ? mixed : alone;
        for (int i = 0; i < N; i++) {
            for (int k = 0; k < N_LONG; k++)
                prompt[i][k] = 30 + (k * (k < N_SHARED ? 3 : i + 3) + k / 7) % 200;
            const rn_request request = {.prompt = prompt[i],
                                        .n_prompt = N_LONG - i,
                                        .sampling = sampling,
                                        .ignore_eos = true,
                                        .max_tokens = N_MORE};
            streams_submit(engine, &request, &streams[i]);
            if (!pass) streams_drain(engine, &streams[i], 1);
        }
        if (pass) streams_drain(engine, streams, N);
    }
    for (int i = 0; i < N; i++) streams_check_same(&alone[i], &mixed[i]);
    if (!cuda_wanted()) {
        const struct cuda_backend *b = (const struct cuda_backend *)engine->engine.backend;
        int n_few = 0;
        for (int i = 0; i < N_GRAPHS; i++) {
            const struct cuda_shape *of[] = {&b->graphs.graph[i].shape, &b->graphs.seen[i]};
            for (int k = 0; k < 2; k++)
                n_few += of[k]->n_tokens <= SMALL_ROWS && of[k]->n_part[0][PART_FEW] == N;
        }
        check(n_few > 0, "no small step had the lists of streams");
    }
    rn_engine_destroy(engine);
    rn_model_close(model);
}

TEST_PROGRAM(graphs) { return cases_run(NULL, NULL); }
