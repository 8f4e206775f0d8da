// An untrusted request body of any bytes. A handler that prepares it answers with 200 or 4xx and
// JSON, or makes a generation whose prompts and parameters the engine would take. No sockets, no
// engine.
//
// Input: the route's path, a newline, the body. Where the path is none of ours the first byte says
// which route it is, and all of the input is the body.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "generation.h"
#include "routes.h"
#include "slots.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct route routes[] = {
#define ROUTE_AT_ONCE(...)
#define ROUTE_PREPARE(verb, where, form, handler)                                                  \
    {.method = verb, .path = where, .api = API_##form, .prepare = handler},
#include "routes.def"
};
enum { N_ROUTES = sizeof routes / sizeof *routes };
#undef ROUTE_AT_ONCE
#undef ROUTE_PREPARE

// As models have it that think and call tools. Calls between tags need the schemas of the tools.
static const char template_source[] =
    "{% if tools %}<|im_start|>system\n<tools>{{ tools | tojson }}</tools><|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{% if message.tool_calls %}{% for call in message.tool_calls %}<tool_call><function="
    "{{ call.function.name }}>{{ call.function.arguments | tojson }}</function></tool_call>"
    "{% endfor %}"
    "{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking %}<think>\n{% endif %}{% endif %}";

static struct served *served_get(void) {
    static struct server server;
    static struct served served;
    static rn_model *model;
    static rn_chat_template *tmpl;
    if (model) return &served;
    rn_error err;
    if (rn_model_open(TEST_DATA "/golden/llama/model.gguf", &model, &err) != RN_OK) abort();
    if (rn_chat_template_create(model, template_source, &tmpl, &err) != RN_OK) abort();
    server.config = (struct server_config){.body_bytes_max = 1 << 20,
                                           .pending_bytes_max = 1 << 20,
                                           .answer_bytes_max = 8 << 20};
    server.served = &served;
    server.n_served = 1;
    served.server = &server;
    served.name = "tiny";
    served.state = SERVED_READY;
    served.sampling = rn_sampling_neutral();
    served.max_tokens = -1;
    served.model = model;
    served.info = rn_model_get_info(model);
    served.engine_info.n_ctx = 256;
    served.engine_info.max_seqs = 4;
    served.slots = slots_create(4);
    served.engine_info.max_waiting = 256;
    served.tmpl = tmpl;
    served.tmpl_source = template_source;
    served.marks = answer_marks_of(template_source);
    server.created = 1;
    strcpy(served.fingerprint, "fp_fuzz");
    server.phase = PHASE_READY;
    return &served;
}

static const struct route *route_of(const uint8_t **data, size_t *size) {
    const uint8_t *line_end = *size ? memchr(*data, '\n', *size) : NULL;
    const size_t len = line_end ? (size_t)(line_end - *data) : 0;
    for (int i = 0; i < N_ROUTES && line_end; i++) {
        if (strlen(routes[i].path) != len || memcmp(routes[i].path, *data, len) != 0) continue;
        *data += len + 1;
        *size -= len + 1;
        return &routes[i];
    }
    return &routes[*size ? **data % N_ROUTES : 0];
}

// An answer is JSON; a refusal has a message.
static void answer_check(const struct call *call) {
    const bool is_refusal = call->status >= 400 && call->status < 500;
    if (call->status != 200 && !is_refusal && call->status != 501) abort();
    json_t *answer = json_loadb(call->out.data, call->out.len, 0, NULL);
    if (!answer) abort();
    if (call->status != 200) {
        const json_t *error = json_object_get(answer, "error");
        const json_t *message = json_is_string(error) ? error : json_object_get(error, "message");
        if (json_string_length(message) == 0) abort();
    }
    json_decref(answer);
}

static void generation_inspect(const struct generation *generation, int n_vocab) {
    const struct params *params = &generation->params;
    if (!generation->writer || !generation->writer->whole) abort();
    if (generation->n_prompts < 1 || generation->n_prompts > PROMPTS_MAX) abort();
    if (params->n < 1 || params->n > RN_MAX_CHOICES || params->n_stop > RN_MAX_STOPS) abort();
    if (params->max_tokens < -1 || params->top_logprobs < 0) abort();
    for (int i = 0; i < generation->n_prompts; i++) {
        const struct generation_prompt *prompt = &generation->prompt[i];
        if (prompt->n_ids == 0) abort();
        for (size_t t = 0; t < prompt->n_ids; t++)
            if (prompt->ids[t] < 0 || prompt->ids[t] >= n_vocab) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct served *served = served_get();
    struct call call = {.server = served->server, .served = served, .created = 1, .start_ns = 1};
    strcpy(call.id, "0123456789");
    call.route = route_of(&data, &size);
    char path[] = "/slots/0"; // of the one route that looks at it
    call.path = path;
    call.query = "action=save";
    call.body = malloc(size + 1);
    if (!call.body) return 0;
    if (size) memcpy(call.body, data, size);
    call.body[size] = '\0';
    call.body_len = size;

    call.route->prepare(&call);
    if (call.status) {
        answer_check(&call);
    } else {
        if (!call.generation) abort();
        generation_inspect(call.generation, served->info->n_vocab);
    }
    if (call.generation) generation_destroy(call.generation);
    json_decref(call.json);
    jbuf_deinit(&call.out);
    free(call.body);
    return 0;
}
