// The ops with a state over vectors, see reference_state.c. Included by ops_simd.h.
//
// A lane is a channel or a column, which never meets another one. Columns go in blocks of
// STATE_VECS vectors: each block has its own chain of additions, and shares the loads of k, q, B
// and C with the others.
#include "backend/cpu/state.h"

enum { STATE_VECS = 4 };

// ---------------------------------------------------------------- convolution

INLINE v16 conv_load(const struct conv_args *args, int row, int64_t at, int m) {
    if (row >= 0) return row_load(args->x + row * args->ldx + at, m);
    if (!args->before) return v_set(0);
    return row_load(args->before + (args->taps - 1 + row) * args->ld + at, m);
}

static void simd_conv(const struct conv_args *args) {
    const int past = args->taps - 1;
    FOR_ROW(args->n, {
        for (int r = 0; r < args->n_rows; r++) {
            v16 sum = args->bias ? row_load(args->bias + i, m) : v_set(0);
            for (int t = 0; t < args->taps; t++)
                sum = v_fma(row_load(args->w + t * args->ld + i, m),
                            conv_load(args, r - past + t, i, m), sum);
            if (args->silu) sum = v_div(sum, v_add(v_set(1.0f), v_exp(v_negate(sum))));
            row_store(args->y + r * args->ldy + i, sum, m, false);
        }
        for (int t = 0; t < past; t++)
            row_store(args->after + t * args->ld + i,
                      conv_load(args, args->n_rows - past + t, i, m), m, false);
    });
}

// ---------------------------------------------------------------- columns of a head

// Runs body for blocks of columns: i is where, n_vec vectors, of which the last one has m columns.
#define FOR_COLUMNS(n, body)                                                                       \
    do {                                                                                           \
        int64_t i = 0;                                                                             \
        for (; i + 16 * STATE_VECS <= (n); i += 16 * STATE_VECS) {                                 \
            enum { n_vec = STATE_VECS };                                                           \
            const int m = 16;                                                                      \
            body                                                                                   \
        }                                                                                          \
        for (; i + 16 <= (n); i += 16) {                                                           \
            enum { n_vec = 1 };                                                                    \
            const int m = 16;                                                                      \
            body                                                                                   \
        }                                                                                          \
        if (i < (n)) {                                                                             \
            enum { n_vec = 1 };                                                                    \
            const int m = (int)((n)-i);                                                            \
            body                                                                                   \
        }                                                                                          \
    } while (0)

INLINE v16 state_load(const void *from, int64_t at, int m, bool is_bf16) {
    if (!from) return v_set(0);
    if (!is_bf16) return row_load((const float *)from + at, m);
    const uint16_t *x = (const uint16_t *)from + at;
    if (m == 16) return v_load_bf16(x);
    uint16_t whole[16] = {0};
    for (int i = 0; i < m; i++) whole[i] = x[i];
    return v_load_bf16(whole);
}

INLINE void state_store(void *to, int64_t at, v16 v, int m, bool is_bf16) {
    if (!is_bf16) {
        row_store((float *)to + at, v, m, false);
        return;
    }
    uint16_t *x = (uint16_t *)to + at, whole[16];
    if (m == 16) {
        v_store_bf16(x, v);
        return;
    }
    v_store_bf16(whole, v);
    for (int i = 0; i < m; i++) x[i] = whole[i];
}

// y = x / its length * scale.
INLINE void unit_length(const float *x, float *y, int n, float eps, float scale) {
    v16 lane = v_set(0);
    FOR_ROW(n, lane = sum_squares(row_load(x + i, m), lane););
    const v16 by = v_set(1.0f / sqrtf(v_fold_add(lane) + eps) * scale);
    FOR_ROW(n, row_store(y + i, v_mul(row_load(x + i, m), by), m, false););
}

INLINE void delta_columns(const struct delta_args *args, int row, struct delta_gates g, int64_t at,
                          int n_vec, int m, bool is_bf16) {
    const void *from = row ? args->after : args->before;
    const float *k = args->scratch, *q = k + args->dim_k;
    const v16 decay = v_set(g.decay);
    v16 known[STATE_VECS], out[STATE_VECS], delta[STATE_VECS];
    for (int j = 0; j < n_vec; j++) known[j] = out[j] = v_set(0);
    for (int i = 0; i < args->dim_k; i++) {
        const v16 key = v_set(k[i]);
        for (int j = 0; j < n_vec; j++) {
            const v16 s = state_load(from, i * args->lds + at + 16 * j, m, is_bf16);
            known[j] = v_fma(v_mul(s, decay), key, known[j]);
        }
    }
    for (int j = 0; j < n_vec; j++)
        delta[j] = v_mul(v_set(g.beta),
                         v_sub(row_load(args->v + row * args->ld + at + 16 * j, m), known[j]));
    for (int i = 0; i < args->dim_k; i++) {
        const v16 key = v_set(k[i]), query = v_set(q[i]);
        for (int j = 0; j < n_vec; j++) {
            const int64_t place = i * args->lds + at + 16 * j;
            const v16 s = v_fma(key, delta[j], v_mul(state_load(from, place, m, is_bf16), decay));
            state_store(args->after, place, s, m, is_bf16);
            out[j] = v_fma(s, query, out[j]);
        }
    }
    for (int j = 0; j < n_vec; j++)
        row_store(args->y + row * args->ldy + at + 16 * j, out[j], m, false);
}

static void simd_delta(const struct delta_args *args) {
    const int dim = args->dim_k;
    const float scale = 1.0f / sqrtf((float)dim);
    for (int r = 0; r < args->n_rows; r++) {
        const struct delta_gates g = delta_gates_of(args, r);
        unit_length(args->k + r * args->ld, args->scratch, dim, args->eps, 1.0f);
        unit_length(args->q + r * args->ld, args->scratch + dim, dim, args->eps, scale);
        if (args->is_bf16)
            FOR_COLUMNS(args->n, delta_columns(args, r, g, i, n_vec, m, true););
        else
            FOR_COLUMNS(args->n, delta_columns(args, r, g, i, n_vec, m, false););
    }
}

INLINE void scan_columns(const struct scan_args *args, int row, struct scan_gates g, int64_t at,
                         int n_vec, int m, bool is_bf16) {
    const void *from = row ? args->after : args->before;
    const float *b = args->b + row * args->ld, *c = args->c + row * args->ld;
    const v16 decay = v_set(g.decay);
    v16 x[STATE_VECS], input[STATE_VECS], out[STATE_VECS];
    for (int j = 0; j < n_vec; j++) {
        x[j] = row_load(args->x + row * args->ld + at + 16 * j, m);
        input[j] = v_mul(v_set(g.dt), x[j]);
        out[j] = v_set(0);
    }
    for (int i = 0; i < args->dim_k; i++) {
        const v16 gain = v_set(b[i]), read = v_set(c[i]);
        for (int j = 0; j < n_vec; j++) {
            const int64_t place = i * args->lds + at + 16 * j;
            const v16 s = v_fma(gain, input[j], v_mul(state_load(from, place, m, is_bf16), decay));
            state_store(args->after, place, s, m, is_bf16);
            out[j] = v_fma(s, read, out[j]);
        }
    }
    for (int j = 0; j < n_vec; j++)
        row_store(args->y + row * args->ldy + at + 16 * j, v_fma(v_set(args->skip), x[j], out[j]),
                  m, false);
}

static void simd_scan(const struct scan_args *args) {
    for (int r = 0; r < args->n_rows; r++) {
        const struct scan_gates g = scan_gates_of(args, r);
        if (args->is_bf16)
            FOR_COLUMNS(args->n, scan_columns(args, r, g, i, n_vec, m, true););
        else
            FOR_COLUMNS(args->n, scan_columns(args, r, g, i, n_vec, m, false););
    }
}
