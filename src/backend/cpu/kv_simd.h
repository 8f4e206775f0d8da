// KV append over the abstract vector of ops_simd.h, which includes this, and the rotation of keys
// and queries, which attention uses too. One token is appended per sequence and step, so little
// should be computed; keys are scattered, a few elements to each row of the page.

// ---------------------------------------------------------------- numbers

static void f16_row(const float *x, uint16_t *y, int n) {
    int i = 0;
    for (; i + 16 <= n; i += 16) v_store_f16(y + i, v_load(x + i));
    for (; i < n; i++) y[i] = f32_to_f16(x[i]);
}

static void append_f16(const float *k, const float *v, uint16_t *page, int slot, int dim_k,
                       int dim_v) {
    uint16_t half[64]; // keys are converted side by side, then scattered to their rows
    for (int d = 0; d < dim_k; d++) __builtin_prefetch(page + d * KV_PAGE_TOKENS + slot, 1);
    for (int d = 0; d < dim_k; d += 64) {
        const int n = dim_k - d < 64 ? dim_k - d : 64;
        f16_row(k + d, half, n);
        for (int i = 0; i < n; i++) page[(d + i) * KV_PAGE_TOKENS + slot] = half[i];
    }
    if (v) f16_row(v, page + (int64_t)dim_k * KV_PAGE_TOKENS + (int64_t)slot * dim_v, dim_v);
}

static void append_f32(const float *k, const float *v, float *page, int slot, int dim_k,
                       int dim_v) {
    for (int d = 0; d < dim_k; d++) page[d * KV_PAGE_TOKENS + slot] = k[d];
    float *row = page + (int64_t)dim_k * KV_PAGE_TOKENS + (int64_t)slot * dim_v;
    if (v) memcpy(row, v, (size_t)dim_v * sizeof *v);
}

// ---------------------------------------------------------------- rotation

// a + b in the lanes without bit h, a - b in those with it: swapped has the other of the pair.
INLINE v16 v_butterfly(v16 x, v16 swapped, const float sign[16]) {
    return v_fma(x, v_load(sign), swapped); // times 1 or -1 is exact, so one rounding as in a + b
}

// The stages inside a vector, of runs of n elements.
INLINE v16 v_rotate(v16 x, int n) {
    static const float sign[4][16] = {
        {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1},
        {1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1},
        {1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1},
        {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1},
    };
    if (n > 1) x = v_butterfly(x, v_swap1(x), sign[0]);
    if (n > 2) x = v_butterfly(x, v_swap2(x), sign[1]);
    if (n > 4) x = v_butterfly(x, v_swap4(x), sign[2]);
    if (n > 8) x = v_butterfly(x, v_swap8(x), sign[3]);
    return x;
}

// Runs of n elements (kv_rotation_of), in place or not.
static void rotate(const float *x, float *y, int dim, int n, float factor) {
    const v16 f = v_set(factor);
    FOR_ROW(dim, row_store(y + i, v_rotate(v_mul(row_load(x + i, m), f), n), m, false););
    for (int h = 16; h < n; h *= 2) {
        for (int at = 0; at < dim; at += 2 * h) {
            for (int i = at; i < at + h; i += 16) {
                const v16 a = v_load(y + i), b = v_load(y + i + h);
                v_store(y + i, v_add(a, b));
                v_store(y + i + h, v_sub(a, b));
            }
        }
    }
}

// ---------------------------------------------------------------- codes

// The largest element and the largest of the negated ones, both at least 0. Whether all are finite.
static bool range_find(const float *x, int n, float *most, float *least) {
    v16 top = v_set(0), low = v_set(0), odd = v_set(0);
    FOR_ROW(n, {
        const v16 v = row_load(x + i, m);
        top = v_max(v, top);
        low = v_max(v_sub(v_set(0), v), low);
        odd = v_fma(v, v_set(0), odd); // not a number where one is not finite
    });
    *most = v_fold_max(top);
    *least = v_fold_max(low);
    return v_fold_add(odd) == 0.0f;
}

static uint16_t scale_find(const float *x, int n, enum kv_type type) {
    float top, low;
    const bool is_finite = range_find(x, n, &top, &low);
    return kv_scale(top, low, is_finite, type);
}

// Codes of n elements; those up to the next multiple of 16 become 0.
INLINE void codes_make(const float *x, int n, uint16_t scale, enum kv_type type, int8_t *code) {
    const float step = f16_to_f32(scale);
    if (scale == KV_SCALE_NAN || step == 0.0f) {
        memset(code, 0, (size_t)attention_padded(n, 16));
        return;
    }
    const v16 lo = v_set(type == KV_INT8 ? -127.0f : -8.0f);
    const v16 hi = v_set(type == KV_INT8 ? 127.0f : 7.0f), factor = v_set(1.0f / step);
    FOR_ROW(n, {
        const v16 v = v_max(v_mul(row_load(x + i, m), factor), lo);
        v_store_i8(code + i, v_less(hi, v, hi, v));
    });
}

// v NULL: a latent group's.
static void append_int8(const float *k, const float *v, const struct kv_layout *layout,
                        uint8_t *head, int slot, int dim_k, int dim_v, int n_turn) {
    float x[KV_DIM_MAX];
    int8_t code[KV_DIM_MAX];
    uint8_t *key = head + slot * 4;
    for (int d = 0; d < dim_k; d += 4) __builtin_prefetch(key + d * KV_PAGE_TOKENS, 1);
    rotate(k, x, dim_k, n_turn, 1.0f);
    uint16_t *scale_k = (uint16_t *)(head + layout->scale_k) + slot;
    for (int d = 0; d < dim_k; d += layout->block_k, scale_k += KV_PAGE_TOKENS) {
        const int n = dim_k - d < layout->block_k ? dim_k - d : layout->block_k;
        *scale_k = scale_find(x + d, n, KV_INT8);
        codes_make(x + d, n, *scale_k, KV_INT8, code + d);
    }
    for (int d = 0; d < dim_k; d += 4) memcpy(key + d * KV_PAGE_TOKENS, code + d, 4);
    if (!v) return;
    const uint16_t scale_v = scale_find(v, dim_v, KV_INT8);
    ((uint16_t *)(head + layout->scale_v))[slot] = scale_v;
    codes_make(v, dim_v, scale_v, KV_INT8,
               (int8_t *)head + layout->v + (int64_t)slot * layout->row_v);
}

// The block at d of a head's dim elements: its scale, and its codes + 8 in `code`, 8 past the end.
INLINE void block_make(const float *x, int d, int dim, uint16_t *scale, int slot,
                       uint8_t code[KV_BLOCK]) {
    const int n = dim - d < KV_BLOCK ? dim - d : KV_BLOCK;
    int8_t raw[KV_BLOCK] = {0};
    const uint16_t s = scale_find(x + d, n, KV_INT4);
    scale[d + slot] = s; // [blocks][KV_PAGE_TOKENS], which are as many as a block's elements
    codes_make(x + d, n, s, KV_INT4, raw);
    for (int i = 0; i < KV_BLOCK; i++) code[i] = (uint8_t)(raw[i] + 8);
}

static void append_int4(const float *k, const float *v, const struct kv_layout *layout,
                        uint8_t *head, int slot, int dim_k, int dim_v, int n_turn) {
    _Static_assert((int)KV_BLOCK == (int)KV_PAGE_TOKENS, "block_make's index of scales");
    float x[KV_DIM_MAX];
    uint8_t code[KV_BLOCK];
    uint8_t *key = head + slot * 4;
    for (int d = 0; d < dim_k; d += 8) __builtin_prefetch(key + d / 2 * KV_PAGE_TOKENS, 1);
    rotate(k, x, dim_k, n_turn, 1.0f);
    for (int d = 0; d < dim_k; d += KV_BLOCK) {
        block_make(x, d, dim_k, (uint16_t *)(head + layout->scale_k), slot, code);
        for (int i = 0; i < KV_BLOCK && d + i < dim_k; i += 8)
            for (int j = 0; j < 4; j++)
                key[(d + i) / 2 * KV_PAGE_TOKENS + j] =
                    (uint8_t)(code[i + j] | code[i + j + 4] << 4);
    }
    uint8_t *row = head + layout->v + (int64_t)slot * layout->row_v;
    for (int d = 0; v && d < dim_v; d += KV_BLOCK) {
        block_make(v, d, dim_v, (uint16_t *)(head + layout->scale_v), slot, code);
        for (int i = 0; i < KV_BLOCK / 2; i++)
            row[d / 2 + i] = (uint8_t)(code[i] | code[i + KV_BLOCK / 2] << 4);
    }
}

static void simd_kv_append(const struct kv_append_args *args) {
    const int dim_k = args->dim_k, dim_v = args->dim_v;
    const struct kv_layout layout = args->is_latent ? kv_layout_latent(args->type, dim_k)
                                                    : kv_layout_of(args->type, dim_k, dim_v);
    const int n_turn = kv_rotation_of(dim_k, dim_v, args->is_latent);
    uint8_t *head = args->layer;
    for (int h = 0; h < args->n_head_kv; h++, head += layout.bytes) {
        const float *k = args->k + h * dim_k, *v = args->is_latent ? NULL : args->v + h * dim_v;
        switch (args->type) {
        case KV_F32:
            append_f32(k, v, (float *)head, args->slot, dim_k, dim_v);
            break;
        case KV_F16:
            append_f16(k, v, (uint16_t *)head, args->slot, dim_k, dim_v);
            break;
        case KV_INT8:
            append_int8(k, v, &layout, head, args->slot, dim_k, dim_v, n_turn);
            break;
        case KV_INT4:
            append_int4(k, v, &layout, head, args->slot, dim_k, dim_v, n_turn);
            break;
        case KV_TYPE_COUNT:
            break;
        }
    }
}
