// GET /v1/models and /v1/models/{id}: the one model that is served, under all of its names. Runs on
// the I/O thread and reads constant state alone.
#include <string.h>

#include "openai.h"
#include "params.h"
#include "routes.h"

static void model_write(const struct served *served, const char *id, struct jbuf *out) {
    const rn_model_info *info = served->info;
    jbuf_text(out, "{\"id\":");
    jbuf_cstring(out, id);
    jbuf_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"runnel\"",
                (long long)served->server->created);
    jbuf_printf(out, ",\"max_model_len\":%d,\"meta\":{\"n_ctx\":%d,\"n_ctx_train\":%d",
                served->engine_info.n_ctx, served->engine_info.n_ctx, info->n_ctx_train);
    jbuf_printf(out, ",\"n_vocab\":%d,\"n_embd\":%d", info->n_vocab, info->n_embd);
    jbuf_printf(out, ",\"n_params\":%llu,\"size\":%llu}}", (unsigned long long)info->n_params,
                (unsigned long long)info->weight_bytes);
}

void models_list(struct call *call) {
    const struct served *served = call->served;
    jbuf_text(&call->out, "{\"object\":\"list\",\"data\":[");
    model_write(served, served->name, &call->out);
    for (int i = 0; i < served->n_aliases; i++) {
        if (!strcmp(served->aliases[i], served->name)) continue; // the first names the model
        jbuf_text(&call->out, ",");
        model_write(served, served->aliases[i], &call->out);
    }
    jbuf_text(&call->out, "]}");
    call_answer(call);
}

void models_one(struct call *call) {
    static const char prefix[] = "/v1/models/";
    const char *path = call_path(call);
    const char *id = strncmp(path, prefix, strlen(prefix)) ? "" : path + strlen(prefix);
    if (!served_is_named(call->served, id)) {
        params_no_model(call, id);
        return;
    }
    model_write(call->served, id, &call->out);
    call_answer(call);
}
