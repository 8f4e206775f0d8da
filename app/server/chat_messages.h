// A conversation as OpenAI's clients send it, checked and rewritten for chat templates: roles that
// they know, contents that are one text, arguments of tool calls as objects. Shared by all
// endpoints whose body has "messages". Workers only.
#ifndef RN_SERVER_CHAT_MESSAGES_H
#define RN_SERVER_CHAT_MESSAGES_H

#include "call.h"

enum { MESSAGES_MAX = 4096, TOOLS_MAX = 1024, TOOL_NAME_MAX = 64, DOCUMENTS_MAX = 1024 };

struct chat_messages {
    json_t *messages;
    json_t *tools;     // NULL: none
    json_t *variables; // further template variables; NULL: none
    json_t *custom;    // the names of custom tools; NULL: none
    bool add_generation_prompt;
    bool continue_final; // the last message is the start of the answer
};

// Reads messages, tools, tool_choice "none", add_generation_prompt, continue_final_message,
// chat_template_kwargs, documents and reasoning_effort. False: refused, and there is nothing to
// free.
bool chat_messages_read(struct call *call, const json_t *body, struct chat_messages *out);
void chat_messages_deinit(struct chat_messages *chat);

#endif
