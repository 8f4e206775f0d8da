// KV pages and attention of the CUDA backend, stage by stage. Each case draws a shape and some
// sequences, and computes the same rows in several schedules: whole prompts, chunks, row by row,
// alone and in batches, fused and separate, on grids of different sizes.
// 1. A row has the same bits in all schedules, and so have the pages.
// 2. A row is near a plain model in double precision that has the same roundings of q, k and v.
// 3. Stages without matrices (rope table, clears and copies of pages) have the bits of the formulas
//    in docs/NUMERICS.md.
// Usage: attention_check [first case [cases]]. Also for a device: nvcc -x cu, without RN_EMULATED,
// together with attention_prompt.cu, attention_streams.cu and attention_streams.c.
#include "attention_long.cuh"
#include "attention_prompt.h"
#include "attention_streams.cuh"
#include "kernel_check.h"
#include "pages.cuh"
#include "step.h"

#include <algorithm>
#include <map>
#include <string>

namespace {

// ---------------------------------------------------------------- kernels

struct stage_args {
    struct step step;
    struct stage_attention attention;
    struct stage_rows_op row;
    int kind, rows, n_rows;
    int run; // splits of an item of the small form; 0: the other form
    bool is_long;
    int part; // enum step_part of the other form
};

template <int TYPE> DEV void small_stage(const struct stage_args &a, uint8_t *memory) {
    const struct stage_attention &s = a.attention;
    const int dim = s.dim_k == s.dim_v ? s.dim_k : 0;
    if (dim == 64)
        attention_small_run<kv_form<TYPE, 64>>(s, a.step, a.rows, a.run, true, memory);
    else if (dim == 128)
        attention_small_run<kv_form<TYPE, 128>>(s, a.step, a.rows, a.run, true, memory);
    else
        attention_small_run<kv_form<TYPE, 0>>(s, a.step, a.rows, a.run, false, memory);
}

template <int TYPE> DEV void attention_stages(const struct stage_args &a, uint8_t *memory) {
    if (a.kind == STAGE_APPEND)
        append_run<kv_form<TYPE, 0>>(a.attention, a.step, a.n_rows, memory);
    else if (a.run > 0)
        small_stage<TYPE>(a, memory);
    else
        attention_run<kv_form<TYPE, 0>>(a.attention, a.step, a.rows, a.part, memory);
}

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    stage_kernel(const __grid_constant__ struct stage_args a) {
    SHARED_MEMORY(shared);
    uint8_t *memory = shared + 256; // attention's part need not be at the start
    switch (a.kind) {
    case STAGE_PAGES:
        pages_run(a.step);
        break;
    case STAGE_ROPE_TABLE:
        rope_table_run(a.row, a.step, a.n_rows);
        break;
    case STAGE_APPEND:
    case STAGE_ATTENTION:
        switch (a.attention.kv_type) {
        case KV_F16:
            attention_stages<KV_F16>(a, memory);
            break;
        case KV_BF16:
            attention_stages<KV_BF16>(a, memory);
            break;
        case KV_INT8:
            attention_stages<KV_INT8>(a, memory);
            break;
        case KV_FP8:
            attention_stages<KV_FP8>(a, memory);
            break;
        }
        break;
    }
}

template <int TYPE> DEV void long_stage(const struct stage_args &a, uint8_t *memory) {
    if (a.attention.dim_k == 64)
        attention_long_run<kv_form<TYPE, 64>>(a.attention, a.step, a.rows, memory, true);
    else
        attention_long_run<kv_form<TYPE, 128>>(a.attention, a.step, a.rows, memory, false);
}

__global__ void __launch_bounds__(LONG_THREADS, 1)
    long_kernel(const __grid_constant__ struct stage_args a) {
    SHARED_MEMORY(shared);
    switch (a.attention.kv_type) {
    case KV_F16:
        return long_stage<KV_F16>(a, shared);
    case KV_BF16:
        return long_stage<KV_BF16>(a, shared);
    case KV_INT8:
        return long_stage<KV_INT8>(a, shared);
    case KV_FP8:
        return long_stage<KV_FP8>(a, shared);
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    fold_kernel(const __grid_constant__ struct stage_args a) {
    SHARED_MEMORY(shared);
    attention_fold_run(a.attention, a.step, a.rows, shared);
}

} // namespace

KERNEL_ENTRY(stage_entry, stage_kernel, (struct stage_args))
KERNEL_ENTRY(long_entry, long_kernel, (struct stage_args))
KERNEL_ENTRY(fold_entry, fold_kernel, (struct stage_args))

namespace {

int n_long, n_prompt, n_runs; // launches of attention_long.cuh, attention_prompt.cuh, with runs

void prompt_launch(const struct stage_args &from, const struct step *step, int grid) {
    const stage_attention &s = from.attention;
    const void *kernel = attention_prompt(s.kv_type, s.dim_k, s.dim_v, s.softcap > 0);
    struct attention_args args = {};
    args.stage = s, args.step = step;
    args.kind = STAGE_ATTENTION, args.rows = from.rows, args.part = STEP_PARTS;
    n_prompt++;
    launch(kernel, grid, PROMPT_THREADS, PROMPT_SHARED, &args);
}

void stage_launch(struct stage_args &args, int grid) {
    enum { SHARED = ATTENTION_SHARED + SPLIT_PAGES * KV_SLOTS_MAX * KV_CHUNK_UNITS * 1024 + 256 };
    const stage_attention &s = args.attention;
    if (args.is_long && args.run && s.dim_k == s.dim_v && (s.dim_k == 64 || s.dim_k == 128)) {
        n_long++;
        launch(long_entry(), grid, LONG_THREADS, LONG_SHARED, &args);
        launch(fold_entry(), grid, BLOCK_THREADS, FOLD_SHARED, &args);
        return;
    }
    launch(stage_entry(), grid, BLOCK_THREADS, SHARED, &args);
}

// Attention's scratch, for all cases.
struct scratch_memory {
    device_array<float> parts;
    device_array<uint32_t> counters;
    scratch_memory() {
        parts.resize((ATTENTION_STATES + (size_t)ATTENTION_PARTS) / 4);
        counters.put(std::vector<uint32_t>(ATTENTION_COUNTERS, 0));
    }
    std::vector<uint32_t> counters_end() const { return device_get(counters.at + STREAM_TAKEN, 2); }
};

// ---------------------------------------------------------------- shapes

struct shape {
    int type, dim_k, dim_v, n_kv, ratio, window, n_rot, halves;
    bool q_norm, k_norm, has_sinks, q_is_out;
    float scale, softcap;
    uint64_t seed;
    int n_head() const { return n_kv * ratio; }
    bool is_chunk() const { return window > 0 && seed % 3 == 0; } // of `window` positions
    int lowest(int pos) const {
        if (is_chunk()) return pos - pos % window;
        return window ? std::max(0, pos - window + 1) : 0;
    }
};

enum { LAYERS = 2, LAYER = 1 };

// About normal, from -4 to 4.
float wide_number_of(uint64_t key) { return number_of(key) * 1.7f; }

// Elements of a token's row: which 0 is q, 1 k, 2 v.
float element(const shape &c, int seq, int pos, int which, int i) {
    const uint64_t key = (((uint64_t)seq * 100003 + (uint64_t)pos) * 3 + (uint64_t)which) * 8192;
    const float x = wide_number_of(mix(c.seed) + key + (uint64_t)i);
    return which == 1 && i % 37 == 5 ? x * 6.0f : x;
}

// ---------------------------------------------------------------- a model in double precision

float norm_factor(const std::vector<float> &x, float eps) {
    float lane[32] = {0};
    for (size_t d = 0; d < x.size(); d++) lane[d % 32] = fmaf(x[d], x[d], lane[d % 32]);
    for (int o = 16; o > 0; o /= 2)
        for (int l = 0; l < o; l++) lane[l] = lane[l] + lane[l + o];
    return 1.0f / sqrtf(lane[0] / (float)x.size() + eps);
}

struct model {
    const shape &c;
    std::vector<float> q_weight, k_weight, inv_freq, sinks;
    float magnitude = 1.1f, eps = 1e-5f;

    explicit model(const shape &from) : c(from) {
        for (int d = 0; d < c.dim_k; d++) {
            q_weight.push_back(1.0f + 0.2f * wide_number_of(c.seed + 900000 + (uint64_t)d));
            k_weight.push_back(1.0f + 0.2f * wide_number_of(c.seed + 910000 + (uint64_t)d));
        }
        for (int i = 0; i < c.n_rot / 2; i++)
            inv_freq.push_back(powf(10000.0f, -2.0f * (float)i / (float)c.n_rot));
        for (int h = 0; h < c.n_head(); h++)
            sinks.push_back(wide_number_of(c.seed + 920000 + (uint64_t)h));
    }

    // A head's vector after norm and rope, in f32 as the kernels have it.
    std::vector<float> head(int seq, int pos, int which, int h) const {
        std::vector<float> x((size_t)(which == 2 ? c.dim_v : c.dim_k));
        for (size_t d = 0; d < x.size(); d++)
            x[d] = element(c, seq, pos, which, h * (int)x.size() + (int)d);
        if (which == 2) return x;
        if (which == 0 ? c.q_norm : c.k_norm) {
            const float r = norm_factor(x, eps);
            for (size_t d = 0; d < x.size(); d++)
                x[d] = (x[d] * r) * (which == 0 ? q_weight : k_weight)[d];
        }
        for (int i = 0; i < c.n_rot / 2; i++) {
            double s, co;
            rmath_sincos((double)((float)pos * inv_freq[(size_t)i]), &s, &co);
            const float cs = (float)co * magnitude, sn = (float)s * magnitude;
            float &a = x[(size_t)(c.halves ? i : 2 * i)];
            float &b = x[(size_t)(c.halves ? i + c.n_rot / 2 : 2 * i + 1)];
            const float a0 = a, b0 = b;
            a = fmaf(a0, cs, -(b0 * sn));
            b = fmaf(a0, sn, b0 * cs);
        }
        return x;
    }

    static double fp8(double x) {
        const double a = fabs(x);
        if (a >= 448) return x < 0 ? -448 : 448;
        int e;
        frexp(a, &e);
        const double unit = ldexp(1, (e - 1 < -6 ? -6 : e - 1) - 3);
        return (x < 0 ? -1 : 1) * nearbyint(a / unit) * unit;
    }

    // What a page has of a vector.
    std::vector<double> stored(const std::vector<float> &x) const {
        std::vector<double> y(x.size());
        float most = 0;
        for (float e : x) most = std::max(most, fabsf(e));
        const double scale = f16_to_f32(f32_to_f16(most * (128.0f / 127.0f)));
        for (size_t d = 0; d < x.size(); d++) {
            if (c.type == KV_F16) y[d] = f16_to_f32(f32_to_f16(x[d]));
            if (c.type == KV_BF16) y[d] = bf16_to_f32(f32_to_bf16(x[d]));
            if (c.type == KV_FP8) y[d] = fp8(x[d]);
            if (c.type == KV_INT8) {
                const double code = nearbyint((double)(x[d] * (128.0f / (float)scale)));
                y[d] = std::max(-127.0, std::min(127.0, code)) / 128 * scale;
            }
        }
        return y;
    }

    // A row of a query head, and of each element the sum of weights times magnitudes.
    void row(int seq, int pos, int h, std::vector<double> *out, std::vector<double> *size) const {
        std::vector<float> q = head(seq, pos, 0, h);
        for (float &e : q)
            e = c.type == KV_BF16 ? bf16_to_f32(f32_to_bf16(e)) : f16_to_f32(f32_to_f16(e));
        const int first = c.lowest(pos);
        std::vector<double> s;
        double top = c.has_sinks ? (double)sinks[(size_t)h] : (double)-INFINITY;
        for (int j = first; j <= pos; j++) {
            const std::vector<double> k = stored(head(seq, j, 1, h / c.ratio));
            double dot = 0;
            for (size_t d = 0; d < k.size(); d++) dot += (double)q[d] * k[d];
            dot *= (double)c.scale;
            if (c.softcap > 0) dot = (double)c.softcap * tanh(dot / (double)c.softcap);
            s.push_back(dot);
            top = std::max(top, dot);
        }
        double sum = c.has_sinks ? exp((double)sinks[(size_t)h] - top) : 0;
        out->assign((size_t)c.dim_v, 0);
        size->assign((size_t)c.dim_v, 0);
        for (int j = first; j <= pos; j++) {
            const double p = exp(s[(size_t)(j - first)] - top);
            const std::vector<double> v = stored(head(seq, j, 2, h / c.ratio));
            sum += p;
            for (size_t d = 0; d < v.size(); d++) {
                (*out)[d] += p * v[d];
                (*size)[d] += p * fabs(v[d]);
            }
        }
        for (int d = 0; d < c.dim_v; d++) {
            (*out)[(size_t)d] /= sum;
            (*size)[(size_t)d] /= sum;
        }
    }
};

// ---------------------------------------------------------------- schedules

// Rows of a sequence in a step.
struct part {
    int seq, n_tokens, n_out; // n_out: the last rows
};

struct options {
    bool fused;
    int rows, grid;
    int out_type;      // 0: f32, 1: f16, 2: bf16
    bool appends_only; // no attention
    int streams; // 0: at random where it is possible, 1: never, 2: always, 3: the form of prompts
};

typedef std::map<std::pair<int, int>, std::vector<float>> row_map; // by sequence and position

int n_few_whole, n_few_parts, n_many_whole, n_many_parts, n_segments, n_small, n_streams[2],
    n_stream_parts[2], n_turns; // what the cases reached

// Pages and sequences of one schedule. Pages have random numbers, other than in other schedules.
struct world {
    const shape &c;
    const model &m;
    scratch_memory &scratch;
    random_source random;
    uint64_t page_bytes, head_bytes;
    device_array<uint8_t> pages;
    int n_pages;
    std::vector<uint32_t> free_pages;
    std::vector<std::vector<uint32_t>> table; // [sequence]
    std::vector<int> length;
    device_array<float> q, k, v, out, rope, inv_freq, q_weight, k_weight, sinks;
    device_array<uint16_t> out16;
    device_array<int32_t> pos, out_row, row_seq;
    device_array<step_seq> seqs;
    device_array<step> steps;
    device_array<uint32_t> tables;
    row_map result;
    int poison_seq = -1, poison_pos = -1; // an entry whose value is not finite

    world(const shape &shape_of_it, const model &model_of_it, scratch_memory &memory, int n_seqs,
          int max_length, uint64_t seed)
        : c(shape_of_it), m(model_of_it), scratch(memory), random{seed}, table((size_t)n_seqs),
          length((size_t)n_seqs, 0) {
        const int wide = c.type == KV_F16 || c.type == KV_BF16 ? 2 : 1;
        head_bytes =
            (uint64_t)((c.dim_k + 31) / 32 * 32 + (c.dim_v + 15) / 16 * 16) * 32 * (uint64_t)wide +
            (c.type == KV_INT8 ? 128 : 0);
        page_bytes = head_bytes * (uint64_t)c.n_kv * LAYERS;
        n_pages = n_seqs * ((max_length + 31) / 32) + 3;
        pages.put(std::vector<uint8_t>((size_t)n_pages * page_bytes, 0));
        for (int i = 0; i < n_pages; i++) free_pages.push_back((uint32_t)i);
        for (size_t i = free_pages.size(); i > 1; i--)
            std::swap(free_pages[i - 1], free_pages[(size_t)random.below((int)i)]);
    }

    void run(const std::vector<part> &parts, const options &o);
    void attend(stage_args &args, const std::vector<part> &parts, const options &o, int n_tokens,
                int n_out);
    void coverage(const stage_args &args, int grid);
    bool streams(stage_args &args, const std::vector<step_seq> &list,
                 const std::vector<int32_t> &outs, int grid);
    device_array<int32_t> few, many;
    device_array<stream_entry> work;
    device_array<step> step_there;
    std::vector<step_seq> seq_list; // of the step
    std::vector<int32_t> out_list;
};

void world::run(const std::vector<part> &parts, const options &o) {
    std::vector<int32_t> positions, outs, of_row;
    std::vector<step_seq> list;
    std::vector<uint32_t> ids;
    std::vector<float> qs, ks, vs, out_qs;
    const int ld_q = c.n_head() * c.dim_k + 32, ld_k = c.n_kv * c.dim_k + 32;
    const int ld_v = c.n_kv * c.dim_v + 32;
    for (const part &p : parts) {
        step_seq seq = {};
        const int first = length[(size_t)p.seq], end = first + p.n_tokens;
        seq.first_row = (int)positions.size(), seq.n_tokens = p.n_tokens, seq.first_pos = first;
        seq.first_out = (int)outs.size(), seq.n_out = p.n_out;
        seq.table[1] = (uint32_t)ids.size();
        for (int i = first; i < end; i++) {
            if (i / PAGE_TOKENS >= (int)table[(size_t)p.seq].size()) {
                table[(size_t)p.seq].push_back(free_pages.back());
                free_pages.pop_back();
            }
            if (i >= end - p.n_out) outs.push_back((int)positions.size());
            positions.push_back(i);
            of_row.push_back((int)list.size());
            const size_t row = positions.size() - 1;
            qs.resize((row + 1) * (size_t)ld_q, NAN);
            ks.resize((row + 1) * (size_t)ld_k, NAN);
            vs.resize((row + 1) * (size_t)ld_v, NAN);
            for (int d = 0; d < c.n_head() * c.dim_k; d++)
                qs[row * (size_t)ld_q + (size_t)d] = element(c, p.seq, i, 0, d);
            for (int d = 0; d < c.n_kv * c.dim_k; d++)
                ks[row * (size_t)ld_k + (size_t)d] = element(c, p.seq, i, 1, d);
            for (int d = 0; d < c.n_kv * c.dim_v; d++)
                vs[row * (size_t)ld_v + (size_t)d] = element(c, p.seq, i, 2, d);
            if (p.seq == poison_seq && i == poison_pos) vs[row * (size_t)ld_v] = INFINITY;
        }
        // pages that no row of the step sees are not in the table
        const int lowest = c.lowest(first);
        for (int i = 0; i < (int)table[(size_t)p.seq].size(); i++)
            ids.push_back(i < lowest / PAGE_TOKENS ? UINT32_MAX : table[(size_t)p.seq][(size_t)i]);
        ids.push_back(UINT32_MAX);
        length[(size_t)p.seq] = end;
        list.push_back(seq);
    }
    const int n_tokens = (int)positions.size(), n_out = (int)outs.size();
    stage_args args = {};
    args.step.n_tokens = n_tokens, args.step.n_out = n_out, args.step.n_seqs = (int)list.size();
    args.step.n_seqs_out = args.step.n_seqs;
    args.step.pos = pos.put(positions);
    args.step.out_row = out_row.put(outs);
    args.step.row_seq = row_seq.put(of_row);
    args.step.seq = seqs.put(list);
    args.step.tables = tables.put(ids);
    seq_list = list, out_list = outs;
    args.step.kv[1] = {pages.at, page_bytes / LAYERS, page_bytes / LAYERS * (uint64_t)n_pages,
                       LAYERS};

    rope.resize((size_t)n_tokens * (size_t)c.n_rot + 16);
    args.row.out = rope.at;
    args.row.inv_freq = inv_freq.put(m.inv_freq);
    args.row.n_rot = c.n_rot;
    args.row.magnitude = m.magnitude;
    args.kind = STAGE_ROPE_TABLE, args.n_rows = n_tokens;
    if (c.n_rot) stage_launch(args, o.grid);

    stage_attention &s = args.attention;
    if (c.q_is_out && o.rows == STAGE_OUT) { // then norm and rope were done before
        for (int i : outs)
            for (int h = 0; h < c.n_head(); h++) {
                const int seq = parts[(size_t)of_row[(size_t)i]].seq;
                const std::vector<float> x = m.head(seq, positions[(size_t)i], 0, h);
                out_qs.insert(out_qs.end(), x.begin(), x.end());
            }
        s.q_is_out = 1;
    }
    s.q = q.put(s.q_is_out ? out_qs : qs);
    s.ld_q = s.q_is_out ? c.n_head() * c.dim_k : ld_q;
    s.k = k.put(ks), s.v = v.put(vs);
    s.ld_k = ld_k, s.ld_v = ld_v;
    s.group = 1;
    s.n_head_kv = c.n_kv, s.ratio = c.ratio, s.dim_k = c.dim_k, s.dim_v = c.dim_v;
    s.window = c.window, s.is_chunk = c.is_chunk(), s.scale = c.scale, s.softcap = c.softcap;
    s.sinks = c.has_sinks ? sinks.put(m.sinks) : nullptr;
    s.fused = o.fused;
    s.q_norm = c.q_norm, s.k_norm = c.k_norm;
    s.q_weight = q_weight.put(m.q_weight), s.k_weight = k_weight.put(m.k_weight);
    s.q_eps = s.k_eps = m.eps;
    s.n_rot = c.n_rot, s.halves = c.halves;
    s.rope = rope.at;
    s.kv_type = c.type;
    s.page_bytes = args.step.kv[1].page_bytes;
    s.pages = pages.at + LAYER * args.step.kv[1].layer_bytes;
    s.parts = scratch.parts.at;
    s.parts_bytes = ATTENTION_PARTS;
    s.counters = scratch.counters.at;
    if (!o.fused || o.appends_only) {
        args.kind = STAGE_APPEND;
        stage_launch(args, o.grid);
    }
    if (!o.appends_only) {
        if (s.q_is_out) s.q_norm = 0, s.n_rot = 0;
        if (s.q_is_out) s.fused = 0;
        attend(args, parts, o, n_tokens, n_out);
    }
}

void world::attend(stage_args &args, const std::vector<part> &parts, const options &o, int n_tokens,
                   int n_out) {
    const int n_rows = o.rows == STAGE_OUT ? n_out : n_tokens, width = c.n_head() * c.dim_v;
    const int ld = width + 16;
    stage_attention &s = args.attention;
    out.put(std::vector<float>((size_t)(n_rows * ld), -77.0f));
    out16.put(std::vector<uint16_t>((size_t)(n_rows * ld), 0xabcd));
    s.ld_out = ld;
    if (o.out_type)
        s.out16 = {out16.at, s.ld_out, 0, o.out_type == 2, 0};
    else
        s.out = out.at;
    args.kind = STAGE_ATTENTION, args.rows = o.rows;
    // what an earlier stage left is not used
    CUDA(cudaMemset(s.parts, 0xff, 1 << 20));
    CUDA(cudaMemset((uint8_t *)s.parts + ATTENTION_STATES, 0xff, 4 << 20));
    args.run = (s.fused || n_tokens <= SMALL_ROWS) && !random.one_in(3) ? random.in(1, 4) : 0;
    s.page_slots = 1 << random.in(0, 2);
    args.is_long = random.one_in(2);
    int tiles = 0, longest = 0;
    for (const part &p : parts) {
        tiles += ((o.rows == STAGE_OUT ? p.n_out : p.n_tokens) * c.ratio + PROMPT_QUERIES - 1) /
                 PROMPT_QUERIES;
        longest = std::max(longest, length[(size_t)p.seq]);
    }
    const bool is_prompt = !s.fused && (o.streams == 3 || random.one_in(3)) &&
                           s.dim_k <= PROMPT_DIM_MAX && s.dim_v <= PROMPT_DIM_MAX && o.streams != 2;
    const bool tries = o.streams ? o.streams == 2 : !random.one_in(3);
    args.part = STEP_PARTS;
    if (is_prompt) {
        n_runs += o.grid >= 2 * tiles * c.n_kv && longest > 3 * SPLIT_TOKENS && !c.window;
        prompt_launch(args, steps.put({args.step}), o.grid);
    } else if (args.run)
        n_small++;
    else
        coverage(args, o.grid);
    if (!is_prompt && (args.run || s.fused || !tries || !streams(args, seq_list, out_list, o.grid)))
        stage_launch(args, o.grid);
    const std::vector<float> rows = out.get((size_t)(n_rows * ld));
    const std::vector<uint16_t> rows16 = out16.get((size_t)(n_rows * ld));
    for (uint32_t x : scratch.counters.get(4096)) CHECK(x == 0);
    for (uint32_t x : scratch.counters_end()) CHECK(x == 0);
    int at = 0;
    for (const part &p : parts) {
        const int n = o.rows == STAGE_OUT ? p.n_out : p.n_tokens;
        for (int i = length[(size_t)p.seq] - n; i < length[(size_t)p.seq]; i++, at++) {
            std::vector<float> y(rows.begin() + at * ld, rows.begin() + at * ld + width);
            std::vector<float> &known = result[{p.seq, i}];
            if (o.out_type) {
                for (int d = 0; d < width; d++) {
                    const uint16_t bits = rows16[(size_t)(at * ld + d)];
                    y[(size_t)d] = o.out_type == 2 ? bf16_to_f32(bits) : f16_to_f32(bits);
                }
                if (known.empty()) { // only of rows that are known in f32
                    result.erase({p.seq, i});
                    continue;
                }
                for (int d = 0; d < width; d++) {
                    const float x = known[(size_t)d];
                    const float rounded =
                        o.out_type == 2 ? bf16_to_f32(f32_to_bf16(x)) : f16_to_f32(f32_to_f16(x));
                    CHECK(rounded == y[(size_t)d]);
                }
                continue;
            }
            for (int d = width; d < ld; d++) CHECK(rows[(size_t)(at * ld + d)] == -77.0f);
            known = y;
        }
    }
}

// The stage by two launches: sequences of few rows as streams, the others by the form for any.
bool world::streams(stage_args &args, const std::vector<step_seq> &list,
                    const std::vector<int32_t> &outs, int grid) {
    stage_attention &s = args.attention;
    const bool is_out = args.rows == STAGE_OUT;
    const int bound = random.of({1, 5, 8, 8, 40}), n_sm = random.one_in(2) ? 132 : grid;
    if (!stream_has(c.dim_k, c.dim_v)) return false;
    std::vector<int32_t> index[2];
    int most = 0;
    for (size_t i = 0; i < list.size(); i++) {
        const int n = is_out ? list[i].n_out : list[i].n_tokens;
        if (n == 0) continue;
        index[n > bound].push_back((int32_t)i);
        if (n <= bound) most = std::max(most, n);
    }
    const stream_kind kind = {1, is_out, c.n_kv, c.ratio, c.dim_k, c.window, c.is_chunk(), 0};
    const int tiles = stream_tiles(&kind, most), n_few = (int)index[0].size();
    if (n_few == 0) return false;
    std::vector<stream_entry> entries(
        (size_t)stream_plan_most(&kind, n_few, std::max(most, 1), n_sm));
    const int n = stream_plan(&kind, list.data(), index[0].data(), n_few, outs.data(), tiles, n_sm,
                              entries.data());
    CHECK(n <= (int)entries.size());
    entries.resize((size_t)n);
    bool has_parts = false;
    for (const stream_entry &e : entries) has_parts = has_parts || e.n_runs > 1;
    args.step.part[is_out][PART_FEW] = {few.put(index[0]), n_few, 0};
    args.step.part[is_out][PART_MANY] = {many.put(index[1]), (int)index[1].size(), 0};
    args.part = PART_MANY;
    if (!index[1].empty()) stage_launch(args, grid);
    s.work = random.below(STEP_WORKS);
    args.step.work[s.work] = {work.put(entries), n, 0};
    attention_args own = {};
    own.stage = s, own.rows = args.rows, own.is_early = random.one_in(2);
    own.step = step_there.put({args.step});
    const int teams = random.in(1, STREAM_TEAMS(tiles)) * std::max(1, grid / 4);
    launch(attention_streams(s.kv_type, s.dim_k, s.dim_v, tiles), teams, STREAM_THREADS,
           STREAM_SHARED(tiles), &own);
    n_streams[tiles > 1]++;
    n_stream_parts[tiles > 1] += has_parts;
    n_turns += n * c.n_kv > teams;
    return true;
}

// Which ways through the kernel a stage takes.
void world::coverage(const stage_args &args, int grid) {
#ifdef RN_EMULATED
    const stage_attention &s = args.attention;
    uint32_t cost = 0;
    for (int i = 0; i < args.step.n_seqs; i++)
        cost += shape_cost(s, shape_of(s, args.step, args.step.seq[i], args.rows, 2 * grid));
    for (int i = 0; i < args.step.n_seqs; i++) {
        const attention_shape of = shape_of(s, args.step, args.step.seq[i], args.rows, 2 * grid);
        const attention_sums takes = shape_takes(s, of, cost, 2 * grid);
        if (takes.n_split)
            (of.is_few ? n_few_parts : n_many_parts)++;
        else if (takes.n_whole && of.n_splits > 1)
            (of.is_few ? n_few_whole : n_many_whole)++;
        if (takes.n_split && shape_segments(of) > 1) n_segments++;
    }
#else
    (void)args, (void)grid;
#endif
}

// ---------------------------------------------------------------- comparisons

void rows_compare(const row_map &a, const row_map &b, const char *what) {
    int n = 0;
    for (const auto &row : b) {
        const auto other = a.find(row.first);
        if (other == a.end()) continue;
        n++;
        if (memcmp(other->second.data(), row.second.data(), row.second.size() * 4) == 0) continue;
        size_t d = 0;
        while (memcmp(&other->second[d], &row.second[d], 4) == 0) d++;
        fprintf(stderr, "case %d, %s: sequence %d, position %d, element %zu: %a, not %a\n",
                case_now, what, row.first.first, row.first.second, d, (double)row.second[d],
                (double)other->second[d]);
        exit(1);
    }
    CHECK(n > 0);
}

void pages_compare(const world &a, const world &b) {
    const std::vector<uint8_t> x = a.pages.get((size_t)a.n_pages * a.page_bytes);
    const std::vector<uint8_t> y = b.pages.get((size_t)b.n_pages * b.page_bytes);
    for (size_t s = 0; s < a.table.size(); s++) {
        CHECK(a.length[s] == b.length[s]);
        const uint64_t bytes = a.page_bytes / LAYERS; // of a page and a layer
        for (size_t i = 0; i < a.table[s].size() * LAYERS; i++) {
            const size_t layer = i % LAYERS;
            CHECK(memcmp(&x[(layer * (size_t)a.n_pages + a.table[s][i / LAYERS]) * bytes],
                         &y[(layer * (size_t)b.n_pages + b.table[s][i / LAYERS]) * bytes],
                         bytes) == 0);
        }
    }
}

double worst; // error in parts of the bound

void rows_check(const world &w, random_source &random, int n) {
    std::vector<std::pair<int, int>> keys;
    for (const auto &row : w.result) keys.push_back(row.first);
    const double bound = w.c.type == KV_BF16 ? 4e-3 : 1e-3;
    for (int i = 0; i < n; i++) {
        const std::pair<int, int> key = keys[(size_t)random.below((int)keys.size())];
        const int h = random.below(w.c.n_head());
        std::vector<double> y, size;
        w.m.row(key.first, key.second, h, &y, &size);
        for (int d = 0; d < w.c.dim_v; d++) {
            const double x = w.result.at(key)[(size_t)(h * w.c.dim_v + d)];
            const double error = fabs(x - y[(size_t)d]) / (size[(size_t)d] + 1e-6) / bound;
            worst = std::max(worst, error);
            if (error < 1) continue;
            fprintf(stderr,
                    "case %d: sequence %d, position %d, head %d, element %d: %g, expected %g\n",
                    case_now, key.first, key.second, h, d, x, y[(size_t)d]);
            exit(1);
        }
    }
}

// ---------------------------------------------------------------- cases

shape shape_draw(random_source &random) {
    shape c = {};
    c.seed = random.next();
    c.type = case_now % KV_TYPES;
    c.dim_k = random.of({16, 32, 64, 64, 80, 96, 128, 128, 192, 256});
    c.dim_v = random.one_in(3) ? random.of({16, 32, 64, 80, 128, 256}) : c.dim_k;
    if (random.one_in(12))
        c.dim_k = random.of({2, 6, 50, 576, 1024}), c.dim_v = random.of({2, 34, 512});
    if (random.one_in(12)) c.dim_k = 64, c.dim_v = 192; // a page fits into the slots
    c.n_kv = random.in(1, 3);
    c.ratio = random.of({1, 1, 2, 3, 4, 5, 8});
    c.window = random.one_in(3) ? random.of({1, 7, 32, 100, 256, 300}) : 0;
    c.softcap = random.one_in(4) ? 20.0f : 0.0f;
    c.has_sinks = random.one_in(3);
    c.q_norm = random.one_in(2), c.k_norm = random.one_in(2);
    c.q_is_out = random.one_in(3);
    c.n_rot = random.one_in(4) ? 0 : random.one_in(3) ? c.dim_k / 4 * 2 : c.dim_k;
    c.halves = random.one_in(2);
    c.scale = 1.0f / sqrtf((float)c.dim_k);
    return c;
}

// Sequences in steps of random rows, up to `most` a step. n_rows: of each sequence.
void schedule_run(world &w, random_source &random, const std::vector<int> &n_rows, int most,
                  bool fused, bool outs, int batch, int grid) {
    std::vector<int> left;
    for (size_t s = 0; s < n_rows.size(); s++) left.push_back(n_rows[s] - w.length[s]);
    for (;;) {
        std::vector<part> parts;
        for (size_t s = 0; s < n_rows.size(); s++) {
            if (left[s] == 0 || (int)parts.size() == batch || random.one_in(4)) continue;
            const int n = std::min(left[s], random.in(1, most));
            left[s] -= n;
            parts.push_back({(int)s, n, outs ? random.below(std::min(n, 3) + 1) : n});
        }
        if (parts.empty()) {
            if (std::all_of(left.begin(), left.end(), [](int n) { return n == 0; })) return;
            continue;
        }
        int n_out = 0;
        for (const part &p : parts) n_out += p.n_out;
        const int rows = outs && (n_out || fused) ? STAGE_OUT : STAGE_TOKENS;
        w.run(parts, {fused, rows, grid, 0, outs && rows == STAGE_TOKENS, 0});
    }
}

void case_rows(scratch_memory &scratch, random_source &random) {
    const shape c = shape_draw(random);
    const model m(c);
    const int n_seqs = random.in(1, 4), most = random.one_in(3) ? 330 : 60;
    const int cost = c.n_kv * c.ratio * (c.dim_k + c.dim_v);
    std::vector<int> n_rows;
    for (int s = 0; s < n_seqs; s++)
        n_rows.push_back(random.in(1, cost > 2000 ? std::min(most, 40) : most));
    printf("case %d: %s, heads %d x %d, %d and %d elements, %s %d%s%s, %d sequences of up to %d\n",
           case_now, (const char *[]){"f16", "bf16", "int8", "fp8"}[c.type], c.n_kv, c.ratio,
           c.dim_k, c.dim_v, c.is_chunk() ? "chunk" : "window", c.window,
           c.has_sinks ? ", sinks" : "", c.softcap > 0 ? ", cap" : "", n_seqs,
           *std::max_element(n_rows.begin(), n_rows.end()));
    const int longest = *std::max_element(n_rows.begin(), n_rows.end());
    const uint64_t seed = random.next();
    world whole(c, m, scratch, n_seqs, longest, seed),
        chunks(c, m, scratch, n_seqs, longest, seed + 1);
    world fused(c, m, scratch, n_seqs, longest, seed + 2),
        outs(c, m, scratch, n_seqs, longest, seed + 3);
    for (int s = 0; s < n_seqs; s++)
        whole.run({{s, n_rows[(size_t)s], 1}}, {false, STAGE_TOKENS, random.in(1, 3), 0, false, 0});
    schedule_run(chunks, random, n_rows, 40, false, false, n_seqs, random.in(1, 4));
    schedule_run(fused, random, n_rows, random.in(2, 8), true, false, random.in(1, 4),
                 random.in(1, 3));
    schedule_run(outs, random, n_rows, random.in(2, 20), random.one_in(2) && !c.q_is_out, true,
                 random.in(1, 4), random.in(1, 3));
    rows_compare(whole.result, chunks.result, "chunks");
    rows_compare(whole.result, fused.result, "fused");
    if (!outs.result.empty()) rows_compare(whole.result, outs.result, "out rows");
    pages_compare(whole, chunks);
    pages_compare(whole, fused);
    pages_compare(whole, outs);
    rows_check(whole, random, 12);
    // the last row again, as 16 bits
    world again(c, m, scratch, n_seqs, longest, seed + 4);
    again.result = whole.result;
    for (int s = 0; s < n_seqs; s++)
        again.run({{s, n_rows[(size_t)s], 1}}, {false, STAGE_OUT, 2, random.in(1, 2), false, 0});
}

// Long contexts: the history is only appended.
void case_long(scratch_memory &scratch, random_source &random) {
    shape c = shape_draw(random);
    const bool has_pairs =
        case_now % 12 == 5; // the heads of attention_long.cuh, in steps of few rows
    c.dim_k = random.of({16, 32, 64}), c.dim_v = random.of({16, 32, 48});
    if (has_pairs) c.dim_k = c.dim_v = random.of({64, 128}), c.q_is_out = false;
    if (!has_pairs && random.one_in(2)) c.dim_k = c.dim_v = random.of({64, 128, 256});
    c.type = case_now / 12 % KV_TYPES;
    c.n_rot = c.n_rot ? c.dim_k : 0;
    c.n_kv = random.in(1, 2);
    c.window = random.one_in(4) ? random.of({600, 2500}) : 0;
    const model m(c);
    const int n_seqs = random.in(1, 3);
    std::vector<int> history, n_rows;
    for (int s = 0; s < n_seqs; s++) {
        history.push_back(random.one_in(3) ? random.in(8150, 8700) : random.in(700, 2500));
        n_rows.push_back(history.back() + random.of({1, 3, 9, 40}));
    }
    printf("case %d: %s, heads %d x %d, %d and %d elements, %s %d, %d sequences from %d on\n",
           case_now, (const char *[]){"f16", "bf16", "int8", "fp8"}[c.type], c.n_kv, c.ratio,
           c.dim_k, c.dim_v, c.is_chunk() ? "chunk" : "window", c.window, n_seqs, history[0]);
    const int longest = *std::max_element(n_rows.begin(), n_rows.end());
    const uint64_t seed = random.next();
    row_map first;
    for (int i = 0; i < 4; i++) {
        world w(c, m, scratch, n_seqs, longest, seed + (uint64_t)i);
        for (int s = 0; s < n_seqs; s++)
            w.run({{s, history[(size_t)s], 0}}, {false, STAGE_TOKENS, 2, 0, true, 0});
        const int grid = (const int[]){1, 7, 40, 3}[i];
        if (i == 0)
            for (int s = 0; s < n_seqs; s++)
                w.run({{s, n_rows[(size_t)s] - history[(size_t)s], 1}},
                      {false, STAGE_TOKENS, grid, 0, false, 0});
        else
            schedule_run(w, random, n_rows, (const int[]){0, 40, has_pairs ? 8 : 40, 5}[i],
                         i == 3 || (has_pairs && i == 2), false, n_seqs, grid);
        if (i == 0) {
            first = w.result;
            rows_check(w, random, 4);
        } else {
            rows_compare(first, w.result, "long");
        }
    }
}

// More sequences in a step than are planned at a time.
void case_crowd(scratch_memory &scratch, random_source &random) {
    shape c = shape_draw(random);
    c.dim_k = 32, c.dim_v = 16;
    if (random.one_in(2)) c.dim_k = c.dim_v = 64;
    c.n_kv = 1, c.ratio = random.in(1, 4), c.window = 0;
    c.n_rot = c.n_rot ? 32 : 0;
    const model m(c);
    const int n_seqs = random.one_in(2) ? ATTENTION_SEQS + 1 : random.in(250, 300);
    world crowd(c, m, scratch, n_seqs, 900, 1), alone(c, m, scratch, n_seqs, 900, 2);
    std::vector<part> history, last;
    for (int s = 0; s < n_seqs; s++) {
        const bool is_long = s % 50 == 7 || s == n_seqs - 1;
        history.push_back({s, is_long ? random.in(520, 850) : random.in(1, 20), 0});
        last.push_back({s, random.one_in(5) ? random.in(2, 6) : 1, 1});
    }
    crowd.run(history, {false, STAGE_TOKENS, 2, 0, true, 0});
    alone.run(history, {false, STAGE_TOKENS, 1, 0, true, 0});
    crowd.run(last, {random.one_in(2), STAGE_TOKENS, random.in(1, 3), 0, false, 0});
    for (const part &p : last)
        if (p.seq % 50 == 7 || p.seq > n_seqs - 4 || random.one_in(20))
            alone.run({p}, {false, STAGE_TOKENS, random.in(1, 3), 0, false, 0});
    rows_compare(crowd.result, alone.result, "crowd");
}

// Streams of very different lengths, some with several rows, beside a part of a prompt.
void case_streams(scratch_memory &scratch, random_source &random) {
    shape c = shape_draw(random);
    c.dim_k = c.dim_v = random.of({64, 64, 128, 256});
    c.type = (case_now + case_now / 4) % KV_TYPES;
    c.n_rot = c.n_rot ? c.dim_k : 0;
    c.n_kv = random.in(1, 2), c.ratio = random.of({1, 2, 4, 5, 8});
    c.window = random.one_in(2) ? random.of({1, 31, 33, 100, 300, 600}) : 0;
    const model m(c);
    const int n_seqs = random.in(2, 6), most_rows = random.of({1, 1, 4, 8});
    world one(c, m, scratch, n_seqs, 1500, 1), other(c, m, scratch, n_seqs, 1500, 2);
    std::vector<part> history, last;
    for (int s = 0; s < n_seqs; s++) {
        const int n = s == 0 ? random.in(520, 1400) : random.of({0, 31, 250, 256, 300, 700});
        if (n) history.push_back({s, n, 0});
        const int rows = s == 1 && random.one_in(2) ? 30 : random.in(1, most_rows);
        last.push_back({s, rows, random.in(0, std::min(rows, 3))});
    }
    last[0].n_out = 1;
    one.run(history, {false, STAGE_TOKENS, 2, 0, true, 1});
    other.run(history, {false, STAGE_TOKENS, 1, 0, true, 1});
    const int rows = random.one_in(3) ? STAGE_OUT : STAGE_TOKENS;
    one.run(last, {false, rows, random.in(1, 3), 0, false, 1});
    other.run(last, {false, rows, random.in(1, 9), 0, false, 2});
    rows_compare(one.result, other.result, "streams");
}

// Prompts whose items are shared by several blocks, which leave parts, against one block for each.
// Some have queries of both teams.
void case_runs(scratch_memory &scratch, random_source &random) {
    shape c = shape_draw(random);
    c.dim_k = c.dim_v = random.of({64, 128, 256});
    c.type = case_now / 6 % KV_TYPES;
    c.n_rot = c.n_rot ? c.dim_k : 0;
    c.n_kv = 1, c.ratio = random.of({1, 2, 4}), c.q_is_out = false;
    c.window = random.one_in(4) ? 900 : 0;
    const model m(c);
    world one(c, m, scratch, 1, 2400, 1), other(c, m, scratch, 1, 2400, 2);
    const std::vector<part> history = {{0, random.in(1100, 1700), 0}};
    one.run(history, {false, STAGE_TOKENS, 2, 0, true, 1});
    other.run(history, {false, STAGE_TOKENS, 2, 0, true, 1});
    for (int i = 0; i < 4; i++) {
        const int n = i ? random.in(9, 90 / c.ratio) : 120 / c.ratio;
        one.run({{0, n, 0}}, {false, STAGE_TOKENS, 1, 0, false, 3});
        other.run({{0, n, 0}}, {false, STAGE_TOKENS, random.in(2, 9), 0, false, 3});
    }
    rows_compare(one.result, other.result, "runs");
}

// A value that is not finite reaches the rows that see it, and no others of its chunk.
void case_poison(scratch_memory &scratch, random_source &random) {
    shape c = shape_draw(random);
    c.window = 0;
    const model m(c);
    world clean(c, m, scratch, 1, 20, 1), bad(c, m, scratch, 1, 20, 2);
    bad.poison_seq = 0, bad.poison_pos = random.in(3, 15);
    clean.run({{0, 20, 1}}, {false, STAGE_TOKENS, 1, 0, false, 0});
    bad.run({{0, 20, 1}}, {random.one_in(2), STAGE_TOKENS, 1, 0, false, 0});
    for (int pos = 0; pos < 20; pos++) {
        const std::vector<float> &x = clean.result[{0, pos}], &y = bad.result[{0, pos}];
        for (int h = 0; h < c.ratio; h++) { // KV head 0
            for (int d = h * c.dim_v; d < (h + 1) * c.dim_v; d++) {
                if (pos < bad.poison_pos)
                    CHECK(memcmp(&x[(size_t)d], &y[(size_t)d], 4) == 0);
                else
                    CHECK(isnan(y[(size_t)d]));
            }
        }
    }
}

// Clears and copies in order, on two groups of two layers.
void case_pages(random_source &random) {
    enum { PAGES = 9, N_LAYER = 2 };
    const uint64_t bytes[2] = {128 * (uint64_t)random.in(1, 90), 128 * (uint64_t)random.in(1, 9)};
    std::vector<uint8_t> model_of[2];
    device_array<uint8_t> kv[2];
    std::vector<step_page> list;
    for (int g = 0; g < 2; g++) {
        for (uint64_t i = 0; i < N_LAYER * PAGES * bytes[g]; i++)
            model_of[g].push_back((uint8_t)random.next());
        kv[g].put(model_of[g]);
    }
    for (int i = 0; i < 20; i++) {
        const int g = random.below(2);
        step_page page = {g * 2, (uint32_t)random.below(PAGES), (uint32_t)random.below(PAGES), 0};
        if (random.one_in(3) || page.page == page.from) page.from = UINT32_MAX;
        list.push_back(page);
        for (int layer = 0; layer < N_LAYER; layer++) {
            uint8_t *of_layer = &model_of[g][(uint64_t)layer * PAGES * bytes[g]];
            if (page.from == UINT32_MAX)
                memset(of_layer + page.page * bytes[g], 0, bytes[g]);
            else
                memcpy(of_layer + page.page * bytes[g], of_layer + page.from * bytes[g], bytes[g]);
        }
    }
    device_array<step_page> pages;
    stage_args args = {};
    args.kind = STAGE_PAGES;
    args.step.n_pages = (int)list.size();
    args.step.page = pages.put(list);
    for (int g = 0; g < 2; g++)
        args.step.kv[2 * g] = {kv[g].at, bytes[g], PAGES * bytes[g], N_LAYER};
    stage_launch(args, random.in(1, 3));
    for (int g = 0; g < 2; g++) CHECK(kv[g].get(model_of[g].size()) == model_of[g]);
}

// All codes of fp8 and int8, and what they are as halves.
void case_codes() {
#ifdef RN_EMULATED
    for (uint32_t code = 0; code < 256; code++) {
        uint32_t low, high;
        halves_of<kv_form<KV_INT8, 0>>(code | code << 16, low, high);
        CHECK(f16_to_f32((uint16_t)low) == (float)(int8_t)code / 128.0f && low == high);
        halves_of<kv_form<KV_FP8, 0>>(code << 8 | code << 24, low, high);
        const float x = f16_to_f32((uint16_t)(low >> 16));
        if ((code & 0x7f) == 0x7f) continue;
        CHECK(low == high && fp8_of(x) == code && model::fp8((double)x) == (double)x);
        const float more = x * 1.0625f, less = x * 0.9375f;
        CHECK(fabs(model::fp8((double)more)) == fabs((double)f16_to_f32([&] {
                  halves_of<kv_form<KV_FP8, 0>>(fp8_of(more) << 8, low, high);
                  return (uint16_t)(low >> 16);
              }())));
        CHECK(fabs(model::fp8((double)less)) == fabs((double)f16_to_f32([&] {
                  halves_of<kv_form<KV_FP8, 0>>(fp8_of(less) << 8, low, high);
                  return (uint16_t)(low >> 16);
              }())));
    }
#endif
}

} // namespace

int main(int argc, char **argv) {
    const int first = argc > 1 ? atoi(argv[1]) : 0, n = argc > 2 ? atoi(argv[2]) : 24;
    scratch_memory scratch;
    setvbuf(stdout, nullptr, _IOLBF, 0);
    case_codes();
    for (case_now = first; case_now < first + n; case_now++) {
        random_source random = {mix((uint64_t)case_now + 77)};
        if (case_now % 6 == 5)
            case_long(scratch, random);
        else
            case_rows(scratch, random);
        case_poison(scratch, random);
        if (case_now % 4 == 0) case_pages(random);
        if (case_now % 8 == 2) case_crowd(scratch, random);
        if (case_now % 6 == 1) case_runs(scratch, random);
        case_streams(scratch, random);
    }
    printf("ok; the largest error is %.2f of the bound; several splits: few %d whole, %d in parts; "
           "many %d whole, %d in parts; %d of several segments\n",
           worst, n_few_whole, n_few_parts, n_many_whole, n_many_parts, n_segments);
    printf("%d small steps, %d of them of the long form; %d of prompts, %d of these in runs\n",
           n_small, n_long, n_prompt, n_runs);
    printf(
        "%d and %d steps of streams with one and with several tiles, %d and %d with parts; %d with "
        "more items than teams\n",
        n_streams[0], n_streams[1], n_stream_parts[0], n_stream_parts[1], n_turns);
    return 0;
}
