// POST /v1/embeddings: one vector for each input, of length 1 unless the model's files say that
// vectors stay as they are. As numbers or, as OpenAI's own clients want it, as the base64 of
// little-endian floats. POST /embedding is llama.cpp's form.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "openai.h"
#include "routes.h"

struct embeddings {
    bool base64;
};

// ---------------------------------------------------------------- vectors

// Ten digits after the point: more than a float of a vector of length 1 needs. It takes a fifteenth
// of printf's time, and a call may write a quarter of a million numbers.
static void real_write(float value, struct jbuf *out) {
    enum { DIGITS = 10 };
    if (!(fabsf(value) < 1e6f)) {
        jbuf_real(out, (double)value, 6);
        return;
    }
    const long long scaled = llround((double)value * 1e10);
    unsigned long long rest = (unsigned long long)(scaled < 0 ? -scaled : scaled);
    char text[32];
    int at = sizeof text, digits = 0;
    while (digits < DIGITS && rest && rest % 10 == 0) {
        rest /= 10;
        digits++;
    }
    const bool whole = digits == DIGITS || !rest;
    for (; !whole && digits < DIGITS; digits++) {
        text[--at] = (char)('0' + rest % 10);
        rest /= 10;
    }
    if (!whole) text[--at] = '.';
    do {
        text[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (scaled < 0) text[--at] = '-';
    jbuf_bytes(out, text + at, sizeof text - (size_t)at);
}

void openai_vector(const float *value, int n, struct jbuf *out) {
    jbuf_text(out, "[");
    for (int i = 0; i < n; i++) {
        if (i) jbuf_bytes(out, ",", 1);
        real_write(value[i], out);
    }
    jbuf_text(out, "]");
}

static unsigned char byte_at(const float *value, size_t index) {
    uint32_t bits;
    memcpy(&bits, &value[index / 4], sizeof bits);
    return (unsigned char)(bits >> index % 4 * 8);
}

static void base64_write(const float *value, int n, struct jbuf *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t len = (size_t)n * sizeof *value;
    jbuf_text(out, "\"");
    for (size_t i = 0; i < len; i += 3) {
        const size_t left = len - i;
        const unsigned a = byte_at(value, i), b = left > 1 ? byte_at(value, i + 1) : 0u,
                       c = left > 2 ? byte_at(value, i + 2) : 0u;
        const char group[4] = {digits[a >> 2], digits[(a & 3) << 4 | b >> 4],
                               left > 1 ? digits[(b & 15) << 2 | c >> 6] : '=',
                               left > 2 ? digits[c & 63] : '='};
        jbuf_bytes(out, group, sizeof group);
    }
    jbuf_text(out, "\"");
}

// ---------------------------------------------------------------- the answer

static void usage_write(const struct call *call, struct jbuf *out) {
    const struct usage usage = generation_usage(call->generation);
    jbuf_text(out, "],\"model\":");
    jbuf_cstring(out, call->served->name);
    jbuf_printf(out, ",\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d,", usage.prompt_tokens,
                usage.prompt_tokens);
    jbuf_printf(out, "\"prompt_tokens_details\":{\"cached_tokens\":%d}},", usage.cached_tokens);
    generation_timings(call, out);
    jbuf_text(out, "}");
}

static void whole_write(struct call *call, int i) {
    const struct generation *generation = call->generation;
    const struct embeddings *own = generation->own;
    const struct generation_choice *choice = &generation->choice[i];
    struct jbuf *out = &call->out;
    jbuf_text(out, i ? "," : "{\"object\":\"list\",\"data\":[");
    jbuf_printf(out, "{\"object\":\"embedding\",\"index\":%d,\"embedding\":", i);
    (own->base64 ? base64_write : openai_vector)(choice->embedding, call->served->info->n_embd,
                                                 out);
    jbuf_text(out, "}");
    if (i == generation->n_choices - 1) usage_write(call, out);
}

// llama.cpp's: an array of objects, each with the one vector of its text.
static void native_write(struct call *call, int i) {
    const struct generation *generation = call->generation;
    struct jbuf *out = &call->out;
    jbuf_printf(out, "%s{\"index\":%d,\"embedding\":[", i ? "," : "[", i);
    openai_vector(generation->choice[i].embedding, call->served->info->n_embd, out);
    jbuf_text(out, i == generation->n_choices - 1 ? "]}]" : "]}");
}

static const struct writer native_writer = {.whole = native_write, .error = openai_error};
static const struct writer embeddings_writer = {.whole = whole_write, .error = openai_error};

// ---------------------------------------------------------------- the handler

bool openai_pooling(const struct fields *fields, rn_pooling *out) {
    const struct served *served = fields->call->served;
    const char *name = served->pooling;
    rn_error err;
    if (!field_string(fields, "pooling", 64, &name, NULL)) return false;
    if (rn_model_pooling(served->model, name, out, &err) == RN_OK) return true;
    return field_refuse(fields, "pooling", "%s", err.message);
}

// Vectors cannot be shortened: a model that was not trained for it would give nonsense.
bool openai_dimensions(const struct fields *fields) {
    const int n_embd = fields->call->served->info->n_embd;
    int64_t dimensions = n_embd;
    if (!field_int(fields, "dimensions", 1, INT32_MAX, &dimensions)) return false;
    return dimensions == n_embd ||
           field_refuse(fields, "dimensions", "%lld is not supported, the model's vectors have %d",
                        (long long)dimensions, n_embd);
}

// A text would end in ways that have no vector: by a share of the prompt that is not cached, say.
void openai_embed_params(const struct served *served, struct params *params) {
    *params = (struct params){.sampling = served->sampling,
                              .n = 1,
                              .effort = EFFORT_ABSENT,
                              .thinking_budget = -1,
                              .id_slot = -1,
                              .keep_prompt = params->keep_prompt,
                              .keep_start = params->keep_start,
                              .priority = params->priority,
                              .user = params->user,
                              .cache_salt = params->cache_salt,
                              .timeout_ms = params->timeout_ms,
                              .ttft_ms = params->ttft_ms,
                              .tpot_ms = params->tpot_ms};
}

static bool params_take(struct call *call, const json_t *body, struct params *params) {
    if (!params_read(call, body, FAMILY_COMPLETIONS, params)) return false;
    openai_embed_params(call->served, params);
    return true;
}

// Only clients of llama.cpp send `content`, so it asks for llama.cpp's form of the answer.
void embeddings_prepare(struct call *call) {
    const json_t *body = call_json(call);
    if (!body) return;
    if (!json_object_get(body, "input") && json_object_get(body, "content")) {
        embeddings_native(call);
        return;
    }
    struct generation *generation = generation_create(call, &embeddings_writer);
    struct embeddings *own = generation ? calloc(1, sizeof *own) : NULL;
    if (!own) {
        call_refuse_memory(call);
        return;
    }
    generation->own = own;
    generation->own_free = free;
    if (!params_take(call, body, &generation->params)) return;
    const struct fields fields = fields_of(call, body, "");
    int format = 0;
    generation->normalize = call->served->info->normalizes != 0;
    if (!field_choice(&fields, "encoding_format", "float|base64", &format)) return;
    if (!openai_pooling(&fields, &generation->pooling)) return;
    if (!field_bool(&fields, "use_activation", &generation->normalize)) return;
    if (!openai_dimensions(&fields)) return;
    own->base64 = format == 1;
    if (!openai_prompts(call, body, "input", false)) return;
    generation_check(call, generation, "input");
}

// `content` or `input`. embd_normalize: 2 is the length of 1, -1 the vector as it is.
void embeddings_native(struct call *call) {
    const json_t *body = call_json(call);
    struct generation *generation = body ? generation_create(call, &native_writer) : NULL;
    if (!generation || !params_take(call, body, &generation->params)) return;
    const struct fields fields = fields_of(call, body, "");
    const char *name = json_object_get(body, "content") ? "content" : "input";
    int64_t normalize = call->served->info->normalizes != 0 ? 2 : -1;
    if (!field_int(&fields, "embd_normalize", -1, 2, &normalize)) return;
    if (!openai_pooling(&fields, &generation->pooling)) return;
    if (normalize != 2 && normalize != -1) {
        field_refuse(&fields, "embd_normalize",
                     "%lld is not supported; 2 (length 1) and -1 (as it "
                     "is) are",
                     (long long)normalize);
        return;
    }
    generation->normalize = normalize == 2;
    if (openai_prompts(call, body, name, false)) generation_check(call, generation, name);
}
