// Operations on strings that filters and methods share, and numbers as text. Places are bytes where
// a name does not say characters. Functions that take the render charge for their work, and keep
// the marks of the bytes.
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

// The first place of needle in s at or behind `from`, or SIZE_MAX.
size_t jinja_find(struct render *r, const struct str *s, const struct str *needle, size_t from);

enum text_case { TEXT_UPPER, TEXT_LOWER, TEXT_CAPITALIZE, TEXT_TITLE };
struct value jinja_text_case(struct render *r, const struct str *s, enum text_case to);

enum { TEXT_LEFT = 1, TEXT_RIGHT = 2 };
// Without the characters of `chars` (NULL: blanks) at the sides.
struct value jinja_text_strip(struct render *r, const struct str *s, const struct str *chars,
                              int sides);
// count < 0: all.
struct value jinja_text_replace(struct render *r, const struct str *s, const struct str *from,
                                const struct str *to, int64_t count);
// A list of the parts between separators (NULL: blanks), cut at most `max` times (-1: any).
struct value jinja_text_split(struct render *r, const struct str *s, const struct str *separator,
                              int64_t max);
// The end of the line that starts at `from`, and the start of the next: past the text's end when
// there is none. A line feed is taken to follow the text.
size_t jinja_line_end(const struct str *s, size_t from, size_t *next);

// ---------------------------------------------------------------- numbers, in every locale

enum number_result { NUMBER_BAD, NUMBER_OK, NUMBER_BIG };
enum { NUMBER_ROOM = 40 };

// An integer with a sign and blanks around. BIG: it does not fit 64 bits.
enum number_result number_parse_int(const char *text, size_t len, int64_t *out);
// repr(f): the shortest text that reads back as f. Returns its length.
size_t number_float_repr(double f, char out[NUMBER_ROOM]);

#endif
