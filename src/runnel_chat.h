// What a caller gives to a chat, on its way to the template: JSON text is copied, with guards in
// its strings, and with a mark where an answer is to be continued. Called by runnel_chat.c.
#ifndef RN_RUNNEL_CHAT_H
#define RN_RUNNEL_CHAT_H

#include <stdio.h>

#include "base/jread.h"
#include "text/guard.h"

struct chat_copy {
    const struct tokenizer *guard_for; // NULL: strings stay as they are
    FILE *out;
    rn_error *err;
    size_t blank_bytes; // white space at the end of the marked content
    struct text_buffer plain, guarded;
};
void chat_copy_deinit(struct chat_copy *copy);

// Each takes JSON text that was checked already.
rn_status chat_copy_value(struct chat_copy *copy, const char *json);
rn_status chat_copy_member(struct chat_copy *copy, struct jread *r); // the one that comes next
// An array of messages; mark: the last one's content gets the mark. RN_ERR_ARG: it is not an
// assistant's, or has no text.
rn_status chat_copy_messages(struct chat_copy *copy, const char *json, bool mark);

// Ends the text where the mark stands, as the template would have ended the content; RN_ERR_ARG: it
// is not there.
rn_status chat_cut(const struct chat_copy *copy, char *text, size_t *len, rn_error *err);

// As a JSON string; ill-formed bytes become U+FFFD.
void chat_write_string(const char *text, size_t len, FILE *out);

#endif
