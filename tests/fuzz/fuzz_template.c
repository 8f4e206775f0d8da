// A hostile template with hostile variables: any input is refused with a message, or renders to
// valid UTF-8 within the limits, twice the same.
//
// Input: the source, a NUL, the JSON text of the variables. Without the NUL a conversation is
// given.
#include <stdlib.h>
#include <string.h>

#include "text/jinja/limits.h"
#include "text/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char conversation[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":"
    "\"U\\n\\u00e9\"},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":"
    "\"f\","
    "\"arguments\":{\"a\":[1,2.5,true]}}}]},{\"role\":\"tool\",\"content\":\"T\"}],"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\","
    "\"parameters\":"
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}"
    "}},"
    "\"required\":[\"a\"]}}}],\"add_generation_prompt\":true,\"bos_token\":\"<s>\",\"eos_token\":"
    "\"</s>\","
    "\"list\":[3,1,2],\"words\":[\"b\",\"A\"],\"d\":{\"a\":1,\"b\":[{}]},\"n\":7,\"f\":2.5,"
    "\"name\":\"Ada\"}";

// Low enough for thousands of runs in a second.
static const struct jinja_limits limits = {.steps = 1 << 15, .output = 1 << 16, .memory = 1 << 20};

struct result {
    rn_status status;
    rn_error err;
    char *text;
    size_t len;
};

static struct result render(const struct template *tmpl, const char *globals, size_t len) {
    struct result result = {0};
    result.status = jinja_render(tmpl, globals, len, 1753885800, &limits, &result.text, &result.len,
                                 &result.err);
    return result;
}

static void check_result(const struct result *result) {
    if (result->status != RN_OK) {
        if (result->text || result->err.status != result->status || !result->err.message[0])
            abort();
        if (result->status != RN_ERR_MODEL && result->status != RN_ERR_ARG) abort();
        return;
    }
    if (result->len > limits.output || result->text[result->len] != 0) abort();
    if (!unicode_is_valid(result->text, result->len)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *source = (const char *)data;
    const char *nul = size ? memchr(source, 0, size) : NULL;
    const size_t source_len = nul ? (size_t)(nul - source) : size;
    const char *globals = nul ? nul + 1 : conversation;
    const size_t globals_len = nul ? size - source_len - 1 : sizeof conversation - 1;

    struct template *tmpl;
    rn_error err = {0};
    const rn_status status = template_create(source, source_len, &tmpl, &err);
    if (status != RN_OK) {
        if (tmpl || status != RN_ERR_MODEL || err.status != status || !err.message[0]) abort();
        return 0;
    }
    const struct result first = render(tmpl, globals, globals_len);
    const struct result second = render(tmpl, globals, globals_len);
    check_result(&first);
    if (first.status != second.status || first.len != second.len) abort();
    if (first.text && memcmp(first.text, second.text, first.len) != 0) abort();
    free(first.text);
    free(second.text);
    template_destroy(tmpl);
    return 0;
}
