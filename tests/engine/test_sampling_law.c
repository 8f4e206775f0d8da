// The distribution of texts is the model's. Over many seeds the first tokens of a continuation are
// as frequent as their exact probabilities, which are computed from the model's logits of every
// possible text. Seeds are fixed, so the result is too. Drafted texts have the same distribution,
// since they are equal to these to the bit (test_speculation.c).
// label: no-address
#include <math.h>

#include "speculation_ways.h"

enum {
    LAW_TEXT = 3, // tokens of a continuation
    LAW_BEST = 5, // top-k
    LAW_HISTORIES = LAW_BEST * LAW_BEST,
    LAW_CELLS = LAW_HISTORIES * LAW_BEST, // texts
    LAW_PROMPT = 33,                      // one after a page: the prefix cache has the rest
    LAW_CTX = 64,
    LAW_LEAST = 5, // expected texts of a cell
    LAW_SEEDS = 2000,
};

// A history is the ranks of its tokens as a number in base LAW_BEST.
struct law {
    const rn_model *model;
    int32_t prompt[LAW_PROMPT];
    int32_t best[LAW_TEXT][LAW_HISTORIES][LAW_BEST]; // after this many tokens, and that history
    double p[LAW_TEXT][LAW_HISTORIES][LAW_BEST];
};

// ---------------------------------------------------------------- the exact law

struct law_place {
    struct law *law;
    int level, history;
};

// The best tokens of the place and their probabilities, by plain loops.
static void law_keep(void *ctx, int position, const float *logits, int n_vocab) {
    const struct law_place *place = ctx;
    if (position != LAW_PROMPT + place->level - 1) return;
    int32_t *best = place->law->best[place->level][place->history];
    double *p = place->law->p[place->level][place->history], sum = 0;
    for (int k = 0; k < LAW_BEST; k++) {
        best[k] = -1;
        for (int32_t id = 0; id < n_vocab; id++) {
            bool taken = false;
            for (int i = 0; i < k; i++) taken |= best[i] == id;
            if (!taken && (best[k] < 0 || logits[id] > logits[best[k]])) best[k] = id;
        }
        sum += p[k] = exp((double)logits[best[k]] - (double)logits[best[0]]);
    }
    for (int k = 0; k < LAW_BEST; k++) p[k] /= sum;
}

static void law_evaluate(rn_engine *engine, struct law *law, int level, int history) {
    struct law_place place = {law, level, history};
    int32_t token[LAW_PROMPT + LAW_TEXT];
    rn_error err = {0};
    uint64_t id;
    memcpy(token, law->prompt, sizeof law->prompt);
    for (int i = level - 1; i >= 0; history /= LAW_BEST, i--)
        token[LAW_PROMPT + i] = law->best[i][history / LAW_BEST][history % LAW_BEST];
    const rn_request request = {.prompt = token,
                                .n_prompt = (size_t)(LAW_PROMPT + level),
                                .prompt_only = true,
                                .on_logits = law_keep,
                                .on_logits_ctx = &place};
    check(rn_engine_submit(engine, &request, &id, &err) == RN_OK, "%s", err.message);
    for (bool busy = true; busy;) {
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);) continue;
    }
}

// The probability of a text.
static double law_of(const struct law *law, int text) {
    const int one = text / LAW_HISTORIES, two = text / LAW_BEST;
    return law->p[0][0][one] * law->p[1][one][two % LAW_BEST] * law->p[2][two][text % LAW_BEST];
}

// Whether many texts are likely enough to be counted.
static bool law_is_open(const struct law *law) {
    int n = 0;
    for (int text = 0; text < LAW_CELLS; text++) n += law_of(law, text) * LAW_SEEDS >= LAW_LEAST;
    return n > LAW_CELLS / 4;
}

static void law_init(struct law *law, const rn_model *model, struct mix_text text) {
    const rn_engine_options options = {.n_ctx = LAW_CTX, .n_threads = 1, .speculate = "off"};
    rn_engine *engine;
    rn_error err = {0};
    check(rn_engine_create(model, &options, &engine, &err) == RN_OK, "%s", err.message);
    for (int at = 0; at == 0 || !law_is_open(law); at++) {
        assert_true(at + LAW_PROMPT <= text.n);
        *law = (struct law){.model = model};
        memcpy(law->prompt, text.token + at, sizeof law->prompt);
        law_evaluate(engine, law, 0, 0);
        if (law->p[0][0][0] > 0.5) continue;
        for (int level = 1, n = LAW_BEST; level < LAW_TEXT; level++, n *= LAW_BEST)
            for (int history = 0; history < n; history++) law_evaluate(engine, law, level, history);
    }
    rn_engine_destroy(engine);
}

// The history with one more token.
static int law_follow(const struct law *law, int level, int history, int32_t token) {
    int rank = 0;
    while (rank < LAW_BEST && law->best[level][history][rank] != token) rank++;
    check(rank < LAW_BEST, "token %d of a text is %d, which is not possible", level, token);
    return history * LAW_BEST + rank;
}

// ---------------------------------------------------------------- counting

struct law_texts {
    int32_t ids[LAW_SEEDS][LAW_TEXT];
    int n_ids[LAW_SEEDS];
};

static void law_submit(rn_engine *engine, const struct law *law, int seed) {
    rn_request request = {.prompt = law->prompt,
                          .n_prompt = LAW_PROMPT,
                          .max_tokens = LAW_TEXT,
                          .ignore_eos = true,
                          .sampling = rn_sampling_neutral(),
                          .data = (void *)(intptr_t)seed};
    rn_error err = {0};
    uint64_t id;
    request.sampling.top_k = LAW_BEST;
    request.sampling.has_seed = true;
    request.sampling.seed = (uint64_t)seed;
    check(rn_engine_submit(engine, &request, &id, &err) == RN_OK, "%s", err.message);
}

static void law_run(const struct law *law, const rn_engine_options *options,
                    struct law_texts *texts) {
    rn_engine *engine;
    rn_error err = {0};
    int submitted = 0, ended = 0;
    memset(texts, 0, sizeof *texts);
    check(rn_engine_create(law->model, options, &engine, &err) == RN_OK, "%s", err.message);
    while (ended < LAW_SEEDS) {
        bool busy;
        while (submitted < LAW_SEEDS && submitted - ended < options->max_seqs)
            law_submit(engine, law, submitted++);
        assert_int_equal(engine_step(&engine->engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);) {
            const intptr_t seed = (intptr_t)event.data;
            assert_true(texts->n_ids[seed] < LAW_TEXT);
            texts->ids[seed][texts->n_ids[seed]++] = event.token;
            ended += event.last;
        }
    }
    rn_engine_destroy(engine);
}

static void law_count(const struct law *law, const struct law_texts *texts, int *cell) {
    for (int seed = 0; seed < LAW_SEEDS; seed++) {
        int history = 0;
        assert_int_equal(texts->n_ids[seed], LAW_TEXT);
        for (int i = 0; i < LAW_TEXT; i++)
            history = law_follow(law, i, history, texts->ids[seed][i]);
        cell[history]++;
    }
}

// The value that chi-square exceeds with probability 1e-4, by Wilson and Hilferty.
static double law_chi_limit(int freedom) {
    const double a = 2.0 / (9.0 * freedom), root = 1 - a + 3.719 * sqrt(a);
    return freedom * root * root * root;
}

// The rare texts are one cell together.
static void law_compare(const struct law *law, const int *cell) {
    double chi = 0, rest = 0;
    int cells = 0, rest_count = 0;
    for (int text = 0; text < LAW_CELLS; text++) {
        const double expected = law_of(law, text) * LAW_SEEDS, off = cell[text] - expected;
        if (expected < LAW_LEAST) {
            rest += expected;
            rest_count += cell[text];
            continue;
        }
        chi += off * off / expected;
        cells++;
    }
    if (rest >= LAW_LEAST) {
        chi += (rest_count - rest) * (rest_count - rest) / rest;
        cells++;
    }
    print_message("chi-square %.1f over %d cells, at most %.1f\n", chi, cells,
                  law_chi_limit(cells - 1));
    check(chi < law_chi_limit(cells - 1), "chi-square is %g over %d cells", chi, cells);
}

CASE(texts_follow_the_exact_law) {
    static struct law law;
    static struct law_texts texts;
    int cell[LAW_CELLS] = {0};
    rn_model *model = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    struct token_list story = story_read(model);
    const rn_engine_options options = {.max_seqs = 16,
                                       .n_ctx = LAW_CTX,
                                       .n_threads = 1,
                                       .speculate = "off"};
    law_init(&law, model, (struct mix_text){story.id, (int)story.count});
    law_run(&law, &options, &texts);
    law_count(&law, &texts, cell);
    law_compare(&law, cell);
    token_list_deinit(&story);
    rn_model_close(model);
}

TEST_PROGRAM(sampling_law) { return cases_run(NULL, NULL); }
