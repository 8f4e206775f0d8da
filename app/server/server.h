// The server: one I/O thread that owns every connection, call and stream; workers that parse,
// render and tokenize; the engine's own thread. `runnel serve` fills the configuration and runs it.
//
//   I/O thread:  sockets, engine events, timers, signals. Takes no lock that a step
//                holds, does nothing that takes long.
//   workers:     own a call between its body and its submission, and touch nothing else.
//
// Life: LOADING (every route but /health says 503) -> READY -> DRAINING (no new work, streams
// finish) -> the loop ends.
#ifndef RN_SERVER_SERVER_H
#define RN_SERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "runnel.h"

struct log_sink;
struct kv_events;
struct otlp;
struct routing_objective;
struct server;
struct trace;

// A model of a server that has several. It is loaded when a request asks for it.
struct server_source {
    const char *name; // for clients
    const char *const *aliases;
    int n_aliases;
    int places;    // choices that it takes at a time, running or waiting
    bool at_start; // loaded without a request
    bool keep;     // never unloaded
    double idle_s; // unloaded when it was not used for this time; 0: never
    void *ctx;     // of the functions below
};

// The memory that a model takes when it is loaded, and of which device.
struct server_need {
    uint64_t bytes;
    uint64_t available;          // free there now; 0: unknown
    char device[RN_DEVICE_NAME]; // "": this machine's own memory
};

struct server_model;

// A model as its files describe it, without an engine.
struct server_description {
    const rn_model *model;
    const char *tmpl_source; // NULL: none
    rn_sampling sampling;
    int n_ctx;  // of an engine with enough memory
    void *held; // for describe_end
};

// How models come and go. The functions run on the loader's thread, one at a time. An error's
// message must not hold paths of this machine.
struct server_loading {
    const struct server_source *source; // [n_sources]; 0: one model, which server_ready brings
    int n_sources;
    uint64_t bytes_max; // of all loaded models of a device; 0: as many as are free before the first
    // RN_ERR_NOMEM: too little is free now. Other errors: it cannot be loaded.
    rn_status (*plan)(void *ctx, struct server_need *out, rn_error *err);
    rn_status (*load)(void *ctx, struct server_model *out, rn_error *err);
    // Gives everything back, also what `plan` has opened; its engine has no request.
    void (*unload)(void *ctx);
    // Any thread, at any time: reads the heads of the model's files, whether it is loaded or not.
    rn_status (*describe)(void *ctx, struct server_description *out, rn_error *err);
    void (*describe_end)(struct server_description *description);
};

// All strings outlive the server. Zeroed numbers are not defaults: serve fills every field.
struct server_config {
    const char *host;        // address to listen on
    int port;                // 0: any free one
    const char *const *keys; // API keys; none: no key is asked for
    int n_keys;
    const char *const *origins; // of other sites whose pages may call; "*": any
    int n_origins;
    const char *const *hosts; // names that the Host header may have besides addresses, localhost
    int n_hosts;              // and `host`
    const char *tls_cert, *tls_key; // PEM text; NULL: plain HTTP
    const char *model_name;         // the model's name for clients, where it is the only one
    const char *const *aliases;     // further names
    int n_aliases;
    bool strict_model;             // of one model: a request with another name gets 404
    struct server_loading loading; // of several models
    bool ui;
    struct log_sink *access_log;                // NULL: none; borrowed
    struct log_sink *request_lines;             // the same for people; NULL: none
    struct otlp *otlp;                          // exporter of spans; NULL: none; borrowed
    struct trace *trace;                        // NULL: none; borrowed, used by the I/O thread
    int keep_requests;                          // finished requests whose records are kept
    const struct routing_objective *objectives; // names that stand for priorities
    int n_objectives;
    bool all_logprobs;  // requests may ask for the whole vocabulary's
    int keep_responses; // responses and messages that are kept (turns.h), and their memory
    size_t response_bytes_max;

    size_t body_bytes_max;    // of one request
    size_t pending_bytes_max; // bodies of all requests, parsed ones included
    size_t answer_bytes_max;  // answers of all requests, as far as they are kept
    int connections_max;
    int workers;
    double header_s, body_s, idle_s; // to read a request's head and body; between requests
    double keepalive_s;              // a stream that is silent for this time gets a comment
    double stall_s;   // a client that reads nothing for this time, or twice that, is disconnected
    double stuck_s;   // a step that takes longer makes the server unhealthy
    double request_s; // most time of a request; 0: no limit
    double drain_s;   // most time to finish streams at the end; 0: no limit
    size_t stream_bytes_max; // unsent bytes of a stream, then its requests are paused

    // Called on the I/O thread; they must not wait. In this order: a signal came while the model
    // was loading; draining starts; files are to be opened again (ready: neither loading nor
    // draining).
    void (*on_early_signal)(void *ctx, int signal_number);
    void (*on_drain)(void *ctx, int signal_number, int n_active);
    void (*on_reload)(void *ctx, bool ready);
    void *signal_ctx;
    // Told of what an operator should know, by any thread. NULL if nobody is told.
    rn_note_fn note;
    void *note_ctx;
};

// A loaded model. All of it outlives the server, or is there until `unload`.
struct server_model {
    const rn_model *model;
    rn_engine *engine; // not started; its max_waiting is all that the server takes at a time,
                       // running requests included
    const rn_chat_template *tmpl; // with its source; NULL: the model has none, chat is refused
    const char *tmpl_source;
    const char *variables;  // for templates, where requests give none: a JSON object, or NULL
    rn_sampling sampling;   // for requests that give none
    int max_tokens;         // the same; -1: up to the context
    const char *pooling;    // of embeddings, the same; NULL if the model's files say it
    double bandwidth, peak; // measured, in bytes/s and operations/s; 0: unknown
    const struct kv_events *kv_events; // publisher of its blocks; NULL: none
};

// Opens the socket and starts the I/O thread: /health answers from here on. RN_ERR_ARG: the address
// cannot be had, the certificate is wrong.
rn_status server_create(const struct server_config *config, struct server **out, rn_error *err);
int server_port(const struct server *server);
// Any thread, of a server with TLS: connections that come from now on get this certificate, as PEM
// text. RN_ERR_ARG: it cannot be used, and the old one stays.
rn_status server_renew_tls(struct server *server, const char *cert, const char *key, rn_error *err);
// Of a server of one model: the model is there.
rn_status server_ready(struct server *server, const struct server_model *model, rn_error *err);
// Runs until a signal (SIGTERM, SIGINT, or SIGHUP of a terminal that has gone) has drained it, or
// until the engine loses its device. Then requests have ended with an error, and their answers got
// some time to be sent. Returns the signal that ended it, negative when the drain was cut short by
// a second one, or SERVER_LOST.
enum { SERVER_LOST = 1 << 16 }; // no signal
int server_wait(struct server *server);
// After server_wait: a model is being loaded or unloaded, which server_destroy would wait for.
bool server_is_loading(const struct server *server);
void server_destroy(struct server *server);

#endif
