// The normal random numbers that PyTorch draws on a CPU (torch.manual_seed, then Tensor.normal_),
// bit for bit: a Mersenne Twister, uniform floats of 24 bits, and Box-Muller in blocks of 16 with
// the approximations of Cephes. Every rounding is part of the result: an fmaf stands where
// PyTorch's compiler fused a product with a sum.
//
// normal_block makes 16 normal numbers of 16 uniform ones. Only draw_weights uses it.
#ifndef RN_TESTS_DATA_TORCH_NORMAL_H
#define RN_TESTS_DATA_TORCH_NORMAL_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { TWISTER_WORDS = 624, TWISTER_STEP = 397, NORMAL_BLOCK = 16, NORMAL_HALF = 8 };

// ---------------------------------------------------------------- uniform numbers

struct twister {
    uint32_t word[TWISTER_WORDS];
    int used;
};

static inline void twister_seed(struct twister *t, uint32_t seed) {
    t->word[0] = seed;
    for (uint32_t i = 1; i < TWISTER_WORDS; i++)
        t->word[i] = 1812433253u * (t->word[i - 1] ^ (t->word[i - 1] >> 30)) + i;
    t->used = TWISTER_WORDS;
}

static inline void twister_turn(struct twister *t) {
    for (int i = 0; i < TWISTER_WORDS; i++) {
        const uint32_t next = t->word[(i + 1) % TWISTER_WORDS];
        const uint32_t mixed = (t->word[i] & 0x80000000u) | (next & 0x7fffffffu);
        t->word[i] = t->word[(i + TWISTER_STEP) % TWISTER_WORDS] ^ (mixed >> 1) ^
                     (mixed & 1 ? 0x9908b0dfu : 0);
    }
    t->used = 0;
}

// In [0, 1), a multiple of 2^-24.
static inline float twister_uniform(struct twister *t) {
    if (t->used == TWISTER_WORDS) twister_turn(t);
    uint32_t y = t->word[t->used++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    y ^= y >> 18;
    return (float)(y & 0xffffff) * 0x1p-24f;
}

// ---------------------------------------------------------------- Cephes

// The logarithm of a normal number x > 0.
static inline float cephes_log(float x) {
    static const float p[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                              -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                              2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
    int exponent;
    x = frexpf(x, &exponent); // in [0.5, 1)
    const int is_low = x < 0.707106781186547524f;
    const float e = (float)(exponent - is_low);
    x = is_low ? x - 1.0f + x : x - 1.0f;
    const float square = x * x;
    float y = p[0];
    for (int i = 1; i < 9; i++) y = fmaf(y, x, p[i]);
    y = fmaf(y * x, square, e * -2.12194440e-4f);
    y = fmaf(-square, 0.5f, y);
    return fmaf(e, 0.693359375f, x + y);
}

// Of an angle x in [0, 2 pi].
static inline void cephes_sincos(float x, float *sine, float *cosine) {
    const int octant = ((int)(x * 1.27323954473516f) + 1) & ~1;
    const float turns = (float)octant; // of pi / 4, subtracted in three parts
    x = fmaf(turns, -0.78515625f, x);
    x = fmaf(turns, -2.4187564849853515625e-4f, x);
    x = fmaf(turns, -3.77489497744594108e-8f, x);
    const float square = x * x;
    float c = fmaf(2.443315711809948e-5f, square, -1.388731625493765e-3f);
    c = fmaf(c, square, 4.166664568298827e-2f) * square;
    c = fmaf(c, square, -(square * 0.5f)) + 1.0f;
    float s = fmaf(-1.9515295891e-4f, square, 8.3321608736e-3f);
    s = fmaf(s, square, -1.6666654611e-1f) * square;
    s = fmaf(s, x, x);
    const int is_swapped = (octant & 2) != 0;
    *sine = (octant & 4 ? -1.0f : 1.0f) * (is_swapped ? c : s);
    *cosine = ((octant - 2) & 4 ? 1.0f : -1.0f) * (is_swapped ? s : c);
}

// ---------------------------------------------------------------- normal numbers

// Each pair of uniform numbers, NORMAL_HALF apart, becomes a pair of normal ones.
static inline void normal_block(const float uniform[NORMAL_BLOCK], float out[NORMAL_BLOCK]) {
    for (int i = 0; i < NORMAL_HALF; i++) {
        float sine, cosine;
        const float radius = sqrtf(-2.0f * cephes_log(1.0f - uniform[i]));
        cephes_sincos(6.2831853071795864769f * uniform[i + NORMAL_HALF], &sine, &cosine);
        out[i] = radius * cosine;
        out[i + NORMAL_HALF] = radius * sine;
    }
}

#endif
