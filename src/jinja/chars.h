// Characters as Python's str sees them: blanks, and case with its expansions. Code points
// come from valid UTF-8. Called by the lexer and by everything that works on strings.
#ifndef RN_JINJA_CHARS_H
#define RN_JINJA_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool chars_is_blank(int32_t cp);
bool chars_is_cased(int32_t cp);

// The bytes of blanks at the start or end of a text.
size_t chars_blank_prefix(const char *text, size_t len);
size_t chars_blank_suffix(const char *text, size_t len);

// The code point that ends before byte `at`, at > 0; *start is where it starts.
int32_t chars_before(const char *text, size_t at, size_t *start);

enum chars_case { CHARS_UPPER, CHARS_LOWER, CHARS_TITLE };
// The code points that cp becomes, 1 to 3.
size_t chars_map(enum chars_case to, int32_t cp, uint32_t out[3]);
// Whether the capital sigma at `at` ends a word, where it becomes a final one.
bool chars_is_final_sigma(const char *text, size_t len, size_t at);

#endif
