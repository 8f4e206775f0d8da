// Reads the headers of routers. Header values are bounded by the reader's limit on heads.
#include "routing.h"

#include <stdlib.h>
#include <string.h>

#include "helpers.h"

// The value of the header under its name or its older one; NULL: not given, or empty.
static const char *header_of(const struct call *call, const char *name, const char *older) {
    const char *value = call_header(call, name);
    if (!value) value = call_header(call, older);
    return value && *value ? value : NULL;
}

void routing_id_read(const struct head *head, char out[CALL_REQUEST_ID_BYTES]) {
    const char *id = head->text ? head_field(head, "x-request-id") : NULL;
    const size_t len = id ? strlen(id) : 0;
    out[0] = '\0';
    if (!len || len >= CALL_REQUEST_ID_BYTES) return;
    for (size_t i = 0; i < len; i++)
        if (id[i] <= ' ' || id[i] > '~') return;
    memcpy(out, id, len + 1);
}

bool routing_objective_parse(const char *text, struct routing_objective *out) {
    const char *equals = strrchr(text, '=');
    const size_t len = equals ? (size_t)(equals - text) : 0;
    if (!len || len >= sizeof out->name) return false;
    char *end;
    const long priority = strtol(equals + 1, &end, 10);
    if (end == equals + 1 || *end) return false;
    if (priority < -RN_MAX_PRIORITY || priority > RN_MAX_PRIORITY) return false;
    memcpy(out->name, text, len);
    out->name[len] = '\0';
    out->priority = (int)priority;
    return true;
}

// An objective that the server does not know changes nothing, as in the router.
static void objective_read(const struct call *call, struct params *params) {
    const struct server_config *config = &call->server->config;
    const char *name =
        header_of(call, "x-llm-d-inference-objective", "x-gateway-inference-objective");
    for (int i = 0; name && i < config->n_objectives; i++)
        if (!strcmp(config->objectives[i].name, name))
            params->priority = -config->objectives[i].priority;
}

static bool user_read(struct call *call, struct params *params) {
    static const char name[] = "x-llm-d-inference-fairness-id";
    const char *id = header_of(call, name, "x-gateway-inference-fairness-id");
    if (!id) return true;
    if (strlen(id) > USER_BYTES_MAX)
        return call_refuse(call, 400, name, "invalid_value",
                           "%s: it has %zu bytes, at most %d are allowed", name, strlen(id),
                           USER_BYTES_MAX);
    params->user = id;
    return true;
}

// A whole number of ms, as the router reads it.
static bool bound_read(struct call *call, const char *name, const char *older, double *out) {
    enum { DIGITS_MAX = 9 };
    const char *text = header_of(call, name, older);
    const size_t len = text ? strlen(text) : 0;
    if (!call_header(call, name)) name = older;
    if (!len) return true;
    if (len > DIGITS_MAX || text[strspn(text, "0123456789")] || !atol(text)) {
        char shown[64];
        unicode_quote(text, len, shown, sizeof shown);
        return call_refuse(call, 400, name, "invalid_value",
                           "%s: '%s' is no number of ms, 1 to 999999999", name, shown);
    }
    *out = (double)atol(text);
    return true;
}

bool routing_params(struct call *call, const json_t *body, struct params *params) {
    const json_t *priority = json_object_get(body, "priority");
    if (!priority || json_is_null(priority)) objective_read(call, params);
    return (params->user || user_read(call, params)) &&
           bound_read(call, "x-llm-d-slo-ttft-ms", "x-slo-ttft-ms", &params->ttft_ms) &&
           bound_read(call, "x-llm-d-slo-tpot-ms", "x-slo-tpot-ms", &params->tpot_ms);
}
