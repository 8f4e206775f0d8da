// Requests on their way to the step; see intake.h.
//
// Orders that matter: a sequence enters the table before the inbox, so the reaper finds it once it
// is buried. A flag of a sequence is set before `flagged`. `flagged` is raised again for sequences
// that were flagged while they were in the inbox, so no flag is missed. The stacks have no ABA
// problem: they are pushed to one by one but only ever taken whole.
#include "engine/request/intake.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct seq **bucket_of(struct intake *intake, uint64_t id) {
    return &intake->bucket[id % INTAKE_BUCKETS];
}

// Puts first ... last, linked by next, onto a stack.
static void push(_Atomic(struct seq *) *stack, struct seq *first, struct seq *last) {
    struct seq *top = atomic_load_explicit(stack, memory_order_relaxed);
    do last->next = top;
    while (!atomic_compare_exchange_weak_explicit(stack, &top, first, memory_order_release,
                                                  memory_order_relaxed));
}

static void wake(const struct intake *intake) {
    if (intake->wake) intake->wake(intake->wake_ctx);
}

static void family_destroy(struct seq_family *family) {
    shape_destroy(family->shape);
    rules_destroy(family->rules);
    free(family);
}

// Frees a sequence, and its family with the last sequence of it. The lock is held, or no other
// thread is left.
static void drop(const struct intake *intake, struct seq *seq) {
    struct seq_family *family = seq->family;
    assert(family && family->n_alive > 0);
    seq_destroy(seq, &intake->limits);
    if (--family->n_alive == 0) family_destroy(family);
}

rn_status intake_init(struct intake *intake, const struct seq_limits *limits, int max_waiting,
                      rn_error *err) {
    assert(max_waiting > 0);
    memset(intake, 0, sizeof *intake);
    if (pthread_mutex_init(&intake->lock, NULL))
        return err_set(err, RN_ERR_NOMEM, "no memory for a lock");
    intake->limits = *limits;
    intake->max_waiting = max_waiting;
    return RN_OK;
}

void intake_deinit(struct intake *intake) {
    for (int i = 0; i < INTAKE_BUCKETS; i++) {
        while (intake->bucket[i]) {
            struct seq *seq = intake->bucket[i];
            intake->bucket[i] = seq->same_bucket;
            drop(intake, seq);
        }
    }
    pthread_mutex_destroy(&intake->lock);
}

// ---------------------------------------------------------------- submit

// Room for n more, all or none: the count is never above max_waiting by a submit.
static rn_status reserve(struct intake *intake, int n, rn_error *err) {
    if (n > intake->max_waiting)
        return err_set(err, RN_ERR_ARG, "%d choices, but no more than %d may ever wait", n,
                       intake->max_waiting);
    int waiting = atomic_load_explicit(&intake->n_waiting, memory_order_relaxed);
    do {
        if (waiting > intake->max_waiting - n)
            return err_set(err, RN_ERR_FULL, "%d are waiting already, of at most %d", waiting,
                           intake->max_waiting);
    } while (!atomic_compare_exchange_weak_explicit(&intake->n_waiting, &waiting, waiting + n,
                                                    memory_order_relaxed, memory_order_relaxed));
    return RN_OK;
}

static void unreserve(struct intake *intake, int n) {
    atomic_fetch_sub_explicit(&intake->n_waiting, n, memory_order_relaxed);
}

// A list of a family that no other thread knows.
static void drop_list(const struct intake *intake, struct seq *list) {
    while (list) {
        struct seq *next = list->next;
        drop(intake, list);
        list = next;
    }
}

static rn_status family_create(const struct intake *intake, const rn_request *request, int n,
                               struct seq_family **out, rn_error *err) {
    const struct tokenizer *tokenizer = intake->limits.tokenizer;
    struct seq_family *family = calloc(1, sizeof *family);
    if (!family) return err_set(err, RN_ERR_NOMEM, "no memory for a request");
    rn_status status = rules_create(request, tokenizer, &family->rules, err);
    if (!status) status = shape_create(request, n, family->rules, tokenizer, &family->shape, err);
    if (status)
        family_destroy(family);
    else
        *out = family;
    return status;
}

// The n choices as a list, the last one first. The family has as many alive as there are.
static rn_status create(const struct intake *intake, const rn_request *request, int n,
                        struct seq **out, rn_error *err) {
    struct seq_family *family = NULL;
    const rn_status wrong = family_create(intake, request, n, &family, err);
    if (wrong) return wrong;
    const uint64_t seed = seq_seed(request);
    struct seq *list = NULL;
    for (int i = 0; i < n; i++) {
        struct seq *seq;
        const rn_status status = seq_create(request, i, seed, family, &intake->limits, &seq, err);
        if (status) {
            if (!list) family_destroy(family);
            drop_list(intake, list);
            return status;
        }
        if (i == 0) family->leader = seq;
        family->n_alive = family->n_live = i + 1;
        seq->next = list;
        list = seq;
    }
    *out = list;
    return RN_OK;
}

// Into the table, then onto the inbox, in one move: the step sees all choices or none.
static rn_status enqueue(struct intake *intake, struct seq *list, uint64_t *id, rn_error *err) {
    pthread_mutex_lock(&intake->lock);
    const bool closed = intake->closed;
    const rn_status refusal = intake->refusal;
    if (!closed && !refusal) {
        *id = ++intake->last_id;
        struct seq *last = list;
        for (struct seq *seq = list; seq; last = seq, seq = seq->next) {
            struct seq **bucket = bucket_of(intake, *id);
            seq->id = *id;
            seq->same_bucket = *bucket;
            *bucket = seq;
        }
        push(&intake->inbox, list, last);
    }
    pthread_mutex_unlock(&intake->lock);
    if (refusal)
        return err_set(err, refusal, "the engine takes no requests: %s", rn_status_text(refusal));
    if (closed) return err_set(err, RN_ERR_CANCELLED, "the engine was stopped");
    return RN_OK;
}

rn_status intake_submit(struct intake *intake, const rn_request *request, uint64_t *id,
                        rn_error *err) {
    if (request->n < 0 || request->n > RN_MAX_CHOICES)
        return err_set(err, RN_ERR_ARG, "n is %d, expected 0 to %d", request->n, RN_MAX_CHOICES);
    const int n = request->n ? request->n : 1;
    intake_reap(intake);
    rn_status status = reserve(intake, n, err);
    if (status) return status;
    struct seq *list = NULL;
    status = create(intake, request, n, &list, err);
    if (!status) {
        status = enqueue(intake, list, id, err);
        if (status) drop_list(intake, list);
    }
    if (status) {
        unreserve(intake, n);
        return status;
    }
    wake(intake);
    return RN_OK;
}

void intake_refuse(struct intake *intake, rn_status status) {
    pthread_mutex_lock(&intake->lock);
    intake->refusal = status;
    pthread_mutex_unlock(&intake->lock);
}

void intake_close(struct intake *intake, bool closed) {
    pthread_mutex_lock(&intake->lock);
    intake->closed = closed;
    pthread_mutex_unlock(&intake->lock);
}

// ---------------------------------------------------------------- flags

// The step looks at all sequences once it sees this. An exchange, not a store: the step's exchange
// then sees the writes before every raise, not only before the last one.
static void raise_flag(struct intake *intake) {
    atomic_exchange_explicit(&intake->flagged, true, memory_order_release);
    wake(intake);
}

// Of every choice of the request.
static void set_flags(struct intake *intake, uint64_t id, size_t flag_at, bool value) {
    bool found = false;
    pthread_mutex_lock(&intake->lock);
    for (struct seq *seq = *bucket_of(intake, id); seq; seq = seq->same_bucket) {
        if (seq->id != id) continue;
        _Atomic bool *flag = (_Atomic bool *)((char *)seq + flag_at);
        atomic_store_explicit(flag, value, memory_order_relaxed);
        found = true;
    }
    pthread_mutex_unlock(&intake->lock);
    if (found) raise_flag(intake);
}

void intake_cancel(struct intake *intake, uint64_t id) {
    set_flags(intake, id, offsetof(struct seq, cancelled), true);
}

void intake_pause(struct intake *intake, uint64_t id, bool pause) {
    set_flags(intake, id, offsetof(struct seq, paused), pause);
}

void intake_cancel_all(struct intake *intake) {
    pthread_mutex_lock(&intake->lock);
    for (int i = 0; i < INTAKE_BUCKETS; i++)
        for (struct seq *seq = intake->bucket[i]; seq; seq = seq->same_bucket)
            atomic_store_explicit(&seq->cancelled, true, memory_order_relaxed);
    pthread_mutex_unlock(&intake->lock);
    raise_flag(intake);
}

// ---------------------------------------------------------------- the end

void intake_bury(struct intake *intake, struct seq *list) {
    if (!list) return;
    struct seq *last = list;
    while (last->next) last = last->next;
    push(&intake->grave, list, last);
}

void intake_reap(struct intake *intake) {
    if (!atomic_load_explicit(&intake->grave, memory_order_relaxed)) return;
    pthread_mutex_lock(&intake->lock);
    struct seq *seq = atomic_exchange_explicit(&intake->grave, NULL, memory_order_acquire);
    while (seq) {
        struct seq *next = seq->next, **link = bucket_of(intake, seq->id);
        while (*link != seq) link = &(*link)->same_bucket;
        *link = seq->same_bucket;
        drop(intake, seq);
        seq = next;
    }
    pthread_mutex_unlock(&intake->lock);
}

// ---------------------------------------------------------------- the step's thread

struct seq *intake_take(struct intake *intake) {
    if (!atomic_load_explicit(&intake->inbox, memory_order_relaxed)) return NULL;
    struct seq *seq = atomic_exchange_explicit(&intake->inbox, NULL, memory_order_acquire);
    struct seq *oldest = NULL;
    bool flagged = false;
    while (seq) {
        struct seq *older = seq->next;
        flagged |= atomic_load_explicit(&seq->cancelled, memory_order_relaxed) ||
                   atomic_load_explicit(&seq->paused, memory_order_relaxed);
        seq->next = oldest;
        oldest = seq;
        seq = older;
    }
    // the step that took the flag before could not see them
    if (flagged) atomic_exchange_explicit(&intake->flagged, true, memory_order_relaxed);
    return oldest;
}

bool intake_take_flag(struct intake *intake) {
    if (!atomic_load_explicit(&intake->flagged, memory_order_relaxed)) return false;
    return atomic_exchange_explicit(&intake->flagged, false, memory_order_acquire);
}

void intake_admitted(struct intake *intake) { unreserve(intake, 1); }

void intake_preempted(struct intake *intake) {
    atomic_fetch_add_explicit(&intake->n_waiting, 1, memory_order_relaxed);
}
