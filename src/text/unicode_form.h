// The normalization forms of Unicode, and lower case, over text that may hold any bytes: ill-formed
// ones stay as they are, and nothing is composed across them. Called by normalizer.c.
#ifndef RN_TEXT_UNICODE_FORM_H
#define RN_TEXT_UNICODE_FORM_H

#include "text/text_buffer.h"

enum unicode_form_kind { UNICODE_NFC, UNICODE_NFD, UNICODE_NFKC, UNICODE_NFKD, UNICODE_LOWERCASE };

// Whether the text is certain to be in the form already; no means that it is not known.
bool unicode_form_has(enum unicode_form_kind form, const uint8_t *text, size_t len);

// Appends the text in the form; false: out of memory. Takes n log n in the length, for every text.
bool unicode_form_put(enum unicode_form_kind form, const uint8_t *text, size_t len,
                      struct text_buffer *out);

#endif
