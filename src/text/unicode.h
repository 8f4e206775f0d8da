// UTF-8 and the character classes that pre-tokenizers split on. Works on any bytes: what is not
// well-formed UTF-8 is told apart, never guessed at. Called by the pre-tokenizers, the byte-level
// alphabet, the detokenizer.
#ifndef RN_TEXT_UNICODE_H
#define RN_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum unicode_class {
    UNICODE_OTHER,  // also every ill-formed byte
    UNICODE_LETTER, // \p{L}
    UNICODE_NUMBER, // \p{N}
    UNICODE_SPACE,  // \s, the property White_Space
};

enum unicode_form {
    UNICODE_WELL,    // a character
    UNICODE_ILL,     // a maximal ill-formed part: no continuation makes it a character
    UNICODE_PARTIAL, // the bytes end inside what may become a character
};

// Looks at the start of text (len at least 1) and says what stands there and how long it is.
enum unicode_form unicode_scan(const uint8_t *text, size_t len, size_t *n);

// The code point at the start of text (len at least 1) and its length; -1 and 1 for a byte that
// starts no complete well-formed character.
int32_t unicode_decode(const uint8_t *text, size_t len, size_t *n);
// Writes 1 to 4 bytes and returns how many; cp must be a scalar value.
size_t unicode_encode(uint32_t cp, uint8_t out[4]);

enum unicode_class unicode_class(int32_t cp); // cp may be -1

extern const uint8_t unicode_ascii[128]; // the class of each ASCII character

// The class of the unit at the start of text (len at least 1), and its length.
static inline enum unicode_class unicode_class_at(const uint8_t *text, size_t len, size_t *n) {
    if (text[0] < 0x80) {
        *n = 1;
        return (enum unicode_class)unicode_ascii[text[0]];
    }
    return unicode_class(unicode_decode(text, len, n));
}

// Whether all of it is well-formed.
bool unicode_is_valid(const char *text, size_t len);

// Copies text for a message: ill-formed parts become '?', what does not fit is left out at a
// character's border. out (size at least 1) ends with a NUL.
void unicode_quote(const char *text, size_t len, char *out, size_t size);

#endif
