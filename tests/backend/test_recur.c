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
    uint32_t table[RECURRENT_GROUPS][BLOCKS];
    int n_done, n_page;
    struct results *out;
};

struct step {
    int32_t token[ROWS], pos[ROWS], out_row[ROWS];
    struct batch_seq seq[SEQS];
    struct batch_page page[RECURRENT_GROUPS * BLOCKS * SEQS];
    struct batch batch;
};

static void sequence_init(struct sequence *s, int index, struct results *out) {
    *s = (struct sequence){.out = out};
    for (int i = 0; i < TOKENS; i++)
        s->token[i] = (int32_t)(((unsigned)(i + 7 * index) * 2654435761u >> 9) % VOCAB);
    for (int g = 0; g < RECURRENT_GROUPS; g++)
        for (int i = 0; i < BLOCKS; i++) s->page[g][i] = (uint32_t)(PAGES - 1 - SEQS * i - index);
}

// The first block that a row at pos or later sees.
static int first_seen(int group, int pos) {
    const int back = group == RECURRENT_GROUP_STATE ? 1 : RECURRENT_WINDOW - 1;
    return group == RECURRENT_GROUP_FULL || pos < back ? 0 : (pos - back) / KV_PAGE_TOKENS;
}

// The next n tokens; of them the rows from first_wanted on have results.
static void step_add(struct step *t, struct sequence *s, int n, int first_wanted) {
    struct batch *batch = &t->batch;
    struct batch_seq *seq = &t->seq[batch->n_seqs++];
    *seq = (struct batch_seq){.first_row = batch->n_tokens,
                              .n_tokens = n,
                              .first_pos = s->n_done,
                              .first_out = batch->n_out,
                              .n_out = n - first_wanted};
    for (int i = 0; i < n; i++) {
        if (i >= first_wanted) t->out_row[batch->n_out++] = batch->n_tokens;
        t->token[batch->n_tokens] = s->token[s->n_done + i];
        t->pos[batch->n_tokens++] = s->n_done + i;
    }
    const int n_page = (s->n_done + n + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
    for (int g = 0; g < RECURRENT_GROUPS; g++) {
        for (int i = s->n_page; i < n_page; i++)
            t->page[batch->n_pages++] = (struct batch_page){g, s->page[g][i], BATCH_ZERO};
        for (int i = 0; i < BLOCKS; i++)
            s->table[g][i] =
                i < first_seen(g, s->n_done) || i >= n_page ? UINT32_MAX : s->page[g][i];
        seq->page_table[g] = s->table[g];
    }
    s->n_page = n_page;
    batch->token = t->token;
    batch->pos = t->pos;
    batch->out_row = t->out_row;
    batch->seq = t->seq;
    batch->page = t->page;
}

static void step_run(struct step *t, struct here *here, struct sequence *const *list) {
    here_run(here, &t->batch);
    for (int s = 0; s < t->batch.n_seqs; s++) {
        const struct batch_seq *seq = &t->seq[s];
        for (int i = seq->first_out; i < seq->first_out + seq->n_out; i++) {
            const int pos = t->pos[t->out_row[i]];
            memcpy(list[s]->out->hidden[pos], here->result.hidden[i],
                   sizeof list[s]->out->hidden[pos]);
            if (i < t->batch.n_logits)
                memcpy(list[s]->out->logits[pos], here->result.logits[i],
                       sizeof list[s]->out->logits[pos]);
        }
        list[s]->n_done += seq->n_tokens;
    }
}

static struct here create(const struct plan *plan, const char *variant, int threads) {
    const struct backend_config config = {.variant = variant,
                                          .sizes = {ROWS, ROWS, SEQS},
                                          .n_pages = {PAGES, PAGES, PAGES}};
    struct here here;
    here_create(&here, plan, &config, threads);
    return here;
}

static void run_chunks(struct here *here, int index, int chunk, struct results *out) {
    struct sequence s, *list[1] = {&s};
    memset(out, 0, sizeof *out);
    sequence_init(&s, index, out);
    while (s.n_done < TOKENS) {
        struct step t = {.batch = {0}};
        step_add(&t, &s, TOKENS - s.n_done < chunk ? TOKENS - s.n_done : chunk, 0);
        t.batch.n_logits = t.batch.n_out;
        step_run(&t, here, list);
    }
}

static const enum format_id formats[] = {FORMAT_F32, FORMAT_Q8_0};

static void rows_do_not_depend_on_chunks_threads_or_isa(void **state) {
    (void)state;
    static const int chunks[] = {7, TOKENS, 32, 1, 33, 5}; // one thread, two, one, two, ...
    static struct results want, got;
    for (int f = 0; f < 2; f++) {
        struct model model;
        assert_int_equal(recurrent_model_init(&model, VOCAB, formats[f], NULL), RN_OK);
        struct here here = create(&model.plan, "scalar", 1);
        run_chunks(&here, 0, TOKENS, &want);
        here_destroy(&here);
        for (int i = 0; i < VOCAB; i++) assert_true(isfinite(want.logits[TOKENS - 1][i]));
        assert_memory_not_equal(want.logits[98], want.logits[99], sizeof want.logits[0]);
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            if (!ops_at((enum cpu_isa)isa)) continue;
            for (int threads = 1; threads <= 2; threads++) {
                here = create(&model.plan, ops_name((enum cpu_isa)isa), threads);
                for (size_t c = (size_t)threads - 1; c < sizeof chunks / sizeof *chunks; c += 2) {
                    run_chunks(&here, 0, chunks[c], &got); // over the pages of the one before
                    check(memcmp(&got, &want, sizeof got) == 0, "%s, %d threads, chunks of %d",
                          ops_name((enum cpu_isa)isa), threads, chunks[c]);
                }
                here_destroy(&here);
            }
        }
        recurrent_model_deinit(&model);
    }
}

static void rows_do_not_depend_on_neighbours(void **state) {
    (void)state;
    static struct results want[SEQS], got[SEQS];
    struct model model;
    assert_int_equal(recurrent_model_init(&model, VOCAB, FORMAT_Q8_0, NULL), RN_OK);
    struct here here = create(&model.plan, NULL, 2);
    for (int i = 0; i < SEQS; i++) run_chunks(&here, i, TOKENS, &want[i]);
    assert_memory_not_equal(&want[0], &want[1], sizeof want[0]);
    struct sequence s[SEQS], *list[SEQS] = {&s[0], &s[1]};
    for (int i = 0; i < SEQS; i++) sequence_init(&s[i], i, &got[i]);
    while (s[0].n_done < TOKENS || s[1].n_done < TOKENS) {
        static const int chunks[SEQS] = {5, 37};
        struct step t = {.batch = {0}};
        for (int i = 0; i < SEQS; i++) {
            const int rest = TOKENS - s[i].n_done;
            step_add(&t, &s[i], rest < chunks[i] ? rest : chunks[i], 0); // 0 at the end
        }
        t.batch.n_logits = t.batch.n_out;
        step_run(&t, &here, list);
    }
    for (int i = 0; i < SEQS; i++) assert_memory_equal(&got[i], &want[i], sizeof got[i]);
    here_destroy(&here);
    recurrent_model_deinit(&model);
}

// A sequence ends in the middle of a block; another one continues from there in copies of its
// pages, while the first writes its own.
static void a_copied_page_carries_the_state(void **state) {
    (void)state;
    enum { PART = 40 };
    static struct results want, got, other;
    struct model model;
    assert_int_equal(recurrent_model_init(&model, VOCAB, FORMAT_F32, NULL), RN_OK);
    struct here here = create(&model.plan, NULL, 2);
    run_chunks(&here, 0, TOKENS, &want);
    struct sequence s[SEQS], *list[SEQS] = {&s[0], &s[1]};
    sequence_init(&s[0], 0, &got);
    sequence_init(&s[1], 1, &other);
    memcpy(s[1].token, s[0].token, PART * sizeof *s[0].token);
    struct step t = {.batch = {0}};
    step_add(&t, &s[1], PART, 0);
    step_run(&t, &here, &list[1]);
    s[0].n_done = PART;
    s[0].n_page = 2;
    t = (struct step){.batch = {0}};
    for (int g = 0; g < RECURRENT_GROUPS; g++) { // block 0 is shared, block 1 will be written
        s[0].page[g][0] = s[1].page[g][0];
        t.page[t.batch.n_pages++] = (struct batch_page){g, s[0].page[g][1], s[1].page[g][1]};
    }
    for (int i = 0; i < SEQS; i++) step_add(&t, &s[i], TOKENS - PART, 0);
    t.batch.n_logits = t.batch.n_out;
    step_run(&t, &here, list);
    assert_memory_equal(got.logits[PART], want.logits[PART], (TOKENS - PART) * sizeof *want.logits);
    assert_memory_not_equal(other.logits[PART], want.logits[PART], sizeof *want.logits);
    here_destroy(&here);
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
static void alone_check(const struct alone *a, struct here *here, const float *want) {
    const struct cpu_backend *b = (const struct cpu_backend *)here->backend;
    const size_t row_bytes = (size_t)a->width * sizeof *want;
    struct sequence s;
    sequence_init(&s, 0, NULL);
    while (s.n_done < TOKENS) {
        const int n = 1 + rand() % (rand() % 4 ? 9 : TOKENS), rest = TOKENS - s.n_done;
        static struct step t;
        t = (struct step){.batch = {0}};
        step_add(&t, &s, n < rest ? n : rest, 0);
        // the one group of this plan is like the model's third
        t.batch.n_pages = 0;
        t.seq[0].page_table[0] = s.table[RECURRENT_GROUP_STATE];
        t.batch.n_logits = t.batch.n_out;
        here_run(here, &t.batch);
        for (int i = 0; i < t.batch.n_out; i++)
            check(memcmp(here->result.logits[i], want + (s.n_done + i) * a->width, row_bytes) == 0,
                  "%d channels, row %d", a->width, s.n_done + i);
        s.n_done += t.batch.n_tokens;
    }
    for (int block = 0; block < BLOCKS; block++) {
        const int end = (block + 1) * KV_PAGE_TOKENS, last = end < TOKENS ? end - 1 : TOKENS - 1;
        const uint64_t at = s.page[RECURRENT_GROUP_STATE][block] * b->page_bytes[0];
        check(memcmp(b->kv[0].base + at + row_bytes, want + last * a->width, row_bytes) == 0,
              "%d channels, block %d", a->width, block);
    }
}

static void a_recurrence_is_its_definition_in_any_chunks(void **state) {
    (void)state;
    static const int widths[] = {1, 7, 16, 63, 64, 65, 200};
    srand(3);
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        struct alone a;
        struct sequence s;
        alone_init(&a, widths[w]);
        sequence_init(&s, 0, NULL);
        float *want = calloc((size_t)(TOKENS * a.width), sizeof *want);
        assert_non_null(want);
        alone_define(&a, s.token, want);
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            if (!ops_at((enum cpu_isa)isa)) continue;
            struct here here = create(&a.plan, ops_name((enum cpu_isa)isa), 1 + isa % 2);
            for (int round = 0; round < 5; round++) alone_check(&a, &here, want);
            here_destroy(&here);
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

static void hidden_rows_are_what_the_vocabulary_is_multiplied_with(void **state) {
    (void)state;
    static struct results got;
    struct model model;
    assert_int_equal(recurrent_model_init(&model, VOCAB, FORMAT_F32, NULL), RN_OK);
    struct here here = create(&model.plan, NULL, 2);
    run_chunks(&here, 0, 30, &got);
    for (int i = 0; i < TOKENS; i++) {
        float logits[VOCAB];
        product_of(&model.plan, got.hidden[i], logits);
        assert_memory_equal(logits, got.logits[i], sizeof logits);
    }
    here_destroy(&here);
    recurrent_model_deinit(&model);
}

// One sequence wants logits of its last rows, the other hidden states alone: its out rows come
// behind, in any order of the sequences.
static void only_the_first_out_rows_have_logits(void **state) {
    (void)state;
    static struct results want[SEQS], got[SEQS];
    for (int f = 0; f < 2; f++) {
        struct model model;
        assert_int_equal(recurrent_model_init(&model, VOCAB, formats[f], NULL), RN_OK);
        struct here here = create(&model.plan, NULL, 2);
        for (int i = 0; i < SEQS; i++) run_chunks(&here, i, TOKENS, &want[i]);
        memset(got, 0, sizeof got);
        struct sequence s[SEQS], *list[SEQS] = {&s[0], &s[1]};
        for (int i = 0; i < SEQS; i++) sequence_init(&s[i], i, &got[i]);
        struct step t = {.batch = {0}};
        step_add(&t, &s[0], TOKENS, 10);
        step_add(&t, &s[1], TOKENS, 97);
        const int n[SEQS] = {t.seq[0].n_out, t.seq[1].n_out}; // the second one's come first
        t.seq[0].first_out = n[1];
        t.seq[1].first_out = 0;
        for (int i = 0; i < n[1]; i++) t.out_row[i] = TOKENS + 97 + i;
        for (int i = 0; i < n[0]; i++) t.out_row[n[1] + i] = 10 + i;
        t.batch.n_logits = n[1];
        step_run(&t, &here, list);
        assert_memory_equal(got[0].hidden[10], want[0].hidden[10], 90 * sizeof *got[0].hidden);
        assert_memory_equal(got[1].hidden[97], want[1].hidden[97], 3 * sizeof *got[1].hidden);
        assert_memory_equal(got[1].logits[97], want[1].logits[97], 3 * sizeof *got[1].logits);
        here_destroy(&here);
        recurrent_model_deinit(&model);
    }
}

TEST_PROGRAM(recur) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_do_not_depend_on_chunks_threads_or_isa),
        cmocka_unit_test(rows_do_not_depend_on_neighbours),
        cmocka_unit_test(a_copied_page_carries_the_state),
        cmocka_unit_test(a_recurrence_is_its_definition_in_any_chunks),
        cmocka_unit_test(hidden_rows_are_what_the_vocabulary_is_multiplied_with),
        cmocka_unit_test(only_the_first_out_rows_have_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
