// A scrape of /metrics: its sources, its buffer, and the lines of Prometheus' text form. I/O thread
// only.
#ifndef RN_SERVER_SCRAPE_H
#define RN_SERVER_SCRAPE_H

#include "metrics_state.h"

struct scrape {
    const struct server *server;
    const struct served *served; // whose families these are
    bool ready;                  // the engine is there
    bool alone;                  // the server has one model
    rn_engine_stats stats;
    rn_store_stats store;
    bool has_store;
    rn_engine_info info;
    struct jbuf *out;
    struct jbuf labels; // model_name="...",engine="0"
};

void scrape_begin(struct scrape *scrape, const struct served *served);
void scrape_model(struct scrape *scrape);     // all families of its model
void scrape_submitted(struct scrape *scrape); // of them; with one model it follows the server's

// name="value", escaped.
void scrape_label(struct jbuf *out, const char *name, const char *value);
void scrape_family(struct jbuf *out, const char *name, const char *type, const char *help);
void scrape_value(struct jbuf *out, double value);
// name{labels,key="text"} value; key NULL: without.
void scrape_sample(struct scrape *scrape, const char *name, const char *key, const char *text,
                   double value);
// A family of one sample.
void scrape_single(struct scrape *scrape, const char *name, const char *type, const char *help,
                   double value);

#endif
