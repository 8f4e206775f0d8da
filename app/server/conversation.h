// A conversation as templates know it (OpenAI's chat messages, the arguments of tool calls as
// objects), built piece by piece from the requests of APIs that have other forms. Neighbours of one
// role become one message, as Anthropic promises and as templates with strict turns need. A line
// feed separates the pieces of a message. Running out of memory is remembered for close.
#ifndef RN_SERVER_CONVERSATION_H
#define RN_SERVER_CONVERSATION_H

#include "fields.h"

enum { INPUT_ITEMS_MAX = 4096 };
enum { INPUT_NAME_BYTES_MAX = 128, INPUT_ID_BYTES_MAX = 1024 };
enum { FIELD_PATH_BYTES = 160 }; // "messages[4095].content[1000000].content[1000000]" and some

struct conversation {
    json_t *messages;  // array
    json_t *tools;     // array; NULL: none
    json_t *variables; // for the template, object; NULL: none
    json_t *custom;    // the names of custom tools, object; NULL: none
    // the message that is being built
    const char *role; // NULL: none
    const char *result_id;
    struct jbuf text, reasoning;
    bool has_text, has_reasoning;
    json_t *calls;      // NULL: none
    json_t *call_names; // of all tool calls by their ids, for the results
    bool failed;
};

void conversation_init(struct conversation *conversation);
void conversation_deinit(struct conversation *conversation);

// The pieces that follow belong to a message of this role (a literal): the open one, or a new one.
void conversation_open(struct conversation *conversation, const char *role);
// The same for the result of the tool call that the field names; always a new message. The field's
// object outlives the conversation. False: refused, as where no such call came before.
bool conversation_open_result(struct conversation *conversation, const struct fields *fields,
                              const char *name);
void conversation_text(struct conversation *conversation, const char *text, size_t len);
void conversation_reasoning(struct conversation *conversation, const char *text, size_t len);
void conversation_call(struct conversation *conversation, const char *id, const char *name,
                       json_t *arguments);
// description and parameters may be NULL.
void conversation_tool(struct conversation *conversation, const char *name, const char *description,
                       json_t *parameters);
// A custom tool; takes the function that stands for it over.
void conversation_custom(struct conversation *conversation, json_t *function);
// The body's `tools`, each read by the API's own function, which adds it. False: refused.
bool conversation_tools(struct conversation *conversation, const struct fields *body,
                        bool (*read)(struct conversation *conversation, const struct fields *tool));
// Takes value over.
void conversation_variable(struct conversation *conversation, const char *name, json_t *value);
// The template is told how much to think: the member `effort` of the body's object `name`, where it
// is there. Its value was checked.
void conversation_effort(struct conversation *conversation, const struct fields *body,
                         const char *name);
// No more pieces come. False: refused.
bool conversation_close(struct conversation *conversation, struct call *call);

// --- reading what the APIs have in common; false: refused ---

// The i-th of the array `name`, which must be an object; path is room for where it stands.
bool conversation_item(const struct fields *fields, const char *name, const json_t *array,
                       size_t index, char path[FIELD_PATH_BYTES], struct fields *out);
// A string that must be there, of 1 to max bytes.
bool conversation_string(const struct fields *fields, const char *name, size_t max,
                         const char **out, size_t *len);
// A text that must be there, of any length.
bool conversation_field(const struct fields *fields, const char *name, const char **out,
                        size_t *len);
// The field as text of the open message: a string, or an array of objects whose type is one of
// `types` ("input_text|output_text") and that have a text.
bool conversation_parts(struct conversation *conversation, const struct fields *fields,
                        const char *name, const char *types);
// The type of a part, item or tool, which must be one of `types`. absent: the type if there is
// none; NULL: it must be there.
bool conversation_type(const struct fields *fields, const char *types, const char *absent,
                       const char **out);
// Refuses a value of a wrong type.
bool conversation_refuse(const struct fields *fields, const char *name, const char *expected);

#endif
