// The sampling parameters of a request: their check, and the copy that a sequence keeps.
#ifndef RN_ENGINE_CHOICE_SAMPLING_H
#define RN_ENGINE_CHOICE_SAMPLING_H

#include "base/status.h"
#include "plan/choice.h"
#include "runnel.h"
#include "text/tokenizer.h"

// Checks ranges; RN_ERR_ARG names the field and the value. Token ids are sampling_dup's.
rn_status sampling_check(const rn_sampling *sampling, rn_error *err);

// Copies checked parameters for the life of a sequence. The ids of its logit biases are checked.
// Biases are sorted by id; those of one id stay in the given order. The breakers' texts become the
// tokens whose text contains one of them (none when DRY is off).
rn_status sampling_dup(const rn_sampling *sampling, const struct tokenizer *tokenizer,
                       rn_sampling *out, struct token_set *breakers, rn_error *err);
void sampling_deinit(rn_sampling *sampling, struct token_set *breakers);

#endif
