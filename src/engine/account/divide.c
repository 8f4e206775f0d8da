// See divide.h.
#include "engine/account/divide.h"

#include <string.h>

// A run is slower than usual beyond this factor. Smaller differences are the noise of one step, and
// are divided like the rest.
static const double noise = 1.25;

void divider_init(struct divider *divider, const struct cost_rates *rates) {
    price_init(&divider->run, rates);
    price_init(&divider->products, rates);
    divider->run.never_doubts = divider->products.never_doubts = true; // for no choice
}

double divide_kv(const struct divider *divider, const struct batch_shape *own) {
    return price_attention_ns(&divider->run, own);
}

// The shape without its attention.
static struct batch_shape products_of(const struct batch_shape *shape) {
    return (struct batch_shape){.n_tokens = shape->n_tokens,
                                .n_out = shape->n_out,
                                .n_logits = shape->n_logits,
                                .n_seqs = shape->n_seqs};
}

void divider_learn(struct divider *divider, const struct divide_step *step) {
    const struct batch_shape products = products_of(step->shape);
    price_learn_all(&divider->run, step->shape, step->run_ns);
    if (step->attention_ns && step->attention_ns < step->run_ns)
        price_learn_all(&divider->products, &products, step->run_ns - step->attention_ns);
}

// The usual time of the run. Where attention is measured, that of the products decides: the price
// of a run cannot tell the two apart when the lengths of contexts change.
static double usual_run(const struct divider *divider, const struct divide_step *step) {
    if (!step->attention_ns || step->attention_ns >= step->run_ns)
        return price_usual_ns(&divider->run, step->shape);
    const struct batch_shape shape = products_of(step->shape);
    const double products = (double)(step->run_ns - step->attention_ns);
    return (double)step->run_ns * price_usual_ns(&divider->products, &shape) / products;
}

// ---------------------------------------------------------------- the step

static double above(double x, double least) { return x > least ? x : least; }

// Prices of the products with more and more of the step's rows.
static void price_products(const struct price *run, const struct divide_step *step,
                           struct division *out) {
    const struct part_rows *rows = &step->rows;
    const int streams = rows->stream > 1 ? rows->stream : 1;
    const double once = price_rows_ns(run, 1, 1, 1);
    const double stream = above(price_rows_ns(run, streams, streams, streams), once);
    const int drafted = streams + rows->refused;
    const double refused =
        rows->refused ? above(price_rows_ns(run, drafted, drafted, drafted), stream) : stream;
    const struct batch_shape *shape = step->shape;
    const double all =
        above(price_rows_ns(run, shape->n_tokens, shape->n_out, shape->n_logits), refused);
    const int prompts = rows->prompt + rows->again;
    out->base = once;
    out->stream = stream - once;
    out->refused = refused - stream;
    out->prompt = prompts ? (all - refused) * rows->prompt / prompts : 0;
    out->again = prompts ? (all - refused) * rows->again / prompts : 0;
}

static void scale_products(struct division *d, double ns) {
    const double sum = d->base + d->stream + d->refused + d->prompt + d->again;
    if (!(sum > 0)) {
        d->base = ns;
        return;
    }
    const double scale = ns / sum;
    d->base *= scale;
    d->stream *= scale;
    d->refused *= scale;
    d->prompt *= scale;
    d->again *= scale;
}

// Drafts that were accepted are work for tokens that came; a draft of no token is in vain.
static void divide_drafting(const struct divide_step *step, struct division *out) {
    const int refused = step->n_draft < step->rows.refused ? step->n_draft : step->rows.refused;
    const double vain = step->n_draft > 0 ? (double)refused / step->n_draft : 1;
    out->refused += vain * (double)step->draft_ns;
    out->stream += (1 - vain) * (double)step->draft_ns;
}

// The part of the run that was attention: as measured, or else as priced.
static double attention_share(const struct price *run, const struct divide_step *step,
                              double price_ns) {
    if (step->attention_ns) return (double)step->attention_ns / (double)step->run_ns;
    return price_ns > 0 ? price_attention_ns(run, step->shape) / price_ns : 0;
}

void divide(const struct divider *divider, const struct divide_step *step, struct division *out) {
    const struct price *run = &divider->run;
    const double run_ns = (double)step->run_ns;
    const double price = price_of_exact(run, step->shape);
    const double usual = usual_run(divider, step);
    *out = (struct division){.choice = (double)step->choice_ns,
                             .host = (double)step->host_ns,
                             .rows = step->rows,
                             .usual_ns = usual < 0x1p63 ? (uint64_t)usual : INT64_MAX};
    memcpy(out->kv_ns, step->kv_ns, sizeof out->kv_ns);
    for (int i = 0; i <= PART_AGAIN; i++) out->kv_sum += step->kv_ns[i];
    const bool is_slow = usual > 0 && run_ns > noise * usual;
    out->slower = is_slow ? run_ns - usual : 0;
    const double share = out->kv_sum > 0 ? attention_share(run, step, price) : 0;
    out->attention = (run_ns - out->slower) * (share < 1 ? share : 1);
    out->kv_scale = out->kv_sum > 0 ? out->attention / out->kv_sum : 0;
    price_products(run, step, out);
    scale_products(out, run_ns - out->slower - out->attention);
    divide_drafting(step, out);
}

// ---------------------------------------------------------------- a sequence

static double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

void divide_for(const struct division *d, const struct divide_own *own,
                double part[RN_CAUSE_COUNT]) {
    static const rn_cause of_kind[] = {[PART_STREAM] = RN_CAUSE_WEIGHTS,
                                       [PART_PROMPT] = RN_CAUSE_OWN_PROMPT,
                                       [PART_AGAIN] = RN_CAUSE_PREEMPTED};
    memset(part, 0, RN_CAUSE_COUNT * sizeof *part);
    const double prompts = share_of(own->rows.prompt, d->rows.prompt);
    const double again = share_of(own->rows.again, d->rows.again);
    const double more = share_of(own->rows.stream - 1, d->rows.stream - 1);
    part[of_kind[own->kind]] += d->base;
    part[RN_CAUSE_WEIGHTS] += more > 0 ? d->stream * more : 0;
    part[RN_CAUSE_STREAMS] += more > 0 ? d->stream * (1 - more) : d->stream;
    part[RN_CAUSE_DRAFTS] += d->refused;
    part[RN_CAUSE_OWN_PROMPT] += d->prompt * prompts;
    part[RN_CAUSE_PREEMPTED] += d->again * again;
    part[RN_CAUSE_PROMPTS] += d->prompt * (1 - prompts) + d->again * (1 - again);
    // attention: its own, other streams', others' prompts
    const double own_kv = own->kv_ns * d->kv_scale;
    part[own->kind == PART_STREAM ? RN_CAUSE_KV : of_kind[own->kind]] += own_kv;
    double streams = d->kv_ns[PART_STREAM] * d->kv_scale;
    if (own->kind == PART_STREAM) streams = above(streams - own_kv, 0);
    part[RN_CAUSE_STREAMS] += streams;
    part[RN_CAUSE_PROMPTS] += above(d->attention - own_kv - streams, 0);
    part[RN_CAUSE_CHOICE] += d->choice;
    part[RN_CAUSE_HOST] += d->host;
    part[RN_CAUSE_SLOWER] += d->slower;
}
