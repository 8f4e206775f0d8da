// The types that a request's tools declare for their parameters. Calls between tags carry no type:
// the text 12 is a number or a string, as the parameter's schema says. Made by generation.c from
// the request's tools; asked by answer_calls.c for each parameter of a call.
#ifndef RN_SERVER_ANSWER_TYPES_H
#define RN_SERVER_ANSWER_TYPES_H

#include <jansson.h>
#include <stddef.h>

// tools: an array as OpenAI has it. The result names the functions, their parameters and the kinds
// of value that each takes; schemas that say nothing of it are left out. NULL: out of memory.
json_t *answer_types_of(const json_t *tools);
// The parameters of a function; NULL: none are known. types may be NULL.
const json_t *answer_types_function(const json_t *types, const char *name, size_t len);
// The kinds of value that the parameter takes, as bits 1 << enum jread_kind; 0: not known.
unsigned answer_types_kinds(const json_t *function, const char *key, size_t len);

#endif
