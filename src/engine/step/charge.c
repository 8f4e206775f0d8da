// Time is charged to accounts: a landed step to every running sequence, a wait to its sequence when
// the wait ends. See account/account.h and account/divide.h. publish.c, admit.c call it.
//
// The time of a step starts when the step before landed, if one of its sequences was there then. So
// time between two steps belongs to the later one. The drafts, the choices and the run are the laps
// of this thread since then (the statistics). The device's own time is the run where it is longer,
// because the host worked meanwhile. The rest is the host's.
#include <assert.h>

#include "engine/step/engine.h"

// ---------------------------------------------------------------- waits

static uint64_t block_read(const struct block_clock *clock, uint64_t at_ns) {
    return clock->ns + (clock->is_blocked && at_ns > clock->since_ns ? at_ns - clock->since_ns : 0);
}

void engine_block(struct engine *engine, enum account_block block, uint64_t now) {
    for (int i = 0; i < ACCOUNT_BLOCKS; i++) {
        struct block_clock *clock = &engine->block[i];
        *clock = (struct block_clock){block_read(clock, now), now, i == (int)block};
    }
}

static void wait_begin(const struct engine *engine, struct account *account) {
    for (int i = 0; i < ACCOUNT_BLOCKS; i++)
        account->blocked_mark_ns[i] = block_read(&engine->block[i], account->mark_ns);
}

void engine_wait_begin(const struct engine *engine, struct seq *seq) {
    wait_begin(engine, &seq->account);
}

// A further choice waits for the first one, which evaluates the prompt of both. It waited as the
// first one did until that started, and for its own prompt from then on.
static void charge_follower(const struct seq *seq, uint64_t now, struct account *account) {
    const struct seq_family *family = seq->family;
    if (!family->start_ns) return;
    if (account->mark_ns < family->start_ns) {
        double part[RN_CAUSE_COUNT];
        for (int i = 0; i < RN_CAUSE_COUNT; i++) part[i] = (double)family->waited.cause_ns[i];
        account->open.pages_request = family->waited.pages_request;
        account->open.prompt_request = family->waited.prompt_request;
        account->open.prompt_tokens = family->waited.prompt_tokens;
        account_divide(account, part, family->start_ns);
    }
    const uint64_t done = family->done_ns ? family->done_ns : now;
    if (done < account->mark_ns) return;
    account_add(account, RN_CAUSE_OWN_PROMPT, done < now ? done : now);
    for (int i = 0; family->done_ns && i < ACCOUNT_BLOCKS; i++)
        account->blocked_mark_ns[i] = family->blocked_ns[i];
}

void engine_prompt_done(const struct engine *engine, struct seq *seq) {
    struct seq_family *family = seq->family;
    if (family->done_ns) return; // it was preempted since, and computes its prompt again
    family->done_ns = engine->event_ns;
    for (int i = 0; i < ACCOUNT_BLOCKS; i++)
        family->blocked_ns[i] = block_read(&engine->block[i], engine->event_ns);
}

// The part of a wait that admission caused, then the step that was running when it came.
static void charge_blocked(const struct engine *engine, const struct seq *seq, uint64_t now,
                           struct account *account) {
    uint64_t blocked_ns[ACCOUNT_BLOCKS];
    for (int i = 0; i < ACCOUNT_BLOCKS; i++)
        blocked_ns[i] = block_read(&engine->block[i], now) - account->blocked_mark_ns[i];
    if (blocked_ns[ACCOUNT_PAGES] > 0) account->open.pages_request = engine->page_holder;
    const bool was_running = engine->laps.end_ns > account->mark_ns;
    if (was_running && engine->step_prompt_request != seq->id &&
        engine->step_prompt_tokens > account->open.prompt_tokens) {
        account->open.prompt_tokens = engine->step_prompt_tokens;
        account->open.prompt_request = engine->step_prompt_request;
    }
    account_wait(account, blocked_ns, was_running ? engine->step_cause : RN_CAUSE_HOST, now);
}

static void charge_waiting(const struct engine *engine, const struct seq *seq, uint64_t now,
                           struct account *account) {
    if (seq->is_paused) account_add(account, RN_CAUSE_READER, now);
    if (seq->was_admitted) account_add(account, RN_CAUSE_PREEMPTED, now);
    if (seq->choices.index > 0) charge_follower(seq, now, account);
    if (account->mark_ns < now) charge_blocked(engine, seq, now, account);
    wait_begin(engine, account);
}

void engine_charge_until(const struct engine *engine, const struct seq *seq, uint64_t now,
                         struct account *account) {
    if (now <= account->mark_ns) return;
    if (seq->state == SEQ_WAITING)
        charge_waiting(engine, seq, now, account);
    else
        account_add(account,
                    seq->is_paused    ? RN_CAUSE_READER
                    : seq->fetch      ? RN_CAUSE_STORE
                    : seq->lacks_mask ? RN_CAUSE_CHOICE
                                      : RN_CAUSE_HOST,
                    now);
}

// ---------------------------------------------------------------- steps

// The purposes of a work's rows.
static struct divide_own own_of(const struct engine *engine, const struct seq_work *work) {
    const struct seq *seq = work->seq;
    struct divide_own own = {.kind = seq->account.sum.first_ns ? PART_STREAM : PART_PROMPT};
    const int fresh = work->n_tokens - work->n_draft - work->n_again;
    int again = seq->n_lost - work->first_pos;
    again = again < 0 ? 0 : again > fresh ? fresh : again;
    if (again > 0) own.kind = PART_AGAIN;
    own.rows.again = again;
    own.rows.refused = work->n_draft - work->n_accepted + work->n_again;
    own.rows.stream = work->n_accepted;
    *(seq->account.sum.first_ns ? &own.rows.stream : &own.rows.prompt) += fresh - again;
    struct batch_shape shape = {0};
    seq_work_shape(engine->plan, work, work->first_pos, &shape);
    own.kv_ns = divide_kv(&engine->divider, &shape);
    return own;
}

static void beside_add(struct beside *beside, const struct seq *seq, const struct divide_own *own) {
    const int tokens = own->rows.prompt + own->rows.again;
    beside->n_streams += own->kind == PART_STREAM;
    beside->n_prompts += own->kind != PART_STREAM;
    for (int i = 0; i < 2; i++) {
        if (beside->request[i] != seq->id) continue;
        beside->tokens[i] += tokens; // another choice of the same request
        return;
    }
    const int at = tokens > beside->tokens[0] ? 0 : tokens > beside->tokens[1] ? 1 : 2;
    if (at == 2) return;
    if (at == 0) {
        beside->request[1] = beside->request[0];
        beside->tokens[1] = beside->tokens[0];
    }
    beside->request[at] = seq->id;
    beside->tokens[at] = tokens;
}

static void note_beside(rn_share *open, const struct beside *beside, uint64_t request) {
    const int at = beside->request[0] == request;
    if (beside->n_streams > open->streams) open->streams = beside->n_streams;
    if (beside->tokens[at] <= open->prompt_tokens) return;
    open->prompt_tokens = beside->tokens[at];
    open->prompt_request = beside->request[at];
}

// The laps since the last landing; the division starts there, or where the step's first work did.
static void measure(struct engine *engine, const struct flight *flight, uint64_t now,
                    struct divide_step *step, rn_step *record) {
    const rn_engine_stats *stats = &engine->stats;
    struct charge_laps *laps = &engine->laps;
    uint64_t begin = flight->begin_ns > laps->end_ns ? flight->begin_ns : laps->end_ns;
    for (int i = 0; i < flight->n_work && begin != laps->end_ns; i++)
        if (flight->work[i].seq->account.mark_ns == laps->end_ns) begin = laps->end_ns;
    const bool follows = laps->end_ns && begin == laps->end_ns;
    uint64_t left = now > begin ? now - begin : 0;
    uint64_t run = stats->run_ns - laps->run_ns, draft = stats->draft_ns - laps->draft_ns;
    uint64_t choice = stats->sample_ns - laps->sample_ns;
    choice = choice < left ? choice : left;
    left -= choice;
    draft = !engine->draft ? 0 : draft < left ? draft : left; // without drafters: bookkeeping
    left -= draft;
    if (engine->depth > 1 && engine->result.run_ns > run) run = engine->result.run_ns;
    run = run < left ? run : left;
    *laps = (struct charge_laps){now, stats->run_ns, stats->draft_ns, stats->sample_ns};
    step->run_ns = run;
    step->choice_ns = choice;
    step->draft_ns = draft;
    step->host_ns = left - run;
    record->begin_ns = begin;
    record->idle_ns = follows ? engine->result.idle_ns : 0;
    record->end_ns = now;
    record->run_ns = run;
    record->choice_ns = choice;
    record->draft_ns = draft;
    record->host_ns = left - run;
}

// Bytes and operations by class, and time by class, scaled to the run as the host saw it.
static void record_ops(struct engine *engine, const struct flight *flight, rn_step *record) {
    rn_engine_stats *stats = &engine->stats;
    const struct step_result *result = &engine->result;
    const double scale = result->run_ns ? (double)record->run_ns / (double)result->run_ns : 0;
    struct cost sum = {0};
    for (int c = 0; c < OPS_COUNT; c++) {
        if (engine->class_rates[c].is_empty) continue;
        const struct cost cost = ledger_step(&engine->class_rates[c], &flight->shape,
                                             c == OPS_EXPERTS ? result->expert_bytes : 0);
        sum.weight_bytes += cost.weight_bytes;
        sum.kv_read_bytes += cost.kv_read_bytes;
        sum.flops += cost.flops;
        record->ops_ns[c] = (uint64_t)((double)result->ops_ns[c] * scale);
        record->ops_bytes[c] = cost.weight_bytes + cost.kv_read_bytes + cost.kv_write_bytes;
        record->ops_flops[c] = cost.flops;
        stats->ops_ns[c] += record->ops_ns[c];
        stats->ops_bytes[c] += record->ops_bytes[c];
        stats->ops_flops[c] += (double)record->ops_flops[c];
    }
    engine->step_cost = sum;
    stats->weight_bytes += sum.weight_bytes;
    stats->kv_bytes += sum.kv_read_bytes;
}

static void record_rows(rn_step *record, const struct divide_step *step,
                        const struct beside *beside, int n_accepted) {
    record->prompt_tokens = (uint32_t)step->rows.prompt;
    record->again_tokens = (uint32_t)step->rows.again;
    record->draft_tokens = (uint32_t)step->n_draft;
    record->accepted_tokens = (uint32_t)n_accepted;
    record->stream_tokens = (uint32_t)(step->rows.stream - n_accepted);
    record->n_streams = (uint32_t)beside->n_streams;
    record->n_prompts = (uint32_t)beside->n_prompts;
    record->prompt_request = beside->request[0];
}

// Tokens of a prompt are its own: neither drafts behind it nor tokens that are computed again.
static void count_work(struct account *account, const struct engine *engine, uint64_t run_ns,
                       const struct seq_work *own) {
    rn_work *work = account->sum.first_ns ? &account->work : &account->sum.prompt_work;
    const struct cost *cost = &engine->step_cost;
    work->steps++;
    work->tokens += (uint64_t)(account->sum.first_ns ? own->n_tokens
                                                     : own->n_tokens - own->n_draft - own->n_again);
    work->bytes += cost->weight_bytes + cost->kv_read_bytes;
    work->flops += cost->flops;
    work->run_ns += run_ns;
}

// A running sequence without work in the step.
static rn_cause idle_cause(const struct seq *seq, const struct beside *beside) {
    if (seq->is_paused) return RN_CAUSE_READER;
    if (seq->fetch) return RN_CAUSE_STORE;
    if (seq->is_starved) return RN_CAUSE_PAGES;
    if (seq->lacks_mask) return RN_CAUSE_CHOICE;
    return beside->n_prompts > 0 ? RN_CAUSE_PROMPTS : RN_CAUSE_STREAMS;
}

static void charge_idle(struct engine *engine, const struct beside *beside, uint64_t now) {
    for (int i = 0; i < engine->n_running; i++) {
        struct seq *seq = engine->running[i];
        struct account *account = &seq->account;
        if (account->mark_ns >= now) continue;
        const rn_cause cause = idle_cause(seq, beside);
        if (cause == RN_CAUSE_PAGES)
            account->open.pages_request = engine_page_holder(engine, seq->id);
        if (cause == RN_CAUSE_PROMPTS) note_beside(&account->open, beside, seq->id);
        account_add(account, cause, now);
    }
}

// The works' own parts, and the sums of the step; their times are to be divided from now on.
static int add_works(struct engine *engine, const struct flight *flight, uint64_t now,
                     struct divide_step *step, struct beside *beside) {
    int n_accepted = 0;
    for (int i = 0; i < flight->n_work; i++) {
        struct seq_work *work = &flight->work[i];
        const struct divide_own own = work->own = own_of(engine, work);
        if (work->seq->state == SEQ_RUNNING) work->ns = account_advance(&work->seq->account, now);
        step->rows.stream += own.rows.stream;
        step->rows.refused += own.rows.refused;
        step->rows.prompt += own.rows.prompt;
        step->rows.again += own.rows.again;
        step->kv_ns[own.kind] += own.kv_ns;
        step->n_draft += work->n_draft;
        n_accepted += work->n_accepted;
        beside_add(beside, work->seq, &own);
    }
    return n_accepted;
}

void engine_charge(struct engine *engine, const struct flight *flight, uint64_t now,
                   struct charge *out) {
    struct divide_step step = {.shape = &flight->shape};
    struct beside *beside = &out->beside;
    rn_step record = {.index = engine->stats.steps};
    *beside = (struct beside){0};
    measure(engine, flight, now, &step, &record);
    record_ops(engine, flight, &record);
    step.attention_ns = record.ops_ns[OPS_ATTENTION] + record.ops_ns[OPS_RECURRENT];
    const int n_accepted = add_works(engine, flight, now, &step, beside);
    divide(&engine->divider, &step, &out->division);
    out->run_ns = record.run_ns;
    record.usual_ns = out->division.usual_ns;
    record_rows(&record, &step, beside, n_accepted);
    charge_idle(engine, beside, now);
    engine->step_cause = beside->n_prompts > 0 ? RN_CAUSE_PROMPTS : RN_CAUSE_STREAMS;
    engine->step_prompt_request = beside->request[0];
    engine->step_prompt_tokens = beside->tokens[0];
    engine->stats.idle_ns += record.idle_ns;
    engine->stats.late_steps += engine->result.is_late && record.idle_ns > 0;
    divider_learn(&engine->divider, &step);
    step_board_write(&engine->steps, &record);
}

void engine_charge_work(const struct engine *engine, const struct charge *charge,
                        const struct seq_work *work) {
    struct account *account = &work->seq->account;
    double part[RN_CAUSE_COUNT];
    divide_for(&charge->division, &work->own, part);
    account_divide_ns(account, part, work->ns);
    account->open.steps++;
    note_beside(&account->open, &charge->beside, work->seq->id);
    count_work(account, engine, charge->run_ns, work);
}
