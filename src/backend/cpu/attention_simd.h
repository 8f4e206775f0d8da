// Attention over the abstract vector of ops_simd.h, which includes this. A query is one head of one
// row; all queries of a call share each page: a page's keys are read once per block of queries
// (lane = token), its values likewise (lane = head element), and an f16 page is converted once when
// more than one block reads it.
//
// Masked positions never enter: scores of masked lanes are replaced before the maximum and after
// the exponential, and values are added over each query's visible range only.

struct attention_state {
    const struct attention_args *args;
    int ratio, n_queries, padded_v;
    int split;          // position of the split's first token
    int row_a, row_b;   // rows that see something of the split
    float *score;       // [n_queries, ATTENTION_SPLIT]
    float *part, *sum;  // [n_queries, padded_v]: o of the split, O so far
    float *m, *l;       // [n_queries]: of the split
    float *top, *total; // [n_queries]: M, L
    float *page;        // a page converted to f32
};

INLINE const float *query_at(const struct attention_state *st, int j) {
    const struct attention_args *args = st->args;
    const int64_t head = args->head_kv * st->ratio + j % st->ratio;
    return args->q + j / st->ratio * args->ldq + head * args->dim_k;
}

// The part of [split + from, split + from + n) that query j sees, relative to its begin.
INLINE void visible(const struct attention_state *st, int j, int from, int n, int *a, int *b) {
    const int pos = st->args->pos[j / st->ratio], begin = st->split + from;
    const int lo = attention_first(st->args, pos) - begin, hi = pos + 1 - begin;
    *a = lo < 0 ? 0 : lo > n ? n : lo;
    *b = hi < *a ? *a : hi > n ? n : hi;
}

INLINE v16 load_kv(const void *at, int64_t index, bool half) {
    return half ? v_load_f16((const uint16_t *)at + index) : v_load((const float *)at + index);
}

// Scores of n queries against the 32 tokens of a page; next is prefetched meanwhile (may be NULL).
INLINE void score_block(const void *k, bool half, int dim, const float *const *q, int n, float *s,
                        const char *next) {
    v16 acc[4][2]; // SCORE_QUERIES of them in use at most
    for (int j = 0; j < n; j++) acc[j][0] = acc[j][1] = v_set(0);
    for (int d = 0; d < dim; d++) {
        const int64_t at = (int64_t)d * KV_PAGE_TOKENS;
        const v16 k0 = load_kv(k, at, half), k1 = load_kv(k, at + 16, half);
        if (next) __builtin_prefetch(next + at * (half ? 2 : 4));
        if (next && !half) __builtin_prefetch(next + at * 4 + 64);
        for (int j = 0; j < n; j++) {
            const v16 x = v_set(q[j][d]);
            acc[j][0] = v_fma(x, k0, acc[j][0]);
            acc[j][1] = v_fma(x, k1, acc[j][1]);
        }
    }
    for (int j = 0; j < n; j++) {
        v_store(s + j * ATTENTION_SPLIT, acc[j][0]);
        v_store(s + j * ATTENTION_SPLIT + 16, acc[j][1]);
    }
}

static void score_queries(const struct attention_state *st, const void *k, bool half, int page,
                          int first, int n, const char *next) {
    const float *q[4];
    for (int j = 0; j < n; j++) q[j] = query_at(st, first + j);
    float *s = st->score + (int64_t)first * ATTENTION_SPLIT + page * KV_PAGE_TOKENS;
    const int dim = st->args->dim_k;
    if (half) {
        if (n == 4) score_block(k, true, dim, q, 4, s, next);
        if (n == 3) score_block(k, true, dim, q, 3, s, next);
        if (n == 2) score_block(k, true, dim, q, 2, s, next);
        if (n == 1) score_block(k, true, dim, q, 1, s, next);
    } else {
        if (n == 4) score_block(k, false, dim, q, 4, s, next);
        if (n == 3) score_block(k, false, dim, q, 3, s, next);
        if (n == 2) score_block(k, false, dim, q, 2, s, next);
        if (n == 1) score_block(k, false, dim, q, 1, s, next);
    }
}

// o[j] += p[j][t] * v[t] for tokens [t0, t1), n queries, the vecs vectors of elements from d on;
// rest: elements of a last, partial vector (vecs is 1), 0: whole.
INLINE void value_block(const void *v, bool half, int dim, int t0, int t1, const float *p, int n,
                        float *o, int64_t ldo, int d, int vecs, int rest, const char *next) {
    v16 acc[4][4]; // VALUE_QUERIES, VALUE_VECS
    for (int j = 0; j < n; j++)
        for (int i = 0; i < vecs; i++) acc[j][i] = v_load(o + j * ldo + d + i * 16);
    for (int t = t0; t < t1; t++) {
        const int64_t at = (int64_t)t * dim + d;
        v16 x[4];
        for (int i = 0; i < vecs; i++) {
            if (!rest)
                x[i] = load_kv(v, at + i * 16, half);
            else if (half)
                x[i] = v_load_f16_part((const uint16_t *)v + at, rest);
            else
                x[i] = v_load_part((const float *)v + at, rest);
            if (next) __builtin_prefetch(next + (at + i * 16) * (half ? 2 : 4));
        }
        for (int j = 0; j < n; j++) {
            const v16 pj = v_set(p[j * ATTENTION_SPLIT + t]);
            for (int i = 0; i < vecs; i++) acc[j][i] = v_fma(pj, x[i], acc[j][i]);
        }
    }
    for (int j = 0; j < n; j++)
        for (int i = 0; i < vecs; i++) v_store(o + j * ldo + d + i * 16, acc[j][i]);
}

INLINE void value_elements(const void *v, bool half, int dim, int t0, int t1, const float *p, int n,
                           float *o, int64_t ldo, const char *next) {
    int d = 0;
    for (; d + 16 * VALUE_VECS(n) <= dim; d += 16 * VALUE_VECS(n))
        value_block(v, half, dim, t0, t1, p, n, o, ldo, d, VALUE_VECS(n), 0, next);
    for (; d + 16 <= dim; d += 16) value_block(v, half, dim, t0, t1, p, n, o, ldo, d, 1, 0, next);
    if (d < dim) value_block(v, half, dim, t0, t1, p, n, o, ldo, d, 1, dim - d, next);
}

// Queries [first, first + n), which all see tokens [t0, t1) of the page.
static void value_queries(const struct attention_state *st, const void *v, bool half, int page,
                          int t0, int t1, int first, int n, const char *next) {
    if (t0 >= t1) return;
    const float *p = st->score + (int64_t)first * ATTENTION_SPLIT + page * KV_PAGE_TOKENS;
    float *o = st->part + (int64_t)first * st->padded_v;
    const int dim = st->args->dim_v, ldo = st->padded_v;
    if (half) {
        if (n == 4) value_elements(v, true, dim, t0, t1, p, 4, o, ldo, next);
        if (n == 3) value_elements(v, true, dim, t0, t1, p, 3, o, ldo, next);
        if (n == 2) value_elements(v, true, dim, t0, t1, p, 2, o, ldo, next);
        if (n == 1) value_elements(v, true, dim, t0, t1, p, 1, o, ldo, next);
    } else {
        if (n == 4) value_elements(v, false, dim, t0, t1, p, 4, o, ldo, next);
        if (n == 3) value_elements(v, false, dim, t0, t1, p, 3, o, ldo, next);
        if (n == 2) value_elements(v, false, dim, t0, t1, p, 2, o, ldo, next);
        if (n == 1) value_elements(v, false, dim, t0, t1, p, 1, o, ldo, next);
    }
}

// A block whose queries see different ranges: what they all see together, before and after it each
// query alone, so that every query adds its tokens in ascending order.
static void value_ranges(const struct attention_state *st, const void *v, bool half, int page,
                         int first, int n, const char *next) {
    int a[VALUE_QUERIES], b[VALUE_QUERIES], lo = 0, hi = KV_PAGE_TOKENS;
    for (int j = 0; j < n; j++) {
        visible(st, first + j, page * KV_PAGE_TOKENS, KV_PAGE_TOKENS, &a[j], &b[j]);
        lo = a[j] > lo ? a[j] : lo;
        hi = b[j] < hi ? b[j] : hi;
    }
    if (lo >= hi) {
        for (int j = 0; j < n; j++)
            value_queries(st, v, half, page, a[j], b[j], first + j, 1, next);
        return;
    }
    for (int j = 0; j < n; j++) value_queries(st, v, half, page, a[j], lo, first + j, 1, NULL);
    value_queries(st, v, half, page, lo, hi, first, n, next);
    for (int j = 0; j < n; j++) value_queries(st, v, half, page, hi, b[j], first + j, 1, NULL);
}

// An f16 page as f32, or the page itself when few queries read it. n elements, whole vectors.
static const void *page_f32(const struct attention_state *st, const void *page, int n, int blocks,
                            bool *half) {
    *half = st->args->type == KV_F16;
    if (!*half || blocks < 2) return page;
    for (int i = 0; i < n; i += 16) v_store(st->page + i, v_load_f16((const uint16_t *)page + i));
    *half = false;
    return st->page;
}

// Pages [page_a, page_b) of the split hold what its rows see.
static void split_scores(const struct attention_state *st, int page_a, int page_b) {
    const int first = st->row_a * st->ratio, end = st->row_b * st->ratio;
    const int blocks = (end - first + SCORE_QUERIES - 1) / SCORE_QUERIES;
    const int64_t index = st->split / KV_PAGE_TOKENS;
    for (int page = page_a; page < page_b; page++) {
        bool half;
        const void *raw = attention_page(st->args, index + page);
        const void *k = page_f32(st, raw, st->args->dim_k * KV_PAGE_TOKENS, blocks, &half);
        const bool more = page + 1 < page_b && blocks == 1;
        const char *next = more ? (const char *)attention_page(st->args, index + page + 1) : NULL;
        for (int j = first; j < end; j += SCORE_QUERIES) {
            const int n = end - j < SCORE_QUERIES ? end - j : SCORE_QUERIES;
            int a, b; // rows ascend, so the block's last query sees furthest
            visible(st, j + n - 1, page * KV_PAGE_TOKENS, KV_PAGE_TOKENS, &a, &b);
            if (b > 0) score_queries(st, k, half, page, j, n, next);
        }
    }
}

static void split_values(const struct attention_state *st, int page_a, int page_b) {
    const int first = st->row_a * st->ratio, end = st->row_b * st->ratio;
    const int blocks = (end - first + VALUE_QUERIES - 1) / VALUE_QUERIES;
    const int64_t index = st->split / KV_PAGE_TOKENS;
    const int64_t k_bytes =
        (int64_t)st->args->dim_k * KV_PAGE_TOKENS * (st->args->type == KV_F16 ? 2 : 4);
    memset(st->part + (int64_t)first * st->padded_v, 0,
           (size_t)(end - first) * (size_t)st->padded_v * sizeof(float));
    for (int page = page_a; page < page_b; page++) {
        bool half;
        const void *raw = attention_page(st->args, index + page) + k_bytes;
        const void *v = page_f32(st, raw, st->args->dim_v * KV_PAGE_TOKENS, blocks, &half);
        const bool more = page + 1 < page_b && blocks == 1;
        const char *next =
            more ? (const char *)attention_page(st->args, index + page + 1) + k_bytes : NULL;
        for (int j = first; j < end; j += VALUE_QUERIES)
            value_ranges(st, v, half, page, j, end - j < VALUE_QUERIES ? end - j : VALUE_QUERIES,
                         next);
    }
}

// Scores to probabilities, in place; m and l of the split.
static void split_softmax(const struct attention_state *st, int j) {
    float *s = st->score + (int64_t)j * ATTENTION_SPLIT;
    const float scale = st->args->scale, cap = st->args->softcap;
    int a, b;
    visible(st, j, 0, ATTENTION_SPLIT, &a, &b);
    const v16 none = v_set(-INFINITY);
    v16 m = none, lane = v_set(0);
    for (int t = a / 16 * 16; t < b; t += 16) {
        v16 x = v_mul(v_load(s + t), v_set(scale));
        if (cap > 0) x = v_mul(v_set(cap), v_tanh(v_div(x, v_set(cap))));
        if (a > t || b < t + 16) x = v_lanes(x, a - t, b - t, none);
        m = v_max(x, m);
        v_store(s + t, x);
    }
    st->m[j] = v_fold_max(m);
    const v16 top = v_set(st->m[j]);
    for (int t = a / 16 * 16; t < b; t += 16) {
        v16 p = v_exp(v_sub(v_load(s + t), top));
        if (a > t || b < t + 16) p = v_lanes(p, a - t, b - t, v_set(0));
        lane = v_add(lane, p);
        v_store(s + t, p);
    }
    st->l[j] = v_fold_add(lane);
}

static void split_merge(const struct attention_state *st, int j) {
    const float m = st->m[j], old = st->top[j], top = m > old ? m : old;
    const float a = rmath_exp(old - top), b = rmath_exp(m - top);
    st->top[j] = top;
    st->total[j] = fmaf(st->l[j], b, st->total[j] * a);
    float *sum = st->sum + (int64_t)j * st->padded_v;
    const float *part = st->part + (int64_t)j * st->padded_v;
    for (int d = 0; d < st->padded_v; d += 16)
        v_store(sum + d, v_fma(v_load(part + d), v_set(b), v_mul(v_load(sum + d), v_set(a))));
}

static void split_add(struct attention_state *st) {
    const struct attention_args *args = st->args;
    const int end = st->split + ATTENTION_SPLIT, n_rows = args->n_rows;
    // Rows ascend: the first ones end before the split, the last ones begin (window) after it.
    for (st->row_a = 0; st->row_a < n_rows && args->pos[st->row_a] < st->split;) st->row_a++;
    for (st->row_b = n_rows;
         st->row_b > st->row_a && attention_first(args, args->pos[st->row_b - 1]) >= end;)
        st->row_b--;
    if (st->row_a == st->row_b) return;
    int lo = attention_first(args, args->pos[st->row_a]) - st->split;
    int hi = args->pos[st->row_b - 1] + 1 - st->split;
    lo = lo < 0 ? 0 : lo;
    hi = hi > ATTENTION_SPLIT ? ATTENTION_SPLIT : hi;
    const int page_a = lo / KV_PAGE_TOKENS, page_b = (hi + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
    split_scores(st, page_a, page_b);
    for (int j = st->row_a * st->ratio; j < st->row_b * st->ratio; j++) split_softmax(st, j);
    split_values(st, page_a, page_b);
    for (int j = st->row_a * st->ratio; j < st->row_b * st->ratio; j++) split_merge(st, j);
}

// The sink's weight joins the total; what was summed shrinks by the result.
INLINE float sink_add(const struct attention_state *st, int j, float sink) {
    const float top = sink > st->top[j] ? sink : st->top[j];
    const float a = rmath_exp(st->top[j] - top);
    st->total[j] = fmaf(st->total[j], a, rmath_exp(sink - top));
    return a;
}

static void attention_finish(const struct attention_state *st, int j) {
    const struct attention_args *args = st->args;
    const int64_t head = args->head_kv * st->ratio + j % st->ratio;
    float *out = args->out + j / st->ratio * args->ldo + head * args->dim_v;
    float *sum = st->sum + (int64_t)j * st->padded_v;
    if (args->sinks) {
        const v16 a = v_set(sink_add(st, j, args->sinks[head]));
        for (int d = 0; d < st->padded_v; d += 16) v_store(sum + d, v_mul(v_load(sum + d), a));
    }
    const v16 total = v_set(st->total[j]);
    FOR_ROW(args->dim_v, row_store(out + i, v_div(row_load(sum + i, m), total), m, false););
}

static void simd_attention(const struct attention_args *args, float *scratch) {
    const int ratio = args->n_head / args->n_head_kv, n = args->n_rows * ratio;
    const int padded_v = (args->dim_v + 15) / 16 * 16;
    struct attention_state st = {.args = args,
                                 .ratio = ratio,
                                 .n_queries = n,
                                 .padded_v = padded_v};
    st.score = scratch;
    st.part = st.score + (int64_t)n * ATTENTION_SPLIT;
    st.sum = st.part + (int64_t)n * padded_v;
    st.page = st.sum + (int64_t)n * padded_v;
    st.m =
        st.page + (int64_t)(args->dim_k > args->dim_v ? args->dim_k : args->dim_v) * KV_PAGE_TOKENS;
    st.l = st.m + n;
    st.top = st.l + n;
    st.total = st.top + n;
    memset(st.sum, 0, (size_t)n * (size_t)padded_v * sizeof(float));
    for (int j = 0; j < n; j++) {
        st.top[j] = -INFINITY;
        st.total[j] = 0;
    }
    const int first = attention_first(args, args->pos[0]) / ATTENTION_SPLIT * ATTENTION_SPLIT;
    for (st.split = first; st.split <= args->pos[args->n_rows - 1]; st.split += ATTENTION_SPLIT)
        split_add(&st);
    for (int j = 0; j < n; j++) attention_finish(&st, j);
}
