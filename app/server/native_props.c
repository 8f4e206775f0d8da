// llama.cpp's /props, a description of the server, and /slots, its running choices; small answers
// of it and of vLLM besides. All are written on the I/O thread from its own state; nothing waits
// for a step. A place is not bound to a request here: the choices that run take the first ones.
#include <string.h>

#include "helpers.h"
#include "native_settings.h"
#include "routes.h"
#include "streams.h"
#include "waiting.h"

static void int_write(struct jbuf *out, const char *key, int64_t value) {
    jbuf_key(out, key);
    jbuf_int(out, value);
}

static void token_write(struct jbuf *out, const char *key, const rn_model *model, int32_t id) {
    size_t len = 0;
    const char *text = id < 0 ? "" : rn_token_bytes(model, id, &len);
    jbuf_key(out, key);
    jbuf_string(out, text, len);
}

static void next_token_write(struct jbuf *out, int n_decoded, int max_tokens) {
    jbuf_key(out, "next_token");
    jbuf_text(out, "{\"has_next_token\":true");
    int_write(out, "n_remain", max_tokens < 0 ? -1 : max_tokens - n_decoded);
    int_write(out, "n_decoded", n_decoded);
    jbuf_text(out, "}");
}

// Its brace stays open.
static void slot_begin(struct jbuf *out, const struct served *served, int id, bool is_processing,
                       bool drafts) {
    jbuf_text(out, "{");
    int_write(out, "id", id);
    int_write(out, "n_ctx", served->engine_info.n_ctx);
    jbuf_key(out, "speculative");
    jbuf_bool(out, drafts);
    jbuf_key(out, "is_processing");
    jbuf_bool(out, is_processing);
}

// ---------------------------------------------------------------- props

static void defaults_write(struct jbuf *out, const struct served *served) {
    const struct params params = {.sampling = served->sampling,
                                  .n = 1,
                                  .max_tokens = served->max_tokens,
                                  .stream = true};
    jbuf_key(out, "default_generation_settings");
    slot_begin(out, served, 0, false, served_drafts(served));
    int_write(out, "id_task", -1);
    jbuf_key(out, "params");
    native_settings_write(out, served, &params, NULL,
                          params.sampling.has_seed ? &params.sampling.seed : NULL);
    jbuf_text(out, ",\"prompt\":\"\"");
    next_token_write(out, 0, params.max_tokens);
    jbuf_text(out, "}");
}

// null: there is none. max_tokens: about as many as fit.
static void store_write(struct jbuf *out, const struct served *served) {
    rn_store_stats store;
    jbuf_key(out, "page_store");
    if (!served->engine || !rn_engine_get_store_stats(served->engine, &store)) {
        jbuf_text(out, "null");
        return;
    }
    const uint64_t token = store.token_bytes ? store.token_bytes : 1;
    const struct {
        const char *name;
        uint64_t value;
    } row[] = {{"bytes", store.bytes},
               {"max_bytes", store.max_bytes},
               {"max_tokens", store.max_bytes / token},
               {"memory_bytes", store.memory_bytes},
               {"memory_max_bytes", store.memory_max_bytes},
               {"memory_max_tokens", store.memory_max_bytes / token},
               {"page_bytes", token * RN_PAGE_TOKENS}};
    jbuf_text(out, "{\"is_ready\":");
    jbuf_bool(out, store.is_ready);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        int_write(out, row[i].name, (int64_t)row[i].value);
    jbuf_text(out, "}");
}

void native_props(struct call *call) {
    if (!waiting_needs(call)) return;
    const struct served *served = call->served;
    const rn_model *model = served->model;
    const char *slash = strrchr(served->info->path, '/');
    struct jbuf *out = &call->out;
    jbuf_text(out, "{");
    defaults_write(out, served);
    int_write(out, "total_slots", served->engine_info.max_seqs);
    jbuf_key(out, "model_alias");
    jbuf_cstring(out, served->name);
    jbuf_key(out, "model_path"); // the path of the file stays private
    jbuf_cstring(out, slash && slash[1] ? slash + 1 : served->info->path);
    jbuf_text(out, ",\"modalities\":{\"vision\":false,\"audio\":false}");
    jbuf_key(out, "chat_template");
    jbuf_cstring(out, served->tmpl_source ? served->tmpl_source : "");
    jbuf_key(out, "pooling");
    jbuf_cstring(out, served_pooling(served));
    token_write(out, "bos_token", model, rn_token_bos(model));
    token_write(out, "eos_token", model, rn_token_eos(model));
    jbuf_text(out, ",\"build_info\":\"runnel " RN_VERSION "\",\"is_sleeping\":false,"
                   "\"endpoint_slots\":true,\"endpoint_props\":false,\"endpoint_metrics\":true");
    jbuf_key(out, "speculative");
    jbuf_bool(out, served_drafts(served));
    jbuf_key(out, "ui");
    jbuf_bool(out, served->server->config.ui);
    store_write(out, served);
    jbuf_text(out, "}");
    call_answer(call);
}

// ---------------------------------------------------------------- slots

// is_own: the request is of the owner that asks. Parameters hold texts, such as stop strings and
// grammars.
static void busy_write(struct jbuf *out, const struct served *served,
                       const struct generation *generation, const struct generation_choice *choice,
                       int id, bool is_own) {
    const struct stream *stream = generation->stream[choice->prompt];
    slot_begin(out, served, id, true,
               is_own ? native_draft_max(served, &generation->params) > 0 : served_drafts(served));
    if (!is_own) {
        jbuf_text(out, "}");
        return;
    }
    int_write(out, "id_task", stream ? (int64_t)stream->number : -1);
    int_write(out, "n_prompt_tokens", (int64_t)generation->prompt[choice->prompt].n_ids);
    jbuf_key(out, "params");
    native_settings_write(out, served, &generation->params, &generation->shape,
                          generation->params.sampling.has_seed ? &generation->params.sampling.seed
                                                               : NULL);
    next_token_write(out, choice->n_output, generation->params.max_tokens);
    jbuf_text(out, "}");
}

static int choices_write(struct jbuf *out, const struct served *served,
                         const struct generation *generation, int n_busy, bool is_own) {
    for (int i = 0; i < generation->n_choices && n_busy < served->engine_info.max_seqs; i++) {
        if (generation->choice[i].ended) continue;
        if (n_busy) jbuf_text(out, ",");
        busy_write(out, served, generation, &generation->choice[i], n_busy++, is_own);
    }
    return n_busy;
}

// Choices that already have a token come first: others may still wait for a place.
static int busy_list(struct jbuf *out, const struct served *served, struct owner owner) {
    int n_busy = 0;
    for (int begun = 1; begun >= 0; begun--) {
        for (const struct call *call = served->server->calls; call; call = call->next) {
            if (call->state != CALL_RUNNING && call->state != CALL_STREAMING) continue;
            if (call->served != served || !call->generation || !call->generation->stream) continue;
            if ((call->generation->first_ns != 0) == (begun != 0))
                n_busy = choices_write(out, served, call->generation, n_busy,
                                       owner_is(call->owner, owner));
        }
    }
    return n_busy;
}

void native_slots(struct call *call) {
    if (!waiting_needs(call)) return;
    const struct served *served = call->served;
    const int n_slots = served->engine_info.max_seqs;
    struct jbuf *out = &call->out;
    char value[8];
    const char *fail = call_query(call, "fail_on_no_slot", value, sizeof value);
    jbuf_text(out, "[");
    const int n_busy = busy_list(out, served, call->owner);
    for (int i = n_busy; i < n_slots; i++) {
        if (i) jbuf_text(out, ",");
        slot_begin(out, served, i, false, served_drafts(served));
        jbuf_text(out, "}");
    }
    jbuf_text(out, "]");
    if (n_busy == n_slots && fail && strcmp(fail, "0") != 0) {
        call_refuse(call, 503, NULL, NULL, "no slot is free: all %d are in use", n_slots);
        return;
    }
    call_answer(call);
}

// ---------------------------------------------------------------- small ones

void native_version(struct call *call) {
    jbuf_text(&call->out, "{\"version\":\"" RN_VERSION "\"}");
    call_answer(call);
}

// Requests that are prepared, run or wait, as vLLM counts them; this one is no load.
void native_load(struct call *call) {
    int load = call->server->counts.preparing; // the workers' calls are not looked into
    for (const struct call *other = call->server->calls; other; other = other->next)
        load += other->state == CALL_LOADING ||
                ((other->state == CALL_RUNNING || other->state == CALL_STREAMING) &&
                 other->generation != NULL);
    jbuf_printf(&call->out, "{\"server_load\":%d}", load);
    call_answer(call);
}

// A server here never sleeps: vLLM's routers ask before they send a request.
void native_sleeping(struct call *call) {
    jbuf_text(&call->out, "{\"is_sleeping\":false}");
    call_answer(call);
}

// There are none.
void native_adapters(struct call *call) {
    jbuf_text(&call->out, "[]");
    call_answer(call);
}
