// Ollama's routes about models: /api/tags, /api/ps, /api/show and /api/version. Models are files
// that others fetch and remove, so the routes that would change them say how that is done.
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fields.h"
#include "helpers.h"
#include "ollama.h"
#include "params.h"
#include "routes.h"

// The version of Ollama whose API this is: clients ask for a least one.
#define OLLAMA_VERSION "0.13.5"

// ---------------------------------------------------------------- a model

// Names have a tag.
static void name_put(const char *name, struct jbuf *out) {
    char text[512];
    snprintf(text, sizeof text, "%s%s", name, strchr(name, ':') ? "" : ":latest");
    jbuf_cstring(out, text);
}

static bool is_loaded(const struct served *served) { return served->state == SERVED_READY; }

// A hash of the model's name: its files are not read for it. Clients print the start of it.
static void digest_put(const struct served *served, struct jbuf *out) {
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    const char *text = served->name;
    if (!EVP_Digest(text, strlen(text), hash, &len, EVP_sha256(), NULL)) out->failed = true;
    jbuf_text(out, "\"");
    for (unsigned i = 0; i < len; i++) jbuf_printf(out, "%02x", hash[i]);
    jbuf_text(out, "\"");
}

static void details_put(const rn_model_info *info, struct jbuf *out) {
    const double n = (double)info->n_params;
    const bool is_gguf = !strncmp(info->container, "GGUF", 4);
    jbuf_text(out, "{\"parent_model\":\"\",\"format\":");
    jbuf_cstring(out, is_gguf ? "gguf" : "safetensors");
    jbuf_text(out, ",\"family\":");
    jbuf_cstring(out, info->architecture);
    jbuf_text(out, ",\"families\":[");
    jbuf_cstring(out, info->architecture);
    jbuf_printf(out, "],\"parameter_size\":\"%.1f%s\",\"quantization_level\":",
                n >= 1e9 ? n / 1e9 : n / 1e6, n >= 1e9 ? "B" : "M");
    jbuf_cstring(out, info->format);
    jbuf_put_int(out, "context_length", info->n_ctx_train);
    jbuf_put_int(out, "embedding_length", info->n_embd);
    jbuf_text(out, "}");
}

// What a model can do, in Ollama's words. tmpl NULL: it has no template.
static void capabilities_put(const char *tmpl, const struct answer_marks *marks, struct jbuf *out) {
    jbuf_text(out, ",\"capabilities\":[\"completion\"");
    if (tmpl && strstr(tmpl, "tools")) jbuf_text(out, ",\"tools\"");
    if (marks->reasoning.open || marks->harmony) jbuf_text(out, ",\"thinking\"");
    jbuf_text(out, "]");
}

// {"name":...,"model":...,"size":...,"digest":...,"details":{...} of a list; the brace stays open.
// Of a model that is not loaded only the names are known.
static void entry_put(const struct served *served, const char *name, uint64_t bytes,
                      struct jbuf *out) {
    jbuf_text(out, "{\"name\":");
    name_put(name, out);
    jbuf_text(out, ",\"model\":");
    name_put(name, out);
    jbuf_put_uint(out, "size", bytes);
    jbuf_text(out, ",\"digest\":");
    digest_put(served, out);
    jbuf_text(out, ",\"details\":");
    if (is_loaded(served)) {
        details_put(served->info, out);
    } else {
        jbuf_text(out, "{\"parent_model\":\"\",\"format\":\"\",\"family\":\"\",\"families\":[],"
                       "\"parameter_size\":\"\",\"quantization_level\":\"\"}");
    }
}

static void modified_put(const struct served *served, struct jbuf *out) {
    jbuf_text(out, ",\"modified_at\":\"");
    ollama_time_put(served->server->created, 0, out);
    jbuf_text(out, "\"");
}

// ---------------------------------------------------------------- lists

static void tag_put(const struct served *served, const char *name, struct jbuf *out) {
    entry_put(served, name, is_loaded(served) ? served->info->weight_bytes : 0, out);
    modified_put(served, out);
    if (is_loaded(served)) capabilities_put(served->tmpl_source, &served->marks, out);
    jbuf_text(out, "}");
}

// When the model goes unless it is used. Without a time for that the end is far away.
static void expires_put(const struct served *served, struct jbuf *out) {
    enum { CENTURY_DAYS = 36525, DAY_S = 24 * 3600, S_NS = 1000000000 };
    const uint64_t end_ns = served_end_ns(served);
    const uint64_t from_ns = served_is_idle(served) ? clock_ns() : served->used_ns;
    const uint64_t left_s = end_ns > from_ns ? (end_ns - from_ns) / S_NS : 0;
    jbuf_text(out, ",\"expires_at\":\"");
    ollama_time_put((int64_t)time(NULL) +
                        (end_ns ? (int64_t)left_s : (int64_t)CENTURY_DAYS * DAY_S),
                    0, out);
    jbuf_text(out, "\"}");
}

// Its memory: weights and KV cache.
static void running_put(const struct served *served, const char *name, struct jbuf *out) {
    const uint64_t bytes = served->info->weight_bytes + served->engine_info.kv_bytes;
    const char *device = served->engine_info.device;
    entry_put(served, name, bytes, out);
    jbuf_put_uint(out, "size_vram", device && *device ? bytes : 0);
    jbuf_put_int(out, "context_length", served->engine_info.n_ctx);
    expires_put(served, out);
}

static void list_write(struct call *call, void (*put)(const struct served *served, const char *name,
                                                      struct jbuf *out)) {
    const struct server *server = call->server;
    const char *comma = "";
    jbuf_text(&call->out, "{\"models\":[");
    for (int i = 0; i < server->n_served; i++) {
        const struct served *served = &server->served[i];
        if (put == running_put && !is_loaded(served)) continue;
        jbuf_text(&call->out, comma);
        put(served, served->name, &call->out);
        comma = ",";
        for (int j = 0; put == tag_put && j < served->n_aliases; j++) {
            if (!strcmp(served->aliases[j], served->name)) continue;
            jbuf_text(&call->out, comma);
            put(served, served->aliases[j], &call->out);
        }
    }
    jbuf_text(&call->out, "]}");
    call_answer(call);
}

void ollama_tags(struct call *call) { list_write(call, tag_put); }

void ollama_ps(struct call *call) { list_write(call, running_put); }

void ollama_version(struct call *call) {
    jbuf_text(&call->out, "{\"version\":\"" OLLAMA_VERSION "\",\"runnel\":\"" RN_VERSION "\"}");
    call_answer(call);
}

// ---------------------------------------------------------------- show

static void model_info_put(const rn_model_info *info, struct jbuf *out) {
    const struct {
        const char *key;
        int64_t value;
    } rows[] = {{"context_length", info->n_ctx_train},
                {"embedding_length", info->n_embd},
                {"block_count", info->n_layer},
                {"attention.head_count", info->n_head},
                {"attention.head_count_kv", info->n_head_kv},
                {"vocab_size", info->n_vocab}};
    jbuf_text(out, ",\"model_info\":{\"general.architecture\":");
    jbuf_cstring(out, info->architecture);
    jbuf_text(out, ",\"general.name\":");
    jbuf_cstring(out, info->name);
    jbuf_put_uint(out, "general.parameter_count", info->n_params);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char key[128];
        snprintf(key, sizeof key, "%s.%s", info->architecture, rows[i].key);
        jbuf_put_int(out, key, rows[i].value);
    }
    jbuf_text(out, "}");
}

// The defaults of requests, a line for each, as text.
static void parameters_put(const rn_sampling *sampling, int n_ctx, struct jbuf *out) {
    const struct {
        const char *name;
        double value;
    } rows[] = {{"num_ctx", n_ctx},
                {"temperature", (double)sampling->temperature},
                {"top_k", sampling->top_k},
                {"top_p", (double)sampling->top_p},
                {"min_p", (double)sampling->min_p},
                {"repeat_penalty", (double)sampling->repetition_penalty}};
    jbuf_text(out, ",\"parameters\":\"");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        jbuf_printf(out, "%s%-30s %g", i ? "\\n" : "", rows[i].name, rows[i].value);
    jbuf_text(out, "\"");
}

// A description is of the model that has the name, also where requests may use any name. Older
// clients call the field `name`.
static bool model_find(struct call *call, const json_t *body) {
    const struct fields fields = fields_of(call, body, "");
    const char *name = "";
    if (!field_string(&fields, "model", SIZE_MAX, &name, NULL)) return false;
    if (!*name && !field_string(&fields, "name", SIZE_MAX, &name, NULL)) return false;
    return !*name || served_is_named(call->served, name) || params_no_model(call, name);
}

static void show_write(struct call *call, const struct server_description *shown,
                       const struct answer_marks *marks) {
    const struct served *served = call->served;
    const rn_model_info *info = rn_model_get_info(shown->model);
    struct jbuf *out = &call->out;
    jbuf_text(out,
              "{\"modelfile\":\"# a file here, not Ollama's: runnel models lists them\\nFROM ");
    jbuf_escape(out, served->name, strlen(served->name));
    jbuf_text(out, "\"");
    parameters_put(&shown->sampling, shown->n_ctx, out);
    jbuf_text(out, ",\"template\":");
    jbuf_cstring(out, shown->tmpl_source ? shown->tmpl_source : "");
    jbuf_text(out, ",\"details\":");
    details_put(info, out);
    model_info_put(info, out);
    capabilities_put(shown->tmpl_source, marks, out);
    modified_put(served, out);
    jbuf_text(out, "}");
    call_answer(call);
}

// Of a model that is not loaded.
static void files_show(struct call *call) {
    const struct served *served = call->served;
    const struct server_loading *loading = &call->server->config.loading;
    struct server_description shown;
    rn_error err = {0};
    const rn_status status = loading->describe(served->source->ctx, &shown, &err);
    if (status) {
        call_refuse(call, status == RN_ERR_NOMEM ? 503 : 500, NULL, "model_failed",
                    "The model `%.200s` cannot be read: %s", served->name, err.message);
        return;
    }
    const struct answer_marks marks = answer_marks_of(shown.tmpl_source);
    show_write(call, &shown, &marks);
    loading->describe_end(&shown);
}

void ollama_show(struct call *call) {
    const json_t *body = call_json(call);
    if (!body || !model_find(call, body)) return;
    const struct served *served = call->served;
    if (call->describes) {
        files_show(call);
        return;
    }
    const struct server_description shown = {.model = served->model,
                                             .tmpl_source = served->tmpl_source,
                                             .sampling = served->sampling,
                                             .n_ctx = served->engine_info.n_ctx};
    show_write(call, &shown, &served->marks);
}

// ---------------------------------------------------------------- changes

void ollama_change(struct call *call) {
    call_refuse(call, 501, NULL, "unsupported",
                "%s is not supported: models are files here. `hf download REPOSITORY FILE` fetches "
                "one, `runnel models` lists them, `runnel serve FILE` serves one",
                call->path);
}

// A model that is here needs no pull.
void ollama_pull(struct call *call) {
    const json_t *body = call_json(call);
    if (!body) return;
    const char *name = json_string_value(json_object_get(body, "model"));
    if (!name) name = json_string_value(json_object_get(body, "name"));
    if (!name || !served_find(call->server, name)) {
        ollama_change(call);
        return;
    }
    if (!json_is_false(json_object_get(body, "stream")))
        call->content_type = "application/x-ndjson";
    jbuf_text(&call->out, "{\"status\":\"success\"}\n");
    call_answer(call);
}
