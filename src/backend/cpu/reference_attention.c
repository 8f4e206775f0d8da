// The definition of KV append and attention, for every KV type; see reference.h. The numbers of a
// page are read in place, one at a time.
//
// Coded types (int8, int4) store k = code * scale: an entry's codes and scales depend on its own
// token alone. Keys are rotated before they are coded, and queries as well, so that one large
// element does not take the precision of the others. The scores stay the same.
#include <math.h>
#include <string.h>

#include "backend/cpu/reference.h"
#include "base/half.h"
#include "base/rmath.h"

// ---------------------------------------------------------------- codes

// The Hadamard transform of each run of n elements (kv_rotation_of), in place or not. Twice in a
// row multiplies by n: keys get it with factor 1, queries with 1 / n.
static void rotate(const float *x, float *y, int dim, int n, float factor) {
    for (int d = 0; d < dim; d++) y[d] = x[d] * factor;
    for (int h = 1; h < n; h *= 2) {
        for (int i = 0; i < dim; i++) {
            if (i & h) continue;
            const float a = y[i], b = y[i + h];
            y[i] = a + b;
            y[i + h] = a - b;
        }
    }
}

static uint16_t scale_of(const float *x, int n, enum kv_type type) {
    float top = 0, low = 0;
    bool is_finite = true;
    for (int i = 0; i < n; i++) {
        top = x[i] > top ? x[i] : top;
        low = -x[i] > low ? -x[i] : low;
        is_finite = is_finite && isfinite(x[i]);
    }
    return kv_scale(top, low, is_finite, type);
}

static int code_of(float x, uint16_t scale, enum kv_type type) {
    const int lo = type == KV_INT8 ? -127 : -8, hi = type == KV_INT8 ? 127 : 7;
    const float step = f16_to_f32(scale);
    if (scale == KV_SCALE_NAN || step == 0.0f) return 0;
    const float code = rintf(x * (1.0f / step));
    return code < (float)lo ? lo : code > (float)hi ? hi : (int)code;
}

// A code's byte and, for int4, its half; each kind of array says which.
static void code_put(uint8_t *at, bool high, int code, enum kv_type type) {
    if (type == KV_INT8)
        *at = (uint8_t)code;
    else
        *at = (uint8_t)(high ? (*at & 0x0f) | (code + 8) << 4 : (*at & 0xf0) | (code + 8));
}

static int code_get(const uint8_t *at, bool high, enum kv_type type) {
    if (type == KV_INT8) return (int8_t)*at;
    return (high ? *at >> 4 : *at & 0x0f) - 8;
}

static int64_t key_at(int d, int slot, enum kv_type type) {
    const int group = d / (type == KV_INT4 ? 8 : 4);
    return ((int64_t)group * KV_PAGE_TOKENS + slot) * 4 + d % 4;
}

static int64_t value_at(const struct kv_layout *layout, int d, int slot, enum kv_type type) {
    const int in_row = type == KV_INT4 ? d / KV_BLOCK * (KV_BLOCK / 2) + d % (KV_BLOCK / 2) : d;
    return (int64_t)slot * layout->row_v + in_row;
}

static bool key_is_high(int d) { return d % 8 >= 4; }
static bool value_is_high(int d) { return d % KV_BLOCK >= KV_BLOCK / 2; }

static float scale_get(const uint8_t *scales, int block, int slot) {
    uint16_t scale;
    memcpy(&scale, scales + (block * KV_PAGE_TOKENS + slot) * 2, 2);
    return f16_to_f32(scale);
}

static void scale_put(uint8_t *scales, int block, int slot, uint16_t scale) {
    memcpy(scales + (block * KV_PAGE_TOKENS + slot) * 2, &scale, 2);
}

// Elements that pad the last group or row have code 0.
static void codes_append(const struct kv_append_args *args, const struct kv_layout *layout,
                         const float *k, const float *v, uint8_t *head) {
    float x[KV_DIM_MAX];
    const enum kv_type type = args->type;
    const int padded_k = type == KV_INT4 ? (args->dim_k + 7) / 8 * 8 : (args->dim_k + 3) / 4 * 4;
    const int padded_v = (int)layout->row_v * (type == KV_INT4 ? 2 : 1); // latent: 0
    const int n_turn = kv_rotation_of(args->dim_k, args->dim_v, args->is_latent);
    uint16_t scale = 0;
    rotate(k, x, args->dim_k, n_turn, 1.0f);
    for (int d = 0; d < padded_k; d++) {
        const int n = args->dim_k - d < layout->block_k ? args->dim_k - d : layout->block_k;
        if (d < args->dim_k && d % layout->block_k == 0) {
            scale = scale_of(x + d, n, type);
            scale_put(head + layout->scale_k, d / layout->block_k, args->slot, scale);
        }
        code_put(head + key_at(d, args->slot, type), key_is_high(d),
                 d < args->dim_k ? code_of(x[d], scale, type) : 0, type);
    }
    for (int d = 0; d < padded_v; d++) {
        const int n = args->dim_v - d < layout->block_v ? args->dim_v - d : layout->block_v;
        if (d < args->dim_v && d % layout->block_v == 0) {
            scale = scale_of(v + d, n, type);
            scale_put(head + layout->scale_v, d / layout->block_v, args->slot, scale);
        }
        code_put(head + layout->v + value_at(layout, d, args->slot, type), value_is_high(d),
                 d < args->dim_v ? code_of(v[d], scale, type) : 0, type);
    }
}

// ---------------------------------------------------------------- numbers

static void number_put(uint8_t *at, int64_t index, float value, enum kv_type type) {
    if (type == KV_F32) {
        memcpy(at + index * 4, &value, 4);
    } else {
        const uint16_t half = f32_to_f16(value);
        memcpy(at + index * 2, &half, 2);
    }
}

static float number_get(const uint8_t *at, int64_t index, enum kv_type type) {
    if (type == KV_F32) {
        float value;
        memcpy(&value, at + index * 4, 4);
        return value;
    }
    uint16_t half;
    memcpy(&half, at + index * 2, 2);
    return f16_to_f32(half);
}

static void numbers_append(const struct kv_append_args *args, const struct kv_layout *layout,
                           const float *k, const float *v, uint8_t *head) {
    for (int d = 0; d < args->dim_k; d++)
        number_put(head, d * KV_PAGE_TOKENS + args->slot, k[d], args->type);
    for (int d = 0; !args->is_latent && d < args->dim_v; d++)
        number_put(head + layout->v, args->slot * args->dim_v + d, v[d], args->type);
}

void reference_kv_append(const struct kv_append_args *args) {
    const struct kv_layout layout = args->is_latent
                                        ? kv_layout_latent(args->type, args->dim_k)
                                        : kv_layout_of(args->type, args->dim_k, args->dim_v);
    for (int h = 0; h < args->n_head_kv; h++) {
        const float *k = args->k + h * args->dim_k;
        const float *v = args->is_latent ? NULL : args->v + h * args->dim_v;
        uint8_t *head = args->layer + (int64_t)h * layout.bytes;
        if (layout.is_coded)
            codes_append(args, &layout, k, v, head);
        else
            numbers_append(args, &layout, k, v, head);
    }
}

// ---------------------------------------------------------------- attention

// One KV head: the data that all its queries share.
struct head {
    const struct attention_args *args;
    struct kv_layout layout;
    float *q, *o;  // scratch of dim_k and dim_v
    float q_scale; // of the query's codes
};

// Running (M, L, O) of a query; O is the query's output row.
struct softmax {
    float m, l;
    float *o; // [dim_v]
};

// q: codes, as whole numbers; every product and sum of a block is exact.
static float dot_codes(const struct head *head, const float *q, const uint8_t *page, int slot) {
    const enum kv_type type = head->args->type;
    const int dim = head->args->dim_k, block = head->layout.block_k;
    float s = 0;
    for (int d = 0; d < dim; d += block) {
        int32_t sum = 0;
        for (int i = d; i < d + block && i < dim; i++)
            sum += (int)q[i] * code_get(page + key_at(i, slot, type), key_is_high(i), type);
        s = fmaf((float)sum, scale_get(page + head->layout.scale_k, d / block, slot), s);
    }
    return s * head->q_scale;
}

static float dot_numbers(const struct head *head, const float *q, const uint8_t *page, int slot) {
    float s = 0;
    for (int d = 0; d < head->args->dim_k; d++)
        s = fmaf(q[d], number_get(page, d * KV_PAGE_TOKENS + slot, head->args->type), s);
    return s;
}

static float score(const struct head *head, const float *q, int t) {
    const struct attention_args *args = head->args;
    const uint8_t *page = attention_page(args, t / KV_PAGE_TOKENS);
    float s = head->layout.is_coded ? dot_codes(head, q, page, t % KV_PAGE_TOKENS)
                                    : dot_numbers(head, q, page, t % KV_PAGE_TOKENS);
    s *= args->scale;
    return args->softcap > 0 ? args->softcap * rmath_tanh(s / args->softcap) : s;
}

static void value_add(const struct head *head, float p, int t, float *o) {
    const struct attention_args *args = head->args;
    const struct kv_layout *layout = &head->layout;
    const uint8_t *page = attention_page(args, t / KV_PAGE_TOKENS), *v = page + layout->v;
    const int slot = t % KV_PAGE_TOKENS;
    float weight = 0;
    for (int d = 0; d < args->dim_v; d++) {
        if (!layout->is_coded) {
            const int64_t index =
                args->is_latent ? d * KV_PAGE_TOKENS + slot : slot * args->dim_v + d;
            o[d] = fmaf(p, number_get(v, index, args->type), o[d]);
            continue;
        }
        if (d % layout->block_v == 0)
            weight = p * scale_get(page + layout->scale_v, d / layout->block_v, slot);
        const uint8_t *at = v + (args->is_latent ? key_at(d, slot, args->type)
                                                 : value_at(layout, d, slot, args->type));
        const bool is_high = args->is_latent ? key_is_high(d) : value_is_high(d);
        o[d] = fmaf(weight, (float)code_get(at, is_high, args->type), o[d]);
    }
}

// A latent's int8 values of positions [begin, end), whose probabilities are p. The weights of a
// block are whole numbers here, one scale for all, so its sums are exact.
static void block_add(const struct head *head, const float *p, int begin, int end, int d0,
                      float *o) {
    const struct attention_args *args = head->args;
    const int block = head->layout.block_v,
              d1 = d0 + block < args->dim_v ? d0 + block : args->dim_v;
    float weight[ATTENTION_SPLIT], most = 0;
    bool is_finite = true;
    for (int t = begin; t < end; t++) {
        const uint8_t *page = attention_page(args, t / KV_PAGE_TOKENS);
        const float scale = scale_get(page + head->layout.scale_v, d0 / block, t % KV_PAGE_TOKENS);
        const float w = p[t - begin] * scale;
        most = w > most ? w : most;
        is_finite = is_finite && isfinite(w);
        weight[t - begin] = w;
    }
    const float factor = weight_factor(most), step = most / (float)WEIGHT_MOST;
    for (int d = d0; d < d1; d++) {
        int32_t sum = 0;
        for (int t = begin; is_finite && t < end; t++) {
            const uint8_t *page = attention_page(args, t / KV_PAGE_TOKENS);
            const float whole = fmaf(weight[t - begin], factor, WEIGHT_MAGIC) - WEIGHT_MAGIC;
            const uint8_t *at = page + key_at(d, t % KV_PAGE_TOKENS, KV_INT8);
            sum += (int32_t)whole * code_get(at, false, KV_INT8);
        }
        o[d] = is_finite ? (float)sum * step : NAN;
    }
}

// Positions [begin, end), all in one split.
static void split_add(const struct head *head, const float *q, int begin, int end,
                      struct softmax *sum) {
    const int dim_v = head->args->dim_v;
    const bool in_blocks = head->args->is_latent && head->args->type == KV_INT8;
    float s[ATTENTION_SPLIT], m = -INFINITY, lane[REFERENCE_LANES] = {0}, *o = head->o;
    for (int t = begin; t < end; t++) {
        s[t - begin] = score(head, q, t);
        m = s[t - begin] > m ? s[t - begin] : m;
    }
    for (int d = 0; d < dim_v; d++) o[d] = 0;
    for (int t = begin; t < end; t++) {
        const float p = rmath_exp(s[t - begin] - m);
        lane[t % REFERENCE_LANES] += p;
        s[t - begin] = p;
        if (!in_blocks) value_add(head, p, t, o);
    }
    for (int d = 0; in_blocks && d < dim_v; d += head->layout.block_v)
        block_add(head, s, begin, end, d, o);
    const float l = reference_fold(lane), top = m > sum->m ? m : sum->m;
    const float a = rmath_exp(sum->m - top), b = rmath_exp(m - top);
    sum->m = top;
    sum->l = fmaf(l, b, sum->l * a);
    for (int d = 0; d < dim_v; d++) sum->o[d] = fmaf(o[d], b, sum->o[d] * a);
}

// The sink comes after the last split, as a split of one position without a value.
static void sink_add(float sink, int dim_v, struct softmax *sum) {
    const float top = sink > sum->m ? sink : sum->m;
    const float a = rmath_exp(sum->m - top), b = rmath_exp(sink - top);
    sum->m = top;
    sum->l = fmaf(sum->l, a, b);
    for (int d = 0; d < dim_v; d++) sum->o[d] *= a;
}

// The query rotated and as codes of int8, one scale for all, to be multiplied with the keys' codes.
static void query_code(struct head *head, const float *q) {
    const int dim = head->args->dim_k;
    const int n_turn = kv_rotation_of(dim, head->args->dim_v, head->args->is_latent);
    float most = 0, factor;
    bool is_finite = true;
    rotate(q, head->q, dim, n_turn, 1.0f / (float)n_turn);
    for (int d = 0; d < dim; d++) {
        most = fabsf(head->q[d]) > most ? fabsf(head->q[d]) : most;
        is_finite = is_finite && isfinite(head->q[d]);
    }
    head->q_scale = query_scale(most, is_finite, &factor);
    for (int d = 0; d < dim; d++) head->q[d] = factor == 0.0f ? 0.0f : rintf(head->q[d] * factor);
}

static void query_attend(struct head *head, int row, int h) {
    const struct attention_args *args = head->args;
    const int pos = args->pos[row];
    const float *q = args->q + row * args->ldq + (int64_t)h * args->dim_k;
    float *out = args->out + row * args->ldo + (int64_t)h * args->dim_v;
    if (head->layout.is_coded) {
        query_code(head, q);
        q = head->q;
    }
    for (int d = 0; d < args->dim_v; d++) out[d] = 0;
    struct softmax sum = {-INFINITY, 0, out};
    for (int begin = attention_first(args, pos); begin <= pos;) {
        int end = (begin / ATTENTION_SPLIT + 1) * ATTENTION_SPLIT;
        if (end > pos + 1) end = pos + 1;
        split_add(head, q, begin, end, &sum);
        begin = end;
    }
    if (args->sinks) sink_add(args->sinks[h], args->dim_v, &sum);
    for (int d = 0; d < args->dim_v; d++) out[d] /= sum.l;
    if (!args->is_latent || !head->layout.is_coded) return;
    // values are rotated keys: their sum is rotated back
    const int n_turn = kv_rotation_of(args->dim_k, args->dim_v, true);
    rotate(out, out, args->dim_v, n_turn, 1.0f / (float)n_turn);
}

void reference_attention(const struct attention_args *args, float *scratch) {
    const int ratio = args->n_head / args->n_head_kv;
    struct head head = {args, attention_layout(args), scratch, scratch + args->dim_k, 1.0f};
    for (int row = 0; row < args->n_rows; row++)
        for (int h = args->head_kv * ratio; h < (args->head_kv + 1) * ratio; h++)
            query_attend(&head, row, h);
}
