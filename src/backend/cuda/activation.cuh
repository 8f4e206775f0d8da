// The activations between products; docs/NUMERICS.md, "Ops", has their formulas.
#ifndef RN_BACKEND_CUDA_ACTIVATION_CUH
#define RN_BACKEND_CUDA_ACTIVATION_CUH

#include "rmath.cuh"

// kind: enum gate_kind. Not inlined: it is called in few places, and code is fetched at some cost.
// has_up: u multiplies; otherwise the activation alone.
DEV float gate_value(int kind, float g, float u, bool has_up) {
    if (kind == 0) { // silu
        const float v = g / (1.0f + rmath_exp(-g));
        return has_up ? v * u : v;
    }
    if (kind == 1) { // gelu
        const float inner = fmaf(0.044715f * (g * g), g, g), half = 0.5f * g;
        const float v = fmaf(half, rmath_tanh(0.7978845608f * inner), half);
        return has_up ? v * u : v;
    }
    if (kind == 3) { // sigmoid
        const float v = rmath_sigmoid(g);
        return has_up ? v * u : v;
    }
    if (kind == 4) { // the square of the positive part; a NaN stays
        const float a = g < 0.0f ? 0.0f : g, v = a * a;
        return has_up ? v * u : v;
    }
    if (kind == 5) return has_up ? g * u : g;
    const float a = g > 7.0f ? 7.0f : g; // clamped SwiGLU
    const float v = a / (1.0f + rmath_exp(-(1.702f * a)));
    if (!has_up) return v;
    const float b = u > 7.0f ? 7.0f : u < -7.0f ? -7.0f : u;
    return v * (b + 1.0f);
}
DEV_CALL float gate_of(int kind, float g, float u, bool has_up) {
    return gate_value(kind, g, u, has_up);
}

// Apertus: numbers are above, below, linear, eps of struct gate_xielu. A NaN stays.
DEV_CALL float xielu_of(const float *numbers, float x) {
    const float linear = numbers[2] * x, low = x < numbers[3] ? x : numbers[3];
    const float below = fmaf(numbers[1], rmath_expm1(low) - x, linear);
    return x > 0.0f ? fmaf(numbers[0], x * x, linear) : below;
}

#endif
