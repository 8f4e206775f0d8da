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
        kv->seen[g] = calloc(n_page[g], 1);
        if (!group->free || !kv->seen[g]) {
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
    for (int g = 0; g < kv->n_group; g++) {
        free(kv->group[g].free);
        free(kv->seen[g]);
    }
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
            const struct batch_page clear = {g, page, BATCH_ZERO};
            const struct batch batch = {.n_pages = 1, .page = &clear};
            kv->backend->cls->run(kv->backend, &batch);
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

// Marks the page as seen; false when it was seen before or does not exist.
static bool mark(const struct kv *kv, int g, uint32_t page) {
    if (page >= kv->group[g].n_page || kv->seen[g][page]) return false;
    kv->seen[g][page] = 1;
    return true;
}

void kv_check_begin(const struct kv *kv, struct kv_tally *tally) {
    *tally = (struct kv_tally){.sound = true};
    for (int g = 0; g < kv->n_group; g++) {
        const struct kv_group *group = &kv->group[g];
        memset(kv->seen[g], 0, group->n_page);
        for (uint32_t i = 0; i < group->n_free; i++)
            if (!mark(kv, g, group->free[i])) tally->sound = false;
    }
}

bool kv_check_table(const struct kv *kv, struct kv_tally *tally, const struct kv_table *table) {
    for (int g = 0; g < kv->n_group; g++)
        for (uint32_t i = 0; i < table->n_page; i++)
            if (!mark(kv, g, table->page[g][i])) tally->sound = false;
    tally->owned += table->n_page;
    tally->promised += table->max_page - table->n_page;
    return tally->sound;
}

bool kv_check_end(const struct kv *kv, const struct kv_tally *tally) {
    for (int g = 0; g < kv->n_group; g++) {
        const struct kv_group *group = &kv->group[g];
        if (tally->owned + group->n_free != group->n_page) return false;
        if (tally->promised != group->n_promised || tally->promised > group->n_free) return false;
    }
    return tally->sound;
}
