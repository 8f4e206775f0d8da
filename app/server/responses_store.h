// The responses that previous_response_id can name, in memory. Any thread; a lock inside.
//
// 1. A response holds its own items, and a reference to the response before it: a conversation's
//    texts are there once, however many turns it has.
// 2. The table has at most count_max responses, in the order of their last use. A use of a response
//    is one of all responses before it too, so the oldest conversation leaves first.
// 3. A response that left the table is freed when nothing refers to it. `bytes` has all that are
//    there, so a table within its limit bounds the memory.
#ifndef RN_SERVER_RESPONSES_STORE_H
#define RN_SERVER_RESPONSES_STORE_H

#include "jbuf.h"
#include "owner.h"

enum { RESPONSE_ID_BYTES = 48 };

// Constant once it is kept. text is its items, one on each line: those of the request, then those
// of the answer. Then comes the response's JSON before the value of "output", and behind it.
struct response {
    char id[RESPONSE_ID_BYTES];
    struct owner owner;
    struct response *previous; // referred to; NULL: none
    struct jbuf text;
    size_t input_len, output_len, head_len; // of text; the rest is the response's tail
    // the store's own
    int n_references;
    bool is_kept;                 // in the table
    struct response *next, *prev; // older, newer
};

struct responses;

// count_max 0: none are kept. NULL: out of memory.
struct responses *responses_create(int count_max, size_t bytes_max);
void responses_destroy(struct responses *store); // nothing refers to a response any more
bool responses_keeps(const struct responses *store);
// Refers to the response, for responses_release. NULL: there is none, or it is another owner's.
struct response *responses_acquire(struct responses *store, const char *id, struct owner owner);
void responses_release(struct responses *store, struct response *response); // NULL: none
// Keeps a copy of the struct, and takes its text over; another reference to `previous` is taken. A
// response that is larger than all that may be kept, or for which there is no memory, is not kept.
void responses_keep(struct responses *store, const struct response *response);
// False: there is none, or it is another owner's.
bool responses_delete(struct responses *store, const char *id, struct owner owner);
// How many are in the table, and the bytes of all that are there; NULL: none.
void responses_count(struct responses *store, int *count, size_t *bytes);

#endif
