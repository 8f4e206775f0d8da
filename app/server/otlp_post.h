// Posts of the exporter to its collector: one connection that is kept between posts, with TLS where
// the URL asks for it. Runs on the exporter's thread, except for otlp_collector_stop.
#ifndef RN_SERVER_OTLP_POST_H
#define RN_SERVER_OTLP_POST_H

#include "client/client.h"
#include "otlp.h"

struct otlp_collector;

// Told once when posts start to fail, and once when they work again (problem NULL). On the
// exporter's thread; never after a stop.
typedef void otlp_told(void *ctx, const char *problem);

// headers: whole lines, beside those of every post. told may be NULL. NULL: errno says why.
struct otlp_collector *otlp_collector_create(const struct client_url *url, const char *headers,
                                             otlp_told *told, void *told_ctx);

// For otlp_config; ctx is an otlp_collector.
otlp_post otlp_collector_post;
void otlp_collector_stop(void *ctx);
void otlp_collector_free(void *ctx);

#endif
