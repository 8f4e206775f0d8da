// The batch builder: rows, positions and wanted rows of random batches against their definition.
#include "plan/batch.h"

#include <string.h>

#include "check.h"

#define RANDOM_SEED 88172645463325252u
#include "engine/random.h"

enum { MAX_TOKENS = 200, MAX_OUT = 150, MAX_SEQS = 12, GROUPS = 2, POSITIONS = 400, VOCAB = 1000 };
enum { BLOCKS = (POSITIONS + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS };

static uint32_t pages[GROUPS][BLOCKS];
static int32_t tokens[POSITIONS];

static void builder_open(struct batch_builder *builder) {
    assert_int_equal(batch_builder_init(builder, GROUPS, MAX_TOKENS, MAX_OUT, MAX_SEQS, NULL),
                     RN_OK);
    for (int i = 0; i < POSITIONS; i++) tokens[i] = below(VOCAB);
    for (int i = 0; i < BLOCKS; i++) {
        pages[0][i] = (uint32_t)i;
        pages[1][i] = (uint32_t)(BLOCKS - i);
    }
}

// Random rows that fit.
static struct batch_rows rows_random(const struct batch *batch, uint32_t **table) {
    const int room = MAX_TOKENS - batch->n_tokens, n = 1 + below(room < 40 ? room : 40);
    const int most = MAX_OUT - batch->n_out < n ? MAX_OUT - batch->n_out : n;
    const int first = below(POSITIONS - n);
    const int outs[] = {0, most > 0, most};
    return (struct batch_rows){.page_table = table,
                               .first_pos = first,
                               .n_tokens = n,
                               .token = tokens + first,
                               .n_out = outs[below(3)]};
}

static void check_seq(const struct batch *batch, int index, const struct batch_rows *rows) {
    const struct batch_seq *seq = &batch->seq[index], *before = seq - 1;
    assert_int_equal(seq->first_row, index ? before->first_row + before->n_tokens : 0);
    assert_int_equal(seq->first_out, index ? before->first_out + before->n_out : 0);
    assert_int_equal(seq->n_tokens, rows->n_tokens);
    assert_int_equal(seq->first_pos, rows->first_pos);
    assert_int_equal(seq->n_out, rows->n_out);
    for (int g = 0; g < GROUPS; g++) assert_ptr_equal(seq->page_table[g], pages[g]);
    for (int i = 0; i < seq->n_tokens; i++) {
        assert_int_equal(batch->token[seq->first_row + i], tokens[rows->first_pos + i]);
        assert_int_equal(batch->pos[seq->first_row + i], rows->first_pos + i);
    }
    for (int i = 0; i < seq->n_out; i++)
        assert_int_equal(batch->out_row[seq->first_out + i],
                         seq->first_row + seq->n_tokens - seq->n_out + i);
}

CASE(sequences_follow_each_other_and_want_their_last_rows) {
    uint32_t *table[GROUPS] = {pages[0], pages[1]};
    struct batch_builder builder;
    builder_open(&builder);
    const struct batch *batch = &builder.batch;
    for (int round = 0; round < 500; round++) {
        struct batch_rows rows[MAX_SEQS];
        int n = 0;
        batch_begin(&builder, NULL);
        assert_true(batch->n_tokens == 0 && batch->n_seqs == 0 && batch->n_out == 0);
        for (; n < MAX_SEQS && batch->n_tokens < MAX_TOKENS; n++) {
            rows[n] = rows_random(batch, table);
            assert_int_equal(batch_add(&builder, &rows[n]), n);
        }
        assert_int_equal(batch->n_seqs, n);
        assert_int_equal(batch->n_logits, batch->n_out);
        for (int i = 0; i < n; i++) check_seq(batch, i, &rows[i]);
    }
    batch_builder_deinit(&builder);
}

CASE(rows_without_logits_come_last) {
    uint32_t *table[GROUPS] = {pages[0], pages[1]};
    struct batch_builder builder;
    builder_open(&builder);
    const struct batch *batch = &builder.batch;
    struct batch_rows rows = {.page_table = table, .n_tokens = 5, .token = tokens, .n_out = 2};
    batch_begin(&builder, NULL);
    batch_add(&builder, &rows);
    rows.hidden_only = true;
    batch_add(&builder, &rows);
    rows.n_out = 5;
    batch_add(&builder, &rows);
    assert_int_equal(batch->n_out, 9);
    assert_int_equal(batch->n_logits, 2);
    assert_int_equal(batch->out_row[2], 8);
    assert_int_equal(batch->out_row[4], 10);
    batch_builder_deinit(&builder);
}

CASE(a_last_token_may_be_one_that_a_step_in_flight_chooses) {
    uint32_t *table[GROUPS] = {pages[0], pages[1]};
    struct batch_builder builder;
    builder_open(&builder);
    for (int n = 1; n <= 3; n++) {
        batch_begin(&builder, NULL);
        batch_add(&builder, &(struct batch_rows){.page_table = table,
                                                 .n_tokens = n,
                                                 .token = tokens,
                                                 .last = BATCH_OF_ROW(0),
                                                 .n_out = 1});
        for (int i = 0; i < n - 1; i++) assert_int_equal(builder.batch.token[i], tokens[i]);
        assert_int_equal(BATCH_ROW_OF(builder.batch.token[n - 1]), 0);
        assert_int_equal(builder.batch.n_tokens, n);
    }
    batch_builder_deinit(&builder);
}

CASE(without_tokens_the_ids_are_zero) {
    uint32_t *table[GROUPS] = {pages[0], pages[1]};
    struct batch_builder builder;
    builder_open(&builder);
    memset(builder.token, 0x55, MAX_TOKENS * sizeof *builder.token);
    batch_begin(&builder, NULL);
    batch_add(&builder, &(struct batch_rows){.page_table = table, .n_tokens = 70, .n_out = 70});
    for (int i = 0; i < 70; i++) {
        assert_int_equal(builder.batch.token[i], 0);
        assert_int_equal(builder.batch.out_row[i], i);
    }
    batch_builder_deinit(&builder);
}

TEST_PROGRAM(batch) { return cases_run(NULL, NULL); }
