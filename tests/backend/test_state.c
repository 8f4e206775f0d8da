// The ops with a state, against their definitions in double precision (docs/HYBRID.md), and in
// pieces against one call, bit for bit. Kernels are compared with the reference in test_parity.c
// too.
#include "backend/cpu/reference.h"
#include "parts.h"

enum { ROWS = 70, DIM = 80, CHANNELS = 90, MAX_TAPS = 8 };

static double softplus(double x) { return log1p(exp(x)); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void fill(float *x, int n, float scale) {
    for (int i = 0; i < n; i++) x[i] = rng_float() * scale;
}

static void check_rows(const float *got, const double *want, int n, const char *name) {
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs(want[i]));
    for (int i = 0; i < n; i++)
        check(fabs((double)got[i] - want[i]) <= 2e-5 * most, "%s: element %d is %g, not %g", name,
              i, (double)got[i], want[i]);
}

// All instruction sets of this machine, the scalar one included.
static int sets(const struct cpu_ops *out[ISA_COUNT]) {
    int n = 0;
    for (int isa = ISA_SCALAR; isa < ISA_COUNT; isa++)
        if (ops_at((enum cpu_isa)isa)) out[n++] = ops_at((enum cpu_isa)isa);
    return n;
}

// ---------------------------------------------------------------- convolution

CASE(a_convolution_sees_the_last_inputs) {
    static float x[ROWS * CHANNELS], w[MAX_TAPS * CHANNELS], bias[CHANNELS], y[ROWS * CHANNELS];
    static float before[MAX_TAPS * CHANNELS], after[MAX_TAPS * CHANNELS];
    static double want[ROWS * CHANNELS];
    const struct cpu_ops *ops[ISA_COUNT];
    const int n_ops = sets(ops);
    for (int round = 0; round < 40; round++) {
        const int n = 1 + (int)(rng() % CHANNELS), taps = 2 + (int)(rng() % (MAX_TAPS - 1));
        const int rows = 1 + (int)(rng() % ROWS), past = taps - 1;
        const bool silu = rng() % 2, has_bias = rng() % 2, has_before = rng() % 2;
        fill(x, rows * n, 1), fill(w, taps * n, 1), fill(bias, n, 1), fill(before, past * n, 1);
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < n; c++) {
                double sum = has_bias ? (double)bias[c] : 0;
                for (int t = 0; t < taps; t++) {
                    const int from = r - past + t;
                    const double in = from >= 0    ? (double)x[from * n + c]
                                      : has_before ? (double)before[(past + from) * n + c]
                                                   : 0;
                    sum += (double)w[t * n + c] * in;
                }
                want[r * n + c] = silu ? sum * sigmoid(sum) : sum;
            }
        }
        for (int i = 0; i < n_ops; i++) {
            struct conv_args args = {.x = x,
                                     .y = y,
                                     .ldx = n,
                                     .ldy = n,
                                     .n_rows = rows,
                                     .n = n,
                                     .taps = taps,
                                     .w = w,
                                     .bias = has_bias ? bias : NULL,
                                     .before = has_before ? before : NULL,
                                     .after = after,
                                     .ld = n,
                                     .silu = silu};
            ops[i]->conv(&args);
            check_rows(y, want, rows * n, "conv");
            for (int t = 0; t < past; t++) {
                const int from = rows - past + t;
                for (int c = 0; c < n; c++)
                    assert_true(after[t * n + c] == (from >= 0    ? x[from * n + c]
                                                     : has_before ? before[(past + from) * n + c]
                                                                  : 0));
            }
        }
    }
}

// Rows of all channels with a gap behind each.
enum { CONV_LD = CHANNELS + 3 };
static float conv_x[ROWS * CONV_LD], conv_w[MAX_TAPS * CONV_LD];

struct conv_result {
    float y[ROWS * CONV_LD], state[MAX_TAPS * CONV_LD];
};

// Rows [first, first + n) of the channels [channel, channel + n_channel), in place in the state.
static void conv_part(const struct cpu_ops *ops, struct conv_result *result, int taps, int first,
                      int n, int channel, int n_channel) {
    if (n == 0 || n_channel == 0) return;
    ops->conv(&(struct conv_args){.x = conv_x + first * CONV_LD + channel,
                                  .y = result->y + first * CONV_LD + channel,
                                  .ldx = CONV_LD,
                                  .ldy = CONV_LD,
                                  .n_rows = n,
                                  .n = n_channel,
                                  .taps = taps,
                                  .w = conv_w + channel,
                                  .before = result->state + channel,
                                  .after = result->state + channel,
                                  .ld = CONV_LD,
                                  .silu = taps % 2});
}

// Cut anywhere, in rows and channels, the bits are those of the scalar set in one call. Floats that
// are not the call's stay.
CASE(a_convolution_has_the_same_bits_however_it_is_cut) {
    static struct conv_result before, want, got;
    const struct cpu_ops *ops[ISA_COUNT];
    const int n_ops = sets(ops);
    fill(before.y, ROWS * CONV_LD, 1);
    for (int round = 0; round < 40; round++) {
        const int n = 1 + rng_below(CHANNELS), rows = 1 + rng_below(ROWS);
        const int cut = rng_below(rows), channel = rng_below(n);
        const int taps = 2 + round % (MAX_TAPS - 1);
        fill(conv_x, ROWS * CONV_LD, 1), fill(conv_w, MAX_TAPS * CONV_LD, 1);
        fill(before.state, MAX_TAPS * CONV_LD, 1);
        want = before;
        conv_part(&ops_scalar, &want, taps, 0, rows, 0, n);
        for (int i = 0; i < n_ops; i++) {
            got = before;
            for (int side = 0; side < 2; side++) { // the channels behind come first
                const int at = side ? 0 : channel, n_channel = side ? channel : n - channel;
                conv_part(ops[i], &got, taps, 0, cut, at, n_channel);
                conv_part(ops[i], &got, taps, cut, rows - cut, at, n_channel);
            }
            assert_memory_equal(&got, &want, sizeof got);
        }
    }
}

// ---------------------------------------------------------------- heads

// Rows of one head, and its state in double.
static float in_q[ROWS * DIM], in_k[ROWS * DIM], in_v[ROWS * DIM], in_a[ROWS], in_b[ROWS];
static float kept[DIM * DIM], first_state[DIM * DIM], out[ROWS * DIM];
static double state64[DIM * DIM], out64[ROWS * DIM];

struct shape {
    int rows, dim_k, dim_v;
    bool has_before;
};

static struct shape begin(void) {
    const struct shape s = {1 + (int)(rng() % ROWS), 1 + (int)(rng() % DIM), 1 + (int)(rng() % DIM),
                            rng() % 2};
    fill(in_q, s.rows * s.dim_k, 1), fill(in_k, s.rows * s.dim_k, 1);
    fill(in_v, s.rows * s.dim_v, 1), fill(in_a, s.rows, 4), fill(in_b, s.rows, 4);
    fill(first_state, s.dim_k * s.dim_v, 1);
    for (int i = 0; i < s.dim_k * s.dim_v; i++)
        state64[i] = s.has_before ? (double)first_state[i] : 0;
    return s;
}

static void unit(const float *x, double *y, int n, double scale) {
    double sum = 1e-6;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    for (int i = 0; i < n; i++) y[i] = (double)x[i] / sqrt(sum) * scale;
}

static void delta64(struct shape s, double decay, double bias) {
    double k[DIM], q[DIM];
    for (int r = 0; r < s.rows; r++) {
        const double keep = exp(decay * softplus((double)in_a[r] + bias));
        const double beta = sigmoid((double)in_b[r]);
        unit(in_k + r * s.dim_k, k, s.dim_k, 1);
        unit(in_q + r * s.dim_k, q, s.dim_k, 1 / sqrt(s.dim_k));
        for (int c = 0; c < s.dim_v; c++) {
            double known = 0, sum = 0;
            for (int i = 0; i < s.dim_k; i++) {
                state64[i * s.dim_v + c] *= keep;
                known += state64[i * s.dim_v + c] * k[i];
            }
            const double d = beta * ((double)in_v[r * s.dim_v + c] - known);
            for (int i = 0; i < s.dim_k; i++) {
                state64[i * s.dim_v + c] += k[i] * d;
                sum += state64[i * s.dim_v + c] * q[i];
            }
            out64[r * s.dim_v + c] = sum;
        }
    }
}

// Rows [first, first + n) of the columns [column, column + n_column).
static void delta_part(const struct cpu_ops *ops, struct shape s, int first, int n, int column,
                       int n_column, const float *before) {
    float scratch[2 * DIM];
    // q, k and v are in arrays of their own, so the rows are gathered
    static float rows[ROWS * 3 * DIM];
    const int ld = 2 * s.dim_k + s.dim_v;
    for (int r = 0; r < n; r++) {
        float *row = rows + r * ld;
        memcpy(row, in_q + (first + r) * s.dim_k, (size_t)s.dim_k * 4);
        memcpy(row + s.dim_k, in_k + (first + r) * s.dim_k, (size_t)s.dim_k * 4);
        memcpy(row + 2 * s.dim_k, in_v + (first + r) * s.dim_v, (size_t)s.dim_v * 4);
    }
    ops->delta(&(struct delta_args){.q = rows,
                                    .k = rows + s.dim_k,
                                    .v = rows + 2 * s.dim_k + column,
                                    .ld = ld,
                                    .a = in_a + first,
                                    .b = in_b + first,
                                    .ld_a = 1,
                                    .ld_b = 1,
                                    .decay = -0.7f,
                                    .bias = 0.3f,
                                    .y = out + first * s.dim_v + column,
                                    .ldy = s.dim_v,
                                    .n_rows = n,
                                    .n = n_column,
                                    .dim_k = s.dim_k,
                                    .before = before ? before + column : NULL,
                                    .after = kept + column,
                                    .lds = s.dim_v,
                                    .eps = 1e-6f,
                                    .scratch = scratch});
}

static void scan_part(const struct cpu_ops *ops, struct shape s, int first, int n, int column,
                      int n_column, const float *before) {
    static float rows[ROWS * 3 * DIM];
    const int ld = 2 * s.dim_k + s.dim_v;
    for (int r = 0; r < n; r++) {
        float *row = rows + r * ld;
        memcpy(row, in_v + (first + r) * s.dim_v, (size_t)s.dim_v * 4);
        memcpy(row + s.dim_v, in_k + (first + r) * s.dim_k, (size_t)s.dim_k * 4);
        memcpy(row + s.dim_v + s.dim_k, in_q + (first + r) * s.dim_k, (size_t)s.dim_k * 4);
    }
    ops->scan(&(struct scan_args){.x = rows + column,
                                  .b = rows + s.dim_v,
                                  .c = rows + s.dim_v + s.dim_k,
                                  .ld = ld,
                                  .dt = in_a + first,
                                  .ld_dt = 1,
                                  .decay = -0.7f,
                                  .bias = 0.3f,
                                  .skip = 1.5f,
                                  .dt_min = 0.1f,
                                  .dt_max = 2.5f,
                                  .y = out + first * s.dim_v + column,
                                  .ldy = s.dim_v,
                                  .n_rows = n,
                                  .n = n_column,
                                  .dim_k = s.dim_k,
                                  .before = before ? before + column : NULL,
                                  .after = kept + column,
                                  .lds = s.dim_v});
}

static void scan64(struct shape s, double decay, double bias) {
    for (int r = 0; r < s.rows; r++) {
        const double dt = fmin(fmax(softplus((double)in_a[r] + bias), 0.1), 2.5);
        const double keep = exp(dt * decay);
        for (int c = 0; c < s.dim_v; c++) {
            const double x = (double)in_v[r * s.dim_v + c];
            double sum = 1.5 * x;
            for (int i = 0; i < s.dim_k; i++) {
                double *h = &state64[i * s.dim_v + c];
                *h = *h * keep + (double)in_k[r * s.dim_k + i] * dt * x;
                sum += *h * (double)in_q[r * s.dim_k + i];
            }
            out64[r * s.dim_v + c] = sum;
        }
    }
}

typedef void part_fn(const struct cpu_ops *ops, struct shape s, int first, int n, int column,
                     int n_column, const float *before);

// Cut anywhere, in rows and columns, the bits are those of the scalar set in one call. Either side
// comes first, so that a side that writes too much is seen.
static void check_pieces(const struct cpu_ops *ops, struct shape s, part_fn *part,
                         const float *want, const float *want_state) {
    const int cut = rng_below(s.rows + 1), column = rng_below(s.dim_v), last = rng_below(2);
    const float *before = s.has_before ? first_state : NULL;
    memset(out, 0xff, sizeof out), memset(kept, 0xff, sizeof kept);
    for (int i = 0; i < 2; i++) {
        const int at = i == last ? column : 0, n = i == last ? s.dim_v - column : column;
        if (n == 0) continue;
        if (cut > 0) part(ops, s, 0, cut, at, n, before);
        if (cut < s.rows) part(ops, s, cut, s.rows - cut, at, n, cut > 0 ? kept : before);
    }
    assert_memory_equal(out, want, (size_t)(s.rows * s.dim_v) * sizeof *out);
    assert_memory_equal(kept, want_state, (size_t)(s.dim_k * s.dim_v) * sizeof *kept);
}

static void check_head(part_fn *part, void (*plain)(struct shape, double, double),
                       const char *name) {
    static float want[ROWS * DIM], want_state[DIM * DIM];
    const struct cpu_ops *ops[ISA_COUNT];
    const int n_ops = sets(ops);
    for (int round = 0; round < 60; round++) {
        const struct shape s = begin();
        plain(s, -(double)0.7f, (double)0.3f);
        part(ops[0], s, 0, s.rows, 0, s.dim_v, s.has_before ? first_state : NULL);
        check_rows(out, out64, s.rows * s.dim_v, name);
        check_rows(kept, state64, s.dim_k * s.dim_v, name);
        memcpy(want, out, sizeof out), memcpy(want_state, kept, sizeof kept);
        for (int i = 0; i < n_ops; i++) check_pieces(ops[i], s, part, want, want_state);
    }
}

CASE(the_delta_rule_is_its_formula_however_it_is_cut) { check_head(delta_part, delta64, "delta"); }

CASE(the_scan_is_its_formula_however_it_is_cut) { check_head(scan_part, scan64, "scan"); }

TEST_PROGRAM(state) { return cases_run(NULL, NULL); }
