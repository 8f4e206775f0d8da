// Conversations that outlive their engine: each turn runs on a new engine with the page store of
// the turns before. It evaluates its new tokens and less than a block more, as with cached pages,
// and its text is that of an engine without a store. Tenants share nothing. Where computing is
// faster, nothing is read. A spoilt store changes no text.
// label: threads async
#include "bare_engine.h"
#include "engine/store/page_store_internal.h"
#include "store_folder.h"
#include "streams.h"

enum { PAGE = 32, TURNS = 5, LONGEST = 512 };

static const char *const models[] = {"llama", "gemma3", "qwen3_5", "nemotron_h", "mamba2", "lfm2"};
enum { N_MODELS = sizeof models / sizeof *models };

static rn_model *open_model(int m) {
    char path[400];
    snprintf(path, sizeof path, "%s/golden/%s/model.gguf", TEST_DATA, models[m]);
    return bare_open(path);
}

static int32_t some_token(int seed, int i) { return (seed * 131 + i * 29 + i * i * 7 + 3) % 250; }

// A request alone on a new engine; tokens of the prompt that were computed.
static int run(const rn_model *model, const char *store, const char *salt, const int32_t *prompt,
               int n_prompt, int n_output, struct stream *out) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = 2,
                                                                   .n_ctx = LONGEST,
                                                                   .speculate = "off",
                                                                   .page_store = store});
    const rn_request request = {.prompt = prompt,
                                .n_prompt = (size_t)n_prompt,
                                .max_tokens = n_output,
                                .ignore_eos = true,
                                .cache_salt = salt};
    streams_run(engine, &request, out);
    rn_engine_destroy(engine);
    assert_int_equal(out->status, RN_OK);
    return n_prompt - out->timings.cached_tokens;
}

static bool has_states(int m) { return m >= 2; }

CASE(a_turn_after_a_restart_evaluates_its_new_tokens) {
    static struct stream got, want;
    bare_store_always = true;
    for (int m = 0; m < N_MODELS; m++) {
        struct store_folder folder = store_folder_make();
        rn_model *model = open_model(m);
        int32_t text[LONGEST];
        int n = 0, n_before = 0;
        for (int turn = 0; turn < TURNS; turn++) {
            const int n_new = 20 + 13 * turn, n_output = 11 + turn;
            for (int i = 0; i < n_new; i++, n++) text[n] = some_token(m + turn, n);
            const int computed = run(model, folder.path, NULL, text, n, n_output, &got);
            const int stored = got.timings.stored_tokens;
            run(model, NULL, NULL, text, n, n_output, &want);
            check(got.n_ids == want.n_ids &&
                      memcmp(got.ids, want.ids, sizeof *got.ids * (size_t)got.n_ids) == 0,
                  "%s, turn %d: the text differs", models[m], turn);
            // with states all of the text before but its last token; else whole blocks of it
            const int known = n_before == 0   ? 0
                              : has_states(m) ? n_before - 1
                                              : (n_before - 1) / PAGE * PAGE;
            check(n - computed == known && stored == known,
                  "%s, turn %d: %d of %d tokens computed, %d stored, expected %d known", models[m],
                  turn, computed, n, stored, known);
            memcpy(text + n, got.ids, sizeof *text * (size_t)got.n_ids);
            n_before = n += got.n_ids;
        }
        rn_model_close(model);
        store_folder_remove(&folder);
    }
    bare_store_always = false;
}

CASE(tenants_share_no_stored_page) {
    static struct stream got;
    struct store_folder folder = store_folder_make();
    rn_model *model = open_model(0);
    int32_t text[200];
    bare_store_always = true;
    for (int i = 0; i < 200; i++) text[i] = some_token(1, i);
    assert_int_equal(run(model, folder.path, "a", text, 200, 4, &got), 200);
    assert_int_equal(run(model, folder.path, "b", text, 200, 4, &got), 200);
    assert_int_equal(run(model, folder.path, NULL, text, 200, 4, &got), 200);
    assert_int_equal(run(model, folder.path, "a", text, 200, 4, &got), 200 - 6 * PAGE);
    bare_store_always = false;
    rn_model_close(model);
    store_folder_remove(&folder);
}

CASE(nothing_is_read_where_computing_is_faster) {
    static struct stream got;
    struct store_folder folder = store_folder_make();
    rn_model *model = open_model(0);
    int32_t text[200];
    for (int i = 0; i < 200; i++) text[i] = some_token(2, i);
    run(model, folder.path, NULL, text, 200, 4, &got);
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_ctx = LONGEST,
                                                                   .speculate = "off",
                                                                   .page_store = folder.path});
    // a store that takes a minute for a byte, and a price that is known
    atomic_store(&engine->engine.store->ns_per_byte[TIER_FILES], 60e9);
    const rn_request other = {.prompt = text + 100, .n_prompt = 100, .max_tokens = 4};
    const rn_request request = {.prompt = text, .n_prompt = 200, .max_tokens = 4};
    streams_run(engine, &other, &got);
    streams_run(engine, &request, &got);
    rn_store_stats stats;
    assert_true(rn_engine_get_store_stats(engine, &stats));
    assert_true(stats.refused == 1 && stats.hits == 0 && got.timings.cached_tokens == 0);
    atomic_store(&engine->engine.store->ns_per_byte[TIER_FILES], 1e-9);
    rn_engine_forget_prefixes(engine);
    streams_run(engine, &request, &got);
    assert_true(rn_engine_get_store_stats(engine, &stats));
    assert_true(stats.refused == 1 && stats.hits == 6 && got.timings.stored_tokens == 6 * PAGE);
    rn_engine_destroy(engine);
    rn_model_close(model);
    store_folder_remove(&folder);
}

static void spoil(void *ctx, const char *path) {
    int *n = ctx;
    if ((*n)++ % 3) return;
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0 && pwrite(fd, "spoilt", 6, 1000) == 6);
    close(fd);
}

CASE(spoilt_pages_are_computed) {
    static struct stream got, want;
    bare_store_always = true;
    for (int m = 0; m < N_MODELS; m++) {
        struct store_folder folder = store_folder_make();
        rn_model *model = open_model(m);
        int32_t text[300];
        int n = 0;
        for (int i = 0; i < 300; i++) text[i] = some_token(m, i);
        run(model, folder.path, NULL, text, 300, 8, &want);
        assert_true(store_folder_pages(folder.path, spoil, &n) > 0);
        run(model, folder.path, NULL, text, 300, 8, &got);
        assert_int_equal(got.n_ids, want.n_ids);
        assert_memory_equal(got.ids, want.ids, sizeof *got.ids * (size_t)got.n_ids);
        rn_model_close(model);
        store_folder_remove(&folder);
    }
    bare_store_always = false;
}

// A prompt is evaluated by one server and continued by another, which handed it back before.
CASE(a_prompt_that_another_server_evaluated_is_found) {
    static struct stream got, want;
    bare_store_always = true;
    for (int m = 0; m < N_MODELS; m++) {
        struct store_folder folder = store_folder_make();
        rn_model *model = open_model(m);
        int32_t text[200];
        for (int i = 0; i < 200; i++) text[i] = some_token(m, i);
        rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_ctx = LONGEST,
                                                                       .speculate = "off",
                                                                       .page_store = folder.path});
        const rn_request request = {.prompt = text,
                                    .n_prompt = 200,
                                    .max_tokens = 8,
                                    .ignore_eos = true,
                                    .cache_share = 0.1};
        streams_run(engine, &request, &got);
        check(got.finish == RN_FINISH_CACHE && got.n_ids == 0, "%s: finish %d", models[m],
              (int)got.finish);
        run(model, folder.path, NULL, text, 150, 1, &want); // the same text, up to here
        for (int i = 0; i < 500 && got.finish == RN_FINISH_CACHE; i++) {
            usleep(20000); // it looks every few ms
            streams_run(engine, &request, &got);
        }
        check(got.finish == RN_FINISH_LENGTH && got.timings.stored_tokens >= 20,
              "%s: finish %d, %d tokens were stored", models[m], (int)got.finish,
              got.timings.stored_tokens);
        rn_engine_destroy(engine);
        run(model, NULL, NULL, text, 200, 8, &want);
        check(got.n_ids == 8 && memcmp(got.ids, want.ids, 8 * sizeof *got.ids) == 0,
              "%s: the text differs", models[m]);
        rn_model_close(model);
        store_folder_remove(&folder);
    }
    bare_store_always = false;
}

// KV memory holds one context. A text that it gave up for others comes back from the host's memory
// when its next turn needs it.
CASE(texts_come_back_from_the_hosts_memory) {
    enum { FIRST = 300, OUTPUT = 8, NEW = 5, OTHERS = 4 };
    static struct stream got, want;
    bare_store_always = true;
    for (int m = 0; m < N_MODELS; m++) {
        rn_model *model = open_model(m);
        int32_t text[FIRST + OUTPUT + NEW];
        rn_engine *engine =
            streams_engine(model, &(rn_engine_options){.n_ctx = LONGEST,
                                                       .speculate = "off",
                                                       .kv_pages = LONGEST / PAGE + 2,
                                                       .page_store_memory = 64 << 20});
        rn_request request = {.prompt = text,
                              .n_prompt = FIRST,
                              .max_tokens = OUTPUT,
                              .ignore_eos = true};
        for (int other = OTHERS; other >= 0; other--) { // the first one is continued
            for (int i = 0; i < FIRST; i++) text[i] = some_token(other, i);
            streams_run(engine, &request, &got);
            page_store_settle(engine->engine.store, 10000);
            if (other == OTHERS) memcpy(want.ids, got.ids, sizeof got.ids);
        }
        for (int i = 0; i < FIRST; i++) text[i] = some_token(OTHERS, i);
        memcpy(text + FIRST, want.ids, OUTPUT * sizeof *text);
        for (int i = FIRST + OUTPUT; i < FIRST + OUTPUT + NEW; i++) text[i] = some_token(9, i);
        request.n_prompt = FIRST + OUTPUT + NEW;
        streams_run(engine, &request, &got);
        const int n_before = FIRST + OUTPUT - 1;
        const int known = has_states(m) ? n_before : n_before / PAGE * PAGE;
        const bool is_given_up = strcmp(models[m], "mamba2") != 0; // its states are a few pages
        check(got.timings.cached_tokens == known && (got.timings.stored_tokens > 0) == is_given_up,
              "%s: %d tokens were cached, %d of them in the host's memory", models[m],
              got.timings.cached_tokens, got.timings.stored_tokens);
        rn_store_stats stats;
        assert_true(rn_engine_get_store_stats(engine, &stats));
        assert_true((stats.memory_hits > 0) == is_given_up && stats.hits == stats.memory_hits);
        rn_engine_destroy(engine);
        run(model, NULL, NULL, text, FIRST + OUTPUT + NEW, OUTPUT, &want);
        check(got.n_ids == OUTPUT && memcmp(got.ids, want.ids, OUTPUT * sizeof *got.ids) == 0,
              "%s: the text differs", models[m]);
        rn_model_close(model);
    }
    bare_store_always = false;
}

// As many requests as the store has fetches are paused while their pages are read. Others that want
// the same pages, or pages of their own, or none, go on.
CASE(paused_requests_keep_no_other_from_the_store) {
    enum { PAUSED = STORE_FETCHES, OTHERS = 3, FIRST = 100, OUTPUT = 4, MOST_STEPS = 100 };
    static struct stream got[PAUSED + OTHERS];
    static int32_t text[PAUSED + OTHERS][FIRST];
    static const int like[OTHERS] = {0, PAUSED, PAUSED + 1}; // the last one is new
    rn_model *model = open_model(0);
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = PAUSED + OTHERS + 1,
                                                                   .n_ctx = LONGEST,
                                                                   .speculate = "off",
                                                                   .page_store_memory = 64 << 20});
    rn_request request = {.n_prompt = FIRST, .max_tokens = OUTPUT, .ignore_eos = true};
    bare_store_always = true;
    engine->engine.store_always = true;
    for (int i = 0; i < PAUSED + 2; i++) {
        for (int k = 0; k < FIRST; k++) text[i][k] = some_token(i, k);
        request.prompt = text[i];
        if (i <= PAUSED) streams_run(engine, &request, got);
    }
    page_store_settle(engine->engine.store, 10000);
    rn_engine_forget_prefixes(engine);
    for (int i = 0; i < PAUSED; i++) {
        request.prompt = text[i];
        streams_submit(engine, &request, &got[i]);
    }
    streams_step(engine, got, PAUSED, 0, 0);
    assert_int_equal(engine->engine.n_fetching, PAUSED);
    for (int i = 0; i < PAUSED; i++) rn_engine_pause(engine, got[i].id, true);
    for (int i = 0; i < OTHERS; i++) {
        request.prompt = text[like[i]];
        streams_submit(engine, &request, &got[PAUSED + i]);
    }
    for (int step = 0; step < MOST_STEPS; step++)
        streams_step(engine, got, PAUSED + OTHERS, step, 0);
    for (int i = 0; i < PAUSED + OTHERS; i++)
        check(got[i].n_ids == (i < PAUSED ? 0 : OUTPUT), "request %d has %d tokens", i,
              got[i].n_ids);
    check(got[PAUSED + 1].timings.stored_tokens > 0 && got[PAUSED].timings.cached_tokens > 0,
          "%d tokens came from the store, %d from another request",
          got[PAUSED + 1].timings.stored_tokens, got[PAUSED].timings.cached_tokens);
    for (int i = 0; i < PAUSED; i++) rn_engine_pause(engine, got[i].id, false);
    streams_drain(engine, got, PAUSED + OTHERS);
    for (int i = 0; i < PAUSED; i++)
        assert_true(got[i].n_ids == OUTPUT && got[i].timings.stored_tokens > 0);
    bare_store_always = false;
    rn_engine_destroy(engine);
    rn_model_close(model);
}

// A prompt whose pages have come is behind a long one, which takes every step. Another one that
// goes first wants the same pages, and does not wait for the long one.
CASE(a_fetch_ends_where_its_prompt_has_no_turn) {
    enum { LOW, LONG, FIRST, N, PROMPT = 100, LONG_PROMPT = LONGEST - 10 };
    static const int n_prompt[N] = {PROMPT, LONG_PROMPT, PROMPT}, like[N] = {LOW, LONG, LOW};
    static struct stream got[N];
    int32_t text[N][LONG_PROMPT];
    rn_model *model = open_model(0);
    bare_store_always = true;
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = N,
                                                                   .n_ctx = LONGEST,
                                                                   .batch_tokens = PAGE,
                                                                   .speculate = "off",
                                                                   .page_store_memory = 64 << 20});
    const struct engine *inside = &engine->engine;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < LONG_PROMPT; k++) text[i][k] = some_token(i, k);
    rn_request request = {.prompt = text[LOW],
                          .n_prompt = PROMPT,
                          .max_tokens = 4,
                          .ignore_eos = true};
    streams_run(engine, &request, &got[LOW]);
    page_store_settle(engine->engine.store, 10000);
    rn_engine_forget_prefixes(engine);
    streams_submit(engine, &request, &got[LOW]);
    streams_step(engine, got, N, 0, 0);
    assert_int_equal(inside->n_fetching, 1);
    while (atomic_load(&inside->running[0]->fetch->state) == FETCH_ASKED) usleep(100);
    for (int i = LONG; i < N; i++) {
        request.prompt = text[like[i]];
        request.n_prompt = (size_t)n_prompt[i];
        request.priority = i;
        streams_submit(engine, &request, &got[i]);
    }
    while (got[FIRST].n_ids == 0 && got[LONG].n_ids == 0) streams_step(engine, got, N, 0, 0);
    check(got[FIRST].n_ids > 0, "the long prompt was evaluated first");
    streams_drain(engine, got, N);
    assert_int_equal(got[LOW].timings.stored_tokens, PROMPT / PAGE * PAGE);
    assert_int_equal(got[FIRST].timings.cached_tokens, PROMPT / PAGE * PAGE);
    streams_check_same(&got[LOW], &got[FIRST]);
    bare_store_always = false;
    rn_engine_destroy(engine);
    rn_model_close(model);
}

// A request that was preempted, and lost its pages, looks for them in the store once more.
CASE(a_preempted_request_gets_its_pages_from_the_store) {
    enum { FIRST = 100, OUTPUT = 12, BEFORE = 3 };
    static struct stream got[2], want;
    rn_model *model = open_model(0);
    int32_t text[2][FIRST];
    for (int i = 0; i < 2 * FIRST; i++) text[i / FIRST][i % FIRST] = some_token(i / FIRST, i);
    run(model, NULL, NULL, text[0], FIRST, OUTPUT, &want);
    bare_store_always = true;
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = 1,
                                                                   .n_ctx = LONGEST,
                                                                   .speculate = "off",
                                                                   .page_store_memory = 64 << 20});
    rn_request request = {.prompt = text[0],
                          .n_prompt = FIRST,
                          .max_tokens = OUTPUT,
                          .ignore_eos = true};
    streams_submit(engine, &request, &got[0]);
    while (got[0].n_ids < BEFORE) streams_step(engine, got, 1, 0, 0);
    request.prompt = text[1];
    request.priority = 1;
    streams_submit(engine, &request, &got[1]);
    while (got[1].n_ids == 0) streams_step(engine, got, 2, 0, 0);
    page_store_settle(engine->engine.store, 10000);
    rn_engine_forget_prefixes(engine);
    streams_drain(engine, got, 2);
    rn_store_stats stats;
    assert_true(rn_engine_get_store_stats(engine, &stats));
    check(got[0].timings.preemptions == 1 && stats.hits == FIRST / PAGE,
          "%d preemptions, %d pages from the store", got[0].timings.preemptions, (int)stats.hits);
    streams_check_same(&want, &got[0]);
    bare_store_always = false;
    rn_engine_destroy(engine);
    rn_model_close(model);
}

// A step in flight may still use pages that a fetch gets, so they are not read before it has
// landed.
CASE(no_page_is_read_beside_a_step_that_may_use_it) {
    enum { FIRST = 100, OUTPUT = 30 };
    static struct stream got[2], want;
    rn_model *model = open_model(0);
    int32_t text[2][FIRST];
    for (int i = 0; i < 2 * FIRST; i++) text[i / FIRST][i % FIRST] = some_token(i / FIRST, i);
    bare_store_always = true;
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = 2,
                                                                   .n_ctx = LONGEST,
                                                                   .speculate = "off",
                                                                   .page_store_memory = 64 << 20});
    const struct engine *inside = &engine->engine;
    rn_request request = {.prompt = text[0],
                          .n_prompt = FIRST,
                          .max_tokens = OUTPUT,
                          .ignore_eos = true};
    streams_run(engine, &request, &want);
    page_store_settle(engine->engine.store, 10000);
    rn_engine_forget_prefixes(engine);
    request.prompt = text[1];
    streams_submit(engine, &request, &got[1]);
    while (got[1].n_ids < 2) streams_step(engine, got, 2, 0, 0);
    const bool is_flying = inside->n_flight > 0; // on a device
    assert_int_equal(is_flying, inside->depth > 1);
    request.prompt = text[0];
    streams_submit(engine, &request, &got[0]);
    streams_step(engine, got, 2, 0, 0);
    assert_int_equal(inside->n_fetching, 1);
    const struct seq *seq = inside->running[0]->fetch ? inside->running[0] : inside->running[1];
    assert_int_equal(atomic_load(&seq->fetch->state) == FETCH_FREE, is_flying);
    streams_drain(engine, got, 2);
    assert_true(got[0].timings.stored_tokens == FIRST / PAGE * PAGE);
    streams_check_same(&want, &got[0]);
    bare_store_always = false;
    rn_engine_destroy(engine);
    rn_model_close(model);
}

// Without prices the costs of the pages decide. A request that was refused does not ask again.
CASE(a_request_asks_the_reader_once_where_computing_is_faster) {
    static struct stream got;
    struct store_folder folder = store_folder_make();
    rn_model *model = open_model(0);
    int32_t text[200];
    for (int i = 0; i < 200; i++) text[i] = some_token(2, i);
    run(model, folder.path, NULL, text, 200, 4, &got);
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_ctx = LONGEST,
                                                                   .speculate = "off",
                                                                   .page_store = folder.path});
    struct page_store *store = engine->engine.store;
    atomic_store(&store->ns_per_byte[TIER_FILES], 60e9); // a minute for a byte
    pthread_mutex_lock(&store->lock);
    for (uint32_t at = 0; at < store->index.n_entry; at++) { // as the writer would learn
        store->index.entry[at].is_known = true;
        store->index.entry[at].worth = 1;
    }
    assert_true(store->index.n_page >= 6);
    pthread_mutex_unlock(&store->lock);
    const rn_request request = {.prompt = text, .n_prompt = 200, .max_tokens = 4};
    streams_run(engine, &request, &got);
    rn_store_stats stats;
    assert_true(rn_engine_get_store_stats(engine, &stats));
    check(stats.refused == 1 && stats.hits == 0, "%d refused, %d read", (int)stats.refused,
          (int)stats.hits);
    rn_engine_destroy(engine);
    rn_model_close(model);
    store_folder_remove(&folder);
}

TEST_PROGRAM(store_turns) { return cases_run(NULL, NULL); }
