// Mixtures of experts through the CPU backend. The result is the plain formula. In any format a
// token's bits do not depend on its neighbours, threads or instruction set. The bytes of experts
// are those of the used experts.
// label: threads
#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend_here.h"
#include "parts.h"

// With this many tokens an expert of one batch has more than 32, the kernels for many, down to a
// few.
enum { EMBD = 64, FF = 96, EXPERTS = 6, USED = 3, VOCAB = 40, MAX_WEIGHTS = 16, TOKENS = 90 };

enum { GATE_EXPS, UP_EXPS, DOWN_EXPS, GATE_BIAS, UP_BIAS, DOWN_BIAS, EMBED_W, ROUTER_W, HEAD_W };

struct fixture {
    struct plan plan;
    float *values[MAX_WEIGHTS]; // [rows * cols * experts], the decoded values
    void *data[MAX_WEIGHTS];
    const void *expert[MAX_WEIGHTS][EXPERTS];
    bool bias, normalize, weighs_input;
};

static int add_weight(struct fixture *f, int slot, enum format_id format, int64_t rows,
                      int64_t cols, int n_expert) {
    const int64_t n = rows * cols * (n_expert ? n_expert : 1);
    const uint64_t bytes = format_row_bytes(format, n);
    uint8_t *data = lines_alloc(bytes);
    blocks_fill(format, data, bytes, &rng_state);
    f->data[slot] = data;
    f->values[slot] = malloc((size_t)n * sizeof(float));
    format_decode(format, data, f->values[slot], n);
    struct plan_weight weight = {
        .name = "w", .format = format, .rows = rows, .cols = cols, .data = data, .bytes = bytes};
    if (n_expert) {
        for (int e = 0; e < n_expert; e++)
            f->expert[slot][e] = data + bytes / (uint64_t)n_expert * (uint64_t)e;
        weight.data = NULL;
        weight.n_expert = n_expert;
        weight.expert_data = f->expert[slot];
    }
    return plan_add_weight(&f->plan, &weight);
}

static void add_op(struct fixture *f, enum op_kind kind, int in0, int in1, int out, int weight,
                   int bias) {
    struct op op = op_of(&f->plan, kind, in0, in1, out);
    op.weight = weight;
    op.bias = bias;
    if (kind == OP_GATE) op.gate = GATE_SILU;
    if (kind == OP_ROUTE) {
        op.route.n_used = USED;
        op.route.normalize = f->normalize;
    }
    if (kind == OP_EXPERTS)
        op.experts.weighs_input = f->weighs_input && !f->plan.buffer[in0].has_slots;
    if (kind == OP_COMBINE) op.experts.weighs_input = f->weighs_input;
    plan_add_op(&f->plan, &op);
}

// up_format: the format of one of the two products that share an input.
static void build(struct fixture *f, enum format_id format, enum format_id up_format, bool bias,
                  bool normalize, bool weighs_input) {
    *f = (struct fixture){.bias = bias, .normalize = normalize, .weighs_input = weighs_input};
    struct plan *p = &f->plan;
    plan_init(p);
    p->n_vocab = VOCAB;
    const int x = plan_add_buffer(p, "x", EMBD, ROWS_TOKENS);
    const int h = plan_add_buffer(p, "h", EMBD, ROWS_TOKENS);
    const int router = plan_add_buffer(p, "router", EXPERTS, ROWS_TOKENS);
    const int route = plan_add_buffer(p, "route", 2 * USED, ROWS_TOKENS);
    const int gate = plan_add_slots(p, "gate", FF, ROWS_TOKENS, USED);
    const int up = plan_add_slots(p, "up", FF, ROWS_TOKENS, USED);
    const int out = plan_add_slots(p, "out", EMBD, ROWS_TOKENS, USED);
    const int last = plan_add_buffer(p, "last", EMBD, ROWS_OUT);
    p->logits = plan_add_buffer(p, "logits", VOCAB, ROWS_LOGITS);
    const int w[] = {add_weight(f, GATE_EXPS, format, FF, EMBD, EXPERTS),
                     add_weight(f, UP_EXPS, up_format, FF, EMBD, EXPERTS),
                     add_weight(f, DOWN_EXPS, format, EMBD, FF, EXPERTS),
                     add_weight(f, GATE_BIAS, FORMAT_F32, EXPERTS, FF, 0),
                     add_weight(f, UP_BIAS, FORMAT_F32, EXPERTS, FF, 0),
                     add_weight(f, DOWN_BIAS, FORMAT_F32, EXPERTS, EMBD, 0),
                     add_weight(f, EMBED_W, FORMAT_F32, VOCAB, EMBD, 0),
                     add_weight(f, ROUTER_W, FORMAT_F32, EXPERTS, EMBD, 0),
                     add_weight(f, HEAD_W, FORMAT_F32, VOCAB, EMBD, 0)};
    add_op(f, OP_EMBED, PLAN_NONE, PLAN_NONE, x, w[EMBED_W], PLAN_NONE);
    add_op(f, OP_EMBED, PLAN_NONE, PLAN_NONE, h, w[EMBED_W], PLAN_NONE);
    add_op(f, OP_MATMUL, h, PLAN_NONE, router, w[ROUTER_W], PLAN_NONE);
    add_op(f, OP_ROUTE, router, PLAN_NONE, route, PLAN_NONE, PLAN_NONE);
    add_op(f, OP_EXPERTS, h, route, gate, w[GATE_EXPS], bias ? w[GATE_BIAS] : PLAN_NONE);
    add_op(f, OP_EXPERTS, h, route, up, w[UP_EXPS], bias ? w[UP_BIAS] : PLAN_NONE);
    add_op(f, OP_GATE, gate, up, gate, PLAN_NONE, PLAN_NONE);
    add_op(f, OP_EXPERTS, gate, route, out, w[DOWN_EXPS], bias ? w[DOWN_BIAS] : PLAN_NONE);
    add_op(f, OP_COMBINE, out, route, x, PLAN_NONE, PLAN_NONE);
    add_op(f, OP_GATHER, x, PLAN_NONE, last, PLAN_NONE, PLAN_NONE);
    add_op(f, OP_MATMUL, last, PLAN_NONE, p->logits, w[HEAD_W], PLAN_NONE);
    assert_int_equal(plan_finish(p, NULL), RN_OK);
}

static void fixture_free(struct fixture *f) {
    plan_deinit(&f->plan);
    for (int i = 0; i < MAX_WEIGHTS; i++) free(f->values[i]), free(f->data[i]);
}

// Logits of the tokens, chunk by chunk; false: this machine lacks the instruction set. *bytes: of
// experts, over all runs.
static bool run(const struct fixture *f, const char *variant, int threads, int chunk,
                const int32_t *token, float *logits, uint64_t *bytes) {
    const struct backend_config config = {.variant = variant, .sizes = {chunk, chunk, 1}};
    struct here here;
    rn_error err = {0};
    const rn_status status = here_try(&here, &f->plan, &config, threads, &err);
    if (status == RN_ERR_UNSUPPORTED) return false;
    check(status == RN_OK, "%s", err.message);
    struct batch_builder builder;
    assert_int_equal(batch_builder_init(&builder, 0, chunk, chunk, 1, NULL), RN_OK);
    *bytes = 0;
    for (int at = 0; at < TOKENS; at += chunk) {
        const int n = TOKENS - at < chunk ? TOKENS - at : chunk;
        batch_begin(&builder, NULL);
        batch_add(&builder, &(struct batch_rows){
                                .first_pos = at, .n_tokens = n, .token = token + at, .n_out = n});
        here_run(&here, &builder.batch);
        *bytes += here.result.expert_bytes;
        for (int i = 0; i < n; i++)
            memcpy(logits + (at + i) * VOCAB, here.result.logits[i], VOCAB * sizeof *logits);
    }
    batch_builder_deinit(&builder);
    here_destroy(&here);
    return true;
}

// y = W x + b for one expert, in double.
static void product(const struct fixture *f, int slot, int bias, int expert, int rows, int cols,
                    const double *x, double *y) {
    const float *w = f->values[slot] + (int64_t)expert * rows * cols;
    for (int r = 0; r < rows; r++) {
        y[r] = f->bias ? (double)f->values[bias][expert * rows + r] : 0;
        for (int c = 0; c < cols; c++) y[r] += (double)w[r * cols + c] * x[c];
    }
}

static int best_expert(const double *logit, const bool *taken) {
    int best = -1;
    for (int e = 0; e < EXPERTS; e++)
        if (!taken[e] && (best < 0 || logit[e] > logit[best])) best = e;
    return best;
}

// The plain definition for one token; experts that were used are marked.
static void token_double(const struct fixture *f, int32_t token, bool *touched, double *logits) {
    double x[EMBD], y[EMBD], logit[EXPERTS], total = 0, chosen = 0;
    bool taken[EXPERTS] = {false};
    for (int i = 0; i < EMBD; i++) y[i] = x[i] = (double)f->values[EMBED_W][token * EMBD + i];
    for (int e = 0; e < EXPERTS; e++) {
        logit[e] = 0;
        for (int i = 0; i < EMBD; i++) logit[e] += (double)f->values[ROUTER_W][e * EMBD + i] * x[i];
        total += exp(logit[e]);
    }
    for (int j = 0; j < USED; j++) {
        const int e = best_expert(logit, taken);
        taken[e] = touched[e] = true;
        chosen += exp(logit[e]);
    }
    for (int e = 0; e < EXPERTS; e++) {
        if (!taken[e]) continue;
        double in[EMBD], gate[FF], up[FF], out[EMBD];
        const double weight = exp(logit[e]) / (f->normalize ? chosen : total);
        for (int i = 0; i < EMBD; i++) in[i] = f->weighs_input ? x[i] * weight : x[i];
        product(f, GATE_EXPS, GATE_BIAS, e, FF, EMBD, in, gate);
        product(f, UP_EXPS, UP_BIAS, e, FF, EMBD, in, up);
        for (int i = 0; i < FF; i++) gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
        product(f, DOWN_EXPS, DOWN_BIAS, e, EMBD, FF, gate, out);
        for (int i = 0; i < EMBD; i++) y[i] += (f->weighs_input ? 1 : weight) * out[i];
    }
    for (int v = 0; v < VOCAB; v++) {
        logits[v] = 0;
        for (int i = 0; i < EMBD; i++) logits[v] += (double)f->values[HEAD_W][v * EMBD + i] * y[i];
    }
}

static void tokens_draw(int32_t *token) {
    for (int i = 0; i < TOKENS; i++) token[i] = (int32_t)(rng() % VOCAB);
}

static void check_formula(enum format_id format, enum format_id up_format, bool bias,
                          bool normalize, bool weighs_input, double tolerance) {
    struct fixture f;
    build(&f, format, up_format, bias, normalize, weighs_input);
    int32_t token[TOKENS];
    tokens_draw(token);
    float logits[TOKENS * VOCAB];
    uint64_t bytes;
    assert_true(run(&f, "scalar", 1, TOKENS, token, logits, &bytes));
    bool touched[EXPERTS] = {false};
    for (int t = 0; t < TOKENS; t++) {
        double want[VOCAB], most = 1;
        token_double(&f, token[t], touched, want);
        for (int v = 0; v < VOCAB; v++) most = fmax(most, fabs(want[v]));
        for (int v = 0; v < VOCAB; v++)
            check(fabs((double)logits[t * VOCAB + v] - want[v]) < tolerance * most,
                  "token %d, logit %d is %g, expected %g", t, v, (double)logits[t * VOCAB + v],
                  want[v]);
    }
    fixture_free(&f);
}

CASE(experts_are_the_formula) {
    if (TEST_FOR_RACES) skip();
    check_formula(FORMAT_F32, FORMAT_F32, false, true, false, 1e-5);
    check_formula(FORMAT_F32, FORMAT_F32, true, true, false, 1e-5);
    check_formula(FORMAT_F32, FORMAT_F32, true, false, false, 1e-5);
    // activations are quantized: looser
    check_formula(FORMAT_Q8_0, FORMAT_Q8_0, true, true, false, 3e-2);
    check_formula(FORMAT_MXFP4, FORMAT_MXFP4, true, true, false, 3e-2);
    check_formula(FORMAT_Q8_0, FORMAT_F32, true, true, false, 3e-2);
    check_formula(FORMAT_F32, FORMAT_MXFP4, true, true, false, 3e-2);
    check_formula(FORMAT_F32, FORMAT_F32, true, false, true, 1e-5);
    check_formula(FORMAT_Q8_0, FORMAT_Q8_0, true, true, true, 3e-2);
    check_formula(FORMAT_Q8_0, FORMAT_F32, true, true, true, 3e-2);
}

CASE(bits_do_not_depend_on_the_batch) {
    static const enum format_id formats[][2] = {{FORMAT_F32, FORMAT_F32},
                                                {FORMAT_Q8_0, FORMAT_Q8_0},
                                                {FORMAT_MXFP4, FORMAT_MXFP4},
                                                {FORMAT_Q8_0, FORMAT_F32},
                                                {FORMAT_F32, FORMAT_MXFP4}};
    static const char *const isas[] = {"scalar", "avx2", "avxvnni", "avx512bw",
                                       "avx512", "amx",  "neon"};
    static const int chunks[] = {1, 4, TOKENS};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i += TEST_FOR_RACES ? 3 : 1) {
        struct fixture f;
        build(&f, formats[i][0], formats[i][1], i % 2, true, i % 3 == 1);
        int32_t token[TOKENS];
        tokens_draw(token);
        float want[TOKENS * VOCAB], got[TOKENS * VOCAB];
        uint64_t bytes;
        assert_true(run(&f, "scalar", 1, 1, token, want, &bytes));
        const int n_ways = (int)(sizeof isas / sizeof *isas) * 3 * 2;
        const int first = TEST_FOR_RACES ? 2 * (int)i + 1 : TEST_IS_SLOW ? (int)i : 0;
        for (int way = first; way < n_ways; way += TEST_FOR_RACES ? 10 : TEST_IS_SLOW ? 5 : 1) {
            const int threads = 1 + way % 2, chunk = chunks[way / 2 % 3];
            if (!run(&f, isas[way / 6], threads, chunk, token, got, &bytes)) continue;
            check(memcmp(got, want, sizeof want) == 0,
                  "%s, %s: %s, %d threads, chunks of %d differs", format_at(formats[i][0])->name,
                  format_at(formats[i][1])->name, isas[way / 6], threads, chunk);
        }
        fixture_free(&f);
    }
}

CASE(bytes_are_those_of_the_experts_used) {
    struct fixture f;
    build(&f, FORMAT_Q8_0, FORMAT_Q8_0, true, true, false);
    int32_t token[TOKENS];
    tokens_draw(token);
    const uint64_t one = 2 * FF * EMBD / 32 * 34 + EMBD * FF / 32 * 34 + (2 * FF + EMBD) * 4;
    float logits[TOKENS * VOCAB];
    uint64_t bytes;
    run(&f, NULL, 2, 1, token, logits, &bytes);
    assert_int_equal(bytes, one * USED * TOKENS);
    bool touched[EXPERTS] = {false};
    double unused[VOCAB];
    for (int t = 0; t < TOKENS; t++) token_double(&f, token[t % 2], touched, unused);
    for (int t = 0; t < TOKENS; t++) token[t] = token[t % 2]; // two tokens over and over
    int n = 0;
    for (int e = 0; e < EXPERTS; e++) n += touched[e];
    run(&f, NULL, 2, TOKENS, token, logits, &bytes);
    assert_int_equal(bytes, one * (uint64_t)n); // once for all tokens
    fixture_free(&f);
}

// Rows of block formats that are multiplied before they are quantized are floats first.
CASE(weighed_inputs_have_room_of_their_own) {
    const struct backend_config config = {.sizes = {TOKENS, TOKENS, 1}};
    struct fixture f;
    struct here here;
    build(&f, FORMAT_Q8_0, FORMAT_Q8_0, true, true, true);
    here_create(&here, &f.plan, &config, 1);
    const struct cpu_backend *b = (const struct cpu_backend *)here.backend;
    const size_t room = (size_t)((const char *)b->matmul_scratch - (const char *)b->xg);
    assert_true(room >= TOKENS * USED * EMBD * sizeof(float));
    here_destroy(&here);
    fixture_free(&f);
}

TEST_PROGRAM(experts) { return cases_run(NULL, NULL); }
