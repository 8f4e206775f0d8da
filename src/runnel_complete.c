// One call for a whole text: a request, its steps and its pieces of text, on the caller's thread.
#include <string.h>

#include "base/sized.h"
#include "runnel_model.h"
#include "text/text_buffer.h"

// The settings of the request, without a prompt; NULL: the model's.
static rn_status read_request(const rn_model *model, const rn_request *request, size_t size,
                              rn_request *out, rn_error *err) {
    *out = (rn_request){.sampling = rn_sampling_defaults(model)};
    if (!request) return RN_OK;
    const rn_status status = sized_read("request", request, size, out, sizeof *out, err);
    if (status) return status;
    if (out->n > 1)
        return err_set(err, RN_ERR_ARG, "n is %d, expected 0 or 1 for a single text", out->n);
    if (out->pooling)
        return err_set(err, RN_ERR_ARG, "pooling is %d, which gives no text", (int)out->pooling);
    return RN_OK;
}

// Adds the text of the last step's events; *status is of the request's end.
static bool collect(rn_engine *engine, struct text_buffer *text, rn_status *status, rn_error *err) {
    rn_event event;
    bool has_ended = false;
    while (rn_engine_next_event(engine, &event)) {
        if (!text_buffer_put(text, event.text, event.text_len))
            *status = err_set(err, RN_ERR_NOMEM, "no memory for %zu bytes of text", text->len);
        has_ended = has_ended || event.last;
        if (!event.last || !event.status || *status) continue;
        *status = err_set(err, event.status, "%s",
                          event.reason ? event.reason : rn_status_text(event.status));
    }
    return has_ended;
}

static rn_status run(rn_engine *engine, const rn_request *request, struct text_buffer *text,
                     rn_error *err) {
    uint64_t id;
    rn_status status = rn_engine_submit(engine, request, &id, err);
    if (status) return status;
    bool busy;
    do {
        const rn_status step = rn_engine_step(engine, &busy);
        if (step == RN_ERR_DEVICE && !status) status = rn_engine_health(engine, err);
    } while (!collect(engine, text, &status, err));
    if (!status && !text_buffer_put(text, "", 1))
        status = err_set(err, RN_ERR_NOMEM, "no memory for %zu bytes of text", text->len);
    return status;
}

rn_status rn_complete_sized(rn_engine *engine, const char *prompt, const rn_request *request,
                            size_t request_size, char **text, size_t *len, rn_error *err) {
    rn_request own;
    int32_t *ids = NULL;
    struct text_buffer buffer = {0};
    *text = NULL;
    *len = 0;
    if (!driver_is_idle(&engine->driver))
        return err_set(err, RN_ERR_ARG,
                       "the engine has other requests, events to collect, or its own thread");
    rn_status status = read_request(engine->model, request, request_size, &own, err);
    if (!status)
        status = rn_tokenize(engine->model, prompt, strlen(prompt), RN_TOKENIZE_BOS, &ids,
                             &own.n_prompt, err);
    if (status) return status;
    own.prompt = ids;
    status = run(engine, &own, &buffer, err);
    rn_free(ids);
    if (status) {
        text_buffer_deinit(&buffer);
        return status;
    }
    *text = (char *)buffer.data;
    *len = buffer.len - 1;
    return RN_OK;
}
