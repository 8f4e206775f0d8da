// The frame around the layers, for every architecture: buffers, KV groups and rope frequencies
// before them, the embedding, the loop over the layers, the head. The layers themselves are the
// architecture's (arch->layer).
//
// Everything behind the last KV append works on the out rows only, and the vocabulary's product on
// the rows that need logits.
#include <assert.h>

#include "model/blocks.h"

// All buffers are declared before the first op, those of the tokens first. So a plan's buffers have
// one order for every order of its blocks.
static int declare_buffers(struct builder *b) {
    const struct hparams *hp = &b->model->hp;
    b->rows = ROWS_TOKENS;
    for (int i = 0; i < hp->n_layer; i++) blocks_declare(b, &hp->layer[i]);
    b->rows = ROWS_OUT;
    blocks_declare(b, &hp->layer[hp->n_layer - 1]);
    b->rows = ROWS_TOKENS;
    for (int i = 0; i < hp->n_layer; i++) {
        const struct layer *l = &hp->layer[i];
        if (l->n_head_kv == 0) continue;
        block_buffer(b, "k", l->n_head_kv * l->dim_k, 1);
        if (l->latent.dim_rot == 0) block_buffer(b, "v", l->n_head_kv * l->dim_v, 1);
    }
    return plan_add_buffer(b->plan, "logits", hp->n_vocab, ROWS_LOGITS);
}

static bool shares_group(const struct plan_kv_group *a, const struct plan_kv_group *b) {
    return a->kind == b->kind && a->n_head_kv == b->n_head_kv && a->dim_k == b->dim_k &&
           a->dim_v == b->dim_v && a->window == b->window && a->state == b->state &&
           a->exact == b->exact && a->is_latent == b->is_latent;
}

// Puts the layer into the first group of its kind and width; a new one if there is none.
static void add_to_group(struct builder *b, int layer, const struct plan_kv_group *like,
                         struct kv_place *place) {
    struct plan *plan = b->plan;
    int g = 0;
    while (g < plan->n_group && !shares_group(like, &plan->group[g])) g++;
    if (g == PLAN_MAX_KV_GROUPS) {
        b->status = err_set(b->err, RN_ERR_UNSUPPORTED,
                            "%s: layer %d has another width or window than the %d kinds of layers "
                            "before it: more kinds are not supported",
                            weights_name(b->weights), layer, PLAN_MAX_KV_GROUPS);
        return;
    }
    if (g == plan->n_group) plan_add_kv_group(plan, like);
    *place = (struct kv_place){g, plan->group[g].n_layer++};
}

static void add_keys(struct builder *b, int layer) {
    const struct layer *l = &b->model->hp.layer[layer];
    const struct plan_kv_group like = {.kind = l->kind,
                                       .n_head_kv = l->n_head_kv,
                                       .dim_k = l->dim_k,
                                       .dim_v = l->dim_v,
                                       .window = l->window,
                                       .is_latent = l->latent.dim_rot > 0};
    add_to_group(b, layer, &like, &b->place[layer]);
}

static void add_state(struct builder *b, int layer) {
    const struct recurrence *r = &b->model->hp.layer[layer].recurrence;
    const int64_t floats =
        (int64_t)(r->taps - 1) * r->n_channel + (int64_t)r->n_head * r->dim_k * r->dim_v;
    if (floats > INT32_MAX) {
        b->status = err_set(b->err, RN_ERR_UNSUPPORTED,
                            "%s: layer %d has a state of %lld numbers, expected at most %d",
                            weights_name(b->weights), layer, (long long)floats, INT32_MAX);
        return;
    }
    const struct plan_kv_group like = {.kind = KV_RECURRENT,
                                       .state = (int)floats,
                                       .exact = (r->taps - 1) * r->n_channel};
    add_to_group(b, layer, &like, &b->state[layer]);
}

static bool has_own_keys(const struct layer *l) { return l->n_head_kv > 0 && l->kv_back == 0; }

// Layers of one kind and width have one page table: first layers that see everything, then layers
// with a window, then those with a chunked one, then states. A layer that reads another's keys and
// values has that one's place. After the last layer that keeps something, only out rows are
// computed: later layers read other rows only where these were kept.
static void add_groups(struct builder *b) {
    static const enum kv_kind kinds[] = {KV_FULL, KV_WINDOW, KV_CHUNK};
    const struct hparams *hp = &b->model->hp;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int i = 0; i < hp->n_layer && !b->status; i++)
            if (has_own_keys(&hp->layer[i]) && hp->layer[i].kind == kinds[k]) add_keys(b, i);
    for (int i = 0; i < hp->n_layer && !b->status; i++)
        if (hp->layer[i].recurrence.taps > 0) add_state(b, i);
    for (int i = 0; i < hp->n_layer; i++) {
        const struct layer *l = &hp->layer[i];
        const int mixers = has_own_keys(l) + (l->recurrence.taps > 0);
        if (l->kv_back > 0) b->place[i] = b->place[i - l->kv_back];
        if (mixers == 0) continue;
        b->last_mixer = i;
        b->mixers = mixers;
    }
}

// The frequencies that some layer uses.
void stack_ropes(struct builder *b) {
    const struct hparams *hp = &b->model->hp;
    for (int r = 0; r < MODEL_MAX_ROPE; r++) {
        bool wanted = false;
        for (int i = 0; i < hp->n_layer; i++) wanted = wanted || hp->layer[i].rope == r;
        b->rope[r] = wanted ? build_frequencies(b, &hp->rope[r]) : PLAN_NONE;
    }
}

void stack_begin(struct builder *b) {
    b->plan->logits = declare_buffers(b);
    add_groups(b);
    stack_ropes(b);
}

void stack_embed(struct builder *b) {
    const struct hparams *hp = &b->model->hp;
    b->embd = bind_matrix(b, "token_embd", hp->n_vocab, hp->n_embd);
    build_embed(b, block_stream(b), b->embd, hp->embd_scale);
}

void stack_layers(struct builder *b) {
    const struct hparams *hp = &b->model->hp;
    for (b->layer = 0; b->layer < hp->n_layer; b->layer++)
        b->model->arch->layer(b, &hp->layer[b->layer]);
    b->layer = -1;
}

// The head is the embedding where the file has none of its own.
void stack_head(struct builder *b, enum norm_kind norm) {
    stack_head_named(b, norm, "output_norm");
}

void stack_head_named(struct builder *b, enum norm_kind norm, const char *name) {
    const struct hparams *hp = &b->model->hp;
    const int h = block_norm(b, norm, name), logits = b->plan->logits;
    const bool is_tied = !bind_present(b, "output");
    b->head = is_tied ? b->embd : bind_matrix(b, "output", hp->n_vocab, hp->n_embd);
    build_head(b, h, logits, b->head, hp->logit_scale);
    if (hp->logit_softcap > 0) build_softcap(b, logits, hp->logit_softcap);
    b->plan->hidden = h;
}

void stack_head_biased(struct builder *b, enum norm_kind norm) {
    const struct hparams *hp = &b->model->hp;
    const int h = block_norm(b, norm, "output_norm");
    assert(hp->logit_scale == 1 && hp->logit_softcap == 0);
    b->head = bind_matrix(b, "output", hp->n_vocab, hp->n_embd);
    build_head_biased(b, h, b->plan->logits, b->head, "output");
    b->plan->hidden = h;
}

void stack_build(struct builder *b) {
    stack_embed(b);
    stack_layers(b);
    stack_head(b, NORM_RMS);
}

// ---------------------------------------------------------------- the draft block

// A layer with attention, whose keys and values are a group of their own.
static struct layer draft_layer(struct builder *b) {
    const struct hparams *hp = &b->model->hp;
    int i = hp->n_layer - 1;
    while (i > 0 && hp->layer[i].n_head_kv == 0) i--;
    struct layer l = hp->layer[i];
    const struct plan_kv_group group = {.kind = KV_FULL,
                                        .n_layer = 1,
                                        .n_head_kv = l.n_head_kv,
                                        .dim_k = l.dim_k,
                                        .dim_v = l.dim_v,
                                        .is_latent = l.latent.dim_rot > 0};
    b->place[hp->n_layer] = (struct kv_place){plan_add_kv_group(b->plan, &group), 0};
    return l;
}

// The stream is a product of the next token's embedding and the hidden row, each normed.
static void draft_stream(struct builder *b) {
    const struct hparams *hp = &b->model->hp;
    const int n = hp->n_embd, token = block_buffer(b, "draft_token", n, 1);
    const int hidden = block_buffer(b, "draft_hidden", n, 1);
    const int both = block_buffer(b, "draft_both", 2 * n, 1);
    const bool is_own = bind_present(b, "nextn.embed_tokens");
    const int embd = is_own ? bind_matrix(b, "nextn.embed_tokens", hp->n_vocab, n) : b->embd;
    build_embed(b, token, embd, hp->embd_scale);
    build_input(b, hidden);
    build_norm(b, NORM_RMS, token, token, "nextn.enorm", n, false);
    build_norm(b, NORM_RMS, hidden, hidden, "nextn.hnorm", n, false);
    build_columns(b, token, both, 1, n, 0, n, 0, n);
    build_columns(b, hidden, both, 1, n, 0, n, n, n);
    build_linear(b, both, block_stream(b), (struct linear){.name = "nextn.eh_proj"});
}

static void draft_head(struct builder *b) {
    const struct hparams *hp = &b->model->hp;
    const bool is_own = bind_present(b, "nextn.shared_head_head");
    const int head =
        is_own ? bind_matrix(b, "nextn.shared_head_head", hp->n_vocab, hp->n_embd) : b->head;
    const bool has_norm = bind_present(b, "nextn.shared_head_norm");
    if (!has_norm) b->layer = -1;
    const int h = block_norm(b, NORM_RMS, has_norm ? "nextn.shared_head_norm" : "output_norm");
    build_head(b, h, b->plan->logits, head, hp->logit_scale);
}

void stack_draft(struct builder *b) {
    const struct hparams *hp = &b->model->hp;
    if (b->status || b->plan->failed || hp->n_nextn == 0) return;
    b->layer = b->last_mixer = hp->n_layer;
    if (bind_present(b, "nextn.eh_proj") && b->plan->n_group < PLAN_MAX_KV_GROUPS) {
        plan_begin_draft(b->plan);
        b->rows = ROWS_TOKENS;
        const struct layer l = draft_layer(b);
        draft_stream(b);
        b->model->arch->layer(b, &l);
        draft_head(b);
    }
    b->layer = -1;
}
