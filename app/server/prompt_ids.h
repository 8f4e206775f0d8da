// Prompts as llama.cpp's clients write them: a text, or a list of texts and token ids, which
// together are one prompt.
#ifndef RN_SERVER_PROMPT_IDS_H
#define RN_SERVER_PROMPT_IDS_H

#include "call.h"

enum { PROMPT_IDS_MAX = 1 << 20, PROMPT_TEXT_MAX = 16 << 20 }; // of one prompt; bytes

// The ids of value, which messages call `path`. flags as for rn_tokenize; RN_TOKENIZE_BOS applies
// for a list's first item alone. *ids is to be freed with rn_free. False: refused.
bool prompt_ids_read(struct call *call, const json_t *value, const char *path, int flags,
                     int32_t **ids, size_t *n_ids);
// Whether a list is one prompt: it holds an id, or nothing. Another list is several prompts.
bool prompt_ids_are_one(const json_t *list);
// The value of {"prompt_string": ...}, whose name is added to path; any other value is left as it
// is. False: refused.
bool prompt_ids_unwrap(struct call *call, const json_t **value, char *path, size_t path_size);
// The ids of a text, as above.
bool prompt_ids_of_text(struct call *call, const char *text, size_t len, const char *path,
                        int flags, int32_t **ids, size_t *n_ids);
// The ids of a list of ids alone, as above. An empty list is refused.
bool prompt_ids_of_list(struct call *call, const json_t *list, const char *path, int32_t **ids,
                        size_t *n_ids);
// The text of ids, to be freed with rn_free. Long tokens would make a large text of a short list,
// so it has at most PROMPT_TEXT_MAX bytes. False: refused.
bool prompt_text_of(struct call *call, const int32_t *ids, size_t n_ids, const char *path,
                    char **text, size_t *len);
// An id of the model's vocabulary. False: refused.
bool token_id_read(struct call *call, const json_t *value, const char *path, int32_t *out);

#endif
