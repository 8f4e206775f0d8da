// The patterns of pre-tokenizers, written by hand: each function is one regular expression, which
// its comment gives. A test compares every one with PCRE2. Called by split.c, chosen by
// pretokenizer.c. Any bytes may come: an ill-formed byte is a character without traits.
#ifndef RN_TEXT_PATTERN_H
#define RN_TEXT_PATTERN_H

#include <stddef.h>
#include <stdint.h>

// The length of the match at the start of text (len at least 1). 0: none there, and none that
// begins in the first *skip bytes (1 to len). Going through a text from match to match and from
// skip to skip takes time linear in its length.
typedef size_t (*pattern_fn)(const uint8_t *text, size_t len, size_t *skip);

// --- patterns that match everywhere: a text is nothing but their matches (pattern_words.c,
// pattern_cased.c) ---

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t pattern_gpt2(const uint8_t *text, size_t len, size_t *skip);

// C|[^\r\n\p{L}\p{N}]?\p{L}+|D| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// where C is (?i:'s|'t|'re|'ve|'m|'ll|'d) and D the digits: \p{N}{1,3} here
size_t pattern_llama3(const uint8_t *text, size_t len, size_t *skip);
// D is \p{N}
size_t pattern_qwen2(const uint8_t *text, size_t len, size_t *skip);
// D is \p{N}+
size_t pattern_long_numbers(const uint8_t *text, size_t len, size_t *skip);
// D is \p{N}, and marks are letters: C|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|D| ?[^\s\p{L}\p{M}\p{N}]+...
size_t pattern_qwen35(const uint8_t *text, size_t len, size_t *skip);
// D is \p{N}, and no line ends behind the other characters: ... ?[^\s\p{L}\p{N}]+|\s*[\r\n]+...
size_t pattern_seed_coder(const uint8_t *text, size_t len, size_t *skip);

// With U for [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and L for [\p{Ll}\p{Lm}\p{Lo}\p{M}]:
// [^\r\n\p{L}\p{N}]?U*L+C?|[^\r\n\p{L}\p{N}]?U+L*C?|D|
// ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ where D is \p{N}{1,3}
size_t pattern_gpt4o(const uint8_t *text, size_t len, size_t *skip);
// without C, and D is \p{N}
size_t pattern_tekken(const uint8_t *text, size_t len, size_t *skip);
// with C, and D is \p{N}
size_t pattern_youtu(const uint8_t *text, size_t len, size_t *skip);

// [^\n]+|[\n]+
size_t pattern_lines(const uint8_t *text, size_t len, size_t *skip);

// --- patterns with gaps between their matches (pattern_parts.c) ---

size_t pattern_number(const uint8_t *text, size_t len, size_t *skip);        // \p{N}
size_t pattern_numbers(const uint8_t *text, size_t len, size_t *skip);       // \p{N}+
size_t pattern_numbers_3(const uint8_t *text, size_t len, size_t *skip);     // \p{N}{1,3}
size_t pattern_digits_3(const uint8_t *text, size_t len, size_t *skip);      // [0-9][0-9][0-9]
size_t pattern_line_end(const uint8_t *text, size_t len, size_t *skip);      // [\r\n]
size_t pattern_space_end(const uint8_t *text, size_t len, size_t *skip);     // \s+$, at every line
size_t pattern_white(const uint8_t *text, size_t len, size_t *skip);         // \s
size_t pattern_word(const uint8_t *text, size_t len, size_t *skip);          // \w+|[^\w\s]+
size_t pattern_space_letters(const uint8_t *text, size_t len, size_t *skip); // \s?\p{L}+
size_t pattern_space_marks(const uint8_t *text, size_t len, size_t *skip);   // \s?\p{P}+
// One character of \p{P}, as of Unicode 8, or of ASCII's $+<=>^`|~
size_t pattern_punctuation(const uint8_t *text, size_t len, size_t *skip);
// [\p{P}$+<=>^~|]+
size_t pattern_punctuation_run(const uint8_t *text, size_t len, size_t *skip);
// [\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+
size_t pattern_han_kana(const uint8_t *text, size_t len, size_t *skip);
// [\x{800}-\x{9FA5}\x{AC00}-\x{D7FF}]+
size_t pattern_asian(const uint8_t *text, size_t len, size_t *skip);
// \s?[...]+ with the cased letters that deepseek-llm lists
size_t pattern_space_cased(const uint8_t *text, size_t len, size_t *skip);
// \s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+
size_t pattern_space_signs(const uint8_t *text, size_t len, size_t *skip);
// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
//  ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
size_t pattern_deepseek_v3(const uint8_t *text, size_t len, size_t *skip);
// \p{N}+ over the characters that stand for the bytes in the byte-level alphabet
size_t pattern_byte_numbers(const uint8_t *text, size_t len, size_t *skip);
size_t pattern_byte_number(const uint8_t *text, size_t len, size_t *skip); // \p{N} over them

#endif
