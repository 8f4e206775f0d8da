// The format table, expanded from formats.def, and functions for every format: sizes, lookup by
// GGUF number, decoding and encoding of a row. Called by the weight readers, the planner, the
// reference ops and the quantizer.
#include "quant/format.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

#include "base/fma.h"
#include "quant/floats.h"
#include "quant/iq4_nl.h"
#include "quant/iq4_xs.h"
#include "quant/mxfp4.h"
#include "quant/q2_k.h"
#include "quant/q3_k.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_0.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"

static const struct format formats[FORMAT_COUNT] = {
#define FORMAT(id, text, gguf, elements, bytes, per_scale, offsets, decode, split, join)           \
    [FORMAT_##id] = {                                                                              \
        .name = text,                                                                              \
        .gguf_type = gguf,                                                                         \
        .block = elements,                                                                         \
        .block_bytes = bytes,                                                                      \
        .span = per_scale,                                                                         \
        .has_offset = offsets,                                                                     \
        .to_f32 = decode,                                                                          \
        .unpack = split,                                                                           \
        .encode = join,                                                                            \
    },
#include "quant/formats.def"
#undef FORMAT
};

#define FORMAT(id, text, gguf, elements, bytes, per_scale, ...)                                    \
    _Static_assert((elements) <= FORMAT_MAX_BLOCK, text ": the block fits the buffers");           \
    _Static_assert((per_scale) == 0 || (per_scale) == 16 || (per_scale) == 32, text ": span");     \
    _Static_assert((per_scale) == 0 || (elements) <= FORMAT_MAX_SPANS * (per_scale),               \
                   text ": the spans fit the buffers");
#include "quant/formats.def"
#undef FORMAT

// Every number that the GGUF format has given out, so that a message can name a refused format and
// say what to do: mostly to take the nearest of our formats.
#define TAKE(name) "requantize the model to " name ", or take a file of it in " name
static const struct {
    const char *name, *advice;
} gguf_formats[] = {
    [0] = {"F32"},
    [1] = {"F16"},
    [2] = {"Q4_0"},
    [3] = {"Q4_1"},
    [4] = {NULL, "Ollama wrote gpt-oss so at first; 'ollama pull' brings it in MXFP4"},
    [6] = {"Q5_0"},
    [7] = {"Q5_1"},
    [8] = {"Q8_0"},
    [9] = {"Q8_1", TAKE("Q8_0")},
    [10] = {"Q2_K"},
    [11] = {"Q3_K"},
    [12] = {"Q4_K"},
    [13] = {"Q5_K"},
    [14] = {"Q6_K"},
    [15] = {"Q8_K", TAKE("Q8_0")},
    [16] = {"IQ2_XXS", TAKE("Q2_K")},
    [17] = {"IQ2_XS", TAKE("Q2_K")},
    [18] = {"IQ3_XXS", TAKE("Q3_K")},
    [19] = {"IQ1_S", TAKE("Q2_K")},
    [20] = {"IQ4_NL"},
    [21] = {"IQ3_S", TAKE("Q3_K")},
    [22] = {"IQ2_S", TAKE("Q2_K")},
    [23] = {"IQ4_XS"},
    [24] = {"I8"},
    [25] = {"I16"},
    [26] = {"I32"},
    [27] = {"I64"},
    [28] = {"F64", TAKE("F32")},
    [29] = {"IQ1_M", TAKE("Q2_K")},
    [30] = {"BF16"},
    [31] = {"Q4_0_4_4", TAKE("Q4_0")},
    [32] = {"Q4_0_4_8", TAKE("Q4_0")},
    [33] = {"Q4_0_8_8", TAKE("Q4_0")},
    [34] = {"TQ1_0", TAKE("Q2_K")},
    [35] = {"TQ2_0", TAKE("Q2_K")},
    [36] = {"IQ4_NL_4_4", TAKE("IQ4_NL")},
    [37] = {"IQ4_NL_4_8", TAKE("IQ4_NL")},
    [38] = {"IQ4_NL_8_8", TAKE("IQ4_NL")},
    [39] = {"MXFP4"},
    [40] = {"NVFP4", TAKE("Q4_K")},
    [41] = {"Q1_0", TAKE("Q2_K")},
    [42] = {"Q2_0", TAKE("Q2_K")},
};
#undef TAKE
enum { N_GGUF_FORMATS = sizeof gguf_formats / sizeof *gguf_formats };

const struct format *format_at(enum format_id id) {
    assert((unsigned)id < FORMAT_COUNT);
    return &formats[id];
}

int format_find_gguf(uint32_t gguf_type) {
    for (int id = 0; id < FORMAT_COUNT; id++) {
        if (formats[id].gguf_type == gguf_type) return id;
    }
    return -1;
}

const char *format_gguf_name(uint32_t gguf_type) {
    const bool is_known = gguf_type < N_GGUF_FORMATS && gguf_formats[gguf_type].name;
    return is_known ? gguf_formats[gguf_type].name : "?";
}

const char *format_gguf_advice(uint32_t gguf_type) {
    const bool has_one = gguf_type < N_GGUF_FORMATS && gguf_formats[gguf_type].advice;
    return has_one ? gguf_formats[gguf_type].advice : NULL;
}

uint64_t format_row_bytes(enum format_id id, int64_t n) {
    const struct format *format = format_at(id);
    assert(n >= 0 && n % format->block == 0);
    return (uint64_t)(n / format->block) * (uint64_t)format->block_bytes;
}

static inline __attribute__((always_inline)) void
blocks_to_f32(const struct format *format, const uint8_t *block, float *out, int64_t n) {
    int8_t q[FORMAT_MAX_BLOCK];
    float scale[FORMAT_MAX_SPANS], offset[FORMAT_MAX_SPANS];
    for (const float *end = out + n; out < end; block += format->block_bytes) {
        format->unpack(block, q, scale, offset);
        const int8_t *from = q;
        for (int span = 0; from < q + format->block; span++) {
            const float s = scale[span], o = format->has_offset ? offset[span] : 0;
            if (format->has_offset) {
                for (int i = 0; i < format->span; i++) *out++ = fmaf(s, (float)*from++, o);
            } else {
                for (int i = 0; i < format->span; i++) *out++ = s * (float)*from++;
            }
        }
    }
}

static void blocks_decode(const struct format *format, const uint8_t *block, float *out,
                          int64_t n) {
    blocks_to_f32(format, block, out, n);
}

FMA_TARGET static void blocks_decode_fma(const struct format *format, const uint8_t *block,
                                         float *out, int64_t n) {
    blocks_to_f32(format, block, out, n);
}

void format_decode(enum format_id id, const void *row, float *out, int64_t n) {
    const struct format *format = format_at(id);
    assert(n >= 0 && n % format->block == 0);
    if (format->to_f32) {
        format->to_f32(row, out, n);
        return;
    }
    (has_fma() ? blocks_decode_fma : blocks_decode)(format, row, out, n);
}

bool format_can_encode(enum format_id id) { return format_at(id)->encode != NULL; }

void format_encode(enum format_id id, const float *row, void *out, int64_t n) {
    const struct format *format = format_at(id);
    assert(format->encode && n >= 0 && n % format->block == 0);
    char *block = out;
    for (int64_t i = 0; i < n; i += format->block, block += format->block_bytes) {
        format->encode(row + i, block);
    }
}
