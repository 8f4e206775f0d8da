// The sequences that run in this step, and their numbers of tokens. Running streams get their next
// token first, the senior ones before the junior; a stream that finds no page takes the pages of
// the most junior, or makes way itself. The rest of the step goes to prompts, as many tokens as the
// batch holds. With a bound on the gap while streams run, it is as many as the step is expected to
// have time for. A prompt takes pages from others only when no sequence could make progress.
#include <assert.h>
#include <string.h>

#include "engine/step/promise.h"

struct share {
    int tokens_left, logits_left;
    int again_left;    // of tokens_left, beside one token for each running sequence
    int n_prompts;     // that got tokens
    uint64_t bound_ns; // of the step; UINT64_MAX: none
    bool starved;      // a prompt found no page:
    uint64_t starved_request;
};

static int min_int(int a, int b) { return a < b ? a : b; }

// Rows whose result is wanted: all rows if the request wants all, or from some position on.
// Otherwise it is the row of the last known token, for the choice of the next one or for the
// embedding. A step in flight may still have to score the prompt's last rows.
static int out_rows(const struct seq *seq, int n_tokens) {
    const int first = seq_next(seq), end = first + n_tokens, wanted = engine_wanted_from(seq);
    const bool is_past = !seq->on_logits && seq_is_unscored(seq) && first >= seq->n_prompt - 1;
    if (wanted < end && !is_past) return end - (wanted > first ? wanted : first);
    if (seq_next(seq) + n_tokens < seq_known(seq)) return 0;
    return seq_known(seq) < seq->limit || seq->pooling != RN_POOLING_NONE ? 1 : 0;
}

// The sequence's pages have grown already.
static void work_add(struct engine *engine, struct share *share, struct seq *seq, int n_tokens) {
    const bool ends = seq_next(seq) + n_tokens == seq_known(seq);
    struct flight *step = engine->step;
    struct seq_work *work = &step->work[step->n_work++];
    *work = (struct seq_work){.seq = seq,
                              .n_tokens = n_tokens,
                              .n_again = seq->n_again,
                              .n_out = out_rows(seq, n_tokens),
                              .samples = ends && seq_known(seq) < seq->limit && !seq->pooling};
    seq_work_shape(engine->plan, work, seq_next(seq), &step->shape);
    if (!seq->pooling) share->logits_left -= work->n_out;
    share->tokens_left -= n_tokens;
    assert(share->tokens_left >= 0 && share->logits_left >= 0);
}

// ---------------------------------------------------------------- streams

// Pages for the known tokens of running[*index], a stream; false: it had to make way itself, or the
// steps in flight must land before anyone does. *index follows the sequence when a senior one makes
// way, and stands before it when it made way itself.
static bool stream_grow(struct engine *engine, int *index) {
    struct seq *seq = engine->running[*index];
    while (!kv_grow(engine->kv, &seq->table, seq_next(seq), 1 + seq->n_again)) {
        engine->land_first = engine->n_flight > 0;
        if (engine->land_first) return false;
        const int victim = engine_victim(engine, *index + 1);
        if (victim < 0) {
            assert(engine->n_running > 1); // a lone sequence fits
            engine_preempt(engine, (*index)--, engine->running[0]->id);
            return false;
        }
        engine_preempt(engine, victim, seq->id);
        if (victim < *index) (*index)--;
    }
    return true;
}

// Whether the sequence waits for its mask: then its last known token gets no row.
static bool lacks_mask(struct engine *engine, struct seq *seq) {
    const bool lacks = seq_known(seq) < seq->limit && !engine_has_mask(seq);
    if (lacks != seq->lacks_mask) {
        engine_charge_until(engine, seq, engine->event_ns, &seq->account);
        seq->lacks_mask = lacks;
    }
    return lacks;
}

static void give_streams(struct engine *engine, struct share *share) {
    for (int i = 0; i < engine->n_running; i++) {
        struct seq *seq = engine->running[i];
        if (seq->is_paused || !seq_is_stream(seq) || lacks_mask(engine, seq)) continue;
        if (seq->n_again > share->again_left) { // as a prompt, in chunks
            seq->n_again = 0;
            continue;
        }
        share->again_left -= seq->n_again;
        if (stream_grow(engine, &i)) work_add(engine, share, seq, 1 + seq->n_again);
    }
    if (engine->step->n_work > 0) share->bound_ns = engine_step_bound(engine);
}

// ---------------------------------------------------------------- prompts

static bool is_prompt(const struct seq *seq) {
    return !seq->is_paused && seq_next(seq) < seq_known(seq) && !seq_is_stream(seq);
}

// Takes the blocks of the prompt that other sequences have computed since.
static void prompt_hit(struct engine *engine, struct seq *seq) {
    if (engine_wants_rows(seq) || seq->table.n_flight > 0) return;
    if (seq->n_done != (int)seq->table.n_node * KV_PAGE_TOKENS) return;
    const int n = kv_hit(engine->kv, &seq->table, seq->token, seq->n_token, seq->salt, seq->n_salt);
    if (n <= seq->n_done) return;
    if (seq->timings.preemptions == 0) {
        seq->timings.cached_tokens += n - seq->n_done;
        engine->stats.cached_tokens += (uint64_t)(n - seq->n_done);
    }
    seq->n_done = n;
    engine_changed(engine, CHANGE_PROMPT);
}

// Whether `other`, which has work in this step, is computing the block that seq would begin.
static bool computes_block(const struct seq *other, const struct seq *seq) {
    const uint32_t n = seq->table.n_node;
    const int first = (int)n * KV_PAGE_TOKENS, end = first + KV_PAGE_TOKENS;
    if (other->table.n_node != n || other->n_done / KV_PAGE_TOKENS != (int)n) return false;
    if (n > 0 && other->table.node != seq->table.node) return false;
    if (n == 0 && (other->n_salt != seq->n_salt || memcmp(other->salt, seq->salt, seq->n_salt)))
        return false;
    return other->n_token >= end && memcmp(other->token + first, seq->token + first,
                                           KV_PAGE_TOKENS * sizeof *seq->token) == 0;
}

// Whether `other`, which has work in this step, is on its way to a state that seq can continue
// from.
static bool computes_state(const struct engine *engine, const struct seq *other,
                           const struct seq *seq) {
    const int end = kv_next_state(engine->kv, &seq->table, &other->table), first = seq->n_done;
    if (end == 0 || end > other->n_token || end >= seq->n_token) return false;
    return memcmp(other->token + first, seq->token + first,
                  (size_t)(end - first) * sizeof *seq->token) == 0;
}

static bool will_serve(const struct engine *engine, const struct seq *other,
                       const struct seq *seq) {
    if (other == seq) return false;
    for (int g = 0; g < engine->kv_config.n_group; g++)
        if (engine->kv_config.group[g].kind == KV_RECURRENT)
            return computes_state(engine, other, seq);
    return computes_block(other, seq);
}

// A prompt that another one's work of this step, of one in flight, or of the page store will serve
// waits for it.
static bool prompt_waits(const struct engine *engine, const struct seq *seq) {
    if (engine->kv_config.no_prefix || engine_wants_rows(seq) || seq->table.n_flight > 0)
        return false;
    const int end = seq->n_done + KV_PAGE_TOKENS;
    if (seq->n_done != (int)seq->table.n_node * KV_PAGE_TOKENS || seq->n_token <= end) return false;
    for (int i = 0; i < engine->step->n_work; i++)
        if (will_serve(engine, engine->step->work[i].seq, seq)) return true;
    for (int i = 0; engine->n_flight > 0 && i < engine->n_running; i++)
        if (engine->running[i]->table.n_flight > 0 && will_serve(engine, engine->running[i], seq))
            return true;
    for (int i = 0; engine->n_fetching > 0 && i < engine->n_running; i++)
        if (engine->running[i]->fetch && will_serve(engine, engine->running[i], seq)) return true;
    return false;
}

// Tokens that the bound on the gap leaves; only the first prompt gets some in any case.
static int bounded_tokens(const struct engine *engine, const struct share *share,
                          const struct seq *seq, int wanted) {
    const int n = price_chunk(&engine->price, engine->plan, &engine->step->shape, seq_next(seq),
                              wanted, share->bound_ns);
    if (share->n_prompts == 0 || n > PRICE_MIN_CHUNK) return n;
    struct batch_shape shape = engine->step->shape;
    batch_shape_add(engine->plan, &shape, seq_next(seq), n, 0);
    return price_of(&engine->price, &shape) <= share->bound_ns ? n : 0;
}

static void give_prompt(struct engine *engine, struct share *share, struct seq *seq) {
    seq->is_starved = false;
    if (seq->fetch) return;
    prompt_hit(engine, seq);
    if (prompt_waits(engine, seq) || engine_fetch_begin(engine, seq)) return;
    const int left = seq_known(seq) - seq_next(seq);
    int n = min_int(left, share->tokens_left);
    if (engine_wants_rows(seq) && !seq->pooling) n = min_int(n, share->logits_left);
    if (!seq->pooling && share->logits_left == 0) n = min_int(n, left - 1);
    if (!engine_has_mask(seq)) n = min_int(n, left - 1);
    if (share->bound_ns != UINT64_MAX && n > 0) n = bounded_tokens(engine, share, seq, n);
    if (n == 0) return;
    n = kv_room(engine->kv, &seq->table, seq_next(seq), n);
    if (n == 0 || !kv_grow(engine->kv, &seq->table, seq_next(seq), n)) {
        share->starved = seq->is_starved = true;
        share->starved_request = seq->id;
        return;
    }
    users_chosen(&engine->users, seq->user_at);
    work_add(engine, share, seq, n);
    share->n_prompts++;
    const uint64_t bound_ns = engine_prompt_bound(engine, seq);
    if (bound_ns < share->bound_ns) share->bound_ns = bound_ns;
}

// A prompt that is paused, or has no turn in this step, keeps nobody waiting: its pages arrive,
// others may use them, and another prompt gets its fetch.
static void land_fetches(struct engine *engine) {
    for (int i = 0; engine->n_fetching > 0 && i < engine->n_running; i++)
        if (engine->running[i]->fetch) engine_fetch_lands(engine, engine->running[i]);
}

static void give_prompts(struct engine *engine, struct share *share) {
    int n = 0;
    land_fetches(engine);
    for (int i = 0; i < engine->n_running; i++)
        if (is_prompt(engine->running[i])) engine->prompts[n++] = engine->running[i];
    engine_turns_init(engine, engine->prompts, n);
    for (; n > 0 && share->tokens_left > 0; n--) {
        engine_turns_pop(engine, engine->prompts, n);
        give_prompt(engine, share, engine->prompts[n - 1]);
    }
}

// ---------------------------------------------------------------- the step

static void share_out(struct engine *engine, struct share *share) {
    *share = (struct share){.tokens_left = engine->batch_tokens,
                            .bound_ns = UINT64_MAX,
                            .logits_left = engine->logit_rows,
                            .again_left = engine->batch_tokens - engine->n_running};
    const int at = (engine->first_flight + engine->n_flight) % engine->depth;
    engine->step = &engine->flight[at];
    engine->step->n_work = 0;
    engine->step->shape = (struct batch_shape){0};
    give_streams(engine, share);
    give_prompts(engine, share);
}

bool engine_schedule(struct engine *engine) {
    struct share share;
    share_out(engine, &share);
    while (engine->step->n_work == 0 && share.starved && engine->n_flight == 0) {
        const int victim = engine_victim(engine, 1);
        assert(victim >= 0); // a lone sequence fits
        engine_preempt(engine, victim, share.starved_request);
        share_out(engine, &share);
    }
    return engine->step->n_work > 0;
}
