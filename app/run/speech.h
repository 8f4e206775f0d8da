// An answer of a conversation, taken apart as the server does it: the reasoning is dim on the
// terminal, calls of tools are lines of their own, and the message has all three in members of
// their own, so that the template writes them in the next turn as the model did.
#ifndef RN_APP_SPEECH_H
#define RN_APP_SPEECH_H

#include "run/answer.h"
#include "run/chat.h"
#include "server/answer_parts.h"

struct speech {
    struct answer_parts parts;
    struct answer *answer; // that shows it
    enum answer_part part; // that is on the terminal
    bool is_empty;         // nothing is on the terminal yet
    size_t n_messages;     // before it
    struct jbuf content, reasoning, name, arguments;
    json_t *calls; // an array; a call that was cut off is not in it
    bool failed;   // out of memory
};

// Whether answers of the chat's model have parts.
bool speech_is_for(const struct chat *chat);
// The answer is shown by way of the speech. thinks: the prompt has opened the reasoning.
void speech_init(struct speech *speech, const struct chat *chat, bool thinks,
                 struct answer *answer);
void speech_deinit(struct speech *speech);
// The assistant's message, for the conversation. NULL: out of memory.
json_t *speech_message(const struct speech *speech);

#endif
