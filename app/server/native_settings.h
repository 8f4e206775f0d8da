// The settings of a generation as llama.cpp's clients read them: generation_settings of a
// completion, params of /props and /slots.
#ifndef RN_SERVER_NATIVE_SETTINGS_H
#define RN_SERVER_NATIVE_SETTINGS_H

#include "params.h"
#include "shapes.h"

// A JSON object. shape NULL: none; seed NULL: it will be drawn.
void native_settings_write(struct jbuf *out, const struct served *served,
                           const struct params *params, const struct shape *shape,
                           const uint64_t *seed);
// The numbers of the sampling table, as members of an object.
void native_numbers_write(struct jbuf *out, const rn_sampling *sampling);
// Most tokens of a draft; 0: nothing is drafted.
int native_draft_max(const struct served *served, const struct params *params);

#endif
