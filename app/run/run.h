// Shared by a run with one prompt and a conversation: the loaded model and how to ask it.
#ifndef RN_APP_RUN_H
#define RN_APP_RUN_H

#include "models/name.h"
#include "run/answer.h"
#include "run/sampling.h"

struct run {
    const struct options *options;
    struct term term;
    bool json, quiet;
    rn_model *model, *draft; // draft NULL: none
    struct model_name name;  // of the model, for people
    rn_engine *engine;
    double load_ms;
    struct sampling sampling;
    struct logits_file logits;
    struct observe *observe;
    struct id_list stop_ids; // of --stop-ids
    rn_shape *shape;         // NULL: none
};

// Answers the tokens as the options say. reasoning: of the chat, without a budget; NULL: there is
// none. answer: shown, kept and logits are set, the rest is zero. Returns as answer_run does.
int run_answer(const struct run *run, const int32_t *ids, size_t n_ids,
               const rn_reasoning *reasoning, struct answer *answer);

#endif
