// Choice lists: a JSON array of strings, of which the text is one.
#include "constraint/front.h"
#include "constraint/json.h"

void choices_read(struct grammar *g, const char *text, size_t len) {
    const struct json *json = json_read(g, "choices", text, len);
    if (!json) return;
    if (json->kind != JREAD_ARRAY || json->len == 0) {
        grammar_fail(g, RN_ERR_ARG, "choices: expected an array of strings that is not empty");
        return;
    }
    struct node_list list = {0};
    for (size_t i = 0; i < json->len; i++) {
        if (json->item[i]->kind != JREAD_STRING) {
            grammar_fail(g, RN_ERR_ARG, "choices: /%zu: expected a string", i);
            return;
        }
        if (!node_list_add(g, &list, node_bytes(g, json->item[i]->text, json->item[i]->len)))
            return;
    }
    g->start = grammar_rule(g, "root", 4);
    grammar_define(g, g->start, node_alt(g, list.node, list.n));
}
