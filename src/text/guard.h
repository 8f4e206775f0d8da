// Guards: the character U+FDD0 in a text of strangers, where it would become a control token. Put
// in here, before a template is rendered; taken out by the tokenizer, which then knows the places
// and takes no control token that one stood in. Called by tokenizer.c, runnel_chat.c.
#ifndef RN_TEXT_GUARD_H
#define RN_TEXT_GUARD_H

#include "text/special.h"
#include "text/text_buffer.h"

#define GUARD_TEXT "\xEF\xB7\x90"

struct guard_list { // zeroed at first
    size_t *at;     // offsets in the text without guards, ascending; several may be equal
    size_t count, capacity;
};
void guard_list_deinit(struct guard_list *list);
bool guard_list_put(struct guard_list *list, size_t at); // false: out of memory

// The guards from `begin` on, up to and with `end`; they count from `begin`.
struct guard_view guard_list_view(const struct guard_list *list, size_t begin, size_t end);

// Appends the text without its guards, and their places. False: out of memory.
bool guard_remove(const char *text, size_t len, struct text_buffer *out, struct guard_list *list);

// What a string is to the template that it is given to.
enum guard_role {
    GUARD_STRING,
    GUARD_NAME, // a key, or what templates compare with: a plain word stays as it is
};

// Appends a string with its own guards dropped and new ones in all that could become a control
// token, alone or together with what a template writes before and behind it:
// - after the first character of each occurrence of a control token's text (two, if that is all of
//   it);
// - at its beginning or end, where it has the beginning or the end of such a text there, or is a
//   part of one. Plain words are left alone, templates make markup of them: "<|" + role + "|>".
rn_status guard_put(const struct tokenizer *tokenizer, const char *text, size_t len,
                    enum guard_role role, struct text_buffer *out, rn_error *err);

#endif
