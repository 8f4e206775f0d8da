// Ollama's /api/embed, and /api/embeddings, the older form of it: one text, whose vector has the
// length that the model gave it, which is 1 if its files say so.
#include <string.h>

#include "ollama.h"
#include "openai.h"
#include "routes.h"

// ---------------------------------------------------------------- answers

static void list_write(struct call *call, int i) {
    const struct generation *generation = call->generation;
    const struct usage usage = generation_usage(generation);
    struct jbuf *out = &call->out;
    if (!i) ollama_model_put(call, out);
    jbuf_text(out, i ? "," : ",\"embeddings\":[");
    openai_vector(generation->choice[i].embedding, call->served->info->n_embd, out);
    if (i < generation->n_choices - 1) return;
    jbuf_text(out, "]");
    ollama_durations_put(call, out);
    jbuf_put_int(out, "prompt_eval_count", usage.prompt_tokens);
    jbuf_text(out, ",");
    generation_timings(call, out);
    jbuf_text(out, "}");
}

static void one_write(struct call *call, int i) {
    jbuf_text(&call->out, "{\"embedding\":");
    openai_vector(call->generation->choice[i].embedding, call->served->info->n_embd, &call->out);
    jbuf_text(&call->out, "}");
}

static const struct writer list_writer = {.whole = list_write}, one_writer = {.whole = one_write};

// ---------------------------------------------------------------- requests

// Inputs are cut at the context's end unless `truncate` is false.
static bool inputs_cut(const struct fields *fields, struct generation *generation) {
    const size_t n_ctx = (size_t)fields->call->served->engine_info.n_ctx;
    bool cuts = true;
    if (!field_bool(fields, "truncate", &cuts)) return false;
    for (int i = 0; cuts && i < generation->n_prompts; i++)
        if (generation->prompt[i].n_ids > n_ctx) generation->prompt[i].n_ids = n_ctx;
    return true;
}

// Nothing to embed: the model is loaded.
static void answer_empty(struct call *call, const char *answer) {
    if (*answer == ',') ollama_model_put(call, &call->out);
    jbuf_text(&call->out, answer);
    call_answer(call);
    generation_destroy(call->generation);
    call->generation = NULL;
}

// Reads the texts of the field `name`; `empty` is the answer where there are none.
static void embed(struct call *call, const struct writer *writer, const char *name,
                  const char *empty) {
    const json_t *body = call_json(call);
    struct generation *generation = body ? generation_create(call, writer) : NULL;
    if (!generation || !params_read(call, body, FAMILY_OLLAMA, &generation->params)) return;
    const struct fields fields = fields_of(call, body, "");
    const json_t *given = json_object_get(body, name);
    openai_embed_params(call->served, &generation->params);
    if (!ollama_fields(call, body) || !openai_dimensions(&fields)) return;
    if (!given || json_is_null(given) || (json_is_string(given) && !json_string_length(given)) ||
        (json_is_array(given) && !json_array_size(given))) {
        answer_empty(call, empty);
        return;
    }
    if (!openai_pooling(&fields, &generation->pooling)) return;
    generation->normalize = writer == &list_writer || call->served->info->normalizes == 1;
    if (!openai_prompts(call, body, name, false) || !inputs_cut(&fields, generation)) return;
    generation_check(call, generation, name);
}

void ollama_embed(struct call *call) { embed(call, &list_writer, "input", ",\"embeddings\":[]}"); }

void ollama_embeddings(struct call *call) {
    embed(call, &one_writer, "prompt", "{\"embedding\":[]}");
}
