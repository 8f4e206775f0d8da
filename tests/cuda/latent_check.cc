// Attention over latents, on the emulator. Keys of some sequences are appended, and the last rows
// of each are computed in several schedules: alone and in batches, whole and by splits, with much
// and with little shared memory.
// 1. A row has the same bits in all schedules.
// 2. A row is near a plain model in double precision that has the same roundings of q and k.
// 3. An entry that is not finite makes NaN of the queries that see it, and changes no other one.
// Usage: latent_check [first case [cases]].
#include <algorithm>
#include <math.h>
#include <string.h>

#include "attention_latent.h"
#include "base/half.h"
#include "kernel_check.h"

namespace {

// ---------------------------------------------------------------- a case

enum { N_LAST = 6, NO_POSITION = 1 << 30 }; // rows of each sequence

struct shape {
    int type, dim_k, dim_v, n_kv, ratio;
    bool has_sinks;
    float scale, softcap;
    std::vector<int> lengths; // of sequences
    int bad;                  // position of sequence 0 whose entry is not finite
    uint64_t seed;
};

float key_of(const shape &c, int seq, int pos, int i) {
    if (seq == 0 && pos == c.bad && i == 3) return INFINITY;
    const float x =
        number_of(mix(c.seed) + ((uint64_t)seq * 4099 + (uint64_t)pos) * 4096 + (uint64_t)i);
    return i % 29 == 5 ? x * 4.0f : x;
}
float query_of(const shape &c, int seq, int pos, int i) {
    return number_of(mix(c.seed + 1) + ((uint64_t)seq * 4099 + (uint64_t)pos) * 65536 +
                     (uint64_t)i);
}
float sink_of(const shape &c, int head) { return number_of(c.seed + 77 + (uint64_t)head); }

double fp8(double x) {
    const double a = fabs(x);
    if (a >= 448) return x < 0 ? -448 : 448;
    int e;
    frexp(a, &e);
    const double unit = ldexp(1, (e - 1 < -6 ? -6 : e - 1) - 3);
    return (x < 0 ? -1 : 1) * nearbyint(a / unit) * unit;
}

std::vector<double> stored(const shape &c, int seq, int pos, int head) {
    std::vector<double> y((size_t)c.dim_k);
    for (int d = 0; d < c.dim_k; d++) {
        const float x = key_of(c, seq, pos, head * c.dim_k + d);
        double &to = y[(size_t)d];
        if (c.type == KV_F16) to = (double)f16_to_f32(f32_to_f16(x));
        if (c.type == KV_BF16) to = (double)bf16_to_f32(f32_to_bf16(x));
        if (c.type == KV_FP8) to = fp8((double)x);
        if (c.type == KV_INT8) {
            float most = 0; // of its 64 elements
            for (int k = d / 64 * 64; k < c.dim_k && k < d / 64 * 64 + 64; k++)
                most = std::max(most, fabsf(key_of(c, seq, pos, head * c.dim_k + k)));
            const double scale = (double)f16_to_f32(f32_to_f16(most * (128.0f / 127.0f)));
            const double code = nearbyint((double)(x * (128.0f / (float)scale)));
            const double number = std::max(-127.0, std::min(127.0, code)) / 128 * scale;
            to = (double)f16_to_f32(f32_to_f16((float)number));
        }
    }
    return y;
}

// The row of a sequence's position against the plain model.
void row_check(const shape &c, int seq, int pos, const float *got) {
    const double rounding = c.type == KV_BF16 ? 1.2e-2 : 2e-3;
    if (seq == 0 && pos >= c.bad) {
        for (int i = 0; i < c.n_kv * c.ratio * c.dim_v; i++) {
            const bool is_marked = i / (c.ratio * c.dim_v) == 0; // the first KV head has it
            CHECK(isnan(got[i]) == is_marked);
        }
        return;
    }
    for (int kv = 0; kv < c.n_kv; kv++) {
        std::vector<std::vector<double>> keys;
        for (int j = 0; j <= pos; j++) keys.push_back(stored(c, seq, j, kv));
        for (int h = kv * c.ratio; h < (kv + 1) * c.ratio; h++) {
            std::vector<double> s;
            double top = c.has_sinks ? (double)sink_of(c, h) : -1e300, sum = 0;
            for (const std::vector<double> &k : keys) {
                double dot = 0;
                for (int d = 0; d < c.dim_k; d++) {
                    const float q = query_of(c, seq, pos, h * c.dim_k + d);
                    dot += k[(size_t)d] * (double)(c.type == KV_BF16 ? bf16_to_f32(f32_to_bf16(q))
                                                                     : f16_to_f32(f32_to_f16(q)));
                }
                dot *= (double)c.scale;
                if (c.softcap > 0) dot = (double)c.softcap * tanh(dot / (double)c.softcap);
                s.push_back(dot);
                top = std::max(top, dot);
            }
            if (c.has_sinks) sum = exp((double)sink_of(c, h) - top);
            for (double &e : s) sum += e = exp(e - top);
            for (int d = 0; d < c.dim_v; d++) {
                double y = 0, size = 0;
                for (size_t j = 0; j < s.size(); j++) {
                    y += s[j] / sum * keys[j][(size_t)d];
                    size += s[j] / sum * fabs(keys[j][(size_t)d]);
                }
                const float mine = got[h * c.dim_v + d];
                if (!(fabs((double)mine - y) <= rounding * size + 1e-6)) {
                    fprintf(stderr,
                            "case %d: sequence %d, position %d, head %d, element %d: %g, "
                            "expected %g\n",
                            case_now, seq, pos, h, d, (double)mine, y);
                    exit(1);
                }
            }
        }
    }
}

// ---------------------------------------------------------------- steps

struct bench {
    const shape &c;
    int page_bytes, n_pages = 0;
    std::vector<std::vector<uint32_t>> tables;
    device_array<uint8_t> pages;
    device_array<float> parts;
    device_array<uint32_t> counters;

    explicit bench(const shape &from) : c(from) {
        page_bytes = c.n_kv * (int)LATENT_PAGE_BYTES((c.dim_k + 31) / 32, c.type);
        for (int length : c.lengths) {
            std::vector<uint32_t> table((size_t)(length + PAGE_TOKENS - 1) / PAGE_TOKENS);
            for (uint32_t &page : table) page = (uint32_t)n_pages++;
            std::reverse(table.begin(), table.end());
            tables.push_back(table);
        }
        pages.put(std::vector<uint8_t>((size_t)n_pages * (size_t)page_bytes));
        parts.resize((ATTENTION_STATES + (64 << 20)) / sizeof(float));
        counters.put(std::vector<uint32_t>(64));
    }

    // Rows [first, first + n) of some sequences.
    struct part {
        int seq, first, n;
    };
    struct schedule {
        int grid, n_workers;
        uint32_t most;    // shared memory
        uint64_t n_parts; // bytes for parts
        bool is_out;      // out rows, of which the first row of each sequence has none
        bool is_early;
        bool is_joined; // the last elements of q are another row's, turned by nothing
    };

    // Appends or attends; of attention the rows of each part.
    std::vector<float> run(const std::vector<part> &list, bool appends, const schedule &how) {
        std::vector<int32_t> pos, row_seq, out_row;
        std::vector<step_seq> seqs;
        std::vector<uint32_t> all;
        std::vector<float> k, q;
        const int n_q = c.n_kv * c.ratio * c.dim_k, n_k = c.n_kv * c.dim_k;
        const int n_out = c.n_kv * c.ratio * c.dim_v;
        for (const part &p : list) {
            step_seq seq = {};
            seq.first_row = (int)pos.size(), seq.n_tokens = p.n, seq.first_pos = p.first;
            seq.first_out = (int)out_row.size();
            seq.table[0] = (uint32_t)all.size();
            all.insert(all.end(), tables[(size_t)p.seq].begin(), tables[(size_t)p.seq].end());
            for (int i = 0; i < p.n; i++) {
                if (!how.is_out || i > 0) out_row.push_back((int)pos.size());
                pos.push_back(p.first + i);
                row_seq.push_back((int)seqs.size());
                for (int e = 0; appends && e < n_k; e++)
                    k.push_back(key_of(c, p.seq, p.first + i, e));
                for (int e = 0; !appends && e < n_q; e++)
                    q.push_back(query_of(c, p.seq, p.first + i, e));
            }
            seq.n_out = (int)out_row.size() - seq.first_out;
            seqs.push_back(seq);
        }
        std::vector<float> sinks((size_t)(c.n_kv * c.ratio));
        for (size_t i = 0; i < sinks.size(); i++) sinks[i] = sink_of(c, (int)i);
        const device_array<int32_t> pos_d(pos), row_seq_d(row_seq), out_row_d(out_row);
        const device_array<step_seq> seqs_d(seqs);
        const device_array<uint32_t> tables_d(all);
        const int n_rot = (c.dim_k - c.dim_v) / 2 * 2;
        std::vector<float> turns(pos.size() * (size_t)n_rot);
        for (size_t i = 0; i < turns.size(); i++) turns[i] = i % 2 ? 0.0f : 1.0f;
        const device_array<float> k_d(k), q_d(q), sinks_d(sinks), turns_d(turns);
        const size_t n_rows = how.is_out ? out_row.size() : pos.size();
        device_array<float> out(std::vector<float>(n_rows * (size_t)n_out, -77.0f));
        step st = {};
        st.n_tokens = (int)pos.size(), st.n_out = (int)out_row.size(), st.n_seqs = (int)seqs.size();
        st.n_seqs_out = st.n_seqs;
        st.pos = pos_d.at, st.row_seq = row_seq_d.at, st.out_row = out_row_d.at;
        st.seq = seqs_d.at, st.tables = tables_d.at;
        const device_array<step> st_d(std::vector<step>(1, st));
        latent_args args = {};
        stage_attention &s = args.stage;
        s.q = q_d.at, s.k = k_d.at, s.out = out.at;
        s.ld_q = n_q, s.ld_k = n_k, s.ld_out = n_out;
        if (how.is_joined) {
            s.joined = q_d.at + c.dim_v, s.ld_joined = n_q, s.joined_step = c.dim_k;
            s.joined_at = c.dim_v, s.n_rot = n_rot, s.halves = case_now % 2, s.rope = turns_d.at;
        }
        s.n_head_kv = c.n_kv, s.ratio = c.ratio, s.dim_k = c.dim_k, s.dim_v = c.dim_v;
        s.scale = c.scale, s.softcap = c.softcap, s.sinks = c.has_sinks ? sinks_d.at : nullptr;
        s.kv_type = c.type, s.page_bytes = (uint64_t)page_bytes, s.pages = pages.at;
        s.parts = parts.at, s.counters = counters.at;
        args.step = st_d.at, args.rows = how.is_out ? STAGE_OUT : STAGE_TOKENS;
        args.n_workers = how.n_workers;
        args.run = how.n_workers == 1000 ? 1 + case_now % 3 : 1;
        args.is_early = how.is_early, args.n_parts = how.n_parts / 32;
        if (appends) {
            launch(latent_append(c.type), how.grid, BLOCK_THREADS, 0, &args);
            return {};
        }
        const uint32_t shared = cuda_latent_divide(&args, how.most);
        CHECK(shared > 0 && shared <= how.most && args.n_slots >= 2);
        launch(latent_attention(c.type, c.dim_k, c.dim_v), how.grid, LATENT_THREADS, shared, &args);
        launch(latent_fold(), how.grid, LATENT_FOLD_THREADS, LATENT_HEAD, &args);
        const std::vector<float> got = out.get();
        CHECK(counters.get(1)[0] == 0);
        return got;
    }
};

void case_run(const shape &c) {
    bench b(c);
    const int n_seqs = (int)c.lengths.size(), width = c.n_kv * c.ratio * c.dim_v;
    for (int i = 0; i < n_seqs; i++)
        b.run({{i, 0, c.lengths[(size_t)i]}}, true, {2, 1, 0, 0, false, false, false});
    // each row alone, by one block: all splits in order
    std::vector<float> alone;
    std::vector<bench::part> all;
    const bench::schedule plain = {1, 1, 232448, 0, false, false, false};
    for (int i = 0; i < n_seqs; i++) {
        const int first = c.lengths[(size_t)i] - N_LAST;
        all.push_back({i, first, N_LAST});
        for (int r = 0; r < N_LAST; r++) {
            const std::vector<float> row = b.run({{i, first + r, 1}}, false, plain);
            if (r % 3 == 2) row_check(c, i, first + r, row.data());
            alone.insert(alone.end(), row.begin(), row.end());
        }
    }
    const auto same = [&](const std::vector<float> &got, const float *expected, const char *what) {
        CHECK(memcmp(got.data(), expected, got.size() * sizeof(float)) == 0, "%s", what);
    };
    const size_t of_seq = (size_t)(N_LAST * width);
    const uint32_t least = 166912; // of a GPU of compute capability 8.0
    for (int i = 0; i < n_seqs; i++) {
        const float *expected = alone.data() + (size_t)i * of_seq;
        same(b.run({{i, all[(size_t)i].first, 1}}, false,
                   {5, 1000, 232448, 64 << 20, false, true, false}),
             expected, "a row by splits");
    }
    same(b.run(all, false, {3, 1000, least, 64 << 20, false, true, true}), alone.data(),
         "all by splits");
    same(b.run(all, false, {2, 1, least, 0, false, false, false}), alone.data(), "all as wholes");
    same(b.run(all, false, {2, 1000, 232448, 600 << 10, false, true, false}), alone.data(),
         "all with little room for parts");
    std::vector<float> wanted;
    for (int i = 0; i < n_seqs; i++)
        wanted.insert(wanted.end(), alone.begin() + (ptrdiff_t)((size_t)i * of_seq) + width,
                      alone.begin() + (ptrdiff_t)((size_t)(i + 1) * of_seq));
    same(b.run(all, false, {4, 20, 232448, 64 << 20, true, true, false}), wanted.data(),
         "out rows");
}

shape shape_of(int index) {
    random_source r = {mix((uint64_t)index + 5)};
    static const int dims[][2] = {{80, 64}, {576, 512}, {40, 24}, {96, 96}, {288, 256}};
    static const int ratios[] = {20, 16, 3, 40};
    shape c = {};
    c.seed = (uint64_t)index * 31 + 3;
    c.type = index % KV_TYPES;
    const int which = index / KV_TYPES % 5;
    c.dim_k = dims[which][0], c.dim_v = dims[which][1];
    c.n_kv = which == 1 ? 1 : 1 + r.below(2), c.ratio = which == 1 ? 12 : ratios[r.below(4)];
    c.has_sinks = r.below(3) == 0;
    c.softcap = r.below(4) == 0 ? 3.0f : 0.0f;
    c.scale = 1.0f / sqrtf((float)c.dim_k);
    c.lengths = {530 + r.below(60), 20 + r.below(40), 1000 + r.below(40)};
    if (which == 1) c.lengths = {520 + r.below(40)};
    c.bad = r.below(2) && which != 1 ? c.lengths[0] - 3 : NO_POSITION;
    return c;
}

} // namespace

int main(int argc, char **argv) {
    const int first = argc > 1 ? atoi(argv[1]) : 0, n = argc > 2 ? atoi(argv[2]) : 8;
    for (case_now = first; case_now < first + n; case_now++) case_run(shape_of(case_now));
    printf("ok\n");
    return 0;
}
