// The block of attention over a latent, in its absorbed form: the matrix that makes a head's keys
// of the latent multiplies the query instead, and the one that makes its values multiplies the
// result. So a token's row is stored and read once for all heads, at every size of a batch.
#include "model/blocks.h"

// The norms of latents have it whatever the file says of the others.
#define LATENT_EPS 1e-6f

// Queries of all heads, [n_head, dim_nope + dim_rot].
static int queries(struct builder *b, const struct layer *l, int in) {
    const struct latent *t = &l->latent;
    const int q = block_buffer(b, "q_heads", l->n_head * (t->dim_nope + t->dim_rot), 1);
    if (t->n_q == 0) {
        build_linear(b, in, q, (struct linear){.name = "attn_q"});
        return q;
    }
    const int low = block_buffer(b, "q_low", t->n_q, 1);
    build_linear(b, in, low, (struct linear){.name = "attn_q_a"});
    build_norm_eps(b, low, low, "attn_q_a_norm", LATENT_EPS);
    build_linear(b, low, q, (struct linear){.name = "attn_q_b"});
    return q;
}

// The row that is kept of a token: the normed latent, then the part that is rotated.
static int keys(struct builder *b, const struct layer *l, int in) {
    const int n = l->dim_v, n_rot = l->latent.dim_rot, n_all = l->dim_k;
    const int latent = block_buffer(b, "latent", n, 1),
              rotated = block_buffer(b, "k_rot", n_rot, 1);
    const int k = block_buffer(b, "k", n_all, 1);
    struct linear part = {.name = "attn_kv_a_mqa", .total = n_all};
    build_linear(b, in, latent, part);
    part.first = n;
    build_linear(b, in, rotated, part);
    build_norm_eps(b, latent, latent, "attn_kv_a_norm", LATENT_EPS);
    build_rope(b, rotated, b->rope[l->rope], 1, n_rot);
    build_columns(b, latent, k, 1, n, 0, n, 0, n_all);
    build_columns(b, rotated, k, 1, n_rot, 0, n_rot, n, n_all);
    return k;
}

int block_latent(struct builder *b, const struct layer *l, int in) {
    const struct latent *t = &l->latent;
    const struct kv_place place = b->place[b->layer];
    const int n = l->dim_v, dim = t->dim_nope + t->dim_rot;
    int q = queries(b, l, in);
    build_kv_append(b, keys(b, l, in), PLAN_NONE, place);
    block_go_over(b, &q, NULL);
    const int absorbed = block_buffer(b, "q", l->n_head * l->dim_k, 1);
    const int a = block_buffer(b, "a", l->n_head * n, 1);
    const int out = block_buffer(b, "a_heads", l->n_head * t->dim_v, 1);
    build_heads(b, q, absorbed, "attn_k_b", l->n_head, n, t->dim_nope);
    build_columns(b, q, absorbed, l->n_head, t->dim_rot, t->dim_nope, dim, n, l->dim_k);
    build_rope_from(b, absorbed, b->rope[l->rope], l->n_head, l->dim_k, n);
    build_attention(b, l, absorbed, a, place, PLAN_NONE);
    build_heads(b, a, out, "attn_v_b", l->n_head, t->dim_v, n);
    return out;
}
