// What users give to chat templates besides messages and tools: variables, and contents that have
// parts. The same for requests and for the conversations of `runnel run`.
#ifndef RN_SERVER_TEMPLATE_INPUT_H
#define RN_SERVER_TEMPLATE_INPUT_H

#include <jansson.h>
#include <stdbool.h>

// A name among the variables that messages, tools and the ending of a prompt have; NULL if there is
// none.
const char *template_variables_taken(const json_t *variables);
// The variables as JSON text, to be freed: defaults (JSON text, or NULL), replaced by given (an
// object, or NULL). *out is NULL if there are none. False: out of memory.
bool template_variables_text(const char *defaults, const json_t *given, char **out);

// The member of a content's part that holds its text; NULL if the model cannot read such a part.
const char *content_part_key(const char *type);
// The types of the parts that it can read, as refusals list them.
#define CONTENT_PART_TYPES "text|input_text|output_text|refusal"
// The sentence for such a part, after its type.
#define CONTENT_TEXT_ALONE "is not supported: the model reads text alone"

#endif
