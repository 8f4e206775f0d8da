// Drafts where a step does not end with a token: the text, the constraint and the rows of the batch
// are the same as without drafts.
#include "bare_engine.h"
#include "streams.h"

enum { MAX_SCRIPT = 16 };

// A text that is the only possible one; behind it nothing is.
struct script {
    int32_t token[MAX_SCRIPT];
    int n_token, n_prompt;
    int at;
    int32_t end;      // a token that ends texts; may come at any time
    bool end_allowed; // by the mask
    int n_past_end;   // calls of advance with it
};

static void script_mask(void *ctx, int choice, uint64_t *allowed, int n_vocab) {
    const struct script *script = ctx;
    (void)choice;
    for (int id = 0; id < n_vocab; id++) {
        const bool next = script->at < script->n_token && id == script->token[script->at];
        if (!next && !(script->end_allowed && id == script->end))
            allowed[id / 64] &= ~(UINT64_C(1) << id % 64);
    }
}

static void script_advance(void *ctx, int choice, int32_t token) {
    struct script *script = ctx;
    (void)choice;
    script->n_past_end += token == script->end;
    script->at++;
}

static void script_rollback(void *ctx, int choice, int n_tokens) {
    (void)choice;
    ((struct script *)ctx)->at -= n_tokens;
}

// The script's next tokens; data is the request's.
static int script_draft(void *ctx, void *data, int choice, const int32_t *token, int n_token,
                        int32_t *out, int most) {
    (void)ctx;
    (void)choice;
    (void)token;
    const struct script *script = data;
    int n = 0;
    for (int at = n_token - script->n_prompt; n < most && at < script->n_token; at++)
        out[n++] = script->token[at];
    return n;
}

static void script_read(struct script *script, const rn_model *model, const char *text) {
    struct token_list list = {0};
    rn_error err = {0};
    check(tokenizer_encode(model->tokenizer, text, strlen(text), 0, &list, &err) == RN_OK, "%s",
          err.message);
    assert_true(list.count >= 3 && list.count <= MAX_SCRIPT);
    *script = (struct script){.n_token = (int)list.count, .n_prompt = 1, .end = -1};
    memcpy(script->token, list.id, list.count * sizeof *list.id);
    token_list_deinit(&list);
}

static void script_run(const rn_model *model, struct script *script, rn_request request,
                       const char *speculate, struct stream *out) {
    const int32_t prompt[] = {1};
    const rn_engine_options options = {.n_threads = 1,
                                       .speculate = speculate,
                                       .draft_fn = script_draft,
                                       .draft_min = MAX_SCRIPT - 1,
                                       .draft_max = MAX_SCRIPT - 1};
    rn_engine *engine = streams_engine(model, &options);
    request.prompt = prompt;
    request.n_prompt = 1;
    request.data = script;
    request.constraint = (rn_constraint){script, script_mask, script_advance, script_rollback};
    script->at = 0;
    streams_run(engine, &request, out);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

// Text held back for a stop string comes with the error, and earlier certain text of the same step
// is still there.
CASE(text_before_a_dead_end_is_what_it_is_without_drafts) {
    rn_model *model = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    static struct stream plain, drafted;
    const char *stop = "house was green";
    const rn_request request = {.max_tokens = MAX_SCRIPT + 8, .stop = &stop, .n_stop = 1};
    struct script script;
    script_read(&script, model, "One day the little dog saw that the house was");
    script_run(model, &script, request, "off", &plain);
    script_run(model, &script, request, "custom", &drafted);
    assert_int_equal(plain.status, RN_ERR_NUMERIC);
    assert_int_equal(plain.n_ids, script.n_token);
    assert_true(drafted.timings.accepted_tokens > 2);
    streams_check_same(&plain, &drafted);
    rn_model_close(model);
}

// A constraint is not led over the end of a text: behind it there is nothing to ask.
CASE(no_constraint_is_led_past_the_end) {
    rn_model *model = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    static struct stream plain, drafted;
    const rn_request request = {.max_tokens = MAX_SCRIPT + 8};
    struct script script;
    script_read(&script, model, "One day the little dog saw a house");
    for (int32_t id = 0; script.end < 0; id++)
        if (tokenizer_is_end(model->tokenizer, id)) script.end = id;
    script.end_allowed = true;
    const int at = script.n_token / 2;
    script.token[at] = script.end; // with tokens behind it
    script_run(model, &script, request, "off", &plain);
    script_run(model, &script, request, "custom", &drafted);
    streams_check_same(&plain, &drafted);
    assert_int_equal(script.n_past_end, 0);
    rn_model_close(model);
}

static uint64_t ticking_now(void *ctx) { return *(uint64_t *)ctx += 1000; }

// The time without drafts includes the text's own tokens, even with the first one in the same step.
// It excludes tokens that were chosen behind its end.
CASE(time_without_drafts_is_that_of_the_text) {
    rn_model *model = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    static struct stream whole, cut;
    const char *stop = " dog";
    uint64_t time = 1;
    struct script script;
    script_read(&script, model, "One day the little dog saw that the house was");
    bare_clock = (struct engine_clock){ticking_now, &time};
    rn_request request = {.max_tokens = script.n_token};
    script_run(model, &script, request, "custom", &whole);
    request.stop = &stop;
    request.n_stop = 1;
    script_run(model, &script, request, "custom", &cut);
    bare_clock = (struct engine_clock){0};
    assert_int_equal(whole.n_ids, script.n_token);
    assert_true(cut.n_ids > 1 && cut.n_ids < whole.n_ids);
    const double each = whole.timings.undrafted_ms / (whole.n_ids - 1);
    const double each_cut = cut.timings.undrafted_ms / (cut.n_ids - 1);
    check(each > 0 && each_cut > 0.99 * each && each_cut < 1.01 * each, "%g and %g ms", each,
          each_cut);
    rn_model_close(model);
}

// ---------------------------------------------------------------- drafts that cannot pay

static int counted_draft(void *ctx, void *data, int choice, const int32_t *token, int n_token,
                         int32_t *out, int most) {
    (void)data, (void)choice, (void)most;
    ++*(int *)ctx;
    out[0] = token[n_token - 1];
    return 1;
}

// A step of 64 rows takes so many times one of a row.
static void set_price(struct price *price, double times) {
    price->n_point = 2;
    price->half = 0;
    price->point[0] = (struct price_point){1, 1e6};
    price->point[1] = (struct price_point){64, times * 1e6};
    price->ns_per_byte = price->ns_per_flop = 0;
}

// A drafter is asked in each step where its draft may pay. Where none can, it is asked now and
// then, nothing is drafted, and its guesses are learned from.
CASE(drafters_are_asked_rarely_where_no_draft_can_pay) {
    enum { STEPS = 64 };
    rn_model *model = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    for (int pays = 0; pays < 2; pays++) {
        static struct stream stream;
        const int32_t prompt[] = {1};
        int n_asked = 0;
        const rn_engine_options options = {.n_threads = 1,
                                           .speculate = "custom",
                                           .draft_fn = counted_draft,
                                           .draft_ctx = &n_asked};
        rn_engine *engine = streams_engine(model, &options);
        const rn_request request = {.prompt = prompt,
                                    .n_prompt = 1,
                                    .max_tokens = 2 * STEPS,
                                    .ignore_eos = true};
        streams_submit(engine, &request, &stream);
        for (int step = 0; step < STEPS; step++) {
            set_price(&engine->engine.price, pays ? 1.1 : 64);
            streams_step(engine, &stream, 1, step, 0);
        }
        const struct spec_control *control = &engine->engine.draft->control;
        const int least = pays ? STEPS - 2 : STEPS / 8 - 1, most = pays ? STEPS : STEPS / 8 + 1;
        check(n_asked >= least && n_asked <= most, "asked %d times", n_asked);
        assert_true(control->all[DRAFT_CUSTOM].tried > 0);
        if (!pays) assert_int_equal(engine->engine.stats.draft[RN_DRAFTER_CUSTOM].tokens, 0);
        streams_drain(engine, &stream, 1);
        rn_engine_destroy(engine);
    }
    rn_model_close(model);
}

// ---------------------------------------------------------------- rows that are evaluated again

static int wrong_draft(void *ctx, void *data, int choice, const int32_t *token, int n_token,
                       int32_t *out, int most) {
    (void)data;
    (void)choice;
    (void)token;
    const int n_vocab = *(const int *)ctx;
    for (int i = 0; i < most; i++) out[i] = (n_token * 7 + i * 31) % n_vocab;
    return most;
}

// Refused drafts of a recurrent model leave rows to evaluate again; a sequence that comes then, or
// returns from a pause, still finds room in the batch.
CASE(rows_again_leave_everybody_a_row) {
    enum { N_VOCAB = 512, N_SEQS = 4, N_TOKENS = 60 };
    static struct stream plain[N_SEQS], drafted[N_SEQS];
    int n_vocab = N_VOCAB;
    rn_model *model = bare_open_recurrent(N_VOCAB, 128);
    for (int spare = 0; spare < 40; spare += spare < 8 ? 1 : 13) {
        for (int drafts = 0; drafts < 2; drafts++) {
            const rn_engine_options options = {.n_threads = 1,
                                               .max_seqs = N_SEQS,
                                               .batch_tokens = N_SEQS + spare,
                                               .speculate = drafts ? "custom" : "off",
                                               .draft_fn = wrong_draft,
                                               .draft_ctx = &n_vocab,
                                               .draft_min = 7,
                                               .draft_max = 7};
            struct stream *streams = drafts ? drafted : plain;
            rn_engine *engine = streams_engine(model, &options);
            for (int i = 0; i < N_SEQS; i++) {
                const int32_t prompt[] = {5 + i};
                const rn_request request = {.prompt = prompt,
                                            .n_prompt = 1,
                                            .max_tokens = N_TOKENS,
                                            .ignore_eos = true};
                streams_submit(engine, &request, &streams[i]);
                for (int step = 0; step < 9; step++) streams_step(engine, streams, i + 1, step, 0);
                if (i == 0) rn_engine_pause(engine, streams[0].id, true);
                if (i == 2) rn_engine_pause(engine, streams[0].id, false);
            }
            streams_drain(engine, streams, N_SEQS);
            streams_check_empty(engine);
            rn_engine_destroy(engine);
        }
        for (int i = 0; i < N_SEQS; i++) {
            assert_int_equal(plain[i].n_ids, N_TOKENS);
            streams_check_same(&plain[i], &drafted[i]);
        }
    }
    rn_model_close(model);
}

TEST_PROGRAM(draft_edges) { return cases_run(NULL, NULL); }
