// A reference model in other formats than its file's: weights as BF16 take bf16 inputs, and weights
// in blocks have scales that are rounded to f16. Pages are f16 or bf16. Logits are within 1e-3 of
// double precision with the same roundings, as in test_golden.c.
#include "cuda_engine.h"
#include "evaluate64.h"
#include "golden.h"
#include "runnel_model.h"
#include "tensor_bytes.h"

enum { N_ROWS = 24, MAX_WEIGHTS = 256 };

#define MOST_F64  1e-3
#define MOST_TIES 0.005

// A plan with matrices and tables of another format, made of a plan with F32.
struct encoded {
    struct plan plan;
    uint8_t *data[MAX_WEIGHTS];
    void **each[MAX_WEIGHTS]; // of experts
};

static bool is_matrix(const struct plan *plan, int weight) {
    for (int i = 0; i < plan->n_op; i++) {
        const struct op *op = &plan->op[i];
        if (op->weight == weight &&
            (op->kind == OP_EMBED || op->kind == OP_MATMUL || op->kind == OP_EXPERTS))
            return true;
    }
    return false;
}

// The numbers of an F32 weight, or of one of its experts; the caller frees them.
static float *floats_make(const struct plan *plan, const void *data, uint64_t bytes) {
    float *out = malloc((size_t)bytes);
    assert_non_null(out);
    const void *at = weight_brought(plan, data, bytes, out);
    if (at != out) memcpy(out, at, (size_t)bytes);
    return out;
}

static void weight_encode(struct encoded *out, const struct plan *plan, int index,
                          struct plan_weight *w, enum format_id format) {
    const int n = w->n_expert ? w->n_expert : 1;
    const uint64_t row_bytes = format_row_bytes(format, w->cols);
    const uint64_t bytes = row_bytes * (uint64_t)w->rows;
    assert_int_equal(w->format, FORMAT_F32);
    out->data[index] = malloc(bytes * (uint64_t)n);
    out->each[index] = calloc((size_t)n, sizeof *out->each[index]);
    assert_true(out->data[index] && out->each[index]);
    for (int e = 0; e < n; e++) {
        float *from = floats_make(plan, w->n_expert ? w->expert_data[e] : w->data,
                                  (uint64_t)w->rows * (uint64_t)w->cols * sizeof *from);
        uint8_t *to = out->data[index] + bytes * (uint64_t)e;
        for (int64_t r = 0; r < w->rows; r++)
            format_encode(format, from + r * w->cols, to + (uint64_t)r * row_bytes, w->cols);
        out->each[index][e] = to;
        free(from);
    }
    w->format = format;
    w->bytes = bytes * (uint64_t)n;
    if (w->n_expert)
        w->expert_data = (const void *const *)out->each[index];
    else
        w->data = out->data[index];
}

static void encoded_make(struct encoded *out, const struct plan *plan, enum format_id format) {
    rn_error err = {0};
    *out = (struct encoded){.data = {NULL}};
    assert_true(plan->n_weight <= MAX_WEIGHTS);
    plan_init(&out->plan);
    for (int i = 0; i < plan->n_buffer; i++)
        plan_add_slots(&out->plan, plan->buffer[i].name, plan->buffer[i].width,
                       plan->buffer[i].rows, plan->buffer[i].slots);
    for (int i = 0; i < plan->n_weight; i++) {
        struct plan_weight w = plan->weight[i];
        if (is_matrix(plan, i))
            weight_encode(out, plan, i, &w, format);
        else
            w.data = out->data[i] = (uint8_t *)floats_make(plan, w.data, w.bytes);
        plan_add_weight(&out->plan, &w);
    }
    for (int i = 0; i < plan->n_rope; i++) plan_add_rope(&out->plan, &plan->rope[i]);
    for (int i = 0; i < plan->n_group; i++) plan_add_kv_group(&out->plan, &plan->group[i]);
    for (int i = 0; i < plan->n_op; i++) plan_add_op(&out->plan, &plan->op[i]);
    out->plan.n_vocab = plan->n_vocab;
    out->plan.logits = plan->logits;
    out->plan.hidden = plan->hidden;
    check(plan_finish(&out->plan, &err) == RN_OK, "%s", err.message);
}

static void encoded_free(struct encoded *e) {
    for (int i = 0; i < MAX_WEIGHTS; i++) {
        free(e->data[i]);
        free(e->each[i]);
    }
    plan_deinit(&e->plan);
}

static void check_format(const struct golden *g, enum format_id format, bool kv_is_bf16) {
    const char *kv_type = kv_is_bf16 ? "bf16" : "f16";
    const size_t size = (size_t)N_ROWS * (size_t)g->n_vocab;
    struct encoded *e = malloc(sizeof *e);
    struct roundings device;
    struct evaluate64_ties ties;
    float *have = calloc(size, sizeof *have);
    double *want = calloc(size, sizeof *want), most = 0;
    assert_true(e && have && want && g->n_prompt >= N_ROWS);
    encoded_make(e, &g->model->model.plan, format);
    roundings_run(cuda_class(), &e->plan, kv_type, g->prompt, N_ROWS, have);
    roundings_read(&device, cuda_class(), &e->plan, kv_type, g->prompt, N_ROWS);
    evaluate64(&e->plan, kv_is_bf16 ? EVALUATE64_BF16 : EVALUATE64_F16, &device, g->prompt, N_ROWS,
               want, &ties);
    for (size_t i = 0; i < size; i++) {
        const double distance = fabs((double)have[i] - want[i]);
        if (!(distance <= most)) most = isnan(distance) ? HUGE_VAL : distance;
    }
    print_message("%s, %s, pages of %s: %.1e from double precision; %d ties, %d others, of %d\n",
                  g->name, format_at(format)->name, kv_type, most, (int)ties.n_other,
                  (int)ties.n_far, (int)ties.n_rounded);
    check(most <= MOST_F64, "%s in %s: %g from double precision", g->name, format_at(format)->name,
          most);
    check((double)ties.n_other <= MOST_TIES * (double)ties.n_rounded, "%d of %d roundings",
          (int)ties.n_other, (int)ties.n_rounded);
    roundings_free(&device);
    encoded_free(e);
    free(e);
    free(have);
    free(want);
}

static void check_model(const char *name, const enum format_id *format, int n) {
    struct golden g = golden_load(name);
    golden_open_gguf(&g);
    for (int i = 0; i < n; i++) check_format(&g, format[i], i % 2 == 0);
    golden_unload(&g);
}

CASE(dense_layers_are_near_double_precision_in_each_format) {
    static const enum format_id formats[] = {FORMAT_BF16, FORMAT_Q8_0, FORMAT_Q4_0,
                                             FORMAT_Q4_1, FORMAT_Q5_0, FORMAT_Q5_1};
    check_model("llama", formats, test_scale(2, 6, 6));
}

CASE(experts_are_near_double_precision_in_bf16) {
    static const enum format_id formats[] = {FORMAT_BF16};
    check_model("gptoss", formats, 1);
}

TEST_PROGRAM(formats) { return cases_run(NULL, NULL); }
