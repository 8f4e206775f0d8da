// Attention over the abstract vector of ops_simd.h, which includes this. A query is one head of one
// row; all queries of a call share each page. Scores have a token in each lane, values a head's
// element. A block of queries goes through a split alone: scores, softmax, values; its data stay in
// L1. One block reads the pages in place. For several blocks the split is converted to f32 once,
// values in panels, and streams from L2. Codes of keys (int8, int4) are multiplied with the codes
// of the query in place. Codes of values are converted without their scales, which multiply the
// probabilities instead.
//
// While a split's keys are read, its values are prefetched. While its values are read, the keys of
// the next split are. So memory waits for neither a page's end nor a softmax. Masked positions
// never enter: scores of masked lanes are replaced before the maximum and after the exponential,
// and values are added over each query's visible range only.

enum { PANEL = 32, LINE = 64 };
_Static_assert((int)SCORE_QUERIES <= ATTENTION_BLOCK && (int)VALUE_QUERIES <= ATTENTION_BLOCK,
               "a block's scores have room");

// The result of one or more splits for the queries: o is not yet divided by l.
struct attention_part {
    float *o;     // [n_queries, padded_v]
    float *m, *l; // [n_queries]
};

struct attention_state {
    const struct attention_args *args;
    const struct latent_kernels *tiles; // of a latent's int8 pages; NULL: none
    struct kv_layout layout;
    int ratio, n_queries, padded_v;
    int split;      // position of the split's first token
    int first, end; // queries that see something of the split
    int page_a, page_b;
    const uint8_t *page[ATTENTION_SPLIT_PAGES];   // [page_a, page_b) of the split
    const uint8_t *coming[ATTENTION_SPLIT_PAGES]; // of the next split; where there is none, page[]
    const float *q;        // [n_queries, dim_k]; of coded keys NULL, and instead:
    const int8_t *q_code;  // [n_queries, padded_k]
    const int32_t *q_zero; // [n_queries, blocks] -sum(codes) * zero point of the key codes
    const float *q_scale;  // [n_queries]
    int padded_k;          // to KV_BLOCK, with codes 0
    float *score;          // [VALUE_QUERIES, ATTENTION_SPLIT] of a block; latent: of all queries
    float *weight;         // as score: probabilities times the values' scales
    float *key;            // [ATTENTION_SPLIT_PAGES, dim_k, KV_PAGE_TOKENS] the split's keys as f32
    float *value;          // [panels, ATTENTION_SPLIT, PANEL] the split's values as f32
    struct attention_part part, sum;
};

// The part of [split, split + ATTENTION_SPLIT) that query j sees, relative to the split's start.
INLINE void visible(const struct attention_state *st, int j, int *a, int *b) {
    const int pos = st->args->pos[j / st->ratio];
    const int lo = attention_first(st->args, pos) - st->split, hi = pos + 1 - st->split;
    *a = lo < 0 ? 0 : lo > ATTENTION_SPLIT ? ATTENTION_SPLIT : lo;
    *b = hi < *a ? *a : hi > ATTENTION_SPLIT ? ATTENTION_SPLIT : hi;
}

// 16 elements; int4: the low halves of 16 bytes.
INLINE v16 load_kv(const uint8_t *at, enum kv_type type) {
    return type == KV_F32    ? v_load((const float *)at)
           : type == KV_F16  ? v_load_f16((const uint16_t *)at)
           : type == KV_INT8 ? v_load_i8((const int8_t *)at)
                             : v_load_i4(at, false);
}

// Bytes of n elements, n even.
INLINE int64_t kv_bytes(int64_t n, enum kv_type type) {
    return type == KV_F32 ? n * 4 : type == KV_F16 ? n * 2 : type == KV_INT8 ? n : n / 2;
}

INLINE void prefetch(const uint8_t *at) { __builtin_prefetch(at, 0, 2); } // into the core's L2

static void prefetch_lines(const uint8_t *at, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i += LINE) prefetch(at + i);
}

// Calls block with a constant number of queries; the kernels unroll over it.
#define FOR_QUERIES(most, n, block)                                                                \
    switch (n) {                                                                                   \
    case 1:                                                                                        \
        block(1);                                                                                  \
        break;                                                                                     \
    case 2:                                                                                        \
        block(2);                                                                                  \
        break;                                                                                     \
    case 3:                                                                                        \
        if ((most) >= 3) block(3);                                                                 \
        break;                                                                                     \
    case 4:                                                                                        \
        if ((most) >= 4) block(4);                                                                 \
        break;                                                                                     \
    case 5:                                                                                        \
        if ((most) >= 5) block(5);                                                                 \
        break;                                                                                     \
    case 6:                                                                                        \
        if ((most) >= 6) block(6);                                                                 \
        break;                                                                                     \
    case 7:                                                                                        \
        if ((most) >= 7) block(7);                                                                 \
        break;                                                                                     \
    case 8:                                                                                        \
        if ((most) >= 8) block(8);                                                                 \
        break;                                                                                     \
    }

// ---------------------------------------------------------------- scores

// What is prefetched while a page is scored: the same rows of `at`, one of `every`.
struct coming {
    const uint8_t *at;
    int every;
};

// n queries against vecs vectors of tokens of a page's keys, s being their scores. Meanwhile next
// is prefetched, next_bytes for each element of the head; 0: nothing is. tile: where the keys go as
// f32; NULL: nowhere.
INLINE void score_block(const uint8_t *k, enum kv_type type, int next_bytes, int dim,
                        const float *q, int n, int vecs, float *s, struct coming next,
                        float *tile) {
    const int64_t row_bytes = kv_bytes(KV_PAGE_TOKENS, type);
    v16 acc[ATTENTION_BLOCK][2];
    for (int j = 0; j < n; j++)
        for (int i = 0; i < vecs; i++) acc[j][i] = v_set(0);
    for (int d = 0, wait = 0; d < dim; d++) {
        const int64_t at = d * row_bytes;
        v16 x[2];
        for (int i = 0; i < vecs; i++) x[i] = load_kv(k + at + i * row_bytes / 2, type);
        for (int i = 0; tile && i < vecs; i++) v_store(tile + d * KV_PAGE_TOKENS + i * 16, x[i]);
        if (next_bytes && wait-- == 0) {
            prefetch(next.at + (int64_t)d * next_bytes);
            if (next_bytes > LINE) prefetch(next.at + (int64_t)d * next_bytes + LINE);
            wait = next.every - 1;
        }
        for (int j = 0; j < n; j++) {
            const v16 qj = v_set(q[(int64_t)j * dim + d]);
            for (int i = 0; i < vecs; i++) acc[j][i] = v_fma(qj, x[i], acc[j][i]);
        }
    }
    for (int j = 0; j < n; j++)
        for (int i = 0; i < vecs; i++) v_store(s + j * ATTENTION_SPLIT + i * 16, acc[j][i]);
}

INLINE void score_page(const uint8_t *k, enum kv_type type, int next_bytes, int dim, const float *q,
                       int n, float *s, struct coming next, float *tile) {
    for (int i = 0; i < 2; i += SCORE_VECS)
        score_block(k + i * kv_bytes(16, type), type, next_bytes, dim, q, n, SCORE_VECS, s + i * 16,
                    next, tile ? tile + i * 16 : NULL);
}

typedef void (*score_fn)(const uint8_t *k, int dim, const float *q, int n, float *s,
                         struct coming next, float *tile);

#define SCORE(name)                                                                                \
    static void score_##name(const uint8_t *k, int dim, const float *q, int n, float *s,           \
                             struct coming next, float *tile) {                                    \
        (void)tile;                                                                                \
        FOR_QUERIES(SCORE_QUERIES, n, SCORE_##name)                                                \
    }
#define SCORE_f32(c)       score_page(k, KV_F32, 4 * KV_PAGE_TOKENS, dim, q, c, s, next, NULL)
#define SCORE_f16(c)       score_page(k, KV_F16, 2 * KV_PAGE_TOKENS, dim, q, c, s, next, NULL)
#define SCORE_converted(c) score_page(k, KV_F32, 0, dim, q, c, s, next, NULL)
SCORE(f32)
SCORE(f16)
SCORE(converted)

// The same for codes: a block of elements [d0, d1), d0 < d1, which share a scale; q and zero are
// the queries'. A vector of keys is a line: 4 elements of 16 tokens, or 8. The block is added to
// sum.
INLINE void score_codes(const uint8_t *k, enum kv_type type, const uint16_t *scale, int d0, int d1,
                        const int8_t *q, int64_t ldq, const int32_t *zero, int n_block, int n,
                        int vecs, v16 (*sum)[2], struct coming next) {
    const int step = type == KV_INT4 ? 8 : 4;
    int64_t at = (int64_t)(d0 / step) * KV_PAGE_TOKENS * 4;
    i16 acc[ATTENTION_BLOCK][2];
    v16 by[2];
    for (int j = 0; j < n; j++)
        for (int i = 0; i < vecs; i++) acc[j][i] = i_set(zero[j * n_block]);
    int d = d0, wait = 0;
    do { // at least once: then the compiler keeps the sums in registers
        i16 x[2];
        for (int i = 0; i < vecs; i++) x[i] = i_load(k + at + i * LINE);
        if (next.at && wait-- == 0) {
            for (int i = 0; i < vecs; i++) prefetch(next.at + at + i * LINE);
            wait = next.every - 1;
        }
        for (int j = 0; j < n; j++) {
            int32_t four[2];
            memcpy(four, q + j * ldq + d, type == KV_INT4 ? 8 : 4);
            for (int i = 0; i < vecs; i++)
                acc[j][i] = type == KV_INT4 ? i_dot4(acc[j][i], i_low(x[i]), i_set(four[0]))
                                            : i_dot8(acc[j][i], x[i], i_set(four[0]));
            for (int i = 0; type == KV_INT4 && i < vecs; i++)
                acc[j][i] = i_dot4(acc[j][i], i_high(x[i]), i_set(four[1]));
        }
        d += step, at += KV_PAGE_TOKENS * 4;
    } while (d < d1);
    for (int i = 0; i < vecs; i++) by[i] = v_load_f16(scale + i * 16);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < vecs; i++) sum[j][i] = v_fma(i_float(acc[j][i]), by[i], sum[j][i]);
}

INLINE void codes_page(const struct attention_state *st, const uint8_t *page, enum kv_type type,
                       int first, int n, float *s, struct coming next) {
    const int dim = st->args->dim_k, block = st->layout.block_k;
    const int n_block = (dim + block - 1) / block;
    const int8_t *q = st->q_code + (int64_t)first * st->padded_k;
    const int32_t *zero = st->q_zero + (int64_t)first * n_block;
    for (int t = 0; t < KV_PAGE_TOKENS; t += 16 * SCORE_VECS) {
        const uint16_t *scale = (const uint16_t *)(page + st->layout.scale_k) + t;
        v16 sum[ATTENTION_BLOCK][2];
        for (int j = 0; j < n; j++)
            for (int i = 0; i < SCORE_VECS; i++) sum[j][i] = v_set(0);
        int d = 0, b = 0;
        do {
            score_codes(page + t * 4, type, scale + b * KV_PAGE_TOKENS, d,
                        d + block < dim ? d + block : dim, q, st->padded_k, zero + b, n_block, n,
                        SCORE_VECS, sum,
                        (struct coming){next.at ? next.at + t * 4 : NULL, next.every});
            d += block, b++;
        } while (d < dim);
        for (int j = 0; j < n; j++)
            for (int i = 0; i < SCORE_VECS; i++)
                v_store(s + j * ATTENTION_SPLIT + t + i * 16,
                        v_mul(sum[j][i], v_set(st->q_scale[first + j])));
    }
}

typedef void (*codes_fn)(const struct attention_state *st, const uint8_t *page, int first, int n,
                         float *s, struct coming next);

#define CODES(name)                                                                                \
    static void codes_##name(const struct attention_state *st, const uint8_t *page, int first,     \
                             int n, float *s, struct coming next) {                                \
        FOR_QUERIES(SCORE_QUERIES, n, CODES_##name)                                                \
    }
#define CODES_int8(c) codes_page(st, page, KV_INT8, first, c, s, next)
#define CODES_int4(c) codes_page(st, page, KV_INT4, first, c, s, next)
CODES(int8)
CODES(int4)

INLINE void key_convert(const struct attention_state *st, int page, enum kv_type type) {
    const uint8_t *k = st->page[page], *next = k + st->layout.v;
    const int64_t n = (int64_t)st->args->dim_k * KV_PAGE_TOKENS;
    float *y = st->key + page * n;
    for (int64_t i = 0; i < n; i += PANEL) {
        const int64_t at = kv_bytes(i, type);
        prefetch(next + at);
        if (kv_bytes(PANEL, type) > LINE) prefetch(next + at + LINE);
        v_store(y + i, load_kv(k + at, type));
        v_store(y + i + 16, load_kv(k + at + kv_bytes(16, type), type));
    }
}

// Queries [first, first + n): one block.
static void block_scores(const struct attention_state *st, bool convert, int first, int n) {
    const int dim = st->args->dim_k;
    const bool is_coded = st->layout.is_coded;
    const codes_fn codes = st->args->type == KV_INT8 ? codes_int8 : codes_int4;
    const score_fn f = convert ? score_converted : st->args->type == KV_F16 ? score_f16 : score_f32;
    int a, b; // rows ascend, so the block's last query sees furthest
    visible(st, first + n - 1, &a, &b);
    for (int page = st->page_a; page * KV_PAGE_TOKENS < b; page++) {
        const uint8_t *raw = st->page[page], *next = raw + st->layout.v;
        const uint8_t *k =
            convert ? (const uint8_t *)(st->key + (int64_t)page * dim * KV_PAGE_TOKENS) : raw;
        prefetch_lines(raw, st->layout.scale_v, st->layout.bytes);
        for (int j = 0; j < n; j += SCORE_QUERIES) {
            const int m = n - j < SCORE_QUERIES ? n - j : SCORE_QUERIES;
            float *s = st->score + j * ATTENTION_SPLIT + page * KV_PAGE_TOKENS;
            if (is_coded)
                codes(st, raw, first + j, m, s, (struct coming){convert ? NULL : next, 1});
            else
                f(k, dim, st->q + (int64_t)(first + j) * dim, m, s, (struct coming){next, 1}, NULL);
        }
    }
}

// ---------------------------------------------------------------- softmax

// Scores of query j, scaled and capped, in place; their maximum.
INLINE float softmax_top(const struct attention_state *st, float *s, int j, bool capped) {
    const v16 scale = v_set(st->args->scale), cap = v_set(st->args->softcap);
    const v16 none = v_set(-INFINITY);
    v16 m = none;
    int a, b;
    visible(st, j, &a, &b);
    for (int t = a / 16 * 16; t < b; t += 16) {
        v16 x = v_mul(v_load(s + t), scale);
        if (capped) x = v_mul(cap, v_tanh(v_div(x, cap)));
        if (a > t || b < t + 16) x = v_lanes(x, a - t, b - t, none);
        m = v_max(x, m);
        v_store(s + t, x);
    }
    return v_fold_max(m);
}

// To probabilities, in place; their sum.
INLINE float softmax_exp(const struct attention_state *st, float *s, int j, float m) {
    const v16 top = v_set(m);
    v16 lane = v_set(0);
    int a, b;
    visible(st, j, &a, &b);
    for (int t = a / 16 * 16; t < b; t += 16) {
        v16 p = v_exp(v_sub(v_load(s + t), top));
        if (a > t || b < t + 16) p = v_lanes(p, a - t, b - t, v_set(0));
        lane = v_add(lane, p);
        v_store(s + t, p);
    }
    return v_fold_add(lane);
}

// Queries [first, first + n): one block. All maxima before all exponentials, so that no query waits
// for its own.
static void block_softmax(const struct attention_state *st, int first, int n) {
    float *m = st->part.m + first, *l = st->part.l + first;
    if (st->args->softcap > 0)
        for (int j = 0; j < n; j++)
            m[j] = softmax_top(st, st->score + j * ATTENTION_SPLIT, first + j, true);
    else
        for (int j = 0; j < n; j++)
            m[j] = softmax_top(st, st->score + j * ATTENTION_SPLIT, first + j, false);
    for (int j = 0; j < n; j++)
        l[j] = softmax_exp(st, st->score + j * ATTENTION_SPLIT, first + j, m[j]);
}

// ---------------------------------------------------------------- values

// Where the values of a split are: in the pages, or converted.
struct value_source {
    const uint8_t *at[ATTENTION_SPLIT_PAGES];
    const uint8_t *next[ATTENTION_SPLIT_PAGES]; // prefetched meanwhile
    int64_t stride;                             // bytes from token to token
};

// Which tokens of the split, and which elements of the head.
struct value_range {
    int t0, t1, d0, d1;
};

// o[j] += p[j][t] * v[t] for tokens [t0, t1) of the split, n queries, vecs vectors of elements that
// start `skip` bytes after the source. With high it is the second vector of a block of int4. With
// stream, next is prefetched from skip_next on, a line for a line.
INLINE void value_block(const struct value_source *v, enum kv_type type, bool stream, bool high,
                        int64_t skip, int64_t skip_next, int t0, int t1, const float *p, int n,
                        int vecs, float *o, int64_t ldo) {
    const int64_t bytes = kv_bytes(vecs * 16, type);
    v16 acc[ATTENTION_BLOCK][2];
    for (int j = 0; j < n; j++)
        for (int i = 0; i < vecs; i++) acc[j][i] = v_load(o + j * ldo + i * 16);
    for (int t = t0; t < t1;) {
        const int page = t / KV_PAGE_TOKENS, from = t % KV_PAGE_TOKENS;
        const int rest = t1 - t, n_here = KV_PAGE_TOKENS - from;
        const int t_end = t + (rest < n_here ? rest : n_here);
        const uint8_t *at = v->at[page] + skip + from * v->stride;
        const uint8_t *next = stream ? v->next[page] + skip_next + from * bytes : NULL;
        for (; t < t_end; t++, at += v->stride) {
            v16 x[2];
            x[0] = type == KV_INT4 && high ? v_load_i4(at, true) : load_kv(at, type);
            if (vecs == 2)
                x[1] = type == KV_INT4 ? v_load_i4(at, true) : load_kv(at + bytes / 2, type);
            if (stream && t * bytes % LINE == 0) prefetch(next);
            if (stream && bytes > LINE) prefetch(next + LINE);
            if (stream) next += bytes;
            for (int j = 0; j < n; j++) {
                const v16 pj = v_set(p[j * ATTENTION_SPLIT + t]);
                for (int i = 0; i < vecs; i++) acc[j][i] = v_fma(pj, x[i], acc[j][i]);
            }
        }
    }
    for (int j = 0; j < n; j++)
        for (int i = 0; i < vecs; i++) v_store(o + j * ldo + i * 16, acc[j][i]);
}

// In the pages.
INLINE void value_pages(const struct value_source *v, enum kv_type type, struct value_range r,
                        const float *p, int n, float *o, int64_t ldo) {
#define BLOCK(vecs, high)                                                                          \
    value_block(v, type, true, high, kv_bytes(type == KV_INT4 ? d / 32 * 32 : d, type),            \
                kv_bytes(d *KV_PAGE_TOKENS, type), r.t0, r.t1, p, n, vecs, o + d, ldo)
    int d = r.d0;
    for (; d + 16 * VALUE_VECS(n) <= r.d1; d += 16 * VALUE_VECS(n)) {
        if (type == KV_INT4 && VALUE_VECS(n) == 1 && d % 32)
            BLOCK(1, true);
        else
            BLOCK(VALUE_VECS(n), false);
    }
    if (d < r.d1) BLOCK(1, false);
#undef BLOCK
}

// In panels.
INLINE void value_panels(const struct value_source *v, struct value_range r, const float *p, int n,
                         float *o, int64_t ldo) {
    for (int d = r.d0; d < r.d1;) {
        const int64_t at = ((int64_t)(d / PANEL) * ATTENTION_SPLIT * PANEL + d % PANEL) * 4;
        const int vecs = d + 16 * VALUE_VECS(n) <= r.d1 ? VALUE_VECS(n) : 1;
        if (vecs == VALUE_VECS(n))
            value_block(v, KV_F32, false, false, at, 0, r.t0, r.t1, p, n, VALUE_VECS(n), o + d,
                        ldo);
        else
            value_block(v, KV_F32, false, false, at, 0, r.t0, r.t1, p, n, 1, o + d, ldo);
        d += 16 * vecs;
    }
}

typedef void (*value_fn)(const struct value_source *v, struct value_range r, const float *p, int n,
                         float *o, int64_t ldo);

#define VALUE(name)                                                                                \
    static void value_##name(const struct value_source *v, struct value_range r, const float *p,   \
                             int n, float *o, int64_t ldo) {                                       \
        FOR_QUERIES(VALUE_QUERIES, n, VALUE_##name)                                                \
    }
#define VALUE_f32(c)       value_pages(v, KV_F32, r, p, c, o, ldo)
#define VALUE_f16(c)       value_pages(v, KV_F16, r, p, c, o, ldo)
#define VALUE_int8(c)      value_pages(v, KV_INT8, r, p, c, o, ldo)
#define VALUE_int4(c)      value_pages(v, KV_INT4, r, p, c, o, ldo)
#define VALUE_converted(c) value_panels(v, r, p, c, o, ldo)
VALUE(f32)
VALUE(f16)
VALUE(int8)
VALUE(int4)
VALUE(converted)

// n: elements of the row from here on. Those past its end become zeros; rows of codes are padded.
INLINE v16 value_load(const uint8_t *at, int n, enum kv_type type) {
    if (n <= 0) return v_set(0);
    if (n >= 16 || type == KV_INT8 || type == KV_INT4) return load_kv(at, type);
    return type == KV_F16 ? v_load_f16_part((const uint16_t *)at, n)
                          : v_load_part((const float *)at, n);
}

INLINE void value_convert(const struct attention_state *st, int page, enum kv_type type) {
    const int dim = st->args->dim_v;
    const int64_t bytes = kv_bytes(PANEL, type);
    const uint8_t *v = st->page[page] + st->layout.v, *next = st->coming[page];
    for (int t = 0; t < KV_PAGE_TOKENS; t++, v += st->layout.row_v) {
        float *y = st->value + (int64_t)(page * KV_PAGE_TOKENS + t) * PANEL;
        const int64_t row = t * (int64_t)st->layout.row_v;
        for (int d = 0; d < dim; d += PANEL, y += ATTENTION_SPLIT * PANEL) {
            const uint8_t *at = v + kv_bytes(d, type);
            prefetch(next + row + kv_bytes(d, type));
            if (bytes > LINE) prefetch(next + row + kv_bytes(d, type) + LINE);
            v_store(y, value_load(at, dim - d, type));
            v_store(y + 16, type == KV_INT4 ? v_load_i4(at, true)
                                            : value_load(at + bytes / 2, dim - d - 16, type));
        }
    }
}

static void source_init(const struct attention_state *st, bool convert, struct value_source *v) {
    v->stride = convert ? PANEL * (int64_t)sizeof(float) : st->layout.row_v;
    for (int page = st->page_a; page < st->page_b; page++) {
        const float *converted = st->value + page * KV_PAGE_TOKENS * PANEL;
        v->at[page] = convert ? (const uint8_t *)converted : st->page[page] + st->layout.v;
        v->next[page] = st->coming[page];
    }
}

// The probabilities of query j times the scales of the values' block at element d.
INLINE void weigh(const struct attention_state *st, int j, int d, const float *p, float *weight) {
    const struct kv_layout *layout = &st->layout;
    int a, b;
    visible(st, j, &a, &b);
    for (int t = a / 16 * 16; t < b; t += 16) {
        const uint8_t *page = st->page[t / KV_PAGE_TOKENS];
        const uint16_t *scale = (const uint16_t *)(page + layout->scale_v) +
                                d / layout->block_v * KV_PAGE_TOKENS + t % KV_PAGE_TOKENS;
        v_store(weight + t, v_mul(v_load(p + t), v_load_f16(scale)));
    }
}

// Elements [d0, d1) of queries [first, first + n): one block, whose weights are p and sums are o.
// Rows ascend, and so do the ends of the queries' visible ranges: tokens are added from end to end,
// each time to the queries that see them, which are neighbours.
static void block_tokens(const struct attention_state *st, const struct value_source *v,
                         value_fn add, int first, int n, int d0, int d1, const float *p, float *o) {
    const int padded = st->padded_v;
    int a[VALUE_QUERIES], b[VALUE_QUERIES];
    for (int j = 0; j < n; j++) visible(st, first + j, &a[j], &b[j]);
    for (int t = a[0], x = 0, y = 0; x < n;) {
        while (y < n && a[y] <= t) y++;
        const int end = y < n && a[y] < b[x] ? a[y] : b[x];
        if (x < y) // otherwise no query sees the keys between
            add(v, (struct value_range){t, end, d0, d1}, p + x * ATTENTION_SPLIT, y - x,
                o + (int64_t)x * padded, padded);
        t = end;
        while (x < n && b[x] <= t) x++;
    }
}

// Queries [first, first + n): one block.
static void block_values(const struct attention_state *st, const struct value_source *v,
                         value_fn add, int first, int n) {
    const struct kv_layout *layout = &st->layout;
    const float *p = layout->is_coded ? st->weight : st->score;
    const int padded = st->padded_v;
    float *o = st->part.o + (int64_t)first * padded;
    memset(o, 0, (size_t)n * (size_t)padded * sizeof(float));
    for (int d = 0; d < st->args->dim_v; d += layout->block_v) {
        const int d1 = d + layout->block_v < st->args->dim_v ? d + layout->block_v : padded;
        for (int j = 0; layout->is_coded && j < n; j++)
            weigh(st, first + j, d, st->score + j * ATTENTION_SPLIT,
                  st->weight + j * ATTENTION_SPLIT);
        block_tokens(st, v, add, first, n, d, d1, p, o);
    }
}

// ---------------------------------------------------------------- splits

// Which queries see something of the split at st->split, and where its pages are.
static bool split_find(struct attention_state *st) {
    const struct attention_args *args = st->args;
    const int end = st->split + ATTENTION_SPLIT;
    int row_a = 0, row_b = args->n_rows;
    // Rows ascend: the first ones end before the split, the last ones begin (window) after it.
    while (row_a < row_b && args->pos[row_a] < st->split) row_a++;
    while (row_b > row_a && attention_first(args, args->pos[row_b - 1]) >= end) row_b--;
    st->first = row_a * st->ratio;
    st->end = row_b * st->ratio;
    if (row_a == row_b) return false;
    int lo = attention_first(args, args->pos[row_a]) - st->split;
    int hi = args->pos[row_b - 1] + 1 - st->split;
    lo = lo < 0 ? 0 : lo;
    hi = hi > ATTENTION_SPLIT ? ATTENTION_SPLIT : hi;
    st->page_a = lo / KV_PAGE_TOKENS;
    st->page_b = (hi + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
    return true;
}

// split_last: of this call. Pages of the next split that no query needs are not prefetched.
static void pages_find(struct attention_state *st, int split_last) {
    const struct attention_args *args = st->args;
    const int64_t index = st->split / KV_PAGE_TOKENS;
    const int64_t last = args->pos[args->n_rows - 1] / KV_PAGE_TOKENS;
    for (int page = st->page_a; page < st->page_b; page++) {
        const int64_t coming = index + page + ATTENTION_SPLIT_PAGES;
        const bool more = st->split < split_last && coming <= last;
        st->page[page] = attention_page(args, index + page);
        st->coming[page] = more ? attention_page(args, coming) : st->page[page];
    }
}

// Keys and values as f32, of codes the values alone; the next pages are prefetched.
static void split_convert(const struct attention_state *st) {
    for (int page = st->page_a; page < st->page_b; page++) {
        if (st->args->type == KV_F32) key_convert(st, page, KV_F32);
        if (st->args->type == KV_F16) key_convert(st, page, KV_F16);
    }
    for (int page = st->page_a; page < st->page_b; page++) {
        if (st->args->type == KV_F32) value_convert(st, page, KV_F32);
        if (st->args->type == KV_F16) value_convert(st, page, KV_F16);
        if (st->args->type == KV_INT8) value_convert(st, page, KV_INT8);
        if (st->args->type == KV_INT4) value_convert(st, page, KV_INT4);
    }
}

static void split_attend(struct attention_state *st, bool is_first, int split_last) {
    static const value_fn direct[KV_TYPE_COUNT] = {value_f32, value_f16, value_int8, value_int4};
    const struct kv_layout *layout = &st->layout;
    const bool is_padded = layout->is_coded || st->args->dim_v % 16 == 0;
    const bool convert = st->end - st->first > VALUE_QUERIES || !is_padded;
    const value_fn add = convert ? value_converted : direct[st->args->type];
    struct value_source v;
    pages_find(st, split_last);
    for (int page = st->page_a; page < st->page_b; page++) {
        if (is_first) prefetch_lines(st->page[page], 0, layout->v);
        prefetch_lines(st->coming[page], layout->scale_k, layout->v);
    }
    if (convert) split_convert(st);
    source_init(st, convert, &v);
    for (int j = st->first; j < st->end; j += VALUE_QUERIES) {
        const int n = st->end - j < VALUE_QUERIES ? st->end - j : VALUE_QUERIES;
        block_scores(st, convert, j, n);
        block_softmax(st, j, n);
        block_values(st, &v, add, j, n);
    }
}

#include "backend/cpu/latent_simd.h"

// The running sum and a split's part become one, for the queries that see something of the split.
static void split_fold(const struct attention_state *st, const struct attention_part *part) {
    const struct attention_part *sum = &st->sum;
    for (int first = st->first; first < st->end; first += 16) {
        const int n = st->end - first < 16 ? st->end - first : 16;
        float shrink[16], grow[16];
        const v16 m = row_load(part->m + first, n), old = row_load(sum->m + first, n);
        const v16 top = v_max(m, old), a = v_exp(v_sub(old, top)), b = v_exp(v_sub(m, top));
        v_store(shrink, a);
        v_store(grow, b);
        row_store(sum->m + first, top, n, false);
        const v16 l = v_mul(row_load(sum->l + first, n), a);
        row_store(sum->l + first, v_fma(row_load(part->l + first, n), b, l), n, false);
        for (int j = 0; j < n; j++) {
            float *o = sum->o + (int64_t)(first + j) * st->padded_v;
            const float *x = part->o + (int64_t)(first + j) * st->padded_v;
            for (int d = 0; d < st->padded_v; d += 16)
                v_store(o + d, v_fma(v_load(x + d), v_set(grow[j]),
                                     v_mul(v_load(o + d), v_set(shrink[j]))));
        }
    }
}

// ---------------------------------------------------------------- rows

// The sink's weight joins the total; the sums so far shrink by the result.
INLINE float sink_add(const struct attention_state *st, int j, float sink) {
    const float m = st->sum.m[j], top = sink > m ? sink : m;
    const float a = rmath_exp(m - top);
    st->sum.l[j] = fmaf(st->sum.l[j], a, rmath_exp(sink - top));
    return a;
}

static void query_finish(const struct attention_state *st, int j) {
    const struct attention_args *args = st->args;
    const int64_t head = args->head_kv * st->ratio + j % st->ratio;
    float *out = args->out + j / st->ratio * args->ldo + head * args->dim_v;
    float *sum = st->sum.o + (int64_t)j * st->padded_v;
    if (args->sinks) {
        const v16 a = v_set(sink_add(st, j, args->sinks[head]));
        for (int d = 0; d < st->padded_v; d += 16) v_store(sum + d, v_mul(v_load(sum + d), a));
    }
    const v16 total = v_set(st->sum.l[j]);
    FOR_ROW(args->dim_v, row_store(out + i, v_div(row_load(sum + i, m), total), m, false););
    if (!st->layout.is_latent || !st->layout.is_coded) return;
    // values are rotated keys: their sum is rotated back
    const int n_turn = kv_rotation_of(args->dim_k, args->dim_v, true);
    rotate(out, out, args->dim_v, n_turn, 1.0f / (float)n_turn);
}

// Query j as codes: rotated, one scale for all of them; see query_scale.
static void query_code(const struct attention_state *st, int j, int8_t *code, int32_t *zero,
                       float *scale) {
    const struct attention_args *args = st->args;
    const int dim = args->dim_k, block = st->layout.block_k;
    const float *q = args->q + j / st->ratio * args->ldq +
                     ((int64_t)args->head_kv * st->ratio + j % st->ratio) * dim;
    float x[KV_DIM_MAX], top, low, factor;
    const int n_turn = kv_rotation_of(dim, args->dim_v, args->is_latent);
    rotate(q, x, dim, n_turn, 1.0f / (float)n_turn);
    const bool is_finite = range_find(x, dim, &top, &low);
    *scale = query_scale(top > low ? top : low, is_finite, &factor);
    memset(code, 0, (size_t)st->padded_k);
    if (factor == 0.0f) memset(x, 0, (size_t)dim * sizeof *x);
    FOR_ROW(dim, v_store_i8(code + i, v_mul(row_load(x + i, m), v_set(factor))););
    for (int d = 0; d < dim; d += block) {
        int32_t sum = 0;
        for (int i = d; i < d + block && i < dim; i++) sum += code[i];
        zero[d / block] = -sum * (args->type == KV_INT8 ? DOT8_ZERO : DOT4_ZERO);
    }
}

// Where the queries are read: a row's heads are neighbours; heads of several rows are copied side
// by side. For coded keys they become codes.
static void queries_find(struct attention_state *st) {
    const struct attention_args *args = st->args;
    const int64_t row = (int64_t)st->ratio * args->dim_k, n = st->n_queries;
    const int n_block = (args->dim_k + st->layout.block_k - 1) / st->layout.block_k;
    const int padded = args->is_latent ? ATTENTION_CHUNK : PANEL;
    float *scratch = st->value + attention_padded(args->dim_v, padded) * ATTENTION_SPLIT;
    if (st->layout.is_coded) {
        int8_t *code = (int8_t *)scratch;
        int32_t *zero = (int32_t *)(code + n * st->padded_k);
        float *scale = (float *)(zero + n * n_block);
        for (int j = 0; j < n; j++)
            query_code(st, j, code + (int64_t)j * st->padded_k, zero + (int64_t)j * n_block,
                       scale + j);
        st->q_code = code, st->q_zero = zero, st->q_scale = scale;
    } else if (args->n_rows == 1) {
        st->q = args->q + args->head_kv * row;
    } else {
        for (int r = 0; r < args->n_rows; r++)
            memcpy(scratch + r * row, args->q + r * args->ldq + args->head_kv * row,
                   (size_t)row * sizeof(float));
        st->q = scratch;
    }
}

static struct attention_part part_at(const struct attention_state *st, float *at) {
    const int64_t n = st->n_queries;
    float *m = at + n * st->padded_v;
    return (struct attention_part){at, m, m + n};
}

static void state_init(struct attention_state *st, const struct attention_args *args,
                       float *scratch) {
    *st = (struct attention_state){.args = args};
    st->ratio = args->n_head / args->n_head_kv;
    st->n_queries = args->n_rows * st->ratio;
    st->padded_k = (int)attention_padded(args->dim_k, KV_BLOCK);
    st->padded_v = (int)attention_padded(args->dim_v, 16);
    st->layout = attention_layout(args);
    const int64_t part = attention_part_floats(st->n_queries, args->dim_v);
    st->sum = part_at(st, scratch);
    st->part = part_at(st, scratch + part);
    st->score = scratch + 2 * part;
    const int64_t n_scored = args->is_latent ? st->n_queries : 0; // of all queries, not a block's
    st->weight = st->score + (ATTENTION_BLOCK + n_scored) * ATTENTION_SPLIT;
    st->key = st->weight + ATTENTION_BLOCK * ATTENTION_SPLIT;
    st->value = st->key + (int64_t)args->dim_k * ATTENTION_SPLIT;
}

static void sum_init(const struct attention_state *st) {
    memset(st->sum.o, 0, (size_t)st->n_queries * (size_t)st->padded_v * sizeof(float));
    for (int j = 0; j < st->n_queries; j++) {
        st->sum.m[j] = -INFINITY;
        st->sum.l[j] = 0;
    }
}

// tiles: for a latent's int8 pages; NULL if there is none.
static void attention_run(const struct attention_args *args, float *scratch,
                          const struct latent_kernels *tiles) {
    struct attention_state st;
    state_init(&st, args, scratch);
    st.tiles = tiles;
    queries_find(&st);
    if (!args->parts) sum_init(&st);
    const int begin = args->parts ? args->split_begin : attention_split_begin(args);
    const int end = args->parts ? args->split_end : attention_split_end(args);
    bool is_first = true;
    for (int i = begin; i < end; i++) {
        st.split = i * ATTENTION_SPLIT;
        if (!split_find(&st)) continue;
        if (args->parts) st.part = part_at(&st, attention_part_at(args, i));
        if (args->is_latent)
            latent_attend(&st, is_first, (end - 1) * ATTENTION_SPLIT);
        else
            split_attend(&st, is_first, (end - 1) * ATTENTION_SPLIT);
        if (!args->parts) split_fold(&st, &st.part);
        is_first = false;
    }
    for (int j = 0; !args->parts && j < st.n_queries; j++) query_finish(&st, j);
}

static void simd_attention(const struct attention_args *args, float *scratch) {
    attention_run(args, scratch, NULL);
}

static void simd_attention_fold(const struct attention_args *args, float *scratch) {
    struct attention_state st;
    state_init(&st, args, scratch);
    sum_init(&st);
    for (int i = attention_split_begin(args); i < attention_split_end(args); i++) {
        st.split = i * ATTENTION_SPLIT;
        if (!split_find(&st)) continue;
        const struct attention_part part = part_at(&st, attention_part_at(args, i));
        split_fold(&st, &part);
    }
    for (int j = 0; j < st.n_queries; j++) query_finish(&st, j);
}
