// A call: one HTTP request from its head to the last byte of its answer. It belongs to the I/O
// thread, and to one worker while it is WORKING. It knows neither the connection that brought it
// nor the engine: conn.c reads `out` and the state, stream_events.c feeds it.
//
//   READING ─► WORKING ─► RUNNING ─► ENDED      a whole answer, after the engine's work
//      │          │    │      └─► STREAMING     once the engine took a stream with a bound on time
//      │          │    └─► STREAMING ─► ENDED   bytes of out are sent as they come
//      │          └──────────────────► ENDED   answered or refused by a worker
//      └─► STREAMING or ENDED                   a route that answers at once
//
// With several models (waiting.h) a worker has a call twice: it finds the model, then the handler
// runs. In between the call is LOADING until its model is there:
//
//   WORKING ─► LOADING ─► WORKING
//
// Handlers (routes.def) come in two kinds. `at_once` runs on the I/O thread and must answer there.
// It may leave the call RUNNING, and answer and call_end it later.
// `prepare` runs on a worker: it reads the body, and either answers or fills call->generation.
// Includes point one way: connection (conn.h) -> streams.h -> generation.h -> this file.
#ifndef RN_SERVER_CALL_H
#define RN_SERVER_CALL_H

#include <jansson.h>

#include "jbuf.h"
#include "otlp_context.h"
#include "owner.h"
#include "reader.h"
#include "runnel.h"
#include "server_state.h"

enum { CALL_ID_BYTES = 48, CALL_REQUEST_ID_BYTES = 129 };

enum call_api { API_OPENAI, API_ANTHROPIC, API_OLLAMA }; // whose form errors have

enum call_state {
    CALL_READING,   // its body is being read
    CALL_WORKING,   // a worker has it
    CALL_LOADING,   // it waits for its model
    CALL_RUNNING,   // the engine works for it, and its answer comes in one piece
    CALL_STREAMING, // the bytes in out can be sent, and more will come
    CALL_ENDED,     // all of the answer is there
};

// An integer of the body that int64_t does not hold. In the parsed body it is a real.
struct json_big {
    const char *place; // "a", or "a.b" for the member b of the member a
    bool fits;         // uint64_t holds it:
    uint64_t value;
    char text[32]; // as it was sent, shortened; "": it was none
};

// The places of a seed in a body: its own, in Ollama's options, in the settings of
// /inference/v1/generate.
enum { SEED_BODY, SEED_OPTIONS, SEED_SETTINGS, SEED_PLACES };

struct route;
struct generation;

struct call {
    struct server *server;
    struct served *served;     // the model that it is for
    bool is_bound;             // the model is loaded, and stays so until the call has ended
    bool describes;            // it is answered from the model's files: the model is not loaded
    bool wants_events;         // its answer is a stream of server-sent events
    bool dismisses;            // it asks for its model to be unloaded
    bool is_use;               // it generates or embeds: the model's stay starts again behind it
    struct served_stay stay;   // that it asks for
    struct call *waits;        // the next call that waits for the same model
    struct call *queued;       // the next call of the workers' same queue
    uint64_t ticket;           // its place among all calls that workers got
    _Atomic bool is_gone;      // its client hung up while a worker had it
    const struct route *route; // NULL: there is none
    struct head head;          // the request's line and fields; text NULL: they could not be read
    char *path;                // of the target, unescaped
    const char *query;         // of the target, as it was sent; NULL: none
    bool head_only;            // the method is HEAD: no byte of the body is sent
    bool cors;                 // the answer is for a page of another site
    struct owner owner;        // its API key
    char id[25];               // random, without a prefix
    char request_id[CALL_REQUEST_ID_BYTES]; // the client's X-Request-Id; "": none
    struct otlp_context trace;              // that it belongs to
    int64_t created;                        // seconds since 1970
    uint64_t start_ns;                      // head complete
    uint64_t load_ns;                       // that it waited for its model to be loaded
    char *body;                             // [body_len], NUL-terminated
    size_t body_len, body_capacity;
    size_t body_cost;   // its share of server->counts.body_bytes
    size_t answer_cost; // its share of answer_bytes: the larger one of the next two
    size_t answer_reserved, answer_kept;
    size_t answer_cost_max; // the most it was
    size_t out_counted;     // of answer_kept, bytes of out
    json_t *json;           // the body, parsed by call_json; lives as long as the call
    struct json_big big_seed[SEED_PLACES]; // where a seed of the body is one
    struct generation *generation;         // the work for the engine; NULL: none

    // the answer
    enum call_state state;
    int status;               // 0: none yet
    struct jbuf out;          // its body; of a stream: bytes that were not sent
    size_t taken;             // bytes of out that were sent
    const char *content_type; // NULL: application/json, of a stream text/event-stream
    int retry_after_s;        // with 429 and 503; 0: none
    char allow[32];           // with 405
    const char *etag;         // assets
    bool by_accept;           // it depends on the request's Accept field
    bool immutable;           // the body is not of out but of these borrowed bytes
    const char *bytes;
    size_t bytes_len;
    bool close_after;                   // the connection ends with the answer
    bool failed;                        // the answer cannot be completed
    uint64_t sent;                      // bytes of the body that were sent
    uint64_t written_ns;                // when bytes were last added
    void (*on_gone)(struct call *call); // a stream's watcher, told once at its end
    // Adds more of an answer that is too large to be there at once. False: that was the last of it.
    bool (*more)(struct call *call);

    struct call *next, *prev; // in server->calls, when past READING
    struct call *woken;       // next in server->woken
    bool is_woken;
    struct conn *conn; // that sends it; NULL: none, it is freed when its worker is done
};

// --- for handlers, on any thread that owns the call ---

// Before any other call of jansson: running out of memory is noticed from here on.
void call_json_init(void);
// Parses JSON that the server wrote itself. NULL if memory ran out.
json_t *call_json_kept(const char *text, size_t len);
// The body as JSON, an object; NULL: refused (400 with the offset, or 413...).
json_t *call_json(struct call *call);
// An error answer in the API's form. param NULL: none. The first refusal is kept, later ones are
// ignored; always returns false. fmt must not hold paths or addresses of this machine.
bool call_refuse(struct call *call, int status, const char *param, const char *code,
                 const char *fmt, ...) __attribute__((format(printf, 5, 6)));
// Refuses a prompt of n_prompt tokens that does not fit the context: 400, context_length_exceeded.
// In OpenAI's form the error has both numbers.
bool call_refuse_length(struct call *call, const char *param, size_t n_prompt, int n_ctx,
                        const char *message);
// Refuses with the library's message, without the model's path before it. Out of
// memory is 503, all else 400.
bool call_refuse_error(struct call *call, const char *param, const rn_error *err);
bool call_refuse_memory(struct call *call); // 503, out_of_memory; false
bool call_refused(const struct call *call);
enum call_api call_api_of(const struct call *call); // whose form its errors have
// The body of such an error, for streams that have started.
void call_error_object(enum call_api api, int status, const char *param, const char *code,
                       const char *message, struct jbuf *out);
// The answer: 200 with the bytes of call->out. Refuses with 503 where there was no memory for it,
// with 413 where it is too large.
void call_answer(struct call *call);

const char *call_path(const struct call *call);
// The id that its answer has, such as chatcmpl-...
void call_answer_id(const struct call *call, char out[CALL_ID_BYTES]);
const char *call_header(const struct call *call, const char *name); // NULL: not given
// The value of key in the query, as it was sent, copied to out; NULL: not given.
const char *call_query(const struct call *call, const char *key, char *out, size_t size);

// --- I/O thread ---

// Takes the head over; NULL: out of memory, and the head is freed.
struct call *call_create(struct server *server, struct head *head);
void call_destroy(struct call *call);
void call_state_set(struct call *call, enum call_state state);
bool call_refuse_full(struct call *call); // 429 with Retry-After; false

// The answer is a stream from here on: bytes are added to call->out, and call_wake has them sent.
void call_stream(struct call *call, void (*on_gone)(struct call *call));
void call_wake(struct call *call); // its connection looks at it in this turn of the loop
void call_end(struct call *call);  // no bytes come after those in out
void call_fail(struct call *call); // nothing whole can be made of it: the connection is cut
struct call *call_woken(struct server *server); // the next that was woken; NULL: none
// Bytes that are kept for the answer were `before` and are `now`. False: all answers together take
// more than they may.
bool call_count(struct call *call, size_t before, size_t now);
bool call_count_out(struct call *call); // the same for the present size of `out`
// Sets bytes aside for the answer; they are counted whether it has them yet or not. False: fewer
// are left.
bool call_reserve(struct call *call, size_t bytes);
// 503 instead of the answer, whose bytes are no longer counted: other answers take too much memory.
// False.
bool call_refuse_answers(struct call *call);
// More of an answer that is made piece by piece, until this many bytes wait to be sent. False: all
// answers together take more than they may.
bool call_fill(struct call *call, size_t bytes);

static inline size_t call_unsent(const struct call *call) {
    return (call->immutable ? call->bytes_len : call->out.len) - call->taken;
}

#endif
