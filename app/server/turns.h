// The turns of conversations that a later request can continue, in memory: responses that
// previous_response_id can name, and messages of threads. Any thread; a lock inside.
//
// 1. A turn holds its own items, and a reference to the turn before it: a conversation's texts are
//    there once, however many turns it has.
// 2. The table has at most count_max turns, in the order of their last use. A use of a turn is one
//    of all turns before it too, so the oldest conversation leaves first.
// 3. A turn that left the table is freed when nothing refers to it. `bytes` has all that are there,
//    so a table within its limit bounds the memory.
// 4. Any number of responses may follow a response. One message follows a message:
//
//    OPEN ─ turns_claim ─► CLAIMED ─ turns_keep of the next message ─► CONTINUED
//      └────── turns_unclaim ◄┘
#ifndef RN_SERVER_TURNS_H
#define RN_SERVER_TURNS_H

#include "jbuf.h"
#include "owner.h"

enum { TURN_ID_BYTES = 48 };
enum turn_kind { TURN_RESPONSE, TURN_MESSAGE };
enum turn_next { TURN_OPEN, TURN_CLAIMED, TURN_CONTINUED };

// Constant once it is kept. text is its items, one on each line: the items of the request, then the
// items of the answer. Of a response its JSON follows: the part before the value of "output", then
// the part after it. Of a thread's first message an object follows, with what all its turns share.
struct turn {
    enum turn_kind kind;
    char id[TURN_ID_BYTES];
    struct owner owner;
    struct turn *previous; // referred to; NULL if there is none
    struct jbuf text;
    size_t input_len, output_len, head_len; // of text; the rest is the response's tail
    // the store's own
    int n_references;
    bool is_kept; // in the table
    enum turn_next state;
    struct turn *next, *prev; // older, newer
};

struct turns;

// With a count_max of 0 none are kept. NULL if memory ran out.
struct turns *turns_create(int count_max, size_t bytes_max);
void turns_destroy(struct turns *store); // nothing refers to a turn any more
bool turns_keeps(const struct turns *store);
// Refers to the turn, for turns_release. NULL if there is none of this kind, or if it is another
// owner's.
struct turn *turns_acquire(struct turns *store, enum turn_kind kind, const char *id,
                           struct owner owner);
void turns_release(struct turns *store, struct turn *turn); // NULL is fine
// Refers to an open message, for turns_unclaim: no other request can continue it. NULL if it is not
// open or not there; *why then is its state, or TURN_OPEN.
struct turn *turns_claim(struct turns *store, const char *id, struct owner owner,
                         enum turn_next *why);
// The message can be continued again, unless it was. NULL is fine.
void turns_unclaim(struct turns *store, struct turn *turn);
// Keeps a copy of the struct, and takes its text over; another reference to `previous` is taken. A
// turn that is larger than all that may be kept, or for which there is no memory, is not kept.
void turns_keep(struct turns *store, const struct turn *turn);
// False: there is none, or it is another owner's.
bool turns_delete(struct turns *store, enum turn_kind kind, const char *id, struct owner owner);
// How many are in the table, and the bytes of all that are there; both are 0 without a store.
void turns_count(struct turns *store, int *count, size_t *bytes);

#endif
