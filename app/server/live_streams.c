// Streams are kept in the order of (request, choice): new ones come at the end, and the pages'
// owners are found by halving. Two unsynchronised sources feed the list. A picture may lack a
// stream that an event has named, or show a stream that an event has ended.
#include "live_streams.h"

#include <stdlib.h>
#include <string.h>

// ---------------------------------------------------------------- the list

// The first that is not before it.
static int place_of(const struct live_streams *streams, uint64_t request, int choice) {
    int low = 0, high = streams->n;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const struct live_stream *at = &streams->stream[middle];
        if (at->request < request || (at->request == request && at->choice < choice)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool grow(struct live_streams *streams) {
    if (streams->n < streams->capacity) return true;
    const int capacity = streams->capacity ? 2 * streams->capacity : 16;
    struct live_stream *grown = realloc(streams->stream, (size_t)capacity * sizeof *grown);
    if (!grown) return false;
    streams->stream = grown;
    streams->capacity = capacity;
    return true;
}

// Finds or adds. NULL: out of memory.
static struct live_stream *obtain(struct live_streams *streams, uint64_t request, int choice,
                                  uint64_t time_ns) {
    const int place = place_of(streams, request, choice);
    struct live_stream *at = streams->stream + place;
    if (place < streams->n && at->request == request && at->choice == choice) return at;
    if (!grow(streams)) return NULL;
    at = streams->stream + place;
    memmove(at + 1, at, (size_t)(streams->n - place) * sizeof *at);
    streams->n++;
    *at = (struct live_stream){.request = request,
                               .choice = choice,
                               .index = choice,
                               .number = ++streams->last_number,
                               .since_ns = time_ns};
    return at;
}

void live_streams_clear(struct live_streams *streams) {
    for (int i = 0; i < streams->n; i++) free(streams->stream[i].token);
    free(streams->stream);
    *streams = (struct live_streams){.last_number = streams->last_number};
}

void live_streams_shown(struct live_streams *streams) {
    int kept = 0;
    for (int i = 0; i < streams->n; i++) {
        struct live_stream *stream = &streams->stream[i];
        if (stream->ended) {
            free(stream->token);
            continue;
        }
        if (stream->pictured) stream->n_tokens = 0;
        streams->stream[kept++] = *stream;
    }
    streams->n = kept;
}

uint64_t live_streams_number(const struct live_streams *streams, uint64_t request) {
    const int place = place_of(streams, request, 0);
    if (place == streams->n || streams->stream[place].request != request) return 0;
    return streams->stream[place].number;
}

// ---------------------------------------------------------------- sources

static void token_add(struct live_stream *stream, const rn_event *event) {
    if (stream->n_tokens == LIVE_TOKENS_MAX) return;
    if (stream->n_tokens == stream->token_capacity) {
        const int capacity = stream->token_capacity ? 2 * stream->token_capacity : 16;
        struct live_token *grown = realloc(stream->token, (size_t)capacity * sizeof *stream->token);
        if (!grown) return;
        stream->token = grown;
        stream->token_capacity = capacity;
    }
    stream->token[stream->n_tokens++] =
        (struct live_token){.time_ns = event->time_ns, .cause = event->cause};
}

void live_streams_token(struct live_streams *streams, const char *id, struct owner owner, int index,
                        const rn_event *event) {
    struct live_stream *stream = obtain(streams, event->request, event->choice, event->time_ns);
    if (!stream || stream->ended) return;
    stream->index = index;
    if (!stream->id[0]) strncpy(stream->id, id, LIVE_ID_BYTES - 1);
    stream->owner = owner;
    if (event->token >= 0) token_add(stream, event);
    if (event->finish == RN_FINISH_NONE) return;
    stream->ended = true;
    stream->pages = 0;
    if (!event->timings) return;
    stream->prompt_tokens = event->timings->prompt_tokens;
    stream->cached_tokens = event->timings->cached_tokens;
    stream->output_tokens = event->timings->output_tokens;
    stream->draft_tokens = event->timings->draft_tokens;
    stream->accepted_tokens = event->timings->accepted_tokens;
    stream->done_tokens = stream->prompt_tokens + stream->output_tokens;
}

static void view_one(struct live_streams *streams, const rn_stream_view *view, uint64_t time_ns) {
    struct live_stream *stream = obtain(streams, view->request, view->choice, time_ns);
    if (!stream || stream->ended) return;
    stream->state = view->state;
    stream->prompt_tokens = view->prompt_tokens;
    stream->cached_tokens = view->cached_tokens;
    stream->done_tokens = view->done_tokens;
    stream->output_tokens = view->output_tokens;
    stream->draft_tokens = view->draft_tokens;
    stream->accepted_tokens = view->accepted_tokens;
    stream->pages = view->pages;
    stream->pictured = true;
    stream->missed = -1;
}

void live_streams_view(struct live_streams *streams, const rn_view *view) {
    for (size_t i = 0; i < view->n_streams; i++) {
        view_one(streams, &view->stream[i], view->time_ns);
    }
    for (int i = 0; i < streams->n; i++) {
        struct live_stream *stream = &streams->stream[i];
        if (stream->since_ns > view->time_ns) continue; // it came after the picture
        // Twice, because events of an ended stream may not be collected yet.
        if (++stream->missed == 2) stream->ended = true;
    }
}
