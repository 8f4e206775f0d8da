// The cost of a step of a given shape on this machine, now. One struct price for each backend that
// runs steps: the engine's, and a draft model's. The schedule asks it how much of a prompt fits
// between two tokens (price_chunk), the drafts ask it for the cost of further rows (price_of).
//
//   ns(shape) = rows(r) + KV bytes read * ns_per_byte + FLOPs of attention * ns_per_flop
//
// r is the shape's FLOPs without attention over those of one row with logits. A prompt's row, which
// skips the vocabulary's product, is less than one. rows(r) is a table in geometric buckets.
//
// One rule learns all of it. A measurement moves its bucket by 1/n of the difference, n growing to
// 32. A time more than a quarter above the price is not believed at once, because the system
// interrupts. A surprise, above or below, halves n, so that several are believed. Four steps in a
// row, of any shapes, that are all slower or all faster mean that the machine's speed changed:
// everything is scaled, but no price further than twice from its own last measurement: a
// machine whose speed changes to and fro would drive apart what is rarely measured. Prices that
// were not measured for long fall, so that they are tried again.
//
// Invariants: rows(r) never falls with r, so a larger shape never costs less; a price is 0 only
// before the first measurement; nothing here reads a clock.
//
// Accuracy, on simulated machines: docs/SPECULATION.md, "The price of a step".
#ifndef RN_ENGINE_PRICE_PRICE_H
#define RN_ENGINE_PRICE_PRICE_H

#include "plan/cost_rates.h"
#include "runnel.h"

enum { PRICE_MIN_CHUNK = 8, PRICE_BUCKETS = 96, PRICE_KNOWN = 8, PRICE_RECENT = 256 };

struct price {
    const struct cost_rates *rates;
    bool never_doubts;                   // prices that were not measured for long stay
    double row_flops;                    // of one row with logits, without attention
    double ns_per_byte, ns_per_flop;     // of attention; 0: nothing was measured
    double last_per_byte, last_per_flop; // as steps that they were a part of confirmed them
    struct price_bucket {
        double rows, ns; // averages of the measurements
        int count;       // that the average weighs; 0: none
        int age;         // steps since the last one
        int seen;        // measurements without a pause of PRICE_RECENT steps, up to PRICE_KNOWN
        double usual_ns; // follows ns: soon when it falls, later when it rises
        double last_ns;  // the last measurement, as it came
    } bucket[PRICE_BUCKETS];
    int n_used; // buckets with measurements, ascending: few, so that learning looks at no others
    uint8_t used[PRICE_BUCKETS];
    int n_point; // the table as it is read: measured buckets, ascending in both
    int half;    // the last point of at most half the rows of the last one; -1: none
    struct price_point {
        double rows, ns;
    } point[PRICE_BUCKETS];
    double recent_rows; // the most of a step with a prompt lately
    int n_alike; // steps in a row above their price (> 0) or below it (< 0), and the least of their
    double alike_ratio; // ratios to it
};

void price_init(struct price *price, const struct cost_rates *rates); // rates outlive it

// Runs n rows, with as many logits as there is room for, and says the shape and its time; *ns = 0:
// there is no room for it.
typedef rn_status (*price_run_fn)(void *ctx, int n, struct batch_shape *shape, uint64_t *ns,
                                  rn_error *err);
// Prices of 1 to `most` rows before the first request. The fastest of a few runs is taken, because
// nothing is faster than the machine. The first runs are always made; no further run begins when
// budget_ns are spent. Prices between are interpolated, and every real step corrects them.
rn_status price_calibrate(struct price *price, price_run_fn run, void *ctx, int most,
                          uint64_t budget_ns, rn_error *err);

uint64_t price_of(const struct price *price, const struct batch_shape *shape); // ns
double price_of_exact(const struct price *price, const struct batch_shape *shape);
// ns[n]: the price with n further rows with logits, 0 to `most`. Each attends to as many positions
// as the shape's rows do on average. The shape has rows, and something was measured.
void price_of_more(const struct price *price, const struct batch_shape *shape, int most,
                   double *ns);
// Its two parts: of rows of each domain, and of the shape's attention. 0: nothing was measured.
double price_rows_ns(const struct price *price, int64_t n_tokens, int64_t n_out, int64_t n_logits);
double price_attention_ns(const struct price *price, const struct batch_shape *shape);
// The price without a slowdown of the machine that has not lasted for long; 0: it is not known,
// because such steps were not measured PRICE_KNOWN times lately.
double price_usual_ns(const struct price *price, const struct batch_shape *shape);
// A step took this long. Steps without logits skip part of the model and are not learned from;
// price_learn_all takes them too, for prices of such steps.
void price_learn(struct price *price, const struct batch_shape *shape, uint64_t ns);
void price_learn_all(struct price *price, const struct batch_shape *shape, uint64_t ns);
// The most tokens of a prompt at first_pos, 1 to wanted, for which the step that has `base` already
// stays within bound_ns. At least one, so that prompts progress. PRICE_MIN_CHUNK where nothing was
// measured yet, or where the step exceeds the bound even without a prompt.
int price_chunk(const struct price *price, const struct plan *plan, const struct batch_shape *base,
                int first_pos, int wanted, uint64_t bound_ns);

#endif
