// Anthropic's Messages API: what messages.c, the handlers and the writer, has of messages_input.c,
// which reads conversations.
#ifndef RN_SERVER_MESSAGES_H
#define RN_SERVER_MESSAGES_H

#include "conversation.h"

// system, messages, tools, tool_choice "none" and thinking of a body. out is initialised, and to be
// deinitialised either way. False: refused.
bool messages_input(struct call *call, const json_t *body, struct conversation *out);
// Whether the conversation ends with the beginning of an answer. An empty one is taken away.
bool messages_prefill(struct conversation *conversation);

#endif
