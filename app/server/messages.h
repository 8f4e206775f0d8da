// Anthropic's Messages API: the functions of messages_input.c, which reads conversations, for
// messages.c, the handlers and the writer.
#ifndef RN_SERVER_MESSAGES_H
#define RN_SERVER_MESSAGES_H

#include "conversation.h"

// system, messages, tools, tool_choice "none" and thinking of a body. before: the messages of the
// turns before it, NULL if there are none; it outlives the conversation. out is initialised, and to
// be deinitialised either way. False: refused.
bool messages_input(struct call *call, const json_t *body, const json_t *before,
                    struct conversation *out);
// Whether the conversation ends with the start of an answer. An empty start is removed.
bool messages_prefill(struct conversation *conversation);

#endif
