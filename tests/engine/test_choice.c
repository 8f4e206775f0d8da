// Choosing under a constraint: the mask against a naive definition, the constraint's place in the
// order of steps, and constraints that are refused.
#define VOCAB 203
#include "engine/choice/choice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "check.h"
#include "choose_reference.h"
#include "engine/choice/sampling.h"
#include "engine/request/seq.h"
#include "load/vocab.h"
#include "sampler_chain.h"

#define RANDOM_SEED 7046029254386353131u
#include "random.h"

enum { WORDS = (VOCAB + 63) / 64, HISTORY = 48 };

// ---------------------------------------------------------------- a constraint

// Allows what a hash of the state and the token says; the state is the tokens so far. It knows what
// was asked of it.
struct toy {
    int32_t passed[HISTORY];
    int n_passed;
    double share; // of the tokens that are allowed
    int masks, advances, rollbacks;
    int choice;
};

static bool toy_allows(const struct toy *toy, int n_passed, int32_t token) {
    uint64_t hash = 0x9e3779b97f4a7c15u + (uint64_t)token;
    for (int i = 0; i < n_passed; i++)
        hash = (hash ^ (uint64_t)toy->passed[i]) * 0xff51afd7ed558ccdu + (hash >> 29);
    hash = (hash ^ hash >> 32) * 0xc4ceb9fe1a85ec53u;
    return (double)(hash >> 11) * 0x1p-53 < toy->share;
}

static void toy_mask(void *ctx, int choice, uint64_t *allowed, int n_vocab) {
    struct toy *toy = ctx;
    toy->masks++;
    assert_int_equal(choice, toy->choice);
    assert_int_equal(n_vocab, VOCAB);
    for (int id = 0; id < n_vocab; id++) {
        assert_true(allowed[id / 64] >> (id % 64) & 1);
        if (!toy_allows(toy, toy->n_passed, id)) allowed[id / 64] &= ~(UINT64_C(1) << (id % 64));
    }
}

static void toy_advance(void *ctx, int choice, int32_t token) {
    struct toy *toy = ctx;
    assert_int_equal(choice, toy->choice);
    assert_true(toy_allows(toy, toy->n_passed, token));
    assert_true(toy->n_passed < HISTORY);
    toy->passed[toy->n_passed++] = token;
    toy->advances++;
}

static void toy_rollback(void *ctx, int choice, int n_tokens) {
    struct toy *toy = ctx;
    assert_int_equal(choice, toy->choice);
    assert_true(n_tokens > 0 && n_tokens <= toy->n_passed);
    toy->n_passed -= n_tokens;
    toy->rollbacks += n_tokens;
}

// ---------------------------------------------------------------- a sequence

struct scene {
    struct toy toy;
    int32_t token[HISTORY];
    float logits[VOCAB];
    uint64_t breakers[WORDS];
    rn_logit_bias bias[3];
    struct choices choices;
    int n_token;
};

static void scene_logits(struct scene *scene) {
    const bool coarse = below(3) == 0, holes = below(3) == 0;
    for (int i = 0; i < VOCAB; i++) {
        const double x = 8 * (uniform() + uniform() - 1);
        scene->logits[i] = (float)(coarse ? rint(x) : x);
        if (holes && below(4) == 0) scene->logits[i] = below(2) ? NAN : -INFINITY;
    }
}

// Every number of the table is drawn over a range where it does something, with that chance.
static void scene_sampling(struct scene *scene, double chance) {
    rn_sampling *s = &scene->choices.sampling;
    *s = rn_sampling_neutral();
#define DRAW_FLOAT(low, high) (float)((low) + ((high) - (low)) * uniform())
#define DRAW_INT(low, high)   (int)((low) + ((high) - (low)) * uniform())
#define SAMPLING_NUMBER(kind, id, field, neutral, min, max, ...)                                   \
    if (uniform() < chance)                                                                        \
        s->field = DRAW_##kind((double)(min), (double)(max) < 30 ? (double)(max) : 30);
#include "plan/sampling.def"
#undef DRAW_FLOAT
#undef DRAW_INT
    if (below(2)) s->temperature = (float)(2 * uniform());
    s->seed = (uint64_t)below(1 << 30);
    for (int i = 0; i < 3; i++)
        scene->bias[i] = (rn_logit_bias){below(VOCAB), (float)(20 * uniform() - 10)};
    s->logit_bias = scene->bias;
    s->n_logit_bias = (size_t)below(4);
}

static void scene_random(struct scene *scene, double chance) {
    static const double shares[] = {0.02, 0.3, 0.9, 1};
    *scene = (struct scene){.toy = {.share = shares[below(4)], .choice = below(3)}};
    scene_logits(scene);
    const int n = 1 + below(HISTORY / 2);
    for (int i = 0; i < HISTORY; i++) scene->token[i] = below(5) * 31;
    scene->breakers[0] = (uint64_t)below(2);
    scene->n_token = n;
    scene->choices =
        (struct choices){.token = scene->token,
                         .n_prompt = 1 + below(n),
                         .index = scene->toy.choice,
                         .breakers = {scene->breakers},
                         .constraint = {&scene->toy, toy_mask, toy_advance, toy_rollback}};
    scene_sampling(scene, chance);
}

// The meaning of the mask: masked logits do not exist.
static void masked(const struct scene *scene, float *out) {
    for (int id = 0; id < VOCAB; id++)
        out[id] = toy_allows(&scene->toy, scene->toy.n_passed, id) ? scene->logits[id] : -INFINITY;
}

// Room for the scene's descriptions, as submit makes it.
static void scene_open(struct scene *scene, int n_slots) {
    rn_sampling *s = &scene->choices.sampling;
    for (size_t i = 1; i < s->n_logit_bias; i++)
        for (size_t at = i; at > 0 && scene->bias[at - 1].token > scene->bias[at].token; at--) {
            const rn_logit_bias moved = scene->bias[at];
            scene->bias[at] = scene->bias[at - 1];
            scene->bias[at - 1] = moved;
        }
    assert_int_equal(choices_init(&scene->choices, VOCAB, HISTORY, n_slots, NULL), RN_OK);
}

static int32_t choose_token(struct scene *scene, int n_token, const float *logits) {
    struct choice choice;
    scene_open(scene, 1);
    choice_describe(&sampler.scratch, &scene->choices, n_token, 0, &choice);
    const int32_t token = chooser_choose(&sampler.chooser, &choice, logits);
    choices_deinit(&scene->choices);
    return token;
}

static int choose_allowed(struct scene *scene, int n_token, int n) {
    scene_open(scene, 1);
    const int allowed = choice_allowed(NULL, &scene->choices, n_token, n);
    choices_deinit(&scene->choices);
    return allowed;
}

static struct sampler_view view_of(const struct scene *scene, int n_token) {
    return (struct sampler_view){.token = scene->token,
                                 .n_prompt = scene->choices.n_prompt,
                                 .n_token = n_token,
                                 .choice = (uint32_t)scene->choices.index,
                                 .breakers = scene->choices.breakers};
}

// ---------------------------------------------------------------- the choice

// But for top-n-sigma, whose sigma is that of the model's logits: test_sampler_steps has that.
CASE(a_mask_is_as_if_the_model_had_no_other_logits) {
    struct scene scene;
    int greedy = 0, otherwise = 0, none = 0;
    for (int i = 0; i < 20000; i++) {
        float logits[VOCAB];
        scene_random(&scene, 0.3);
        scene.choices.sampling.top_n_sigma = 0;
        if (i % 4 == 0) scene.choices.sampling.temperature = 0;
        masked(&scene, logits);
        const int n_token = scene.n_token;
        const struct sampler_view view = view_of(&scene, n_token);
        const rn_sampling *sampling = &scene.choices.sampling;
        const int32_t expected = sampler_choose(&sampler, sampling, &view, logits);
        const int32_t free_choice = sampler_choose(&sampler, sampling, &view, scene.logits);
        const int32_t got = choose_token(&scene, n_token, scene.logits);
        check(got == expected, "case %d: %d, not %d", i, got, expected);
        check(got < 0 || toy_allows(&scene.toy, 0, got), "case %d: %d is not allowed", i, got);
        greedy += sampling->temperature == 0;
        otherwise += got != free_choice;
        none += got < 0;
        assert_true(scene.toy.masks == 1 && scene.toy.advances == 0 && scene.toy.rollbacks == 0);
    }
    check(greedy > 4000 && otherwise > 4000 && none > 0,
          "%d greedy, %d changed, %d without a token", greedy, otherwise, none);
}

CASE(without_a_constraint_the_choice_is_the_samplers) {
    struct scene scene;
    for (int i = 0; i < 2000; i++) {
        scene_random(&scene, 0.3);
        scene.choices.constraint = (rn_constraint){0};
        const int n_token = scene.n_token + below(4); // also behind drafted tokens
        const struct sampler_view view = view_of(&scene, n_token);
        assert_int_equal(choose_token(&scene, n_token, scene.logits),
                         sampler_choose(&sampler, &scene.choices.sampling, &view, scene.logits));
    }
}

CASE(a_mask_without_tokens_gives_none) {
    struct scene scene;
    for (int i = 0; i < 200; i++) {
        scene_random(&scene, 0.3);
        scene.toy.share = 0;
        scene.choices.sampling.temperature = (float)(i % 3);
        assert_int_equal(choose_token(&scene, 1, scene.logits), -1);
        assert_int_equal(choose_allowed(&scene, 1, 5), 0);
    }
}

// Bits behind the vocabulary mean nothing, and a mask leaves nothing for the next choice.
CASE(the_last_word_and_the_last_choice_do_not_matter) {
    struct sampler fresh;
    struct scene scene;
    for (int i = 0; i < 500; i++) {
        scene_random(&scene, 0.3);
        sampler_open(&fresh, VOCAB);
        const int n_token = scene.n_token;
        const int32_t used = choose_token(&scene, n_token, scene.logits);
        scene_open(&scene, 1);
        uint64_t *allowed = scene.choices.allowed;
        memset(allowed, i % 2 ? 0xff : 0, WORDS * sizeof *allowed);
        struct choice choice;
        choice_describe(&fresh.scratch, &scene.choices, n_token, 0, &choice);
        assert_ptr_equal(choice.allowed, allowed);
        assert_int_equal(chooser_choose(&fresh.chooser, &choice, scene.logits), used);
        allowed[WORDS - 1] ^= UINT64_MAX << (VOCAB % 64);
        assert_int_equal(chooser_choose(&sampler.chooser, &choice, scene.logits), used);
        choices_deinit(&scene.choices);
        sampler_close(&fresh);
    }
}

// ---------------------------------------------------------------- the description

// The operands of an id, by their definitions.
static struct choice_edit naive_edit(const struct scene *scene, int n_token, int32_t id) {
    const rn_sampling *s = &scene->choices.sampling;
    struct choice_edit edit = {.id = id, .dry = -1};
    const bool on = s->repetition_penalty != 0 && s->repetition_penalty != 1;
    const bool counts = s->presence_penalty != 0 || s->frequency_penalty != 0;
    for (int i = 0; i < n_token; i++) {
        if (scene->token[i] != id) continue;
        edit.repeats |= on && (s->repeat_last_n < 0 || i >= n_token - s->repeat_last_n);
        edit.n_output += counts && i >= scene->choices.n_prompt;
    }
    const struct sampler_view view = view_of(scene, n_token);
    const int len = reference_dry_length(&view, s->dry_penalty_last_n, id);
    if (s->dry_multiplier > 0 && len > 0 && len >= s->dry_allowed_length)
        edit.dry = (int16_t)(len - s->dry_allowed_length);
    return edit;
}

// Biases in their order, on rows that are adjacent; the last row of an id has the rest.
static void check_edits(const struct scene *scene, int n_token, const struct choice *choice) {
    bool seen[VOCAB] = {false};
    for (int i = 0; i < choice->n_edit;) {
        const struct choice_edit *first = &choice->edit[i], *last = first;
        const int32_t id = first->id;
        assert_false(seen[id]);
        seen[id] = true;
        while (++i < choice->n_edit && choice->edit[i].id == id) {
            assert_true(last->n_output == 0 && last->dry == -1 && !last->repeats);
            last = &choice->edit[i];
        }
        for (size_t k = 0; k < scene->choices.sampling.n_logit_bias; k++)
            if (scene->bias[k].token == id) assert_true(first++->bias == scene->bias[k].bias);
        assert_true(first == last + (last->bias != 0));
        const struct choice_edit expected = naive_edit(scene, n_token, id);
        assert_true(last->n_output == expected.n_output && last->dry == expected.dry &&
                    last->repeats == expected.repeats);
    }
    for (int id = 0; id < VOCAB; id++) {
        const struct choice_edit none = naive_edit(scene, n_token, id);
        if (!seen[id]) assert_true(none.n_output == 0 && none.dry == -1 && !none.repeats);
    }
}

// All descriptions of a draft at once, each in a slot of its own.
CASE(a_description_has_the_operands_of_its_history) {
    enum { SLOTS = 4 };
    struct choice_scratch scratch;
    struct scene scene;
    struct choice choice[SLOTS];
    int counted = 0, biased = 0;
    assert_int_equal(choice_scratch_init(&scratch, VOCAB, NULL), RN_OK);
    for (int i = 0; i < 3000; i++) {
        scene_random(&scene, i % 3 ? 0.5 : 0);
        scene.choices.constraint = (rn_constraint){0};
        scene.bias[1].token = below(2) ? scene.bias[0].token : scene.token[0];
        scene_open(&scene, SLOTS);
        const int n_token = scene.n_token;
        for (int k = 0; k < SLOTS; k++)
            choice_describe(&scratch, &scene.choices, n_token + k, k, &choice[k]);
        for (int k = 0; k < SLOTS; k++) {
            check_edits(&scene, n_token + k, &choice[k]);
            assert_true(choice[k].key == noise_key(scene.choices.sampling.seed,
                                                   (uint32_t)scene.choices.index,
                                                   (uint32_t)(n_token + k)));
            assert_int_equal(choice[k].n_vocab, VOCAB);
        }
        counted += choice_needs_history(&scene.choices);
        biased += choice[0].n_edit > 0 && !choice_needs_history(&scene.choices);
        // without history they are all the same rows
        assert_true(choice_needs_history(&scene.choices) || choice[0].edit == choice[1].edit);
        choices_deinit(&scene.choices);
    }
    check(counted > 1000 && biased > 300, "%d counted, %d biased alone", counted, biased);
    choice_scratch_deinit(&scratch);
}

// ---------------------------------------------------------------- trying a draft

// By the definition: the tokens one after the other.
static int naive_allowed(const struct scene *scene, int n_token, int n) {
    struct toy toy = scene->toy;
    int passed = 0;
    while (passed < n && toy_allows(&toy, toy.n_passed, scene->token[n_token + passed]))
        toy.passed[toy.n_passed++] = scene->token[n_token + passed++];
    return passed;
}

CASE(a_draft_is_allowed_up_to_its_first_impossible_token) {
    struct scene scene;
    int whole = 0, part = 0, none = 0;
    for (int i = 0; i < 5000; i++) {
        scene_random(&scene, 0);
        scene.toy.n_passed = below(4); // it stands somewhere
        for (int k = 0; k < scene.toy.n_passed; k++) scene.toy.passed[k] = below(VOCAB);
        const struct toy before = scene.toy;
        const int n_token = scene.n_token, n = below(HISTORY / 2);
        for (int k = 0; k < n; k++) scene.token[n_token + k] = below(VOCAB);
        const int expected = naive_allowed(&scene, n_token, n);
        const int got = choose_allowed(&scene, n_token, n);
        check(got == expected, "case %d: %d of %d, not %d", i, got, n, expected);
        whole += got == n && n > 1;
        part += got > 0 && got < n;
        none += got == 0 && n > 0;
        // it stands where it stood, and was asked no more than needed
        assert_int_equal(scene.toy.n_passed, before.n_passed);
        assert_memory_equal(scene.toy.passed, before.passed,
                            (size_t)before.n_passed * sizeof *before.passed);
        assert_int_equal(scene.toy.advances, scene.toy.rollbacks);
        assert_int_equal(scene.toy.masks, got < n ? got + 1 : n);
    }
    check(whole > 500 && part > 500 && none > 500, "%d whole, %d part, %d none", whole, part, none);
}

CASE(without_a_constraint_a_whole_draft_is_allowed) {
    struct scene scene;
    scene_random(&scene, 0);
    scene.choices.constraint = (rn_constraint){0};
    for (int n = 0; n < 16; n++) assert_int_equal(choose_allowed(&scene, 1, n), n);
}

// ---------------------------------------------------------------- submit

static uint64_t now(void *ctx) {
    (void)ctx;
    return clock_ns();
}

static struct tokenizer *tokenizer_open(void) {
    struct weights *weights;
    struct tokenizer *tokenizer;
    rn_error err = {0};
    check(weights_open(MODELS_DIR "/tale-1m-f16.gguf", &weights, &err) == RN_OK, "%s", err.message);
    check(vocab_load(weights, 0, &tokenizer, NULL, &err) == RN_OK, "%s", err.message);
    weights_close(weights);
    return tokenizer;
}

CASE(biases_are_sorted_by_id_and_keep_their_order) {
    enum { MANY = 200 };
    struct tokenizer *tokenizer = tokenizer_open();
    rn_logit_bias bias[MANY];
    for (int i = 0; i < MANY; i++) bias[i] = (rn_logit_bias){below(40), (float)i / 4};
    rn_sampling given = rn_sampling_neutral(), got;
    given.logit_bias = bias;
    given.n_logit_bias = MANY;
    struct token_set breakers;
    assert_int_equal(sampling_dup(&given, tokenizer, &got, &breakers, NULL), RN_OK);
    assert_int_equal(got.n_logit_bias, MANY);
    double sum = 0;
    for (int i = 0; i < MANY; i++) {
        const rn_logit_bias *entry = &got.logit_bias[i];
        sum += (double)entry->bias;
        assert_int_equal(entry->token, bias[(int)(entry->bias * 4)].token);
        if (i == 0) continue;
        assert_true(entry[-1].token < entry->token ||
                    (entry[-1].token == entry->token && entry[-1].bias < entry->bias));
    }
    assert_true(sum == MANY * (MANY - 1) / 8.0);
    sampling_deinit(&got, &breakers);
    tokenizer_destroy(tokenizer);
}

CASE(a_constraint_is_whole_or_refused) {
    static const int32_t prompt[] = {1, 2, 3};
    struct tokenizer *tokenizer = tokenizer_open();
    const struct seq_limits limits = {.tokenizer = tokenizer,
                                      .n_ctx = 64,
                                      .n_group = 1,
                                      .n_embd = 8,
                                      .token_bytes_max = 32,
                                      .now = now};
    struct toy toy = {.share = 1};
    const rn_constraint full = {&toy, toy_mask, toy_advance, toy_rollback};
    const struct {
        rn_constraint constraint;
        rn_pooling pooling;
        const char *error; // NULL: it is taken
    } cases[] = {
        {full, RN_POOLING_NONE, NULL},
        {{0}, RN_POOLING_NONE, NULL},
        {{&toy, NULL, NULL, NULL}, RN_POOLING_LAST, NULL},
        {{&toy, NULL, toy_advance, toy_rollback}, RN_POOLING_NONE, "no mask"},
        {{&toy, toy_mask, NULL, toy_rollback}, RN_POOLING_NONE, "no advance"},
        {{&toy, toy_mask, toy_advance, NULL}, RN_POOLING_NONE, "no rollback"},
        {full, RN_POOLING_MEAN, "pooling"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const rn_request request = {.prompt = prompt,
                                    .n_prompt = 3,
                                    .max_tokens = 4,
                                    .pooling = cases[i].pooling,
                                    .constraint = cases[i].constraint};
        struct seq *seq = NULL;
        struct seq_family family = {0};
        rn_error err = {0};
        const rn_status status = seq_create(&request, 0, 1, &family, &limits, &seq, &err);
        check((status == RN_ERR_ARG) == (cases[i].error != NULL), "case %zu: %d, %s", i, status,
              err.message);
        if (cases[i].error) {
            check(strstr(err.message, cases[i].error) != NULL, "case %zu: %s", i, err.message);
            continue;
        }
        assert_memory_equal(&seq->choices.constraint, &cases[i].constraint,
                            sizeof seq->choices.constraint);
        seq_destroy(seq, &limits);
    }
    tokenizer_destroy(tokenizer);
}

TEST_PROGRAM(choice) { return cases_run(sampler_setup, sampler_teardown); }
