// The reasoning of a model that thinks before it answers: where it starts and ends, and how long it
// may be. It is followed token by token; where a text stands depends on its tokens alone.
//
//   BEFORE --open--> INSIDE --close--> GAP --the first text but a few blanks--> AFTER
//     |                +------------- a mark that the answer starts with ---------^
//     +--------- any other text but a few blanks: the model does not think --------^
#ifndef RN_ENGINE_CHOICE_REASONING_H
#define RN_ENGINE_CHOICE_REASONING_H

#include "base/status.h"
#include "runnel.h"
#include "text/tokenizer.h"

enum {
    REASONING_BLANKS = 4
}; // bytes of blanks before the opening mark, and behind the closing one

struct reasoning_mark {
    char *text;
    size_t len;
    int *shorter; // [len + 1] the next shorter start of it that such a start ends with
};

// Marks are found in the tokens' bytes: a model may write a mark in other tokens than the
// tokenizer.
struct reasoning_rule {
    const struct tokenizer *tokenizer;
    bool has_budget;
    int budget; // tokens
    char *open; // n_open 0: the prompt has opened the reasoning
    size_t n_open;
    struct reasoning_mark last; // written when the budget is spent; it starts with the closing mark
    size_t n_close; // bytes of `last` that end the reasoning, before the budget is spent
    int32_t *token; // [last.len] the token to write where that many bytes of it are written
    struct reasoning_mark answer[RN_MAX_ANSWER_MARKS]; // [n_answer] the answer starts with them
    int n_answer;
};

rn_status reasoning_check(const rn_reasoning *reasoning, rn_error *err);
// reasoning: checked, with its closing mark. to_last: the whole of `last` ends it, because a shape
// starts behind that. On failure deinit is needed still.
rn_status reasoning_init(struct reasoning_rule *rule, const rn_reasoning *reasoning, bool to_last,
                         const struct tokenizer *tokenizer, rn_error *err);
void reasoning_deinit(struct reasoning_rule *rule); // zeroed is fine

enum reasoning_phase { REASONING_BEFORE, REASONING_INSIDE, REASONING_GAP, REASONING_AFTER };
struct reasoning_state {
    enum reasoning_phase phase;
    int n_tokens; // of the reasoning
    int matched;  // bytes of the mark that the text ends with: the opening one, or `last`
    int n_blank;  // bytes of blanks in this phase: BEFORE and GAP
    int starts[RN_MAX_ANSWER_MARKS]; // bytes of the answer's marks that the text ends with: INSIDE
    int mark;     // AFTER: the mark that the answer started with; 0: none, 1: answer[0]
    int n_behind; // bytes behind it in the token that ended it
};
struct reasoning_state reasoning_begin(const struct reasoning_rule *rule);
void reasoning_advance(const struct reasoning_rule *rule, struct reasoning_state *state,
                       int32_t token);
// The one token that may come next; -1: any.
int32_t reasoning_forced(const struct reasoning_rule *rule, const struct reasoning_state *state);

static inline bool reasoning_is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

#endif
