// Attention over the abstract vector of ops_simd.h, which includes this. A query is one head of one
// row; all queries of a call share each page. Scores have a token in each lane, values a head's
// element. A block of queries goes through a split alone: scores, softmax, values; what it holds
// stays in L1. One block reads the pages where they lie; for more of them the split is converted to
// f32 once, values in panels, and streams from L2.
//
// While a split's keys are read its values are prefetched, and with its values the keys of the next
// split, so memory waits for neither a page's end nor a softmax. Masked positions never enter:
// scores of masked lanes are replaced before the maximum and after the exponential, and values are
// added over each query's visible range only.

enum { PANEL = 32, LINE = 64 };
_Static_assert((int)SCORE_QUERIES <= ATTENTION_BLOCK && (int)VALUE_QUERIES <= ATTENTION_BLOCK,
               "a block's scores have room");

// What one or more splits give the queries: o is not yet divided by l.
struct attention_part {
    float *o;     // [n_queries, padded_v]
    float *m, *l; // [n_queries]
};

struct attention_state {
    const struct attention_args *args;
    int ratio, n_queries, padded_v;
    int size;       // bytes of an element
    int64_t v_at;   // bytes from a page's keys to its values
    int split;      // position of the split's first token
    int first, end; // queries that see something of the split
    int page_a, page_b;
    const uint8_t *page[ATTENTION_SPLIT_PAGES];   // [page_a, page_b) of the split
    const uint8_t *coming[ATTENTION_SPLIT_PAGES]; // of the next split; where there is none, page[]
    const float *q;                               // [n_queries, dim_k]
    float *score;                                 // [VALUE_QUERIES, ATTENTION_SPLIT] of a block
    float *key;   // [ATTENTION_SPLIT_PAGES, dim_k, KV_PAGE_TOKENS] the split's keys as f32
    float *value; // [panels, ATTENTION_SPLIT, PANEL] the split's values as f32
    struct attention_part part, sum;
};

// The part of [split, split + ATTENTION_SPLIT) that query j sees, relative to its begin.
INLINE void visible(const struct attention_state *st, int j, int *a, int *b) {
    const int pos = st->args->pos[j / st->ratio];
    const int lo = attention_first(st->args, pos) - st->split, hi = pos + 1 - st->split;
    *a = lo < 0 ? 0 : lo > ATTENTION_SPLIT ? ATTENTION_SPLIT : lo;
    *b = hi < *a ? *a : hi > ATTENTION_SPLIT ? ATTENTION_SPLIT : hi;
}

INLINE v16 load_kv(const void *at, int64_t index, bool half) {
    return half ? v_load_f16((const uint16_t *)at + index) : v_load((const float *)at + index);
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

// n queries against vecs vectors of tokens of a page's keys, s being their scores. stream: the keys
// come from memory, and next is prefetched meanwhile, a line for a line.
INLINE void score_block(const void *k, bool half, bool stream, int dim, const float *q, int n,
                        int vecs, float *s, const uint8_t *next) {
    v16 acc[ATTENTION_BLOCK][2];
    for (int j = 0; j < n; j++)
        for (int i = 0; i < vecs; i++) acc[j][i] = v_set(0);
    for (int d = 0; d < dim; d++) {
        const int64_t at = (int64_t)d * KV_PAGE_TOKENS;
        v16 x[2];
        for (int i = 0; i < vecs; i++) x[i] = load_kv(k, at + i * 16, half);
        if (stream) prefetch(next + at * (half ? 2 : 4));
        if (stream && !half) prefetch(next + at * 4 + LINE);
        for (int j = 0; j < n; j++) {
            const v16 qj = v_set(q[(int64_t)j * dim + d]);
            for (int i = 0; i < vecs; i++) acc[j][i] = v_fma(qj, x[i], acc[j][i]);
        }
    }
    for (int j = 0; j < n; j++)
        for (int i = 0; i < vecs; i++) v_store(s + j * ATTENTION_SPLIT + i * 16, acc[j][i]);
}

INLINE void score_page(const void *k, bool half, bool stream, int dim, const float *q, int n,
                       float *s, const uint8_t *next) {
    for (int i = 0; i < 2; i += SCORE_VECS)
        score_block((const uint8_t *)k + i * 16 * (half ? 2 : 4), half, stream, dim, q, n,
                    SCORE_VECS, s + i * 16, next);
}

typedef void (*score_fn)(const void *k, int dim, const float *q, int n, float *s,
                         const uint8_t *next);

static void score_f16(const void *k, int dim, const float *q, int n, float *s,
                      const uint8_t *next) {
#define BLOCK(c) score_page(k, true, true, dim, q, c, s, next)
    FOR_QUERIES(SCORE_QUERIES, n, BLOCK)
#undef BLOCK
}

static void score_f32(const void *k, int dim, const float *q, int n, float *s,
                      const uint8_t *next) {
#define BLOCK(c) score_page(k, false, true, dim, q, c, s, next)
    FOR_QUERIES(SCORE_QUERIES, n, BLOCK)
#undef BLOCK
}

static void score_converted(const void *k, int dim, const float *q, int n, float *s,
                            const uint8_t *next) {
    (void)next;
#define BLOCK(c) score_page(k, false, false, dim, q, c, s, NULL)
    FOR_QUERIES(SCORE_QUERIES, n, BLOCK)
#undef BLOCK
}

INLINE void key_convert(const struct attention_state *st, int page, bool half) {
    const uint8_t *k = st->page[page], *next = k + st->v_at;
    const int n = st->args->dim_k * KV_PAGE_TOKENS;
    float *y = st->key + (int64_t)page * n;
    for (int i = 0; i < n; i += PANEL) {
        prefetch(next + i * (half ? 2 : 4));
        if (!half) prefetch(next + i * 4 + LINE);
        v_store(y + i, load_kv(k, i, half));
        v_store(y + i + 16, load_kv(k, i + 16, half));
    }
}

// Queries [first, first + n): one block.
static void block_scores(const struct attention_state *st, bool convert, int first, int n) {
    const int dim = st->args->dim_k;
    const score_fn f = convert ? score_converted : st->size == 2 ? score_f16 : score_f32;
    int a, b; // rows ascend, so the block's last query sees furthest
    visible(st, first + n - 1, &a, &b);
    for (int page = st->page_a; page * KV_PAGE_TOKENS < b; page++) {
        const uint8_t *raw = st->page[page];
        const void *k = convert ? (const void *)(st->key + (int64_t)page * dim * KV_PAGE_TOKENS)
                                : (const void *)raw;
        for (int j = 0; j < n; j += SCORE_QUERIES)
            f(k, dim, st->q + (int64_t)(first + j) * dim,
              n - j < SCORE_QUERIES ? n - j : SCORE_QUERIES,
              st->score + j * ATTENTION_SPLIT + page * KV_PAGE_TOKENS, raw + st->v_at);
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
    int64_t stride;                             // elements from token to token
};

// o[j] += p[j][t] * v[t] for tokens [t0, t1) of the split, n queries, vecs vectors of elements that
// begin `skip` bytes after the source. stream: next is prefetched, a line for a line.
INLINE void value_block(const struct value_source *v, bool half, bool stream, int64_t skip,
                        int64_t skip_next, int t0, int t1, const float *p, int n, int vecs,
                        float *o, int64_t ldo) {
    const int64_t size = half ? 2 : 4, step = v->stride * size;
    v16 acc[ATTENTION_BLOCK][2];
    for (int j = 0; j < n; j++)
        for (int i = 0; i < vecs; i++) acc[j][i] = v_load(o + j * ldo + i * 16);
    for (int t = t0; t < t1;) {
        const int page = t / KV_PAGE_TOKENS, from = t % KV_PAGE_TOKENS;
        const int rest = t1 - t, n_here = KV_PAGE_TOKENS - from;
        const int t_end = t + (rest < n_here ? rest : n_here);
        const uint8_t *at = v->at[page] + skip + from * step;
        const uint8_t *next = stream ? v->next[page] + skip_next + from * vecs * 16 * size : NULL;
        for (; t < t_end; t++, at += step) {
            v16 x[2];
            for (int i = 0; i < vecs; i++) x[i] = load_kv(at, i * 16, half);
            if (stream) prefetch(next);
            if (stream && !half && vecs == 2) prefetch(next + LINE);
            if (stream) next += vecs * 16 * size;
            for (int j = 0; j < n; j++) {
                const v16 pj = v_set(p[j * ATTENTION_SPLIT + t]);
                for (int i = 0; i < vecs; i++) acc[j][i] = v_fma(pj, x[i], acc[j][i]);
            }
        }
    }
    for (int j = 0; j < n; j++)
        for (int i = 0; i < vecs; i++) v_store(o + j * ldo + i * 16, acc[j][i]);
}

// All elements: in the pages.
INLINE void value_pages(const struct value_source *v, bool half, int width, int t0, int t1,
                        const float *p, int n, float *o) {
    const int64_t size = half ? 2 : 4;
    int d = 0;
    for (; d + 16 * VALUE_VECS(n) <= width; d += 16 * VALUE_VECS(n))
        value_block(v, half, true, d * size, d * KV_PAGE_TOKENS * size, t0, t1, p, n, VALUE_VECS(n),
                    o + d, width);
    if (d < width)
        value_block(v, half, true, d * size, d * KV_PAGE_TOKENS * size, t0, t1, p, n, 1, o + d,
                    width);
}

// All elements: in panels.
INLINE void value_panels(const struct value_source *v, int width, int t0, int t1, const float *p,
                         int n, float *o) {
    for (int d = 0; d < width;) {
        const int64_t at = (int64_t)(d / PANEL) * ATTENTION_SPLIT * PANEL + d % PANEL;
        const int vecs = d + 16 * VALUE_VECS(n) <= width ? VALUE_VECS(n) : 1;
        if (vecs == VALUE_VECS(n))
            value_block(v, false, false, at * 4, 0, t0, t1, p, n, VALUE_VECS(n), o + d, width);
        else
            value_block(v, false, false, at * 4, 0, t0, t1, p, n, 1, o + d, width);
        d += 16 * vecs;
    }
}

static void value_f16(const struct value_source *v, int width, int t0, int t1, const float *p,
                      int n, float *o) {
#define BLOCK(c) value_pages(v, true, width, t0, t1, p, c, o)
    FOR_QUERIES(VALUE_QUERIES, n, BLOCK)
#undef BLOCK
}

static void value_f32(const struct value_source *v, int width, int t0, int t1, const float *p,
                      int n, float *o) {
#define BLOCK(c) value_pages(v, false, width, t0, t1, p, c, o)
    FOR_QUERIES(VALUE_QUERIES, n, BLOCK)
#undef BLOCK
}

static void value_converted(const struct value_source *v, int width, int t0, int t1, const float *p,
                            int n, float *o) {
#define BLOCK(c) value_panels(v, width, t0, t1, p, c, o)
    FOR_QUERIES(VALUE_QUERIES, n, BLOCK)
#undef BLOCK
}

typedef void (*value_fn)(const struct value_source *v, int width, int t0, int t1, const float *p,
                         int n, float *o);

// Elements past dim_v become zeros.
INLINE v16 value_load(const uint8_t *v, int64_t at, int n, bool half) {
    if (n >= 16) return load_kv(v, at, half);
    if (n <= 0) return v_set(0);
    return half ? v_load_f16_part((const uint16_t *)v + at, n)
                : v_load_part((const float *)v + at, n);
}

INLINE void value_convert(const struct attention_state *st, int page, bool half) {
    const int dim = st->args->dim_v;
    const uint8_t *v = st->page[page] + st->v_at, *next = st->coming[page];
    for (int t = 0; t < KV_PAGE_TOKENS; t++) {
        float *y = st->value + (int64_t)(page * KV_PAGE_TOKENS + t) * PANEL;
        for (int d = 0; d < dim; d += PANEL, y += ATTENTION_SPLIT * PANEL) {
            const int64_t at = (int64_t)t * dim + d;
            prefetch(next + at * (half ? 2 : 4));
            if (!half) prefetch(next + at * 4 + LINE);
            v_store(y, value_load(v, at, dim - d, half));
            v_store(y + 16, value_load(v, at + 16, dim - d - 16, half));
        }
    }
}

static void source_init(const struct attention_state *st, bool convert, struct value_source *v) {
    v->stride = convert ? PANEL : st->args->dim_v;
    for (int page = st->page_a; page < st->page_b; page++) {
        const float *converted = st->value + page * KV_PAGE_TOKENS * PANEL;
        v->at[page] = convert ? (const uint8_t *)converted : st->page[page] + st->v_at;
        v->next[page] = st->coming[page];
    }
}

// Queries [first, first + n): one block. Rows ascend, and so do the ends of what the queries see:
// tokens are added from end to end, each time to the queries that see them, which are neighbours.
static void block_values(const struct attention_state *st, const struct value_source *v,
                         value_fn add, int first, int n) {
    int a[VALUE_QUERIES], b[VALUE_QUERIES];
    float *o = st->part.o + (int64_t)first * st->padded_v;
    memset(o, 0, (size_t)n * (size_t)st->padded_v * sizeof(float));
    for (int j = 0; j < n; j++) visible(st, first + j, &a[j], &b[j]);
    for (int t = a[0], x = 0, y = 0; x < n;) {
        while (y < n && a[y] <= t) y++;
        const int end = y < n && a[y] < b[x] ? a[y] : b[x];
        if (x < y) // otherwise nobody sees what lies between
            add(v, st->padded_v, t, end, st->score + x * ATTENTION_SPLIT, y - x,
                o + (int64_t)x * st->padded_v);
        t = end;
        while (x < n && b[x] <= t) x++;
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

// split_last: of this call. Pages of the next split that nobody needs are not prefetched.
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

// Keys and values as f32; what comes next is prefetched.
static void split_convert(const struct attention_state *st) {
    for (int page = st->page_a; page < st->page_b; page++) {
        if (st->size == 2)
            key_convert(st, page, true);
        else
            key_convert(st, page, false);
    }
    for (int page = st->page_a; page < st->page_b; page++) {
        if (st->size == 2)
            value_convert(st, page, true);
        else
            value_convert(st, page, false);
    }
}

static void split_attend(struct attention_state *st, bool is_first, int split_last) {
    const bool convert = st->end - st->first > VALUE_QUERIES || st->args->dim_v % 16;
    const value_fn add = convert ? value_converted : st->size == 2 ? value_f16 : value_f32;
    struct value_source v;
    pages_find(st, split_last);
    for (int page = st->page_a; is_first && page < st->page_b; page++)
        prefetch_lines(st->page[page], 0, st->v_at);
    if (convert) split_convert(st);
    source_init(st, convert, &v);
    for (int j = st->first; j < st->end; j += VALUE_QUERIES) {
        const int n = st->end - j < VALUE_QUERIES ? st->end - j : VALUE_QUERIES;
        block_scores(st, convert, j, n);
        block_softmax(st, j, n);
        block_values(st, &v, add, j, n);
    }
}

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

// The sink's weight joins the total; what was summed shrinks by the result.
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
}

// A row's heads lie side by side; those of several rows are brought there.
static const float *queries_find(const struct attention_state *st, float *scratch) {
    const struct attention_args *args = st->args;
    const int64_t row = (int64_t)st->ratio * args->dim_k;
    if (args->n_rows == 1) return args->q + args->head_kv * row;
    for (int r = 0; r < args->n_rows; r++)
        memcpy(scratch + r * row, args->q + r * args->ldq + args->head_kv * row,
               (size_t)row * sizeof(float));
    return scratch;
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
    st->padded_v = attention_padded(args->dim_v, 16);
    st->size = kv_type_bytes(args->type);
    st->v_at = (int64_t)args->dim_k * KV_PAGE_TOKENS * st->size;
    const int64_t part = attention_part_floats(st->n_queries, args->dim_v);
    st->sum = part_at(st, scratch);
    st->part = part_at(st, scratch + part);
    st->score = scratch + 2 * part;
    st->key = st->score + VALUE_QUERIES * ATTENTION_SPLIT;
    st->value = st->key + (int64_t)args->dim_k * ATTENTION_SPLIT;
    st->q = queries_find(st, st->value + attention_padded(args->dim_v, PANEL) * ATTENTION_SPLIT);
}

static void sum_init(const struct attention_state *st) {
    memset(st->sum.o, 0, (size_t)st->n_queries * (size_t)st->padded_v * sizeof(float));
    for (int j = 0; j < st->n_queries; j++) {
        st->sum.m[j] = -INFINITY;
        st->sum.l[j] = 0;
    }
}

static void simd_attention(const struct attention_args *args, float *scratch) {
    struct attention_state st;
    state_init(&st, args, scratch);
    if (!args->parts) sum_init(&st);
    const int begin = args->parts ? args->split_begin : attention_split_begin(args);
    const int end = args->parts ? args->split_end : attention_split_end(args);
    bool is_first = true;
    for (int i = begin; i < end; i++) {
        st.split = i * ATTENTION_SPLIT;
        if (!split_find(&st)) continue;
        if (args->parts) st.part = part_at(&st, attention_part_at(args, i));
        split_attend(&st, is_first, (end - 1) * ATTENTION_SPLIT);
        if (!args->parts) split_fold(&st, &st.part);
        is_first = false;
    }
    for (int j = 0; !args->parts && j < st.n_queries; j++) query_finish(&st, j);
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
