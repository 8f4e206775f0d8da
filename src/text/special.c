// Sorted specials, narrowed byte by byte like a trie: a look-up takes the matched length times the
// logarithm of their number, however many share a prefix. Called by tokenizer.c.
#include "text/special.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "unicode/unicode.h"

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
    *set = (struct special_set){.item = item, .count = kept};
    for (size_t i = 0; i < kept; i++) {
        const uint8_t byte = (uint8_t)item[i].text.data[0];
        set->first[byte + 1]++;
        set->starts[byte] = true;
    }
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

// Whether a guard keeps the text from `begin` to `end` from being a control token.
static bool is_guarded(const struct guard_view *guards, const char *text, size_t begin,
                       size_t end) {
    if (guards->count == 0) return false;
    size_t low = 0, high = guards->count; // the first guard behind `begin`
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (guards->at[middle] <= guards->base + begin)
            low = middle + 1;
        else
            high = middle;
    }
    const size_t last = guards->base + end;
    if (low < guards->count && guards->at[low] < last) return true;
    size_t n;
    unicode_decode((const uint8_t *)text + begin, end - begin, &n);
    return n == end - begin && low + 1 < guards->count && guards->at[low] == last &&
           guards->at[low + 1] == last;
}

// The longest special at `at` (less than len), or NULL.
static const struct special *find(const struct special_set *set, const char *whole,
                                  size_t whole_len, size_t at, const struct guard_view *guards) {
    const char *const text = whole + at;
    const size_t len = whole_len - at;
    const uint8_t head = (uint8_t)text[0];
    uint32_t low = set->first[head], high = set->first[head + 1];
    const struct special *longest = NULL;
    // Here [low, high) are the specials that start with the first depth bytes of the text; a
    // special that ends there comes first.
    for (size_t depth = 1; low < high; depth++) {
        if (set->item[low].text.len == depth) {
            const struct special *const item = &set->item[low++];
            if (!item->is_control || !is_guarded(guards, whole, at, at + depth)) longest = item;
        }
        if (depth == len) break;
        const int byte = (uint8_t)text[depth];
        low = lower_bound(set, low, high, depth, byte);
        high = lower_bound(set, low, high, depth, byte + 1);
    }
    return longest;
}

struct special_reach special_reach(const struct special_set *set, const char *text, size_t len) {
    const uint8_t head = (uint8_t)text[0];
    struct special_reach reach = {0};
    uint32_t low = set->first[head], high = set->first[head + 1];
    for (size_t depth = 1; low < high; depth++) {
        if (set->item[low].text.len == depth) {
            if (!reach.is_there) reach.shortest = depth;
            reach.is_there = true;
            low++;
        }
        if (depth == len) {
            reach.goes_on = low < high;
            break;
        }
        const int byte = (uint8_t)text[depth];
        low = lower_bound(set, low, high, depth, byte);
        high = lower_bound(set, low, high, depth, byte + 1);
    }
    return reach;
}

// ---------------------------------------------------------------- the text around a match

// Where the character that ends before `at` (at least 1) begins.
static size_t character_before(const char *text, size_t at) {
    size_t begin = at - 1, n;
    while (begin > 0 && at - begin < 4 && ((uint8_t)text[begin] & 0xC0) == 0x80) begin--;
    unicode_decode((const uint8_t *)text + begin, at - begin, &n);
    return n == at - begin ? begin : at - 1;
}

static bool is_word_at(const char *text, size_t at, size_t end) {
    size_t n;
    return at < end && unicode_is_word(unicode_decode((const uint8_t *)text + at, end - at, &n));
}

static bool is_white_at(const char *text, size_t at, size_t end, size_t *n) {
    return at < end && unicode_traits_at((const uint8_t *)text + at, end - at, n) & UNICODE_SPACE;
}

static bool touches_word(const char *text, size_t len, size_t begin, size_t end) {
    return (begin > 0 && is_word_at(text, character_before(text, begin), begin)) ||
           is_word_at(text, end, len);
}

bool special_next(const struct special_set *set, const char *text, size_t len, size_t from,
                  struct guard_view guards, struct special_match *match) {
    if (set->count == 0) return false;
    for (size_t at = from; at < len;) {
        if (!set->starts[(uint8_t)text[at]]) {
            at++;
            continue;
        }
        const struct special *const special = find(set, text, len, at, &guards);
        if (!special) {
            at++;
            continue;
        }
        *match = (struct special_match){at, at + special->text.len, special->id};
        at = match->end;
        if (special->rules & SPECIAL_SINGLE_WORD &&
            touches_word(text, len, match->begin, match->end))
            continue;
        size_t n;
        while (special->rules & SPECIAL_LSTRIP && match->begin > from) {
            const size_t before = character_before(text, match->begin);
            if (before < from || !is_white_at(text, before, match->begin, &n)) break;
            match->begin = before;
        }
        while (special->rules & SPECIAL_RSTRIP && is_white_at(text, match->end, len, &n))
            match->end += n;
        return true;
    }
    return false;
}
