// The assistant of Gemma 4: a small model in a file of its own, which drafts for a Gemma 4. Its
// layers have queries alone. They read the keys and values of that model's last layer of their
// kind, so a draft needs no pages and no prompt. Its input is the embedding of the last token
// beside the model's hidden row before it; behind a drafted token it is the assistant's own row,
// brought back to the model's width. All tokens of a draft stand at one position, that of the last
// token, whose keys do not exist yet: `ahead` of rope and attention is 1.
#include "model/gemma4.h"

static rn_status assistant_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    static const char own[] = "embedding_length_per_layer_input", embd[] = "embedding_length_out";
    int n = 0;
    rn_status s;
    if ((s = gemma4_read_layers(hp, weights, err))) return s;
    if ((s = hparams_refuse_experts(hp, weights, err))) return s;
    if ((s = hparams_refuse(weights, own, "an input of each layer", err))) return s;
    if ((s = hparams_int(weights, embd, 1, 1 << 20, true, &n, err))) return s;
    if (n == hp->n_embd)
        return hparams_fail(weights, embd, err, "is %d, the width of the assistant itself", n);
    hp->n_embd_layer = 0;
    for (int i = 0; i < hp->n_layer; i++) hp->layer[i].kv_back = 1; // none are its own
    return RN_OK;
}

// ---------------------------------------------------------------- the model's keys

static rn_status unfit(const struct builder *b, const char *what, int own, int model) {
    return err_set(b->err, RN_ERR_MODEL, "%s: its %s is %d, and %d in the model that it drafts for",
                   weights_name(b->weights), what, own, model);
}

// The last layer of that kind with keys of its own; -1: there is none.
static int last_of(const struct hparams *hp, enum kv_kind kind) {
    int i = hp->n_layer - 1;
    while (i >= 0 && (hp->layer[i].kind != kind || hp->layer[i].kv_back > 0)) i--;
    return i;
}

// Its group, of which it is the last layer.
static struct kv_place place_of(const struct plan *plan, const struct layer *l) {
    int g = 0;
    while (plan->group[g].kind != l->kind || plan->group[g].dim_k != l->dim_k ||
           plan->group[g].n_head_kv != l->n_head_kv || plan->group[g].window != l->window)
        g++;
    return (struct kv_place){g, plan->group[g].n_layer - 1};
}

static rn_status find_keys(struct builder *b, int layer) {
    const struct hparams *hp = &b->model->hp, *target = &b->target->hp;
    const struct layer *l = &hp->layer[layer];
    const int i = last_of(target, l->kind);
    if (i < 0)
        return err_set(b->err, RN_ERR_MODEL,
                       "%s: layer %d reads keys of a layer %s window, and the model has none",
                       weights_name(b->weights), layer, l->window ? "with a" : "without a");
    const struct layer *keys = &target->layer[i];
    if (l->dim_k != keys->dim_k) return unfit(b, "size of heads", l->dim_k, keys->dim_k);
    if (l->n_head_kv != keys->n_head_kv)
        return unfit(b, "number of KV heads", l->n_head_kv, keys->n_head_kv);
    if (l->window != keys->window) return unfit(b, "window", l->window, keys->window);
    if (l->window == 1) return unfit(b, "least window", 2, 1);
    b->place[layer] = place_of(b->plan, keys);
    return RN_OK;
}

static rn_status check_fit(struct builder *b) {
    const struct hparams *hp = &b->model->hp, *target = &b->target->hp;
    int n = 0;
    rn_status s = hparams_int(b->weights, "embedding_length_out", 1, 1 << 20, true, &n, b->err);
    if (!s && n != target->n_embd) s = unfit(b, "embedding_length_out", n, target->n_embd);
    if (!s && hp->n_vocab != target->n_vocab)
        s = unfit(b, "number of tokens", hp->n_vocab, target->n_vocab);
    for (int i = 0; !s && i < hp->n_layer; i++) s = find_keys(b, i);
    return s;
}

// ---------------------------------------------------------------- ops

// The stream is a product of the token's embedding, which is the model's, and the hidden row.
static void assistant_stream(struct builder *b) {
    const struct hparams *target = &b->target->hp;
    const int n = target->n_embd, token = block_buffer(b, "draft_token", n, 1);
    const int hidden = block_buffer(b, "draft_hidden", n, 1);
    const int both = block_buffer(b, "draft_both", 2 * n, 1);
    build_embed(b, token, b->plan->op[0].weight, target->embd_scale);
    build_input(b, hidden);
    build_columns(b, token, both, 1, n, 0, n, 0, n);
    build_columns(b, hidden, both, 1, n, 0, n, n, n);
    build_linear(b, both, block_stream(b), (struct linear){.name = "nextn.pre_projection"});
    const int x = block_stream(b);
    b->rows = ROWS_OUT;
    build_gather(b, x, block_stream(b));
}

static void assistant_build(struct builder *b) {
    const struct hparams *hp = &b->model->hp;
    b->status = check_fit(b);
    if (b->status) return;
    assistant_stream(b);
    stack_layers(b);
    const int h = block_norm(b, NORM_RMS, "output_norm");
    build_head(b, h, b->plan->logits, bind_matrix(b, "token_embd", hp->n_vocab, hp->n_embd), 1);
    build_linear(b, h, b->plan->hidden, (struct linear){.name = "nextn.post_projection"});
}

// ---------------------------------------------------------------- folders

static void assistant_config(struct hf_config *c) {
    gemma4_read_config(c);
    const int64_t n = hf_int(c, &c->outer, "backbone_hidden_size", 1, 1 << 20, 0);
    if (c->status == RN_OK && n == 0) hf_fail(c, RN_ERR_MODEL, "backbone_hidden_size is missing");
    hf_put_u32(c, "embedding_length_out", n);
}

// The centroids say which parts of the vocabulary are worth looking at. All of it is looked at
// here, as in a GGUF file, which has none.
static const struct hf_tensor assistant_tensors[] = {
    {"pre_projection.weight", "nextn.pre_projection.weight", hf_map_view},
    {"post_projection.weight", "nextn.post_projection.weight", hf_map_view},
    {"masked_embedding.*", NULL, hf_map_left_out},
    {0},
};

#define ASSISTANT_CLASS(window)                                                                    \
    GEMMA4_ROWS(window), .read = assistant_config,                                                 \
                         .tensors = {gemma4_tensors,   assistant_tensors,   hf_tensors_decoder,    \
                                     hf_tensors_norms, hf_tensors_qk_norms, hf_tensors_mlp}

static const struct hf_class assistant_classes[] = {
    {.name = "Gemma4AssistantForCausalLM", .model_type = "gemma4_assistant", ASSISTANT_CLASS(512)},
    {.name = "Gemma4UnifiedAssistantForCausalLM",
     .model_type = "gemma4_unified_assistant",
     ASSISTANT_CLASS(1024)},
    {0},
};

const struct arch arch_gemma4_assistant = {
    .name = "gemma4-assistant",
    .is_hybrid = true,
    .drafts_for = "gemma4",
    .read = assistant_read,
    .layer = gemma4_layer,
    .build = assistant_build,
    .classes = assistant_classes,
};
