// A call: one HTTP request from its head to the last byte of its answer. It belongs to the I/O
// thread, but between call_prepare's hand-over and its end to one worker.
//
//   READING -> WORKING (a worker parses) -> one of: ANSWERED (a reply is queued)
//                                           RUNNING  (engine requests; a stream or one reply)
//   hang-up in any state: `gone`; its engine requests are cancelled, the call is freed when neither
//   the connection nor a worker holds it.
//
// Handlers (routes.def) come in two kinds: `at_once` runs on the I/O thread and must answer there;
// `prepare` runs on a worker: it reads the body, and either answers or fills call->generation.
#ifndef RN_SERVER_CALL_H
#define RN_SERVER_CALL_H

#include <jansson.h>

#include "jbuf.h"
#include "runnel.h"
#include "server_state.h"

enum call_api { API_OPENAI, API_ANTHROPIC }; // whose form errors have

struct route;
struct generation;

struct call {
    struct server *server;
    const struct route *route;
    char id[25];       // random, without a prefix
    int64_t created;   // seconds since 1970
    uint64_t start_ns; // head complete
    char *body;        // [body_len], NUL-terminated
    size_t body_len;
    json_t *json;                  // the body, parsed by call_json; lives as long as the call
    bool has_big_seed;             // "seed" in the body is beyond int64_t: a real in json
    uint64_t big_seed;             // its exact value
    struct generation *generation; // what the engine is to do; NULL: nothing

    // the answer, when it is no stream
    int status;               // 0: none yet
    struct jbuf out;          // its body; of a stream: bytes not yet given to the connection
    const char *content_type; // NULL: application/json
    int retry_after_s;        // with 429 and 503; 0: none
    char allow[32];           // with 405
    const char *etag;         // assets
    bool immutable;           // the body is not of out but of these borrowed bytes
    const char *bytes;
    size_t bytes_len;

    struct call_io *io; // the connection's side (http.c)
};

// --- for handlers, on any thread that owns the call ---

// Before any other call of jansson: want of memory is noticed from here on.
void call_json_init(void);
// The body as JSON, an object; NULL: refused (400 with the offset, or 413...).
json_t *call_json(struct call *call);
// An error answer in the API's form. param NULL: none. The first refusal counts, later ones are
// ignored; always returns false. fmt must not hold paths or addresses of this machine.
bool call_refuse(struct call *call, int status, const char *param, const char *code,
                 const char *fmt, ...) __attribute__((format(printf, 5, 6)));
// Refuses with what the library said, without the model's path before it. Out of
// memory is 503, all else 400.
bool call_refuse_error(struct call *call, const char *param, const rn_error *err);
bool call_refused(const struct call *call);
// The body of such an error, for streams that have begun.
void call_error_object(enum call_api api, int status, const char *param, const char *code,
                       const char *message, struct jbuf *out);
// The answer: 200 with what is in call->out. Refuses with 500 where out has failed.
void call_answer(struct call *call);

// --- streams that no generation feeds; I/O thread ---

// The answer is a stream of server-sent events from here on: bytes are added to call->out.
void call_stream(struct call *call, void (*on_gone)(struct call *call));
void call_wake(struct call *call); // there are new bytes
void call_end(struct call *call);  // and these were the last

// --- I/O thread ---

const char *call_path(const struct call *call);
const char *call_query(const struct call *call, const char *key);   // NULL: not given; I/O thread
const char *call_header(const struct call *call, const char *name); // the same

#endif
