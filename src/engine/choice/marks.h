// The tokens of a vocabulary that matter around the marks of a reasoning, for the masks of shapes.
// A list takes a pass over the vocabulary, so a model keeps the lists of the marks that were used
// last.
#ifndef RN_ENGINE_CHOICE_MARKS_H
#define RN_ENGINE_CHOICE_MARKS_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/choice/reasoning.h"

// Immutable, and counted.
struct marks {
    _Atomic int refs;
    char *open, *close;                // the marks
    char *answer[RN_MAX_ANSWER_MARKS]; // [n_answer] an answer may start with them
    int n_answer;
    int32_t *opening; // [n_opening] blanks, and tokens that may be part of the opening mark
    int n_opening;
    // [n_closing] tokens that may end the reasoning and start the answer: with text behind the last
    // byte of the closing mark, or with the last byte of an answer's mark. Those with a whole mark
    // come first
    int32_t *closing;
    int n_closing, n_whole;
    int32_t *end; // [n_end] tokens that end a text
    int n_end;
    struct marks *next; // in the kept ones
};

struct marks_kept {
    pthread_mutex_t lock;
    struct marks *first; // the newest first
};
rn_status marks_kept_init(struct marks_kept *kept, rn_error *err);
void marks_kept_deinit(struct marks_kept *kept);

// Any thread. The rule's marks over its tokenizer's vocabulary.
rn_status marks_acquire(struct marks_kept *kept, const struct reasoning_rule *rule,
                        struct marks **out, rn_error *err);
void marks_release(struct marks *marks); // NULL is fine

#endif
