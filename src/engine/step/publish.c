// The step's results: full blocks become findable, tokens become text, sequences end, pages go
// back, events are queued.
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "engine/step/promise.h"

rn_event *engine_new_event(struct engine *engine, const struct seq *seq) {
    assert(engine->n_event < engine_events_max(engine));
    rn_event *event = &engine->event[engine->n_event++];
    *event = (rn_event){.request = seq->id,
                        .data = seq->data,
                        .choice = seq->choices.index,
                        .token = -1,
                        .stop_token = -1,
                        .text = "",
                        .seed = seq->choices.sampling.seed,
                        .time_ns = engine->event_ns};
    return event;
}

// A time whose end never came stays 0. A prompt that ends without a token (prompt_only, or a
// pooling) was evaluated when it ended, unless the request was given up.
static void fill_timings(const struct engine *engine, struct seq *seq, bool given_up) {
    rn_timings *t = &seq->timings;
    const uint64_t now = engine->event_ns;
    const rn_account *a = &seq->account.sum;
    const uint64_t start = seq->was_admitted ? a->start_ns : now;
    const uint64_t prompt_end = a->first_ns ? a->first_ns : given_up ? start : now;
    t->output_tokens = seq->n_token - seq->n_prompt;
    t->queue_ms = (double)(start - a->submit_ns) * 1e-6;
    t->prompt_ms = (double)(prompt_end - start) * 1e-6;
    t->ttft_ms = a->first_ns ? (double)(a->first_ns - a->submit_ns) * 1e-6 : 0;
    t->decode_ms = a->first_ns ? (double)(a->last_ns - a->first_ns) * 1e-6 : 0;
}

static void count_end(rn_engine_stats *stats, rn_finish finish) {
    if (finish == RN_FINISH_STOP) stats->stopped++;
    if (finish == RN_FINISH_LENGTH) stats->lengthy++;
    if (finish == RN_FINISH_CANCELLED || finish == RN_FINISH_CACHE) stats->cancelled++;
    if (finish == RN_FINISH_ERROR) stats->failed++;
}

void engine_free_table(struct engine *engine, struct seq *seq) {
    struct kv_table *table = &seq->table;
    if (engine_fetch_leave(engine, seq)) return;
    // positions that are only tried are unknown yet, and none stays
    if (table->marked) kv_settle(engine->kv, table, seq->n_done, seq->n_done + 1);
    if (seq->leaves_state && seq->n_steps == 0 && seq->n_done <= seq->n_token)
        kv_retire(engine->kv, table, seq->token, seq->n_done);
    else
        kv_release(engine->kv, table);
}

void engine_finish(struct engine *engine, struct seq *seq, rn_event *event, rn_finish finish,
                   rn_status status) {
    struct output *output = &seq->output;
    const bool given_up =
        finish == RN_FINISH_CANCELLED || finish == RN_FINISH_ERROR || finish == RN_FINISH_CACHE;
    if (given_up) { // the bytes that were held back are text too
        const struct text_span held = output_feed(output, (struct text_span){"", 0}, false, true);
        event->text = held.data;
        event->text_len = held.len;
    }
    engine_charge_until(engine, seq, engine->event_ns, &seq->account);
    account_end(&seq->account);
    engine_leave_mask(engine, seq);
    draft_leave(engine->draft, seq, true);
    seq->leaves_state = finish != RN_FINISH_ERROR;
    if (seq->n_steps == 0) engine_free_table(engine, seq);
    users_leave(&engine->users, seq->user_at);
    engine_bound_leave(engine, seq, finish);
    if (seq->family->leader == seq) seq->family->leader = NULL;
    event->last = --seq->family->n_live == 0;
    seq->state = SEQ_DONE;
    struct seq **list = seq->n_steps == 0 ? &engine->done : &engine->leaving;
    seq->next = *list;
    *list = seq;
    fill_timings(engine, seq, given_up);
    count_end(&engine->stats, finish);
    event->finish = finish;
    event->status = status;
    event->stop = output->matched >= 0 ? output->stop[output->matched].data : NULL;
    event->timings = &seq->timings;
    event->account = &seq->account.sum;
}

static void count_draft(struct engine *engine, const struct seq_work *work) {
    rn_draft_stats *stats = &engine->stats.draft[work->drafter];
    stats->drafts++;
    stats->tokens += (uint64_t)work->n_draft;
    work->seq->timings.draft_steps++;
    work->seq->timings.draft_tokens += work->n_draft;
}

static void count_step(struct engine *engine, const struct flight *flight,
                       const struct seq_work *work) {
    struct seq *seq = work->seq;
    engine->stats.computed_tokens += (uint64_t)work->n_tokens;
    users_charge(&engine->users, seq->user_at,
                 work->n_tokens - work->n_draft - work->n_again + work->n_accepted);
    if (work->n_draft > 0) count_draft(engine, work);
    if (!seq->account.sum.first_ns) return; // steps up to the first token are the prompt's
    seq->timings.decode_steps++;
    const struct batch_seq rows = {.first_pos = work->first_pos,
                                   .n_tokens = work->n_tokens,
                                   .n_out = work->n_out};
    seq->timings.decode_bytes +=
        ledger_share(&engine->rates, engine->plan, &rows, flight->n_work, &engine->step_cost);
}

// The time of the text's lines is over, and a line ends.
static bool is_late_line(const struct engine *engine, const struct seq *seq,
                         struct text_span bytes) {
    return engine->event_ns - seq->account.sum.first_ns > seq->line_ns && bytes.len > 0 &&
           memchr(bytes.data, '\n', bytes.len);
}

// Text into the event; the sequence ends when a stop string matched, a line ended it, or nothing
// more will come.
static void publish_text(struct engine *engine, struct seq *seq, rn_event *event,
                         struct text_span bytes, rn_finish last) {
    const struct rules *rules = seq->choices.rules;
    const bool may_stop = !rules || seq->n_token - seq->n_prompt >= rules->min_tokens;
    if (last == RN_FINISH_NONE && is_late_line(engine, seq, bytes)) last = RN_FINISH_LENGTH;
    const struct text_span text =
        output_feed(&seq->output, bytes, may_stop, last != RN_FINISH_NONE);
    event->text = text.data;
    event->text_len = text.len;
    if (seq->output.matched >= 0) last = RN_FINISH_STOP;
    if (seq->output.is_outdented) last = RN_FINISH_LENGTH;
    if (last != RN_FINISH_NONE) engine_finish(engine, seq, event, last, RN_OK);
}

// The gap before n tokens as it would have been without drafts: the step would have taken less
// time, and the tokens after the first would have taken further steps. It is a share of the
// measured time, not a predicted time: a slow phase of the machine would have slowed all these
// steps.
static void count_stream(struct engine *engine, const struct flight *flight, struct seq *seq,
                         uint64_t gap_ns, int n_tokens) {
    const uint64_t step_ns = engine->event_ns - engine_step_begin(engine, flight);
    const uint64_t draft_ns = flight->draft_ns;
    const double rest_ns = draft_ns < step_ns ? (double)(step_ns - draft_ns) : 0;
    const double plain_ns = rest_ns * flight->plain_share;
    const uint64_t before_ns = step_ns < gap_ns ? gap_ns - step_ns : 0;
    const uint64_t undrafted_ns = before_ns + (uint64_t)(plain_ns * n_tokens);
    seq->timings.undrafted_ms += (double)undrafted_ns * 1e-6;
    engine->stats.stream_ns += gap_ns;
    engine->stats.undrafted_ns += undrafted_ns;
}

static void count_token(struct engine *engine, struct seq *seq, rn_event *event) {
    rn_engine_stats *stats = &engine->stats;
    const bool is_first = !seq->account.sum.first_ns;
    uint64_t ns;
    stats->output_tokens++;
    const rn_cause cause =
        account_token(&seq->account, is_first ? stats->first_ns : stats->cause_ns, &ns);
    if (is_first) return;
    event->cause = ns > 0 ? cause : RN_CAUSE_WEIGHTS; // one reading of them gave both tokens
    event->gap_ms = (double)ns * 1e-6;
    if (event->gap_ms > seq->timings.gap_ms_max) seq->timings.gap_ms_max = event->gap_ms;
}

// Counted as it becomes text: a stop string may have matched before it.
static void count_accepted(struct engine *engine, const struct seq_work *work, int place) {
    engine->stats.draft[work->drafter].accepted++;
    engine->stats.accepted_at[place]++;
    work->seq->timings.accepted_tokens++;
}

// The index-th chosen token joins the sequence, which may end with it.
static void publish_token(struct engine *engine, const struct seq_work *work, int index) {
    struct seq *seq = work->seq;
    const struct pick *pick = &engine->pick[work->first_pick + index];
    rn_event *event = engine_new_event(engine, seq);
    seq->token[seq->n_token++] = pick->token;
    choice_follow(&seq->choices, seq->n_token);
    count_token(engine, seq, event);
    event->token = pick->token;
    event->drafted = index < work->n_accepted;
    if (event->drafted) count_accepted(engine, work, index);
    if (pick->ends && rules_stops(seq->choices.rules, pick->token)) event->stop_token = pick->token;
    if (pick->n_logprobs > 0) {
        event->logprob = seq->logprob + (ptrdiff_t)index * (1 + seq->top_logprobs);
        event->n_logprobs = pick->n_logprobs;
    }
    publish_text(engine, seq, event, pick->bytes,
                 pick->ends                  ? RN_FINISH_STOP
                 : seq->n_token < seq->limit ? RN_FINISH_NONE
                                             : RN_FINISH_LENGTH);
}

// No token could be chosen. A text that has its shape ends so, where no token of the vocabulary
// ends a text.
static void publish_no_token(struct engine *engine, struct seq *seq) {
    rn_event *event = engine_new_event(engine, seq);
    if (choice_is_complete(&seq->choices, seq->n_token)) {
        publish_text(engine, seq, event, (struct text_span){"", 0}, RN_FINISH_STOP);
        return;
    }
    rn_status status;
    event->reason = choice_failure(&seq->choices, seq->n_token, &status);
    engine_finish(engine, seq, event, RN_FINISH_ERROR, status);
}

static void publish_tokens(struct engine *engine, const struct flight *flight,
                           const struct seq_work *work) {
    struct seq *seq = work->seq;
    const rn_account *account = &seq->account.sum;
    const bool is_first = !account->first_ns; // no gap is before that
    const uint64_t gap_ns = is_first ? 0 : engine->event_ns - account->last_ns;
    int n = 0;
    output_begin(&seq->output);
    for (; n < work->n_pick && seq->state == SEQ_RUNNING; n++) publish_token(engine, work, n);
    if (n > is_first) count_stream(engine, flight, seq, gap_ns, n - is_first);
    if (work->failed && seq->state == SEQ_RUNNING) publish_no_token(engine, seq);
}

// The whole prompt is scored. Other choices of the request begin later, so their events follow.
static void publish_scores(struct engine *engine, struct seq *seq) {
    rn_event *event = engine_new_event(engine, seq);
    seq->is_scored = true;
    event->prompt_logprob = seq->prompt_logprob;
    event->prompt_rank = seq->prompt_rank;
    event->n_prompt_logprobs = seq->n_prompt - 1;
}

// So much of the prompt is done, as of at_ns. A prompt that is evaluated again after a preemption
// gives no event until it is further than before.
static void publish_progress(struct engine *engine, struct seq *seq, int n_done, uint64_t at_ns) {
    const uint64_t start_ns = seq->account.sum.start_ns;
    if (n_done > seq->n_prompt) n_done = seq->n_prompt;
    if (n_done <= seq->n_told) return;
    rn_event *event = engine_new_event(engine, seq);
    seq->n_told = n_done;
    event->progress = true;
    event->prompt_done = n_done;
    event->prompt_cached = seq->timings.cached_tokens;
    event->prompt_ms = at_ns > start_ns ? (double)(at_ns - start_ns) * 1e-6 : 0;
}

// A state that went too far behind a draft makes n_done less than the tokens that were read: where
// a token is chosen the prompt is done.
static void publish_prompt_steps(struct engine *engine, const struct flight *flight,
                                 const struct seq_work *work) {
    struct seq *seq = work->seq;
    const int n_done = work->samples ? seq->n_prompt : seq->n_done;
    if (seq->n_told < 0)
        publish_progress(engine, seq, seq->timings.cached_tokens,
                         engine_step_begin(engine, flight));
    publish_progress(engine, seq, n_done, engine->event_ns);
}

// The prompt alone was asked for, or its embedding.
static void publish_prompt(struct engine *engine, struct seq *seq) {
    rn_event *event = engine_new_event(engine, seq);
    engine_finish(engine, seq, event, seq->pooling ? RN_FINISH_STOP : RN_FINISH_LENGTH, RN_OK);
    event->embedding = seq->embedding;
}

static void fail_work(struct engine *engine, struct seq_work *work, rn_status status) {
    struct seq *seq = work->seq;
    output_begin(&seq->output);
    engine_finish(engine, seq, engine_new_event(engine, seq), RN_FINISH_ERROR, status);
}

static void publish_work(struct engine *engine, const struct flight *flight,
                         const struct charge *charge, struct seq_work *work) {
    struct seq *seq = work->seq;
    const rn_status *status = engine->result.seq_status;
    if (seq->state != SEQ_RUNNING) return; // it ended before: the row is past its end
    engine_charge_work(engine, charge, work);
    if (status && status[work->at]) {
        fail_work(engine, work, status[work->at]);
        return;
    }
    count_step(engine, flight, work);
    publish_prompt_steps(engine, flight, work);
    if (work->first_pos < seq->n_prompt && seq->family->n_live > 1) {
        engine_changed(engine, CHANGE_PROMPT);
        if (seq->choices.index == 0 && seq->n_done >= seq->n_prompt - 1)
            engine_prompt_done(engine, seq);
    }
    if (seq->n_done / KV_PAGE_TOKENS > (int)seq->table.n_node)
        kv_commit(engine->kv, &seq->table, seq->token, seq->n_done);
    if (seq->prompt_logprob && !seq_is_unscored(seq) && !seq->is_scored)
        publish_scores(engine, seq);
    if (work->samples)
        publish_tokens(engine, flight, work);
    else if (seq->n_done == seq->n_token)
        publish_prompt(engine, seq);
}

// Sequences that are over leave the running ones.
static void sweep_running(struct engine *engine) {
    int n = 0;
    for (int i = 0; i < engine->n_running; i++)
        if (engine->running[i]->state == SEQ_RUNNING) engine->running[n++] = engine->running[i];
    if (n < engine->n_running) engine_changed(engine, CHANGE_RUNNING);
    engine->n_running = n;
}

// A run replaces the sequences in the caches. So the lines that a token needs are requested while
// the tokens before it are published: from its text to its timings, and its account.
static void request_lines(const struct seq *seq) {
    enum { LINE = 64, TEXT = 3, ACCOUNT = offsetof(struct account, sum.first) };
    const char *text = (const char *)&seq->output, *account = (const char *)&seq->account;
    for (int at = 0; at < TEXT * LINE; at += LINE) __builtin_prefetch(text + at, 1);
    for (int at = 0; at < ACCOUNT; at += LINE) __builtin_prefetch(account + at, 1);
    __builtin_prefetch(&seq->token[seq->n_token], 1);
    __builtin_prefetch(seq->output.text, 1);
}

void engine_publish(struct engine *engine, struct flight *flight) {
    enum { AHEAD = 2 };
    engine->event_ns = engine_now(engine);
    struct charge charge;
    engine_charge(engine, flight, engine->event_ns, &charge);
    for (int i = 0; i < flight->n_work; i++) {
        if (i + AHEAD < flight->n_work) request_lines(flight->work[i + AHEAD].seq);
        publish_work(engine, flight, &charge, &flight->work[i]);
    }
    sweep_running(engine);
}

void engine_publish_failure(struct engine *engine, struct flight *flight, rn_status status) {
    engine->event_ns = engine_now(engine);
    for (int i = 0; i < flight->n_work; i++)
        if (flight->work[i].seq->state == SEQ_RUNNING) fail_work(engine, &flight->work[i], status);
    sweep_running(engine);
}
