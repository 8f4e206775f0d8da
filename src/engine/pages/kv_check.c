// Tests the page manager against the numbered invariants of kv.h, from scratch: it trusts none of
// the manager's numbers. Its time grows with the pages that were ever used; for tests and for debug
// and sanitizer builds. Scratch memory was taken at create.
#include <string.h>

#include "engine/pages/kv_internal.h"

// Broken links must end the walk that finds them, so every walk is bounded by the largest possible
// number.

static void expect(struct kv *kv, bool condition) { kv->sound &= condition; }

// --- tables: 6 and 7, and the numbers for 1 and 5 ---

void kv_check_begin(struct kv *kv) {
    kv->sound = true;
    for (int g = 0; g < kv->n_group; g++)
        memset(kv->group[g].seen, 0, kv->group[g].n_used * sizeof *kv->group[g].seen);
    memset(kv->node_mark, 0, kv->n_node_used * sizeof *kv->node_mark);
}

static void check_table_pages(struct kv *kv, const struct kv_table *table, int g) {
    struct kv_group *const group = &kv->group[g];
    expect(kv, table->first[g] <= table->n_page);
    for (uint32_t b = 0; b < table->max_page; b++) {
        const uint32_t id = table->page[g][b];
        const bool wanted = b >= table->first[g] && b < table->n_page;
        expect(kv, wanted ? id < group->n_used : id == KV_NO_PAGE);
        const bool is_run = group->kind == KV_RECURRENT && b > 0 && table->page[g][b - 1] == id;
        if (id < group->n_used) group->seen[id] += !is_run;
    }
    const uint32_t kept = table->marked ? table->mark_page[g] : KV_NO_PAGE; // while it is tried
    if (kept < group->n_used) group->seen[kept]++;
    const bool has_more = table->marked && table->n_snapshot > 0 && group->kind == KV_RECURRENT;
    if (has_more && table->snapshot[g] < group->n_used) group->seen[table->snapshot[g]]++;
}

// A state that is findable is the state at the end of its node, and its run ends there: it did not
// move on.
static void check_table_states(struct kv *kv, const struct kv_table *table, int g) {
    const struct kv_group *const group = &kv->group[g];
    for (uint32_t b = table->first[g]; b < table->n_page && kv->sound; b++) {
        if (group->kind != KV_RECURRENT || !kv_ends_run(table, g, b)) continue;
        uint32_t at = group->page[table->page[g][b]].node, depth = 0;
        if (at == KV_ROOT) continue;
        while (at != KV_ROOT && at < kv->n_node_used && kv->node[at].n_salt == 0 &&
               depth <= table->max_page) {
            depth++;
            at = kv->node[at].parent;
        }
        expect(kv, depth == b + 1);
    }
}

static void check_table_chain(struct kv *kv, const struct kv_table *table) {
    uint32_t at = table->node;
    for (uint32_t b = table->n_node; b-- > 0; at = kv->node[at].parent) {
        if (at == KV_ROOT || at >= kv->n_node_used || !kv->node[at].used ||
            kv->node[at].n_salt > 0 || kv->node[at].n_token < KV_PAGE_TOKENS) {
            expect(kv, false);
            return;
        }
        for (int g = 0; g < kv->n_group; g++)
            if (b >= table->first[g] && kv->group[g].kind != KV_RECURRENT)
                expect(kv, kv->node[at].page[g] == table->page[g][b]);
    }
    expect(kv,
           at == KV_ROOT || (at < kv->n_node_used && kv->node[at].used && kv->node[at].n_salt > 0));
}

void kv_check_table(struct kv *kv, const struct kv_table *table) {
    expect(kv, table->n_node <= table->n_page && table->n_page <= table->max_page);
    if (!kv->sound) return; // the rest relies on these bounds
    for (int g = 0; g < kv->n_group; g++) check_table_pages(kv, table, g);
    for (int g = 0; g < kv->n_group; g++) check_table_states(kv, table, g);
    check_table_chain(kv, table);
    if (table->node != KV_ROOT && table->node < kv->n_node_used) kv->node_mark[table->node]++;
}

// --- pages: 1 to 4 ---

enum page_state { PAGE_HELD, PAGE_CACHED, PAGE_FREE, PAGE_FRESH, PAGE_STATES };

static enum page_state state_of(const struct kv_page *page) {
    if (page->ref > 0 || page->pins > 0) return PAGE_HELD;
    if (page->node != KV_ROOT) return PAGE_CACHED;
    return page->memory ? PAGE_FREE : PAGE_FRESH;
}

// Pins and pending flags agree with the ops, references with the tables.
static void check_refs(struct kv *kv, int g) {
    struct kv_group *const group = &kv->group[g];
    for (uint32_t id = 0; id < group->n_used; id++) {
        expect(kv, group->page[id].ref == group->seen[id]);
        group->seen[id] = 0;
    }
    for (int i = 0; i < kv->n_op; i++) {
        if (kv->op[i].group != g) continue;
        const struct batch_page op = kv->op[i];
        if (op.page >= group->n_used || (op.from != BATCH_ZERO && op.from >= group->n_used)) {
            expect(kv, false);
            continue;
        }
        expect(kv, group->page[op.page].pending && group->page[op.page].memory);
        if (op.from != BATCH_ZERO) group->seen[op.from]++;
    }
    uint32_t n_pending = 0;
    for (uint32_t id = 0; id < group->n_used; id++) {
        expect(kv, group->page[id].pins == group->seen[id]);
        group->seen[id] = 0;
        n_pending += group->page[id].pending;
    }
    for (int i = 0; i < kv->n_op; i++) n_pending -= kv->op[i].group == g;
    expect(kv, n_pending == 0);
}

// Marks the page as found in the place of that state; false: it is no page, or was found before.
static bool mark(struct kv *kv, int g, uint32_t id, enum page_state state) {
    struct kv_group *const group = &kv->group[g];
    const bool fine =
        id < group->n_used && group->seen[id] == 0 && state_of(&group->page[id]) == state;
    expect(kv, fine);
    if (fine) group->seen[id] = 1;
    return fine;
}

static void check_places(struct kv *kv, int g) {
    const struct kv_group *const group = &kv->group[g];
    uint64_t tick = 0;
    uint32_t older = KV_NO_PAGE;
    for (uint32_t id = group->oldest; id != KV_NO_PAGE; id = group->page[id].newer) {
        if (!mark(kv, g, id, PAGE_CACHED)) return;
        expect(kv, group->page[id].older == older);
        expect(kv, older == KV_NO_PAGE || group->page[id].tick > tick);
        tick = group->page[id].tick;
        older = id;
    }
    expect(kv, group->newest == older);
    expect(kv, (uint64_t)group->n_free + group->n_forgotten <= group->n_used);
    if (!kv->sound) return;
    for (uint32_t i = 0; i < group->n_free; i++) mark(kv, g, group->stack[i], PAGE_FREE);
    for (uint32_t i = 1; i <= group->n_forgotten; i++)
        mark(kv, g, group->stack[group->n_page - i], PAGE_FRESH);
}

// Each page that is not held was found in its place; bytes and numbers of pages agree with the
// states, and so does the group's own number.
static void check_states(struct kv *kv, int g, uint64_t bytes[PAGE_STATES],
                         struct kv_stats *counted) {
    const struct kv_group *const group = &kv->group[g];
    const bool recurrent = group->kind == KV_RECURRENT;
    uint32_t n_held = 0;
    for (uint32_t id = 0; id < group->n_used; id++) {
        const struct kv_page *const page = &group->page[id];
        const enum page_state state = state_of(page);
        n_held += state == PAGE_HELD;
        expect(kv, page->memory == (state != PAGE_FRESH));
        expect(kv, group->seen[id] == (state != PAGE_HELD));
        bytes[state] += group->page_bytes;
        *(recurrent ? &counted->states_held : &counted->pages_held) += state == PAGE_HELD;
        *(recurrent ? &counted->states_cached : &counted->pages_cached) += state == PAGE_CACHED;
        counted->pages_shared += !recurrent && page->ref > 1;
        if (recurrent && state == PAGE_HELD) counted->state_held_bytes += group->page_bytes;
        if (recurrent && state == PAGE_CACHED) counted->state_cached_bytes += group->page_bytes;
        if (page->node == KV_ROOT) continue;
        expect(kv, page->node < kv->n_node_used && kv->node[page->node].used &&
                       kv->node[page->node].page[g] == id);
    }
    expect(kv, group->n_held == n_held);
}

// --- nodes: 5 ---

// A node's own numbers; its parent is told of the child.
static void check_node(struct kv *kv, uint32_t at) {
    const struct kv_node *const node = &kv->node[at];
    uint32_t n_page = 0;
    for (int g = 0; g < kv->n_group; g++) {
        if (node->page[g] == KV_NO_PAGE) continue;
        n_page++;
        expect(kv,
               node->page[g] < kv->group[g].n_used && kv->group[g].page[node->page[g]].node == at);
    }
    expect(kv, node->n_page == n_page && node->n_table == kv->node_mark[at]);
    expect(kv, node->n_page > 0 || node->n_child > 0 || node->n_table > 0);
    const bool has_parent =
        node->parent < kv->n_node_used && (node->parent == KV_ROOT || kv->node[node->parent].used);
    expect(kv, has_parent);
    if (!has_parent) return;
    expect(kv, node->hash == prefix_hash(kv, node->parent, node->token, node->n_token));
    expect(kv, node->n_token > 0 && node->n_token <= KV_PAGE_TOKENS);
    const bool is_tail = node->n_token < KV_PAGE_TOKENS;
    if (is_tail) expect(kv, kv->recurrent && node->n_child == 0 && node->n_table == 0);
}

// Every used node is in its bucket: as many are found there as there are.
static uint32_t count_in_buckets(struct kv *kv) {
    uint32_t n = 0;
    for (uint32_t at = 1; at < kv->n_node_used; at++) {
        if (!kv->node[at].used) continue;
        uint32_t link = kv->bucket[kv->node[at].hash & (kv->n_bucket - 1)];
        uint32_t steps = 0;
        while (link != KV_ROOT && link != at && link < kv->n_node_used && steps++ < kv->n_node_used)
            link = kv->node[link].next;
        n += link == at;
    }
    return n;
}

static void check_nodes(struct kv *kv) {
    uint32_t n_used = 0;
    for (uint32_t at = 1; at < kv->n_node_used; at++) {
        if (!kv->node[at].used) continue;
        n_used++;
        check_node(kv, at);
    }
    expect(kv, count_in_buckets(kv) == n_used);
    memset(kv->node_mark, 0, kv->n_node_used * sizeof *kv->node_mark);
    for (uint32_t at = 1; at < kv->n_node_used; at++)
        if (kv->node[at].used && kv->node[at].parent < kv->n_node_used)
            kv->node_mark[kv->node[at].parent]++;
    for (uint32_t at = 0; at < kv->n_node_used; at++)
        if (at == KV_ROOT || kv->node[at].used)
            expect(kv, kv->node[at].n_child == kv->node_mark[at]);
    uint32_t n_free = 0;
    for (uint32_t at = kv->free_node; at != KV_ROOT; at = kv->node[at].next) {
        expect(kv, at < kv->n_node_used && !kv->node[at].used && n_free < kv->n_node_used);
        if (!kv->sound) return;
        n_free++;
    }
    expect(kv, kv->n_node_used == 1 + n_used + n_free);
}

bool kv_check_end(struct kv *kv) {
    uint64_t bytes[PAGE_STATES] = {0};
    struct kv_stats counted = {0};
    for (int g = 0; g < kv->n_group; g++) {
        expect(kv, kv->group[g].n_used <= kv->group[g].n_page);
        check_refs(kv, g);
        check_places(kv, g);
        check_states(kv, g, bytes, &counted);
    }
    expect(kv, bytes[PAGE_HELD] == kv->held_bytes);
    expect(kv, bytes[PAGE_CACHED] == kv->cached_bytes);
    expect(kv, bytes[PAGE_FREE] == kv->free_bytes);
    expect(kv, counted.state_held_bytes == kv->stats.state_held_bytes &&
                   counted.state_cached_bytes == kv->stats.state_cached_bytes);
    expect(kv, kv->held_bytes + kv->cached_bytes + kv->free_bytes <= kv->budget);
    expect(kv, counted.pages_held == kv->stats.pages_held &&
                   counted.pages_cached == kv->stats.pages_cached &&
                   counted.pages_shared == kv->stats.pages_shared);
    expect(kv, counted.states_held == kv->stats.states_held &&
                   counted.states_cached == kv->stats.states_cached);
    check_nodes(kv);
    return kv->sound;
}
