// GET /v1/models and /v1/models/{id}: the served models, each under all of its names. With several
// models each has its status, in llama.cpp's form. POST /models/load and /models/unload, as
// llama.cpp's router has them.
#include <string.h>
#include <time.h>

#include "openai.h"
#include "params.h"
#include "routes.h"

static const char *state_text(enum served_state state) {
    switch (state) {
    case SERVED_LOADING:
        return "loading";
    case SERVED_READY:
        return "loaded";
    case SERVED_UNLOADING:
        return "unloading";
    case SERVED_UNLOADED:
    case SERVED_FAILED:
        break;
    }
    return "unloaded";
}

static void status_write(const struct served *served, struct jbuf *out) {
    jbuf_printf(out, ",\"status\":{\"value\":\"%s\"", state_text(served->state));
    if (served->state == SERVED_FAILED) {
        jbuf_text(out, ",\"failed\":true,\"message\":");
        jbuf_cstring(out, served->reason);
    }
    jbuf_text(out, "}");
}

// The members that Anthropic's clients read. A name is its own display name.
static void anthropic_write(const struct served *served, const char *id, struct jbuf *out) {
    const time_t created = (time_t)served->server->created;
    struct tm tm;
    char text[32];
    gmtime_r(&created, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    jbuf_text(out, ",\"type\":\"model\",\"display_name\":");
    jbuf_cstring(out, id);
    jbuf_printf(out, ",\"created_at\":\"%s\"", text);
    if (served->state == SERVED_READY)
        jbuf_printf(out, ",\"max_input_tokens\":%d,\"max_tokens\":%d", served->engine_info.n_ctx,
                    served->engine_info.n_ctx);
}

// The further names of a model, as llama.cpp lists them.
static void aliases_write(const struct served *served, struct jbuf *out) {
    bool is_first = true;
    jbuf_text(out, ",\"aliases\":[");
    for (int i = 0; i < served->n_aliases; i++) {
        if (!strcmp(served->aliases[i], served->name)) continue; // the first names the model
        if (!is_first) jbuf_text(out, ",");
        jbuf_cstring(out, served->aliases[i]);
        is_first = false;
    }
    jbuf_text(out, "],\"tags\":[]");
}

// vLLM's: the model that has this name, and the model that it adapts.
static void root_write(const struct served *served, struct jbuf *out) {
    jbuf_text(out, ",\"root\":");
    jbuf_cstring(out, served->name);
    jbuf_text(out, ",\"parent\":null");
}

static void model_write(const struct served *served, const char *id, struct jbuf *out) {
    const rn_model_info *info = served->info;
    jbuf_text(out, "{\"id\":");
    jbuf_cstring(out, id);
    jbuf_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"runnel\"",
                (long long)served->server->created);
    anthropic_write(served, id, out);
    aliases_write(served, out);
    root_write(served, out);
    if (served->source) status_write(served, out);
    if (served->state == SERVED_READY) {
        jbuf_printf(out, ",\"max_model_len\":%d,\"meta\":{\"n_ctx\":%d,\"n_ctx_train\":%d",
                    served->engine_info.n_ctx, served->engine_info.n_ctx, info->n_ctx_train);
        jbuf_printf(out, ",\"n_vocab\":%d,\"n_embd\":%d", info->n_vocab, info->n_embd);
        jbuf_printf(out, ",\"n_params\":%llu,\"size\":%llu", (unsigned long long)info->n_params,
                    (unsigned long long)info->weight_bytes);
        jbuf_text(out, ",\"pooling\":");
        jbuf_cstring(out, served_pooling(served));
        jbuf_text(out, "}");
    }
    jbuf_text(out, "}");
}

static void names_write(const struct served *served, struct jbuf *out) {
    model_write(served, served->name, out);
    for (int i = 0; i < served->n_aliases; i++) {
        if (!strcmp(served->aliases[i], served->name)) continue; // the first names the model
        jbuf_text(out, ",");
        model_write(served, served->aliases[i], out);
    }
}

// The last of them.
static const char *last_name(const struct served *served) {
    const char *name = served->name;
    for (int i = 0; i < served->n_aliases; i++)
        if (strcmp(served->aliases[i], served->name) != 0) name = served->aliases[i];
    return name;
}

// llama.cpp's second list, where its clients look for what a model can do.
static void abilities_write(const struct served *served, struct jbuf *out) {
    jbuf_text(out, "{\"name\":");
    jbuf_cstring(out, served->name);
    jbuf_text(out, ",\"model\":");
    jbuf_cstring(out, served->name);
    jbuf_text(out, ",\"type\":\"model\",\"tags\":[],\"capabilities\":[\"completion\"]}");
}

void models_list(struct call *call) {
    const struct server *server = call->server;
    jbuf_text(&call->out, "{\"object\":\"list\",\"data\":[");
    for (int i = 0; i < server->n_served; i++) {
        if (i) jbuf_text(&call->out, ",");
        names_write(&server->served[i], &call->out);
    }
    jbuf_text(&call->out, "],\"models\":[");
    for (int i = 0; i < server->n_served; i++) {
        if (i) jbuf_text(&call->out, ",");
        abilities_write(&server->served[i], &call->out);
    }
    jbuf_text(&call->out, "],\"has_more\":false,\"first_id\":");
    jbuf_cstring(&call->out, server->served[0].name);
    jbuf_text(&call->out, ",\"last_id\":");
    jbuf_cstring(&call->out, last_name(&server->served[server->n_served - 1]));
    jbuf_text(&call->out, "}");
    call_answer(call);
}

void models_one(struct call *call) {
    static const char prefix[] = "/v1/models/";
    const char *path = call_path(call);
    const char *id = strncmp(path, prefix, strlen(prefix)) ? "" : path + strlen(prefix);
    const struct served *served = served_find(call->server, id);
    if (!served) {
        params_no_model(call, id);
        return;
    }
    model_write(served, id, &call->out);
    call_answer(call);
}

// ---------------------------------------------------------------- loading by hand

static void single_refuse(struct call *call) {
    call_refuse(call, 400, NULL, "not_supported",
                "This server has one model, which stays loaded; --models FILE gives it several");
}

// It runs when the model is loaded.
void models_load(struct call *call) {
    if (!call->served->source) {
        single_refuse(call);
        return;
    }
    jbuf_text(&call->out, "{\"success\":true}");
    call_answer(call);
}

// Of several models: waiting_take answers instead.
void models_unload(struct call *call) { single_refuse(call); }
