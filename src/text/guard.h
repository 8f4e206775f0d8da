// Guards: the noncharacter U+FDD0 in a text, where input would become a control token. They carry
// the borders of input through a plain string, from rn_chat_render to rn_tokenize. They are
// inserted here, after a template was rendered. The tokenizer removes them and takes no control
// token that a guard stood in. Called by tokenizer.c, runnel_chat.c.
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

// The guards from `begin` on, up to and with `end`; their base is `begin`.
struct guard_view guard_list_view(const struct guard_list *list, size_t begin, size_t end);

// Appends the text without its guards, and their places. False: out of memory.
bool guard_remove(const char *text, size_t len, struct text_buffer *out, struct guard_list *list);

// Appends input with its own guards dropped and new ones in all that could become a control token,
// alone or together with the template's text before and behind it. A guard stands:
// - after the first character of each occurrence of a control token's text (two guards, if that
//   character is all of it).
// - at the input's start or end, where the start or the end of such a text is, or where the input
//   is a part of one.
// Plain words are left alone, because templates make markup of them: "<|" + role + "|>".
rn_status guard_put(const struct tokenizer *tokenizer, const char *text, size_t len,
                    struct text_buffer *out, rn_error *err);

// Appends a rendered text. Stretches whose bytes have marks other than 0 are input; the rest is
// the template's and stays as it is.
rn_status guard_input(const struct tokenizer *tokenizer, const char *text, const uint8_t *marks,
                      size_t len, struct text_buffer *out, rn_error *err);

#endif
