// See lineup.h.
#include "lineup.h"

#include <stdio.h>
#include <string.h>

static bool shares_memory(const struct served *a, const struct served *b) {
    return !strcmp(a->need.device, b->need.device);
}

// The model whose turn it is to be loaded; NULL: none is wanted.
static struct served *wanted_find(struct served *served, int n) {
    struct served *first = NULL;
    for (int i = 0; i < n; i++) {
        struct served *at = &served[i];
        if (at->wanted_ns && (!first || at->wanted_ns < first->wanted_ns)) first = at;
    }
    return first;
}

// Bytes of loaded models beside this one; with keep_only, of models that are never unloaded.
static uint64_t bytes_beside(const struct served *served, int n, const struct served *wanted,
                             bool keep_only) {
    uint64_t bytes = 0;
    for (int i = 0; i < n; i++) {
        const struct served *at = &served[i];
        if (at != wanted && at->state == SERVED_READY && shares_memory(at, wanted) &&
            (!keep_only || at->source->keep))
            bytes += at->need.bytes;
    }
    return bytes;
}

static bool fits(const struct served *served, int n, const struct served *wanted) {
    const uint64_t bytes_max = wanted->bytes_max;
    if (wanted->is_short) return false;
    return !bytes_max || bytes_beside(served, n, wanted, false) + wanted->need.bytes <= bytes_max;
}

// The least recently used model that could make room; NULL: none. Among busy ones a model that
// yields already stays the one: each call that ends makes it a recently used model, and two busy
// models would yield in turn for ever.
static struct served *victim_find(struct served *served, int n, const struct served *wanted,
                                  bool idle_only) {
    struct served *victim = NULL;
    for (int i = 0; i < n; i++) {
        struct served *at = &served[i];
        if (at == wanted || at->state != SERVED_READY || at->source->keep ||
            !shares_memory(at, wanted) || (idle_only && !served_is_idle(at)))
            continue;
        if (!idle_only && at->yields) return at;
        if (!victim || at->used_ns < victim->used_ns) victim = at;
    }
    return victim;
}

static void size_say(struct served *wanted, uint64_t kept) {
    const double mb = 1 << 20;
    const size_t size = sizeof wanted->reason;
    const int len =
        snprintf(wanted->reason, size, "it needs %.0f MiB of memory, and models may take %.0f MiB",
                 (double)wanted->need.bytes / mb, (double)wanted->bytes_max / mb);
    if (kept)
        snprintf(wanted->reason + len, size - (size_t)len, ", of which kept models have %.0f MiB",
                 (double)kept / mb);
}

// Room has to be made for it. *yields: a busy model whose new calls wait until there is room.
static struct lineup_step make_room(struct served *served, int n, struct served *wanted,
                                    const struct served **yields) {
    const uint64_t kept = bytes_beside(served, n, wanted, true);
    if (wanted->bytes_max && kept + wanted->need.bytes > wanted->bytes_max) {
        size_say(wanted, kept);
        return (struct lineup_step){LINEUP_FAIL, wanted};
    }
    struct served *victim = victim_find(served, n, wanted, true);
    if (victim) return (struct lineup_step){LINEUP_UNLOAD, victim};
    victim = victim_find(served, n, wanted, false);
    if (!victim) return (struct lineup_step){LINEUP_FAIL, wanted}; // the plan has its reason
    *yields = victim;
    return (struct lineup_step){LINEUP_NOTHING, NULL};
}

// An idle model that was dismissed or has not been used for its time.
static struct served *expired_find(struct served *served, int n, uint64_t now_ns,
                                   uint64_t *due_ns) {
    for (int i = 0; i < n; i++) {
        struct served *at = &served[i];
        if (at->state != SERVED_READY || !served_is_idle(at) || at->n_waiting) continue;
        if (at->is_dismissed) return at;
        const uint64_t end_ns = served_end_ns(at);
        if (!end_ns) continue;
        if (now_ns >= end_ns) return at;
        if (!*due_ns || end_ns < *due_ns) *due_ns = end_ns;
    }
    return NULL;
}

static struct lineup_step decide(struct served *served, int n, uint64_t now_ns, uint64_t *due_ns,
                                 const struct served **yields) {
    struct served *wanted = wanted_find(served, n);
    struct served *expired = expired_find(served, n, now_ns, due_ns);
    if (expired) return (struct lineup_step){LINEUP_UNLOAD, expired};
    if (!wanted) return (struct lineup_step){LINEUP_NOTHING, NULL};
    if (!wanted->n_waiting && !wanted->is_asked) // nobody waits any more: no model goes for it
        return (struct lineup_step){LINEUP_UNLOAD, wanted};
    if (!wanted->is_planned) return (struct lineup_step){LINEUP_PLAN, wanted};
    if (fits(served, n, wanted)) return (struct lineup_step){LINEUP_LOAD, wanted};
    return make_room(served, n, wanted, yields);
}

struct lineup_step lineup_next(struct served *served, int n, uint64_t now_ns, uint64_t *due_ns) {
    const struct served *yields = NULL;
    *due_ns = 0;
    const struct lineup_step step = decide(served, n, now_ns, due_ns, &yields);
    for (int i = 0; i < n; i++) served[i].yields = &served[i] == yields;
    return step;
}
