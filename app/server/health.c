// Health, for load balancers and supervisors: ready to take work (/health), or alive at all
// (/health/live). Answers on the I/O thread from a snapshot, so it does not wait for a step.
#include "routes.h"

// An engine that has ended does not come back in this process. Of several models, the others still
// serve.
static bool lost_refuse(struct call *call, enum server_phase phase) {
    const struct served *served = call->served;
    if (phase == PHASE_LOADING || !served->engine || served->source) return false;
    return rn_engine_health(served->engine, NULL) != RN_OK && !served_refuse_lost(call);
}

// If a step takes too long, the loop is stuck: only a restart helps.
static bool stuck_refuse(struct call *call, enum server_phase phase) {
    const struct server *server = call->server;
    for (int i = 0; phase != PHASE_LOADING && i < server->n_served; i++) {
        const struct served *served = &server->served[i];
        rn_engine_stats stats;
        if (!served->engine) continue;
        rn_engine_get_stats(served->engine, &stats);
        if (!(stats.step_ms > server->config.stuck_s * 1000)) continue;
        call_refuse(call, 503, NULL, NULL, "The step loop has not moved for %.0f s",
                    stats.step_ms / 1000);
        return true;
    }
    return false;
}

static void answer_ok(struct call *call) {
    jbuf_text(&call->out, "{\"status\":\"ok\"}");
    call_answer(call);
}

void health_get(struct call *call) {
    const enum server_phase phase = (enum server_phase)atomic_load(&call->server->phase);
    if (lost_refuse(call, phase) || stuck_refuse(call, phase)) return;
    if (phase == PHASE_READY) {
        answer_ok(call);
    } else {
        call_refuse(call, 503, NULL, NULL, "%s",
                    phase == PHASE_LOADING ? "Loading model" : "Draining");
    }
}

void health_live(struct call *call) {
    const enum server_phase phase = (enum server_phase)atomic_load(&call->server->phase);
    if (!lost_refuse(call, phase) && !stuck_refuse(call, phase)) answer_ok(call);
}
