// The causal convolution of each channel: y = act(bias + sum_t w[t] x[row - taps + 1 + t]), by fmaf
// from t = 0 on. Its state is the last taps - 1 inputs, [taps - 1, ld] with the channels of x.
//
// A thread has N neighbouring channels of some rows of the batch. Outputs depend on inputs alone,
// so rows are shared out freely. The state is the exception: it is replaced in place. So the thread
// that has a sequence's first row also has the rows that still see the old state, and stores all
// states of the sequence.
#ifndef RN_BACKEND_CUDA_STATE_CONV_CUH
#define RN_BACKEND_CUDA_STATE_CONV_CUH

#include "state.cuh"

template <int N> DEV void channels_load(float (&out)[N], const float *from) {
    if constexpr (N == 4) {
        const float4 v = load_l2((const float4 *)from);
        out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
    } else {
        UNROLL for (int i = 0; i < N; i++) out[i] = load_l2(from + i);
    }
}

template <int N> DEV void channels_store(float *to, const float (&v)[N]) {
    if constexpr (N == 4)
        *(float4 *)to = make_float4(v[0], v[1], v[2], v[3]);
    else
        UNROLL for (int i = 0; i < N; i++) to[i] = v[i];
}

// TAPS: the most taps. IS_EXACT: there are as many.
template <int TAPS, bool IS_EXACT, int N> struct conv {
    enum { AHEAD = 4 }; // rows whose inputs are asked for together
    const struct stage_state &s;
    const int channel, past;
    float w[TAPS][N], bias[N];
    float old[TAPS - 1][N]; // the state before the sequence's first row

    DEV conv(const struct stage_state &stage, int first)
        : s(stage), channel(first), past(IS_EXACT ? TAPS - 1 : stage.taps - 1) {}

    // Padded channels have zeros.
    DEV void weights_load() {
        UNROLL for (int i = 0; i < N; i++) {
            const bool is_here = channel + i < s.width;
            bias[i] = is_here && s.bias ? s.bias[channel + i] : 0.0f;
            UNROLL for (int t = 0; t < TAPS; t++) w[t][i] =
                is_here && t <= past ? s.weight[(int64_t)(channel + i) * (past + 1) + t] : 0.0f;
        }
    }

    // [taps - 1, ld_in] of a page.
    DEV float *state_row(uint32_t page, int t) const {
        return (float *)state_at(s, page) + (int64_t)t * s.ld_in + channel;
    }

    DEV void old_load(uint32_t page) {
        UNROLL for (int t = 0; t < TAPS - 1; t++) {
            if (t >= past) continue;
            if (page != STATE_NONE)
                channels_load<N>(old[t], state_row(page, t));
            else
                UNROLL for (int i = 0; i < N; i++) old[t][i] = 0.0f;
        }
    }

    // The inputs before row ROW of the sequence, or before `row` from ROW = past on; the oldest
    // first. x: the sequence's first row. ROW is a constant, so that `old` stays in registers.
    template <int ROW>
    DEV void inputs_before(float (&out)[TAPS - 1][N], const float *x, int row) const {
        UNROLL for (int t = 0; t < TAPS - 1; t++) {
            if (t >= past) continue;
            const int from = ROW < TAPS - 1 && ROW < past ? ROW - past + t : row - past + t;
            if (ROW < TAPS - 1 && ROW < past && from < 0)
                UNROLL for (int i = 0; i < N; i++) out[t][i] =
                    old[ROW + t < TAPS - 1 ? ROW + t : 0][i];
            else
                channels_load<N>(out[t], x + (int64_t)from * s.ld_in);
        }
    }

    DEV void row_run(float (&window)[TAPS - 1][N], const float (&x)[N], float *y) const {
        float sum[N];
        UNROLL for (int i = 0; i < N; i++) {
            sum[i] = bias[i];
            UNROLL for (int t = 0; t < TAPS; t++) {
                if (t > past) continue;
                const float in = t == past ? x[i] : window[t < TAPS - 1 ? t : 0][i];
                sum[i] = fmaf(w[t][i], in, sum[i]);
            }
            if (s.silu) sum[i] = sum[i] / (1.0f + rmath_exp(-sum[i]));
            UNROLL for (int t = 0; t < TAPS - 1; t++) {
                if (t >= past) continue;
                window[t][i] = t == past - 1 ? x[i] : window[t < TAPS - 2 ? t + 1 : 0][i];
            }
        }
        channels_store<N>(y, sum);
    }

    // Rows [row, stop) of the sequence: from its first one on, or from one that sees no state.
    DEV void rows_run(const float *x, float *y, int row, int stop) const {
        float window[TAPS - 1][N];
        if (row == 0)
            inputs_before<0>(window, x, 0);
        else
            inputs_before<TAPS - 1>(window, x, row);
        for (; row < stop; row += AHEAD) {
            float in[AHEAD][N];
            UNROLL for (int i = 0; i < AHEAD; i++) if (row + i < stop)
                channels_load<N>(in[i], x + (int64_t)(row + i) * s.ld_in);
            UNROLL for (int i = 0; i < AHEAD; i++) if (row + i < stop)
                row_run(window, in[i], y + (int64_t)(row + i) * s.ld_out);
        }
    }

    // The state behind `row` rows, to a page, which may be the one that `old` came from.
    template <int ROW> DEV void state_store(uint32_t page, const float *x, int row) const {
        if constexpr (ROW < TAPS - 1) {
            if (row > ROW && ROW < past) {
                state_store<ROW + 1>(page, x, row);
                return;
            }
        }
        float inputs[TAPS - 1][N];
        inputs_before<ROW>(inputs, x, row);
        UNROLL for (int t = 0; t < TAPS - 1; t++) if (t < past)
            channels_store<N>(state_row(page, t), inputs[t]);
    }

    DEV void states_store(const struct step &step, const struct step_seq &seq,
                          const float *x) const {
        for (int row = 0; row < seq.n_tokens;) {
            const struct state_end end = state_end_from(step, seq, s.group, row);
            row = end.row + 1;
            state_store<1>(end.page, x, row);
        }
    }

    // Rows [first, end) of the batch.
    DEV void run(const struct step &step, int first, int end) {
        for (int row = first; row < end;) {
            const struct step_seq &seq = step.seq[step.row_seq[row]];
            const int stop = min(end - seq.first_row, seq.n_tokens), in_seq = row - seq.first_row;
            const float *x = s.in + (int64_t)seq.first_row * s.ld_in + channel;
            float *y = s.out + (int64_t)seq.first_row * s.ld_out + channel;
            if (in_seq == 0) {
                old_load(state_before(step, seq, s.group));
                rows_run(x, y, 0, max(stop, min(past, seq.n_tokens)));
                states_store(step, seq, x);
            } else if (stop > past) {
                rows_run(x, y, max(in_seq, past), stop);
            }
            row = seq.first_row + stop;
        }
    }
};

template <int TAPS, bool IS_EXACT, int N> DEV void conv_run(const struct state_args &args) {
    const int part = (int)blockIdx.x % args.n_parts, chunk = (int)blockIdx.x / args.n_parts;
    const int channel = (part * CONV_THREADS + (int)threadIdx.x) * N;
    const int first = chunk * args.n_each, end = min(first + args.n_each, args.step->n_tokens);
    conv<TAPS, IS_EXACT, N> c(args.stage, channel);
    if (channel < args.stage.width) c.weights_load(); // they never change
    dependency_wait();
    if (channel < args.stage.width) c.run(*args.step, first, end);
}

#endif
