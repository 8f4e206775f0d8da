// An answer that a model could write: however it is cut, the parts are the same, the arguments of
// calls that have an end are JSON objects, and without tools there are no calls.
//
// Input: a byte that chooses the template, one with flags and the size of the pieces, the text.
#include <stdlib.h>
#include <string.h>

#include "answer_parts.h"
#include "answer_types.h"
#include "helpers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const templates[] = {
    "",
    "<think>",
    "<tool_call>",
    "<think><tool_call>",
    "<function=",
    "<think><arg_key>",
    "[THINK][TOOL_CALLS]",
    "<|python_tag|>",
    "<|channel|>",
    "<|tool_call_begin|>",
    "<\uFF5Ctool\u2581call\u2581begin\uFF5C>",
    "<minimax:tool_call>",
    "<TOOLCALL>",
    "<think><|tool_call_start|>",
    "<|channel>thought<|tool_call>",
    "<|START_THINKING|><|START_ACTION|><|START_RESPONSE|>",
    "<|inner_prefix|><|tools_prefix|>",
    "<seed:think><seed:tool_call>",
    "<think><answer><tool_calls>",
    "<function_calls>",
    "<|python_start|>",
    "<think>\uFF5CDSML\uFF5C",
};

// Of the function f, whose parameters take values of several kinds.
static json_t *types_make(void) {
    static const char text[] =
        "[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":{\"type\":\"string\"}"
        ","
        "\"b\":{\"type\":[\"array\",\"object\"]},\"c\":{\"anyOf\":[{\"type\":\"string\"},"
        "{\"type\":\"null\"}]},\"d\":{\"type\":\"boolean\"}}}}}]";
    json_t *tools = json_loads(text, 0, NULL);
    json_t *types = answer_types_of(tools);
    json_decref(tools);
    if (!types) abort();
    return types;
}

struct parts {
    struct jbuf text; // all parts, with a byte for its kind before each that differs from the last
    struct jbuf arguments;
    int last, n_tools;
    bool has_end; // the last call
    size_t most;  // bytes of a part: of a control character, six are written
};

static void end_arguments(struct parts *parts) {
    if (!parts->arguments.len) return;
    struct jread r;
    jread_init(&r, parts->arguments.data, parts->arguments.len);
    const bool whole = jread_peek(&r) == JREAD_OBJECT && jread_skip(&r) && jread_finish(&r);
    if (whole != parts->has_end) abort();
    jbuf_clear(&parts->arguments);
}

static void on_part(void *ctx, enum answer_part part, int tool, const char *text, size_t len) {
    struct parts *parts = ctx;
    const int kind = (int)part << 16 | tool;
    if ((len == 0) != (part == PART_TOOL_END) || len > parts->most) abort();
    if (part == PART_TOOL_END) {
        if (parts->has_end || tool != parts->n_tools - 1) abort();
        parts->has_end = true;
        return;
    }
    if (kind != parts->last) {
        end_arguments(parts);
        jbuf_printf(&parts->text, "%d:", kind);
    }
    parts->last = kind;
    if (part == PART_TOOL && tool != parts->n_tools++) abort();
    if (part == PART_TOOL) parts->has_end = false;
    if (part == PART_TOOL_ARGUMENTS && parts->has_end) abort();
    if (part == PART_TOOL_ARGUMENTS) jbuf_bytes(&parts->arguments, text, len);
    jbuf_bytes(&parts->text, text, len);
}

static struct parts run(const char *tmpl, unsigned flags, const json_t *types, const char *text,
                        size_t len, size_t piece) {
    struct parts parts = {.last = -1, .most = 6 * len + 64};
    struct answer_parts answer;
    parts_init(&answer, answer_marks_of(tmpl), flags & 1, types, flags & 2);
    for (; len > piece; text += piece, len -= piece)
        parts_feed(&answer, text, piece, false, on_part, &parts);
    parts_feed(&answer, text, len, true, on_part, &parts);
    parts_deinit(&answer);
    end_arguments(&parts);
    return parts;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    const char *tmpl = templates[data[0] % (sizeof templates / sizeof *templates)];
    const unsigned flags = data[1];
    const char *text = (const char *)data + 2;
    json_t *types = flags & 0x80 ? NULL : types_make();
    struct parts whole = run(tmpl, flags, types, text, size - 2, size);
    struct parts cut = run(tmpl, flags, types, text, size - 2, 1 + (flags >> 2) % 16);
    if (whole.text.len != cut.text.len) abort();
    if (whole.text.len && memcmp(whole.text.data, cut.text.data, whole.text.len) != 0) abort();
    if (whole.n_tools && !(flags & 1)) abort();
    json_decref(types);
    struct parts *all[] = {&whole, &cut};
    for (int i = 0; i < 2; i++) {
        jbuf_deinit(&all[i]->text);
        jbuf_deinit(&all[i]->arguments);
    }
    return 0;
}
