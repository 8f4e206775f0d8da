// Attention over a latent group, over the abstract vector of ops_simd.h; included by
// attention_simd.h. A page has keys alone, and a value is the beginning of its key. All query heads
// share the one KV head, so a call has many queries for each row that it reads.
//
// A split is read from memory once. Its pages are scored one by one against all queries: f32 and
// codes in place, f16 as f32 in a tile of the second-level cache, which the first block of queries
// fills as it goes. The next page is prefetched meanwhile, at an even pace: many requests at once
// hold up the loads behind them, and some are dropped. Then ATTENTION_CHUNK elements at a time
// become values: the pages, which are in the cache now, are transposed into panels, and all queries
// add them up. The sums of a lane have the order of the other kernels. Sums of int8 values are
// integers.

_Static_assert((int)ATTENTION_CHUNK == 2 * (int)PANEL, "a chunk is two panels");
_Static_assert((int)ATTENTION_CHUNK == (int)KV_LATENT_BLOCK && ATTENTION_CHUNK % KV_BLOCK == 0,
               "a chunk is whole blocks of codes");

#define SCORE_tile_f16(c)  score_page(k, KV_F16, 2 * KV_PAGE_TOKENS, dim, q, c, s, next, tile)
#define SCORE_tile_rest(c) score_page(k, KV_F32, 2 * KV_PAGE_TOKENS, dim, q, c, s, next, NULL)
SCORE(tile_f16)
SCORE(tile_rest)

// All queries against one page. Their blocks take turns at prefetching next.
static void latent_score(const struct attention_state *st, int page, const uint8_t *next) {
    const enum kv_type type = st->args->type;
    const codes_fn codes = type == KV_INT8 ? codes_int8 : codes_int4;
    const uint8_t *raw = st->page[page], *k = raw;
    const int dim = st->args->dim_k;
    const int n_block = (st->end - st->first + SCORE_QUERIES - 1) / SCORE_QUERIES;
    const int row = st->layout.is_coded ? 4 * KV_PAGE_TOKENS : (int)kv_bytes(KV_PAGE_TOKENS, type);
    score_fn f = type == KV_F16 ? score_tile_f16 : score_f32;
    struct coming coming = {next, n_block};
    for (int j = st->first; j < st->end; j += SCORE_QUERIES, coming.at += row) {
        const int n = st->end - j < SCORE_QUERIES ? st->end - j : SCORE_QUERIES;
        float *s = st->score + (int64_t)(j - st->first) * ATTENTION_SPLIT + page * KV_PAGE_TOKENS;
        int a, b; // rows ascend, so the block's last query sees furthest
        visible(st, j + n - 1, &a, &b);
        if (page * KV_PAGE_TOKENS >= b) continue;
        if (st->layout.is_coded) {
            codes(st, raw, j, n, s, coming);
            continue;
        }
        f(k, dim, st->q + (int64_t)j * dim, n, s, coming, st->key);
        if (type == KV_F32) continue;
        f = score_tile_rest;
        k = (const uint8_t *)st->key;
    }
}

// ---------------------------------------------------------------- values

// 16 tokens from `half` on of a page of int4: row i of x is 4 bytes of each, elements d + 4 i and
// on.
INLINE void codes_load(const struct attention_state *st, const uint8_t *page, int d, int half,
                       v16 x[16]) {
    const int dim = st->args->dim_k;
    for (int i = 0; i < 16; i++) {
        const int at = d + 4 * i;
        if (at >= dim) {
            x[i] = v_set(0);
            continue;
        }
        const i16 line = i_load(page + ((int64_t)(at / 8) * KV_PAGE_TOKENS + half) * 4);
        x[i] = v_of_codes(i % 2 ? i_high(line) : i_low(line));
    }
}

// Values [d, d + ATTENTION_CHUNK) of 16 tokens, y being their rows in the first of two panels.
INLINE void chunk_codes(const struct attention_state *st, const uint8_t *page, int d, int half,
                        float *y) {
    v16 x[16];
    float row[16];
    codes_load(st, page, d, half, x);
    v_transpose(x);
    for (int t = 0; t < 16; t++, y += PANEL) {
        v_store(row, x[t]);
        for (int e = 0; e < ATTENTION_CHUNK; e += 16) {
            const v16 code = v_load_i8((const int8_t *)row + e);
            v_store(y + e / PANEL * (ATTENTION_SPLIT * PANEL) + e % PANEL, v_sub(code, v_set(8)));
        }
    }
}

INLINE void chunk_numbers(const struct attention_state *st, const uint8_t *page, enum kv_type type,
                          int d, int half, float *y) {
    for (int e = 0; e < ATTENTION_CHUNK && d + e < st->args->dim_v; e += 16) {
        float *row = y + e / PANEL * (ATTENTION_SPLIT * PANEL) + e % PANEL;
        const uint8_t *at = page + kv_bytes((int64_t)(d + e) * KV_PAGE_TOKENS + half, type);
        const int n = st->args->dim_v - d - e;
        v16 x[16];
        if (n >= 16)
            for (int i = 0; i < 16; i++)
                x[i] = load_kv(at + i * kv_bytes(KV_PAGE_TOKENS, type), type);
        else
            for (int i = 0; i < 16; i++)
                x[i] = i < n ? load_kv(at + i * kv_bytes(KV_PAGE_TOKENS, type), type) : v_set(0);
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
            if (st->args->type == KV_INT4) chunk_codes(st, raw, d, half, y);
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

// ---------------------------------------------------------------- values of int8

// Weights are whole numbers here, so a sum over tokens is exact and has no order. A panel has 32
// elements; a line of it has some tokens of each, which are multiplied and added by one operation.
enum {
    SPLIT_LINES = ATTENTION_SPLIT / 4 * QUAD_LINES,
    LINE_STRIDE = 2 * LINE, // in a panel
    CODE_PANEL = SPLIT_LINES * LINE_STRIDE,
    WEIGHT_ROWS = 2 / QUAD_LINES, // of a query, SPLIT_LINES words each
    ROWS_MOST = VALUE_QUERIES * WEIGHT_ROWS,
};

// The scales of block d / ATTENTION_CHUNK as f32. A scale that is not finite becomes 0: a query
// that sees it has a score that is not a number, and so has its result.
static void scales_make(const struct attention_state *st, int d, float *scale) {
    const v16 top = v_set(INFINITY), zero = v_set(0);
    for (int t = st->page_a * KV_PAGE_TOKENS; t < st->page_b * KV_PAGE_TOKENS; t += 16) {
        const uint8_t *page = st->page[t / KV_PAGE_TOKENS] + st->layout.scale_v;
        const v16 x = v_load_f16((const uint16_t *)page + d / ATTENTION_CHUNK * KV_PAGE_TOKENS +
                                 t % KV_PAGE_TOKENS);
        v_store(scale + t, v_less(x, top, x, zero));
    }
}

// Values [d, d + ATTENTION_CHUNK) of the split: two panels.
static void panels_make(const struct attention_state *st, int d, uint8_t *panel) {
    const int n_group = (st->args->dim_k + 3) / 4;
    for (int page = st->page_a; page < st->page_b; page++) {
        for (int half = 0; half < 2; half++) {
            const uint8_t *raw = st->page[page] + half * LINE;
            const int first = (2 * page + half) * 4 * QUAD_LINES; // line
            for (int i = 0; i < 4; i++) {
                uint8_t *y = panel + i / 2 * CODE_PANEL + first * LINE_STRIDE + i % 2 * LINE;
                i16 x[4];
                for (int g = 0; g < 4; g++) {
                    const int group = d / 4 + 4 * i + g;
                    x[g] = group < n_group ? i_load(raw + (int64_t)group * 2 * LINE) : i_set(0);
                }
                i_quads(x);
                for (int q = 0; q < 4; q++)
                    i_quad_store(y + q * QUAD_LINES * LINE_STRIDE, LINE_STRIDE, x[q]);
            }
        }
    }
}

// The largest weight of a query, whose probabilities are p.
INLINE float weight_top(const struct attention_state *st, const float *p, const float *scale) {
    const int t0 = st->page_a * KV_PAGE_TOKENS, t1 = st->page_b * KV_PAGE_TOKENS;
    v16 top[2] = {v_set(0), v_set(0)};
    for (int t = t0; t < t1; t += 32)
        for (int i = 0; i < 2; i++)
            top[i] = v_max(v_mul(v_load(p + t + 16 * i), v_load(scale + t + 16 * i)), top[i]);
    return v_fold_max(v_max(top[0], top[1]));
}

// The weights of a query as whole numbers; most is the largest.
INLINE void weights_make(const struct attention_state *st, const float *p, const float *scale,
                         float most, uint8_t *row) {
    const int t0 = st->page_a * KV_PAGE_TOKENS, t1 = st->page_b * KV_PAGE_TOKENS;
    const v16 factor = v_set(weight_factor(most)), magic = v_set(WEIGHT_MAGIC);
    for (int t = t0; t < t1; t += 32) {
        v16 x[2];
        for (int i = 0; i < 2; i++) {
            const v16 w = v_mul(v_load(p + t + 16 * i), v_load(scale + t + 16 * i));
            x[i] = v_fma(w, factor, magic);
        }
        i_weights_store(row, t, x);
    }
}

// n rows of weights with `vecs` vectors of a panel's elements, lines [l0, l1).
INLINE void mac_block(const uint8_t *panel, const int32_t *row, int l0, int l1, int n, int vecs,
                      int32_t *sum) {
    i16 acc[ATTENTION_BLOCK][2];
    for (int j = 0; j < n; j++)
        for (int i = 0; i < vecs; i++) acc[j][i] = i_set(0);
    for (int l = l0; l < l1; l++) {
        i16 x[2];
        for (int i = 0; i < vecs; i++) x[i] = i_load(panel + l * LINE_STRIDE + i * LINE);
        for (int j = 0; j < n; j++) {
            const i16 w = i_set(row[j * SPLIT_LINES + l]);
            for (int i = 0; i < vecs; i++) acc[j][i] = i_mac(acc[j][i], x[i], w);
        }
    }
    for (int j = 0; j < n; j++)
        for (int i = 0; i < vecs; i++) i_store(sum + j * ATTENTION_CHUNK + i * 16, acc[j][i]);
}

INLINE void mac_panels(const uint8_t *panel, const int32_t *row, int l0, int l1, int n,
                       int32_t *sum) {
    for (int i = 0; i < 4; i += VALUE_VECS(n))
        mac_block(panel + i / 2 * CODE_PANEL + i % 2 * LINE, row, l0, l1, n, VALUE_VECS(n),
                  sum + 16 * i);
}

static void mac_rows(const uint8_t *panel, const int32_t *row, int l0, int l1, int n,
                     int32_t *sum) {
#define MAC(c) mac_panels(panel, row, l0, l1, c, sum)
    FOR_QUERIES(VALUE_QUERIES, n, MAC)
#undef MAC
}

// Queries [first, first + n) of the chunk at d: one block, whose probabilities are p.
static void code_values(const struct attention_state *st, const uint8_t *panel, const float *scale,
                        int d, int first, int n, const float *p, int32_t *row) {
    const int page_lines = KV_PAGE_TOKENS / 4 * QUAD_LINES;
    const int l0 = st->page_a * page_lines, l1 = st->page_b * page_lines;
    int32_t sum[ROWS_MOST * ATTENTION_CHUNK];
    float most[VALUE_QUERIES];
    // all maxima first, so that no query waits for its own
    for (int j = 0; j < n; j++) most[j] = weight_top(st, p + j * ATTENTION_SPLIT, scale);
    for (int j = 0; j < n; j++)
        weights_make(st, p + j * ATTENTION_SPLIT, scale, most[j],
                     (uint8_t *)(row + j * WEIGHT_ROWS * SPLIT_LINES));
    for (int j = 0; j < n * WEIGHT_ROWS; j += VALUE_QUERIES) {
        const int left = n * WEIGHT_ROWS - j;
        mac_rows(panel, row + j * SPLIT_LINES, l0, l1, left < VALUE_QUERIES ? left : VALUE_QUERIES,
                 sum + j * ATTENTION_CHUNK);
    }
    for (int j = 0; j < n; j++) {
        const v16 step = v_set(most[j] / (float)WEIGHT_MOST);
        float *o = st->part.o + (int64_t)(first + j) * st->padded_v + d;
        for (int i = 0; i < ATTENTION_CHUNK && d + i < st->padded_v; i += 16) {
            const int32_t *at = sum + j * WEIGHT_ROWS * ATTENTION_CHUNK + i;
            v_store(o + i, v_mul(i_float(i_total(at, ATTENTION_CHUNK)), step));
        }
    }
}

// All queries, the chunk at d; the next split is prefetched, each chunk taking its share.
static void tiles_chunk(const struct attention_state *st, int d, const float *scale) {
    const int n_chunk = (st->args->dim_v + ATTENTION_CHUNK - 1) / ATTENTION_CHUNK;
    const int i = d / ATTENTION_CHUNK, n = st->page_b - st->page_a;
    const int a = st->page_a + n * i / n_chunk, b = st->page_a + n * (i + 1) / n_chunk;
    const bool more = a < b && st->coming[a] != st->page[a];
    for (int page = a + 1; more && page < b; page++)
        prefetch_lines(st->coming[page], 0, st->layout.bytes);
    const struct latent_values job = {
        .page = st->page,
        .page_a = st->page_a,
        .page_b = st->page_b,
        .group = d / 4,
        .n_group = (st->args->dim_k + 3) / 4,
        .ahead = more ? st->coming[a] : NULL,
        .ahead_bytes = more ? st->layout.bytes : 0,
        .p = st->score,
        .scale = scale,
        .is_first = d == 0,
        .is_last = d + ATTENTION_CHUNK >= st->args->dim_v,
        .n = st->end - st->first,
        .width = st->padded_v - d < ATTENTION_CHUNK ? st->padded_v - d : ATTENTION_CHUNK,
        .o = st->part.o + (int64_t)st->first * st->padded_v + d,
        .ldo = st->padded_v,
        .scratch = st->value,
    };
    st->tiles->values(&job);
}

// The first query that sees something of a page.
static int first_at(const struct attention_state *st, int page) {
    int first = st->first, a, b;
    for (visible(st, first, &a, &b); b <= page * KV_PAGE_TOKENS;) visible(st, ++first, &a, &b);
    return first;
}

// Pages that the same queries see are one job. Only the first split of a call is prefetched here.
static void tiles_score(const struct attention_state *st, bool is_first) {
    for (int page = st->page_a, end; page < st->page_b; page = end) {
        const int first = first_at(st, page);
        for (end = page + 1; end < st->page_b && first_at(st, end) == first;) end++;
        const struct latent_scores job = {
            .page = st->page,
            .page_a = page,
            .page_b = end,
            .ahead = is_first ? st->page_b : 0,
            .scale = st->layout.scale_k,
            .bytes = st->layout.bytes,
            .q = st->q_code + (int64_t)first * st->padded_k,
            .ldq = st->padded_k,
            .q_scale = st->q_scale + first,
            .n = st->end - first,
            .dim = st->args->dim_k,
            .s = st->score + (int64_t)(first - st->first) * ATTENTION_SPLIT,
            .scratch = st->value,
        };
        st->tiles->scores(&job);
    }
}

// All queries, the chunk at d.
static void codes_chunk(const struct attention_state *st, int d, const float *scale) {
    uint8_t *panel = (uint8_t *)st->value;
    panels_make(st, d, panel);
    for (int j = st->first; j < st->end; j += VALUE_QUERIES) {
        const int n = st->end - j < VALUE_QUERIES ? st->end - j : VALUE_QUERIES;
        code_values(st, panel, scale, d, j, n,
                    st->score + (int64_t)(j - st->first) * ATTENTION_SPLIT, (int32_t *)st->weight);
    }
}

// Probabilities of tokens that a query does not see become 0, to the ends of pairs of pages.
static void unseen_clear(const struct attention_state *st) {
    const int t0 = st->page_a / 2 * 2 * KV_PAGE_TOKENS;
    const int t1 = (st->page_b + 1) / 2 * 2 * KV_PAGE_TOKENS;
    for (int j = st->first; j < st->end; j++) {
        float *p = st->score + (int64_t)(j - st->first) * ATTENTION_SPLIT;
        int a, b;
        visible(st, j, &a, &b);
        for (int t = t0; t < a; t++) p[t] = 0;
        for (int t = b; t < t1; t++) p[t] = 0;
    }
}

static void latent_codes(const struct attention_state *st) {
    float scale[ATTENTION_SPLIT] = {0}; // where there is no page too
    unseen_clear(st);
    for (int d = 0; d < st->args->dim_v; d += ATTENTION_CHUNK) {
        scales_make(st, d, scale);
        if (st->tiles)
            tiles_chunk(st, d, scale);
        else
            codes_chunk(st, d, scale);
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
    const bool tiles = st->tiles && st->args->type == KV_INT8;
    pages_find(st, split_last);
    if (is_first) prefetch_lines(st->page[st->page_a], 0, st->layout.bytes);
    if (tiles) tiles_score(st, is_first);
    for (int page = st->page_a; !tiles && page < st->page_b; page++) {
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
    if (st->args->type == KV_INT8) {
        latent_codes(st);
        return;
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
