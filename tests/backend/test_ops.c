// Every op of every instruction set that this machine has against the scalar reference, bit for
// bit, and the reference attention against a plain computation in double precision.
#define _GNU_SOURCE 1
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cpu/reference.h"
#include "base/rmath.h"
#include "parts.h"

// The tuned tables of this machine.
static int tables(const struct cpu_ops *out[ISA_COUNT]) {
    int n = 0;
    for (int isa = ISA_SCALAR + 1; isa < ISA_COUNT; isa++)
        if (ops_at((enum cpu_isa)isa)) out[n++] = ops_at((enum cpu_isa)isa);
    return n;
}

static const int widths[] = {1, 7, 15, 16, 17, 31, 32, 33, 48, 80, 100, 257, 576, 2048, 2051};
enum { N_WIDTHS = COUNT(widths) };

// ---------------------------------------------------------------- quantize

// Ordinary blocks, and blocks with a zero, a NaN, an infinity, denormals, ties and extremes.
static void fill_special_blocks(float *x) {
    for (int i = 0; i < 32; i++) x[i] = 0;
    for (int i = 32; i < 64; i++) x[i] = rng_float();
    x[40] = NAN;
    for (int i = 64; i < 96; i++) x[i] = rng_float();
    x[95] = -INFINITY;
    for (int i = 96; i < 128; i++) x[i] = rng_float() * 0x1p-139f;
    for (int i = 128; i < 160; i++) x[i] = (float)(i - 140) + 0.5f;
    x[159] = 127.0f;
    for (int i = 160; i < 192; i++) x[i] = rng_float() * 3.2e38f;
    for (int i = 192; i < 224; i++) x[i] = rng_float() * 0x1p-119f;
    for (int i = 224; i < 256; i++) x[i] = -0.0f;
}

CASE(quantize_equals_the_reference) {
    const struct cpu_ops *ops[ISA_COUNT];
    const int n_ops = tables(ops), n = 4096 + 256;
    float *x = floats(n), want_d[4352 / 32], d[4352 / 32];
    int8_t want_q[4352], q[4352];
    int16_t want_sum[4352 / 16], sum[4352 / 16];
    fill_special_blocks(x);
    quantize_reference(x, n, want_q, want_d, want_sum, 1);
    for (int i = 0; i < n_ops; i++) {
        memset(q, 1, sizeof q);
        ops[i]->quantize(x, n, q, d, sum, 1);
        assert_memory_equal(q, want_q, sizeof q);
        assert_memory_equal(d, want_d, sizeof d);
        assert_memory_equal(sum, want_sum, sizeof sum);
    }
    free(x);
}

// ---------------------------------------------------------------- rows

// Both norms through one signature; bias is read by the layer norm alone.
static void norm_of(const struct cpu_ops *ops, enum norm_kind kind, const float *x, const float *w,
                    const float *bias, float *y, int n, bool add) {
    if (kind == NORM_RMS)
        ops->norm_rms(x, w, y, n, 1e-5f, add);
    else
        ops->norm_layer(x, w, bias, y, n, 1e-5f, add);
}

CASE(norms_equal_the_reference) {
    const struct cpu_ops *ops[ISA_COUNT];
    const int n_ops = tables(ops);
    for (int w = 0; w < N_WIDTHS * 4; w++) {
        const int n = widths[w / 4];
        const enum norm_kind kind = w % 2 ? NORM_RMS : NORM_LAYER;
        const bool add = w % 4 >= 2;
        float *x = floats(n), *weight = floats(n), *bias = floats(n);
        float *before = floats(n + 1), *want = floats(n + 1), *got = floats(n + 1);
        const size_t bytes = (size_t)(n + 1) * 4;
        memcpy(want, before, bytes);
        norm_of(&ops_scalar, kind, x, weight, bias, want, n, add);
        for (int i = 0; i < n_ops; i++) {
            memcpy(got, before, bytes); // the element past the row must stay
            norm_of(ops[i], kind, x, weight, bias, got, n, add);
            assert_memory_equal(got, want, bytes);
            if (add) continue;
            memcpy(got, x, (size_t)n * 4);
            norm_of(ops[i], kind, got, weight, bias, got, n, add);
            assert_memory_equal(got, want, bytes);
        }
        free(x), free(weight), free(bias), free(before), free(want), free(got);
    }
}

CASE(layer_norm_is_the_formula) {
    enum { N = 100 };
    float *x = floats(N), *w = floats(N), *bias = floats(N), *y = floats(N);
    double mean = 0, square = 0;
    for (int i = 0; i < N; i++) x[i] += 3; // a mean that matters
    for (int i = 0; i < N; i++) mean += (double)x[i] / N;
    for (int i = 0; i < N; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean) / N;
    memset(y, 0, N * 4);
    reference_norm_layer(x, w, bias, y, N, 0.01f, true);
    for (int i = 0; i < N; i++) {
        const double v =
            ((double)x[i] - mean) / sqrt(square + 0.01) * (double)w[i] + (double)bias[i];
        assert_true(fabs((double)y[i] - v) < 1e-5);
    }
    free(x), free(w), free(bias), free(y);
}

CASE(norm_has_unit_mean_square) {
    float *x = floats(1000), *one = floats(1000), *y = floats(1000);
    for (int i = 0; i < 1000; i++) one[i] = 1;
    reference_norm_rms(x, one, y, 1000, 0, false);
    double sum = 0;
    for (int i = 0; i < 1000; i++) sum += (double)y[i] * (double)y[i];
    assert_true(fabs(sum / 1000 - 1) < 1e-6);
    free(x), free(one), free(y);
}

CASE(gates_equal_the_reference) {
    const struct cpu_ops *ops[ISA_COUNT];
    const int n_ops = tables(ops);
    for (int w = 0; w < N_WIDTHS * GATE_COUNT; w++) {
        const int n = widths[w / GATE_COUNT], kind = w % GATE_COUNT;
        float *g = floats(n), *u = floats(n), *want = floats(n + 1), *got = floats(n + 1);
        for (int i = 0; i < n; i++) g[i] *= (float)(rng() % 80); // exp overflows and underflows
        for (int i = 0; i < n; i++) u[i] *= (float)(rng() % 10); // passes the clamp
        for (int single = 0; single < 2; single++) {
            const float *up = single ? NULL : u;
            ops_scalar.gate[kind](g, up, want, n);
            for (int i = 0; i < n_ops; i++) {
                got[n] = want[n];
                ops[i]->gate[kind](g, up, got, n);
                assert_memory_equal(got, want, (size_t)(n + 1) * 4);
                memcpy(got, g, (size_t)n * 4);
                ops[i]->gate[kind](got, up, got, n);
                assert_memory_equal(got, want, (size_t)(n + 1) * 4);
            }
        }
        free(g), free(u), free(want), free(got);
    }
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

CASE(gates_are_their_formulas) {
    for (int i = 0; i < 2000; i++) {
        const float g = rng_float() * 12, u = rng_float() * 12;
        const double x = (double)g, up = (double)u;
        const double low = fmin(x, 7), limited = fmax(fmin(up, 7), -7);
        const double want[GATE_COUNT] = {
            [GATE_SILU] = x * sigmoid(x) * up,
            [GATE_GELU] =
                0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x))) * up,
            [GATE_SWIGLU_OAI] = low * sigmoid(1.702 * low) * (limited + 1),
            [GATE_SIGMOID] = sigmoid(x) * up,
            [GATE_RELU2] = fmax(x, 0) * fmax(x, 0) * up,
            [GATE_NONE] = x * up,
        };
        for (int kind = 0; kind < GATE_COUNT; kind++) {
            float y;
            ops_scalar.gate[kind](&g, &u, &y, 1);
            assert_true(fabs((double)y - want[kind]) < 1e-5 * (1 + fabs(want[kind])));
        }
    }
}

// The last one clamps a wide range below 0.
static const struct gate_xielu xielus[] = {
    {GATE_XIELU, 0.8f, 1.3f, 0.5f, -1e-6f},
    {GATE_XIELU, 0.05f, 2.5f, 0.25f, -0.5f},
};

CASE(xielu_equals_the_reference) {
    const struct cpu_ops *ops[ISA_COUNT];
    const int n_ops = tables(ops);
    for (int w = 0; w < N_WIDTHS; w++) {
        const int n = widths[w];
        float *x = floats(n), *want = floats(n + 1), *got = floats(n + 1);
        for (int i = 0; i < n; i++) x[i] *= (float)(rng() % 80);
        if (n > 3) x[0] = -0.0f, x[1] = NAN, x[2] = -1e-7f, x[3] = -INFINITY;
        for (int k = 0; k < 2; k++) {
            ops_scalar.xielu(&xielus[k], x, want, n);
            for (int i = 0; i < n_ops; i++) {
                got[n] = want[n];
                ops[i]->xielu(&xielus[k], x, got, n);
                assert_memory_equal(got, want, (size_t)(n + 1) * 4);
                memcpy(got, x, (size_t)n * 4);
                ops[i]->xielu(&xielus[k], got, got, n);
                assert_memory_equal(got, want, (size_t)(n + 1) * 4);
            }
        }
        free(x), free(want), free(got);
    }
}

CASE(xielu_is_its_formula) {
    for (int i = 0; i < 4000; i++) {
        const struct gate_xielu *gate = &xielus[i % 2];
        const float x = rng_float() * (i % 4 < 2 ? 12 : 1e-3f);
        const double v = (double)x, eps = (double)gate->eps, linear = (double)gate->linear * v;
        const double low = expm1(v < eps ? v : eps) - v;
        const double want = (x > 0 ? (double)gate->above * v * v : (double)gate->below * low);
        float y;
        ops_scalar.xielu(gate, &x, &y, 1);
        assert_true(fabs((double)y - want - linear) < 1e-6 * (fabs(v) + fabs(want)));
    }
}

CASE(combine_equals_the_reference) {
    const struct cpu_ops *ops[ISA_COUNT];
    const int n_ops = tables(ops);
    for (int w = 0; w < N_WIDTHS; w++) {
        const int n = widths[w], k = 1 + w % 9;
        float *x[9], *weight = floats(k), *before = floats(n + 1);
        float *want = floats(n + 1), *got = floats(n + 1);
        for (int j = 0; j < k; j++) x[j] = floats(n);
        memcpy(want, before, (size_t)(n + 1) * 4);
        reference_combine((const float *const *)x, weight, k, want, n);
        for (int i = 0; i < n_ops; i++) {
            memcpy(got, before, (size_t)(n + 1) * 4);
            ops[i]->combine((const float *const *)x, weight, k, got, n);
            assert_memory_equal(got, want, (size_t)(n + 1) * 4);
        }
        for (int i = 0; i < n; i++) {
            double sum = (double)before[i];
            for (int j = 0; j < k; j++) sum += (double)weight[j] * (double)x[j][i];
            assert_true(fabs(sum - (double)want[i]) < 1e-4);
        }
        for (int j = 0; j < k; j++) free(x[j]);
        free(weight), free(before), free(want), free(got);
    }
}

CASE(softcap_equals_the_reference) {
    const struct cpu_ops *ops[ISA_COUNT];
    const int n_ops = tables(ops);
    for (int w = 0; w < N_WIDTHS; w++) {
        const int n = widths[w];
        float *x = floats(n + 1), *want = floats(n + 1), *got = floats(n + 1);
        for (int i = 0; i < n; i++) x[i] *= 40;
        memcpy(want, x, (size_t)(n + 1) * 4);
        reference_softcap(want, 30.0f, n);
        for (int i = 0; i < n; i++)
            assert_true(fabs((double)want[i] - 30 * tanh((double)x[i] / 30)) < 1e-4);
        for (int i = 0; i < n_ops; i++) {
            memcpy(got, x, (size_t)(n + 1) * 4);
            ops[i]->softcap(got, 30.0f, n);
            assert_memory_equal(got, want, (size_t)(n + 1) * 4);
        }
        free(x), free(want), free(got);
    }
}

// ---------------------------------------------------------------- route

CASE(route_takes_the_best_and_of_equals_the_lower) {
    const float logit[] = {1, 3, 2, 3, -INFINITY, 2};
    float id[4], weight[4];
    reference_route(&(struct route_args){.n = 6, .k = 4, .normalize = true}, logit, id, weight);
    const float want[] = {1, 3, 2, 5};
    assert_memory_equal(id, want, sizeof want);
    const double e = exp(-1), sum = 2 + 2 * e;
    assert_true(fabs((double)weight[0] - 1 / sum) < 1e-6);
    assert_true(fabs((double)weight[3] - e / sum) < 1e-6);
    reference_route(&(struct route_args){.n = 6, .k = 2}, logit, id, weight); // of all six
    const double all = 2 + 2 * e + exp(-2);
    assert_true(fabs((double)weight[1] - 1 / all) < 1e-6);
}

CASE(route_chooses_different_experts_whatever_the_logits) {
    for (int round = 0; round < 500; round++) {
        const int n = 1 + (int)(rng() % 40), k = 1 + (int)(rng() % (uint32_t)n);
        float logit[40], bias[40], id[40], weight[40];
        for (int i = 0; i < n; i++) bias[i] = (float)(rng() % 3);
        for (int i = 0; i < n; i++)
            logit[i] = rng() % 4 == 0 ? NAN : rng() % 4 == 0 ? -INFINITY : (float)(rng() % 3);
        const struct route_args args = {.n = n,
                                        .k = k,
                                        .bias = rng() % 2 ? bias : NULL,
                                        .score = rng() % 2 ? ROUTE_SIGMOID : ROUTE_SOFTMAX,
                                        .normalize = rng() % 2};
        reference_route(&args, logit, id, weight);
        for (int j = 0; j < k; j++) {
            assert_true(id[j] >= 0 && id[j] < (float)n && id[j] == floorf(id[j]));
            for (int t = 0; t < j; t++) assert_true(id[t] != id[j]);
        }
    }
}

CASE(rope_equals_the_reference) {
    const struct cpu_ops *ops[ISA_COUNT];
    const int n_ops = tables(ops);
    static const int dims[][2] = {{16, 16},  {32, 32}, {64, 64}, {80, 80}, {96, 96},
                                  {128, 64}, {80, 20}, {66, 66}, {65, 34}, {33, 2}};
    for (int i = 0; i < COUNT(dims); i++) {
        for (int style = ROPE_INTERLEAVED; style <= ROPE_HALVES; style++) {
            const int dim = dims[i][0], n_head = 3;
            float inv_freq[64];
            for (int j = 0; j < dims[i][1] / 2; j++)
                inv_freq[j] = (float)pow(10000, -2.0 * j / dims[i][1]);
            const struct plan_rope rope = {(enum rope_style)style, dims[i][1], inv_freq,
                                           i % 2 ? 1.0f : 1.25f, 0};
            float *x = floats(n_head * dim), *want = floats(n_head * dim);
            float *got = floats(n_head * dim);
            float table[128], want_table[128];
            const int32_t pos = (int32_t)(rng() % 100000);
            memcpy(want, x, (size_t)(n_head * dim) * 4);
            reference_rope_table(&rope, pos, want_table);
            reference_rope(&rope, want_table, n_head, dim, want);
            for (int j = 0; j < n_ops; j++) {
                memcpy(got, x, (size_t)(n_head * dim) * 4);
                ops[j]->rope_table(&rope, pos, table);
                assert_memory_equal(table, want_table, (size_t)rope.n_rot * 4);
                ops[j]->rope(&rope, table, n_head, dim, got);
                assert_memory_equal(got, want, (size_t)(n_head * dim) * 4);
            }
            free(x), free(want), free(got);
        }
    }
}

CASE(rope_rotates_each_pair_by_its_angle) {
    const float inv_freq[2] = {1.0f, 0.1f};
    for (int style = ROPE_INTERLEAVED; style <= ROPE_HALVES; style++) {
        const struct plan_rope rope = {(enum rope_style)style, 4, inv_freq, 1, 0};
        float table[4], x[5] = {1, 2, 3, 4, 5};
        reference_rope_table(&rope, 7, table);
        reference_rope(&rope, table, 1, 5, x);
        const int a = 1, b = style == ROPE_HALVES ? 3 : 1; // the second pair's places
        const int first = style == ROPE_HALVES ? a : 2, second = style == ROPE_HALVES ? b : 3;
        const double x0 = first + 1, x1 = second + 1;
        assert_true(fabs((double)x[first] - (x0 * cos(0.7) - x1 * sin(0.7))) < 1e-5);
        assert_true(fabs((double)x[second] - (x0 * sin(0.7) + x1 * cos(0.7))) < 1e-5);
        assert_true(x[4] == 5.0f); // past n_rot
    }
}

// ---------------------------------------------------------------- KV and attention

// A group of one layer with shuffled pages, filled through kv_append.
struct cache {
    struct attention_args args;
    uint8_t *pages;
    uint32_t *table;
    float *k, *v; // [n_pos, n_head_kv * dim_*], as appended
    int n_pos;
};

static void cache_append(struct cache *c, const struct cpu_ops *ops, uint8_t *pages) {
    const struct attention_args *a = &c->args;
    for (int t = 0; t < c->n_pos; t++) {
        const struct kv_append_args append = {
            .k = c->k + (int64_t)t * a->n_head_kv * a->dim_k,
            .v = c->v + (int64_t)t * a->n_head_kv * a->dim_v,
            .layer = pages + c->table[t / KV_PAGE_TOKENS] * a->page_bytes,
            .slot = t % KV_PAGE_TOKENS,
            .n_head_kv = a->n_head_kv,
            .dim_k = a->dim_k,
            .dim_v = a->dim_v,
            .type = a->type,
        };
        ops->kv_append(&append);
    }
}

static size_t cache_bytes(const struct cache *c) {
    return (size_t)((c->n_pos + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS) * c->args.page_bytes;
}

static void cache_init(struct cache *c, int n_pos, int n_head, int n_head_kv, int dim_k, int dim_v,
                       enum kv_type type) {
    const int n_pages = (n_pos + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
    *c = (struct cache){.n_pos = n_pos};
    c->args = (struct attention_args){.n_head = n_head,
                                      .n_head_kv = n_head_kv,
                                      .dim_k = dim_k,
                                      .dim_v = dim_v,
                                      .type = type,
                                      .scale = 1.0f / sqrtf((float)dim_k)};
    c->args.page_bytes = (uint64_t)n_head_kv * kv_layout_of(type, dim_k, dim_v).bytes;
    c->pages = lines_alloc(cache_bytes(c));
    c->table = malloc((size_t)n_pages * sizeof *c->table);
    assert_non_null(c->table);
    table_shuffle(c->table, n_pages);
    c->k = floats((int64_t)n_pos * n_head_kv * dim_k);
    c->v = floats((int64_t)n_pos * n_head_kv * dim_v);
    memset(c->pages, 0xff, cache_bytes(c)); // NaN wherever nothing was appended
    cache_append(c, &ops_scalar, c->pages);
    c->args.pages = c->pages;
    c->args.page_table = c->table;
}

static void cache_deinit(struct cache *c) {
    free(c->pages), free(c->table), free(c->k), free(c->v);
}

CASE(kv_append_equals_the_reference) {
    const struct cpu_ops *ops[ISA_COUNT];
    const int n_ops = tables(ops);
    static const int dims[][2] = {{16, 16}, {64, 64}, {80, 96}, {65, 33}, {130, 128}};
    for (int i = 0; i < COUNT(dims); i++) {
        for (int type = 0; type < KV_TYPE_COUNT; type++) {
            struct cache c;
            cache_init(&c, 70, 2, 2, dims[i][0], dims[i][1], (enum kv_type)type);
            uint8_t *pages = lines_alloc(cache_bytes(&c));
            for (int j = 0; j < n_ops; j++) {
                memset(pages, 0xff, cache_bytes(&c));
                cache_append(&c, ops[j], pages);
                assert_memory_equal(pages, c.pages, cache_bytes(&c));
            }
            free(pages);
            cache_deinit(&c);
        }
    }
}

// Runs all KV heads of the rows; out is [n_rows, n_head * dim_v].
static void attend(const struct cpu_ops *ops, const struct attention_args *base, float *out) {
    struct attention_args args = *base;
    const int64_t n = (int64_t)args.n_rows * (args.n_head / args.n_head_kv);
    float *scratch = floats(attention_scratch(n, args.dim_k, args.dim_v));
    args.out = out;
    args.ldo = args.n_head * args.dim_v;
    for (args.head_kv = 0; args.head_kv < args.n_head_kv; args.head_kv++) {
        args.head_at = (uint64_t)args.head_kv * args.page_bytes / (uint64_t)args.n_head_kv;
        ops->attention(&args, scratch);
    }
    free(scratch);
}

// The plain definition in double: o = softmax(q k) v over the visible positions.
static void attend_double(const struct cache *c, const float *q, int pos, int head, double *out) {
    const struct attention_args *a = &c->args;
    const int kv = head / (a->n_head / a->n_head_kv);
    double *s = malloc((size_t)(pos + 1) * sizeof *s), top = -INFINITY, total = 0;
    assert_non_null(s);
    int first = 0; // key j is seen from i when i - j < window
    while (a->window > 0 && !a->is_chunked && pos - first >= a->window) first++;
    while (a->is_chunked && first + a->window <= pos) first += a->window;
    for (int t = first; t <= pos; t++) {
        const float *k = c->k + ((int64_t)t * a->n_head_kv + kv) * a->dim_k;
        s[t] = 0;
        for (int d = 0; d < a->dim_k; d++)
            s[t] += (double)q[head * a->dim_k + d] * (double)k[d] * (double)a->scale;
        if (a->softcap > 0) s[t] = (double)a->softcap * tanh(s[t] / (double)a->softcap);
        top = fmax(top, s[t]);
    }
    for (int d = 0; d < a->dim_v; d++) out[d] = 0;
    for (int t = first; t <= pos; t++) {
        const float *v = c->v + ((int64_t)t * a->n_head_kv + kv) * a->dim_v;
        const double p = exp(s[t] - top);
        total += p;
        for (int d = 0; d < a->dim_v; d++) out[d] += p * (double)v[d];
    }
    if (a->sinks) total += exp((double)a->sinks[head] - top);
    for (int d = 0; d < a->dim_v; d++) out[d] /= total;
    free(s);
}

// A negative window: chunks of that many positions.
static void check_accuracy(enum kv_type type, int window, float softcap, double tolerance) {
    struct cache c;
    cache_init(&c, 600, 4, 2, 64, 64, type);
    c.args.window = abs(window);
    c.args.is_chunked = window < 0;
    c.args.softcap = softcap;
    const float sinks[4] = {-3, 0, 2, 30}; // the last outweighs every key
    if (window) c.args.sinks = sinks;
    float *q = floats(4 * 64), *out = floats(4 * 64);
    // scores of some spread; where they are off by more than rounding, of less
    for (int i = 0; i < 4 * 64; i++) q[i] *= type <= KV_F16 ? 4 : 1;
    double want[64];
    static const int32_t contexts[] = {0, 1, 31, 32, 255, 256, 599};
    for (int i = 0; i < COUNT(contexts); i++) {
        struct attention_args args = c.args;
        args.q = q, args.ldq = 4 * 64, args.pos = &contexts[i], args.n_rows = 1;
        attend(&ops_scalar, &args, out);
        for (int head = 0; head < 4; head++) {
            attend_double(&c, q, contexts[i], head, want);
            for (int d = 0; d < 64; d++)
                check(fabs((double)out[head * 64 + d] - want[d]) < tolerance,
                      "%s, position %d: off by %g", kv_type_names[type], contexts[i],
                      (double)out[head * 64 + d] - want[d]);
        }
    }
    free(q), free(out);
    cache_deinit(&c);
}

CASE(attention_is_accurate) {
    rng_state = 2;
    check_accuracy(KV_F32, 0, 0, 1e-5);
    check_accuracy(KV_F32, 100, 0, 1e-5);
    check_accuracy(KV_F32, 0, 5, 1e-5);
    check_accuracy(KV_F16, 0, 0, 1e-2);
    check_accuracy(KV_F16, 300, 5, 1e-2);
    check_accuracy(KV_INT8, 0, 0, 2e-2);
    check_accuracy(KV_INT8, 300, 5, 2e-2);
    check_accuracy(KV_INT4, 0, 0, 0.3);
    check_accuracy(KV_INT4, 300, 5, 0.3);
    check_accuracy(KV_F32, -128, 0, 1e-5);
    check_accuracy(KV_F16, -100, 0, 1e-2);
}

// Keys of some models have elements that are far larger than the others in every token. They shift
// all scores alike, and must not take the precision of the rest.
CASE(a_large_element_of_the_keys_does_not_spoil_the_scores) {
    enum { N = 8, DIM = 64 };
    struct cache c;
    rng_state = 3;
    cache_init(&c, N, 1, 1, DIM, DIM, KV_INT8);
    for (int t = 0; t < N; t++) c.k[t * DIM + 5] += 60;
    cache_append(&c, &ops_scalar, c.pages);
    float *q = floats(DIM), *out = floats(DIM);
    double want[DIM];
    const int32_t pos = N - 1;
    struct attention_args args = c.args;
    args.q = q, args.pos = &pos, args.n_rows = 1;
    attend(&ops_scalar, &args, out);
    attend_double(&c, q, pos, 0, want);
    for (int d = 0; d < DIM; d++)
        check(fabs((double)out[d] - want[d]) < 0.04, "off by %g", (double)out[d] - want[d]);
    free(q), free(out);
    cache_deinit(&c);
}

// A window of one position gives its value unchanged: the decoded codes of each entry.
CASE(values_are_within_a_step_of_what_was_appended) {
    static const int dims[] = {16, 33, 64, 80, 112};
    for (int i = 0; i < 10; i++) {
        const enum kv_type type = i % 2 ? KV_INT8 : KV_INT4;
        const int dim = dims[i / 2], block = type == KV_INT8 ? dim : 32;
        struct cache c;
        cache_init(&c, 40, 1, 1, 16, dim, type);
        float *q = floats(16), *out = floats(dim);
        for (int32_t pos = 0; pos < 40; pos++) {
            struct attention_args args = c.args;
            args.q = q, args.pos = &pos, args.n_rows = 1, args.window = 1;
            attend(&ops_scalar, &args, out);
            const float *v = c.v + pos * dim;
            for (int d = 0; d < dim; d++) {
                float most = 0;
                for (int e = d / block * block; e < dim && e < (d / block + 1) * block; e++)
                    most = fmaxf(most, fabsf(v[e]));
                // int4 has no code 8; f16 scales are off by 2^-11 at most
                const float bound = type == KV_INT8 ? most / 127 * 0.57f : most / 8 * 1.01f;
                check(fabsf(out[d] - v[d]) <= bound, "%s, dim %d, element %d: %g instead of %g",
                      kv_type_names[type], dim, d, (double)out[d], (double)v[d]);
            }
        }
        free(q), free(out);
        cache_deinit(&c);
    }
}

// ---------------------------------------------------------------- embeddings

// Tables of published models have more than 4 GB. The one here is memory that nobody touches, but
// for its last row.
CASE(a_row_behind_4_gb_is_read) {
    enum { COLS = 16384, ROWS = 270000 };
    const size_t bytes = (size_t)ROWS * COLS * 2;
    uint16_t *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) {
        printf("skipped: no %zu bytes of addresses here\n", bytes);
        skip();
    }
    const struct plan_weight weight = {
        .name = "t", .format = FORMAT_F16, .data = table, .rows = ROWS, .cols = COLS};
    uint16_t *last = table + (size_t)(ROWS - 1) * COLS;
    float *y = floats(COLS);
    last[0] = 0x3c00; // 1
    last[COLS - 1] = 0x4000;
    reference_embed(&weight, ROWS - 1, 1, y);
    assert_true(y[0] == 1 && y[1] == 0 && y[COLS - 1] == 2);
    reference_embed_add(&weight, ROWS - 1, 0.5f, y);
    assert_true(y[0] == 1.5f && y[1] == 0 && y[COLS - 1] == 3);
    free(y);
    munmap(table, bytes);
}

// ---------------------------------------------------------------- the table

CASE(an_unknown_isa_is_an_argument_error_that_lists_the_known) {
    const struct cpu_ops *ops;
    rn_error err;
    assert_int_equal(ops_find("sse9", &ops, &err), RN_ERR_ARG);
    assert_non_null(strstr(err.message, "sse9"));
    assert_non_null(strstr(err.message, "scalar, avx2, avxvnni, avx512bw, avx512, amx, neon"));
    assert_int_equal(ops_find("scalar", &ops, &err), RN_OK);
    assert_ptr_equal(ops, &ops_scalar);
    assert_int_equal(ops_find(NULL, &ops, &err), RN_OK);
    for (int isa = ISA_COUNT - 1; isa >= 0; isa--) {
        if (!ops_at((enum cpu_isa)isa)) continue;
        assert_int_equal(ops->isa, isa); // the best one
        break;
    }
}

CASE(an_absent_isa_is_unsupported) {
    static const char *const names[] = {"scalar", "avx2", "avxvnni", "avx512bw",
                                        "avx512", "amx",  "neon"};
    const struct cpu_ops *ops;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const rn_status want = ops_at((enum cpu_isa)isa) ? RN_OK : RN_ERR_UNSUPPORTED;
        assert_int_equal(ops_find(names[isa], &ops, NULL), want);
    }
}

#if defined(__x86_64__)

// As of a system that does not know the request for AMX's tiles, or forbids it.
static bool requests_forbid(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {COUNT(code), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Can fail only on a machine with AMX.
CASE(a_system_that_refuses_tiles_gets_the_next_isa) {
    enum { CANNOT_FORBID = 2 };
    int status;
    const pid_t child = fork();
    if (child == 0) {
        const struct cpu_ops *ops;
        if (!requests_forbid()) _exit(CANNOT_FORBID);
        const bool next = ops_find(NULL, &ops, NULL) == RN_OK && ops->isa != ISA_AMX;
        _exit(next && ops_find("amx", &ops, NULL) == RN_ERR_UNSUPPORTED ? 0 : 1);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) == CANNOT_FORBID) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

#endif

TEST_PROGRAM(ops) { return cases_run(NULL, NULL); }
