// Attention over a latent's int8 pages with AMX: products of codes as tiles, exact in int32. A page
// has its keys as [element / 4][token][4], so 16 lines are the second operand of a product of 16
// tokens and 64 elements. Those 64 share a scale, so each product of a block goes through memory to
// the float sums: s = fmaf((float)sum, scale, s), blocks ascending, as in all kernels.
//
// For values the sum is over tokens. The second operand has 16 elements of 4 tokens in a line: four
// lines of the page are transposed, once for all queries. The first one has the queries' weights,
// whole numbers of 14 bits, as two rows of 7. A split of 256 positions and 20 queries, on Emerald
// Rapids with all data in the second-level cache: scores 7 us, values 15 us. By the instructions'
// throughput it would be less than half:
//   tile products  scores 288, values 384, 16 cycles each, and as many for the scores' stores
//   scores to f32  2,880 vectors, 2 operations on 2 ports: 2,900 cycles
//   lines          2,048, 3 operations each on 2 ports: 3,100
//   weights        2,560 vectors, 6 operations each on 2 ports: 7,700
#if defined(__x86_64__)

#include "backend/cpu/latent.h"

#include <immintrin.h>

#include "backend/cpu/amx.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum {
    LINE = 64,
    ROW = KV_PAGE_TOKENS * 4, // bytes from a group of four elements to the next one
    TILE_BYTES = AMX_ROWS * AMX_ROW_BYTES,
    TILE_WORDS = TILE_BYTES / 4,
    BLOCKS_MOST = (KV_DIM_MAX + KV_LATENT_BLOCK - 1) / KV_LATENT_BLOCK,
    STEP_TOKENS = 64, // of a product over tokens: two pages
    STEPS = ATTENTION_SPLIT / STEP_TOKENS,
};

static int min_int(int a, int b) { return a < b ? a : b; }

// n queries in tiles of at most `most`, of one size: the last one may begin in the one before.
static int tile_size(int n, int most) {
    const int tiles = (n + most - 1) / most;
    return (n + tiles - 1) / tiles;
}

static void tile_set(struct amx_config *config, int tile, int rows, int row_bytes) {
    config->rows[tile] = (uint8_t)rows;
    config->row_bytes[tile] = (uint16_t)row_bytes;
}

// Bytes to be prefetched into the second-level cache, some lines at a time.
struct ahead {
    const uint8_t *at, *end;
    int lines;
};

static struct ahead ahead_of(const uint8_t *at, int64_t bytes, int times) {
    const int lines = (int)((bytes + LINE - 1) / LINE);
    return (struct ahead){at, at ? at + bytes : NULL, (lines + times - 1) / times};
}

INLINE void ahead_take(struct ahead *ahead) {
    for (int i = 0; i < ahead->lines && ahead->at < ahead->end; i++, ahead->at += LINE)
        _mm_prefetch((const char *)ahead->at, _MM_HINT_T1);
}

// ---------------------------------------------------------------- scores

enum { PART_MOST = 8 }; // rows whose float sums are in registers

struct score_scratch {
    _Alignas(64) int32_t sum[2][BLOCKS_MOST][TILE_WORDS]; // of two units
};
_Static_assert(sizeof(struct score_scratch) <= LATENT_SCRATCH, "has room");

// Tiles 0 and 1 are sums, 2 and 3 queries, 4 and 5 keys; 6 and 7 are queries and keys of a last
// block that is narrower.
static void scores_config(int rows, int dim, struct amx_config *config) {
    const int rest = dim % KV_LATENT_BLOCK, groups = rest ? (rest + 3) / 4 : AMX_ROWS;
    *config = (struct amx_config){.palette = 1};
    tile_set(config, 0, rows, AMX_ROW_BYTES);
    tile_set(config, 1, rows, AMX_ROW_BYTES);
    tile_set(config, 2, rows, AMX_ROW_BYTES);
    tile_set(config, 3, rows, AMX_ROW_BYTES);
    tile_set(config, 4, AMX_ROWS, AMX_ROW_BYTES);
    tile_set(config, 5, AMX_ROWS, AMX_ROW_BYTES);
    tile_set(config, 6, rows, groups * 4);
    tile_set(config, 7, groups, AMX_ROW_BYTES);
}

// One tile of queries and half a page. Its products are made while those of the unit before are
// added.
struct unit {
    int page, half, first; // first: of the queries
    int32_t (*sum)[TILE_WORDS];
};

#define BLOCK_MULTIPLY(c, a, b)                                                                    \
    tile_load(a, q, job->ldq);                                                                     \
    tile_load(b, keys, ROW);                                                                       \
    tile_zero(c);                                                                                  \
    tile_dot(c, a, b);                                                                             \
    tile_store(c, unit->sum[block], AMX_ROW_BYTES)

INLINE void block_multiply(const struct latent_scores *job, const struct unit *unit, int block) {
    const int64_t d = (int64_t)block * KV_LATENT_BLOCK;
    const int8_t *q = job->q + unit->first * job->ldq + d;
    const uint8_t *keys = job->page[unit->page] + d / 4 * ROW + unit->half * LINE;
    if (d + KV_LATENT_BLOCK > job->dim) {
        BLOCK_MULTIPLY(0, 6, 7);
    } else if (block % 2) {
        BLOCK_MULTIPLY(1, 3, 5);
    } else {
        BLOCK_MULTIPLY(0, 2, 4);
    }
}

// The float sums of n rows of a unit, and the queries' scales.
INLINE void rows_add_n(const struct latent_scores *job, const struct unit *unit, int row,
                       int blocks, const int n) {
    const uint8_t *scales = job->page[unit->page] + job->scale + unit->half * 32;
    const int query = unit->first + row;
    __m512 acc[PART_MOST];
    UNROLL for (int j = 0; j < n; j++) acc[j] = _mm512_setzero_ps();
    for (int block = 0; block < blocks; block++) {
        const uint8_t *at = scales + block * (KV_PAGE_TOKENS * 2);
        const __m512 scale = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)at));
        const int32_t *sum = unit->sum[block] + row * 16;
        UNROLL for (int j = 0; j < n; j++) {
            const __m512 x = _mm512_cvtepi32_ps(_mm512_load_si512(sum + j * 16));
            acc[j] = _mm512_fmadd_ps(x, scale, acc[j]);
        }
    }
    float *s =
        job->s + (int64_t)query * ATTENTION_SPLIT + unit->page * KV_PAGE_TOKENS + unit->half * 16;
    UNROLL for (int j = 0; j < n; j++) {
        const __m512 q_scale = _mm512_set1_ps(job->q_scale[query + j]);
        _mm512_storeu_ps(s + j * ATTENTION_SPLIT, _mm512_mul_ps(acc[j], q_scale));
    }
}

static void rows_add(const struct latent_scores *job, const struct unit *unit, int row, int blocks,
                     int n) {
#define ROWS_ADD(c)                                                                                \
    case c:                                                                                        \
        rows_add_n(job, unit, row, blocks, c);                                                     \
        break
    switch (n) {
        ROWS_ADD(1);
        ROWS_ADD(2);
        ROWS_ADD(3);
        ROWS_ADD(4);
        ROWS_ADD(5);
        ROWS_ADD(6);
        ROWS_ADD(7);
        ROWS_ADD(8);
    }
#undef ROWS_ADD
}

// Parts [begin, end) of a unit: some rows each.
static void parts_add(const struct latent_scores *job, const struct unit *unit, int rows,
                      int blocks, int begin, int end) {
    const int n = tile_size(rows, PART_MOST);
    for (int part = begin; part < end; part++)
        rows_add(job, unit, min_int(part * n, rows - n), blocks, n);
}

static void scores(const struct latent_scores *job) {
    const int rows = tile_size(job->n, AMX_ROWS), n_tiles = (job->n + rows - 1) / rows;
    const int blocks = (job->dim + KV_LATENT_BLOCK - 1) / KV_LATENT_BLOCK;
    const int n = tile_size(rows, PART_MOST), parts = (rows + n - 1) / n;
    struct score_scratch *scratch = job->scratch;
    struct unit before = {0, 0, 0, NULL};
    struct amx_config config;
    int index = 0;
    scores_config(rows, job->dim, &config);
    tile_configure(&config);
    for (int page = job->page_a; page < job->page_b; page++) {
        const bool more = page + 1 < job->ahead;
        struct ahead ahead = ahead_of(more ? job->page[page + 1] : NULL, more ? job->bytes : 0,
                                      2 * n_tiles * blocks);
        for (int i = 0; i < 2 * n_tiles; i++, index++) {
            const int half = i >= n_tiles, tile = half ? i - n_tiles : i;
            const struct unit unit = {page, half, min_int(tile * rows, job->n - rows),
                                      scratch->sum[index % 2]};
            for (int block = 0, part = 0; block < blocks; block++) {
                const int end = block + 1 == blocks ? parts : min_int(block, parts);
                block_multiply(job, &unit, block);
                if (index) parts_add(job, &before, rows, blocks, part, end);
                ahead_take(&ahead);
                part = end;
            }
            before = unit;
        }
    }
    parts_add(job, &before, rows, blocks, 0, parts);
    tile_release();
}

// ---------------------------------------------------------------- values

// Queries are taken in groups: the weights of a group's tiles are made, then 16 elements at a time
// are multiplied. The lines of 16 elements are made by the first group; where there are more of
// them, they keep all of a chunk.
enum { PAIR_MOST = AMX_ROWS / 2, TILES_MOST = 4, GROUP_MOST = TILES_MOST * PAIR_MOST };

struct value_scratch {
    _Alignas(64) uint8_t line[4][STEPS][AMX_ROWS][LINE]; // 16 elements of 4 tokens
    // of a tile: the high parts of its queries, then the low ones
    _Alignas(64) uint8_t weight[TILES_MOST][AMX_ROWS][ATTENTION_SPLIT];
    _Alignas(64) int32_t sum[TILES_MOST][TILE_WORDS];
    _Alignas(64) float product[2][ATTENTION_SPLIT]; // probabilities times scales, of two queries
    float step[GROUP_MOST];
};
_Static_assert(sizeof(struct value_scratch) <= LATENT_SCRATCH, "has room");

// Four lines of a page, which are 16 elements: row q gets those of tokens 4 q to 4 q + 3.
INLINE void lines_join(const uint8_t *const line[4], __m512i row[4]) {
    const __m512i order = _mm512_set4_epi32(0x0f0b0703, 0x0e0a0602, 0x0d090501, 0x0c080400);
    const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    const __m512i odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    for (int half = 0; half < 2; half++) { // 8 tokens: halves of lines side by side
        const __m256i *at[4];
        for (int g = 0; g < 4; g++) at[g] = (const __m256i *)(line[g] + 32 * half);
        __m512i a = _mm512_castsi256_si512(_mm256_load_si256(at[0]));
        __m512i b = _mm512_castsi256_si512(_mm256_load_si256(at[1]));
        a = _mm512_shuffle_epi8(_mm512_inserti64x4(a, _mm256_load_si256(at[2]), 1), order);
        b = _mm512_shuffle_epi8(_mm512_inserti64x4(b, _mm256_load_si256(at[3]), 1), order);
        row[2 * half] = _mm512_permutex2var_epi64(a, even, b);
        row[2 * half + 1] = _mm512_permutex2var_epi64(a, odd, b);
    }
}

// Elements 16 e and on of the chunk, two pages. Row 4 q + i of a tile has the tokens 4 q to 4 q + 3
// of half page i: the order in which weights are packed.
static void lines_make(const struct latent_values *job, int step, int e, uint8_t (*tile)[LINE]) {
    static const _Alignas(64) uint8_t zeros[LINE];
    for (int i = 0; i < 4; i++) {
        const int page = 2 * step + i / 2; // where there is none its weights are zeros
        const uint8_t *raw =
            job->page[page >= job->page_a && page < job->page_b ? page : job->page_a];
        const uint8_t *line[4];
        for (int g = 0; g < 4; g++) {
            const int group = job->group + 4 * e + g;
            line[g] = group < job->n_group ? raw + (int64_t)group * ROW + i % 2 * LINE : zeros;
        }
        __m512i row[4];
        lines_join(line, row);
        for (int q = 0; q < 4; q++) _mm512_store_si512(tile[4 * q + i], row[q]);
    }
}

// 16-bit words of z and z2, whose low bits are whole numbers, to two rows of 7 bits of 64 tokens.
INLINE void weights_pack(const __m512 z[4], uint8_t *high, uint8_t *low) {
    const __m512i bits = _mm512_set1_epi32(WEIGHT_MOST);
    const __m512i part = _mm512_set1_epi16((1 << WEIGHT_BITS) - 1);
    __m512i x[4];
    UNROLL for (int i = 0; i < 4; i++) x[i] = _mm512_and_si512(_mm512_castps_si512(z[i]), bits);
    const __m512i a = _mm512_packus_epi32(x[0], x[1]), b = _mm512_packus_epi32(x[2], x[3]);
    _mm512_store_si512(high, _mm512_packus_epi16(_mm512_srli_epi16(a, WEIGHT_BITS),
                                                 _mm512_srli_epi16(b, WEIGHT_BITS)));
    _mm512_store_si512(low,
                       _mm512_packus_epi16(_mm512_and_si512(a, part), _mm512_and_si512(b, part)));
}

// Steps [s0, s1) of the split have visible tokens.
struct span {
    int s0, s1;
};

// A group of queries: `tiles` tiles of `rows` queries, the last of which may begin in the one
// before.
struct group {
    const struct latent_values *job;
    struct value_scratch *scratch;
    struct span span;
    int first, n, rows, tiles;
};

static int tile_first(const struct group *group, int tile) {
    return min_int(tile * group->rows, group->n - group->rows);
}

// Products of query j of the group and the largest of them, over `steps` times 64 tokens.
INLINE float products_make(const struct group *group, int j, const int steps, float *product) {
    const int t = group->span.s0 * STEP_TOKENS;
    const float *p = group->job->p + (int64_t)(group->first + j) * ATTENTION_SPLIT + t;
    const float *scale = group->job->scale + t;
    __m512 top[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    UNROLL for (int i = 0; i < 4 * steps; i++) {
        const __m512 w =
            _mm512_mul_ps(_mm512_loadu_ps(p + 16 * i), _mm512_loadu_ps(scale + 16 * i));
        top[i % 2] = _mm512_max_ps(w, top[i % 2]); // a NaN gives the other operand
        _mm512_store_ps(product + 16 * i, w);
    }
    return _mm512_reduce_max_ps(_mm512_max_ps(top[0], top[1]));
}

INLINE void weights_make(const float *product, float by, const int steps, uint8_t *high,
                         uint8_t *low) {
    const __m512 magic = _mm512_set1_ps(WEIGHT_MAGIC), factor = _mm512_set1_ps(by);
    UNROLL for (int i = 0; i < steps; i++) {
        __m512 z[4];
        UNROLL for (int k = 0; k < 4; k++) z[k] =
            _mm512_fmadd_ps(_mm512_load_ps(product + STEP_TOKENS * i + 16 * k), factor, magic);
        weights_pack(z, high + STEP_TOKENS * i, low + STEP_TOKENS * i);
    }
}

// The group's queries in the order of its tiles' rows; each one's products before the weights of
// the query before it, so that no query waits for its own factor.
INLINE void group_weigh(const struct group *group, const int steps) {
    struct value_scratch *scratch = group->scratch;
    const int t = group->span.s0 * STEP_TOKENS;
    uint8_t *high = NULL, *low = NULL;
    float factor = 0;
    for (int tile = 0, i = 0; tile < group->tiles; tile++) {
        const int first = tile_first(group, tile);
        for (int j = 0; j < group->rows; j++, i++) {
            const float most = products_make(group, first + j, steps, scratch->product[i % 2]);
            if (i) weights_make(scratch->product[(i - 1) % 2], factor, steps, high, low);
            factor = weight_factor(most);
            scratch->step[i] = most / (float)WEIGHT_MOST;
            high = scratch->weight[tile][j] + t;
            low = scratch->weight[tile][group->rows + j] + t;
        }
    }
    weights_make(scratch->product[(group->tiles * group->rows - 1) % 2], factor, steps, high, low);
}

static void group_weigh_all(const struct group *group) { group_weigh(group, STEPS); }
static void group_weigh_some(const struct group *group) {
    group_weigh(group, group->span.s1 - group->span.s0);
}

// Tiles 0 to 3 are the sums of the group's tiles, 4 and 5 weights, 6 and 7 lines.
static void values_config(int rows, struct amx_config *config) {
    *config = (struct amx_config){.palette = 1};
    for (int i = 0; i < AMX_TILES; i++)
        tile_set(config, i, i < 6 ? 2 * rows : AMX_ROWS, AMX_ROW_BYTES);
}

#define TILE_MULTIPLY(tile, a, b)                                                                  \
    if ((tile) < group->tiles) {                                                                   \
        tile_load(a, scratch->weight[tile][0] + step * STEP_TOKENS, ATTENTION_SPLIT);              \
        tile_dot(tile, a, b);                                                                      \
    }
#define STEP_MULTIPLY(b)                                                                           \
    tile_load(b, line[step], LINE);                                                                \
    TILE_MULTIPLY(0, 4, b)                                                                         \
    TILE_MULTIPLY(1, 5, b)                                                                         \
    TILE_MULTIPLY(2, 4, b)                                                                         \
    TILE_MULTIPLY(3, 5, b)

INLINE void step_multiply(const struct group *group, uint8_t (*line)[AMX_ROWS][LINE], int step) {
    struct value_scratch *scratch = group->scratch;
    if (step % 2) {
        STEP_MULTIPLY(7);
    } else {
        STEP_MULTIPLY(6);
    }
}

#define TILE_STORE(tile)                                                                           \
    if ((tile) < group.tiles) tile_store(tile, scratch->sum[tile], AMX_ROW_BYTES)

// The sums of 16 elements to floats.
static void sums_convert(const struct group *group, int e) {
    for (int tile = 0; tile < group->tiles; tile++) {
        const int32_t *sum = group->scratch->sum[tile];
        const float *step = group->scratch->step + tile * group->rows;
        const int64_t first = group->first + tile_first(group, tile);
        float *o = group->job->o + first * group->job->ldo + 16 * e;
        for (int j = 0; j < group->rows; j++, o += group->job->ldo) {
            const __m512i high = _mm512_load_si512(sum + j * 16);
            const __m512i low = _mm512_load_si512(sum + (group->rows + j) * 16);
            const __m512i both = _mm512_add_epi32(_mm512_slli_epi32(high, WEIGHT_BITS), low);
            _mm512_storeu_ps(o, _mm512_mul_ps(_mm512_cvtepi32_ps(both), _mm512_set1_ps(step[j])));
        }
    }
}

static void values(const struct latent_values *job) {
    const struct span span = {job->page_a / 2, (job->page_b + 1) / 2};
    const int n_e = job->width / 16, n_steps = span.s1 - span.s0;
    const int most = tile_size(job->n, GROUP_MOST), rows = tile_size(most, PAIR_MOST);
    struct value_scratch *scratch = job->scratch;
    struct amx_config config;
    struct ahead ahead = ahead_of(job->ahead, job->ahead_bytes, n_e * n_steps);
    values_config(rows, &config);
    if (job->is_first) tile_configure(&config);
    for (int at = 0; at < job->n; at += most) {
        const int first = min_int(at, job->n - most);
        const struct group group = {
            job, scratch, span, first, most, rows, (most + rows - 1) / rows};
        const bool makes_lines = at == 0, is_only = most == job->n;
        if (n_steps == STEPS)
            group_weigh_all(&group);
        else
            group_weigh_some(&group);
        for (int e = 0; e < n_e; e++) {
            uint8_t(*line)[AMX_ROWS][LINE] = scratch->line[is_only ? e % 2 : e];
            tile_zero(0);
            tile_zero(1);
            tile_zero(2);
            tile_zero(3);
            for (int step = span.s0; step < span.s1; step++) {
                if (makes_lines) lines_make(job, step, e, line[step]);
                step_multiply(&group, line, step);
                ahead_take(&ahead);
            }
            if (e > 0) sums_convert(&group, e - 1);
            TILE_STORE(0);
            TILE_STORE(1);
            TILE_STORE(2);
            TILE_STORE(3);
        }
        sums_convert(&group, n_e - 1);
    }
    if (job->is_last) tile_release();
}

#if defined(RUNNEL_AMX_MODEL)
const struct latent_kernels latent_amx_model = {scores, values}; // tests only
#else
const struct latent_kernels latent_amx = {scores, values};
#endif

#else
typedef int latent_amx_is_empty; // ISO C wants a declaration
#endif
