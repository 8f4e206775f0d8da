// Attention over a latent group, over the abstract vector of ops_simd.h; included by
// attention_simd.h. A page has keys alone, and a value is the beginning of its key. All query heads
// share the one KV head, so a call has many queries for each row that it reads.
//
// A split is read from memory once. Its pages are scored one by one against all queries: keys as
// f32 in a tile of the second-level cache, codes in place. The next page is prefetched meanwhile, a
// line for each row of the tile. Then ATTENTION_CHUNK elements at a time become values: the pages,
// which are in the cache now, are transposed into panels, and all queries add them up. The sums of
// a lane have the order of the other kernels.

_Static_assert((int)ATTENTION_CHUNK == 2 * (int)PANEL, "a chunk is two panels");
_Static_assert((int)ATTENTION_CHUNK == (int)KV_LATENT_BLOCK && ATTENTION_CHUNK % KV_BLOCK == 0,
               "a chunk is whole blocks of codes");

#define SCORE_tile(c)     score_page(k, KV_F32, 0, dim, q, c, s, next)
#define SCORE_tile_f32(c) score_page(k, KV_F32, 4 * KV_PAGE_TOKENS, dim, q, c, s, next)
#define SCORE_tile_f16(c) score_page(k, KV_F32, 2 * KV_PAGE_TOKENS, dim, q, c, s, next)
SCORE(tile)
SCORE(tile_f32)
SCORE(tile_f16)

INLINE void tile_make(const struct attention_state *st, const uint8_t *page, enum kv_type type) {
    const int64_t n = (int64_t)st->args->dim_k * KV_PAGE_TOKENS;
    for (int64_t i = 0; i < n; i += 16)
        v_store(st->key + i, load_kv(page + kv_bytes(i, type), type));
}

// All queries against one page; next is prefetched by the first of them.
static void latent_score(const struct attention_state *st, int page, const uint8_t *next) {
    const enum kv_type type = st->args->type;
    const codes_fn codes = type == KV_INT8 ? codes_int8 : codes_int4;
    const uint8_t *raw = st->page[page], *tile = (const uint8_t *)st->key;
    const int dim = st->args->dim_k;
    score_fn f = type == KV_F16 ? score_tile_f16 : score_tile_f32;
    if (type == KV_F32) tile_make(st, raw, KV_F32);
    if (type == KV_F16) tile_make(st, raw, KV_F16);
    for (int j = st->first; j < st->end; j += SCORE_QUERIES) {
        const int n = st->end - j < SCORE_QUERIES ? st->end - j : SCORE_QUERIES;
        float *s = st->score + (int64_t)(j - st->first) * ATTENTION_SPLIT + page * KV_PAGE_TOKENS;
        int a, b; // rows ascend, so the block's last query sees furthest
        visible(st, j + n - 1, &a, &b);
        if (page * KV_PAGE_TOKENS >= b) continue;
        if (st->layout.is_coded)
            codes(st, raw, j, n, s, next);
        else
            f(tile, dim, st->q + (int64_t)j * dim, n, s, next);
        f = score_tile;
        next = NULL;
    }
}

// ---------------------------------------------------------------- values

// 16 tokens from `half` on of a page: row i of x is 4 bytes of each, elements d + 4 i and on.
INLINE void codes_load(const struct attention_state *st, const uint8_t *page, enum kv_type type,
                       int d, int half, v16 x[16]) {
    const int dim = st->args->dim_k, step = type == KV_INT4 ? 8 : 4;
    for (int i = 0; i < 16; i++) {
        const int at = d + 4 * i;
        if (at >= dim) {
            x[i] = v_set(0);
            continue;
        }
        const i16 line = i_load(page + ((int64_t)(at / step) * KV_PAGE_TOKENS + half) * 4);
        x[i] = v_of_codes(type == KV_INT8 ? line : i % 2 ? i_high(line) : i_low(line));
    }
}

// Values [d, d + ATTENTION_CHUNK) of 16 tokens, y being their rows in the first of two panels.
INLINE void chunk_codes(const struct attention_state *st, const uint8_t *page, enum kv_type type,
                        int d, int half, float *y) {
    v16 x[16];
    float row[16];
    codes_load(st, page, type, d, half, x);
    v_transpose(x);
    for (int t = 0; t < 16; t++, y += PANEL) {
        v_store(row, x[t]);
        for (int e = 0; e < ATTENTION_CHUNK; e += 16) {
            const v16 code = v_load_i8((const int8_t *)row + e);
            v_store(y + e / PANEL * (ATTENTION_SPLIT * PANEL) + e % PANEL,
                    type == KV_INT4 ? v_sub(code, v_set(8)) : code);
        }
    }
}

INLINE void chunk_numbers(const struct attention_state *st, const uint8_t *page, enum kv_type type,
                          int d, int half, float *y) {
    for (int e = 0; e < ATTENTION_CHUNK && d + e < st->args->dim_v; e += 16) {
        float *row = y + e / PANEL * (ATTENTION_SPLIT * PANEL) + e % PANEL;
        v16 x[16];
        for (int i = 0; i < 16; i++) {
            const int64_t at = (int64_t)(d + e + i) * KV_PAGE_TOKENS + half;
            x[i] =
                d + e + i < st->args->dim_v ? load_kv(page + kv_bytes(at, type), type) : v_set(0);
        }
        v_transpose(x);
        for (int t = 0; t < 16; t++) v_store(row + t * PANEL, x[t]);
    }
}

static void chunk_make(const struct attention_state *st, int d) {
    for (int page = st->page_a; page < st->page_b; page++) {
        const uint8_t *raw = st->page[page];
        for (int half = 0; half < KV_PAGE_TOKENS; half += 16) {
            float *y = st->value + (int64_t)(page * KV_PAGE_TOKENS + half) * PANEL;
            if (st->args->type == KV_F32) chunk_numbers(st, raw, KV_F32, d, half, y);
            if (st->args->type == KV_F16) chunk_numbers(st, raw, KV_F16, d, half, y);
            if (st->args->type == KV_INT8) chunk_codes(st, raw, KV_INT8, d, half, y);
            if (st->args->type == KV_INT4) chunk_codes(st, raw, KV_INT4, d, half, y);
        }
    }
}

// The chunk's values for queries [first, first + n): one block, whose probabilities are p.
static void latent_values(const struct attention_state *st, const struct value_source *v, int first,
                          int n, const float *p, int chunk) {
    const struct kv_layout *layout = &st->layout;
    const int step =
        layout->is_coded && layout->block_v < ATTENTION_CHUNK ? layout->block_v : ATTENTION_CHUNK;
    const int end = st->padded_v - chunk < ATTENTION_CHUNK ? st->padded_v - chunk : ATTENTION_CHUNK;
    float *o = st->part.o + (int64_t)first * st->padded_v + chunk;
    for (int d = 0; d < end; d += step) {
        const int d1 = d + step < end ? d + step : end;
        for (int j = 0; layout->is_coded && j < n; j++)
            weigh(st, first + j, chunk + d, p + j * ATTENTION_SPLIT,
                  st->weight + j * ATTENTION_SPLIT);
        block_tokens(st, v, value_converted, first, n, d, d1, layout->is_coded ? st->weight : p, o);
    }
}

// ---------------------------------------------------------------- a split

// Queries [first, first + n) of the split: their scores, and a state whose block they are.
static struct attention_state latent_block(const struct attention_state *st, int first) {
    struct attention_state block = *st;
    block.score += (int64_t)(first - st->first) * ATTENTION_SPLIT;
    return block;
}

static void latent_attend(struct attention_state *st, bool is_first, int split_last) {
    struct value_source v;
    pages_find(st, split_last);
    if (is_first) prefetch_lines(st->page[st->page_a], 0, st->layout.bytes);
    for (int page = st->page_a; page < st->page_b; page++) {
        const bool is_last = page + 1 == st->page_b;
        const uint8_t *next = is_last ? st->coming[st->page_a] : st->page[page + 1];
        prefetch_lines(next, st->layout.scale_k, st->layout.bytes);
        latent_score(st, page, next);
    }
    for (int j = st->first; j < st->end; j += VALUE_QUERIES) {
        const int n = st->end - j < VALUE_QUERIES ? st->end - j : VALUE_QUERIES;
        const struct attention_state block = latent_block(st, j);
        block_softmax(&block, j, n);
    }
    memset(st->part.o + (int64_t)st->first * st->padded_v, 0,
           (size_t)(st->end - st->first) * (size_t)st->padded_v * sizeof(float));
    source_init(st, true, &v);
    for (int d = 0; d < st->args->dim_v; d += ATTENTION_CHUNK) {
        chunk_make(st, d);
        for (int j = st->first; j < st->end; j += VALUE_QUERIES) {
            const int n = st->end - j < VALUE_QUERIES ? st->end - j : VALUE_QUERIES;
            latent_values(st, &v, j, n, latent_block(st, j).score, d);
        }
    }
}
