// Operations on strings that filters and methods share. Places are bytes where a name does not say
// characters. All charge for their work, and all keep the marks of the bytes.
#ifndef RN_JINJA_TEXT_H
#define RN_JINJA_TEXT_H

#include "jinja/chars.h"
#include "jinja/value.h"

bool str_same(const struct str *a, const struct str *b);
bool str_equals(const struct str *s, const char *text);

size_t jinja_n_chars(struct str *s);
// The byte offset of the n-th character (n at most the number of characters).
size_t jinja_char_offset(struct str *s, size_t n);
// The end of the character that starts at `at`.
size_t jinja_char_end(const struct str *s, size_t at);

// The first place of needle in [from, to) of s, or SIZE_MAX.
size_t jinja_find(struct render *r, const struct str *s, const struct str *needle, size_t from,
                  size_t to);
size_t jinja_find_last(struct render *r, const struct str *s, const struct str *needle, size_t to);

// TEXT_TITLE starts words as str.title does, TEXT_TITLE_FILTER as the filter does.
enum text_case { TEXT_UPPER, TEXT_LOWER, TEXT_CAPITALIZE, TEXT_TITLE, TEXT_TITLE_FILTER };
struct value jinja_text_case(struct render *r, const struct str *s, enum text_case to);

enum { TEXT_LEFT = 1, TEXT_RIGHT = 2 };
// Without the characters of `chars` (NULL: blanks) at the sides.
struct value jinja_text_strip(struct render *r, const struct str *s, const struct str *chars,
                              int sides);
// count < 0: all.
struct value jinja_text_replace(struct render *r, const struct str *s, const struct str *from,
                                const struct str *to, int64_t count);
struct value jinja_text_join(struct render *r, const struct str *separator, struct value items,
                             struct value attribute);
// A list of the parts between separators (NULL: blanks), cut at most `max` times (-1: any).
struct value jinja_text_split(struct render *r, const struct str *s, const struct str *separator,
                              int64_t max, bool from_right);
// The line at *at: [from, to) without its end; false after the last.
bool jinja_text_line(const struct str *s, size_t *at, size_t *from, size_t *to);

#endif
