// See template_input.h.
#include "template_input.h"

#include <string.h>

#include "jbuf.h"

const char *template_variables_taken(const json_t *variables) {
    static const char *const taken[] = {"messages", "tools", "add_generation_prompt"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (json_object_get(variables, taken[i])) return taken[i];
    return NULL;
}

// A new reference; NULL if memory ran out.
static json_t *merge(const char *defaults, const json_t *given) {
    json_t *all = json_loads(defaults, JSON_ALLOW_NUL, NULL);
    if (all && given && json_object_update(all, (json_t *)given)) {
        json_decref(all);
        return NULL;
    }
    return all;
}

bool template_variables_text(const char *defaults, const json_t *given, char **out) {
    struct jbuf text = {0};
    *out = NULL;
    if (!defaults && !given) return true;
    json_t *merged = defaults ? merge(defaults, given) : NULL;
    if (defaults && !merged) return false;
    jbuf_json(&text, merged ? merged : given);
    jbuf_bytes(&text, "", 1);
    json_decref(merged);
    if (!text.failed) *out = text.data;
    if (text.failed) jbuf_deinit(&text);
    return *out != NULL;
}

const char *content_part_key(const char *type) {
    static const char *const types[][2] = {{"text", "text"},
                                           {"input_text", "text"},
                                           {"output_text", "text"},
                                           {"refusal", "refusal"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i][0])) return types[i][1];
    return NULL;
}
