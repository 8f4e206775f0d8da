// Anthropic's Messages API: the functions of messages_input.c, which reads conversations, for
// messages.c, the handlers and the writer.
#ifndef RN_SERVER_MESSAGES_H
#define RN_SERVER_MESSAGES_H

#include "conversation.h"

// system, messages, tools, tool_choice "none" and thinking of a body. out is initialised, and to be
// deinitialised either way. False: refused.
bool messages_input(struct call *call, const json_t *body, struct conversation *out);
// Whether the conversation ends with the start of an answer. An empty start is removed.
bool messages_prefill(struct conversation *conversation);

#endif
