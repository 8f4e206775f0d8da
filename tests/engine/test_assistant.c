// The assistant of Gemma 4: its logits and hidden rows against the published definition in double
// precision, its drafts, and texts that are drafted with it, which are those without drafts.
#include <math.h>
#include <unistd.h>

#include "assistant_model.h"
#include "backend/backend.h"
#include "backend/cpu/kv_layout.h"
#include "bare_engine.h"
#include "block_bench.h"
#include "drafter_world.h"
#include "plan/batch.h"
#include "tensor_bytes.h"
#include "weights/folder.h"

enum { TOKENS = BENCH_TOKENS, WIDEST = 256, TEXT = 60, VOCAB = 512 };

static const char *const models[] = {"gemma4-e2b", "gemma4-31b", "gemma4-moe"};
enum { MODELS = sizeof models / sizeof *models };

// ---------------------------------------------------------------- the backend

static void bench_add(struct bench *bench, const int32_t *token, int first, int n) {
    batch_add(&bench->builder, &(struct batch_rows){.page_table = bench->table,
                                                    .first_pos = first,
                                                    .n_tokens = n,
                                                    .token = token,
                                                    .n_out = n});
}

static struct step_result bench_run(struct bench *bench) {
    struct step_result result;
    rn_error err = {0};
    check(backend_run(bench->backend, &bench->builder.batch, &result, &err) == RN_OK, "%s",
          err.message);
    return result;
}

// ---------------------------------------------------------------- the definition

// The model's own keys and values at a position, of a head of the last layer of a kind.
struct entry {
    double k[WIDEST], v[WIDEST];
};

static void entry_read(struct bench *bench, int group, int pos, int head, struct entry *out) {
    const struct plan_kv_group *g = &bench->plan->group[group];
    const uint64_t bytes = kv_page_bytes(g, KV_F32, false);
    const struct kv_layout layout = kv_layout_of(KV_F32, g->dim_k, g->dim_v);
    uint8_t *page = malloc(bytes);
    assert_non_null(page);
    const struct backend_class *cls = bench->backend->cls;
    assert_int_equal(cls->page_read(bench->backend, group, (uint32_t)(pos / KV_PAGE_TOKENS), page,
                                    NULL),
                     RN_OK);
    const uint8_t *at = page + (uint64_t)((g->n_layer - 1) * g->n_head_kv + head) * layout.bytes;
    const float *k = (const float *)(const void *)at;
    const float *v = (const float *)(const void *)(at + layout.v);
    const int slot = pos % KV_PAGE_TOKENS;
    for (int i = 0; i < g->dim_k; i++) out->k[i] = (double)k[i * KV_PAGE_TOKENS + slot];
    for (int i = 0; i < g->dim_v; i++) out->v[i] = (double)v[slot * g->dim_v + i];
    free(page);
}

// Layers without a window turn the first quarter of their frequencies alone.
static void turn(double *x, int dim, int pos, bool is_local) {
    const int half = dim / 2, n = is_local ? half : half / 4;
    for (int i = 0; i < n; i++) {
        const double base = is_local ? 1e4 : 1e6, angle = pos * pow(base, -2.0 * i / dim);
        const double a = x[i], b = x[i + half];
        x[i] = a * cos(angle) - b * sin(angle);
        x[i + half] = a * sin(angle) + b * cos(angle);
    }
}

static double gelu(double x) {
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

struct definition {
    const struct assistant *a;
    const rn_model *model;
    struct bench *bench;
};

static const float *layer_data(const struct definition *d, int layer, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "blk.%d.%s.weight", layer, name);
    return assistant_data(d->a, full);
}

// Adds a block's result, normed, to x.
static void add_normed(double *x, const double *y, const float *w, int n) {
    double h[WIDEST];
    norm(y, w, n, h);
    for (int i = 0; i < n; i++) x[i] += h[i];
}

// A query at `last` + 1, which sees the positions up to `last`.
static void attend(const struct definition *d, int layer, double *x, int last) {
    const bool is_local = assistant_is_local(layer);
    const struct hparams *hp = &d->model->model.hp;
    const struct plan *plan = d->bench->plan;
    const struct layer *like = hp->layer;
    int group = 0;
    while ((like->kind == KV_WINDOW) != is_local) like++;
    while ((plan->group[group].kind == KV_WINDOW) != is_local) group++;
    const int dim = like->dim_k, n_head = like->n_head, n = d->a->n_embd;
    const int ratio = n_head / like->n_head_kv;
    double h[WIDEST], q[WIDEST], heads[WIDEST];
    norm(x, layer_data(d, layer, "attn_norm"), n, h);
    product(layer_data(d, layer, "attn_q"), n_head * dim, n, h, q);
    for (int head = 0; head < n_head; head++) {
        static struct entry seen[TOKENS];
        double *own = q + head * dim, score[TOKENS], sum = 0;
        norm(own, layer_data(d, layer, "attn_q_norm"), dim, own);
        turn(own, dim, last + 1, is_local);
        const int first = is_local && last + 1 >= like->window ? last + 2 - like->window : 0;
        for (int j = first; j <= last; j++) {
            entry_read(d->bench, group, j, head / ratio, &seen[j]);
            score[j] = 0;
            for (int i = 0; i < dim; i++) score[j] += own[i] * seen[j].k[i];
            score[j] = exp(score[j]);
            sum += score[j];
        }
        for (int i = 0; i < dim; i++) {
            heads[head * dim + i] = 0;
            for (int j = first; j <= last; j++)
                heads[head * dim + i] += score[j] / sum * seen[j].v[i];
        }
    }
    product(layer_data(d, layer, "attn_output"), n, n_head * dim, heads, h);
    add_normed(x, h, layer_data(d, layer, "post_attention_norm"), n);
}

static void feed_forward(const struct definition *d, int layer, double *x) {
    const int n = d->a->n_embd;
    double h[WIDEST], gate[WIDEST], up[WIDEST];
    norm(x, layer_data(d, layer, "ffn_norm"), n, h);
    product(layer_data(d, layer, "ffn_gate"), ASSISTANT_FF, n, h, gate);
    product(layer_data(d, layer, "ffn_up"), ASSISTANT_FF, n, h, up);
    for (int i = 0; i < ASSISTANT_FF; i++) up[i] *= gelu(gate[i]);
    product(layer_data(d, layer, "ffn_down"), n, ASSISTANT_FF, up, h);
    add_normed(x, h, layer_data(d, layer, "post_ffw_norm"), n);
    const double scale = (double)*layer_data(d, layer, "layer_output_scale");
    for (int i = 0; i < n; i++) x[i] *= scale;
}

// The logits behind a token whose predecessor is at `last`; *hidden, which belongs to that one,
// becomes the assistant's own.
static void define(const struct definition *d, int32_t token, double *hidden, int last,
                   double *logits) {
    const float *embd = tensor_bytes(d->model->weights,
                                     weights_tensor_find(d->model->weights, "token_embd.weight"));
    const int n_model = d->a->n_model, n = d->a->n_embd;
    double both[2 * WIDEST], x[WIDEST], h[WIDEST];
    for (int i = 0; i < n_model; i++) {
        both[i] = (double)embd[token * n_model + i] * sqrt(n_model);
        both[n_model + i] = hidden[i];
    }
    product(assistant_data(d->a, "nextn.pre_projection.weight"), n, 2 * n_model, both, x);
    for (int layer = 0; layer < ASSISTANT_LAYERS; layer++) {
        attend(d, layer, x, last);
        feed_forward(d, layer, x);
    }
    norm(x, assistant_data(d->a, "output_norm.weight"), n, h);
    product(assistant_data(d->a, "token_embd.weight"), d->a->n_vocab, n, h, logits);
    product(assistant_data(d->a, "nextn.post_projection.weight"), n_model, n, h, hidden);
}

// Rows at several positions in one batch, and rows that take the hidden row of those before.
static void check_logits(struct assistant *assistant) {
    const struct assistant a = *assistant;
    const char *name = a.path;
    rn_model *model = assistant_open(&a);
    static const int last[] = {0, 3, 8, 11, 12, 31, 32, 45, TOKENS - 2};
    enum { ROWS = sizeof last / sizeof *last };
    static float hidden[TOKENS][WIDEST];
    static double own[ROWS][WIDEST], want[VOCAB];
    const float *input[ROWS];
    int32_t token[TOKENS], drafted[ROWS];
    struct bench bench;
    bench_init(&bench, &model->model.plan, model->model.plan.n_group);
    const struct definition d = {&a, model, &bench};
    assert_true(plan_block_reads(bench.plan));
    fill_tokens(token, TOKENS, 3, VOCAB);
    batch_begin(&bench.builder, NULL);
    bench_add(&bench, token, 0, TOKENS);
    struct step_result result = bench_run(&bench);
    const size_t row = (size_t)a.n_model * sizeof(float);
    for (int i = 0; i < ROWS; i++) {
        memcpy(hidden[i], result.hidden[last[i]], row);
        for (int k = 0; k < a.n_model; k++) own[i][k] = (double)hidden[i][k];
        drafted[i] = token[last[i] + 1];
    }
    for (int place = 0; place < 3; place++) {
        batch_begin(&bench.builder, NULL);
        bench.builder.batch.is_draft = true;
        bench.builder.batch.input = input;
        for (int i = 0; i < ROWS; i++) {
            bench_add(&bench, &drafted[i], last[i], 1);
            input[i] = hidden[i];
        }
        result = bench_run(&bench);
        for (int i = 0; i < ROWS; i++) {
            define(&d, drafted[i], own[i], last[i], want);
            for (int id = 0; id < VOCAB; id++)
                check(fabs((double)result.logits[i][id] - want[id]) < 1e-3,
                      "%s, behind %d, place %d, id %d: %g, not %g", name, last[i], place, id,
                      (double)result.logits[i][id], want[id]);
            for (int k = 0; k < a.n_model; k++)
                check(fabs((double)result.hidden[i][k] - own[i][k]) < 1e-3,
                      "%s, behind %d, place %d, element %d: %g, not %g", name, last[i], place, k,
                      (double)result.hidden[i][k], own[i][k]);
            memcpy(hidden[i], result.hidden[i], row);
            drafted[i] = (drafted[i] * 7 + 11) % VOCAB;
        }
    }
    bench_deinit(&bench);
    rn_model_close(model);
}

CASE(logits_and_hidden_rows_are_those_of_the_definition) {
    for (int i = 0; i < MODELS; i++) {
        struct assistant a = assistant_make(models[i], false);
        check_logits(&a);
        assistant_remove(&a);
    }
}

static void check_refused(const char *model_path, const char *path, rn_status status,
                          const char *message) {
    rn_model *model;
    rn_error err = {0};
    check(rn_model_open(model_path, &model, &err) == RN_OK, "%s", err.message);
    const rn_status got = rn_model_attach(model, path, &err);
    check(got == status && strstr(err.message, message), "%d, %s; expected %d, %s", got,
          err.message, status, message);
    assert_null(rn_model_get_info(model)->block_path);
    rn_model_close(model);
}

// ---------------------------------------------------------------- folders

// As published: a config around that of the text model, and tensors that a draft does not need.
static const char config[] =
    "{'architectures': ['Gemma4AssistantForCausalLM'], 'model_type': 'gemma4_assistant', "
    "'backbone_hidden_size': 48, 'use_ordered_embeddings': true, 'num_centroids': 8, "
    "'centroid_intermediate_top_k': 2, 'tie_word_embeddings': true, 'text_config': {"
    "'model_type': 'gemma4_text', 'hidden_size': 24, 'intermediate_size': 40, "
    "'num_hidden_layers': 3, 'num_attention_heads': 2, 'num_key_value_heads': 1, 'head_dim': 16, "
    "'global_head_dim': 32, 'vocab_size': 512, 'max_position_embeddings': 512, "
    "'rms_norm_eps': 1e-6, 'sliding_window': 8, 'num_kv_shared_layers': 3, "
    "'layer_types': ['sliding_attention', 'sliding_attention', 'full_attention'], "
    "'hidden_size_per_layer_input': 0, 'vocab_size_per_layer_input': 0, "
    "'enable_moe_block': false, 'use_double_wide_mlp': false, 'attention_k_eq_v': false, "
    "'hidden_activation': 'gelu_pytorch_tanh', 'rope_parameters': {'full_attention': "
    "{'partial_rotary_factor': 0.25, 'rope_theta': 1000000.0, 'rope_type': 'proportional'}, "
    "'sliding_attention': {'rope_theta': 10000.0, 'rope_type': 'default'}}}}";

static void published_name(const char *name, char *out, size_t size) {
    static const char *const names[][2] = {
        {"nextn.pre_projection.weight", "pre_projection.weight"},
        {"nextn.post_projection.weight", "post_projection.weight"},
        {"output_norm.weight", "model.norm.weight"},
        {"token_embd.weight", "model.embed_tokens.weight"},
        {"attn_norm.weight", "input_layernorm.weight"},
        {"attn_q.weight", "self_attn.q_proj.weight"},
        {"attn_q_norm.weight", "self_attn.q_norm.weight"},
        {"attn_output.weight", "self_attn.o_proj.weight"},
        {"post_attention_norm.weight", "post_attention_layernorm.weight"},
        {"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
        {"ffn_gate.weight", "mlp.gate_proj.weight"},
        {"ffn_up.weight", "mlp.up_proj.weight"},
        {"ffn_down.weight", "mlp.down_proj.weight"},
        {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
        {"layer_output_scale.weight", "layer_scalar"},
    };
    int layer = -1, at = 0;
    sscanf(name, "blk.%1d.%n", &layer, &at);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name + at, names[i][0]) != 0) continue;
        if (layer < 0)
            snprintf(out, size, "%s", names[i][1]);
        else
            snprintf(out, size, "model.layers.%d.%s", layer, names[i][1]);
        return;
    }
    check(false, "%s", name);
}

static struct data_folder folder_make(const struct assistant *a) {
    static char header[1 << 14];
    static uint8_t data[1 << 18];
    const struct data_folder folder = data_folder_make();
    size_t len = 1, bytes = 0;
    header[0] = '{';
    for (int i = 0; i < a->n_tensors; i++) {
        const struct assistant_tensor *t = &a->tensor[i];
        const size_t n = (size_t)t->cols * (size_t)(t->rows ? t->rows : 1) * sizeof(float);
        char name[96], shape[32];
        published_name(t->name, name, sizeof name);
        if (t->rows)
            snprintf(shape, sizeof shape, "%d,%d", t->rows, t->cols);
        else
            snprintf(shape, sizeof shape, "%d", t->cols);
        check(bytes + n <= sizeof data, "%s", name);
        len += (size_t)snprintf(header + len, sizeof header - len,
                                "'%s':{'dtype':'F32','shape':[%s],'data_offsets':[%zu,%zu]},", name,
                                shape, bytes, bytes + n);
        memcpy(data + bytes, t->data, n);
        bytes += n;
    }
    snprintf(header + len, sizeof header - len,
             "'masked_embedding.token_ordering':{'dtype':'I64','shape':[512],'data_offsets':[%zu,"
             "%zu]},'masked_embedding.centroids.weight':{'dtype':'F32','shape':[8,24],"
             "'data_offsets':[%zu,%zu]}}",
             bytes, bytes + 4096, bytes + 4096, bytes + 4096 + 768);
    folder_text(&folder, "config.json", config);
    st_write_raw(&folder, "model.safetensors", header, data, bytes + 4096 + 768);
    return folder;
}

CASE(a_folder_is_the_same_assistant) {
    struct assistant a = assistant_make("gemma4-e2b", false);
    const struct data_folder folder = folder_make(&a);
    char path[DATA_PATH_BYTES];
    memcpy(path, a.path, sizeof path);
    snprintf(a.path, sizeof a.path, "%s", folder.path);
    assert_true(rn_model_is_block(a.path));
    check_logits(&a);
    char tensors[2 * DATA_PATH_BYTES];
    snprintf(tensors, sizeof tensors, "%s/model.safetensors", folder.path);
    assert_int_equal(remove(tensors), 0);
    assert_true(rn_model_is_block(a.path)); // the config says it: tensors are not read for it
    check_refused(a.model_path, a.path, RN_ERR_MODEL, "model.safetensors");
    data_folder_remove(&folder);
    memcpy(a.path, path, sizeof path);
    assistant_remove(&a);
}

// ---------------------------------------------------------------- the drafter

// The engine's drafter, whose drafts are compared with the definition.
static struct {
    const struct drafter_class *cls;
    struct definition d;
    int n_drafts, n_tokens;
} watched;

static struct step_result rows_of(const struct seq *seq) {
    struct bench *bench = watched.d.bench;
    batch_begin(&bench->builder, NULL);
    bench_add(bench, seq->token, 0, seq->n_token - 1);
    return bench_run(bench);
}

static void check_draft(const struct seq *seq, int n) {
    static double logits[VOCAB], hidden[WIDEST];
    const int last = seq->n_token - 2;
    const struct step_result result = rows_of(seq);
    for (int k = 0; k < watched.d.a->n_model; k++) hidden[k] = (double)result.hidden[last][k];
    for (int i = 0; i < n; i++) {
        define(&watched.d, seq->token[last + 1 + i], hidden, last, logits);
        const int32_t token = seq->token[seq->n_token + i];
        double best = logits[0];
        for (int id = 1; id < VOCAB; id++) best = fmax(best, logits[id]);
        check(logits[token] > best - 1e-3, "token %d of the draft behind %d: %g, the best has %g",
              i, seq->n_token, logits[token], best);
    }
    watched.n_drafts++;
    watched.n_tokens += n;
}

// The last rows are told once more, several at a time, as after an accepted draft.
static void watched_draft(struct drafter *drafter, struct draft_job *jobs, int n_jobs) {
    for (int i = 0; i < n_jobs; i++) {
        struct seq *seq = jobs[i].seq;
        const int first = seq->n_token - 4;
        const struct step_result result = rows_of(seq);
        watched.cls->observe(drafter, seq, first, 3, result.hidden + first);
    }
    watched.cls->draft(drafter, jobs, n_jobs);
    for (int i = 0; i < n_jobs; i++)
        if (jobs[i].n > 0) check_draft(jobs[i].seq, jobs[i].n);
}

// Three texts at once, of other lengths, so that their drafts end at other places.
static void check_drafts(const char *name) {
    enum { N = 3, FIRST = 20, ANSWER = 30 };
    static struct stream stream[N];
    static int32_t text[N][FIRST + N];
    struct assistant a = assistant_make(name, false);
    struct bench bench;
    rn_model *model = assistant_open(&a);
    const rn_engine_options options = {.speculate = "mtp",
                                       .kv_type = "f32",
                                       .n_ctx = TOKENS,
                                       .max_seqs = N,
                                       .batch_tokens = 17,
                                       .logit_rows = 17,
                                       .draft_min = 3,
                                       .draft_max = 3};
    rn_engine *engine = streams_engine(model, &options);
    struct drafter *drafter = engine->engine.draft->drafter[RN_DRAFTER_MTP];
    struct drafter_class cls = *drafter->cls;
    watched.cls = drafter->cls;
    watched.d = (struct definition){&a, model, &bench};
    watched.n_drafts = watched.n_tokens = 0;
    cls.draft = watched_draft;
    drafter->cls = &cls;
    bench_init(&bench, &model->model.plan, model->model.plan.n_group);
    for (int i = 0; i < N; i++) {
        fill_tokens(text[i], FIRST + i, (uint32_t)i + 70, VOCAB);
        const rn_request request = {.prompt = text[i],
                                    .n_prompt = (size_t)(FIRST + i),
                                    .max_tokens = ANSWER - 5 * i,
                                    .ignore_eos = true};
        streams_submit(engine, &request, &stream[i]);
    }
    streams_drain(engine, stream, N);
    check(watched.n_drafts > 15 && watched.n_tokens > 40, "%d drafts, %d tokens", watched.n_drafts,
          watched.n_tokens);
    drafter->cls = watched.cls;
    bench_deinit(&bench);
    rn_engine_destroy(engine);
    rn_model_close(model);
    assistant_remove(&a);
}

CASE(drafts_of_the_engine_are_those_of_the_definition) {
    check_drafts("gemma4-e2b");
    check_drafts("gemma4-31b");
}

CASE(each_of_many_requests_is_drafted_for) {
    enum { N = 7 };
    struct assistant a = assistant_make("gemma4-31b", false);
    rn_model *model = assistant_open(&a);
    const rn_engine_options options = {
        .speculate = "mtp", .max_seqs = 2, .n_ctx = 128, .draft_min = 2, .draft_max = 2};
    rn_engine *engine = streams_engine(model, &options);
    uint64_t before = 0;
    for (int i = 0; i < N; i++) {
        static struct stream stream[1];
        int32_t prompt[9];
        fill_tokens(prompt, 9, (uint32_t)i, VOCAB);
        const rn_request request = {.prompt = prompt,
                                    .n_prompt = 9,
                                    .max_tokens = 12,
                                    .ignore_eos = true};
        streams_submit(engine, &request, stream);
        streams_drain(engine, stream, 1);
        const uint64_t tokens = streams_stats(engine).draft[RN_DRAFTER_MTP].tokens;
        check(tokens > before + 5, "request %d: %llu tokens", i,
              (unsigned long long)(tokens - before));
        before = tokens;
    }
    rn_engine_destroy(engine);
    rn_model_close(model);
    assistant_remove(&a);
}

// ---------------------------------------------------------------- texts

enum { N_TEXTS = 6 };

static void run_all(rn_engine *engine, const rn_request *request, struct stream *stream) {
    for (int i = 0; i < N_TEXTS; i++) streams_submit(engine, &request[i], &stream[i]);
    streams_drain(engine, stream, N_TEXTS);
}

// Six requests together, with and without drafts of n tokens; every second one is sampled where
// not all are greedy.
static rn_draft_stats check_texts(const struct assistant *a, int n, bool all_greedy) {
    static int32_t prompt[N_TEXTS][400];
    static const int lengths[N_TEXTS] = {1, 2, 33, 64, 200, 400};
    static struct stream want[N_TEXTS], got[N_TEXTS];
    rn_request request[N_TEXTS];
    rn_model *model = assistant_open(a);
    for (int i = 0; i < N_TEXTS; i++) {
        fill_tokens(prompt[i], lengths[i], (uint32_t)i + 20, VOCAB);
        request[i] = (rn_request){.prompt = prompt[i],
                                  .n_prompt = (size_t)lengths[i],
                                  .max_tokens = TEXT,
                                  .ignore_eos = true};
        if (i % 2 == 0 || all_greedy) continue;
        request[i].sampling.temperature = 0.8f;
        request[i].sampling.seed = 11 + (uint64_t)i;
        request[i].sampling.has_seed = true;
    }
    const rn_engine_options plain = {.speculate = "off", .max_seqs = N_TEXTS, .n_ctx = 512};
    rn_engine_options drafts = plain;
    drafts.speculate = "mtp";
    drafts.draft_min = drafts.draft_max = n;
    rn_engine *engine = streams_engine(model, &plain);
    run_all(engine, request, want);
    rn_engine_destroy(engine);
    engine = streams_engine(model, &drafts);
    run_all(engine, request, got);
    for (int i = 0; i < N_TEXTS; i++) streams_check_same(&want[i], &got[i]);
    const rn_engine_stats stats = streams_stats(engine);
    rn_engine_destroy(engine);
    rn_model_close(model);
    return stats.draft[RN_DRAFTER_MTP];
}

CASE(refused_drafts_do_not_change_texts) {
    for (int i = 0; i < MODELS; i++) {
        struct assistant a = assistant_make(models[i], false);
        for (int n = 1; n <= 5; n += 2) assert_true(check_texts(&a, n, false).tokens > 100);
        assistant_remove(&a);
    }
}

CASE(right_drafts_are_accepted) {
    for (int i = 0; i < 2; i++) {
        struct assistant a = assistant_make(models[i], true);
        for (int n = 1; n <= 5; n += 2) {
            const rn_draft_stats stats = check_texts(&a, n, true);
            check(stats.accepted == stats.tokens && stats.tokens > 100, "%s: %llu of %llu",
                  models[i], (unsigned long long)stats.accepted, (unsigned long long)stats.tokens);
        }
        assistant_remove(&a);
    }
}

// ---------------------------------------------------------------- memory, offers, refusals

CASE(the_assistant_drafts_by_itself_and_takes_no_kv) {
    struct assistant a = assistant_make("gemma4-e2b", true);
    rn_model *model = assistant_open(&a);
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = 2});
    rn_engine_info info;
    rn_memory_plan plan, off;
    rn_engine_get_info(engine, &info);
    check(strstr(info.drafters, "mtp") != NULL, "drafters: %s", info.drafters);
    assert_string_equal(rn_model_get_info(model)->block_path, a.path);
    assert_int_equal(rn_engine_plan_memory(model, &(rn_engine_options){.max_seqs = 2}, &plan, NULL),
                     RN_OK);
    assert_int_equal(rn_engine_plan_memory(model,
                                           &(rn_engine_options){.max_seqs = 2, .speculate = "off"},
                                           &off, NULL),
                     RN_OK);
    assert_int_equal(plan.mtp_kv_bytes, 0);
    assert_int_equal(plan.kv_token_bytes, off.kv_token_bytes);
    rn_engine_destroy(engine);
    rn_model_close(model);
    assistant_remove(&a);
}

// Rows that the drafter was told of, and a text that grew without it.
CASE(an_assistant_without_the_last_hidden_row_offers_nothing) {
    struct assistant a = assistant_make("gemma4-31b", false);
    rn_model *model = assistant_open(&a);
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.speculate = "mtp"});
    struct drafter *drafter = engine->engine.draft->drafter[RN_DRAFTER_MTP];
    struct story *story = story_random(20, 64, 5, VOCAB);
    struct seq *seq = &story->seq;
    static const float zeros[WIDEST];
    const float *rows[3] = {zeros, zeros, zeros};
    int32_t token[4];
    assert_int_equal(drafter->cls->offer(drafter, seq, 3, token).n, 0);
    drafter->cls->observe(drafter, seq, 16, 3, rows); // up to the last but one
    assert_int_equal(drafter->cls->offer(drafter, seq, 3, token).n, 3);
    seq->n_token++;
    assert_int_equal(drafter->cls->offer(drafter, seq, 3, token).n, 0);
    drafter->cls->observe(drafter, seq, 19, 1, rows);
    seq->limit = 23;
    assert_int_equal(drafter->cls->offer(drafter, seq, 3, token).n, 2);
    drafter->cls->leave(drafter, seq);
    assert_int_equal(drafter->cls->offer(drafter, seq, 3, token).n, 0);
    drafter->cls->leave(drafter, seq);
    story_destroy(story);
    rn_engine_destroy(engine);
    rn_model_close(model);
    assistant_remove(&a);
}

CASE(files_that_do_not_fit_are_refused) {
    struct assistant a = assistant_make("gemma4-e2b", false),
                     b = assistant_make("gemma4-31b", false);
    const char *llama = TEST_DATA "/golden/llama/model.gguf";
    assert_true(rn_model_is_block(a.path));
    assert_false(rn_model_is_block(a.model_path));
    assert_false(rn_model_is_block("/nowhere"));
    check_refused(b.model_path, a.path, RN_ERR_MODEL,
                  "its embedding_length_out is 48, and 64 in the model");
    check_refused(llama, a.path, RN_ERR_MODEL, "drafts for models of 'gemma4', not of 'llama'");
    check_refused(a.model_path, llama, RN_ERR_ARG, "is no draft block");
    check_refused(a.model_path, "/nowhere", RN_ERR_IO, "/nowhere");
    // gemma4-moe has the width of e2b, and other heads
    check_refused(TEST_DATA "/golden/gemma4-moe/model.gguf", a.path, RN_ERR_MODEL,
                  "its number of KV heads is 1, and 2 in the model");
    rn_model *model = assistant_open(&a), *alone;
    rn_error err = {0};
    assert_int_equal(rn_model_attach(model, a.path, &err), RN_ERR_ARG);
    check(strstr(err.message, "has a draft block already"), "%s", err.message);
    assert_int_equal(rn_model_open(a.path, &alone, &err), RN_ERR_UNSUPPORTED);
    check(strstr(err.message, "no model of its own"), "%s", err.message);
    rn_model_close(model);
    assistant_remove(&a);
    assistant_remove(&b);
}

// The assistant's file without one tensor, or with another context length.
static void changed_write(const struct assistant *a, const char *without, uint32_t n_ctx,
                          float divisor, char path[DATA_PATH_BYTES]) {
    static const char key[] = "gemma4-assistant.context_length";
    struct weights *weights;
    struct writer writer = writer_begin(3);
    assert_int_equal(weights_open(a->path, &weights, NULL), RN_OK);
    for (int i = 0; i < weights_meta_count(weights); i++) {
        const struct meta_view *meta = weights_meta_at(weights, i);
        if (n_ctx == 0 || strcmp(meta->key, key) != 0) writer_kv_copy(&writer, meta);
    }
    if (n_ctx > 0) writer_kv_u32(&writer, key, n_ctx);
    for (int i = 0; i < weights_tensor_count(weights); i++) {
        const struct tensor_view brought = tensor_brought(weights, i), *t = &brought;
        const uint64_t dims[2] = {(uint64_t)t->dim[0], (uint64_t)t->dim[1]};
        float divisors[WIDEST];
        for (int k = 0; k < WIDEST; k++) divisors[k] = divisor;
        const bool is_freqs = divisor > 0 && strcmp(t->name, "rope_freqs.weight") == 0;
        if (without && strcmp(t->name, without) == 0) continue;
        assistant_put(&writer, t->name, (uint32_t)t->n_dims, dims, is_freqs ? divisors : t->data);
    }
    weights_close(weights);
    assistant_write(&writer, a->folder.path, "changed.gguf", path);
}

// Whatever was built of the block is gone: the model makes engines, and takes another block.
CASE(a_model_that_refused_a_block_is_as_it_was) {
    static const char *const without[] = {"nextn.pre_projection.weight", "blk.1.ffn_up.weight",
                                          "nextn.post_projection.weight"};
    struct assistant a = assistant_make("gemma4-31b", true);
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        char path[DATA_PATH_BYTES];
        rn_model *model;
        rn_error err = {0};
        changed_write(&a, without[i], 0, 0, path);
        assert_int_equal(rn_model_open(a.model_path, &model, NULL), RN_OK);
        const struct plan before = model->model.plan;
        check(rn_model_attach(model, path, &err) == RN_ERR_MODEL, "%s", err.message);
        const struct plan *after = &model->model.plan;
        assert_false(plan_has_block(after));
        assert_null(rn_model_get_info(model)->block_path);
        check(after->n_weight == before.n_weight && after->n_buffer == before.n_buffer &&
                  after->n_rope == before.n_rope && after->hidden == before.hidden,
              "%s: %d weights, %d buffers, %d ropes", without[i], after->n_weight, after->n_buffer,
              after->n_rope);
        rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = 2});
        rn_engine_destroy(engine);
        check(rn_model_attach(model, a.path, &err) == RN_OK, "%s", err.message);
        engine = streams_engine(model, &(rn_engine_options){.speculate = "mtp", .max_seqs = 2});
        rn_engine_destroy(engine);
        rn_model_close(model);
    }
    assistant_remove(&a);
}

// Its own block stays, whatever the other file's fault is.
CASE(a_second_block_is_refused) {
    struct assistant a = assistant_make("gemma4-31b", true);
    rn_model *model = assistant_open(&a);
    rn_error err = {0};
    assert_int_equal(rn_model_attach(model, a.path, &err), RN_ERR_ARG);
    const char name[] = "unknown.gguf";
    char path[DATA_PATH_BYTES];
    struct writer writer = writer_begin(3);
    writer_kv_str(&writer, "general.architecture", "unheard-of");
    assistant_write(&writer, a.folder.path, name, path);
    assert_int_equal(rn_model_attach(model, path, &err), RN_ERR_UNSUPPORTED);
    assert_string_equal(rn_model_get_info(model)->block_path, a.path);
    assert_true(plan_has_block(&model->model.plan));
    rn_model_close(model);
    assistant_remove(&a);
}

// As of the model's own file: the load reads, and does not map.
CASE(a_block_that_is_cut_while_it_loads_is_an_error) {
    struct assistant a = assistant_make("gemma4-31b", true);
    rn_model *model = assistant_open(&a);
    rn_engine *engine = NULL;
    rn_error err = {0};
    assert_int_equal(truncate(a.path, 4096), 0);
    assert_int_equal(rn_engine_create(model, &(rn_engine_options){.max_seqs = 2}, &engine, &err),
                     RN_ERR_IO);
    check(strstr(err.message, "assistant.gguf") && strstr(err.message, "ends at"), "%s",
          err.message);
    rn_model_close(model);
    assistant_remove(&a);
}

// Rows have the model's positions, of which the assistant's own context says nothing.
CASE(angles_are_in_range_at_the_models_positions) {
    struct assistant a = assistant_make("gemma4-31b", true);
    char path[DATA_PATH_BYTES];
    changed_write(&a, NULL, 1, 1.2e-8f, path);
    check_refused(a.model_path, path, RN_ERR_MODEL, "its angle at position 512 is out of range");
    changed_write(&a, NULL, 1, 0, path);
    assert_true(rn_model_is_block(path));
    rn_model *model;
    assert_int_equal(rn_model_open(a.model_path, &model, NULL), RN_OK);
    assert_int_equal(rn_model_attach(model, path, NULL), RN_OK);
    rn_model_close(model);
    assistant_remove(&a);
}

TEST_PROGRAM(assistant) { return cases_run(NULL, NULL); }
