// OpenAI's Responses API: responses.c is the handler and the writer. responses_input.c reads
// requests, responses_kept.c shows responses that are kept (turns.h).
#ifndef RN_SERVER_RESPONSES_H
#define RN_SERVER_RESPONSES_H

#include "conversation.h"
#include "params.h"
#include "turns.h"

// instructions, input, tools and tool_choice "none" of a body. before: the items of the turns
// before it, NULL: none; it outlives the conversation. out is initialised, and to be deinitialised
// either way. False: refused.
bool responses_input(struct call *call, const json_t *body, const json_t *before,
                     struct conversation *out);
// The API's own fields; refuses fields that would change the answer. Sets params->logprobs. False:
// refused.
bool responses_options(struct call *call, const json_t *body, struct params *params);
// The fields of a response that repeat the request, as members of an object. is_kept: it will be.
void responses_echo(const json_t *body, const struct params *params, bool is_kept,
                    struct jbuf *out);

// The response that previous_response_id names, referred to; NULL: none is named. False: refused.
bool responses_previous(struct call *call, const json_t *body, struct turn **out);
// Puts the items that item_reference names into the body's input. False: refused.
bool responses_references(struct call *call, json_t *body);
// The request's own items as struct turn has them.
void responses_items_put(const struct call *call, const json_t *body, struct jbuf *out);

#endif
