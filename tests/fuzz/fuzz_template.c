// A hostile template with hostile variables: any input is refused with a message, or renders to
// valid UTF-8 within the limits. Variables as input give the same text as without marks, and every
// byte has the input's mark or none.
//
// Input: the source, a NUL, the JSON text of the variables. Without the NUL a conversation is
// given. A first byte below 8 chooses a valid template instead, and all that follows is the text of
// its variables: messages and tools as strangers could send them.
#include <stdlib.h>
#include <string.h>

#include "jinja/template.h"
#include "jinja/value.h"
#include "unicode/unicode.h"

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

// The ways of the templates in use: loops over messages with what comes before and behind, contents
// that are texts or lists, calls, tools, reasoning cut out of a text, refusals.
static const char *const valid[] = {
    "{%- if tools %}{{ '<tools>' }}{% for t in tools %}{{ '\\n' ~ (t | tojson) }}{% endfor %}"
    "{{ '</tools>' }}{% endif %}"
    "{%- set ns = namespace(last=messages | length - 1, found=false) %}"
    "{%- for m in messages[::-1] %}{% set i = messages | length - 1 - loop.index0 %}"
    "{%- if not ns.found and m.role == 'user' and m.content is string and "
    "not (m.content.startswith('<r>') and m.content.endswith('</r>')) %}"
    "{% set ns.found = true %}{% set ns.last = i %}{% endif %}{% endfor %}"
    "{%- for m in messages %}{% if m.content is string %}{% set c = m.content %}{% else %}"
    "{% set c = '' %}{% endif %}"
    "{%- if m.role == 'assistant' %}{% set r = '' %}{% if '</think>' in c %}"
    "{% set r = c.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}"
    "{% set c = c.split('</think>')[-1].lstrip('\\n') %}{% endif %}"
    "{% if loop.index0 > ns.last and (loop.last or r) %}{{ '<think>' + r.strip('\\n') }}{% endif %}"
    "{{ c }}{% if m.tool_calls %}{% for k in m.tool_calls %}"
    "{% if k.function %}{% set k = k.function %}{% endif %}{{ k.name }}"
    "{{ k.arguments if k.arguments is string else k.arguments | tojson }}{% endfor %}{% endif %}"
    "{% elif m.role == 'tool' %}{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}"
    "<|user|>{% endif %}{{ c }}{% else %}{{ '<|' + m.role + '|>' + c + '<|end|>' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",

    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set system = "
    "messages[0]['content'] | trim %}{% set rest = messages[1:] %}{% else %}{% set rest = messages "
    "%}"
    "{% endif %}{% for message in rest %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if loop.first and system is defined %}{{ system + '\\n\\n' }}{% endif %}"
    "{{ message['content'] | trim + eos_token }}{% endfor %}",

    "{% macro shape(s, depth=0) %}{% if s.type == 'object' %}{ {% for k, v in "
    "(s.properties or {}).items() | sort %}{{ k }}: {{ shape(v, depth + 1) }}"
    "{{ ', ' if not loop.last }}{% endfor %} }{% elif s.type == 'array' %}{{ shape(s['items']) }}[]"
    "{% elif s.enum %}{{ s.enum | map('tojson') | join(' | ') }}{% else %}{{ s.type | "
    "default('any') "
    "}}{% endif %}{% endmacro %}{% for t in tools or [] %}{{ t.function.name | upper }} "
    "{{ t.function.description | default('-', true) | replace('\\n', ' ') | indent(2) }} "
    "{{ shape(t.function.parameters) }}\n{% endfor %}{% for m in messages %}"
    "{% if m.content is iterable and m.content is not string and m.content is not mapping %}"
    "{% for p in m.content | selectattr('type', 'equalto', 'text') %}{{ p.text }}{% endfor %}"
    "{% else %}{{ m.content }}{% endif %}{% for k, v in m | dictsort %}{{ k ~ '=' ~ v }};"
    "{% endfor %}{% endfor %}",
};
enum { N_VALID = sizeof valid / sizeof *valid };

// Low enough for thousands of runs in a second.
static const struct template_limits limits = {.steps = 1 << 15,
                                              .output = 1 << 16,
                                              .memory = 1 << 20};

enum { MARK = 1 };

struct result {
    rn_status status;
    rn_error err;
    char *text;
    uint8_t *marks;
    size_t len;
};

static struct result render(const struct template *tmpl, const char *json, size_t len,
                            uint8_t mark) {
    struct result result = {0};
    struct value v;
    struct render *r = template_begin(tmpl, &limits, 1753885800, &result.err);
    if (!r) abort();
    result.status = template_read(r, "variables", json, len, mark, &v);
    if (result.status == RN_OK && v.kind == V_DICT) {
        for (size_t i = 0; i < v.d->n && result.status == RN_OK; i++) {
            const struct str *key = v.d->entries[i].key.s;
            result.status = template_set(r, key->data, key->len, v.d->entries[i].value);
        }
    }
    if (result.status == RN_OK) {
        result.status = template_run(r, &result.text, &result.marks, &result.len);
    }
    template_end(r);
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
    for (size_t i = 0; i < result->len; i++) {
        if (result->marks[i] > MARK) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *source = (const char *)data;
    const char *nul = size ? memchr(source, 0, size) : NULL;
    size_t source_len = nul ? (size_t)(nul - source) : size;
    const char *globals = nul ? nul + 1 : conversation;
    size_t globals_len = nul ? size - source_len - 1 : sizeof conversation - 1;
    const bool is_valid = size > 0 && data[0] < 8;
    if (is_valid) {
        globals = source + 1;
        globals_len = size - 1;
        source = valid[data[0] % N_VALID];
        source_len = strlen(source);
    }

    struct template *tmpl;
    rn_error err = {0};
    const rn_status status = template_create(source, source_len, &tmpl, &err);
    if (status != RN_OK) {
        if (is_valid || tmpl || status != RN_ERR_MODEL || err.status != status || !err.message[0])
            abort();
        return 0;
    }
    // Marks take memory, so a render near that limit may pass without them alone.
    const struct result plain = render(tmpl, globals, globals_len, 0);
    const struct result marked = render(tmpl, globals, globals_len, MARK);
    check_result(&plain);
    check_result(&marked);
    if (plain.status != RN_OK && marked.status == RN_OK) abort();
    if (plain.text && marked.text &&
        (plain.len != marked.len || memcmp(plain.text, marked.text, plain.len) != 0)) {
        abort();
    }
    for (size_t i = 0; i < plain.len; i++) {
        if (plain.marks[i]) abort();
    }
    free(plain.text);
    free(plain.marks);
    free(marked.text);
    free(marked.marks);
    template_destroy(tmpl);
    return 0;
}
