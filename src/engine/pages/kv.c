// The page manager: states of pages, and the clears and copies that the next run is to do.
// See kv.h for the invariants. Called by the scheduler and the publisher, on the step's thread.
#include "engine/pages/kv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "engine/pages/kv_internal.h"

// --- create ---

static rn_status group_init(struct kv *kv, const struct kv_config *config, int g, rn_error *err) {
    struct kv_group *const group = &kv->group[g];
    assert(config->group[g].page_bytes > 0);
    assert(config->group[g].window > 0 ||
           (config->group[g].kind != KV_WINDOW && config->group[g].kind != KV_CHUNK));
    *group = (struct kv_group){.kind = config->group[g].kind,
                               .window = config->group[g].window,
                               .interval = config->group[g].interval > 1
                                               ? (uint32_t)config->group[g].interval
                                               : 1,
                               .page_bytes = config->group[g].page_bytes,
                               .n_page = kv_group_pages(config, g),
                               .oldest = KV_NO_PAGE,
                               .newest = KV_NO_PAGE};
    if (config->budget / group->page_bytes > KV_MAX_GROUP_PAGES)
        return err_set(err, RN_ERR_ARG,
                       "%llu bytes of KV memory are more than %d pages of %llu bytes",
                       (unsigned long long)config->budget, KV_MAX_GROUP_PAGES,
                       (unsigned long long)group->page_bytes);
    const bool recurrent = group->kind == KV_RECURRENT;
    kv->n_block_group += !recurrent;
    if (!ck_add(kv->block_bytes, recurrent ? 0 : group->page_bytes, &kv->block_bytes))
        return err_set(err, RN_ERR_ARG, "a KV page of %llu bytes is too large",
                       (unsigned long long)group->page_bytes);
    kv->recurrent |= recurrent;
    uint32_t *const total = recurrent ? &kv->stats.states_total : &kv->stats.pages_total;
    if (config->group[g].max_pages) // they have memory of their own
        *total += group->n_page;
    else if (*total < group->n_page)
        *total = group->n_page;
    const size_t n = (size_t)group->n_page + 1; // never an allocation of nothing
    group->page = calloc(n, sizeof *group->page);
    group->stack = calloc(n, sizeof *group->stack);
    group->seen = calloc(n, sizeof *group->seen);
    if (!group->page || !group->stack || !group->seen)
        return err_set(err, RN_ERR_NOMEM, "no memory for %u pages", group->n_page);
    return RN_OK;
}

rn_status kv_create(const struct kv_config *config, struct backend *backend, struct kv **out,
                    rn_error *err) {
    assert(config->n_group > 0 && config->n_group <= PLAN_MAX_KV_GROUPS);
    assert(config->max_tables > 0 && config->max_page_ops > 0);
    struct kv *const kv = calloc(1, sizeof *kv);
    if (!kv) return err_set(err, RN_ERR_NOMEM, "no memory for the page manager");
    kv->backend = backend;
    kv->n_group = config->n_group;
    kv->first_group = config->first_group;
    kv->budget = config->budget;
    kv->no_prefix = config->no_prefix;
    kv->max_op = config->max_page_ops;
    rn_status status = RN_OK;
    for (int g = 0; g < kv->n_group && status == RN_OK; g++)
        status = group_init(kv, config, g, err);
    if (status == RN_OK) status = prefix_init(kv, config->max_tables, err);
    if (status == RN_OK && !(kv->op = calloc((size_t)kv->max_op, sizeof *kv->op)))
        status = err_set(err, RN_ERR_NOMEM, "no memory for %d page operations", kv->max_op);
    if (status != RN_OK) {
        kv_destroy(kv);
        return status;
    }
    *out = kv;
    return RN_OK;
}

void kv_destroy(struct kv *kv) {
    if (!kv) return;
    for (int g = 0; g < kv->n_group; g++) {
        free(kv->group[g].page);
        free(kv->group[g].stack);
        free(kv->group[g].seen);
    }
    prefix_deinit(kv);
    free(kv->key);
    free(kv->op);
    free(kv);
}

// --- states of a page ---

static bool is_held(const struct kv_page *page) { return page->ref > 0 || page->pins > 0; }

static void lru_add(struct kv *kv, struct kv_group *group, uint32_t id) {
    struct kv_page *const page = &group->page[id];
    page->tick = kv->tick++;
    page->older = group->newest;
    page->newer = KV_NO_PAGE;
    if (group->newest == KV_NO_PAGE)
        group->oldest = id;
    else
        group->page[group->newest].newer = id;
    group->newest = id;
    kv->cached_bytes += group->page_bytes;
    if (group->kind == KV_RECURRENT) {
        kv->stats.state_cached_bytes += group->page_bytes;
        kv->stats.states_cached++;
    } else {
        kv->stats.pages_cached++;
    }
}

static void lru_remove(struct kv *kv, struct kv_group *group, uint32_t id) {
    const struct kv_page *const page = &group->page[id];
    if (page->older == KV_NO_PAGE)
        group->oldest = page->newer;
    else
        group->page[page->older].newer = page->newer;
    if (page->newer == KV_NO_PAGE)
        group->newest = page->older;
    else
        group->page[page->newer].older = page->older;
    kv->cached_bytes -= group->page_bytes;
    if (group->kind == KV_RECURRENT) {
        kv->stats.state_cached_bytes -= group->page_bytes;
        kv->stats.states_cached--;
    } else {
        kv->stats.pages_cached--;
    }
}

static void free_add(struct kv *kv, struct kv_group *group, uint32_t id) {
    group->stack[group->n_free++] = id;
    kv->free_bytes += group->page_bytes;
}

static void begin_hold(struct kv *kv, struct kv_group *group) {
    group->n_held++;
    kv->held_bytes += group->page_bytes;
    if (group->kind == KV_RECURRENT) {
        kv->stats.state_held_bytes += group->page_bytes;
        kv->stats.states_held++;
    } else {
        kv->stats.pages_held++;
    }
}

// No table holds the page any more.
static void end_hold(struct kv *kv, struct kv_group *group, uint32_t id) {
    group->n_held--;
    kv->held_bytes -= group->page_bytes;
    if (group->kind == KV_RECURRENT) {
        kv->stats.state_held_bytes -= group->page_bytes;
        kv->stats.states_held--;
    } else {
        kv->stats.pages_held--;
    }
    if (group->page[id].node == KV_ROOT) {
        free_add(kv, group, id);
        return;
    }
    lru_add(kv, group, id);
    kv_offer(kv, (int)(group - kv->group), id);
}

void kv_page_hold(struct kv *kv, int g, uint32_t id) {
    struct kv_group *const group = &kv->group[g];
    struct kv_page *const page = &group->page[id];
    if (!is_held(page)) {
        assert(page->node != KV_ROOT);
        lru_remove(kv, group, id);
        begin_hold(kv, group);
    }
    if (++page->ref == 2 && group->kind != KV_RECURRENT) kv->stats.pages_shared++;
}

void kv_page_drop(struct kv *kv, int g, uint32_t id) {
    struct kv_page *const page = &kv->group[g].page[id];
    assert(page->ref > 0);
    if (page->ref-- == 2 && kv->group[g].kind != KV_RECURRENT) kv->stats.pages_shared--;
    if (!is_held(page)) end_hold(kv, &kv->group[g], id);
}

static void unpin(struct kv *kv, int g, uint32_t id) {
    struct kv_page *const page = &kv->group[g].page[id];
    assert(page->pins > 0);
    page->pins--;
    if (!is_held(page)) end_hold(kv, &kv->group[g], id);
}

void kv_evict(struct kv *kv, int g, uint32_t id) {
    lru_remove(kv, &kv->group[g], id);
    prefix_detach(kv, g, id);
    free_add(kv, &kv->group[g], id);
}

// --- clears and copies ---

// The op's content is not wanted any more: the page changed hands before the run. Nothing reads it,
// since a copy's source is pinned.
static void cancel_op(struct kv *kv, int g, uint32_t id) {
    int i = 0;
    while (i < kv->n_op && (kv->op[i].group != g || kv->op[i].page != id)) i++;
    assert(i < kv->n_op && kv->group[g].page[id].pins == 0);
    const uint32_t from = kv->op[i].from;
    kv->n_op--;
    memmove(&kv->op[i], &kv->op[i + 1], (size_t)(kv->n_op - i) * sizeof *kv->op);
    kv->group[g].page[id].pending = false;
    if (from != BATCH_ZERO) unpin(kv, g, from);
}

void kv_op_add(struct kv *kv, int g, uint32_t id, uint32_t from) {
    struct kv_page *const page = kv->group[g].page;
    // Until the copy is done its source must not change, even if its owners leave: forgetting a
    // page is not ordered with the ops.
    if (from != BATCH_ZERO) page[from].pins++;
    assert(!page[id].pending && kv->n_op < kv->max_op);
    kv->op[kv->n_op++] = (struct batch_page){.group = g, .page = id, .from = from};
    page[id].pending = true;
}

const struct batch_page *kv_take_ops(struct kv *kv, int *n) {
    for (int i = 0; i < kv->n_op; i++) {
        const struct batch_page op = kv->op[i];
        kv->group[op.group].page[op.page].pending = false;
        if (op.from != BATCH_ZERO) unpin(kv, op.group, op.from);
        kv->op[i].group += kv->first_group;
    }
    *n = kv->n_op;
    kv->n_op = 0;
    return kv->op;
}

// --- getting a page ---

// The last free page of the group becomes fresh.
static void forget(struct kv *kv, int g) {
    struct kv_group *const group = &kv->group[g];
    const uint32_t id = group->stack[--group->n_free];
    kv->free_bytes -= group->page_bytes;
    // out of the list before anything is unpinned and put on its stack
    group->page[id].memory = false;
    group->n_forgotten++;
    group->stack[group->n_page - group->n_forgotten] = id;
    if (group->page[id].pending) cancel_op(kv, g, id);
    if (kv->backend->cls->page_release)
        kv->backend->cls->page_release(kv->backend, kv->first_group + g, id);
}

// Makes a page of some group free, or gives a free one's bytes back to the budget.
static void reclaim(struct kv *kv) {
    for (int g = 0; g < kv->n_group; g++) {
        if (kv->group[g].n_free == 0) continue;
        forget(kv, g);
        return;
    }
    const bool evicted = kv_evict_oldest(kv);
    assert(evicted); // otherwise all memory is held, and the caller asked for more than is left
    (void)evicted;
}

static bool has_id(const struct kv_group *group) {
    return group->n_free > 0 || group->n_forgotten > 0 || group->n_used < group->n_page;
}

// That there is room beside the held pages is enough: reclaiming ends with nothing but held pages.
uint32_t kv_page_acquire(struct kv *kv, int g) {
    struct kv_group *const group = &kv->group[g];
    assert(kv->held_bytes + group->page_bytes <= kv->budget);
    while (group->n_free == 0 &&
           kv->held_bytes + kv->cached_bytes + kv->free_bytes + group->page_bytes > kv->budget)
        reclaim(kv);
    if (!has_id(group)) { // of a group with memory of its own: while bytes are left so are ids
        assert(group->oldest != KV_NO_PAGE);
        kv_evict_oldest_of(kv, g);
    }
    uint32_t id;
    if (group->n_free > 0) {
        id = group->stack[--group->n_free];
        kv->free_bytes -= group->page_bytes;
    } else if (group->n_forgotten > 0) {
        id = group->stack[group->n_page - group->n_forgotten];
        group->n_forgotten--;
    } else {
        assert(group->n_used < group->n_page);
        id = group->n_used++;
    }
    struct kv_page *const page = &group->page[id];
    assert(page->ref == 0 && page->pins == 0 && page->node == KV_ROOT);
    if (page->pending) cancel_op(kv, g, id);
    page->memory = true;
    page->ref = 1;
    begin_hold(kv, group);
    return id;
}

// --- numbers ---

void kv_get_stats(const struct kv *kv, struct kv_stats *out) {
    *out = kv->stats;
    out->budget = kv->budget;
    out->held_bytes = kv->held_bytes;
    out->cached_bytes = kv->cached_bytes;
}

void kv_get_amounts(const struct kv *kv, struct kv_amount *held, struct kv_amount *most) {
    *held = (struct kv_amount){.bytes = kv->held_bytes};
    *most = (struct kv_amount){.bytes = kv->budget};
    for (int g = 0; g < kv->n_group; g++) {
        held->pages[g] = kv->group[g].n_held;
        most->pages[g] = kv->group[g].n_page;
    }
}
