// Numbers of pages and bytes: the needs of sequences, and the division of a budget. Nothing here
// knows a manager. Called where managers are configured, and by admission.
#include "base/checked.h"
#include "engine/pages/kv_internal.h"

uint32_t kv_group_pages(const struct kv_config *config, int group) {
    const uint32_t fixed = config->group[group].max_pages;
    const uint64_t n = fixed ? fixed : config->budget / config->group[group].page_bytes;
    return n > KV_MAX_GROUP_PAGES ? KV_MAX_GROUP_PAGES : (uint32_t)n;
}

static uint64_t blocks_for(uint64_t n_positions) {
    return (n_positions + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
}

// The most blocks that n positions in a row can touch.
static uint64_t blocks_touched(uint64_t n) {
    return n == 0 ? 0 : (n + KV_PAGE_TOKENS - 2) / KV_PAGE_TOKENS + 1;
}

// Pages of a group that such a sequence needs.
static uint64_t group_need(const struct kv_config *config, int g, int n_positions, int chunk) {
    uint64_t blocks = blocks_for((uint64_t)n_positions), most = blocks;
    // position n_done, the others of its chunk, and the past positions that n_done sees
    const uint64_t seen = (uint64_t)config->group[g].window - 1 + (uint64_t)chunk;
    if (config->group[g].kind == KV_WINDOW) most = blocks_touched(seen);
    // of a chunked window these begin where one of its chunks does
    if (config->group[g].kind == KV_CHUNK)
        most = config->group[g].window % KV_PAGE_TOKENS ? blocks_touched(seen) : blocks_for(seen);
    // the state, and the checkpoint that it just left behind
    if (config->group[g].kind == KV_RECURRENT) most = 2;
    return most < blocks ? most : blocks;
}

uint64_t kv_need(const struct kv_config *config, int n_positions, int chunk) {
    uint64_t need = 0;
    for (int g = 0; g < config->n_group; g++) {
        const uint64_t blocks = group_need(config, g, n_positions, chunk);
        uint64_t bytes;
        if (!ck_mul(blocks, config->group[g].page_bytes, &bytes) || !ck_add(need, bytes, &need))
            return UINT64_MAX;
    }
    return need;
}

// The same with the checkpoints of a recurrent group, as far as they take no more than the pages of
// the other groups.
static uint64_t group_share(const struct kv_config *config, int g, int n_positions, int chunk) {
    const uint64_t own = group_need(config, g, n_positions, chunk);
    if (config->group[g].kind != KV_RECURRENT) return own;
    uint64_t others = 0, states = 0;
    for (int i = 0; i < config->n_group; i++) {
        if (config->group[i].kind == KV_RECURRENT)
            states += config->group[i].page_bytes;
        else
            others += group_need(config, i, n_positions, chunk) * config->group[i].page_bytes;
    }
    const int interval = config->group[g].interval > 1 ? config->group[g].interval : 1;
    uint64_t n = own + (uint64_t)(n_positions / KV_PAGE_TOKENS / interval);
    if (n > others / states) n = others / states;
    return n > own ? n : own;
}

void kv_fix_pages(struct kv_config *config, int n_positions, int chunk) {
    const uint64_t lone = kv_need(config, n_positions, 1);
    const double rest = lone < config->budget ? (double)(config->budget - lone) : 0;
    double all = 0;
    for (int g = 0; g < config->n_group; g++)
        all += (double)group_share(config, g, n_positions, chunk) *
               (double)config->group[g].page_bytes;
    for (int g = 0; g < config->n_group; g++) {
        const double share = (double)group_share(config, g, n_positions, chunk) / all;
        const uint64_t n = group_need(config, g, n_positions, 1) + (uint64_t)(rest * share);
        config->group[g].max_pages = n < KV_MAX_GROUP_PAGES ? (uint32_t)n : KV_MAX_GROUP_PAGES;
    }
}

uint32_t kv_table_pages(const struct kv_config *config, const struct kv_table *table, int g) {
    uint32_t n = table->n_page - table->first[g];
    if (config->group[g].kind != KV_RECURRENT) return n;
    for (uint32_t b = table->first[g]; b < table->n_page; b++) n -= !kv_ends_run(table, g, b);
    return n;
}

uint64_t kv_table_bytes(const struct kv_config *config, const struct kv_table *table) {
    uint64_t bytes = 0;
    for (int g = 0; g < config->n_group; g++)
        bytes += kv_table_pages(config, table, g) * config->group[g].page_bytes;
    return bytes;
}

struct kv_amount kv_need_amount(const struct kv_config *config, int n_positions, int chunk) {
    struct kv_amount need = {.bytes = kv_need(config, n_positions, chunk)};
    for (int g = 0; g < config->n_group; g++) {
        if (!config->group[g].max_pages) continue;
        const bool is_state = config->group[g].kind == KV_RECURRENT;
        need.pages[g] = is_state ? 1 : group_need(config, g, n_positions, chunk);
    }
    return need;
}

struct kv_amount kv_table_amount(const struct kv_config *config, const struct kv_table *table) {
    struct kv_amount held = {.bytes = kv_table_bytes(config, table)};
    for (int g = 0; g < config->n_group; g++)
        if (config->group[g].max_pages) held.pages[g] = kv_table_pages(config, table, g);
    return held;
}

void kv_amount_add(struct kv_amount *sum, const struct kv_amount *more) {
    sum->bytes += more->bytes;
    for (int g = 0; g < PLAN_MAX_KV_GROUPS; g++) sum->pages[g] += more->pages[g];
}

static uint64_t less_of(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

void kv_amount_take(struct kv_amount *sum, const struct kv_amount *less) {
    sum->bytes = less_of(sum->bytes, less->bytes);
    for (int g = 0; g < PLAN_MAX_KV_GROUPS; g++)
        sum->pages[g] = less_of(sum->pages[g], less->pages[g]);
}

bool kv_amount_fits(const struct kv_amount *amount, const struct kv_amount *room) {
    bool fits = amount->bytes <= room->bytes;
    for (int g = 0; g < PLAN_MAX_KV_GROUPS; g++) fits &= amount->pages[g] <= room->pages[g];
    return fits;
}
