// A record in words: where the time to the first token and the time between tokens went, the
// slowest gap, drafts, memory; and advice where a cause dominates that an option changes. Every
// number comes from the record, and the numbers of a sentence add up.
#ifndef RN_RECORD_WORDS_H
#define RN_RECORD_WORDS_H

#include "record/record.h"

// Adds sentences, a line each, without a line feed behind the last.
void words_write(struct jbuf *out, const struct record *record, const struct record_choice *choice);
// The same for advice; adds nothing where none applies.
void words_advise(struct jbuf *out, const struct record *record,
                  const struct record_choice *choice);

#endif
