// See json_edit.h.
#include "json_edit.h"

bool json_is_given(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value);
}

bool json_edit_put(struct call *call, json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) == 0 || call_refuse_memory(call);
}

// jansson copies as many members as its memory holds, and does not say so.
json_t *json_edit_copy(struct call *call, const json_t *object) {
    json_t *copy = json_copy((json_t *)(uintptr_t)object);
    if (copy && json_object_size(copy) == json_object_size(object)) return copy;
    json_decref(copy);
    call_refuse_memory(call);
    return NULL;
}
