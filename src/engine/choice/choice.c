// See choice.h. Edits are counted from the history each time: one pass over the window of each
// penalty, and the Z algorithm for DRY. Rows of biases come first, those of other ids in the order
// in which the passes meet them.
//
// Invariants: rows of one id are adjacent, and the last of them takes what the history adds; a
// scratch's rows are all zero when a description is made.
#include "engine/choice/choice.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "engine/request/seq.h"
#include "plan/noise.h"

// ---------------------------------------------------------------- memory

rn_status choice_scratch_init(struct choice_scratch *scratch, int n_vocab, rn_error *err) {
    scratch->row = calloc((size_t)n_vocab, sizeof *scratch->row);
    scratch->match = calloc(CHOICE_DRY_MATCH, sizeof *scratch->match);
    if (scratch->row && scratch->match) return RN_OK;
    choice_scratch_deinit(scratch);
    return err_set(err, RN_ERR_NOMEM, "no memory for choices among %d tokens", n_vocab);
}

void choice_scratch_deinit(struct choice_scratch *scratch) {
    free(scratch->row);
    free(scratch->match);
    *scratch = (struct choice_scratch){0};
}

rn_status choice_scratch_create(int n, int n_vocab, struct choice_scratch **out, rn_error *err) {
    struct choice_scratch *scratch = calloc((size_t)n, sizeof *scratch);
    rn_status status =
        scratch ? RN_OK : err_set(err, RN_ERR_NOMEM, "no memory for %d scratches", n);
    for (int i = 0; i < n && !status; i++) status = choice_scratch_init(&scratch[i], n_vocab, err);
    if (status) choice_scratch_destroy(scratch, n);
    *out = status ? NULL : scratch;
    return status;
}

void choice_scratch_destroy(struct choice_scratch *scratch, int n) {
    for (int i = 0; scratch && i < n; i++) choice_scratch_deinit(&scratch[i]);
    free(scratch);
}

static bool needs_history(const struct choice_room *room) {
    return room->repeats || room->counts_output || room->counts_dry;
}

static void fill_biases(const rn_sampling *sampling, struct choice_edit *out) {
    for (size_t i = 0; i < sampling->n_logit_bias; i++)
        out[i] = (struct choice_edit){.id = sampling->logit_bias[i].token,
                                      .bias = sampling->logit_bias[i].bias,
                                      .dry = -1};
}

static rn_status allocate(struct choice_room *room, int limit, bool has_mask, rn_error *err) {
    const bool history = needs_history(room);
    const int distinct = limit < room->n_vocab ? limit : room->n_vocab;
    room->max_edits = room->n_bias + (size_t)(history ? distinct : 0);
    uint64_t n_edits = 0, n_words = 0, bytes;
    const bool fits =
        ck_mul(room->max_edits, history ? (uint64_t)room->n_slots : 1, &n_edits) &&
        ck_mul(n_edits, sizeof *room->edit, &bytes) &&
        ck_mul(has_mask ? token_set_words(room->n_vocab) : 0, (uint64_t)room->n_slots, &n_words) &&
        ck_mul(n_words, sizeof *room->allowed, &bytes);
    if (fits && n_edits) room->edit = malloc((size_t)n_edits * sizeof *room->edit);
    if (fits && n_words) room->allowed = malloc((size_t)n_words * sizeof *room->allowed);
    if (fits && (room->edit || !n_edits) && (room->allowed || !n_words)) return RN_OK;
    choice_room_deinit(room);
    return err_set(err, RN_ERR_NOMEM, "no memory for the edits of %d choices", room->n_slots);
}

rn_status choice_room_init(struct choice_room *room, const rn_sampling *sampling, int n_vocab,
                           int limit, int n_slots, bool has_mask, rn_error *err) {
    *room = (struct choice_room){
        .numbers =
            {
#define SAMPLING_NUMBER(kind, id, field, ...) .field = sampling->field,
#include "plan/sampling.def"
            },
        .n_vocab = n_vocab,
        .n_slots = n_slots,
        .repeats = sampling->repetition_penalty != 1 && sampling->repetition_penalty != 0 &&
                   sampling->repeat_last_n != 0,
        .counts_output = sampling->presence_penalty != 0 || sampling->frequency_penalty != 0,
        .counts_dry = sampling->dry_multiplier != 0 && sampling->dry_penalty_last_n != 0,
        .n_bias = sampling->n_logit_bias};
    const rn_status status = allocate(room, limit, has_mask, err);
    if (!status && !needs_history(room)) fill_biases(sampling, room->edit);
    return status;
}

void choice_room_deinit(struct choice_room *room) {
    free(room->edit);
    free(room->allowed);
    room->edit = NULL;
    room->allowed = NULL;
}

// ---------------------------------------------------------------- rows

// The rows of one description in the making.
struct edits {
    struct choice_edit *edit;
    int n;
    int32_t *row; // the scratch's
};

static struct choice_edit *edit_add(struct edits *edits, int32_t id) {
    struct choice_edit *edit = &edits->edit[edits->n];
    *edit = (struct choice_edit){.id = id, .dry = -1};
    edits->row[id] = ++edits->n;
    return edit;
}

static struct choice_edit *edit_of(struct edits *edits, int32_t id) {
    const int32_t row = edits->row[id];
    return row ? &edits->edit[row - 1] : edit_add(edits, id);
}

// The first pass over the history: a token that was met is marked, so its row is not touched again.
static void mark_repeats(struct edits *edits, const int32_t *token, int n) {
    const int n_bias = edits->n;
    for (int i = 0; i < n; i++) {
        const int32_t row = edits->row[token[i]];
        if (row == 0)
            edit_add(edits, token[i])->repeats = true;
        else if (row <= n_bias)
            edits->edit[row - 1].repeats = true;
    }
}

// The last tokens that a window shows; -1: all of them.
static int window_size(int last_n, int n_token) {
    return last_n < 0 || last_n > n_token ? n_token : last_n;
}

// ---------------------------------------------------------------- DRY

static bool breaks(const struct token_set *breakers, int32_t id) {
    return breakers->bits && token_set_has(breakers->bits, id);
}

// The longest end of the tokens that a repetition may have: up to the last breaker.
static int suffix_limit(const struct seq *seq, int n_token, int window) {
    const int32_t *last = seq->token + n_token - 1;
    const int most = window < CHOICE_DRY_MATCH ? window : CHOICE_DRY_MATCH;
    int n = 0;
    while (n < most && !breaks(&seq->breakers, last[-n])) n++;
    return n;
}

// For each token that once followed the tokens that the sequence now ends with, the longest such
// repetition gives the exponent.
//
// The Z algorithm over the tokens backwards: from j tokens before the end, len tokens are the same
// as from the end. Positions from left to right are known to equal the beginning, so lengths that
// were found there serve again, and each token is compared once as the new right end, or fails
// once. Only the first `limit` lengths are ever looked up.
static void find_repetitions(struct choice_scratch *scratch, const struct seq *seq, int n_token,
                             struct edits *edits) {
    const int allowed = seq->choices.numbers.dry_allowed_length;
    const int window = window_size(seq->choices.numbers.dry_penalty_last_n, n_token);
    const int limit = suffix_limit(seq, n_token, window);
    scratch->compares = 0;
    if (limit == 0 || limit < allowed) return;
    const int32_t *last = seq->token + n_token - 1;
    int left = 0, right = 0;
    for (int j = 1; j < window; j++) {
        int len = 0;
        if (j < right) {
            const int found = scratch->match[j - left];
            len = found < right - j ? found : right - j;
        }
        if (j + len >= right) {
            const int known = len;
            while (len < limit && j + len < window && last[-(j + len)] == last[-len]) len++;
            scratch->compares += (uint64_t)(len - known + 1);
            left = j;
            right = j + len;
        }
        if (j < limit) scratch->match[j] = len;
        const int32_t next = last[-(j - 1)];
        if (len == 0 || len < allowed || breaks(&seq->breakers, next)) continue;
        struct choice_edit *edit = edit_of(edits, next);
        if (len - allowed > edit->dry) edit->dry = (int16_t)(len - allowed);
    }
}

// ---------------------------------------------------------------- the description

static int count_edits(struct choice_scratch *scratch, const struct seq *seq, int n_token,
                       struct choice_edit *out) {
    const struct choice_room *room = &seq->choices;
    struct edits edits = {out, (int)room->n_bias, scratch->row};
    fill_biases(&seq->sampling, out);
    for (int i = 0; i < edits.n; i++) edits.row[out[i].id] = i + 1; // the last of an id
    if (room->repeats) {
        const int window = window_size(room->numbers.repeat_last_n, n_token);
        mark_repeats(&edits, seq->token + n_token - window, window);
    }
    if (room->counts_output)
        for (int i = seq->n_prompt; i < n_token; i++) edit_of(&edits, seq->token[i])->n_output++;
    if (room->counts_dry) find_repetitions(scratch, seq, n_token, &edits);
    for (int i = 0; i < edits.n; i++) edits.row[out[i].id] = 0;
    assert((size_t)edits.n <= room->max_edits);
    return edits.n;
}

// The tokens that may come next.
static const uint64_t *mask_of(const struct seq *seq, int slot) {
    const struct choice_room *room = &seq->choices;
    const size_t n_words = token_set_words(room->n_vocab);
    uint64_t *allowed = room->allowed + (size_t)slot * n_words;
    memset(allowed, 0xff, n_words * sizeof *allowed);
    seq->constraint.mask(seq->constraint.ctx, seq->choice, allowed, room->n_vocab);
    return allowed;
}

bool choice_needs_history(const struct seq *seq) {
    return seq->constraint.mask || needs_history(&seq->choices);
}

void choice_describe(struct choice_scratch *scratch, const struct seq *seq, int n_token, int slot,
                     struct choice *out) {
    const struct choice_room *room = &seq->choices;
    assert(slot >= 0 && slot < room->n_slots);
    *out = (struct choice){
        .numbers = &room->numbers,
        .edit = room->edit,
        .n_edit = (int)room->n_bias,
        .n_vocab = room->n_vocab,
        .key = noise_key(seq->sampling.seed, (uint32_t)seq->choice, (uint32_t)n_token),
    };
    if (needs_history(room)) {
        struct choice_edit *edit = room->edit + (size_t)slot * room->max_edits;
        out->edit = edit;
        out->n_edit = count_edits(scratch, seq, n_token, edit);
    }
    if (seq->constraint.mask) out->allowed = mask_of(seq, slot);
}

int choice_allowed(const struct seq *seq, int n_token, int n) {
    const rn_constraint *constraint = &seq->constraint;
    if (!constraint->mask) return n;
    const int32_t *token = seq->token + n_token;
    int allowed = 0, advanced = 0;
    while (allowed < n) {
        assert(token[allowed] >= 0 && token[allowed] < seq->choices.n_vocab);
        if (!token_set_has(mask_of(seq, 0), token[allowed])) break;
        if (++allowed == n) break; // nothing is asked behind the last one
        constraint->advance(constraint->ctx, seq->choice, token[allowed - 1]);
        advanced++;
    }
    if (advanced) constraint->rollback(constraint->ctx, seq->choice, advanced);
    return allowed;
}
