// A strict check of JSON that comes byte by byte (RFC 8259, as jread.h reads it), so that tool
// calls are let out while they are written. It keeps no text, except for the character of a string
// that is being read.
#ifndef RN_SERVER_ANSWER_JSON_H
#define RN_SERVER_ANSWER_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Of a byte; several may apply. 0: nothing to tell, as within a number or for a blank.
enum json_event {
    JSON_FAULT = 1 << 0,      // no JSON continues so; the byte was not taken
    JSON_NUMBER_END = 1 << 1, // a number ended before the byte
    JSON_BEGIN = 1 << 2,      // a value starts with the byte; keys are no values
    JSON_END = 1 << 3,        // a value ends with the byte
    JSON_CHAR = 1 << 4,       // a character of a string is complete: `text`
    JSON_KEY_END = 1 << 5,    // the byte ends a key
};

struct json_walk {
    int state;
    int depth;          // of containers
    uint64_t is_object; // bit d: the container at depth d + 1 is an object
    bool is_key;        // the string that is read is a key
    const char *word;   // the rest of true, false or null
    char text[4];       // of the last character, its escape resolved
    int n_text;
    int n_left;    // bytes or digits that a character lacks
    uint32_t unit; // of an escape
    uint32_t lead; // of a surrogate pair whose second half is due; 0: none
};

// Zeros are a walk before its first byte.
unsigned json_walk_push(struct json_walk *walk, char byte);
// Behind a value that needs no more bytes.
bool json_walk_is_behind(const struct json_walk *walk);
// An object's key is due, or perhaps its end.
bool json_walk_wants_key(const struct json_walk *walk);

#endif
