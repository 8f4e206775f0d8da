// A model with recurrent, full and windowed layers through the backend's interface. A row's result
// depends on its sequence alone. States pass from chunk to chunk and from page to page. The
// vocabulary's product reads the hidden rows.
// label: threads
#include <math.h>
#include <stdlib.h>

#include "backend/cpu/cpu.h"
#include "backend_here.h"
#include "base/rmath.h"
#include "recurrent_model.h"

enum {
    VOCAB = 50,
    TOKENS = 100,
    BLOCKS = TOKENS / KV_PAGE_TOKENS + 1,
    SEQS = 2,
    PAGES = 2 * SEQS * BLOCKS,
    ROWS = SEQS * TOKENS,
};

struct results {
    float logits[TOKENS][VOCAB], hidden[TOKENS][RECURRENT_EMBD];
};

// A sequence as an engine keeps it: its tables name only what may still be seen.
struct sequence {
    int32_t token[TOKENS];
    uint32_t page[RECURRENT_GROUPS][BLOCKS]; // that it owns
    uint32_t entry[RECURRENT_GROUPS][BLOCKS], *table[RECURRENT_GROUPS];
    int n_done, n_page;
    struct results *out;
};

// A backend, sequences, and a batch of their next tokens.
struct world {
    struct here here;
    struct batch_builder builder;
    struct batch_page page[RECURRENT_GROUPS * BLOCKS * SEQS];
    struct sequence seq[SEQS];
};

static void world_begin(struct world *w) {
    batch_begin(&w->builder, NULL);
    w->builder.batch.page = w->page;
}

static void world_init(struct world *w, const struct plan *plan, const char *variant, int threads) {
    const struct backend_config config = {.variant = variant,
                                          .sizes = {ROWS, ROWS, SEQS},
                                          .n_pages = {PAGES, PAGES, PAGES}};
    here_create(&w->here, plan, &config, threads);
    assert_int_equal(batch_builder_init(&w->builder, RECURRENT_GROUPS, ROWS, ROWS, SEQS, NULL),
                     RN_OK);
    world_begin(w);
}

static void world_deinit(struct world *w) {
    batch_builder_deinit(&w->builder);
    here_destroy(&w->here);
}

static struct sequence *sequence_start(struct world *w, int index, struct results *out) {
    struct sequence *s = &w->seq[index];
    *s = (struct sequence){.out = out};
    for (int i = 0; i < TOKENS; i++)
        s->token[i] = (int32_t)(((unsigned)(i + 7 * index) * 2654435761u >> 9) % VOCAB);
    for (int g = 0; g < RECURRENT_GROUPS; g++) {
        s->table[g] = s->entry[g];
        for (int i = 0; i < BLOCKS; i++) s->page[g][i] = (uint32_t)(PAGES - 1 - SEQS * i - index);
    }
    return s;
}

// The first block that a row at pos or later sees.
static int first_seen(int group, int pos) {
    const int back = group == RECURRENT_GROUP_STATE ? 1 : RECURRENT_WINDOW - 1;
    return group == RECURRENT_GROUP_FULL || pos < back ? 0 : (pos - back) / KV_PAGE_TOKENS;
}

// The next n tokens, as many as there are; of them the rows from first_wanted on have results.
static void sequence_add(struct world *w, int index, int n, int first_wanted) {
    struct sequence *s = &w->seq[index];
    if (n > TOKENS - s->n_done) n = TOKENS - s->n_done;
    if (n == 0) return;
    const int n_page = (s->n_done + n + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
    for (int g = 0; g < RECURRENT_GROUPS; g++) {
        for (int i = s->n_page; i < n_page; i++)
            w->page[w->builder.batch.n_pages++] = (struct batch_page){g, s->page[g][i], BATCH_ZERO};
        for (int i = 0; i < BLOCKS; i++)
            s->entry[g][i] =
                i < first_seen(g, s->n_done) || i >= n_page ? UINT32_MAX : s->page[g][i];
    }
    s->n_page = n_page;
    batch_add(&w->builder, &(struct batch_rows){.page_table = s->table,
                                                .first_pos = s->n_done,
                                                .n_tokens = n,
                                                .token = s->token + s->n_done,
                                                .n_out = n - first_wanted});
}

// Runs the batch; the sequences keep its results.
static void world_run(struct world *w) {
    const struct batch *batch = &w->builder.batch;
    here_run(&w->here, batch);
    for (int i = 0; i < batch->n_seqs; i++) {
        const struct batch_seq *seq = &batch->seq[i];
        struct sequence *s = &w->seq[seq->page_table[0] == w->seq[1].entry[0]];
        for (int row = seq->first_out; row < seq->first_out + seq->n_out; row++) {
            const int pos = batch->pos[batch->out_row[row]];
            memcpy(s->out->hidden[pos], w->here.result.hidden[row], sizeof s->out->hidden[pos]);
            if (row < batch->n_logits)
                memcpy(s->out->logits[pos], w->here.result.logits[row], sizeof s->out->logits[pos]);
        }
        s->n_done += seq->n_tokens;
    }
    world_begin(w);
}

static void run_chunks(struct world *w, int index, int chunk, struct results *out) {
    memset(out, 0, sizeof *out);
    for (const struct sequence *s = sequence_start(w, index, out); s->n_done < TOKENS;) {
        sequence_add(w, index, chunk, 0);
        world_run(w);
    }
}

static const enum format_id formats[] = {FORMAT_F32, FORMAT_Q8_0};

CASE(rows_do_not_depend_on_chunks_threads_or_isa) {
    static const int chunks[] = {7, TOKENS, 32, 1, 33, 5}; // one thread, two, one, two, ...
    static struct results want, got;
    for (int f = TEST_FOR_RACES; f < 2; f++) {
        struct model model;
        assert_int_equal(recurrent_model_init(&model, VOCAB, formats[f], NULL), RN_OK);
        struct world w;
        world_init(&w, &model.plan, "scalar", 1);
        run_chunks(&w, 0, TOKENS, &want);
        world_deinit(&w);
        for (int i = 0; i < VOCAB; i++) assert_true(isfinite(want.logits[TOKENS - 1][i]));
        assert_memory_not_equal(want.logits[98], want.logits[99], sizeof want.logits[0]);
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            if (!ops_at((enum cpu_isa)isa) || (TEST_IS_SLOW && isa == ISA_SCALAR && f)) continue;
            for (int threads = 1 + TEST_FOR_RACES; threads <= 2; threads++) {
                world_init(&w, &model.plan, ops_name((enum cpu_isa)isa), threads);
                for (size_t c = (size_t)threads - 1; c < sizeof chunks / sizeof *chunks; c += 2) {
                    run_chunks(&w, 0, chunks[c], &got); // over the pages of the one before
                    check(memcmp(&got, &want, sizeof got) == 0, "%s, %d threads, chunks of %d",
                          ops_name((enum cpu_isa)isa), threads, chunks[c]);
                }
                world_deinit(&w);
            }
        }
        recurrent_model_deinit(&model);
    }
}

CASE(rows_do_not_depend_on_neighbours) {
    static struct results want[SEQS], got[SEQS];
    struct model model;
    struct world w;
    assert_int_equal(recurrent_model_init(&model, VOCAB, FORMAT_Q8_0, NULL), RN_OK);
    world_init(&w, &model.plan, NULL, 2);
    for (int i = 0; i < SEQS; i++) run_chunks(&w, i, TOKENS, &want[i]);
    assert_memory_not_equal(&want[0], &want[1], sizeof want[0]);
    for (int i = 0; i < SEQS; i++) sequence_start(&w, i, &got[i]);
    while (w.seq[0].n_done < TOKENS || w.seq[1].n_done < TOKENS) {
        sequence_add(&w, 0, 5, 0);
        sequence_add(&w, 1, 37, 0);
        world_run(&w);
    }
    assert_memory_equal(got, want, sizeof got);
    world_deinit(&w);
    recurrent_model_deinit(&model);
}

// A sequence ends in the middle of a block; another one continues from there in copies of its
// pages, while the first writes its own.
CASE(a_copied_page_carries_the_state) {
    enum { PART = 40 };
    static struct results want, got, other;
    struct model model;
    struct world w;
    assert_int_equal(recurrent_model_init(&model, VOCAB, FORMAT_F32, NULL), RN_OK);
    world_init(&w, &model.plan, NULL, 2);
    run_chunks(&w, 0, TOKENS, &want);
    struct sequence *to = sequence_start(&w, 0, &got), *from = sequence_start(&w, 1, &other);
    memcpy(from->token, to->token, PART * sizeof *to->token);
    sequence_add(&w, 1, PART, 0);
    world_run(&w);
    to->n_done = PART;
    to->n_page = 2;
    for (int g = 0; g < RECURRENT_GROUPS; g++) { // block 0 is shared, block 1 will be written
        to->page[g][0] = from->page[g][0];
        w.page[w.builder.batch.n_pages++] =
            (struct batch_page){g, to->page[g][1], from->page[g][1]};
    }
    for (int i = 0; i < SEQS; i++) sequence_add(&w, i, TOKENS - PART, 0);
    world_run(&w);
    assert_memory_equal(got.logits[PART], want.logits[PART], (TOKENS - PART) * sizeof *want.logits);
    assert_memory_not_equal(other.logits[PART], want.logits[PART], sizeof *want.logits);
    world_deinit(&w);
    recurrent_model_deinit(&model);
}

// ---------------------------------------------------------------- the op alone

// Two embeddings of a token are the inputs of a recurrence, whose rows are the logits.
struct alone {
    struct plan plan;
    float *table[2]; // [VOCAB, width]: x, decay
    int width;
};

static void alone_init(struct alone *a, int width) {
    *a = (struct alone){.width = width};
    plan_init(&a->plan);
    const struct plan_kv_group group = {.kind = KV_RECURRENT, .n_layer = 3, .state = width};
    plan_add_kv_group(&a->plan, &group);
    struct recurrent_builder b = {.plan = &a->plan, .random = (uint64_t)width, .layer = -1};
    int in[2];
    for (int i = 0; i < 2; i++) {
        in[i] = plan_add_buffer(&a->plan, "in", width, ROWS_TOKENS);
        struct op op = recurrent_op(&b, OP_EMBED, PLAN_NONE, in[i]);
        op.weight = recurrent_weight(&b, FORMAT_F32, "in", VOCAB, width, 0, 2 + 3 * (float)i);
        op.embed.scale = 1;
        plan_add_op(&a->plan, &op);
        a->table[i] = (float *)a->plan.weight[op.weight].data;
    }
    const int y = plan_add_buffer(&a->plan, "y", width, ROWS_TOKENS);
    a->plan.logits = plan_add_buffer(&a->plan, "logits", width, ROWS_LOGITS);
    a->plan.n_vocab = width;
    struct op op = recurrent_op(&b, OP_RECUR, in[0], y);
    op.in[1] = in[1];
    op.kv.layer = 1;
    plan_add_op(&a->plan, &op);
    recurrent_gather(&b, y, a->plan.logits);
    assert_int_equal(plan_finish(&a->plan, NULL), RN_OK);
}

// The definition, channel by channel: want is [TOKENS, width].
static void alone_define(const struct alone *a, const int32_t *token, float *want) {
    for (int i = 0; i < a->width; i++) {
        float h = 0;
        for (int t = 0; t < TOKENS; t++) {
            const float x = a->table[0][token[t] * a->width + i];
            const float g = a->table[1][token[t] * a->width + i];
            const float keep = 1.0f / (1.0f + rmath_exp(-g));
            h = want[t * a->width + i] = fmaf(keep, h, (1.0f - keep) * x);
        }
    }
}

// Random chunks; rows and the states that blocks leave in layer 1 of their pages are the
// definition's.
static void alone_check(const struct alone *a, struct world *w, const float *want) {
    const struct cpu_backend *b = (const struct cpu_backend *)w->here.backend;
    const size_t row_bytes = (size_t)a->width * sizeof *want;
    struct sequence *s = sequence_start(w, 0, NULL);
    while (s->n_done < TOKENS) {
        sequence_add(w, 0, 1 + rand() % (rand() % 4 ? 9 : TOKENS), 0);
        // the one group of this plan is like the model's third
        w->builder.batch.n_pages = 0;
        w->builder.seq[0].page_table[0] = s->table[RECURRENT_GROUP_STATE];
        here_run(&w->here, &w->builder.batch);
        for (int i = 0; i < w->builder.batch.n_out; i++)
            check(memcmp(w->here.result.logits[i], want + (s->n_done + i) * a->width, row_bytes) ==
                      0,
                  "%d channels, row %d", a->width, s->n_done + i);
        s->n_done += w->builder.batch.n_tokens;
        world_begin(w);
    }
    for (int block = 0; block < BLOCKS; block++) {
        const int end = (block + 1) * KV_PAGE_TOKENS, last = end < TOKENS ? end - 1 : TOKENS - 1;
        const uint64_t at = s->page[RECURRENT_GROUP_STATE][block] * b->page_bytes[0];
        check(memcmp(b->kv[0].base + at + row_bytes, want + last * a->width, row_bytes) == 0,
              "%d channels, block %d", a->width, block);
    }
}

CASE(a_recurrence_is_its_definition_in_any_chunks) {
    static const int widths[] = {1, 7, 16, 63, 64, 65, 200};
    srand(3);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        struct alone a;
        struct world w;
        alone_init(&a, widths[i]);
        float *want = calloc((size_t)(TOKENS * a.width), sizeof *want);
        assert_non_null(want);
        alone_define(&a, sequence_start(&w, 0, NULL)->token, want);
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            if (!ops_at((enum cpu_isa)isa)) continue;
            world_init(&w, &a.plan, ops_name((enum cpu_isa)isa), 1 + isa % 2);
            for (int round = 0; round < 5; round++) alone_check(&a, &w, want);
            world_deinit(&w);
        }
        free(want);
        plan_deinit(&a.plan);
    }
}

// ---------------------------------------------------------------- out rows

// The last op is the product.
static void product_of(const struct plan *plan, const float *x, float *y) {
    const struct plan_weight *weight = &plan->weight[plan->op[plan->n_op - 1].weight];
    const float *w = weight->data;
    for (int r = 0; r < VOCAB; r++, w += RECURRENT_EMBD) {
        y[r] = 0;
        for (int i = 0; i < RECURRENT_EMBD; i++) y[r] = fmaf(w[i], x[i], y[r]);
    }
}

CASE(hidden_rows_are_what_the_vocabulary_is_multiplied_with) {
    static struct results got;
    struct model model;
    struct world w;
    assert_int_equal(recurrent_model_init(&model, VOCAB, FORMAT_F32, NULL), RN_OK);
    world_init(&w, &model.plan, NULL, 2);
    run_chunks(&w, 0, 30, &got);
    for (int i = 0; i < TOKENS; i++) {
        float logits[VOCAB];
        product_of(&model.plan, got.hidden[i], logits);
        assert_memory_equal(logits, got.logits[i], sizeof logits);
    }
    world_deinit(&w);
    recurrent_model_deinit(&model);
}

// One sequence wants logits of its last rows, the other hidden states alone: its out rows come
// behind, in any order of the sequences.
CASE(only_the_first_out_rows_have_logits) {
    static struct results want[SEQS], got[SEQS];
    for (int f = 0; f < 2; f++) {
        struct model model;
        assert_int_equal(recurrent_model_init(&model, VOCAB, formats[f], NULL), RN_OK);
        struct world w;
        world_init(&w, &model.plan, NULL, 2);
        for (int i = 0; i < SEQS; i++) run_chunks(&w, i, TOKENS, &want[i]);
        memset(got, 0, sizeof got);
        for (int i = 0; i < SEQS; i++) sequence_start(&w, i, &got[i]);
        sequence_add(&w, 0, TOKENS, 10);
        sequence_add(&w, 1, TOKENS, 97);
        struct batch_seq *seq = w.builder.seq; // the out rows of the second come first
        seq[0].first_out = seq[1].n_out;
        seq[1].first_out = 0;
        for (int i = 0; i < seq[1].n_out; i++) w.builder.out_row[i] = TOKENS + 97 + i;
        for (int i = 0; i < seq[0].n_out; i++) w.builder.out_row[seq[1].n_out + i] = 10 + i;
        w.builder.batch.n_logits = seq[1].n_out;
        world_run(&w);
        assert_memory_equal(got[0].hidden[10], want[0].hidden[10], 90 * sizeof *got[0].hidden);
        assert_memory_equal(got[1].hidden[97], want[1].hidden[97], 3 * sizeof *got[1].hidden);
        assert_memory_equal(got[1].logits[97], want[1].logits[97], 3 * sizeof *got[1].logits);
        world_deinit(&w);
        recurrent_model_deinit(&model);
    }
}

TEST_PROGRAM(recur) { return cases_run(NULL, NULL); }
