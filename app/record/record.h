// The record of a request: where the time of each of its choices went, on which machine and with
// which engine. One writer and one reader of its JSON serve the server, `runnel explain` and
// `runnel run`. The words about a record are part of the JSON, so all of them say the same.
#ifndef RN_RECORD_RECORD_H
#define RN_RECORD_RECORD_H

#include "runnel.h"
#include "server/jbuf.h"

#define RECORD_SCHEMA "runnel.request"
enum {
    RECORD_VERSION = 1,
    RECORD_ID_BYTES = 64,
    RECORD_MODEL_BYTES = 256,
    RECORD_NAME_BYTES = 32,
    RECORD_CLIENT_ID_BYTES = 129
};

struct record_choice {
    int index;        // of the request's
    rn_finish finish; // NONE: it is running
    rn_timings timings;
    rn_account account;
};

// The engine, as far as advice depends on it.
struct record_engine {
    char backend[RECORD_NAME_BYTES], isa[RECORD_NAME_BYTES], kv_type[RECORD_NAME_BYTES];
    int n_threads, n_ctx, max_seqs, batch_tokens;
    double itl_ms;
    int draft_max; // 0: nothing is drafted
    uint64_t weight_bytes, kv_token_bytes, kv_bytes;
};

struct record_machine {
    double bandwidth; // bytes/s; 0: not measured
    double peak;      // operations/s; 0: not measured
};

struct record {
    char id[RECORD_ID_BYTES];                  // of the response; "": it has none
    char x_request_id[RECORD_CLIENT_ID_BYTES]; // the client's header; "": none. Written, not read
    uint64_t request;                          // the engine's id
    char model[RECORD_MODEL_BYTES];
    int64_t time_s; // seconds since 1970, of the writing
    struct record_engine engine;
    struct record_machine machine;
    int n;                        // choices of the request
    struct record_choice *choice; // [n_choices], of these the choices that are recorded
    int n_choices;
};

// Everything but choices.
void record_init(struct record *record, const char *id, uint64_t request, const char *model,
                 const rn_engine_info *info, double bandwidth, double peak);
// Fills the figures that a running choice has already, from its account.
void record_running(struct record_choice *choice, uint64_t now_ns);
// Bytes of KV memory that the choice's tokens took, in whole pages.
uint64_t record_kv_bytes(const struct record *record, const struct record_choice *choice);

void record_write(struct jbuf *out, const struct record *record);
// name: of the file or server, for messages. RN_ERR_ARG: the text is no such document; the message
// has the name and the place. On success record_free is due.
rn_status record_read(const char *name, const char *text, size_t len, struct record *out,
                      rn_error *err);
void record_free(struct record *record);

#endif
