// See choice.h. Edits are counted from the history each time: one pass over the window of each
// penalty, and the Z algorithm for DRY. Rows of biases come first. Rows of other ids follow in the
// order in which the passes meet them.
//
// Invariants: rows of one id are adjacent, and the last of them takes the history's edits; a
// scratch's rows are all zero when a description is made.
#include "engine/choice/choice.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
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

static bool needs_history(const struct choices *choices) {
    return choices->repeats || choices->counts_output || choices->counts_dry;
}

// Whether each description has edits of its own.
static bool has_slots(const struct choices *choices) {
    return needs_history(choices) || choices->has_bans;
}

static bool is_restricted(const struct choices *choices) {
    return choices->constraint.mask || choices->shape;
}

// Then the constraint's mask has a slot of its own, behind the others.
static bool has_both(const struct choices *choices) {
    return choices->constraint.mask && choices->shape;
}

static bool has_reasoning(const struct choices *choices) {
    return choices->rules && choices->rules->has_reasoning;
}

static bool has_masks(const struct choices *choices) {
    return is_restricted(choices) || has_reasoning(choices);
}

static void fill_biases(const rn_sampling *sampling, struct choice_edit *out) {
    for (size_t i = 0; i < sampling->n_logit_bias; i++)
        out[i] = (struct choice_edit){.id = sampling->logit_bias[i].token,
                                      .bias = sampling->logit_bias[i].bias,
                                      .dry = -1};
}

static rn_status allocate(struct choices *choices, int limit, rn_error *err) {
    const bool slots = has_slots(choices);
    const int distinct = limit < choices->n_vocab ? limit : choices->n_vocab;
    choices->max_edits = choices->n_bias + (size_t)(needs_history(choices) ? distinct : 0);
    if (choices->has_bans)
        choices->max_edits += (size_t)choices->rules->n_end + (size_t)choices->rules->n_bad;
    uint64_t n_edits = 0, n_words = 0, bytes;
    const bool fits =
        ck_mul(choices->max_edits, slots ? (uint64_t)choices->n_slots : 1, &n_edits) &&
        ck_mul(n_edits, sizeof *choices->edit, &bytes) &&
        ck_mul(has_masks(choices) ? token_set_words(choices->n_vocab) : 0,
               (uint64_t)choices->n_slots + has_both(choices), &n_words) &&
        ck_mul(n_words, sizeof *choices->allowed, &bytes);
    if (fits && n_edits) choices->edit = malloc((size_t)n_edits * sizeof *choices->edit);
    if (fits && n_words) choices->allowed = malloc((size_t)n_words * sizeof *choices->allowed);
    if (fits && (choices->edit || !n_edits) && (choices->allowed || !n_words)) return RN_OK;
    choices_deinit(choices);
    return err_set(err, RN_ERR_NOMEM, "no memory for the edits of %d choices", choices->n_slots);
}

rn_status choices_init(struct choices *choices, int n_vocab, int limit, int n_slots,
                       rn_error *err) {
    const rn_sampling *s = &choices->sampling;
    choices->numbers = (struct choice_numbers){
#define SAMPLING_NUMBER(kind, id, field, ...) .field = s->field,
#include "plan/sampling.def"
    };
    choices->n_vocab = n_vocab;
    choices->n_slots = n_slots;
    choices->repeats =
        s->repetition_penalty != 1 && s->repetition_penalty != 0 && s->repeat_last_n != 0;
    choices->counts_output = s->presence_penalty != 0 || s->frequency_penalty != 0;
    choices->counts_dry = s->dry_multiplier != 0 && s->dry_penalty_last_n != 0;
    choices->has_bans = choices->rules && (choices->rules->n_end || choices->rules->n_bad);
    if (has_reasoning(choices)) choices->reasoning = reasoning_begin(&choices->rules->reasoning);
    choices->n_followed = choices->n_shaped = choices->n_prompt;
    choices->n_bias = s->n_logit_bias;
    choices->edit = NULL;
    choices->allowed = NULL;
    const rn_status status = allocate(choices, limit, err);
    if (!status && !has_slots(choices)) fill_biases(s, choices->edit);
    return status;
}

void choices_deinit(struct choices *choices) {
    free(choices->edit);
    free(choices->allowed);
    choices->edit = NULL;
    choices->allowed = NULL;
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
static int suffix_limit(const struct choices *choices, int n_token, int window) {
    const int32_t *last = choices->token + n_token - 1;
    const int most = window < CHOICE_DRY_MATCH ? window : CHOICE_DRY_MATCH;
    int n = 0;
    while (n < most && !breaks(&choices->breakers, last[-n])) n++;
    return n;
}

// For each token that once followed the tokens that the sequence now ends with, the longest such
// repetition gives the exponent.
//
// The Z algorithm over the tokens backwards: from j tokens before the end, len tokens are the same
// as from the end. Positions from left to right are known to equal the beginning, so lengths that
// were found there serve again. Each token is compared once as the new right end, or fails once.
// Only the first `limit` lengths are ever looked up.
static void find_repetitions(struct choice_scratch *scratch, const struct choices *choices,
                             int n_token, struct edits *edits) {
    const int allowed = choices->numbers.dry_allowed_length;
    const int window = window_size(choices->numbers.dry_penalty_last_n, n_token);
    const int limit = suffix_limit(choices, n_token, window);
    scratch->compares = 0;
    if (limit == 0 || limit < allowed) return;
    const int32_t *last = choices->token + n_token - 1;
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
        if (len == 0 || len < allowed || breaks(&choices->breakers, next)) continue;
        struct choice_edit *edit = edit_of(edits, next);
        if (len - allowed > edit->dry) edit->dry = (int16_t)(len - allowed);
    }
}

// ---------------------------------------------------------------- rules

// A ban takes the place of the bias: a logit that is not finite is left alone by other edits.
static void add_bans(const struct choices *choices, int n_token, struct edits *edits) {
    const struct rules *rules = choices->rules;
    const int n_output = n_token - choices->n_prompt;
    for (int i = 0; n_output < rules->min_tokens && i < rules->n_end; i++)
        edit_of(edits, rules->end[i])->bias = CHOICE_BAN;
    for (int i = 0; i < rules->n_bad; i++) {
        const int32_t id = rules_banned(rules, i, choices->token + choices->n_prompt, n_output);
        if (id >= 0) edit_of(edits, id)->bias = CHOICE_BAN;
    }
}

// Where the text before n_token stands with its reasoning; there is one.
static struct reasoning_state reasoning_at(const struct choices *choices, int n_token) {
    struct reasoning_state state = choices->reasoning;
    assert(n_token >= choices->n_followed);
    for (int i = choices->n_followed; i < n_token; i++)
        reasoning_advance(&choices->rules->reasoning, &state, choices->token[i]);
    return state;
}

// The same for a shape, which does not read it without a reasoning.
static struct reasoning_state state_at(const struct choices *choices, int n_token) {
    return has_reasoning(choices) ? reasoning_at(choices, n_token) : (struct reasoning_state){0};
}

// The one token that the bound on the reasoning leaves; -1: any.
static int32_t forced_token(const struct choices *choices, int n_token) {
    if (!has_reasoning(choices)) return -1;
    const struct reasoning_state state = reasoning_at(choices, n_token);
    return reasoning_forced(&choices->rules->reasoning, &state);
}

static void reasoning_follow(struct choices *choices, int n_token) {
    if (!has_reasoning(choices)) return;
    choices->reasoning = reasoning_at(choices, n_token);
    choices->n_followed = n_token;
}

void choice_follow(struct choices *choices, int n_token) {
    if (!choices->shape) reasoning_follow(choices, n_token); // a shape reads it on its way
}

// ---------------------------------------------------------------- the description

static int count_edits(struct choice_scratch *scratch, const struct choices *choices, int n_token,
                       struct choice_edit *out) {
    struct edits edits = {out, (int)choices->n_bias, scratch->row};
    fill_biases(&choices->sampling, out);
    for (int i = 0; i < edits.n; i++) edits.row[out[i].id] = i + 1; // the last of an id
    if (choices->repeats) {
        const int window = window_size(choices->numbers.repeat_last_n, n_token);
        mark_repeats(&edits, choices->token + n_token - window, window);
    }
    if (choices->counts_output)
        for (int i = choices->n_prompt; i < n_token; i++)
            edit_of(&edits, choices->token[i])->n_output++;
    if (choices->counts_dry) find_repetitions(scratch, choices, n_token, &edits);
    if (choices->has_bans) add_bans(choices, n_token, &edits);
    for (int i = 0; i < edits.n; i++) edits.row[out[i].id] = 0;
    assert((size_t)edits.n <= choices->max_edits);
    return edits.n;
}

static uint64_t *slot_of(const struct choices *choices, int slot) {
    return choices->allowed + (size_t)slot * token_set_words(choices->n_vocab);
}

// Of the constraint alone; all tokens without one.
static void mask_constraint(const struct choices *choices, uint64_t *allowed) {
    const rn_constraint *constraint = &choices->constraint;
    memset(allowed, 0xff, token_set_words(choices->n_vocab) * sizeof *allowed);
    if (constraint->mask)
        constraint->mask(constraint->ctx, choices->index, allowed, choices->n_vocab);
}

// ---------------------------------------------------------------- units of a step

static uint64_t units_left(const struct choice_scratch *scratch) {
    if (!scratch || !scratch->units) return UINT64_MAX;
    const int64_t left = atomic_load_explicit(&scratch->units->left, memory_order_relaxed);
    return left < 0 ? 0 : (uint64_t)(left < scratch->units->most ? left : scratch->units->most);
}

static void spend(struct choice_scratch *scratch, uint64_t units) {
    if (!scratch || !scratch->units || !units) return;
    atomic_fetch_sub_explicit(&scratch->units->left, (int64_t)units, memory_order_relaxed);
}

// Whether the shape, if there is one, has the mask at n_token at hand.
static bool is_ready(struct choice_scratch *scratch, const struct choices *choices, int n_token) {
    if (!choices->shape) return true;
    const struct reasoning_state state = state_at(choices, n_token);
    uint64_t spent = 0;
    const bool is_made = shape_prepare(choices->shape, choices->index, &state,
                                       choices->n_costly ? 0 : units_left(scratch), &spent);
    spend(scratch, spent);
    return is_made;
}

// Moves the shape; false: the units of the step are spent.
static bool follow(struct choice_scratch *scratch, const struct choices *choices, int n_token,
                   int32_t token) {
    if (!units_left(scratch)) return false;
    const struct reasoning_state state = state_at(choices, n_token);
    const uint64_t before = shape_spent(choices->shape, choices->index);
    shape_advance(choices->shape, choices->index, &state, token);
    spend(scratch, shape_spent(choices->shape, choices->index) - before);
    return true;
}

static bool catch_up(struct choice_scratch *scratch, struct choices *choices, int n_token) {
    while (choices->shape && choices->n_shaped < n_token) {
        if (!follow(scratch, choices, choices->n_shaped, choices->token[choices->n_shaped]))
            return false;
        reasoning_follow(choices, ++choices->n_shaped);
    }
    return true;
}

bool choice_prepare(struct choice_scratch *scratch, struct choices *choices, int n_token,
                    bool *is_there) {
    *is_there = catch_up(scratch, choices, n_token);
    return *is_there && is_ready(scratch, choices, n_token);
}

// The tokens that may come next, where they are restricted.
static const uint64_t *mask_of(const struct choices *choices, int n_token, int slot) {
    uint64_t *allowed = slot_of(choices, slot);
    const size_t n_words = token_set_words(choices->n_vocab);
    if (!choices->shape) {
        mask_constraint(choices, allowed);
        return allowed;
    }
    const struct reasoning_state state = state_at(choices, n_token);
    memset(allowed, 0xff, n_words * sizeof *allowed);
    shape_mask(choices->shape, choices->index, &state, allowed, choices->n_vocab);
    if (has_both(choices)) {
        uint64_t *other = slot_of(choices, choices->n_slots);
        mask_constraint(choices, other);
        for (size_t i = 0; i < n_words; i++) allowed[i] &= other[i];
    }
    return allowed;
}

// The forced token alone, where the constraint allows it; a shape starts later. Biases and bans do
// not apply: no edit takes away the only candidate.
static void force(const struct choices *choices, int slot, int32_t token, struct choice *out) {
    uint64_t *allowed = slot_of(choices, slot);
    mask_constraint(choices, allowed);
    const bool fits = token_set_has(allowed, token);
    memset(allowed, 0, token_set_words(choices->n_vocab) * sizeof *allowed);
    if (fits) allowed[token / 64] = UINT64_C(1) << (token % 64);
    out->allowed = allowed;
    out->n_edit = 0;
}

static int count_allowed(const uint64_t *allowed, int n_vocab) {
    int n = 0;
    for (int i = 0; i < n_vocab / 64; i++) n += __builtin_popcountll(allowed[i]);
    for (int id = n_vocab / 64 * 64; id < n_vocab; id++) n += token_set_has(allowed, id);
    return n;
}

// Bans yield to a shape that leaves nothing else: its text has to go on. Rows of one id are
// adjacent.
static void lift_bans(const struct choices *choices, struct choice *out) {
    int n_banned = 0;
    int32_t last = -1;
    for (int i = 0; i < out->n_edit; i++) {
        const struct choice_edit *edit = &out->edit[i];
        if (!(edit->bias <= CHOICE_BAN) || edit->id == last) continue;
        last = edit->id;
        n_banned += token_set_has(out->allowed, last);
    }
    if (n_banned > 0 && n_banned == count_allowed(out->allowed, choices->n_vocab)) out->n_edit = 0;
}

bool choice_needs_history(const struct choices *choices) {
    return is_restricted(choices) || needs_history(choices) || rules_look_back(choices->rules);
}

bool choice_describe(struct choice_scratch *scratch, const struct choices *choices, int n_token,
                     int slot, struct choice *out) {
    assert(slot >= 0 && slot < choices->n_slots);
    *out = (struct choice){
        .numbers = &choices->numbers,
        .edit = choices->edit,
        .n_edit = (int)choices->n_bias,
        .n_vocab = choices->n_vocab,
        .key = noise_key(choices->sampling.seed, (uint32_t)choices->index, (uint32_t)n_token),
    };
    const int32_t forced = forced_token(choices, n_token);
    if (forced >= 0) {
        force(choices, slot, forced, out);
        return true;
    }
    if (!is_ready(scratch, choices, n_token)) {
        *out = (struct choice){0};
        return false;
    }
    if (has_slots(choices)) {
        struct choice_edit *edit = choices->edit + (size_t)slot * choices->max_edits;
        out->edit = edit;
        out->n_edit = count_edits(scratch, choices, n_token, edit);
    }
    if (is_restricted(choices)) out->allowed = mask_of(choices, n_token, slot);
    if (choices->shape) lift_bans(choices, out);
    return true;
}

void choice_take(const struct choices *choices, int32_t token) {
    const rn_constraint *constraint = &choices->constraint;
    if (constraint->mask) constraint->advance(constraint->ctx, choices->index, token);
}

bool choice_advance(struct choice_scratch *scratch, const struct choices *choices, int n_token,
                    int32_t token) {
    if (choices->shape && !follow(scratch, choices, n_token, token)) return false;
    choice_take(choices, token);
    return true;
}

void choice_rollback(const struct choices *choices, int n) {
    const rn_constraint *constraint = &choices->constraint;
    if (choices->shape && n > 0) shape_rollback(choices->shape, choices->index, n);
    if (constraint->mask && n > 0) constraint->rollback(constraint->ctx, choices->index, n);
}

int choice_allowed(struct choice_scratch *scratch, const struct choices *choices, int n_token,
                   int n) {
    if (!is_restricted(choices)) return n;
    const int32_t *token = choices->token + n_token;
    int allowed = 0, advanced = 0;
    while (allowed < n) {
        assert(token[allowed] >= 0 && token[allowed] < choices->n_vocab);
        if (!is_ready(scratch, choices, n_token + allowed)) break;
        if (!token_set_has(mask_of(choices, n_token + allowed, 0), token[allowed])) break;
        if (++allowed == n) break; // nothing is asked behind the last one
        if (!choice_advance(scratch, choices, n_token + allowed - 1, token[allowed - 1])) break;
        advanced++;
    }
    choice_rollback(choices, advanced);
    return allowed;
}

size_t choice_forced(struct choice_scratch *scratch, const struct choices *choices, int n_token,
                     char *out, size_t size) {
    if (!choices->shape) return 0;
    const struct reasoning_state state = state_at(choices, n_token);
    const uint64_t before = shape_spent(choices->shape, choices->index);
    const size_t n =
        shape_forced(choices->shape, choices->index, &state, out, size, units_left(scratch));
    spend(scratch, shape_spent(choices->shape, choices->index) - before);
    return n;
}

// ---------------------------------------------------------------- no token left

bool choice_is_complete(struct choices *choices, int n_token) {
    if (!choices->shape) return false;
    catch_up(NULL, choices, n_token);
    const struct reasoning_state state = state_at(choices, n_token);
    // the mask comes first: a shape may fail with it
    return count_allowed(mask_of(choices, n_token, 0), choices->n_vocab) == 0 &&
           shape_is_complete(choices->shape, choices->index, &state);
}

const char *choice_failure(struct choices *choices, int n_token, rn_status *status) {
    *status = RN_ERR_NUMERIC;
    if (!choices->shape) return NULL;
    catch_up(NULL, choices, n_token);
    const bool is_empty = count_allowed(mask_of(choices, n_token, 0), choices->n_vocab) == 0;
    return is_empty ? shape_failure(choices->shape, choices->index, status) : NULL;
}
