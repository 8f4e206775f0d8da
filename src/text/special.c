// Sorted specials, narrowed byte by byte like a trie: a look-up takes the matched length times the
// logarithm of their number, however many share a prefix. Called by tokenizer.c.
#include "text/special.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int text_order(const struct text_span *a, const struct text_span *b) {
    const int order = memcmp(a->data, b->data, a->len < b->len ? a->len : b->len);
    if (order) return order;
    return (a->len > b->len) - (a->len < b->len);
}

static int special_order(const void *left, const void *right) {
    const struct special *const a = left, *const b = right;
    const int order = text_order(&a->text, &b->text);
    return order ? order : (a->id > b->id) - (a->id < b->id);
}

void special_init(struct special_set *set, struct special *item, size_t count) {
    if (count > 0) qsort(item, count, sizeof *item, special_order);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        assert(item[i].text.len > 0);
        if (kept == 0 || text_order(&item[kept - 1].text, &item[i].text)) item[kept++] = item[i];
    }
    *set = (struct special_set){.item = item};
    for (size_t i = 0; i < kept; i++) set->first[(uint8_t)item[i].text.data[0] + 1]++;
    for (size_t byte = 0; byte < 256; byte++) set->first[byte + 1] += set->first[byte];
}

// The first of [low, high), all longer than depth, whose byte at depth is at least limit.
static uint32_t lower_bound(const struct special_set *set, uint32_t low, uint32_t high,
                            size_t depth, int limit) {
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if ((uint8_t)set->item[middle].text.data[depth] < limit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct special *special_find(const struct special_set *set, const char *text, size_t len) {
    assert(len > 0);
    const uint8_t head = (uint8_t)text[0];
    uint32_t low = set->first[head], high = set->first[head + 1];
    const struct special *longest = NULL;
    // Here [low, high) are the specials that begin with the first depth bytes of the text; the one
    // that ends there comes first.
    for (size_t depth = 1; low < high; depth++) {
        if (set->item[low].text.len == depth) longest = &set->item[low++];
        if (depth == len) break;
        const int byte = (uint8_t)text[depth];
        low = lower_bound(set, low, high, depth, byte);
        high = lower_bound(set, low, high, depth, byte + 1);
    }
    return longest;
}
