// GET /metrics: the families of all models (metrics_text.c), then those of the server and the
// process.
#define _GNU_SOURCE 1 // memmem
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "log_sink.h"
#include "otlp.h"
#include "routes.h"
#include "scrape.h"
#include "turns.h"

// ---------------------------------------------------------------- the server

static void put_calls(struct scrape *scrape) {
    const struct metrics *metrics = scrape->server->metrics;
    struct jbuf *out = scrape->out;
    static const char name[] = "runnel:http_requests_total";
    uint64_t refused = 0;
    scrape_family(out, name, "counter", "HTTP requests that ended, by route and status.");
    for (int i = 0; i < metrics->n_answers; i++) {
        const struct metrics_answer *answer = &metrics->answer[i];
        if (answer->status == 429) refused += answer->count;
        jbuf_printf(out, "%s{", name);
        scrape_label(out, "route", answer->route ? answer->route->path : "");
        jbuf_printf(out, ",method=\"%s\",status=\"%d\"}",
                    answer->route ? answer->route->method : "", answer->status);
        scrape_value(out, (double)answer->count);
    }
    scrape_single(scrape, "runnel:requests_refused_total", "counter",
                  "HTTP requests that were refused because too many waited.", (double)refused);
    scrape_single(scrape, "runnel:requests_gone_total", "counter",
                  "HTTP requests whose client hung up before the end.", (double)metrics->gone);
    struct log_sink *log = scrape->server->config.access_log;
    scrape_single(scrape, "runnel:access_log_dropped_total", "counter",
                  "Lines of the access log that found no room or could not be written.",
                  log ? (double)sink_lost(log) : 0);
}

static void put_spans(struct scrape *scrape) {
    static const char name[] = "runnel:otlp_spans_dropped_total";
    struct otlp *otlp = scrape->server->config.otlp;
    const struct otlp_counts counts = otlp ? otlp_get_counts(otlp) : (struct otlp_counts){0};
    scrape_single(scrape, "runnel:otlp_spans_exported_total", "counter",
                  "Spans of traces that the collector took.", (double)counts.exported);
    scrape_family(scrape->out, name, "counter",
                  "Spans of traces that were not exported, by reason.");
    for (int i = 0; i < OTLP_DROP_COUNT; i++)
        scrape_sample(scrape, name, "reason", otlp_drop_text((enum otlp_drop)i),
                      (double)counts.dropped[i]);
    scrape_single(scrape, "runnel:otlp_spans_held", "gauge",
                  "Spans of traces that wait or are being exported.", (double)counts.held);
}

static void put_now(struct scrape *scrape) {
    const struct server_counts now = scrape->server->counts;
    scrape_single(scrape, "runnel:http_connections", "gauge", "Connections.", now.connections);
    scrape_single(scrape, "runnel:http_active", "gauge",
                  "HTTP requests that are worked on or being answered, besides this one.",
                  now.active);
    scrape_single(scrape, "runnel:http_preparing", "gauge",
                  "HTTP requests that are being parsed or wait for it.", now.preparing);
    scrape_single(scrape, "runnel:http_body_bytes", "gauge", "Memory of the requests' bodies.",
                  (double)now.body_bytes);
    scrape_single(scrape, "runnel:http_answer_bytes", "gauge",
                  "Memory of answers that are sent in one piece.", (double)now.answer_bytes);
    int responses;
    size_t response_bytes;
    turns_count(scrape->server->turns, &responses, &response_bytes);
    scrape_single(scrape, "runnel:responses", "gauge",
                  "Responses, and messages of threads, that are kept.", responses);
    scrape_single(scrape, "runnel:response_bytes", "gauge",
                  "Memory of kept responses and messages.", (double)response_bytes);
    if (scrape->alone) scrape_submitted(scrape);
}

// ---------------------------------------------------------------- the process

static double resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return (double)NAN;
    unsigned long total, resident;
    const bool ok = fscanf(file, "%lu %lu", &total, &resident) == 2;
    fclose(file);
    return ok ? (double)resident * (double)sysconf(_SC_PAGESIZE) : (double)NAN;
}

static double cpu_seconds(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage)) return (double)NAN;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void put_process(struct scrape *scrape) {
    struct jbuf *out = scrape->out;
    const struct {
        const char *name, *type, *help;
        double value;
    } single[] = {
        {"process_resident_memory_bytes", "gauge", "Resident memory.", resident_bytes()},
        {"process_cpu_seconds_total", "counter", "Processor time.", cpu_seconds()},
        {"process_start_time_seconds", "gauge", "When the server began, since 1970.",
         scrape->server->metrics->start_s},
    };
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
        scrape_family(out, single[i].name, single[i].type, single[i].help);
        jbuf_text(out, single[i].name);
        scrape_value(out, single[i].value);
    }
    static const char name[] = "runnel:build_info";
    scrape_family(out, name, "gauge", "The program and its backend, as labels.");
    jbuf_printf(out, "%s{version=\"%s\",", name, RN_VERSION);
    scrape_label(out, "backend", scrape->ready ? scrape->info.backend : "");
    jbuf_text(out, ",");
    scrape_label(out, "isa", scrape->ready ? scrape->info.isa : "");
    jbuf_text(out, ",");
    scrape_label(out, "device", scrape->ready ? scrape->info.device : "");
    jbuf_text(out, "} 1\n");
}

// ---------------------------------------------------------------- several models

// A text of families, and the next one that is to be taken from it.
struct families {
    struct jbuf text;
    size_t at;
};

// Bytes up to the next family. A value of a label holds no line end.
static size_t family_len(const struct families *from) {
    static const char next[] = "\n# HELP ";
    const char *data = from->text.data + from->at;
    const size_t left = from->text.len - from->at;
    const char *end = left ? memmem(data, left, next, sizeof next - 1) : NULL;
    return end ? (size_t)(end + 1 - data) : left;
}

// Takes a family; without its two lines of description where it is not the first.
static void family_take(struct families *from, bool described, struct jbuf *out) {
    const char *data = from->text.data + from->at;
    const size_t len = family_len(from);
    size_t skip = 0;
    for (int line = 0; !described && line < 2 && skip < len; line++)
        skip += (size_t)((const char *)memchr(data + skip, '\n', len - skip) + 1 - (data + skip));
    jbuf_bytes(out, data + skip, len - skip);
    from->at += len;
}

// All samples of a family have to follow each other, so the models' texts are merged family by
// family. They have the same families in the same order.
static void put_models(const struct server *server, struct jbuf *out) {
    const int n = server->n_served;
    struct families *of = calloc((size_t)n, sizeof *of);
    if (!of) out->failed = true;
    for (int i = 0; of && i < n; i++) {
        struct scrape scrape = {.server = server, .out = &of[i].text};
        scrape_begin(&scrape, &server->served[i]);
        scrape_model(&scrape);
        if (scrape.labels.failed || of[i].text.failed) out->failed = true;
        jbuf_deinit(&scrape.labels);
    }
    while (of && !out->failed && of[0].at < of[0].text.len)
        for (int i = 0; i < n; i++) family_take(&of[i], i == 0, out);
    for (int i = 0; of && i < n; i++) jbuf_deinit(&of[i].text);
    free(of);
}

// ---------------------------------------------------------------- route

static void put_server(struct scrape *scrape) {
    put_calls(scrape);
    put_spans(scrape);
    put_now(scrape);
    put_process(scrape);
}

void metrics_get(struct call *call) {
    const struct server *server = call->server;
    struct scrape scrape = {.server = server, .out = &call->out, .alone = !server->loader};
    scrape_begin(&scrape, call->served);
    if (scrape.alone) {
        scrape_model(&scrape);
    } else { // figures of the server have no model
        put_models(server, &call->out);
        jbuf_clear(&scrape.labels);
        jbuf_text(&scrape.labels, "engine=\"0\"");
    }
    put_server(&scrape);
    if (scrape.labels.failed) call->out.failed = true;
    jbuf_deinit(&scrape.labels);
    call->content_type = "text/plain; version=0.0.4; charset=utf-8";
    call_answer(call);
}
