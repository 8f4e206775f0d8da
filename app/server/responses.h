// OpenAI's Responses API, without its memory: the functions of responses_input.c, which reads
// requests, for responses.c, the handler and the writer.
#ifndef RN_SERVER_RESPONSES_H
#define RN_SERVER_RESPONSES_H

#include "conversation.h"
#include "params.h"

// instructions, input, tools and tool_choice "none" of a body. out is initialised, and to be
// deinitialised either way. False: refused.
bool responses_input(struct call *call, const json_t *body, struct conversation *out);
// The API's own fields; refuses fields that would change the answer. Sets params->logprobs. False:
// refused.
bool responses_options(struct call *call, const json_t *body, struct params *params);
// The fields of a response that repeat the request, as members of an object.
void responses_echo(const json_t *body, const struct params *params, struct jbuf *out);

#endif
