// Texts in the shape that was asked for: a constraint is compiled once, off the step's thread, and
// then gives the set of tokens that may come next, for any number of requests. See README.md.
// A vocabulary and a compiled constraint are shared: any thread may use them, references are
// counted. A run belongs to one request and follows the tokens of its choices.
#ifndef RN_CONSTRAINT_CONSTRAINT_H
#define RN_CONSTRAINT_CONSTRAINT_H

#include "base/status.h"
#include "runnel.h"

enum constraint_kind {
    CONSTRAINT_SCHEMA,    // JSON Schema
    CONSTRAINT_OBJECT,    // any JSON object; the text is not read
    CONSTRAINT_REGEX,     // the whole text matches
    CONSTRAINT_GRAMMAR,   // GBNF or Lark
    CONSTRAINT_CHOICES,   // a JSON array of strings; the text is one of them
    CONSTRAINT_STRUCTURE, // JSON: free text, tags and their content
};

struct constraint_token {
    const char *data; // lives as long as the vocabulary
    size_t len;
    bool is_special; // a symbol: its text is not what it adds to a text
    bool is_end;     // ends the text
};
typedef struct constraint_token (*constraint_token_fn)(void *ctx, int32_t id);

struct constraint_vocab;
// Reads all tokens once. Fails for want of memory only.
rn_status constraint_vocab_create(int32_t n_vocab, constraint_token_fn token, void *ctx,
                                  struct constraint_vocab **out, rn_error *err);
void constraint_vocab_release(struct constraint_vocab *vocab); // NULL is fine

// Bounds of a compilation; a field of 0 takes the default. Work is counted, so that the same source
// is refused on every machine.
struct constraint_limits {
    size_t source_bytes;
    uint64_t work; // units of 3 to 10 ns
    size_t bytes;
};
extern const struct constraint_limits constraint_limits_default;

struct constraint;
// RN_ERR_ARG names the place that cannot be read or is not supported: "/properties/a/not: ...",
// "offset 12: ...". Equal sources are found again instead of compiled, as long as they are kept.
rn_status constraint_compile(struct constraint_vocab *vocab, enum constraint_kind kind,
                             const char *text, size_t len, const struct constraint_limits *limits,
                             struct constraint **out, rn_error *err);
// A reference to a kept constraint of an equal source; NULL if there is none.
struct constraint *constraint_find(struct constraint_vocab *vocab, enum constraint_kind kind,
                                   const char *text, size_t len);
struct constraint *constraint_acquire(struct constraint *constraint);
void constraint_release(struct constraint *constraint); // NULL is fine

// Figures for tables and tests.
struct constraint_size {
    uint32_t rules, states;
    uint64_t work;
    size_t bytes;
};
struct constraint_size constraint_size(const struct constraint *constraint);

struct constraint_run;
// Holds a reference to the constraint. `out` is for rn_request; its ctx is the run.
rn_status constraint_open(struct constraint *constraint, int n_choices, struct constraint_run **out,
                          rn_error *err);
void constraint_close(struct constraint_run *run); // NULL is fine
rn_constraint constraint_hook(struct constraint_run *run);

// Works on the next mask of a choice, for about that many units of a few ns; 0: only finds it.
// True: the hook's mask has it at hand. One thread after the other may work on it. Where nobody
// prepares, the hook makes the whole mask.
bool constraint_prepare(struct constraint_run *run, int choice, uint64_t units);
// Units with which every call makes progress.
uint64_t constraint_slice(const struct constraint_run *run);
// Units that were spent on a choice so far, with those of its tokens.
uint64_t constraint_spent(const struct constraint_run *run, int choice);

// Whether the text of a choice may end here; false after a failure.
bool constraint_may_end(struct constraint_run *run, int choice);
// The bytes that must come next, at most size; fewer where several may come, the text may end, or
// that many units are spent.
size_t constraint_forced(struct constraint_run *run, int choice, char *out, size_t size,
                         uint64_t units);
// Why a choice has no token left although its constraint does; NULL: it has not failed.
const char *constraint_failure(const struct constraint_run *run, int choice);
// The same as a status: RN_OK, RN_ERR_AMBIGUOUS or RN_ERR_NOMEM.
rn_status constraint_status(const struct constraint_run *run, int choice);
// Moves a choice over bytes that are no token, one step for rollback; false where they cannot come.
// No bytes: a step that stays where it is.
bool constraint_feed(struct constraint_run *run, int choice, const void *bytes, size_t len);
// Moves a choice over a token, one step for rollback; false where it cannot come.
bool constraint_take(struct constraint_run *run, int choice, int32_t token);
// Moves a choice to the start, one step for rollback: text before it was free.
void constraint_restart(struct constraint_run *run, int choice);

#endif
