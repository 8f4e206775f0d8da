// The page manager: see kv.h for its invariants.
#include "engine/kv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

rn_status kv_init(struct kv *kv, int n_group, const uint32_t *n_page, struct backend *backend,
                  rn_error *err) {
    *kv = (struct kv){.n_group = n_group, .backend = backend};
    for (int g = 0; g < n_group; g++) {
        struct kv_group *group = &kv->group[g];
        group->free = calloc(n_page[g], sizeof *group->free);
        if (!group->free) {
            kv_deinit(kv);
            return err_set(err, RN_ERR_NOMEM, "no memory for %u pages", n_page[g]);
        }
        group->n_page = group->n_free = n_page[g];
        // the stack's top is page 0, so that a lone sequence uses low pages first
        for (uint32_t i = 0; i < n_page[g]; i++) group->free[i] = n_page[g] - 1 - i;
    }
    return RN_OK;
}

void kv_deinit(struct kv *kv) {
    for (int g = 0; g < kv->n_group; g++) free(kv->group[g].free);
    memset(kv, 0, sizeof *kv);
}

rn_status kv_table_init(struct kv_table *table, int n_group, int n_positions, rn_error *err) {
    *table = (struct kv_table){.max_page = kv_pages_for(n_positions)};
    for (int g = 0; g < n_group; g++) {
        table->page[g] = calloc(table->max_page, sizeof *table->page[g]);
        if (!table->page[g]) {
            kv_table_deinit(table);
            return err_set(err, RN_ERR_NOMEM, "no memory for a table of %d positions", n_positions);
        }
    }
    return RN_OK;
}

void kv_table_deinit(struct kv_table *table) {
    assert(table->n_page == 0);
    for (int g = 0; g < PLAN_MAX_KV_GROUPS; g++) free(table->page[g]);
    memset(table, 0, sizeof *table);
}

bool kv_promise(struct kv *kv, const struct kv_table *table) {
    assert(table->n_page == 0);
    for (int g = 0; g < kv->n_group; g++)
        if (kv->group[g].n_free - kv->group[g].n_promised < table->max_page) return false;
    for (int g = 0; g < kv->n_group; g++) kv->group[g].n_promised += table->max_page;
    return true;
}

void kv_grow(struct kv *kv, struct kv_table *table, int n_positions) {
    const uint32_t wanted = kv_pages_for(n_positions);
    assert(wanted <= table->max_page);
    for (; table->n_page < wanted; table->n_page++) {
        for (int g = 0; g < kv->n_group; g++) {
            struct kv_group *group = &kv->group[g];
            assert(group->n_promised > 0 && group->n_free >= group->n_promised);
            const uint32_t page = group->free[--group->n_free];
            group->n_promised--;
            kv->backend->cls->kv_clear(kv->backend, g, page);
            table->page[g][table->n_page] = page;
        }
    }
}

void kv_release(struct kv *kv, struct kv_table *table) {
    for (int g = 0; g < kv->n_group; g++) {
        struct kv_group *group = &kv->group[g];
        // last page first, so that the next sequence gets them in the same order
        for (uint32_t i = table->n_page; i-- > 0;) group->free[group->n_free++] = table->page[g][i];
        group->n_promised -= table->max_page - table->n_page;
        assert(group->n_free <= group->n_page);
    }
    table->n_page = 0;
}

// Marks page as seen; false when it was seen before or does not exist.
static bool mark(uint8_t *seen, uint32_t n_page, uint32_t page) {
    if (page >= n_page || seen[page]) return false;
    seen[page] = 1;
    return true;
}

static bool check_group(const struct kv_group *group, int g, const struct kv_table *const *tables,
                        int n_tables, uint8_t *seen) {
    uint32_t owned = 0, promised = 0;
    for (uint32_t i = 0; i < group->n_free; i++)
        if (!mark(seen, group->n_page, group->free[i])) return false;
    for (int t = 0; t < n_tables; t++) {
        for (uint32_t i = 0; i < tables[t]->n_page; i++)
            if (!mark(seen, group->n_page, tables[t]->page[g][i])) return false;
        owned += tables[t]->n_page;
        promised += tables[t]->max_page - tables[t]->n_page;
    }
    return owned + group->n_free == group->n_page && promised == group->n_promised &&
           promised <= group->n_free;
}

bool kv_check(const struct kv *kv, const struct kv_table *const *tables, int n_tables) {
    for (int g = 0; g < kv->n_group; g++) {
        uint8_t *seen = calloc(kv->group[g].n_page, 1);
        if (!seen) return false;
        const bool sound = check_group(&kv->group[g], g, tables, n_tables, seen);
        free(seen);
        if (!sound) return false;
    }
    return true;
}
