// Tool calls in the text of an answer: the entry for answer_parts.c, and the functions that the
// readers of the several forms share.
#ifndef RN_SERVER_ANSWER_CALLS_H
#define RN_SERVER_ANSWER_CALLS_H

#include "answer_parts.h"

// ---------------------------------------------------------------- for answer_parts.c

struct call_read {
    size_t done; // bytes of the text that were let out as calls
    size_t end;  // GOOD: behind the call; BAD: where no call continues
};

// A call starts behind the first mark_len bytes of the held text.
void parts_call_begin(struct answer_parts *parts, size_t mark_len);
// The same for one whose name is known: its arguments follow. False: it has too many bytes, or the
// answer too many calls.
bool parts_call_named(struct answer_parts *parts, const char *name, size_t len, size_t mark_len);
// Reads on in the held text, which starts with the first byte that was not let out.
enum call_verdict parts_call_read(struct answer_parts *parts, const char *text, size_t len,
                                  struct call_read *read, parts_fn fn, void *ctx);

// ---------------------------------------------------------------- for the readers

struct call_run {
    struct answer_parts *parts;
    struct parts_call *call;
    const char *text; // held
    size_t len;
    parts_fn fn;
    void *ctx;
};

// The rest of the text, from call->at on.
static inline const char *call_rest(const struct call_run *run, size_t *len) {
    *len = run->len - run->call->at;
    return run->text + run->call->at;
}

// Another call; the last one was let out.
void call_start(struct call_run *run);
// False: it is no name, or there are too many calls.
bool call_name(struct call_run *run, const char *name, size_t len);
// More JSON of the arguments, the token from call->at to `end`. False: it does not continue them;
// then nothing of it was put.
bool call_put(struct call_run *run, const char *json, size_t len, size_t end);
// The arguments so far, to take a token back that was put in part.
struct call_place {
    struct json_walk walk;
    size_t text, safe_text, safe_at;
    bool is_complete;
};
struct call_place call_place_of(const struct parts_call *call);
void call_return(struct parts_call *call, const struct call_place *place);
// The call ends at `end`. False: its name is not known.
bool call_close(struct call_run *run, size_t end);
// Lets out as much as may be.
void call_flush(struct call_run *run);

size_t call_blanks(const char *text, size_t len, size_t at); // where they end
void call_trim(const char **text, size_t *len);
bool call_starts(const char *text, size_t len, const char *mark);
bool call_may_start(const char *text, size_t len, const char *mark); // it ends inside of the mark
const char *call_find(const char *text, size_t len, const char *mark);
// The first place where the mark is, or may be when more text comes; len: none.
size_t call_edge(const char *text, size_t len, const char *mark);
// The first n bytes without the start of a character that may continue.
size_t call_whole_characters(const char *text, size_t n);

#endif
