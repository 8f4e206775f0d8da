// Counters and histograms of the server in Prometheus' text form (/metrics), and the access log.
// I/O thread only. Names, labels and buckets are vLLM's where vLLM has the metric, so that its
// dashboards read them; runnel's own start with runnel:.
#ifndef RN_SERVER_METRICS_H
#define RN_SERVER_METRICS_H

#include "generation.h"

// Of the server, and of each of its models.
struct metrics *metrics_create(const struct server *server); // NULL: out of memory
void metrics_destroy(struct metrics *metrics);
struct model_metrics *model_metrics_create(void); // NULL: out of memory
void model_metrics_destroy(struct model_metrics *metrics);

// A token of a choice. The first of a choice has gap NONE and is the time to first token.
void metrics_token(struct served *served, const struct generation_choice *choice,
                   const rn_event *event);
void metrics_choice_end(struct model_metrics *metrics, const struct generation_choice *choice);
// Every call once, when its last byte was handed over or it was given up (`gone`): request counters
// by route and status, and its line in the access log.
void metrics_call_end(struct metrics *metrics, const struct call *call, bool gone);

// Of all drafters together.
rn_draft_stats metrics_drafts(const rn_engine_stats *stats);

// Histograms that the live view shows too.
struct histogram {
    const double *bound; // [n_bounds], ascending, seconds
    int n_bounds;
    uint64_t *count; // [n_bounds + 1], not cumulative
    double sum;
    uint64_t total;
};
const struct histogram *metrics_ttft(const struct model_metrics *metrics);
const struct histogram *metrics_itl(const struct model_metrics *metrics);

#endif
