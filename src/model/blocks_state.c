// Blocks of layers that keep a state: short convolution, delta rule, Mamba-2. See docs/HYBRID.md.
// Called as blocks.c is.
#include "model/blocks.h"

int block_short_conv(struct builder *b, const struct layer *l, int in) {
    const int n = l->recurrence.n_channel;
    const int before = block_buffer(b, "conv_gate_in", n, 1), x = block_buffer(b, "conv_in", n, 1);
    int after = block_buffer(b, "conv_gate_out", n, 1), y = block_buffer(b, "conv_out", n, 1);
    struct linear part = {.name = "shortconv.in_proj", .total = 3 * (int64_t)n};
    build_linear(b, in, before, part);
    part.first = n;
    build_linear(b, in, after, part);
    part.first = 2 * (int64_t)n;
    build_linear(b, in, x, part);
    build_gate(b, GATE_NONE, before, x, x);
    build_conv(b, l, x, y, "shortconv.conv", false);
    block_go_over(b, &y, &after);
    build_gate(b, GATE_NONE, after, y, y);
    return y;
}

// q, k, v and z of the delta rule: two matrices, or one that has the four key head by key head.
static void delta_inputs(struct builder *b, const struct layer *l, int in, int qkv, int z) {
    const struct recurrence *r = &l->recurrence;
    const int key = r->dim_k, value = r->n_head / r->n_key * r->dim_v; // floats of a key head
    const int part = 2 * key + 2 * value, n = r->n_key;
    if (!bind_present(b, "ssm_in")) {
        build_linear(b, in, qkv, (struct linear){.name = "attn_qkv"});
        build_linear(b, in, z, (struct linear){.name = "attn_gate"});
        return;
    }
    const int all = block_buffer(b, "delta_all", n * part, 1);
    build_linear(b, in, all, (struct linear){.name = "ssm_in"});
    build_columns(b, all, qkv, n, key, 0, part, 0, key);
    build_columns(b, all, qkv, n, key, key, part, n * key, key);
    build_columns(b, all, qkv, n, value, 2 * key, part, 2 * n * key, value);
    build_columns(b, all, z, n, value, 2 * key + value, part, 0, value);
}

int block_delta(struct builder *b, const struct layer *l, int in) {
    const struct recurrence *r = &l->recurrence;
    const int n_value = r->n_head * r->dim_v;
    const int qkv = block_buffer(b, "delta_in", r->n_channel, 1);
    const int mixed = block_buffer(b, "delta_conv", r->n_channel, 1);
    const int a = block_buffer(b, "delta_a", r->n_head, 1);
    const int beta = block_buffer(b, "delta_b", r->n_head, 1);
    int z = block_buffer(b, "delta_z", n_value, 1), y = block_buffer(b, "delta_out", n_value, 1);
    delta_inputs(b, l, in, qkv, z);
    if (bind_present(b, "ssm_ba")) { // by key head: its heads' b, then their a
        const int ratio = r->n_head / r->n_key;
        const int both = block_buffer(b, "delta_ba", 2 * r->n_head, 1);
        build_linear(b, in, both, (struct linear){.name = "ssm_ba"});
        build_columns(b, both, beta, r->n_key, ratio, 0, 2 * ratio, 0, ratio);
        build_columns(b, both, a, r->n_key, ratio, ratio, 2 * ratio, 0, ratio);
    } else {
        build_linear(b, in, a, (struct linear){.name = "ssm_alpha"});
        build_linear(b, in, beta, (struct linear){.name = "ssm_beta"});
    }
    build_conv(b, l, qkv, mixed, "ssm_conv1d", true);
    build_delta(b, l, mixed, a, beta, y);
    block_go_over(b, &y, &z);
    build_norm(b, NORM_RMS, y, y, "ssm_norm", r->dim_v, false);
    build_gate(b, GATE_SILU, z, y, y);
    return y;
}

int block_mamba(struct builder *b, const struct layer *l, int in) {
    const struct recurrence *r = &l->recurrence;
    const int n = r->n_head * r->dim_v;
    const int x = block_buffer(b, "scan_in", r->n_channel, 1);
    const int mixed = block_buffer(b, "scan_conv", r->n_channel, 1);
    const int dt = block_buffer(b, "scan_dt", r->n_head, 1);
    int z = block_buffer(b, "scan_z", n, 1), y = block_buffer(b, "scan_out", n, 1);
    const int64_t total = (int64_t)n + r->n_channel + r->n_head;
    struct linear part = {.name = "ssm_in", .total = total, .scale = r->z_scale};
    build_linear(b, in, z, part);
    part.first = n;
    part.scale = 1;
    build_linear(b, in, x, part);
    part.first = (int64_t)n + r->n_channel;
    part.scale = r->dt_scale;
    build_linear(b, in, dt, part);
    build_conv(b, l, x, mixed, "ssm_conv1d", true);
    build_scan(b, l, mixed, dt, y);
    block_go_over(b, &y, &z);
    build_gate(b, GATE_SILU, z, y, y);
    if (r->is_normed) build_norm_each(b, y, y, "ssm_norm", n / r->n_key);
    return y;
}
