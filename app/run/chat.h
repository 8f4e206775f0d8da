// A chat: the template and the messages so far, for one exchange or for a conversation.
#ifndef RN_APP_CHAT_H
#define RN_APP_CHAT_H

#include "server/answer_marks.h"
#include "terminal/json.h"

struct chat {
    const rn_model *model;
    rn_chat_template *tmpl;
    const char *template_path; // of --chat-template; NULL: the model's own
    json_t *messages;          // an array; a system message comes first
    char *tools;               // a JSON array, or NULL
    char *variables;           // of --chat-template-kwargs: a JSON object, or NULL
    json_t *types;             // of their parameters (answer_types.h); NULL: there are none
    int flags;                 // of rn_tokenize
    struct answer_marks marks; // of the template
};

// The template that a name of ours or a file gives; NULL: the model's own, which it must have.
// *source: its text, to be freed; NULL with the model's own; source may be NULL. Returns as
// chat_open does.
int chat_template_open(const rn_model *model, const char *name, rn_chat_template **out,
                       char **source);

// The variables of --chat-template-kwargs as JSON text, to be freed; NULL if there are none.
// Returns as chat_open does.
int chat_variables_get(const struct options *options, char **out);

// The template, --system and --tools of the options. On failure the error has been printed, the
// exit code is returned and there is nothing to close.
int chat_open(struct chat *chat, const struct options *options, const rn_model *model);
void chat_close(struct chat *chat);

// Adds the messages of a file, a JSON array of objects with a role. Returns as chat_open does.
int chat_load(struct chat *chat, const char *path);
// Takes a message over; NULL is one for which memory ran out. False: out of memory.
bool chat_append(struct chat *chat, json_t *message);
// False: out of memory. Bytes that are not UTF-8 become U+FFFD.
bool chat_add(struct chat *chat, const char *role, const char *text, size_t len);
void chat_drop(struct chat *chat);  // the last message
void chat_reset(struct chat *chat); // all but a system message
// The oldest turn: messages from behind the system message to the second message of the user's.
// False: there is one turn at most, and it stays.
bool chat_drop_oldest(struct chat *chat);
// The last turn: the last message of the user's, and all behind it. False: there is none.
bool chat_drop_turn(struct chat *chat);
size_t chat_turns(const struct chat *chat);     // messages of the user's
bool chat_is_answered(const struct chat *chat); // the last message is not the user's
// The oldest call of the last answer that has no result yet: {"id", "function": {"name"}}.
// Borrowed; NULL: none. *left: how many there are.
const json_t *chat_open_call(const struct chat *chat, size_t *left);
// The result of that call. False: out of memory.
bool chat_add_result(struct chat *chat, const json_t *call, const char *text);
// The system message, or NULL. Borrowed.
const char *chat_system(const struct chat *chat);
// Forgets the conversation; an empty text is no system message. False: out of memory.
bool chat_set_system(struct chat *chat, const char *text);

// The conversation as token ids (rn_free); answer: with the opening of the assistant's turn. On
// failure the error has been printed and the exit code is returned. reasoning: how the answer's
// reasoning would be bounded, without a budget; may be NULL.
int chat_tokens(const struct chat *chat, bool answer, int32_t **ids, size_t *n_ids,
                rn_reasoning *reasoning);

#endif
