// UTF-8 and the traits of characters that texts are split on. Works on any bytes: parts that are
// not well-formed UTF-8 are reported as such, never guessed at. Called by the splitters, the
// normalizer, the byte-level alphabet, the detokenizer.
#ifndef RN_UNICODE_UNICODE_H
#define RN_UNICODE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The traits of a character, from its general category: a set of these, so that the class of a
// pattern is a mask. Controls, unassigned characters and ill-formed bytes have none.
enum unicode_trait {
    UNICODE_CAPITAL = 1,      // \p{Lu}, \p{Lt}
    UNICODE_SMALL = 2,        // \p{Ll}
    UNICODE_UNCASED = 4,      // \p{Lm}, \p{Lo}
    UNICODE_MARK = 8,         // \p{M}
    UNICODE_NUMBER = 16,      // \p{N}
    UNICODE_PUNCTUATION = 32, // \p{P}
    UNICODE_SYMBOL = 64,      // \p{S}
    UNICODE_SPACE = 128,      // \s, the property White_Space
    UNICODE_LETTER = UNICODE_CAPITAL | UNICODE_SMALL | UNICODE_UNCASED, // \p{L}
};

enum unicode_form {
    UNICODE_WELL,    // a character
    UNICODE_ILL,     // a maximal ill-formed part: no continuation makes it a character
    UNICODE_PARTIAL, // the bytes end inside a part that may become a character
};

// Looks at the start of text (len at least 1): the kind of the unit there, and its length.
enum unicode_form unicode_scan(const uint8_t *text, size_t len, size_t *n);

// The code point at the start of text (len at least 1) and its length; -1 and 1 for a byte that
// starts no complete well-formed character.
int32_t unicode_decode(const uint8_t *text, size_t len, size_t *n);
// Writes 1 to 4 bytes and returns how many; cp must be a scalar value.
size_t unicode_encode(uint32_t cp, uint8_t out[4]);

unsigned unicode_traits(int32_t cp); // cp may be -1

extern const uint8_t unicode_ascii[128]; // the traits of each ASCII character

// The traits of the unit at the start of text (len at least 1), and its length.
static inline unsigned unicode_traits_at(const uint8_t *text, size_t len, size_t *n) {
    if (text[0] < 0x80) {
        *n = 1;
        return unicode_ascii[text[0]];
    }
    return unicode_traits(unicode_decode(text, len, n));
}

// \w: letters, marks, decimal and letter numbers, connectors, joiners. cp may be -1.
bool unicode_is_word(int32_t cp);

// Whether all of it is well-formed.
bool unicode_is_valid(const char *text, size_t len);

// Copies text for a message: ill-formed parts become '?', and text that does not fit is cut at a
// character's border. out (size at least 1) ends with a NUL.
void unicode_quote(const char *text, size_t len, char *out, size_t size);

#endif
