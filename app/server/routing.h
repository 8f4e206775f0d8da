// What a router in front of several replicas says of a request, in its headers: the id that the
// request has everywhere, the share of the service that it belongs to, how urgent it is, and its
// bounds on time. Names are those of llm-d's router, with the older ones of the Gateway API
// Inference Extension. docs/REPLICAS.md has the table.
#ifndef RN_SERVER_ROUTING_H
#define RN_SERVER_ROUTING_H

#include "params.h"

enum { ROUTING_OBJECTIVES_MAX = 64, ROUTING_OBJECTIVE_BYTES = 64 };

// x-llm-d-inference-objective: NAME stands for this priority. Higher ones go first, as those of an
// InferenceObjective do.
struct routing_objective {
    char name[ROUTING_OBJECTIVE_BYTES];
    int priority;
};

// "NAME=PRIORITY". False: it is none.
bool routing_objective_parse(const char *text, struct routing_objective *out);

// The client's x-request-id: 1 to 128 visible ASCII characters; else "".
void routing_id_read(const struct head *head, char out[CALL_REQUEST_ID_BYTES]);
// The id that the answer's header has: the client's, else the call's own.
static inline const char *routing_id(const struct call *call) {
    return *call->request_id ? call->request_id : call->id;
}

// Fills user and priority from headers where the body has none, and the bounds on time. A worker's;
// false: refused.
bool routing_params(struct call *call, const json_t *body, struct params *params);

#endif
