// One step's time, divided among causes as each of its sequences sees it.
//
//   begin                                                                     end (tokens known)
//   |  host  |  drafts  |  run: products | attention          |  choice  |
//
// The run's products are divided by the prices of their rows: the weights once, further rows of
// streams, refused drafts, prompts, and rows that a preemption made necessary again. Its attention
// is divided by the prices of each sequence's own. A run that takes clearly longer than its usual
// time is that time plus "slower". The usual time is a price of run times alone, so that neither
// the host nor a constraint changes it. Where attention is measured, the price of the products
// decides, so that contexts of other lengths do not change it either.
//
// A machine that stays slow for ten seconds, or a thousand short steps, becomes the usual one.
#ifndef RN_ENGINE_ACCOUNT_DIVIDE_H
#define RN_ENGINE_ACCOUNT_DIVIDE_H

#include "engine/price/price.h"
#include "runnel.h"

struct divider {
    struct price run;      // prices of run times
    struct price products; // of run times without attention, where the backend measures that
};

enum part_kind { PART_STREAM, PART_PROMPT, PART_AGAIN }; // again: after a preemption

// Rows of a step, or of one sequence in it.
struct part_rows {
    int stream;  // tokens of streams, accepted drafts included
    int refused; // of drafts
    int prompt;
    int again;
};

// A step as it was measured. The four times add up to its length.
struct divide_step {
    uint64_t run_ns, choice_ns, draft_ns, host_ns;
    uint64_t attention_ns; // of run_ns; 0: not known
    struct part_rows rows;
    int n_draft; // drafted tokens
    const struct batch_shape *shape;
    double kv_ns[PART_AGAIN + 1]; // the sums of the sequences' divide_kv, by their kinds
};

// The division of a step, ns.
struct division {
    double base; // of the products: the weights once
    double stream, refused, prompt, again;
    double attention;
    double choice, host, slower;
    struct part_rows rows;
    double kv_ns[PART_AGAIN + 1], kv_sum;
    double kv_scale;   // of a sequence's own kv_ns to its part of the attention
    uint64_t usual_ns; // of the run; 0: not known
};

void divider_init(struct divider *divider, const struct cost_rates *rates); // rates outlive it
// The usual time of a sequence's attention: its own rows are the shape.
double divide_kv(const struct divider *divider, const struct batch_shape *own);
void divide(const struct divider *divider, const struct divide_step *step, struct division *out);
// The step becomes experience.
void divider_learn(struct divider *divider, const struct divide_step *step);

// The step as one of its sequences sees it: part[] adds up to the step's length.
struct divide_own {
    enum part_kind kind;
    struct part_rows rows;
    double kv_ns; // divide_kv
};
void divide_for(const struct division *division, const struct divide_own *own,
                double part[RN_CAUSE_COUNT]);

#endif
