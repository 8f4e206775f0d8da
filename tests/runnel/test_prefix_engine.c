// Requests with equal prefixes, through the public interface. A shared prefix is computed once and
// stored once, whether the requests come one after the other or all at once. Salts separate them.
// Tokens are those of a run without a cache. Cached pages can be forgotten, and make room when they
// must.
// label: async
#include "streams.h"
#include "tale.h"

enum {
    PAGE = 32,
    N_PREFIX = 768,
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    N_SHARERS = 32, // everything is slower there
#else
    N_SHARERS = 300,
#endif
    N_TAIL_MAX = 12,
    N_OUT = 4,
    N_AT_ONCE = 32,
};

static int tail_length(int i) { return 1 + i % N_TAIL_MAX; }

static int32_t prompt[N_PREFIX + N_TAIL_MAX];

// Request i: the prefix that all have, and a tail of its own.
static rn_request sharer(int i) {
    for (int t = 0; t < N_PREFIX; t++) prompt[t] = (t * 37 + t * t) % 4096;
    for (int t = 0; t < tail_length(i); t++) prompt[N_PREFIX + t] = (i * 131 + t * 17 + 5) % 4096;
    return (rn_request){.prompt = prompt,
                        .n_prompt = (size_t)(N_PREFIX + tail_length(i)),
                        .max_tokens = N_OUT,
                        .ignore_eos = true};
}

// Tokens that a request evaluates itself: its tail, its outputs but the last.
static uint64_t own_tokens(int i) { return (uint64_t)(tail_length(i) + N_OUT - 1); }

static struct stream stream[N_AT_ONCE];

CASE(a_prefix_is_computed_once_by_one_after_the_other) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = 1, .n_threads = 1});
    uint64_t own = 0;
    for (int i = 0; i < N_SHARERS; i++) {
        const rn_request request = sharer(i);
        const uint64_t before = streams_stats(engine).computed_tokens;
        streams_run(engine, &request, &stream[0]);
        assert_int_equal(stream[0].n_ids, N_OUT);
        const uint64_t computed = streams_stats(engine).computed_tokens - before;
        own += own_tokens(i);
        if (i == 0) {
            assert_int_equal(computed, N_PREFIX + own_tokens(0));
            assert_int_equal(stream[0].timings.cached_tokens, 0);
            continue;
        }
        check(computed <= own_tokens(i) + PAGE, "request %d computed %llu tokens, %llu are its own",
              i, (unsigned long long)computed, (unsigned long long)own_tokens(i));
        assert_true(stream[0].timings.cached_tokens >= N_PREFIX - PAGE);
    }
    const rn_engine_stats s = streams_stats(engine);
    assert_true(s.computed_tokens <= N_PREFIX + own + (uint64_t)N_SHARERS * PAGE);
    assert_int_equal(s.hits, N_SHARERS - 1);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

// 32 of them at a time, from a cold cache: requests that come together compute the prefix together,
// and while they run its 24 pages are there once.
CASE(a_prefix_is_computed_and_stored_once_by_many_at_once) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = N_AT_ONCE,
                                                                   .n_threads = 1,
                                                                   .batch_tokens = 512});
    uint64_t own = 0;
    uint32_t shared_max = 0, held_max = 0;
    for (int first = 0; first < N_SHARERS; first += N_AT_ONCE) {
        for (int i = 0; i < N_AT_ONCE; i++) {
            const rn_request request = sharer(first + i);
            streams_submit(engine, &request, &stream[i]);
            own += own_tokens(first + i);
        }
        for (int step = 0; streams_step(engine, stream, N_AT_ONCE, step, 0); step++) {
            const rn_engine_stats s = streams_stats(engine);
            if (s.pages_shared > shared_max) shared_max = s.pages_shared;
            if (s.pages_held > held_max) held_max = s.pages_held;
        }
        for (int i = 0; i < N_AT_ONCE; i++) assert_int_equal(stream[i].n_ids, N_OUT);
    }
    const int n = (N_SHARERS + N_AT_ONCE - 1) / N_AT_ONCE * N_AT_ONCE;
    const rn_engine_stats s = streams_stats(engine);
    check(s.computed_tokens <= N_PREFIX + own + (uint64_t)n * PAGE,
          "%llu tokens were computed, %llu are the requests' own",
          (unsigned long long)s.computed_tokens, (unsigned long long)own);
    assert_int_equal(shared_max, N_PREFIX / PAGE);
    // tail and output of a request take one page
    check(held_max <= N_PREFIX / PAGE + N_AT_ONCE, "%u pages were held", held_max);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

CASE(hits_give_the_tokens_of_a_run_without_a_cache) {
    static struct stream plain, cached;
    rn_engine *without = streams_engine(model, &(rn_engine_options){.no_prefix_cache = true});
    rn_engine *with = streams_engine(model, &(rn_engine_options){0});
    for (int cut = 0; cut < test_scale(4, 5, 5);
         cut++) { // a multiple of the page, just before it and just after
        rn_request request = sharer(cut);
        request.n_prompt = (size_t[]){1, 95, 96, 97, 768}[cut];
        request.max_tokens = 40;
        for (int repeat = 0; repeat < 3; repeat++) {
            streams_run(without, &request, &plain);
            streams_run(with, &request, &cached);
            streams_check_same(&plain, &cached);
            assert_int_equal(plain.timings.cached_tokens, 0);
            // at least one token is always evaluated
            const int most = ((int)request.n_prompt - 1) / PAGE * PAGE;
            if (repeat) assert_int_equal(cached.timings.cached_tokens, most);
        }
    }
    assert_int_equal(streams_stats(without).pages_cached, 0);
    rn_engine_destroy(without);
    rn_engine_destroy(with);
}

// The next turn of a conversation finds the answer of the one before.
CASE(output_is_found_by_the_next_turn) {
    for (int i = 0; i < 40; i++) prompt[i] = i * 7 + 3;
    rn_engine *engine = streams_engine(model, &(rn_engine_options){0});
    rn_request request = {.prompt = prompt, .n_prompt = 40, .max_tokens = 100, .ignore_eos = true};
    streams_run(engine, &request, &stream[0]);
    memcpy(prompt + 40, stream[0].ids, 100 * sizeof *prompt);
    prompt[140] = 5;
    request.n_prompt = 141;
    streams_run(engine, &request, &stream[1]);
    assert_int_equal(stream[1].timings.cached_tokens, 128); // of 139 positions that were evaluated
    rn_engine_destroy(engine);
}

CASE(salts_part_equal_prompts) {
    static const char *const salts[] = {NULL, "a", "b", "a", "", NULL, "b"};
    static const int cached[] = {0, 0, 0, 96, 96, 96, 96};
    rn_engine *engine = streams_engine(model, &(rn_engine_options){0});
    rn_request request = sharer(0);
    request.n_prompt = 100;
    for (int i = 0; i < 7; i++) {
        request.cache_salt = salts[i];
        streams_run(engine, &request, &stream[i]);
        assert_int_equal(stream[i].timings.cached_tokens, cached[i]);
        streams_check_same(&stream[0], &stream[i]);
    }
    char salt[RN_MAX_SALT_BYTES + 2] = {0};
    memset(salt, 's', RN_MAX_SALT_BYTES);
    request.cache_salt = salt;
    streams_run(engine, &request, &stream[0]);
    streams_run(engine, &request, &stream[0]);
    assert_int_equal(stream[0].timings.cached_tokens, 96);
    salt[RN_MAX_SALT_BYTES] = 's';
    uint64_t id;
    assert_int_equal(rn_engine_submit(engine, &request, &id, NULL), RN_ERR_ARG);
    rn_engine_destroy(engine);
}

struct heard {
    int n, first;
};

static void hear(void *ctx, int position, const float *logits, int n_vocab) {
    struct heard *heard = ctx;
    (void)logits, (void)n_vocab;
    if (heard->n++ == 0) heard->first = position;
}

CASE(listeners_take_nothing_from_the_cache) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.logit_rows = -1});
    rn_request request = sharer(0);
    request.n_prompt = 100;
    streams_run(engine, &request, &stream[0]);
    struct heard heard = {0, -1};
    request.on_logits = hear;
    request.on_logits_ctx = &heard;
    streams_run(engine, &request, &stream[1]);
    assert_int_equal(stream[1].timings.cached_tokens, 0);
    assert_int_equal(heard.first, 0);
    assert_int_equal(heard.n, 100 + N_OUT - 1);
    streams_check_same(&stream[0], &stream[1]);
    rn_engine_destroy(engine);
}

CASE(forgotten_prefixes_are_computed_again) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){0});
    rn_request request = sharer(0);
    request.n_prompt = 100;
    streams_run(engine, &request, &stream[0]);
    assert_int_equal(streams_stats(engine).pages_cached, 3);
    assert_true(streams_stats(engine).kv_cached_bytes > 0);
    rn_engine_forget_prefixes(engine);
    streams_drain(engine, stream, 0);
    assert_int_equal(streams_stats(engine).pages_cached, 0);
    assert_int_equal(streams_stats(engine).kv_cached_bytes, 0);
    streams_run(engine, &request, &stream[1]);
    assert_int_equal(stream[1].timings.cached_tokens, 0);
    streams_check_same(&stream[0], &stream[1]);
    rn_engine_destroy(engine);
}

// Forgetting while a request runs leaves it its pages.
CASE(forgetting_does_not_touch_who_runs) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){0});
    rn_request request = sharer(0);
    request.n_prompt = 100;
    request.max_tokens = 60;
    streams_run(engine, &request, &stream[0]);
    streams_submit(engine, &request, &stream[1]);
    for (int step = 0; streams_step(engine, &stream[1], 1, step, 0); step++)
        rn_engine_forget_prefixes(engine);
    streams_check_same(&stream[0], &stream[1]);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

// A budget of 8 pages, prompts of 3 that have nothing in common: the cache gives way, the least
// recently used first.
CASE(the_least_recently_used_prefix_makes_room) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.kv_pages = 8});
    rn_request request = {.prompt = prompt, .n_prompt = 97, .max_tokens = 1, .ignore_eos = true};
    static const int order[] = {1, 2, 1, 3, 1, 2};
    // 3 needs two pages of what is cached: it gets the last ones of 2, not of 1, and the first of 2
    // can still be found
    static const int cached[] = {0, 0, 96, 0, 96, 32};
    for (int i = 0; i < 6; i++) {
        for (int t = 0; t < 97; t++) prompt[t] = order[i] * 1000 + t;
        streams_run(engine, &request, &stream[i]);
        check(stream[i].timings.cached_tokens == cached[i], "request %d found %d, expected %d", i,
              stream[i].timings.cached_tokens, cached[i]);
        assert_true(streams_stats(engine).pages_cached <= 8);
    }
    assert_true(streams_stats(engine).evictions >= 2);
    rn_engine_destroy(engine);
}

// Each block is found as soon as it is full: by the prompt's end, and while output grows.
CASE(every_full_block_is_found_by_the_next_request) {
    for (int t = 0; t < 4 * PAGE; t++) prompt[t] = (t * 53 + 11) % 4096;
    for (int n_blocks = 1; n_blocks < 4; n_blocks++) {
        rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_threads = 1});
        // evaluates the prompt and all of its outputs but the last
        const rn_request first = {.prompt = prompt,
                                  .n_prompt = 20,
                                  .max_tokens = n_blocks * PAGE - 20 + 1,
                                  .ignore_eos = true};
        streams_run(engine, &first, &stream[0]);
        int32_t turn[4 * PAGE + 1];
        memcpy(turn, prompt, 20 * sizeof *turn);
        memcpy(turn + 20, stream[0].ids, (size_t)stream[0].n_ids * sizeof *turn);
        const rn_request next = {.prompt = turn,
                                 .n_prompt = 20 + (size_t)stream[0].n_ids,
                                 .max_tokens = 1,
                                 .ignore_eos = true};
        streams_run(engine, &next, &stream[1]);
        assert_int_equal(stream[1].timings.cached_tokens, n_blocks * PAGE);
        rn_engine_destroy(engine);
    }
}

TEST_PROGRAM(prefix_engine) { return cases_run(open_model, close_model); }
