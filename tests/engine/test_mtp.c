// The block of a model that drafts: its logits against the published definition in double
// precision, and texts that are drafted with it, which are those without drafts.
#include <math.h>

#include "backend/backend.h"
#include "backend_here.h"
#include "bare_engine.h"
#include "block_bench.h"
#include "drafter_world.h"
#include "engine/draft/drafter_model.h"
#include "mtp_model.h"
#include "plan/batch.h"
#include "tensor_bytes.h"

enum { TOKENS = BENCH_TOKENS, PROMPT = 40, TEXT = 60 };

static struct mtp_file file;

static int open_file(void **state) {
    (void)state;
    file = mtp_file_make(MTP_RANDOM);
    return 0;
}

static int close_file(void **state) {
    (void)state;
    mtp_file_remove(&file);
    return 0;
}

// ---------------------------------------------------------------- the definition

typedef double row[2 * MTP_HEADS * MTP_DIM];

static void turn(double *x, int pos) {
    for (int i = 0; i < MTP_ROT / 2; i++) {
        const double angle = pos * pow(1e7, -2.0 * i / MTP_ROT), a = x[i], b = x[i + MTP_ROT / 2];
        x[i] = a * cos(angle) - b * sin(angle);
        x[i + MTP_ROT / 2] = a * sin(angle) + b * cos(angle);
    }
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

enum { LONGEST = 512 };
static double keys[LONGEST][MTP_DIM], values[LONGEST][MTP_DIM];

// Adds the attention's result, with its gate, to x.
static void attend(double *x, int pos) {
    row h, q, heads;
    norm(x, mtp_data(&file, "attn_norm"), MTP_EMBD, h);
    product(mtp_data(&file, "attn_q"), 2 * MTP_HEADS * MTP_DIM, MTP_EMBD, h, q);
    product(mtp_data(&file, "attn_k"), MTP_DIM, MTP_EMBD, h, keys[pos]);
    product(mtp_data(&file, "attn_v"), MTP_DIM, MTP_EMBD, h, values[pos]);
    norm(keys[pos], mtp_data(&file, "attn_k_norm"), MTP_DIM, keys[pos]);
    turn(keys[pos], pos);
    for (int head = 0; head < MTP_HEADS; head++) {
        double *own = q + 2 * head * MTP_DIM, *gate = own + MTP_DIM, score[LONGEST], sum = 0;
        norm(own, mtp_data(&file, "attn_q_norm"), MTP_DIM, own);
        turn(own, pos);
        for (int j = 0; j <= pos; j++) {
            score[j] = 0;
            for (int i = 0; i < MTP_DIM; i++) score[j] += own[i] * keys[j][i];
            score[j] = exp(score[j] / sqrt(MTP_DIM));
            sum += score[j];
        }
        for (int i = 0; i < MTP_DIM; i++) {
            double out = 0;
            for (int j = 0; j <= pos; j++) out += score[j] / sum * values[j][i];
            heads[head * MTP_DIM + i] = out * sigmoid(gate[i]);
        }
    }
    product(mtp_data(&file, "attn_output"), MTP_EMBD, MTP_HEADS * MTP_DIM, heads, h);
    for (int i = 0; i < MTP_EMBD; i++) x[i] += h[i];
}

static void feed_forward(double *x) {
    row h, gate, up;
    norm(x, mtp_data(&file, "post_attention_norm"), MTP_EMBD, h);
    product(mtp_data(&file, "ffn_gate"), MTP_FF, MTP_EMBD, h, gate);
    product(mtp_data(&file, "ffn_up"), MTP_FF, MTP_EMBD, h, up);
    for (int i = 0; i < MTP_FF; i++) up[i] *= gate[i] * sigmoid(gate[i]);
    product(mtp_data(&file, "ffn_down"), MTP_EMBD, MTP_FF, up, h);
    for (int i = 0; i < MTP_EMBD; i++) x[i] += h[i];
}

// The block's logits for the position, from the next token and a hidden row; *hidden becomes its
// own.
static void define(const struct weights *weights, int32_t next, double *hidden, int pos,
                   double *logits) {
    const float *embd = tensor_bytes(weights, weights_tensor_find(weights, "token_embd.weight"));
    const float *head = tensor_bytes(weights, weights_tensor_find(weights, "output.weight"));
    double both[2 * MTP_EMBD], x[MTP_EMBD];
    for (int i = 0; i < MTP_EMBD; i++) {
        both[i] = (double)embd[next * MTP_EMBD + i];
        both[MTP_EMBD + i] = hidden[i];
    }
    norm(both, mtp_data(&file, "nextn.enorm"), MTP_EMBD, both);
    norm(both + MTP_EMBD, mtp_data(&file, "nextn.hnorm"), MTP_EMBD, both + MTP_EMBD);
    product(mtp_data(&file, "nextn.eh_proj"), MTP_EMBD, 2 * MTP_EMBD, both, x);
    attend(x, pos);
    feed_forward(x);
    norm(x, mtp_data(&file, "nextn.shared_head_norm"), MTP_EMBD, hidden);
    product(head, MTP_VOCAB, MTP_EMBD, hidden, logits);
}

// ---------------------------------------------------------------- the backend

// Rows [first, first + n) at once; input: of the block.
static struct step_result bench_run(struct bench *bench, const int32_t *token, int first, int n,
                                    const float *const *input) {
    struct step_result result;
    rn_error err = {0};
    batch_begin(&bench->builder, NULL);
    bench->builder.batch.is_draft = input != NULL;
    bench->builder.batch.input = input;
    batch_add(&bench->builder, &(struct batch_rows){.page_table = bench->table,
                                                    .first_pos = first,
                                                    .n_tokens = n,
                                                    .token = token,
                                                    .n_out = n});
    check(backend_run(bench->backend, &bench->builder.batch, &result, &err) == RN_OK, "%s",
          err.message);
    return result;
}

CASE(the_blocks_logits_are_those_of_its_definition) {
    static float hidden[TOKENS][MTP_EMBD];
    const float *input[TOKENS];
    int32_t token[TOKENS + 1];
    struct bench bench;
    rn_model *model = bare_open(file.path);
    const struct weights *weights = model->weights;
    fill_tokens(token, TOKENS + 1, 3, MTP_VOCAB);
    bench_init(&bench, &model->model.plan, model->model.plan.n_group_all);
    assert_true(model->model.plan.n_op_all > model->model.plan.n_op);
    struct step_result result = bench_run(&bench, token, 0, TOKENS, NULL);
    for (int i = 0; i < TOKENS; i++) {
        memcpy(hidden[i], result.hidden[i], sizeof hidden[i]);
        input[i] = hidden[i];
    }
    for (int first = 0, n = 1; first < TOKENS; first += n, n = n == 1 ? 40 : TOKENS - first) {
        result = bench_run(&bench, token + first + 1, first, n, input + first);
        for (int i = 0; i < n; i++) {
            static double want[MTP_VOCAB], own[MTP_EMBD];
            for (int k = 0; k < MTP_EMBD; k++) own[k] = (double)hidden[first + i][k];
            define(weights, token[first + i + 1], own, first + i, want);
            for (int id = 0; id < MTP_VOCAB; id++)
                check(fabs((double)result.logits[i][id] - want[id]) < 1e-3,
                      "position %d, id %d: %g, not %g", first + i, id, (double)result.logits[i][id],
                      want[id]);
        }
    }
    bench_deinit(&bench);
    rn_model_close(model);
}

// ---------------------------------------------------------------- the drafter

// A sequence that the drafter follows, with hidden rows of the test's own.
struct followed {
    struct story *story;
    float hidden[LONGEST][MTP_EMBD];
    int base, n_defined; // of the definition: as the drafter's slot
};

static void grow(struct drafter *drafter, struct followed *f, int n, uint64_t *seed) {
    struct seq *seq = &f->story->seq;
    const float *rows[LONGEST];
    const int pos = seq->n_token - 1; // the last token is not evaluated yet
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < MTP_EMBD; k++) f->hidden[pos + i][k] = mtp_random(seed);
        rows[i] = f->hidden[pos + i];
        seq->token[seq->n_token++] = (int32_t)story_draw(seed, MTP_VOCAB);
    }
    drafter->cls->observe(drafter, seq, pos, n, rows);
}

// The draft of the definition: the best token each time.
static void define_draft(const struct weights *weights, struct followed *f, int n, int32_t *out) {
    static double logits[MTP_VOCAB], hidden[MTP_EMBD];
    const struct seq *seq = &f->story->seq;
    int pos = f->base + f->n_defined;
    for (; pos < seq->n_token - 1; pos++) {
        for (int k = 0; k < MTP_EMBD; k++) hidden[k] = (double)f->hidden[pos][k];
        define(weights, seq->token[pos + 1], hidden, pos - f->base, logits);
    }
    f->n_defined = pos - f->base;
    for (int i = 0; i < n; i++) {
        out[i] = 0;
        for (int id = 1; id < MTP_VOCAB; id++)
            if (logits[id] > logits[out[i]]) out[i] = id;
        define(weights, out[i], hidden, pos + i - f->base, logits);
    }
}

CASE(drafts_are_those_of_the_definition) {
    enum { ROUNDS = 30, MOST = 5 };
    rn_model *model = bare_open(file.path);
    const rn_engine_options options = {.speculate = "mtp", .kv_type = "f32", .n_ctx = LONGEST};
    rn_engine *engine = streams_engine(model, &options);
    struct drafter *drafter = engine->engine.draft->drafter[RN_DRAFTER_MTP];
    static struct followed f;
    uint64_t seed = 5;
    f.story = story_random(1, LONGEST, seed, MTP_VOCAB);
    story_room(&f.story->seq, MTP_VOCAB);
    struct seq *seq = &f.story->seq;
    for (int round = 0; round < ROUNDS; round++) {
        // as after a prompt, after drafts, and after more tokens than are kept
        const int n = round == 0 ? 50 : round == 20 ? DRAFTER_TAIL + 9 : 1 + round % 4;
        const int draft = 1 + round % MOST;
        int32_t want[MOST];
        grow(drafter, &f, n, &seed);
        if (n > DRAFTER_TAIL) {
            f.base = seq->n_token - 1 - DRAFTER_TAIL;
            f.n_defined = 0;
        }
        const struct draft_offer offer = drafter->cls->offer(drafter, seq, draft, want);
        assert_int_equal(offer.n, draft);
        struct draft_job job = {seq, draft};
        drafter->cls->draft(drafter, &job, 1);
        assert_int_equal(job.n, draft);
        define_draft(model->weights, &f, draft, want);
        assert_memory_equal(seq->token + seq->n_token, want, (size_t)draft * sizeof *want);
        drafter->cls->settle(drafter, seq, seq->n_token + round % (draft + 1));
    }
    drafter->cls->leave(drafter, seq);
    story_destroy(f.story);
    rn_engine_destroy(engine);
    rn_model_close(model);
}

CASE(a_drafter_without_the_last_hidden_row_offers_nothing) {
    rn_model *model = bare_open(file.path);
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.speculate = "mtp"});
    struct drafter *drafter = engine->engine.draft->drafter[RN_DRAFTER_MTP];
    static struct followed f;
    uint64_t seed = 5;
    int32_t token[4];
    f.story = story_random(1, LONGEST, seed, MTP_VOCAB);
    story_room(&f.story->seq, MTP_VOCAB);
    f.base = f.n_defined = 0;
    assert_int_equal(drafter->cls->offer(drafter, &f.story->seq, 3, token).n, 0);
    grow(drafter, &f, 3, &seed);
    assert_int_equal(drafter->cls->offer(drafter, &f.story->seq, 3, token).n, 3);
    f.story->seq.n_token++;
    assert_int_equal(drafter->cls->offer(drafter, &f.story->seq, 3, token).n, 0);
    drafter->cls->leave(drafter, &f.story->seq);
    story_destroy(f.story);
    rn_engine_destroy(engine);
    rn_model_close(model);
}

// ---------------------------------------------------------------- the engine

// The engine's drafter, whose drafts are compared with the definition of each text from its first
// token on.
static struct {
    const struct drafter_class *cls;
    const struct weights *weights;
    struct bench bench;
    int n_drafts, n_tokens, n_later; // later: of slots that did not begin with the text
} watched;

static void check_draft(const struct seq *seq, int base, int n) {
    static double logits[MTP_VOCAB], hidden[MTP_EMBD];
    const struct step_result result =
        bench_run(&watched.bench, seq->token, 0, seq->n_token - 1, NULL);
    int pos = base;
    for (; pos < seq->n_token - 1; pos++) {
        for (int k = 0; k < MTP_EMBD; k++) hidden[k] = (double)result.hidden[pos][k];
        define(watched.weights, seq->token[pos + 1], hidden, pos - base, logits);
    }
    for (int i = 0; i < n; i++, pos++) {
        const int32_t token = seq->token[seq->n_token + i];
        double best = logits[0];
        for (int id = 1; id < MTP_VOCAB; id++) best = fmax(best, logits[id]);
        check(logits[token] > best - 1e-3, "token %d of the draft behind %d: %g, the best has %g",
              i, seq->n_token, logits[token], best);
        define(watched.weights, token, hidden, pos - base, logits);
    }
    watched.n_drafts++;
    watched.n_tokens += n;
    watched.n_later += base > 0;
}

static void watched_draft(struct drafter *drafter, struct draft_job *jobs, int n_jobs) {
    const struct drafter_model *d = (const struct drafter_model *)drafter;
    watched.cls->draft(drafter, jobs, n_jobs);
    for (int i = 0; i < n_jobs; i++) {
        if (jobs[i].n == 0) continue;
        check_draft(jobs[i].seq, d->slot[jobs[i].seq->draft->slot[RN_DRAFTER_MTP]].base, jobs[i].n);
    }
}

// Three texts at once, then their next turns, which begin with the states of their ends. Almost all
// drafts are refused, at their first token.
CASE(drafts_of_the_engine_are_those_of_the_definition) {
    enum { N = 3, FIRST = 30, ANSWER = 16, NEW = 3 };
    static struct stream stream[N];
    static int32_t text[N][TOKENS];
    rn_model *model = bare_open(file.path);
    const rn_engine_options options = {.speculate = "mtp",
                                       .kv_type = "f32",
                                       .n_ctx = TOKENS,
                                       .max_seqs = N,
                                       .batch_tokens = 17,
                                       .logit_rows = 17,
                                       .draft_min = 3,
                                       .draft_max = 3};
    rn_engine *engine = streams_engine(model, &options);
    struct drafter *drafter = engine->engine.draft->drafter[RN_DRAFTER_MTP];
    watched.cls = drafter->cls;
    watched.weights = model->weights;
    struct drafter_class cls = *watched.cls;
    cls.draft = watched_draft;
    drafter->cls = &cls;
    bench_init(&watched.bench, &model->model.plan, model->model.plan.n_group_all);
    for (int turn = 0, n = FIRST; turn < 2; turn++, n += ANSWER + NEW) {
        for (int i = 0; i < N; i++) {
            if (turn == 0) fill_tokens(text[i], FIRST, (uint32_t)i + 70, MTP_VOCAB);
            if (turn > 0) fill_tokens(text[i] + n - NEW, NEW, (uint32_t)i + 80, MTP_VOCAB);
            streams_submit(engine,
                           &(rn_request){.prompt = text[i],
                                         .n_prompt = (size_t)n,
                                         .max_tokens = ANSWER,
                                         .ignore_eos = true},
                           &stream[i]);
        }
        streams_drain(engine, stream, N);
        for (int i = 0; i < N; i++) memcpy(text[i] + n, stream[i].ids, ANSWER * sizeof *text[i]);
    }
    check(watched.n_drafts > 40 && watched.n_tokens > 60 && watched.n_later > 10,
          "%d drafts, %d tokens, %d later", watched.n_drafts, watched.n_tokens, watched.n_later);
    drafter->cls = watched.cls;
    bench_deinit(&watched.bench);
    rn_engine_destroy(engine);
    rn_model_close(model);
}

// ---------------------------------------------------------------- texts

static rn_request text_request(const int32_t *prompt, int n_prompt, int which) {
    rn_request request = {.prompt = prompt,
                          .n_prompt = (size_t)n_prompt,
                          .max_tokens = TEXT,
                          .ignore_eos = true};
    if (which % 2) {
        request.sampling.temperature = 0.8f;
        request.sampling.seed = 11 + (uint64_t)which;
        request.sampling.has_seed = true;
    }
    return request;
}

enum { N_TEXTS = 6 };

static void run_all(rn_engine *engine, const rn_request *request, struct stream *stream) {
    for (int i = 0; i < N_TEXTS; i++) streams_submit(engine, &request[i], &stream[i]);
    streams_drain(engine, stream, N_TEXTS);
}

// The texts of six requests together, with and without drafts.
static rn_engine_stats check_texts(const char *path, int draft_min, int draft_max) {
    static int32_t prompt[N_TEXTS][400];
    static const int lengths[N_TEXTS] = {1,  2,   33,
                                         64, 200, 400}; // shorter and longer than the tail
    static struct stream want[N_TEXTS], got[N_TEXTS];
    rn_request request[N_TEXTS];
    rn_model *model = bare_open(path);
    for (int i = 0; i < N_TEXTS; i++) {
        fill_tokens(prompt[i], lengths[i], (uint32_t)i + 20, MTP_VOCAB);
        request[i] = text_request(prompt[i], lengths[i], i);
    }
    const rn_engine_options plain = {.speculate = "off", .max_seqs = N_TEXTS, .n_ctx = 512};
    const rn_engine_options drafts = {.speculate = "mtp",
                                      .draft_min = draft_min,
                                      .draft_max = draft_max,
                                      .max_seqs = N_TEXTS,
                                      .n_ctx = 512};
    rn_engine *engine = streams_engine(model, &plain);
    run_all(engine, request, want);
    rn_engine_destroy(engine);
    engine = streams_engine(model, &drafts);
    run_all(engine, request, got);
    for (int i = 0; i < N_TEXTS; i++) streams_check_same(&want[i], &got[i]);
    const rn_engine_stats stats = streams_stats(engine);
    rn_engine_destroy(engine);
    rn_model_close(model);
    return stats;
}

CASE(refused_drafts_do_not_change_texts) {
    for (int n = 1; n <= 5; n += 2) {
        const rn_engine_stats stats = check_texts(file.path, n, n);
        assert_true(stats.draft[RN_DRAFTER_MTP].tokens > 100);
    }
}

CASE(right_drafts_are_accepted) {
    struct mtp_file echo = mtp_file_make(MTP_ECHO);
    for (int n = 1; n <= 5; n += 2) {
        const rn_engine_stats stats = check_texts(echo.path, n, n);
        const rn_draft_stats *draft = &stats.draft[RN_DRAFTER_MTP];
        check(draft->accepted == draft->tokens && draft->tokens > 100, "%llu of %llu",
              (unsigned long long)draft->accepted, (unsigned long long)draft->tokens);
    }
    mtp_file_remove(&echo);
}

CASE(the_block_drafts_by_itself) {
    struct mtp_file echo = mtp_file_make(MTP_ECHO);
    rn_model *model = bare_open(echo.path);
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = 2});
    rn_engine_info info;
    rn_engine_get_info(engine, &info);
    check(strstr(info.drafters, "mtp") != NULL, "drafters: %s", info.drafters);
    rn_engine_destroy(engine);
    rn_model_close(model);
    mtp_file_remove(&echo);
}

CASE(the_block_has_kv_memory_where_it_drafts) {
    struct mtp_file echo = mtp_file_make(true);
    rn_model *model = bare_open(echo.path);
    static const char *const with[] = {"auto", "mtp", "mtp,lookup"};
    static const char *const without[] = {"off", "lookup"};
    const rn_engine_options plain = {.speculate = "off", .n_ctx = 256, .max_seqs = 2};
    rn_memory_plan off, plan;
    assert_int_equal(rn_engine_plan_memory(model, &plain, &off, NULL), RN_OK);
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        rn_engine_options options = plain;
        options.speculate = with[i];
        assert_int_equal(rn_engine_plan_memory(model, &options, &plan, NULL), RN_OK);
        assert_true(plan.mtp_kv_bytes >= 256 * off.kv_token_bytes); // one layer each
        assert_int_equal(plan.state_bytes, off.state_bytes);
    }
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        rn_engine_options options = plain;
        options.speculate = without[i];
        assert_int_equal(rn_engine_plan_memory(model, &options, &plan, NULL), RN_OK);
        assert_int_equal(plan.mtp_kv_bytes, 0);
    }
    // the states of a sequence are counted twice, and its KV
    assert_int_equal(off.kv_context_bytes, 2 * off.state_bytes + 256 * off.kv_token_bytes);
    rn_model_close(model);
    mtp_file_remove(&echo);
}

CASE(a_model_without_a_block_cannot_draft_with_it) {
    rn_model *model = bare_open(TEST_DATA "/golden/qwen3_5/model.gguf");
    rn_engine *engine;
    rn_error err = {0};
    assert_int_equal(rn_engine_create(model, &(rn_engine_options){.speculate = "mtp"}, &engine,
                                      &err),
                     RN_ERR_ARG);
    assert_non_null(strstr(err.message, "this model has none"));
    rn_memory_plan plan;
    assert_int_equal(rn_engine_plan_memory(model, &(rn_engine_options){.speculate = "mtp"}, &plan,
                                           NULL),
                     RN_ERR_ARG);
    rn_model_close(model);
}

TEST_PROGRAM(mtp) { return cases_run(open_file, close_file); }
