// Several choices of one prompt, and embeddings, through the public interface. Choices share the
// prompt and differ in their draws. An embedding is the last hidden state, or the mean of all. Its
// bits do not depend on the cuts of the prompt or on other requests.
// label: async
#include <math.h>

#include "streams.h"
#include "tale.h"
#include "tensor_bytes.h"
#include "tools.h"

enum { MAX_CHOICES = 16 };

static int n_embd;

static int open_choices(void **state) {
    if (open_model(state)) return 1;
    n_embd = rn_model_get_info(model)->n_embd;
    return 0;
}

static int32_t prompt[400];
static struct stream stream[MAX_CHOICES + 1];

static rn_request request_for(int n_prompt, int n, int max_tokens) {
    for (int t = 0; t < n_prompt; t++) prompt[t] = (t * 41 + t * t * 3 + 9) % 4096;
    rn_request r = {.prompt = prompt,
                    .n_prompt = (size_t)n_prompt,
                    .n = n,
                    .max_tokens = max_tokens,
                    .prompt_only = max_tokens == 0,
                    .ignore_eos = true};
    r.sampling = rn_sampling_neutral();
    r.sampling.has_seed = true;
    r.sampling.seed = 77;
    return r;
}

static bool same_ids(const struct stream *a, const struct stream *b) {
    return a->n_ids == b->n_ids && memcmp(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids) == 0;
}

// ---------------------------------------------------------------- choices

CASE(choice_0_is_the_single_one_and_others_differ) {
    static struct stream single, before[MAX_CHOICES];
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = 4});
    for (int n = 1; n <= MAX_CHOICES; n *= 2) {
        const rn_request request = request_for(50, n, 24);
        streams_submit(engine, &request, stream);
        streams_drain(engine, stream, n);
        if (n == 1) single = stream[0];
        int n_last = 0;
        for (int i = 0; i < n; i++) {
            assert_int_equal(stream[i].n_ids, 24);
            n_last += stream[i].last;
            for (int j = 0; j < i; j++) assert_false(same_ids(&stream[i], &stream[j]));
            // a choice does not depend on how many there are
            if (i < n / 2) assert_true(same_ids(&stream[i], &before[i]));
            before[i] = stream[i];
        }
        assert_int_equal(n_last, 1);
        streams_check_same(&single, &stream[0]);
    }
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

CASE(greedy_choices_are_equal) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = 2});
    rn_request request = request_for(33, 5, 10);
    request.sampling.temperature = 0;
    streams_submit(engine, &request, stream);
    streams_drain(engine, stream, 5);
    for (int i = 1; i < 5; i++) streams_check_same(&stream[0], &stream[i]);
    rn_engine_destroy(engine);
}

// With and without the prefix cache: choices share the pages of the first one directly.
CASE(the_prompt_of_all_choices_is_computed_once) {
    enum { N = 8, N_OUT = 5 };
    static const int n_prompts[] = {1, 31, 32, 33, 100, 300};
    for (int no_cache = 0; no_cache < 2; no_cache++)
        for (size_t p = 0; p < sizeof n_prompts / sizeof *n_prompts; p++) {
            rn_engine *engine =
                streams_engine(model, &(rn_engine_options){.speculate = "off",
                                                           .max_seqs = N,
                                                           .no_prefix_cache = no_cache != 0});
            const int n_prompt = n_prompts[p];
            const rn_request request = request_for(n_prompt, N, N_OUT);
            streams_submit(engine, &request, stream);
            uint32_t held_max = 0;
            for (int step = 0; streams_step(engine, stream, N, step, 0); step++)
                if (streams_stats(engine).pages_held > held_max)
                    held_max = streams_stats(engine).pages_held;
            const uint64_t computed = streams_stats(engine).computed_tokens;
            // each evaluates its outputs but the last, and others again the prompt's last token
            const uint64_t most = (uint64_t)(n_prompt + N * (N_OUT - 1) + N - 1);
            check(computed <= most, "prompt of %d: %llu tokens computed, expected %llu", n_prompt,
                  (unsigned long long)computed, (unsigned long long)most);
            // blocks before the prompt's last token once, and each choice's own blocks
            const int shared = (n_prompt - 1) / 32, all = (n_prompt + N_OUT - 1 + 31) / 32;
            check(held_max <= (uint32_t)(shared + N * (all - shared)), "%u pages held", held_max);
            streams_check_empty(engine);
            rn_engine_destroy(engine);
        }
}

// The first choice loses its pages after its first token, when no other had begun. Once it has
// evaluated the prompt again a place is free, and the next joins it there and then.
CASE(choices_join_a_first_one_that_was_preempted) {
    enum { N = 3, N_OUT = 40, OTHER = N, HASTY = N + 1, ALL = N + 2 };
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.speculate = "off",
                                                                   .max_seqs = 2,
                                                                   .batch_tokens = 16,
                                                                   .no_prefix_cache = true});
    rn_request request = request_for(5, 1, 100);
    streams_submit(engine, &request, &stream[OTHER]);
    request = request_for(60, N, N_OUT);
    streams_submit(engine, &request, stream);
    int step = 0;
    memset(&stream[HASTY], 0, sizeof stream[HASTY]);
    while (stream[0].n_ids < 2) streams_step(engine, stream, ALL, step++, 0);
    request = request_for(5, 1, 3);
    request.priority = 1;
    streams_submit(engine, &request, &stream[HASTY]);
    while (!stream[HASTY].finish) streams_step(engine, stream, ALL, step++, 0);
    streams_step(engine, stream, ALL, step++, 0);
    assert_int_equal(streams_stats(engine).running, 2); // the first one is back
    rn_engine_cancel(engine, stream[OTHER].id);
    while (streams_step(engine, stream, ALL, step, 0)) step++;
    assert_int_equal(stream[0].timings.preemptions, 1);
    for (int i = 0; i < N; i++) assert_int_equal(stream[i].n_ids, N_OUT);
    check(stream[1].last_step - stream[0].last_step < N_OUT / 2,
          "the first ended in step %d, the second in step %d", stream[0].last_step,
          stream[1].last_step);
    rn_engine_destroy(engine);
}

CASE(a_cancel_ends_all_choices) {
    rn_engine *engine =
        streams_engine(model, &(rn_engine_options){.speculate = "off", .max_seqs = 3});
    for (int moment = 0; moment < 6; moment++) {
        const rn_request request = request_for(50, 6, 20);
        streams_submit(engine, &request, stream);
        for (int step = 0; step < moment; step++) streams_step(engine, stream, 6, step, 0);
        rn_engine_cancel(engine, stream[0].id);
        streams_drain(engine, stream, 6);
        int n_last = 0;
        for (int i = 0; i < 6; i++) {
            assert_int_equal(stream[i].finish, RN_FINISH_CANCELLED);
            n_last += stream[i].last;
        }
        assert_int_equal(n_last, 1);
        streams_check_empty(engine);
    }
    rn_engine_destroy(engine);
}

CASE(choices_and_embeddings_are_checked) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){0});
    static const struct {
        int n;
        rn_pooling pooling;
    } bad[] = {{-1, RN_POOLING_NONE},
               {RN_MAX_CHOICES + 1, RN_POOLING_NONE},
               {2, RN_POOLING_MEAN},
               {1, (rn_pooling)4}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rn_request request = request_for(5, bad[i].n, 3);
        request.pooling = bad[i].pooling;
        rn_error err = {0};
        uint64_t id;
        check(rn_engine_submit(engine, &request, &id, &err) == RN_ERR_ARG, "case %zu", i);
        assert_true(err.message[0]);
    }
    rn_engine_destroy(engine);
}

// ---------------------------------------------------------------- embeddings

static void embed(rn_engine *engine, int n_prompt, rn_pooling pooling, bool normalize,
                  struct stream *out) {
    rn_request request = request_for(n_prompt, 1, 0);
    request.pooling = pooling;
    request.normalize = normalize;
    streams_submit(engine, &request, out);
    for (int step = 0; streams_step(engine, out, 1, step, n_embd);) step++;
    assert_int_equal(out->finish, RN_FINISH_STOP);
    assert_true(out->has_embedding);
    assert_int_equal(out->n_ids, 0);
    assert_int_equal(out->n_text, 0);
}

static void keep_logits(void *ctx, int position, const float *logits, int n_vocab) {
    (void)position;
    memcpy(ctx, logits, (size_t)n_vocab * sizeof *logits);
}

// The hidden state is what the vocabulary's matrix turns into logits.
CASE(the_last_hidden_state_gives_the_logits) {
    static float logits[4096], row[STREAM_MAX_EMBD];
    rn_engine *engine = streams_engine(model, &(rn_engine_options){0});
    embed(engine, 40, RN_POOLING_LAST, false, &stream[0]);
    rn_request request = request_for(40, 1, 0);
    request.on_logits = keep_logits;
    request.on_logits_ctx = logits;
    streams_run(engine, &request, &stream[1]);
    const struct tensor_view *head = weights_tensor_find(tools_weights(model), "output.weight");
    if (!head) head = weights_tensor_find(tools_weights(model), "token_embd.weight");
    assert_non_null(head);
    const uint64_t row_bytes = format_row_bytes(head->format, n_embd);
    const char *rows = tensor_bytes(tools_weights(model), head);
    for (int token = 0; token < 4096; token += 7) {
        format_decode(head->format, rows + (uint64_t)token * row_bytes, row, n_embd);
        double sum = 0;
        for (int i = 0; i < n_embd; i++) sum += (double)row[i] * (double)stream[0].embedding[i];
        check(fabs(sum - (double)logits[token]) < 0.01 * (1 + fabs(sum)), "token %d: %g, logit %g",
              token, sum, (double)logits[token]);
    }
    rn_engine_destroy(engine);
}

// Each position's hidden state is the last one of a prompt that ends there.
CASE(the_mean_is_that_of_all_last_hidden_states) {
    enum { N = 45 };
    static float mean[STREAM_MAX_EMBD];
    rn_engine *engine = streams_engine(model, &(rn_engine_options){0});
    memset(mean, 0, sizeof mean);
    for (int n = 1; n <= N; n++) {
        embed(engine, n, RN_POOLING_LAST, false, &stream[0]);
        for (int i = 0; i < n_embd; i++) mean[i] += stream[0].embedding[i];
    }
    for (int i = 0; i < n_embd; i++) mean[i] *= 1.0f / N;
    embed(engine, N, RN_POOLING_MEAN, false, &stream[1]);
    assert_memory_equal(mean, stream[1].embedding, (size_t)n_embd * sizeof(float));
    embed(engine, N, RN_POOLING_MEAN, true, &stream[2]);
    double squares = 0, dot = 0, length = 0;
    for (int i = 0; i < n_embd; i++) {
        squares += (double)stream[2].embedding[i] * (double)stream[2].embedding[i];
        dot += (double)stream[2].embedding[i] * (double)mean[i];
        length += (double)mean[i] * (double)mean[i];
    }
    assert_true(fabs(squares - 1) < 1e-5);
    assert_true(fabs(dot - sqrt(length)) < 1e-4 * sqrt(length)); // the same direction
    rn_engine_destroy(engine);
}

// Chunks of 1, 7 and 256 tokens; alone, and beside texts that make the chunks uneven.
CASE(embeddings_have_the_same_bits_however_they_are_cut) {
    enum { N = 300, N_TEXTS = 5 };
    static struct stream want[3];
    static const int chunks[] = {1, 7, 256};
    for (int pooling = RN_POOLING_MEAN; pooling <= RN_POOLING_CLS; pooling++) {
        struct stream *first = &want[pooling - RN_POOLING_MEAN];
        for (int c = 0; c < 3; c++) {
            rn_engine *engine =
                streams_engine(model,
                               &(rn_engine_options){.speculate = "off", .batch_tokens = chunks[c]});
            embed(engine, N, (rn_pooling)pooling, true, c ? &stream[0] : first);
            if (c)
                assert_memory_equal(first->embedding, stream[0].embedding,
                                    (size_t)n_embd * sizeof(float));
            rn_engine_destroy(engine);
        }
        rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = N_TEXTS + 1,
                                                                       .batch_tokens = 19});
        for (int i = 1; i <= N_TEXTS; i++) {
            rn_request text = request_for(30 * i, 1, 12);
            prompt[0] = i;
            streams_submit(engine, &text, &stream[i]);
        }
        rn_request request = request_for(N, 1, 0);
        request.pooling = (rn_pooling)pooling;
        request.normalize = true;
        streams_submit(engine, &request, &stream[0]);
        for (int step = 0; streams_step(engine, stream, N_TEXTS + 1, step, n_embd);) step++;
        assert_memory_equal(first->embedding, stream[0].embedding, (size_t)n_embd * sizeof(float));
        for (int i = 1; i <= N_TEXTS; i++) assert_int_equal(stream[i].n_ids, 12);
        rn_engine_destroy(engine);
    }
}

TEST_PROGRAM(choices) { return cases_run(open_choices, close_model); }
