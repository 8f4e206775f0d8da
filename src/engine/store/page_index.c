// See page_index.h. Ranks of the heap may be old: a page's turn tells, and it is looked at again
// when its rank is the lowest. A page that others continue is not in the heap.
#include "engine/store/page_index.h"

#include <assert.h>
#include <stdlib.h>

enum { FIRST_ENTRIES = 1024 };

static uint32_t bucket_of(const struct page_index *index, const struct page_name *name) {
    uint32_t hash; // the key is a hash already
    memcpy(&hash, name->key.at + 4, sizeof hash);
    return (hash + (uint32_t)name->group * 0x9e3779b9u) & (index->n_bucket - 1);
}

rn_status page_index_init(struct page_index *index, rn_error *err) {
    *index = (struct page_index){.free_entry = PAGE_NONE, .n_bucket = 2 * FIRST_ENTRIES};
    index->bucket = malloc(index->n_bucket * sizeof *index->bucket);
    if (!index->bucket) return err_set(err, RN_ERR_NOMEM, "no memory for the page store's index");
    memset(index->bucket, 0xff, index->n_bucket * sizeof *index->bucket);
    return RN_OK;
}

void page_index_deinit(struct page_index *index) {
    free(index->entry);
    free(index->bucket);
    free(index->heap);
    *index = (struct page_index){0};
}

uint32_t page_index_find(const struct page_index *index, const struct page_name *name) {
    uint32_t at = index->bucket[bucket_of(index, name)];
    for (; at != PAGE_NONE; at = index->entry[at].next) {
        const struct page_entry *entry = &index->entry[at];
        if (entry->name.group == name->group && page_key_equal(&entry->name.key, &name->key)) break;
    }
    return at;
}

// ---------------------------------------------------------------- ranks

static void sink(struct page_index *index, uint32_t at) {
    struct page_rank *heap = index->heap;
    for (uint32_t child; (child = 2 * at + 1) < index->n_heap; at = child) {
        if (child + 1 < index->n_heap && heap[child + 1].rank < heap[child].rank) child++;
        if (heap[at].rank <= heap[child].rank) return;
        const struct page_rank rank = heap[at];
        heap[at] = heap[child];
        heap[child] = rank;
    }
}

static bool is_leaf(const struct page_index *index, const struct page_rank *rank) {
    const struct page_entry *entry = &index->entry[rank->at];
    return entry->is_used && entry->turn == rank->turn && entry->n_child == 0;
}

// Room for one more rank. Old ranks go first: there are never more than a few for each page.
static bool heap_room(struct page_index *index) {
    if (index->n_heap < index->cap_heap) return true;
    uint32_t n = 0;
    for (uint32_t i = 0; i < index->n_heap; i++)
        if (is_leaf(index, &index->heap[i])) index->heap[n++] = index->heap[i];
    index->n_heap = n;
    for (uint32_t i = n / 2; i-- > 0;) sink(index, i);
    if (n < index->cap_heap / 2) return true;
    const uint32_t cap = index->cap_heap ? 2 * index->cap_heap : FIRST_ENTRIES;
    struct page_rank *grown = realloc(index->heap, cap * sizeof *grown);
    if (!grown) return n < index->cap_heap;
    index->heap = grown;
    index->cap_heap = cap;
    return true;
}

// Without memory the page is not ranked, and stays until the store is opened again.
static void rank_add(struct page_index *index, uint32_t at) {
    struct page_entry *entry = &index->entry[at];
    if (entry->n_child > 0 || !heap_room(index)) return;
    uint32_t i = index->n_heap++;
    for (; i > 0 && index->heap[(i - 1) / 2].rank > entry->rank; i = (i - 1) / 2)
        index->heap[i] = index->heap[(i - 1) / 2];
    index->heap[i] = (struct page_rank){entry->rank, at, entry->turn};
}

void page_index_use(struct page_index *index, uint32_t at) {
    struct page_entry *entry = &index->entry[at];
    entry->turn++;
    entry->rank = index->floor + entry->worth;
    rank_add(index, at);
}

uint32_t page_index_victim(struct page_index *index) {
    while (index->n_heap > 0) {
        const struct page_rank first = index->heap[0];
        index->heap[0] = index->heap[--index->n_heap];
        sink(index, 0);
        if (!is_leaf(index, &first)) continue;
        if (first.rank > index->floor) index->floor = first.rank;
        return first.at;
    }
    return PAGE_NONE;
}

// ---------------------------------------------------------------- pages

static bool buckets_grow(struct page_index *index) {
    const uint32_t n = 2 * index->n_bucket;
    uint32_t *grown = malloc(n * sizeof *grown);
    if (!grown) return false;
    free(index->bucket);
    index->bucket = grown;
    index->n_bucket = n;
    memset(grown, 0xff, n * sizeof *grown);
    for (uint32_t at = 0; at < index->n_entry; at++) {
        struct page_entry *entry = &index->entry[at];
        if (!entry->is_used) continue;
        uint32_t *bucket = &grown[bucket_of(index, &entry->name)];
        entry->next = *bucket;
        *bucket = at;
    }
    return true;
}

static uint32_t take_entry(struct page_index *index) {
    if (index->free_entry != PAGE_NONE) {
        const uint32_t at = index->free_entry;
        index->free_entry = index->entry[at].next;
        return at;
    }
    if (index->n_entry == PAGE_INDEX_MOST) return PAGE_NONE;
    if (index->n_entry == index->cap_entry) {
        const uint32_t cap = index->cap_entry ? 2 * index->cap_entry : FIRST_ENTRIES;
        struct page_entry *grown = realloc(index->entry, cap * sizeof *grown);
        if (!grown) return PAGE_NONE;
        index->entry = grown;
        index->cap_entry = cap;
    }
    if (2 * index->n_entry >= index->n_bucket && !buckets_grow(index)) return PAGE_NONE;
    index->entry[index->n_entry] = (struct page_entry){0};
    return index->n_entry++;
}

static void find_parent(struct page_index *index, uint32_t at, const struct page_key *parent) {
    struct page_entry *entry = &index->entry[at];
    entry->parent =
        page_index_find(index, &(struct page_name){.key = *parent, .group = entry->name.group});
    if (entry->parent == at)
        entry->parent = PAGE_NONE; // no key is its own parent's; a file may lie
    if (entry->parent == PAGE_NONE) return;
    index->entry[entry->parent].n_child++;
    entry->parent_born = index->entry[entry->parent].born;
}

static double worth_of(const struct page_facts *facts) {
    return facts->bytes ? (double)facts->cost_ns / (double)facts->bytes : 0;
}

uint32_t page_index_add(struct page_index *index, const struct page_name *name, uint64_t bytes,
                        const struct page_facts *facts) {
    uint32_t at = page_index_find(index, name);
    if (at != PAGE_NONE) {
        if (facts && !index->entry[at].is_known) page_index_learn(index, at, facts);
        if (facts) page_index_use(index, at);
        return at;
    }
    if ((at = take_entry(index)) == PAGE_NONE) return at;
    struct page_entry *entry = &index->entry[at];
    *entry = (struct page_entry){.name = *name,
                                 .parent = PAGE_NONE,
                                 .turn = entry->turn + 1,
                                 .born = ++index->n_born,
                                 .bytes = bytes,
                                 .is_used = true};
    uint32_t *bucket = &index->bucket[bucket_of(index, name)];
    entry->next = *bucket;
    *bucket = at;
    index->n_page++;
    index->bytes += bytes;
    if (facts) page_index_learn(index, at, facts);
    if (facts) page_index_use(index, at);
    return at;
}

void page_index_learn(struct page_index *index, uint32_t at, const struct page_facts *facts) {
    index->entry[at].worth = worth_of(facts);
    index->entry[at].is_known = true;
    find_parent(index, at, &facts->parent);
}

void page_index_remove(struct page_index *index, uint32_t at) {
    struct page_entry *entry = &index->entry[at];
    assert(entry->is_used);
    uint32_t *link = &index->bucket[bucket_of(index, &entry->name)];
    while (*link != at) link = &index->entry[*link].next;
    *link = entry->next;
    index->n_page--;
    index->bytes -= entry->bytes;
    entry->is_used = false;
    entry->turn++;
    entry->next = index->free_entry;
    index->free_entry = at;
    struct page_entry *parent = entry->parent == PAGE_NONE ? NULL : &index->entry[entry->parent];
    if (!parent || !parent->is_used || parent->born != entry->parent_born) return; // it went first
    if (--parent->n_child == 0) rank_add(index, entry->parent);
}

struct page_age {
    int64_t used_ns;
    uint32_t at;
};

static int compare_ages(const void *a, const void *b) {
    const int64_t x = ((const struct page_age *)a)->used_ns;
    const int64_t y = ((const struct page_age *)b)->used_ns;
    return (x > y) - (x < y);
}

// The newest page is as much above the oldest as the best page is above a worthless one. Without
// memory their worth alone decides.
void page_index_order(struct page_index *index) {
    struct page_age *ages = malloc((index->n_page + (size_t)1) * sizeof *ages);
    uint32_t n = 0;
    double most = 0;
    for (uint32_t at = 0; at < index->n_entry; at++) {
        const struct page_entry *entry = &index->entry[at];
        if (!entry->is_used) continue;
        if (entry->worth > most) most = entry->worth;
        if (ages) ages[n++] = (struct page_age){entry->used_ns, at};
    }
    if (ages) qsort(ages, n, sizeof *ages, compare_ages);
    index->n_heap = 0;
    for (uint32_t i = 0; i < n; i++) {
        index->floor = most * (double)i / (double)n;
        page_index_use(index, ages[i].at);
    }
    for (uint32_t at = 0; !ages && at < index->n_entry; at++)
        if (index->entry[at].is_used) page_index_use(index, at);
    free(ages);
    index->floor = most;
}
