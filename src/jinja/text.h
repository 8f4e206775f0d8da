// Operations on strings that filters and methods share. All are by characters and charge for their
// work.
#ifndef RN_JINJA_TEXT_H
#define RN_JINJA_TEXT_H

#include "jinja/chars.h"
#include "jinja/value.h"

enum text_case { TEXT_UPPER, TEXT_LOWER, TEXT_CAPITALIZE, TEXT_TITLE, TEXT_SWAP, TEXT_FOLD };
struct value jinja_text_case(struct render *r, const struct str *s, enum text_case to);

enum { TEXT_LEFT = 1, TEXT_RIGHT = 2 };
// Without the characters of `chars` (NULL: blanks) at the sides.
struct value jinja_text_strip(struct render *r, const struct str *s, const struct str *chars,
                              int sides);
// count < 0: all.
struct value jinja_text_replace(struct render *r, const struct str *s, const struct str *from,
                                const struct str *to, int64_t count);
// Padded to a width of characters; align as in formats.
struct value jinja_text_pad(struct render *r, const struct str *s, int64_t width, uint32_t fill,
                            char align);
struct value jinja_text_join(struct render *r, const struct str *separator, struct value items,
                             struct value attribute);
// The line at *at: [from, to) without its end; false after the last.
bool jinja_text_line(const struct str *s, size_t *at, size_t *from, size_t *to);

#endif
