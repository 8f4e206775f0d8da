// Encoding: for any values the round trip loses no more than the format must lose. The search beats
// plain rounding. NaN, infinities and values out of range are treated as the header says.
//
// Notation: a step is the distance of two levels when they are spread over the span's values, the
// span's range / (levels - 1) with a minimum, the largest magnitude / half the levels without.
#include "check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "quant/format.h"

enum { N = 256 * 24 };

static const enum format_id block_formats[] = {FORMAT_Q8_0, FORMAT_Q4_0, FORMAT_Q4_1, FORMAT_Q5_0,
                                               FORMAT_Q5_1, FORMAT_Q4_K, FORMAT_Q5_K, FORMAT_Q6_K};
enum { BLOCK_FORMATS = sizeof block_formats / sizeof *block_formats };

// A format has levels. Its scales (and minima) may be rounded to scale_steps steps under a common
// f16; 0: they are not.
struct traits {
    int levels, scale_steps;
};

static struct traits traits_of(enum format_id id) {
    static const struct traits traits[FORMAT_COUNT] = {
        [FORMAT_Q8_0] = {255, 0}, [FORMAT_Q4_0] = {16, 0},  [FORMAT_Q4_1] = {16, 0},
        [FORMAT_Q5_0] = {32, 0},  [FORMAT_Q5_1] = {32, 0},  [FORMAT_Q4_K] = {16, 63},
        [FORMAT_Q5_K] = {32, 63}, [FORMAT_Q6_K] = {64, 127}};
    return traits[id];
}

// --- values ---

static float uniform(void) { return (float)rand() / (float)RAND_MAX * 2.0f - 1.0f; }

static float gaussian(void) {
    double u = 0.0;
    while (u == 0.0) u = (double)rand() / RAND_MAX;
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * rand() / RAND_MAX));
}

enum fill {
    FILL_GAUSSIAN,
    FILL_UNIFORM,
    FILL_OUTLIERS, // gaussian, 1 of 64 up to 50 times as large
    FILL_POSITIVE,
    FILL_STEPPED, // blocks of very different sizes, side by side
    FILL_SPARSE,  // mostly zeros
    FILL_TINY,    // scales are denormal as f16, or nothing is left
    FILL_LARGE,   // minima near the top of f16
    FILL_COUNT
};

static const char *const fill_names[FILL_COUNT] = {"gaussian", "uniform", "outliers", "positive",
                                                   "stepped",  "sparse",  "tiny",     "large"};

static float value_of(enum fill fill, int i) {
    switch (fill) {
    case FILL_UNIFORM:
        return uniform() * 0.05f;
    case FILL_OUTLIERS:
        return gaussian() * (rand() % 64 ? 0.02f : 1.0f);
    case FILL_POSITIVE:
        return 1.0f + 0.1f * uniform();
    case FILL_STEPPED:
        return gaussian() * ldexpf(1.0f, i / 32 * 7 % 24 - 12);
    case FILL_SPARSE:
        return rand() % 16 ? 0.0f : uniform();
    case FILL_TINY:
        return uniform() * ldexpf(1.0f, -16 - i / 256);
    case FILL_LARGE:
        return uniform() * 6e4f;
    default:
        return gaussian() * 0.02f;
    }
}

static void values_fill(enum fill fill, float *x) {
    for (int i = 0; i < N; i++) x[i] = value_of(fill, i);
}

// Encodes and decodes n values; fails if a finite value came back as anything else.
static void round_trip(enum format_id id, const float *x, float *y, int n) {
    uint8_t bytes[N * 4];
    memset(bytes, 0xa5, sizeof bytes);
    format_encode(id, x, bytes, n);
    const size_t used = (size_t)format_row_bytes(id, n);
    for (size_t i = used; i < sizeof bytes; i++) assert_int_equal(bytes[i], 0xa5);
    format_decode(id, bytes, y, n);
    for (int i = 0; i < n; i++) {
        check(isfinite(y[i]), "%s: %g became %g", format_at(id)->name, (double)x[i], (double)y[i]);
    }
}

static double rmse(const float *x, const float *y, int n) {
    double sum = 0.0;
    for (int i = 0; i < n; i++)
        sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return sqrt(sum / n);
}

static double rms(const float *x, int n) {
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum / n);
}

// --- plain rounding: the ends of the values on the ends of the levels ---

struct ends {
    float min, max, extreme; // extreme: of the largest magnitude
};

static struct ends ends_of(const float *x, int n) {
    struct ends e = {x[0], x[0], x[0]};
    for (int i = 1; i < n; i++) {
        e.min = x[i] < e.min ? x[i] : e.min;
        e.max = x[i] > e.max ? x[i] : e.max;
        e.extreme = fabsf(x[i]) > fabsf(e.extreme) ? x[i] : e.extreme;
    }
    return e;
}

static float half_of(float x) { return f16_to_f32(f32_to_f16(x)); }

static float clamp_round(float v, float low, float high) {
    const float r = rintf(v);
    return r < low ? low : r > high ? high : r;
}

static void span_round(const float *x, float *y, int n, float scale, float offset, float low,
                       float high) {
    for (int i = 0; i < n; i++) {
        const float q = scale != 0.0f ? clamp_round((x[i] - offset) / scale, low, high) : 0.0f;
        y[i] = scale * q + offset;
    }
}

// Scale and, with offsets, minimum (-offset) of a span. K formats have no minimum below 0.
static void span_plain(const struct format *format, const struct traits *traits, const float *x,
                       float *scale, float *min) {
    const struct ends e = ends_of(x, format->span);
    *min = 0.0f;
    if (!format->has_offset) {
        *scale = traits->levels % 2 ? fabsf(e.extreme) / 127.0f
                                    : e.extreme / (float)(-traits->levels / 2);
        return;
    }
    const float low = traits->scale_steps && e.min > 0.0f ? 0.0f : e.min;
    *min = -low;
    *scale = (e.max - low) / (float)(traits->levels - 1);
}

static void block_plain(enum format_id id, const float *x, float *y) {
    const struct format *format = format_at(id);
    const struct traits traits = traits_of(id);
    const int spans = format->block / format->span;
    float scale[FORMAT_MAX_SPANS], min[FORMAT_MAX_SPANS], scale_top = 0.0f, min_top = 0.0f;
    for (int s = 0; s < spans; s++) {
        span_plain(format, &traits, x + s * format->span, &scale[s], &min[s]);
        if (fabsf(scale[s]) > fabsf(scale_top)) scale_top = scale[s];
        if (min[s] > min_top) min_top = min[s];
    }
    const float steps = (float)traits.scale_steps;
    const float d = half_of(scale_top / steps), dmin = half_of(min_top / steps);
    for (int s = 0; s < spans; s++) {
        if (traits.scale_steps) {
            scale[s] = d != 0.0f ? d * clamp_round(scale[s] / d, -steps, steps) : 0.0f;
            min[s] = dmin > 0.0f ? dmin * clamp_round(min[s] / dmin, 0.0f, steps) : 0.0f;
        } else {
            scale[s] = half_of(scale[s]), min[s] = half_of(min[s]);
        }
        const float low = format->has_offset ? 0.0f : (float)(-(traits.levels / 2));
        span_round(x + s * format->span, y + s * format->span, format->span, scale[s], -min[s], low,
                   low + (float)(traits.levels - 1));
    }
}

// --- bounds ---

// The most that an element of the block may be off. Half a step, and as much again for what the
// search may trade between elements; the rounding of the f16s; in K formats the rounding of scales
// and minima to steps of the block's largest; and where f16 has run out of bits, its last one.
static double block_bound(enum format_id id, const float *block, int span) {
    const struct format *format = format_at(id);
    const struct traits traits = traits_of(id);
    double step = 0.0, step_top = 0.0, min_top = 0.0, size = 0.0;
    for (int s = 0; s < format->block / format->span; s++) {
        float scale, min;
        span_plain(format, &traits, block + s * format->span, &scale, &min);
        const double magnitude = fabs((double)scale);
        step_top = magnitude > step_top ? magnitude : step_top;
        min_top = fabs((double)min) > min_top ? fabs((double)min) : min_top;
        if (s != span) continue;
        step = magnitude;
        size = (double)fabsf(ends_of(block + s * format->span, format->span).extreme);
    }
    const double last = 0x1p-24 * traits.levels;
    const double f16 = size * 0x1p-10 + last;
    if (id == FORMAT_Q8_0) return step / 2 * (1 + 0x1p-10) + 0x1p-25;
    if (!traits.scale_steps) return 1.5 * step + f16;
    return 1.5 * step + step_top * traits.levels / traits.scale_steps +
           min_top / traits.scale_steps + f16;
}

CASE(elements_come_back_within_their_bound) {
    static float x[N], y[N];
    srand(3);
    for (int fill = 0; fill < FILL_COUNT; fill++) {
        values_fill((enum fill)fill, x);
        for (int f = 0; f < BLOCK_FORMATS; f++) {
            const struct format *format = format_at(block_formats[f]);
            round_trip(block_formats[f], x, y, N);
            for (int i = 0; i < N; i++) {
                const float *block = x + i / format->block * format->block;
                const double bound =
                    block_bound(block_formats[f], block, i % format->block / format->span);
                check(fabs((double)x[i] - (double)y[i]) <= bound,
                      "%s %s: element %d, %g became %g, bound %g", format->name, fill_names[fill],
                      i, (double)x[i], (double)y[i], bound);
            }
        }
    }
}

// Relative error of gaussian values: each format's known figure, with little to spare.
CASE(gaussian_error_is_what_the_format_is_known_for) {
    static const double known[FORMAT_COUNT] = {
        [FORMAT_Q8_0] = 0.0056, [FORMAT_Q4_0] = 0.085, [FORMAT_Q4_1] = 0.074,
        [FORMAT_Q5_0] = 0.0425, [FORMAT_Q5_1] = 0.036, [FORMAT_Q4_K] = 0.074,
        [FORMAT_Q5_K] = 0.0365, [FORMAT_Q6_K] = 0.0182};
    static float x[N], y[N];
    srand(4);
    values_fill(FILL_GAUSSIAN, x);
    for (int f = 0; f < BLOCK_FORMATS; f++) {
        round_trip(block_formats[f], x, y, N);
        const double relative = rmse(x, y, N) / rms(x, N);
        check(relative <= known[block_formats[f]], "%s: %g", format_at(block_formats[f])->name,
              relative);
    }
}

CASE(search_is_no_worse_than_plain_rounding) {
    static float x[N], y[N], plain[N];
    srand(5);
    for (int fill = FILL_GAUSSIAN; fill <= FILL_POSITIVE; fill++) {
        values_fill((enum fill)fill, x);
        for (int f = 0; f < BLOCK_FORMATS; f++) {
            const enum format_id id = block_formats[f];
            const int block = format_at(id)->block;
            round_trip(id, x, y, N);
            for (int i = 0; i < N; i += block) block_plain(id, x + i, plain + i);
            const double error = rmse(x, y, N), naive = rmse(x, plain, N);
            // Q8_0 is plain rounding; here its levels are chosen by a product, not a quotient.
            const double allowed = id == FORMAT_Q8_0 ? naive * 1.001 : naive;
            check(error <= allowed, "%s %s: %g, plain rounding %g", format_at(id)->name,
                  fill_names[fill], error, naive);
        }
    }
}

// Of a size whose scales are no denormals as f16.
CASE(zeros_stay_zeros_and_constants_stay_constant) {
    static const float values[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.3f, -7.77f, 1234.5f, -3e4f};
    float x[256], y[256];
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        for (int i = 0; i < 256; i++) x[i] = values[v];
        for (int f = 0; f < BLOCK_FORMATS; f++) {
            round_trip(block_formats[f], x, y, 256);
            for (int i = 0; i < 256; i++) {
                const double error = fabs((double)x[i] - (double)y[i]);
                check(error <= fabs((double)x[i]) * 0x1p-10, "%s: %g became %g",
                      format_at(block_formats[f])->name, (double)x[i], (double)y[i]);
            }
        }
    }
}

// --- the ends of the float range ---

// Values that no scale of 16 bits reaches: the result is finite (round_trip), of the same sign, and
// the format's largest value, or near it.
CASE(values_out_of_range_saturate) {
    static const float huge[] = {1e9f, 1e30f, FLT_MAX, INFINITY};
    static const double most[FORMAT_COUNT] = {
        [FORMAT_Q8_0] = 65504.0 * 127,     [FORMAT_Q4_0] = 65504.0 * 8,
        [FORMAT_Q4_1] = 65504.0 * 15,      [FORMAT_Q5_0] = 65504.0 * 16,
        [FORMAT_Q5_1] = 65504.0 * 31,      [FORMAT_Q4_K] = 65504.0 * 15 * 63,
        [FORMAT_Q5_K] = 65504.0 * 31 * 63, [FORMAT_Q6_K] = 65504.0 * 32 * 127};
    float x[256], y[256];
    for (size_t h = 0; h < sizeof huge / sizeof *huge; h++) {
        for (int f = 0; f < BLOCK_FORMATS; f++) {
            for (int i = 0; i < 256; i++) x[i] = 0.5f;
            x[77] = huge[h];
            round_trip(block_formats[f], x, y, 256);
            check((double)y[77] >= 0.99 * most[block_formats[f]], "%s: %g became %g",
                  format_at(block_formats[f])->name, (double)x[77], (double)y[77]);
            x[77] = -huge[h];
            round_trip(block_formats[f], x, y, 256);
            check(y[77] <= -65504.0f, "%s: %g became %g", format_at(block_formats[f])->name,
                  (double)x[77], (double)y[77]);
        }
    }
}

// From the smallest denormal up: no element is off by more than itself and the last bit of f16.
CASE(denormals_and_tiny_values_lose_no_more_than_themselves) {
    float x[256], y[256];
    srand(6);
    for (int exponent = -149; exponent < -10; exponent += test_scale(3, 1, 1)) {
        for (int i = 0; i < 256; i++) x[i] = uniform() * ldexpf(1.0f, exponent);
        for (int f = 0; f < BLOCK_FORMATS; f++) {
            round_trip(block_formats[f], x, y, 256);
            for (int i = 0; i < 256; i++) {
                check(fabs((double)x[i] - (double)y[i]) <= ldexp(0.2, exponent) + 0x1p-24,
                      "%s: %g became %g", format_at(block_formats[f])->name, (double)x[i],
                      (double)y[i]);
            }
        }
    }
}

CASE(blocks_take_nan_for_zero_and_infinity_for_the_largest) {
    static float x[N], same[N];
    static uint8_t a[N * 4], b[N * 4];
    srand(8);
    for (int i = 0; i < N; i++) {
        x[i] = same[i] = gaussian();
        if (rand() % 100 == 0) x[i] = rand() % 2 ? NAN : -NAN, same[i] = 0.0f;
        if (rand() % 900 == 0) x[i] = INFINITY, same[i] = FLT_MAX;
        if (rand() % 900 == 0) x[i] = -INFINITY, same[i] = -FLT_MAX;
    }
    for (int f = 0; f < BLOCK_FORMATS; f++) {
        format_encode(block_formats[f], x, a, N);
        format_encode(block_formats[f], same, b, N);
        assert_memory_equal(a, b, (size_t)format_row_bytes(block_formats[f], N));
    }
}

// Any bits at all, as floats: nothing but finite values comes back, and no sanitizer complains.
CASE(any_bits_encode_to_finite_values) {
    static float x[N], y[N];
    static uint8_t bytes[N * 4];
    srand(9);
    for (int round = 0; round < test_scale(5, 20, 20); round++) {
        for (int i = 0; i < N; i++) {
            x[i] = f32_from_bits((uint32_t)rand() << 16 ^ (uint32_t)rand());
        }
        for (int f = 0; f < BLOCK_FORMATS; f++) {
            format_encode(block_formats[f], x, bytes, N);
            format_decode(block_formats[f], bytes, y, N);
            for (int i = 0; i < N; i++) assert_true(isfinite(y[i]));
        }
    }
}

// --- float formats and the table ---

CASE(float_formats_round_to_nearest_and_keep_finite_values_finite) {
    static const float x[] = {1.0f,    -0.0f,    0.1f,     65504.0f, 65519.9f, 65520.0f, -1e30f,
                              FLT_MAX, -FLT_MAX, 0x1p-24f, 0x1p-26f, 1e-45f,   INFINITY, -INFINITY};
    static const float f16[] = {1.0f,     -0.0f,     0x1.998p-4f, 65504.0f,  65504.0f,
                                65504.0f, -65504.0f, 65504.0f,    -65504.0f, 0x1p-24f,
                                0.0f,     0.0f,      INFINITY,    -INFINITY};
    static const float bf16_max = 0x1.fep127f;
    enum { COUNT = sizeof x / sizeof *x };
    uint8_t bytes[4 * COUNT];
    float y[COUNT];
    format_encode(FORMAT_F32, x, bytes, COUNT);
    assert_memory_equal(bytes, x, sizeof x);
    format_encode(FORMAT_F16, x, bytes, COUNT);
    format_decode(FORMAT_F16, bytes, y, COUNT);
    assert_memory_equal(y, f16, sizeof y);
    format_encode(FORMAT_BF16, x, bytes, COUNT);
    format_decode(FORMAT_BF16, bytes, y, COUNT);
    for (int i = 0; i < COUNT; i++) {
        const double bound = fabs((double)x[i]) * 0x1p-8 + 0x1p-134;
        const bool huge = fabsf(x[i]) > bf16_max;
        if (isfinite(x[i]) && !huge) assert_true(fabs((double)x[i] - (double)y[i]) <= bound);
        if (isfinite(x[i]) && huge) assert_true(y[i] == copysignf(bf16_max, x[i]));
        if (isinf(x[i])) assert_true(y[i] == x[i]);
    }
    const float nan = NAN;
    format_encode(FORMAT_F16, &nan, bytes, 1);
    format_decode(FORMAT_F16, bytes, y, 1);
    assert_true(isnan(y[0]));
    format_encode(FORMAT_BF16, &nan, bytes, 1);
    format_decode(FORMAT_BF16, bytes, y, 1);
    assert_true(isnan(y[0]));
}

CASE(the_table_says_what_can_be_encoded) {
    int count = 0;
    for (int id = 0; id < FORMAT_COUNT; id++) count += format_can_encode((enum format_id)id);
    assert_int_equal(count, BLOCK_FORMATS + 3);
    for (int f = 0; f < BLOCK_FORMATS; f++) assert_true(format_can_encode(block_formats[f]));
    assert_true(format_can_encode(FORMAT_F32) && format_can_encode(FORMAT_F16) &&
                format_can_encode(FORMAT_BF16));
    assert_false(format_can_encode(FORMAT_MXFP4));
}

TEST_PROGRAM(encode) { return cases_run(NULL, NULL); }
