// Objects of a request's JSON on their way from one API's form to another's. Workers only.
#ifndef RN_SERVER_JSON_EDIT_H
#define RN_SERVER_JSON_EDIT_H

#include "call.h"

bool json_is_given(const json_t *object, const char *key); // it is there, and not null
// Sets a member; takes value over, also where it is NULL because memory ran out. False: refused.
bool json_edit_put(struct call *call, json_t *object, const char *key, json_t *value);
// An object of its own with the same members; NULL: refused.
json_t *json_edit_copy(struct call *call, const json_t *object);

#endif
