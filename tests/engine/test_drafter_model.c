// The draft model as a drafter: a draft is the model's own continuation of the sequence's tokens,
// after any drafts, refusals, forgotten or evicted pages. Its pages' invariants are tested after
// every call.
#include "drafter_world.h"

enum { N_TOKENS = 400 };

// ---------------------------------------------------------------- the trained pair

static rn_model *large, *small;

static int open_pair(void **state) {
    (void)state;
    large = bare_open(TEST_IS_SLOW ? MODELS_DIR "/tale-1m-q8_0.gguf"
                                   : MODELS_DIR "/tale-20m-q8_0.gguf");
    small = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    return 0;
}

static int close_pair(void **state) {
    (void)state;
    rn_model_close(large);
    rn_model_close(small);
    return 0;
}

static const char *const prompts[] = {
    "<|endoftext|><|user|>\ntell me a little story about Lotta the witch<|end|>\n<|assistant|>\n",
    "<|endoftext|><|user|>\nMake a JSON object for a story about a table.<|end|>\n<|assistant|>\n",
    "<|endoftext|><|user|>\nA story about a brave mouse, please.<|end|>\n<|assistant|>\n",
};
enum { N_PROMPTS = sizeof prompts / sizeof *prompts };

// A model's continuation of a prompt, as a sequence of which the prompt is known.
static struct story *story_create(const rn_model *model, const char *prompt,
                                  const rn_sampling *sampling, int max_tokens) {
    struct token_list ids = {0};
    rn_error err = {0};
    check(tokenizer_encode(model->tokenizer, prompt, strlen(prompt), ENCODE_SPECIAL, &ids, &err) ==
              RN_OK,
          "%s", err.message);
    static struct stream stream;
    rn_engine *engine =
        streams_engine(model, &(rn_engine_options){.speculate = "off", .n_ctx = N_TOKENS});
    const rn_request request = {.prompt = ids.id,
                                .n_prompt = ids.count,
                                .max_tokens = max_tokens,
                                .sampling = *sampling,
                                .ignore_eos = true};
    streams_run(engine, &request, &stream);
    rn_engine_destroy(engine);
    struct story *story = story_of(ids.id, (int)ids.count, N_TOKENS);
    story->n_text = story->seq.n_token + stream.n_ids;
    memcpy(story->text, ids.id, ids.count * sizeof *ids.id);
    memcpy(story->text + ids.count, stream.ids, (size_t)stream.n_ids * sizeof *stream.ids);
    story->seq.choices.sampling = *sampling;
    story->seq.ignore_eos = true;
    token_list_deinit(&ids);
    return story;
}

struct tally {
    int tried, accepted;
};

// Drafts along the text, as the engine does: the tokens that agree are taken, and the one after.
static void follow(struct world *w, struct story *story, int n, struct tally *tally) {
    struct seq *seq = &story->seq;
    while (seq->n_token + n < story->n_text) {
        const int made = world_draft(w, story, n);
        assert_in_range(made, 1, n);
        int agree = 0;
        while (agree < made &&
               seq->token[seq->n_token + agree] == story->text[seq->n_token + agree])
            agree++;
        tally->accepted += agree;
        tally->tried += agree + (agree < made);
        world_settle(w, story, seq->n_token + agree);
        memcpy(seq->token, story->text, (size_t)story->n_text * sizeof *story->text);
        seq->n_token += agree + 1;
    }
}

CASE(a_pair_trained_together_agrees_on_most_tokens) {
    struct world w;
    world_init(&w, large, small, &(struct world_config){0});
    struct tally tally = {0};
    const int n = test_scale(40, 80, 150);
    for (int i = 0; i < N_PROMPTS; i++) {
        struct story *story = story_create(large, prompts[i], &(rn_sampling){0}, n);
        follow(&w, story, 4, &tally);
        world_leave(&w, story);
        story_destroy(story);
    }
    print_message("%d of %d tokens were right\n", tally.accepted, tally.tried);
    assert_true(tally.tried > 2 * n && tally.accepted > 0.85 * tally.tried);
    world_deinit(&w);
}

CASE(the_same_model_drafts_the_text_at_any_temperature) {
    rn_sampling sampling[4];
    for (int i = 0; i < 4; i++) {
        sampling[i] = rn_sampling_neutral();
        sampling[i].has_seed = true;
        sampling[i].seed = 77;
        sampling[i].temperature = (float[]){0, 0.7f, 1, 1.6f}[i];
    }
    sampling[1].top_p = 0.9f;
    sampling[1].repetition_penalty = 1.2f;
    sampling[2].min_p = 0.02f;
    sampling[2].presence_penalty = 0.5f;
    sampling[3].top_k = 50;
    struct world w;
    world_init(&w, small, small, &(struct world_config){0});
    for (int i = 0; i < 4; i++) {
        struct story *story = story_create(small, prompts[i % N_PROMPTS], &sampling[i], 120);
        struct tally tally = {0};
        follow(&w, story, 1 + 3 * i, &tally);
        check(tally.tried > 40 && tally.accepted == tally.tried, "%d of %d, case %d",
              tally.accepted, tally.tried, i);
        world_leave(&w, story);
        story_destroy(story);
    }
    world_deinit(&w);
}

// ---------------------------------------------------------------- catching up

CASE(one_that_is_far_behind_drafts_when_it_has_read_all) {
    struct world w, ample;
    world_init(&w, small, small, &(struct world_config){.max_seqs = 4, .batch_tokens = 16});
    world_init(&ample, small, small, &(struct world_config){0});
    struct story *a = story_random(100, N_TOKENS, 1, small->info.n_vocab);
    struct story *b = story_random(3, N_TOKENS, 2, small->info.n_vocab);
    for (int round = 0; round < 20; round++) { // b is not held up by a
        const struct draft_offer offer = world_offer(&w, a, 5);
        assert_int_equal(offer.n, 5);
        if (round == 0) assert_true(offer.setup_ns > 0 && offer.setup_ns < 1e9);
        world_offer(&w, b, 2);
        struct draft_job jobs[] = {{&a->seq, 5}, {&b->seq, 2}};
        world_jobs(&w, jobs, 2);
        assert_int_equal(jobs[1].n, 2);
        world_settle(&w, b, b->seq.n_token + round % 3);
        b->seq.n_token += round % 3 + 1;
        if (round == 0) assert_int_equal(jobs[0].n, 0);
        if (jobs[0].n == 0) continue;
        assert_in_range(round, 100 / 16, 12);
        int32_t drafted[5];
        memcpy(drafted, a->seq.token + a->seq.n_token, sizeof drafted);
        world_settle(&w, a, a->seq.n_token);
        world_leave(&w, a);
        assert_int_equal(world_draft(&ample, a, 5), 5);
        assert_memory_equal(a->seq.token + a->seq.n_token, drafted, sizeof drafted);
        break;
    }
    world_deinit(&w);
    world_deinit(&ample);
    story_destroy(a);
    story_destroy(b);
}

CASE(a_text_that_was_read_once_need_not_be_read_again) {
    struct world w;
    world_init(&w, small, small, &(struct world_config){0});
    struct story *first = story_random(200, N_TOKENS, 3, small->info.n_vocab);
    struct story *next = story_random(200, N_TOKENS, 3, small->info.n_vocab);
    struct story *other = story_random(200, N_TOKENS, 3, small->info.n_vocab);
    strcpy(other->seq.salt, "other");
    other->seq.n_salt = 5;
    assert_true(world_offer(&w, first, 1).setup_ns > 0);
    assert_int_equal(world_draft(&w, first, 1), 1);
    world_leave(&w, first);
    world_leave(&w, first); // may be said twice
    // prices follow the machine's clock, so both are asked for at one time: few tokens against 200
    const double read = world_offer(&w, next, 1).setup_ns;
    const double unread = world_offer(&w, other, 1).setup_ns;
    check(read < 0.5 * unread, "%g ns for a text that was read, %g ns for one that was not", read,
          unread);
    story_destroy(first);
    world_leave(&w, next);
    world_leave(&w, other);
    story_destroy(next);
    story_destroy(other);
    world_deinit(&w);
}

CASE(it_offers_what_the_sequence_and_its_context_have_room_for) {
    struct world w;
    world_init(&w, small, small, &(struct world_config){.n_ctx = 64});
    struct story *story = story_random(60, 200, 4, small->info.n_vocab);
    for (int n_token = 55; n_token <= 70; n_token++) {
        story->seq.n_token = n_token;
        const int n = world_offer(&w, story, 8).n;
        assert_int_equal(n, n_token > 64 ? 0 : n_token + 8 <= 65 ? 8 : 65 - n_token);
        if (n > 0) assert_int_equal(world_draft(&w, story, n), n);
        world_settle(&w, story, n_token);
    }
    assert_int_equal(story->draft.slot[RN_DRAFTER_MODEL], -1);
    story_destroy(story);
    story = story_random(20, 22, 5, small->info.n_vocab); // two more tokens are allowed
    assert_int_equal(world_offer(&w, story, 8).n, 2);
    story->seq.n_token = 22;
    assert_int_equal(world_offer(&w, story, 8).n, 0);
    world_leave(&w, story);
    story_destroy(story);
    world_deinit(&w);
}

// ---------------------------------------------------------------- ends and constraints

// Allows even tokens alone, and at place `end_at` behind its start the end of the text alone. Knows
// how far it was moved.
struct evens {
    int at, deepest, end_at;
    int32_t end;
};

static void evens_mask(void *ctx, int choice, uint64_t *allowed, int n_vocab) {
    const struct evens *evens = ctx;
    (void)choice;
    for (int i = 0; i < (n_vocab + 63) / 64; i++)
        allowed[i] = evens->at == evens->end_at ? 0 : 0x5555555555555555u;
    if (evens->at == evens->end_at)
        allowed[evens->end / 64] = UINT64_C(1) << evens->end % 64;
    else
        allowed[evens->end / 64] &= ~(UINT64_C(1) << evens->end % 64);
}

static void evens_advance(void *ctx, int choice, int32_t token) {
    struct evens *evens = ctx;
    (void)choice;
    assert_true(token % 2 == 0);
    if (++evens->at > evens->deepest) evens->deepest = evens->at;
}

static void evens_rollback(void *ctx, int choice, int n) {
    (void)choice;
    ((struct evens *)ctx)->at -= n;
}

CASE(a_draft_keeps_to_the_constraint_and_leaves_it_where_it_stood) {
    struct world w;
    world_init(&w, small, small, &(struct world_config){0});
    struct story *story = story_random(10, N_TOKENS, 6, small->info.n_vocab);
    story->seq.ignore_eos = false;
    struct evens evens = {.end_at = -1, .end = tokenizer_eos(small->tokenizer)};
    story->seq.choices.constraint =
        (rn_constraint){&evens, evens_mask, evens_advance, evens_rollback};
    int32_t *drafted = story->seq.token + 10;
    assert_int_equal(world_draft(&w, story, 7), 7);
    for (int i = 0; i < 7; i++) assert_int_equal(drafted[i] % 2, 0);
    assert_int_equal(evens.at, 0);
    assert_int_equal(evens.deepest, 6); // not over the last one
    world_settle(&w, story, story->seq.n_token++);
    // an end is the last token of a draft, unless the text continues
    evens.end_at = 2;
    assert_int_equal(world_draft(&w, story, 7), 3);
    assert_int_equal(drafted[1 + 2], evens.end);
    assert_int_equal(evens.at, 0);
    world_settle(&w, story, story->seq.n_token++);
    story->seq.ignore_eos = true;
    assert_int_equal(world_draft(&w, story, 7), 7);
    assert_int_equal(drafted[2 + 2], evens.end);
    world_settle(&w, story, story->seq.n_token++);
    world_leave(&w, story);
    story_destroy(story);
    world_deinit(&w);
}

// Nothing may come at the second place: the draft has one token; or at the first: it has none.
static void nothing_mask(void *ctx, int choice, uint64_t *allowed, int n_vocab) {
    (void)choice;
    if (*(int *)ctx <= 0) memset(allowed, 0, (size_t)(n_vocab + 63) / 64 * 8);
}
static void nothing_advance(void *ctx, int choice, int32_t token) {
    (void)choice, (void)token;
    --*(int *)ctx;
}
static void nothing_rollback(void *ctx, int choice, int n) {
    (void)choice;
    *(int *)ctx += n;
}

CASE(a_draft_ends_where_no_token_is_possible) {
    struct world w;
    world_init(&w, small, small, &(struct world_config){0});
    struct story *story = story_random(10, N_TOKENS, 6, small->info.n_vocab);
    int left;
    story->seq.choices.constraint =
        (rn_constraint){&left, nothing_mask, nothing_advance, nothing_rollback};
    for (left = 0; left < 4; left++) {
        const int before = left;
        struct draft_job job = {&story->seq, 6};
        if (left == 0) world_offer(&w, story, 6);
        world_jobs(&w, &job, 1);
        assert_int_equal(job.n, before);
        assert_int_equal(left, before);
        if (job.n) world_settle(&w, story, 10 + before / 2);
        story->seq.n_token = 11 + before;
    }
    world_leave(&w, story);
    story_destroy(story);
    world_deinit(&w);
}

CASE(costs_are_known_from_the_beginning) {
    struct world w;
    world_init(&w, small, small, &(struct world_config){.max_seqs = 16});
    const struct drafter_class *cls = w.drafter->cls;
    for (int place = 0; place < 3; place++) {
        for (int n = 1; n < 40; n++) {
            const double ns = cls->cost_ns(w.drafter, place, n);
            assert_true(ns > 0 && ns < 1e9);
            assert_true(n == 1 || ns >= cls->cost_ns(w.drafter, place, n - 1));
        }
    }
    world_deinit(&w);
}

TEST_PROGRAM(drafter_model) { return cases_run(open_pair, close_pair); }
