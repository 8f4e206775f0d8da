// The streams that the live view follows: each choice in the engine's pictures and events, under a
// short number that is never used again. I/O thread only.
#ifndef RN_SERVER_LIVE_STREAMS_H
#define RN_SERVER_LIVE_STREAMS_H

#include "owner.h"
#include "runnel.h"

enum { LIVE_TOKENS_MAX = 512, LIVE_ID_BYTES = 48 };

struct live_token {
    uint64_t time_ns;
    rn_cause cause; // NONE: the first
};

struct live_stream {
    uint64_t request;
    int choice;             // of the request's
    int index;              // of the call's
    uint64_t number;        // short name, from 1
    char id[LIVE_ID_BYTES]; // of the answer; "": not known yet, and then there is no owner
    struct owner owner;
    rn_stream_state state;
    int prompt_tokens, cached_tokens, done_tokens, output_tokens;
    int draft_tokens, accepted_tokens;
    uint32_t pages;
    struct live_token *token; // [n_tokens] since the last picture, the first LIVE_TOKENS_MAX
    int n_tokens, token_capacity;
    uint64_t since_ns; // the engine has had it at least since then
    int missed;        // pictures in a row that it should have been in
    bool pictured;     // it was in one
    bool ended;        // shown once more
};

struct live_streams {
    struct live_stream *stream; // [n], ascending by request and choice
    int n, capacity;
    uint64_t last_number;
};

void live_streams_clear(struct live_streams *streams); // numbers continue
// A token. It is lost where memory runs out.
void live_streams_token(struct live_streams *streams, const char *id, struct owner owner, int index,
                        const rn_event *event);
// Takes the engine's picture. A stream that is in neither of two pictures has ended.
void live_streams_view(struct live_streams *streams, const rn_view *view);
// They were shown: ended ones go, and tokens are collected again.
void live_streams_shown(struct live_streams *streams);
// The number of the request's first choice; 0: not known.
uint64_t live_streams_number(const struct live_streams *streams, uint64_t request);

#endif
