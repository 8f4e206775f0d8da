// What the step brought: tokens become text, sequences end, pages go back, events are queued.
#include <assert.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/ledger.h"

rn_event *engine_new_event(struct engine *engine, const struct seq *seq) {
    assert(engine->n_event < engine->max_seqs + ENGINE_MAX_WAITING);
    rn_event *event = &engine->event[engine->n_event++];
    *event = (rn_event){.request = seq->id, .token = -1, .text = "", .seed = seq->sampling.seed};
    return event;
}

static void fill_timings(struct seq *seq) {
    rn_timings *t = &seq->timings;
    const uint64_t now = clock_ns();
    const uint64_t start = seq->start_ns ? seq->start_ns : now;
    const uint64_t first = seq->first_ns ? seq->first_ns : now;
    t->output_tokens = seq->n_token - seq->n_prompt;
    t->queue_ms = (double)(start - seq->submit_ns) * 1e-6;
    t->prompt_ms = (double)(first - start) * 1e-6;
    t->ttft_ms = (double)(first - seq->submit_ns) * 1e-6;
    t->decode_ms = seq->first_ns ? (double)(seq->last_ns - seq->first_ns) * 1e-6 : 0;
}

void engine_finish(struct engine *engine, struct seq *seq, rn_event *event, rn_finish finish,
                   rn_status status) {
    struct output *output = &seq->output;
    if (finish == RN_FINISH_CANCELLED ||
        finish == RN_FINISH_ERROR) { // what was held back is text too
        const struct text_span held = output_feed(output, (struct text_span){"", 0}, true);
        event->text = held.data;
        event->text_len = held.len;
    }
    if (seq->state == SEQ_RUNNING) kv_release(&engine->kv, &seq->table);
    seq->state = SEQ_DONE;
    seq->next = engine->done;
    engine->done = seq;
    fill_timings(seq);
    event->finish = finish;
    event->status = status;
    event->stop = output->matched >= 0 ? output->stop[output->matched].data : NULL;
    event->timings = &seq->timings;
}

static void count_step(struct engine *engine, struct seq *seq, int index) {
    if (!seq->first_ns) return; // steps up to the first token are the prompt's
    seq->timings.decode_steps++;
    seq->timings.decode_bytes +=
        ledger_share(&engine->rates, engine->plan, &engine->batch.seq[index], engine->batch.n_seqs,
                     &engine->step_cost);
}

// Text into the event; the sequence ends when a stop string matched or nothing more will come.
static bool publish_text(struct engine *engine, struct seq *seq, rn_event *event,
                         struct text_span bytes, rn_finish last) {
    const struct text_span text = output_feed(&seq->output, bytes, last != RN_FINISH_NONE);
    event->text = text.data;
    event->text_len = text.len;
    if (seq->output.matched >= 0) last = RN_FINISH_STOP;
    if (last == RN_FINISH_NONE) return false;
    engine_finish(engine, seq, event, last, RN_OK);
    return true;
}

// The chosen token joins the sequence; true when the sequence is over.
static bool publish_token(struct engine *engine, struct seq *seq, int32_t token, uint64_t now) {
    const struct text_span nothing = {"", 0};
    rn_event *event = engine_new_event(engine, seq);
    if (token < 0) {
        engine_finish(engine, seq, event, RN_FINISH_ERROR, RN_ERR_NUMERIC);
        return true;
    }
    assert(token < tokenizer_size(engine->tokenizer));
    seq->token[seq->n_token++] = token;
    seq->last_ns = now;
    if (!seq->first_ns) seq->first_ns = now;
    event->token = token;
    if (tokenizer_is_end(engine->tokenizer, token) && !seq->ignore_eos)
        return publish_text(engine, seq, event, nothing, RN_FINISH_STOP);
    const bool hidden = tokenizer_is_special(engine->tokenizer, token);
    return publish_text(engine, seq, event,
                        hidden ? nothing : tokenizer_bytes(engine->tokenizer, token),
                        seq->n_token < seq->limit ? RN_FINISH_NONE : RN_FINISH_LENGTH);
}

void engine_publish(struct engine *engine) {
    const uint64_t now = clock_ns();
    for (int i = 0; i < engine->n_work; i++) {
        struct work *work = &engine->work[i];
        struct seq *seq = work->seq;
        seq->n_done += work->n_tokens;
        count_step(engine, seq, i);
        bool over = false;
        if (work->samples) {
            over = publish_token(engine, seq, work->chosen, now);
        } else if (seq->n_done == seq->n_token) { // the prompt alone was asked for
            engine_finish(engine, seq, engine_new_event(engine, seq), RN_FINISH_LENGTH, RN_OK);
            over = true;
        }
        if (over) engine->slot[work->slot] = NULL;
    }
}
