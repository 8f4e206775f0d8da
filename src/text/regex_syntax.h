// Oniguruma's regular expressions, which tokenizer.json is written in, as PCRE2 reads them.
// Internal to regex.c.
#ifndef RN_TEXT_REGEX_SYNTAX_H
#define RN_TEXT_REGEX_SYNTAX_H

#include "text/vocab.h"

enum { REGEX_BYTES_MAX = 1 << 14 }; // longer patterns are refused

// The pattern for PCRE2, the caller's to free. RN_ERR_UNSUPPORTED, with the reason, where the two
// differ in a way that is not bridged here.
rn_status regex_syntax_read(struct text_span pattern, char **out, size_t *out_len, rn_error *err);

#endif
