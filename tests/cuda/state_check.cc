// The ops with a state on the emulator, against their definitions in double precision
// (docs/HYBRID.md). Then the same sequences in random steps: rows of several sequences, states that
// move through pages, states beside the table, snapshots whose drafts are refused. Outputs and
// states have the same bits in all of them.
#include <math.h>
#include <string.h>

#include "kernel_check.h"
#include "state.h"

namespace {

int padded(int n) { return (n + 31) / 32 * 32; }

enum {
    N_SEQS = 2,
    N_TOKENS = 75,
    N_BLOCKS = N_TOKENS / PAGE_TOKENS + 1,
    SEQ_PAGES = N_BLOCKS + 3, // the blocks of a step, the state before it, and a snapshot
    N_ROWS = N_SEQS * N_TOKENS,
    GROUP = 1,
    N_RUNS = 4,
};

struct shape {
    int kind, taps, n_head, n_key, dim_k, dim_v; // CONV: dim_v channels
    bool is_bf16, has_option;                    // silu and a bias; tiled heads; bounds of dt
};

std::vector<float> numbers(size_t n, float scale) {
    std::vector<float> x(n);
    for (float &v : x) v = scale * draw.number();
    return x;
}

// A sequence in the middle of a run.
struct sequence {
    int n_done = 0;
    uint32_t page = UINT32_MAX; // that has its state
};

// The rows of one step.
struct rows {
    std::vector<step_seq> seq;
    std::vector<uint32_t> table;
    std::vector<int32_t> row_seq, source; // source: of each row, its row of all inputs
    int first[N_SEQS], n[N_SEQS];
};

struct bench {
    const shape c;
    const bool is_conv = c.kind == STAGE_CONV, is_delta = c.kind == STAGE_DELTA;
    const int in_width = is_conv ? c.dim_v : c.n_head * c.dim_v + 2 * c.n_key * c.dim_k;
    const int out_width = is_conv ? c.dim_v : c.n_head * c.dim_v;
    const int n_gate = is_conv ? 1 : c.n_head;
    const int ld_in = padded(in_width), ld_out = padded(out_width), ld_gate = padded(n_gate);
    const uint64_t state_bytes =
        is_conv ? (uint64_t)(c.taps - 1) * (uint64_t)ld_in * 4
                : (uint64_t)c.n_head * state_head_bytes(c.dim_k, c.dim_v, c.is_bf16);
    const uint64_t page_bytes = (state_bytes + 127) / 128 * 128 + 128;
    std::vector<float> in, time, beta, weight, bias, skip;
    std::vector<float> out; // of the run at hand, by sequence and position
    device_array<float> d_in{std::vector<float>((size_t)(N_ROWS * ld_in))};
    device_array<float> d_time{std::vector<float>((size_t)(N_ROWS * ld_gate))};
    device_array<float> d_beta{std::vector<float>((size_t)(N_ROWS * ld_gate))};
    device_array<float> d_out{std::vector<float>((size_t)(N_ROWS * ld_out))};
    device_array<uint8_t> pages{std::vector<uint8_t>(N_SEQS * SEQ_PAGES * page_bytes)};

    explicit bench(const shape &from) : c(from) {
        const int n = is_conv ? c.dim_v : c.n_head;
        in.resize((size_t)(N_ROWS * ld_in));
        for (int r = 0; r < N_ROWS; r++)
            for (int i = 0; i < in_width; i++) in[(size_t)(r * ld_in + i)] = draw.number();
        time = numbers((size_t)(N_ROWS * ld_gate), 4);
        beta = numbers((size_t)(N_ROWS * ld_gate), 4);
        weight = numbers((size_t)(is_conv ? n * c.taps : n), 1);
        for (float &v : weight)
            if (!is_conv) v = -fabsf(v) - 0.01f;
        bias = numbers((size_t)n, 1);
        skip = numbers((size_t)n, 1);
    }

    // ------------------------------------------------------------ the definition

    double rounded(double x) const {
        if (!c.is_bf16) return x;
        uint32_t bits;
        const float f = (float)x;
        memcpy(&bits, &f, 4);
        bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
        float y;
        memcpy(&y, &bits, 4);
        return (double)y;
    }
    static double softplus(double x) { return log1p(exp(x)); }
    static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
    double input(int seq, int pos, int i) const {
        return pos < 0 ? 0 : (double)in[(size_t)((seq * N_TOKENS + pos) * ld_in + i)];
    }

    void conv64(int seq, std::vector<double> &y) const {
        for (int pos = 0; pos < N_TOKENS; pos++) {
            for (int i = 0; i < c.dim_v; i++) {
                double sum = c.has_option ? (double)bias[(size_t)i] : 0;
                for (int t = 0; t < c.taps; t++)
                    sum += (double)weight[(size_t)(i * c.taps + t)] *
                           input(seq, pos - c.taps + 1 + t, i);
                y[(size_t)(pos * out_width + i)] = c.has_option ? sum * sigmoid(sum) : sum;
            }
        }
    }

    void head64(int seq, int head, std::vector<double> &y) const {
        const int ratio = c.n_head / c.n_key, keys = c.n_key * c.dim_k;
        const int key = is_delta && c.has_option ? head % c.n_key : head / ratio;
        const int at_k = (is_delta ? keys : c.n_head * c.dim_v) + key * c.dim_k;
        const int at_q = is_delta ? key * c.dim_k : at_k + keys;
        const int at_v = (is_delta ? 2 * keys : 0) + head * c.dim_v;
        std::vector<double> s((size_t)(c.dim_k * c.dim_v)), k((size_t)c.dim_k), q((size_t)c.dim_k);
        for (int pos = 0; pos < N_TOKENS; pos++) {
            const size_t gate = (size_t)((seq * N_TOKENS + pos) * ld_gate + head);
            double step = softplus((double)time[gate] + (double)bias[(size_t)head]);
            double kk = 1e-6, qq = 1e-6;
            if (!is_delta && c.has_option) step = fmin(fmax(step, 0.2), 1.5);
            const double decay = exp(step * (double)weight[(size_t)head]);
            for (int i = 0; i < c.dim_k; i++) {
                k[(size_t)i] = input(seq, pos, at_k + i);
                q[(size_t)i] = input(seq, pos, at_q + i);
                kk += k[(size_t)i] * k[(size_t)i];
                qq += q[(size_t)i] * q[(size_t)i];
            }
            for (int i = 0; i < c.dim_k && is_delta; i++) {
                k[(size_t)i] /= sqrt(kk);
                q[(size_t)i] /= sqrt(qq) * sqrt(c.dim_k);
            }
            for (int j = 0; j < c.dim_v; j++) {
                const double v = input(seq, pos, at_v + j);
                double known = 0, sum = 0;
                for (int i = 0; i < c.dim_k; i++)
                    known += decay * s[(size_t)(i * c.dim_v + j)] * k[(size_t)i];
                const double by = is_delta ? sigmoid((double)beta[gate]) * (v - known) : step * v;
                for (int i = 0; i < c.dim_k; i++) {
                    double &x = s[(size_t)(i * c.dim_v + j)];
                    x = decay * x + k[(size_t)i] * by;
                    sum += x * q[(size_t)i];
                    x = rounded(x);
                }
                y[(size_t)(pos * out_width + head * c.dim_v + j)] =
                    is_delta ? sum : sum + (double)skip[(size_t)head] * v;
            }
        }
    }

    // A number of a state next to the middle of two bf16 numbers may be the other one in f32.
    void check_definition() const {
        const double bound = c.is_bf16 ? 2e-2 : 2e-6;
        double most = 0, distance = 0;
        for (int seq = 0; seq < N_SEQS; seq++) {
            std::vector<double> y((size_t)(N_TOKENS * out_width));
            if (is_conv) conv64(seq, y);
            for (int h = 0; h < c.n_head && !is_conv; h++) head64(seq, h, y);
            for (size_t i = 0; i < y.size(); i++) {
                const double got = (double)out[(size_t)seq * y.size() + i];
                most = fmax(most, fabs(y[i]));
                distance = got == got ? fmax(distance, fabs(got - y[i])) : HUGE_VAL;
            }
        }
        CHECK(distance <= bound * most, "kind %d, %d x %d: %g of %g", c.kind, c.dim_k, c.dim_v,
              distance, most);
    }

    // ------------------------------------------------------------ steps

    struct stage_state stage(const device_array<float> &w, const device_array<float> &b,
                             const device_array<float> &d) {
        struct stage_state s = {};
        s.in = d_in.at, s.time = d_time.at, s.beta = d_beta.at, s.out = d_out.at;
        s.weight = w.at, s.skip = d.at, s.bias = is_conv && !c.has_option ? nullptr : b.at;
        s.ld_in = ld_in, s.ld_time = s.ld_beta = ld_gate, s.ld_out = ld_out;
        s.group = GROUP, s.width = out_width, s.taps = c.taps;
        s.n_head = c.n_head, s.n_key = c.n_key, s.dim_k = c.dim_k, s.dim_v = c.dim_v;
        s.silu = s.is_tiled = c.has_option, s.is_bf16 = c.is_bf16;
        s.eps = 1e-6f, s.dt_min = c.has_option ? 0.2f : 0.0f;
        s.dt_max = c.has_option ? 1.5f : INFINITY;
        s.page_bytes = page_bytes, s.pages = pages.at;
        return s;
    }

    void run_step(const rows &r) {
        const int n_rows = (int)r.source.size();
        device_array<float> w(weight), b(bias), d(skip);
        device_array<step_seq> seqs(r.seq);
        device_array<uint32_t> tables(r.table);
        device_array<int32_t> row_seq(r.row_seq);
        std::vector<step> all(1);
        all[0].n_tokens = n_rows, all[0].n_seqs = (int)r.seq.size();
        all[0].seq = seqs.at, all[0].tables = tables.at, all[0].row_seq = row_seq.at;
        device_array<step> own(all);
        state_args args = {};
        args.stage = stage(w, b, d), args.step = own.at, args.is_early = draw.below(2);
        int blocks, threads = STATE_THREADS;
        uint32_t shared = 0;
        const void *kernel = conv_kernel(c.taps);
        if (is_conv) {
            const int each = CONV_THREADS * (c.taps == 3 || c.taps == 4 ? 4 : 1);
            args.n_each = 1 + draw.below(CONV_ROWS);
            args.n_parts = (c.dim_v + each - 1) / each;
            blocks = (n_rows + args.n_each - 1) / args.n_each * args.n_parts;
            threads = CONV_THREADS;
        } else {
            kernel = state_kernel(c.kind, state_units(c.dim_k), c.is_bf16);
            args.chunk = 1 + draw.below(STATE_CHUNK);
            args.n_slots = 2 + draw.below(STATE_SLOTS - 1);
            args.n_parts = (c.dim_v + STATE_BLOCK_COLS - 1) / STATE_BLOCK_COLS;
            shared = (uint32_t)args.n_slots * STATE_SLOT_BYTES(state_units(c.dim_k), args.chunk);
            // a recorded step may have more
            blocks = ((int)r.seq.size() + draw.below(2)) * c.n_head * args.n_parts;
        }
        launch(kernel, blocks, threads, shared, &args);
    }

    void inputs_set(const rows &r) {
        const auto gather = [&](device_array<float> &to, const std::vector<float> &from, int ld) {
            std::vector<float> x(r.source.size() * (size_t)ld);
            for (size_t i = 0; i < r.source.size(); i++)
                memcpy(&x[i * (size_t)ld], &from[(size_t)(r.source[i] * ld)], (size_t)ld * 4);
            to.put(x);
        };
        gather(d_in, in, ld_in);
        gather(d_time, time, ld_gate);
        gather(d_beta, beta, ld_gate);
    }

    // Rows of a draft that is refused have the same outputs as those that take their place.
    void outputs_get(const rows &r) {
        const std::vector<float> y = d_out.get();
        for (size_t i = 0; i < r.source.size(); i++)
            memcpy(&out[(size_t)(r.source[i] * out_width)], &y[i * (size_t)ld_out],
                   (size_t)out_width * 4);
    }

    // The next n rows of a sequence. Pages that the step writes are new ones, or the one that has
    // the state. is_plain: without a snapshot.
    void add(rows &r, int index, sequence &s, int n, bool is_plain) {
        const int first_row = (int)r.source.size(), last = s.n_done + n - 1;
        const int block = s.n_done / PAGE_TOKENS;
        uint32_t free[SEQ_PAGES], table[N_BLOCKS];
        int n_free = 0;
        for (int i = 0; i < SEQ_PAGES; i++)
            if ((uint32_t)(index * SEQ_PAGES + i) != s.page)
                free[n_free++] = (uint32_t)(index * SEQ_PAGES + i);
        for (uint32_t &page : table) page = UINT32_MAX;
        table[block] = s.n_done > 0 && draw.below(2) ? s.page : free[--n_free];
        for (int b = block + 1; b <= last / PAGE_TOKENS; b++)
            table[b] = draw.below(2) ? table[b - 1] : free[--n_free];
        step_seq q = {};
        q.first_row = first_row, q.n_tokens = n, q.first_pos = s.n_done;
        for (uint32_t &page : q.state_from) page = UINT32_MAX;
        const int before = s.n_done > 0 ? (s.n_done - 1) / PAGE_TOKENS : block;
        if (s.n_done > 0 && before < block && draw.below(2))
            table[before] = s.page;
        else if (s.n_done > 0 && table[before] != s.page)
            q.state_from[GROUP] = s.page;
        const int in_block = (block + 1) * PAGE_TOKENS - s.n_done;
        uint32_t next = table[last / PAGE_TOKENS];
        int n_kept = n;
        if (n > 0 && !is_plain && draw.below(2)) {
            q.n_snapshot = 1 + draw.below(n < in_block ? n : in_block);
            q.snapshot[GROUP] = free[--n_free];
            if (q.n_snapshot == n || draw.below(2)) n_kept = q.n_snapshot, next = q.snapshot[GROUP];
        }
        for (int i = 0; i < n; i++) {
            r.row_seq.push_back((int32_t)r.seq.size());
            r.source.push_back(index * N_TOKENS + s.n_done + i);
        }
        q.table[GROUP] = (uint32_t)r.table.size();
        r.table.insert(r.table.end(), table, table + N_BLOCKS);
        r.seq.push_back(q);
        if (n == 0) return;
        s.page = next;
        s.n_done += n_kept;
    }

    // All sequences; the states that they end with.
    std::vector<uint8_t> run(bool is_whole) {
        sequence seq[N_SEQS];
        CUDA(cudaMemset(pages.at, 0xff, pages.n)); // not numbers
        out.assign((size_t)(N_ROWS * out_width), 0.0f);
        for (bool busy = true; busy;) {
            rows r;
            busy = false;
            for (int i = 0; i < N_SEQS; i++) {
                const int left = N_TOKENS - seq[i].n_done, few = draw.below(3) ? 4 : 40;
                int n = is_whole ? left : draw.below(few);
                if (n > left) n = left;
                add(r, i, seq[i], n, is_whole);
                busy |= seq[i].n_done < N_TOKENS;
            }
            if (r.source.empty()) continue;
            inputs_set(r);
            run_step(r);
            outputs_get(r);
        }
        const std::vector<uint8_t> all = pages.get();
        std::vector<uint8_t> states;
        for (const sequence &s : seq) {
            const uint8_t *at = all.data() + s.page * page_bytes;
            states.insert(states.end(), at, at + state_bytes);
        }
        return states;
    }
};

// Channels that pad a row are not part of a convolution's state.
void states_trim(const bench &b, std::vector<uint8_t> &states) {
    if (!b.is_conv) return;
    for (size_t i = 0; i < states.size() / 4; i++)
        if ((int)(i % (size_t)b.ld_in) >= b.in_width) memset(&states[4 * i], 0, 4);
}

void case_run(const shape &c) {
    bench b(c);
    std::vector<uint8_t> want = b.run(true);
    const std::vector<float> out = b.out;
    b.check_definition();
    states_trim(b, want);
    for (int i = 0; i < N_RUNS; i++) {
        std::vector<uint8_t> got = b.run(false);
        states_trim(b, got);
        CHECK(memcmp(b.out.data(), out.data(), out.size() * 4) == 0, "outputs of kind %d, %d x %d",
              c.kind, c.dim_k, c.dim_v);
        CHECK(got == want, "states of kind %d, %d x %d", c.kind, c.dim_k, c.dim_v);
    }
}

} // namespace

int main() {
    static const int heads[][4] = {// heads, keys, dim_k, dim_v
                                   {2, 2, 128, 40},
                                   {4, 2, 20, 17},
                                   {6, 2, 64, 8},
                                   {1, 1, 256, 12}};
    static const int convs[][2] = {{3, 50}, {4, 516}, {4, 7}, {7, 30}, {16, 5}, {2, 9}};
    for (const auto &conv : convs) {
        shape c = {STAGE_CONV, conv[0], 1, 1, 0, conv[1], false, (bool)draw.below(2)};
        case_run(c);
    }
    for (const auto &h : heads) {
        for (int i = 0; i < 4; i++) {
            const int kind = i % 2 ? STAGE_DELTA : STAGE_SCAN;
            case_run({kind, 0, h[0], h[1], h[2], h[3], i / 2 == 1, (bool)draw.below(2)});
        }
    }
    printf("ok\n");
    return 0;
}
