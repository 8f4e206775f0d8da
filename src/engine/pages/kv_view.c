// A picture of the pages, for watchers: the state of each, and the sequence that holds it. Pages
// that never had memory are free in every picture, so nothing but the used ones is written again.
#include <assert.h>

#include "engine/pages/kv_internal.h"

size_t kv_view_pages(const struct kv *kv) {
    size_t n = 0;
    for (int g = 0; g < kv->n_group; g++) n += kv->group[g].n_page;
    return n;
}

void kv_view_init(const struct kv *kv, rn_page_view *out) {
    for (int g = 0; g < kv->n_group; out += kv->group[g++].n_page)
        for (uint32_t id = 0; id < kv->group[g].n_page; id++)
            out[id] = (rn_page_view){.group = (uint8_t)g,
                                     .state = RN_PAGE_FREE,
                                     .is_state = kv->group[g].kind == KV_RECURRENT};
}

static rn_page_state state_of(const struct kv_page *page) {
    if (page->ref > 0 || page->pins > 0) return RN_PAGE_HELD;
    return page->node != KV_ROOT ? RN_PAGE_CACHED : RN_PAGE_FREE;
}

void kv_view_states(const struct kv *kv, rn_page_view *out) {
    for (int g = 0; g < kv->n_group; out += kv->group[g++].n_page)
        for (uint32_t id = 0; id < kv->group[g].n_used; id++)
            out[id] = (rn_page_view){.group = (uint8_t)g,
                                     .state = (uint8_t)state_of(&kv->group[g].page[id]),
                                     .is_state = kv->group[g].kind == KV_RECURRENT};
}

static void add_holder(rn_page_view *page, uint64_t owner) {
    if (page->owner == 0 || page->owner > owner) page->owner = owner;
    if (page->holders < UINT16_MAX) page->holders++;
}

void kv_view_table(const struct kv *kv, const struct kv_table *table, uint64_t owner,
                   rn_page_view *out) {
    assert(owner > 0);
    for (int g = 0; g < kv->n_group; out += kv->group[g++].n_page) {
        for (uint32_t b = table->first[g]; b < table->n_page; b++)
            if (kv_ends_run(table, g, b)) add_holder(&out[table->page[g][b]], owner);
        if (table->marked && table->mark_page[g] != KV_NO_PAGE)
            add_holder(&out[table->mark_page[g]], owner);
        if (table->marked && table->n_snapshot > 0 && kv->group[g].kind == KV_RECURRENT)
            add_holder(&out[table->snapshot[g]], owner);
    }
}
