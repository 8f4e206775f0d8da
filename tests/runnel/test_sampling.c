// Sampling through the public interface. Everything that a request points to is copied, and token
// ids are checked. Penalties see only the sequence's own tokens. The breakers of DRY are the tokens
// whose text contains one.
// label: async
#define _GNU_SOURCE 1 // memmem
#include <math.h>

#include "choose_view.h"
#include "engine/choice/sampling.h"
#include "streams.h"
#include "tale.h"
#include "tools.h"

enum { OUTPUT = 60 };

static rn_engine *new_engine(int max_seqs) {
    return streams_engine(model,
                          &(rn_engine_options){.max_seqs = max_seqs, .n_ctx = 256, .n_threads = 2});
}

static const int32_t prompt[] = {1, 50, 60, 70, 50, 60};

static rn_request request_of(rn_sampling sampling) {
    return (rn_request){.prompt = prompt,
                        .n_prompt = sizeof prompt / sizeof *prompt,
                        .sampling = sampling,
                        .max_tokens = OUTPUT,
                        .ignore_eos = true};
}

static void generate(rn_sampling sampling, struct stream *out) {
    rn_engine *engine = new_engine(1);
    const rn_request request = request_of(sampling);
    streams_run(engine, &request, out);
    rn_engine_destroy(engine);
    assert_int_equal(out->n_ids, OUTPUT);
}

static int count_of(const struct stream *stream, int32_t token) {
    int n = 0;
    for (int i = 0; i < stream->n_ids; i++) n += stream->ids[i] == token;
    return n;
}

static rn_sampling greedy(void) {
    rn_sampling s = rn_sampling_neutral();
    s.temperature = 0;
    return s;
}

CASE(biases_are_copied_ban_and_force) {
    static struct stream plain, streams[2];
    generate(greedy(), &plain);
    rn_logit_bias *bias = malloc(2 * sizeof *bias);
    assert_non_null(bias);
    bias[0] = (rn_logit_bias){plain.ids[0], -100};
    bias[1] = (rn_logit_bias){33, 100};
    rn_engine *engine = new_engine(2);
    rn_request request = request_of(greedy());
    request.sampling.logit_bias = bias;
    request.sampling.n_logit_bias = 1;
    streams_submit(engine, &request, &streams[0]);
    request.sampling.n_logit_bias = 2;
    streams_submit(engine, &request, &streams[1]);
    memset(bias, 0xff, 2 * sizeof *bias); // the caller's list may go
    free(bias);
    streams_drain(engine, streams, 2);
    rn_engine_destroy(engine);
    assert_true(count_of(&plain, plain.ids[0]) > 0);
    assert_int_equal(count_of(&streams[0], plain.ids[0]), 0);
    assert_int_equal(count_of(&streams[1], 33), OUTPUT);
}

CASE(ids_out_of_range_are_refused_by_name) {
    rn_engine *engine = new_engine(1);
    const int n_vocab = rn_model_get_info(model)->n_vocab;
    const int32_t bad[] = {-1, n_vocab, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        const rn_logit_bias bias[] = {{0, 1}, {n_vocab - 1, 1}, {bad[i], 1}};
        rn_request request = request_of(greedy());
        request.sampling.logit_bias = bias;
        request.sampling.n_logit_bias = 3;
        rn_error err = {0};
        uint64_t id;
        assert_int_equal(rn_engine_submit(engine, &request, &id, &err), RN_ERR_ARG);
        char name[32];
        snprintf(name, sizeof name, "token %d,", bad[i]);
        check(strstr(err.message, name), "'%s' does not name %s", err.message, name);
        request.sampling.n_logit_bias = 2;
        assert_int_equal(rn_engine_submit(engine, &request, &id, &err), RN_OK);
    }
    rn_engine_destroy(engine);
}

CASE(penalties_see_the_tokens_of_their_own_sequence) {
    rn_sampling s[4] = {greedy(), greedy(), greedy(), greedy()};
    s[1].frequency_penalty = 2;
    s[1].presence_penalty = 2;
    s[2].repetition_penalty = 3;
    s[3].dry_multiplier = 5;
    s[3].dry_allowed_length = 1;
    static struct stream alone[4], together[4];
    for (int i = 0; i < 4; i++) generate(s[i], &alone[i]);
    rn_engine *engine = new_engine(4);
    for (int i = 0; i < 4; i++) {
        const rn_request request = request_of(s[i]);
        streams_submit(engine, &request, &together[i]);
    }
    streams_drain(engine, together, 4);
    rn_engine_destroy(engine);
    for (int i = 0; i < 4; i++) streams_check_same(&alone[i], &together[i]);
    for (int i = 1; i < 4; i++)
        assert_memory_not_equal(alone[i].ids, alone[0].ids, OUTPUT * sizeof(int32_t));
    int repeated[2] = {0};
    for (int k = 0; k < OUTPUT; k++)
        for (int j = 0; j < k; j++) {
            repeated[0] += alone[0].ids[k] == alone[0].ids[j];
            repeated[1] += alone[1].ids[k] == alone[1].ids[j];
        }
    check(repeated[1] < repeated[0], "%d repetitions with penalties, %d without", repeated[1],
          repeated[0]);
}

static void keep_logits(void *ctx, int position, const float *logits, int n_vocab) {
    (void)position;
    memcpy(ctx, logits, (size_t)n_vocab * sizeof *logits);
}

CASE(the_noise_of_a_token_is_that_of_the_requests_seed) {
    static float logits[4096];
    static struct stream stream;
    rn_engine *engine = new_engine(1);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        rn_request request = request_of(rn_sampling_neutral());
        request.max_tokens = 1;
        request.sampling.has_seed = true;
        request.sampling.seed = seed;
        request.on_logits = keep_logits;
        request.on_logits_ctx = logits;
        streams_run(engine, &request, &stream);
        float largest = -INFINITY;
        int32_t best = -1;
        for (int32_t id = 0; id < 4096; id++) {
            const uint32_t position = (uint32_t)request.n_prompt;
            const float sum = logits[id] + sampler_noise(seed, 0, position, (uint32_t)id);
            if (sum > largest) best = id;
            largest = fmaxf(sum, largest);
        }
        assert_int_equal(stream.ids[0], best);
    }
    rn_engine_destroy(engine);
}

CASE(breakers_are_the_tokens_that_contain_one) {
    const struct tokenizer *tokenizer = tools_tokenizer(model);
    static const char *const given[] = {"\n", " the", "e"};
    static const char *const standard[] = {"\n", ":", "\"", "*"};
    rn_sampling s = rn_sampling_neutral(), copy;
    s.dry_multiplier = 1;
    for (int use_given = 0; use_given < 2; use_given++) {
        const char *const *text = use_given ? given : standard;
        const int n_text = use_given ? 3 : 4;
        s.dry_sequence_breakers = use_given ? given : NULL;
        s.n_dry_sequence_breakers = use_given ? 3 : 0;
        struct token_set breakers;
        assert_int_equal(sampling_dup(&s, tokenizer, &copy, &breakers, NULL), RN_OK);
        int n = 0;
        for (int32_t id = 0; id < tokenizer_size(tokenizer); id++) {
            const struct text_span bytes = tokenizer_bytes(tokenizer, id);
            bool expected = false;
            for (int i = 0; i < n_text; i++)
                expected |= memmem(bytes.data, bytes.len, text[i], strlen(text[i])) != NULL;
            const bool found = (breakers.bits[id / 64] >> (id % 64) & 1) != 0;
            check(found == expected, "token %d, '%.*s'", id, (int)bytes.len, bytes.data);
            n += found;
        }
        assert_true(n > 0 && n < tokenizer_size(tokenizer));
        sampling_deinit(&copy, &breakers);
    }
    // an empty list is no list of defaults; and without DRY nothing is looked up
    struct token_set breakers;
    s.n_dry_sequence_breakers = 0;
    assert_int_equal(sampling_dup(&s, tokenizer, &copy, &breakers, NULL), RN_OK);
    assert_null(breakers.bits);
    s.n_dry_sequence_breakers = 3;
    s.dry_multiplier = 0;
    assert_int_equal(sampling_dup(&s, tokenizer, &copy, &breakers, NULL), RN_OK);
    assert_null(breakers.bits);
}

TEST_PROGRAM(sampling) { return cases_run(open_model, close_model); }
