// A list, the newest first. Invariant: the requests take at most `places` places together, so their
// memory is bounded; the oldest leave first. A request of more choices than there are places keeps
// the first ones to end.
#include "kept.h"

#include <stdlib.h>
#include <string.h>

#include "streams.h"

struct kept {
    int places, used;
    struct kept_request *newest, *oldest;
};

struct kept *kept_create(int places) {
    struct kept *kept = calloc(1, sizeof *kept);
    if (kept) *kept = (struct kept){.places = places};
    return kept;
}

static void request_free(struct kept_request *request) {
    record_free(&request->record);
    free(request);
}

void kept_destroy(struct kept *kept) {
    if (!kept) return;
    for (struct kept_request *at = kept->newest, *next; at; at = next) {
        next = at->next;
        request_free(at);
    }
    free(kept);
}

static void leave(struct kept *kept, struct kept_request *request) {
    *(request->prev ? &request->prev->next : &kept->newest) = request->next;
    *(request->next ? &request->next->prev : &kept->oldest) = request->prev;
    kept->used -= request->places;
    request_free(request);
}

const struct kept_request *kept_newest(const struct kept *kept) { return kept->newest; }

static struct kept_request *find(const struct kept *kept, struct owner owner, uint64_t request,
                                 const char *id) {
    struct kept_request *found = NULL;
    for (struct kept_request *at = kept->newest; at; at = at->next) {
        const struct record *record = &at->record;
        if (!owner_is(at->owner, owner)) continue;
        if (request ? record->request != request
                    : strcmp(record->id, id) != 0 && strcmp(record->x_request_id, id) != 0)
            continue;
        if (!found || at->record.request < found->record.request) found = at;
    }
    return found;
}

const struct kept_request *kept_find(const struct kept *kept, struct owner owner, uint64_t request,
                                     const char *id) {
    return find(kept, owner, request, id);
}

// NULL: out of memory.
static struct kept_request *enter(struct kept *kept, const struct stream *stream) {
    const struct served *served = stream->served;
    const int n = stream->n_choices < kept->places ? stream->n_choices : kept->places;
    struct kept_request *request = calloc(1, sizeof *request);
    struct record_choice *choice = calloc((size_t)n, sizeof *choice);
    if (!request || !choice) {
        free(request);
        free(choice);
        return NULL;
    }
    while (kept->oldest && kept->used + n > kept->places) leave(kept, kept->oldest);
    record_init(&request->record, stream->id, stream->number, served->name, &served->engine_info,
                served->bandwidth, served->peak);
    memcpy(request->record.x_request_id, stream->request_id, sizeof stream->request_id);
    request->record.n = stream->n_choices;
    request->owner = stream->owner;
    request->record.choice = choice;
    request->places = n;
    request->next = kept->newest;
    *(kept->newest ? &kept->newest->prev : &kept->oldest) = request;
    kept->newest = request;
    kept->used += n;
    return request;
}

void kept_take(struct kept *kept, const struct stream *stream, const rn_event *event) {
    if (!kept || !kept->places || !event->account || !event->timings) return;
    struct kept_request *request = find(kept, stream->owner, stream->number, stream->id);
    if (!request) request = enter(kept, stream);
    if (!request) return;
    struct record *record = &request->record;
    request->ended = event->last;
    request->submit_ns = event->account->submit_ns;
    if (record->n_choices == request->places) return;
    record->choice[record->n_choices++] = (struct record_choice){.index = event->choice,
                                                                 .finish = event->finish,
                                                                 .timings = *event->timings,
                                                                 .account = *event->account};
}
