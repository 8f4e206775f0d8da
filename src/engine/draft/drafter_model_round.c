// The drafts of one step, all sequences together. First come the tokens that the model has not read
// yet: they are known, so their positions stay. Behind them comes one row for each sequence and
// token. These positions are only tried (kv_mark), and settle says which of them were right. A
// sequence that is far behind gets the room that the first batch leaves, and drafts when it has
// caught up. The last token of a draft is not evaluated.
//
//   plan: slots, rows, pages ---> run ---> take tokens ---> mark, pages ---> run ---> take ---> ...
//
// The draft model chooses as the target's sequence does, with the noise of the same position.
#include <assert.h>
#include <string.h>

#include "engine/draft/drafter_model.h"

// ---------------------------------------------------------------- batches

static void begin(struct drafter_model *d) {
    struct batch *batch = &d->builder.batch;
    batch_begin(&d->builder, d->choice);
    batch->page = kv_take_ops(d->kv, &batch->n_pages);
    batch->is_draft = d->is_block;
    batch->input = d->input;
}

// Appends the sequence's n tokens from first_pos on; is_out: the last one wants logits.
static void add(struct drafter_model *d, const struct drafter_part *part, int first_pos, int n,
                bool is_out) {
    const int first_row = d->builder.batch.n_tokens;
    batch_add(&d->builder,
              &(struct batch_rows){.page_table = part->slot->table.page,
                                   .state_from = kv_state_from(&part->slot->table, first_pos),
                                   .first_pos = first_pos,
                                   .n_tokens = n,
                                   .token = part->text.job->seq->token + part->slot->base +
                                            first_pos + d->is_block,
                                   .n_out = is_out});
    if (d->is_block) drafter_block_rows(d, part, first_pos, n);
    for (int row = first_row; row < first_row + n; row++)
        if (d->builder.token[row] >= d->n_vocab) // a token that only the target has
            d->builder.token[row] = 0;
}

// How the next token of each active sequence is chosen. Only ids that both models have can come.
static void describe_some(void *ctx, int64_t begin, int64_t end, int worker) {
    struct drafter_model *d = ctx;
    for (int64_t i = begin; i < end; i++)
        drafting_describe(&d->active[i]->text, &d->scratch[worker], d->n_vocab, &d->choice[i]);
}

// The tokens of a failed sequence are unknown.
static bool all_ran(const struct drafter_model *d) {
    const rn_status *status = d->result.seq_status;
    for (int i = 0; status && i < d->builder.batch.n_seqs; i++)
        if (status[i]) return false;
    return true;
}

// A run that fails, in whole or in part, ends the round and all further drafts: texts do not need
// them.
static bool batch_run(struct drafter_model *d) {
    bool takes_time = false;
    for (int i = 0; i < d->n_active; i++)
        takes_time |= choice_needs_history(&d->active[i]->text.job->seq->choices);
    if (takes_time)
        pool_run(d->pool, describe_some, d, d->n_active, 1);
    else
        describe_some(d, 0, d->n_active, 0);
    d->is_broken =
        backend_run(d->backend, &d->builder.batch, &d->result, NULL) != RN_OK || !all_ran(d);
    if (d->is_broken) d->n_active = 0;
    return !d->is_broken;
}

// ---------------------------------------------------------------- known tokens

static bool is_far(const struct drafter_model *d, const struct drafter_part *part) {
    return drafter_slot_behind(d, part->slot) > DRAFTER_FEW;
}

// Pages for as many of its tokens as the batch has room for. It begins only when all of them fit:
// otherwise many would hold pages, and none could draft.
static void plan_rows(struct drafter_model *d, struct drafter_part *part, int room) {
    const int behind = drafter_slot_behind(d, part->slot);
    if (behind > 0 && !drafter_slot_room(d, part->slot, behind)) {
        drafter_slot_free(d, part->slot);
        return;
    }
    const int n = behind < room ? behind : room;
    if (n > 0 && kv_grow(d->kv, &part->slot->table, part->slot->n_done, n)) part->n_rows = n;
}

// Chooses the sequences that take part, and their numbers of known tokens. Followed sequences come
// first, so that a sequence far behind does not keep them from drafting.
static void plan_round(struct drafter_model *d, struct draft_job *jobs, int n_jobs) {
    assert(n_jobs <= d->max_seqs);
    d->n_part = d->n_active = 0;
    for (int i = 0; i < n_jobs; i++) {
        struct drafter_slot *slot =
            jobs[i].seq->n_token <= d->n_ctx ? drafter_slot_of(d, jobs[i].seq) : NULL;
        if (!slot || (d->is_block && !drafter_block_ready(d, slot))) {
            jobs[i].n = 0;
            continue;
        }
        assert(!slot->table.marked);
        slot->used = d->clock;
        d->part[d->n_part++] = (struct drafter_part){.text.job = &jobs[i], .slot = slot};
    }
    int room = d->batch_tokens;
    for (int far = 0; far < 2; far++) {
        for (int i = 0; i < d->n_part; i++) {
            struct drafter_part *part = &d->part[i];
            if (!part->slot->seq || part->n_rows || is_far(d, part) != (far == 1)) continue;
            plan_rows(d, part, room);
            room -= part->n_rows;
        }
    }
}

// Evaluates them. Sequences that have caught up become active: they have a row of logits.
static void run_known(struct drafter_model *d) {
    begin(d);
    for (int i = 0; i < d->n_part; i++) {
        struct drafter_part *part = &d->part[i];
        struct draft_job *job = part->text.job;
        const bool is_out =
            part->n_rows > 0 && job->n > 0 && part->n_rows == drafter_slot_behind(d, part->slot);
        if (is_out)
            d->active[d->n_active++] = part;
        else
            job->n = 0;
        if (part->n_rows > 0) add(d, part, part->slot->n_done, part->n_rows, is_out);
    }
    if (d->builder.batch.n_tokens == 0 && d->builder.batch.n_pages == 0) return;
    if (!batch_run(d)) return;
    for (int i = 0; i < d->n_part; i++) {
        struct drafter_part *part = &d->part[i];
        if (part->n_rows == 0) continue;
        part->slot->n_done += part->n_rows;
        kv_commit(d->kv, &part->slot->table, part->text.job->seq->token, part->slot->n_done);
    }
}

// ---------------------------------------------------------------- drafted tokens

// Pages for the rest of a draft, or for as much of it as there are.
static void plan_tries(struct drafter_model *d, struct drafter_part *part) {
    struct drafter_slot *slot = part->slot;
    const int wanted = part->text.job->n - 1;
    kv_mark(d->kv, &slot->table, slot->n_done);
    slot->n_tried = 0;
    int n = wanted;
    if (!drafter_slot_room(d, slot, wanted)) n = kv_room(d->kv, &slot->table, slot->n_done, wanted);
    if (n > 0 && kv_grow(d->kv, &slot->table, slot->n_done, n)) {
        part->text.job->n = n + 1;
        return;
    }
    kv_settle(d->kv, &slot->table, slot->n_done, slot->n_done);
    part->text.ends = true;
}

static void take_all(struct drafter_model *d, int place) {
    const int32_t *token = d->result.token;
    int n = 0;
    for (int i = 0; i < d->n_active; i++) {
        struct drafter_part *part = d->active[i];
        assert(token[i] < d->n_target);
        drafting_take(&part->text, d->scratch, d->target_tokenizer, token[i]);
        if (d->is_block) part->hidden = d->result.hidden[i];
        if (!part->text.ends && place == 0) plan_tries(d, part);
        if (!part->text.ends) d->active[n++] = part;
    }
    d->n_active = n;
}

static void run_drafted(struct drafter_model *d) {
    begin(d);
    for (int i = 0; i < d->n_active; i++) {
        struct drafter_part *part = d->active[i];
        add(d, part, part->slot->n_done + part->slot->n_tried++, 1, true);
    }
    batch_run(d);
}

// ---------------------------------------------------------------- the round

void drafter_model_draft(struct drafter *drafter, struct draft_job *jobs, int n_jobs) {
    struct drafter_model *d = (struct drafter_model *)drafter;
    uint64_t begin_ns = d->now(d->now_ctx);
    plan_round(d, jobs, n_jobs);
    run_known(d);
    for (int place = 0; d->n_active > 0; place++) {
        if (place > 0) run_drafted(d);
        if (d->n_active == 0) break; // it failed
        const struct batch_shape shape = drafting_shape(d->builder.batch.n_tokens, d->n_active);
        take_all(d, place);
        const uint64_t now_ns = d->now(d->now_ctx);
        price_learn(&d->price, &shape, now_ns - begin_ns);
        begin_ns = now_ns;
    }
    for (int i = 0; i < d->n_part; i++) drafting_finish(&d->part[i].text);
}
