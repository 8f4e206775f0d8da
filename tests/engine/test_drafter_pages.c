// A draft model's pages, after any mix of drafts, refusals, tokens of other drafters, leaves and
// shortages. A draft equals that of a drafter that reads the sequence for the first time, to the
// last bit of its logits. Models have full, windowed and recurrent layers. Also vocabularies: which
// ones fit, and ids that one of the two models lacks.
#include "backend/cpu/cpu.h"
#include "drafter_world.h"

enum { LIMIT = 300, MAX_STORIES = 8, N_VOCAB = 512 };

// ---------------------------------------------------------------- models

static rn_model *recurrent_open(int n_vocab) { return bare_open_recurrent(n_vocab, 4096); }

static rn_model *open_any(const char *name) {
    if (strcmp(name, "large states") == 0)
        return bare_open_states(N_VOCAB, 4096, BARE_STATES(3)); // a checkpoint in three blocks
    return strcmp(name, "recurrent") == 0 ? recurrent_open(N_VOCAB) : bare_open(name);
}

// ---------------------------------------------------------------- against a fresh reader

struct random {
    uint64_t state;
    uint32_t n_vocab;
};

static int below(struct random *r, int n) { return (int)story_draw(&r->state, (uint32_t)n); }

// The first row of logits of the last step. A draft asks for tokens alone, so results have none.
static const float *last_logits(const struct drafter_model *d) {
    assert_string_equal(d->backend->cls->name, "cpu");
    return cpu_row_at((const struct cpu_backend *)d->backend, d->plan->logits, 0);
}

// The draft of the story as one makes it that has read nothing of it; the same logits of its last
// row where the story was alone.
static void check_fresh(struct world *w, struct world *fresh, const struct story *story, int made,
                        bool is_alone) {
    struct story *copy = story_of(story->seq.token, story->seq.n_token, story->seq.limit);
    copy->seq.ignore_eos = true;
    assert_int_equal(world_draft(fresh, copy, made), made);
    assert_memory_equal(copy->seq.token, story->seq.token,
                        (size_t)(copy->seq.n_token + made) * sizeof(int32_t));
    if (is_alone) {
        const struct drafter_model *a = world_model(w), *b = world_model(fresh);
        assert_memory_equal(last_logits(a), last_logits(b), (size_t)a->n_vocab * sizeof(float));
    }
    world_leave(fresh, copy);
    kv_forget_prefixes(world_model(fresh)->kv);
    story_destroy(copy);
}

// Any number of the drafted tokens was right; then comes another one, and maybe some that others
// drafted.
static void go_on(struct world *w, struct story *story, int made, struct random *r) {
    struct seq *seq = &story->seq;
    const int n_valid = seq->n_token + below(r, made + 1);
    if (made) world_settle(w, story, n_valid);
    seq->n_token = n_valid + 1 + (below(r, 4) == 0 ? below(r, 12) : 0);
    for (int i = n_valid; i < seq->n_token; i++)
        seq->token[i] = (int32_t)story_draw(&r->state, r->n_vocab);
    if (below(r, 10) == 0) world_leave(w, story);
}

// One step of all stories that have something to offer; returns how many drafted.
static int step(struct world *w, struct world *fresh, struct story **stories, int n,
                struct random *r) {
    struct draft_job jobs[16];
    struct story *of[16];
    int n_jobs = 0, n_made = 0;
    for (int i = 0; i < n; i++) {
        if (stories[i]->seq.n_token > LIMIT - 40 || below(r, 3) == 0) continue;
        const int offered = world_offer(w, stories[i], 1 + below(r, 9)).n;
        of[n_jobs] = stories[i];
        if (offered) jobs[n_jobs++] = (struct draft_job){&stories[i]->seq, offered};
    }
    if (n_jobs == 0) return 0;
    world_jobs(w, jobs, n_jobs);
    for (int i = 0; i < n_jobs; i++) {
        if (jobs[i].n) check_fresh(w, fresh, of[i], jobs[i].n, n_jobs == 1);
        n_made += jobs[i].n > 0;
    }
    for (int i = 0; i < n_jobs; i++) go_on(w, of[i], jobs[i].n, r);
    return n_made;
}

static uint64_t context_bytes(const rn_model *model, int n_ctx) {
    const struct kv_bytes pages = world_pages(&model->model.plan);
    const struct kv_config kv = budget_kv_config(&model->model.plan, &pages);
    return kv_need(&kv, n_ctx, 64);
}

// Of as many stories and with memory for as many contexts of 200 tokens; 0 contexts: ample.
static void check_drafts(const char *name, uint64_t seed, int n_stories, int n_contexts) {
    const int n_rounds = test_scale(16, 60, 60);
    rn_model *model = open_any(name);
    struct world w, fresh;
    struct world_config config = {.n_ctx = LIMIT, .batch_tokens = 64};
    world_init(&fresh, model, model, &config);
    if (n_contexts) config.kv_bytes = (uint64_t)n_contexts * context_bytes(model, 200);
    world_init(&w, model, model, &config);
    struct random random = {seed, (uint32_t)model->info.n_vocab};
    struct story *stories[MAX_STORIES];
    for (int i = 0; i < n_stories; i++)
        stories[i] = story_random(3 + 18 * i, LIMIT, seed + 10 + (uint64_t)i, model->info.n_vocab);
    int made = 0;
    for (int round = 0; round < n_rounds; round++)
        made += step(&w, &fresh, stories, n_stories, &random);
    check(made > n_rounds / (n_contexts ? 3 : 2), "%s drafted %d times", name, made);
    world_deinit(&w);
    world_deinit(&fresh);
    for (int i = 0; i < n_stories; i++) story_destroy(stories[i]);
    rn_model_close(model);
}

CASE(after_any_refusal_drafts_are_those_of_a_fresh_reader) {
    check_drafts(MODELS_DIR "/tale-1m-f16.gguf", 5, 3, 0);
    check_drafts("recurrent", 6, 3, 0);
    check_drafts("large states", 9, 3, 0);
    check_drafts(TEST_DATA "/golden/gemma3/model.gguf", 7, 3, 0);
    check_drafts(TEST_DATA "/golden/gptoss/model.gguf", 8, 3, 0);
}

CASE(with_few_pages_some_draft_and_all_are_right) {
    check_drafts(MODELS_DIR "/tale-1m-f16.gguf", 7, MAX_STORIES, 2);
    check_drafts("recurrent", 7, MAX_STORIES, 2);
    check_drafts("large states", 8, MAX_STORIES, 2);
}

CASE(pages_that_were_not_used_for_long_go_to_others) {
    rn_model *model = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    struct world w;
    world_init(&w, model, model,
               &(struct world_config){.n_ctx = LIMIT,
                                      .max_seqs = 2,
                                      .kv_bytes = context_bytes(model, LIMIT)});
    struct story *a = story_random(200, LIMIT, 1, model->info.n_vocab);
    struct story *b = story_random(210, LIMIT, 2, model->info.n_vocab);
    assert_int_equal(world_draft(&w, a, 4), 4);
    world_settle(&w, a, a->seq.n_token++);
    int offers = 0;
    for (; offers < 60; offers++) { // while it is used, it stays
        assert_int_equal(world_offer(&w, b, 4).n, 0);
        assert_int_equal(world_draft(&w, a, 4), 4);
        world_settle(&w, a, a->seq.n_token++);
    }
    while (offers < 1000 && world_offer(&w, b, 4).n == 0) offers++;
    assert_in_range(offers, 100, 999);
    assert_int_equal(a->draft.slot[RN_DRAFTER_MODEL], -1);
    assert_int_equal(world_draft(&w, b, 4), 4);
    world_deinit(&w);
    story_destroy(a);
    story_destroy(b);
    rn_model_close(model);
}

// ---------------------------------------------------------------- vocabularies

static rn_status compared(const rn_model *draft, const rn_model *target, rn_error *err) {
    return drafter_model_check(draft->tokenizer, target->tokenizer, err);
}

CASE(another_vocabulary_is_refused_with_what_differs) {
    rn_error err = {0};
    rn_model *tale = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    rn_model *gemma = bare_open(TEST_DATA "/golden/gemma3/model.gguf");
    rn_model *gpt = bare_open(TEST_DATA "/golden/gptoss/model.gguf");
    assert_int_equal(compared(tale, tale, &err), RN_OK);
    assert_int_equal(compared(gemma, tale, &err), RN_ERR_MODEL);
    char sizes[64];
    snprintf(sizes, sizeof sizes, "%d tokens, the model has %d", gemma->info.n_vocab,
             tale->info.n_vocab);
    check(strstr(err.message, sizes), "%s", err.message);
    if (gemma->info.n_vocab == gpt->info.n_vocab) {
        assert_int_equal(compared(gemma, gpt, &err), RN_ERR_MODEL);
        check(strstr(err.message, "token 0 is '"), "%s", err.message);
    }
    struct world w;
    world_init(&w, tale, tale, &(struct world_config){0});
    struct drafter *drafter;
    const struct drafter_model_config config = {.model = &gemma->model,
                                                .tokenizer = gemma->tokenizer,
                                                .target_tokenizer = tale->tokenizer};
    assert_int_equal(drafter_model_create(&config, &drafter, &err), RN_ERR_MODEL);
    assert_null(drafter);
    world_deinit(&w);
    rn_model_close(tale);
    rn_model_close(gemma);
    rn_model_close(gpt);
}

// A vocabulary of a few tokens.
static struct tokenizer *few(const char *const *text, const int32_t *type, int n, int32_t eos) {
    struct text_span span[8];
    for (int i = 0; i < n; i++) span[i] = (struct text_span){text[i], strlen(text[i])};
    const struct vocab_source source = {.name = "few",
                                        .model = VOCAB_BYTE_LEVEL,
                                        .token = span,
                                        .type = type,
                                        .n_token = n,
                                        .bos = -1,
                                        .eos = eos,
                                        .unk = -1,
                                        .eot = -1,
                                        .pad = -1};
    struct tokenizer *tokenizer;
    rn_error err = {0};
    check(tokenizer_create(&source, &tokenizer, &err) == RN_OK, "%s", err.message);
    return tokenizer;
}

CASE(the_first_token_that_differs_is_named) {
    static const int32_t normal[] = {1, 1, 1, 3}, special[] = {1, 1, 3, 3}, unused[] = {1, 1, 5, 3};
    static const struct {
        const char *text[4];
        const int32_t *type;
        int32_t eos;
        const char *words; // NULL: it is the same
    } cases[] = {
        {{"a", "b", "c", "<e>"}, normal, 3, NULL},
        {{"a", "x", "c", "<e>"}, normal, 3, "token 1 is 'x' there, 'b' in the model"},
        {{"a", "b", "\xc4\x8a", "<e>"}, normal, 3, "token 2 is '\\x0a' there, 'c'"}, // a line's end
        {{"a", "b", "c", "<e>"}, special, 3, "token 2, 'c', is a special token there, but not"},
        {{"a", "b", "c", "<e>"}, normal, -1, "token 3, '<e>', is an end token in the model, but"},
        {{"a", "b", "", "<e>"}, unused, 3, NULL},
    };
    struct tokenizer *target = few(cases[0].text, normal, 4, 3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *draft = few(cases[i].text, cases[i].type, 4, cases[i].eos);
        rn_error err = {0};
        const rn_status status = drafter_model_check(draft, target, &err);
        assert_int_equal(status, cases[i].words ? RN_ERR_MODEL : RN_OK);
        if (cases[i].words) check(strstr(err.message, cases[i].words), "%s", err.message);
        tokenizer_destroy(draft);
    }
    tokenizer_destroy(target);
}

CASE(ids_that_one_of_two_padded_vocabularies_lacks_do_no_harm) {
    rn_model *model[2] = {recurrent_open(N_VOCAB), recurrent_open(N_VOCAB + 8)};
    rn_error err = {0};
    for (int smaller = 0; smaller < 2; smaller++) { // which of the two drafts
        rn_model *draft = model[!smaller], *target = model[smaller];
        assert_int_equal(compared(draft, target, &err), RN_OK);
        struct world w;
        world_init(&w, target, draft, &(struct world_config){0});
        struct story *story = story_random(50, LIMIT, 3, target->info.n_vocab);
        for (int i = 0; i < 50; i += 10) story->seq.token[i] = target->info.n_vocab - 1 - i / 10;
        for (int round = 0; round < 20; round++) {
            // the noise moves to other ids with each seed
            story->seq.choices.sampling.seed = (uint64_t)round;
            story->seq.choices.sampling.temperature = 100;
            assert_int_equal(world_draft(&w, story, 8), 8);
            for (int i = 0; i < 8; i++)
                assert_in_range(story->seq.token[story->seq.n_token + i], 0, N_VOCAB - 1);
            world_settle(&w, story, story->seq.n_token);
            story->seq.n_token++;
        }
        world_deinit(&w);
        story_destroy(story);
    }
    rn_model *apart = recurrent_open(N_VOCAB + 9); // more than a 64th
    assert_int_equal(compared(model[0], apart, &err), RN_ERR_MODEL);
    check(strstr(err.message, "512 tokens, the model has 521"), "%s", err.message);
    rn_model_close(apart);
    for (int i = 0; i < 2; i++) rn_model_close(model[i]);
}

TEST_PROGRAM(drafter_pages) { return cases_run(NULL, NULL); }
