// allowed_token_ids: the only tokens that a text may have.
#ifndef RN_SERVER_ALLOWED_TOKENS_H
#define RN_SERVER_ALLOWED_TOKENS_H

#include "call.h"

// The set of the call's ids, for the engine; *out stays NULL where any token is allowed. It is to
// outlive the engine's request (free). False: out of memory.
bool allowed_make(const struct call *call, uint64_t **out);
// NULL: no constraint.
rn_constraint allowed_constraint(uint64_t *set);

#endif
