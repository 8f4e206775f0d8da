// An automaton of Aho and Corasick over code points and special tokens: a state is the longest end
// of the text that starts a string of the list. A state that completes a string leads to the node
// behind it and nowhere else, so the first string that is met decides.
#include "constraint/freetext.h"

#include <string.h>

#include "base/utf8.h"
#include "constraint/product.h"
#include "constraint/vocab.h"

enum { FIRST_SPECIAL = 0x110000 }; // symbols from here on are special tokens

// --- special tokens ---

const struct node *node_special(struct grammar *g, const char *text, size_t len) {
    char *bytes = grammar_alloc(g, len + 2, 1);
    if (!bytes) return NULL;
    bytes[0] = (char)SPECIAL_OPEN;
    memcpy(bytes + 1, text, len);
    bytes[len + 1] = (char)SPECIAL_CLOSE;
    return node_bytes(g, bytes, len + 2);
}

static const struct node *any_special(struct grammar *g) {
    return node_seq_of(g, node_byte(g, SPECIAL_OPEN, SPECIAL_OPEN),
                       node_repeat(g, node_byte(g, 0, SPECIAL_CLOSE - 1), 1, -1),
                       node_byte(g, SPECIAL_CLOSE, SPECIAL_CLOSE));
}

const struct node *node_special_but(struct grammar *g, const struct node *const *but, size_t n) {
    return n ? node_without(g, any_special(g), node_alt(g, but, n)) : any_special(g);
}

static size_t special_at(const struct grammar *g, const char *text, size_t len, bool *is_end) {
    *is_end = false;
    return g->vocab ? vocab_special(g->vocab, text, len, is_end) : 0;
}

size_t text_without_end(struct grammar *g, const char *text, size_t len) {
    for (size_t i = 0; i < len;) {
        bool is_end;
        const size_t n = special_at(g, text + i, len - i, &is_end);
        if (is_end && i + n == len) return i;
        i += n ? n : 1;
    }
    return len;
}

size_t text_boundary(struct grammar *g, const char *text, size_t len, size_t at) {
    size_t i = 0;
    while (i < at) {
        bool is_end;
        const size_t n = special_at(g, text + i, len - i, &is_end);
        i += n ? n : 1;
    }
    return i;
}

const struct node *node_marked(struct grammar *g, const char *text, size_t len) {
    struct node_list list = {0};
    size_t begin = 0;
    for (size_t i = 0; i < len;) {
        bool is_end;
        const size_t n = special_at(g, text + i, len - i, &is_end);
        if (is_end || !grammar_work(g, 4)) return NULL;
        if (n) {
            if (i > begin && !node_list_add(g, &list, node_bytes(g, text + begin, i - begin)))
                return NULL;
            if (!node_list_add(g, &list, node_special(g, text + i, n))) return NULL;
            begin = i + n;
        }
        i += n ? n : 1;
    }
    if (len > begin && !node_list_add(g, &list, node_bytes(g, text + begin, len - begin)))
        return NULL;
    return node_seq(g, list.node, list.n);
}

// --- the tree of the strings ---

struct special {
    const char *text;
    size_t len;
    const struct node *node;
};

struct place {
    uint32_t symbol;
    uint32_t child, next; // first child, next sibling; 0: none
    uint32_t fail;        // the longest other start that ends here
    uint32_t mark;        // the first string that ends here: index + 1
    bool is_full;         // a string ends here, perhaps a shorter one
};

struct search {
    struct grammar *g;
    const struct text_mark *mark;
    uint32_t *next_mark; // [n_mark] another string with the same symbols: index + 1
    struct place *place; // 0 is the root
    uint32_t n, capacity;
    uint32_t *queue; // places by their depth
    struct special *special;
    uint32_t n_special, special_capacity;
    struct graph_edge *edge;
    size_t n_edge, edge_capacity;
    struct listed {
        uint32_t symbol, to;
    } * listed; // symbols of a state that do not lead to the root
    uint32_t n_listed;
};

static void *grow(struct grammar *g, void *old, size_t used, size_t capacity, size_t size) {
    void *grown = grammar_alloc(g, capacity, size);
    if (grown && used) memcpy(grown, old, used * size);
    return grown;
}

static uint32_t special_symbol(struct search *s, const char *text, size_t len) {
    if (!grammar_work(s->g, 1 + s->n_special)) return 0;
    for (uint32_t i = 0; i < s->n_special; i++)
        if (s->special[i].len == len && memcmp(s->special[i].text, text, len) == 0)
            return FIRST_SPECIAL + i;
    if (s->n_special == s->special_capacity) {
        const uint32_t capacity = s->special_capacity ? 2 * s->special_capacity : 8;
        struct special *grown = grow(s->g, s->special, s->n_special, capacity, sizeof *s->special);
        if (!grown) return 0;
        s->special = grown;
        s->special_capacity = capacity;
    }
    s->special[s->n_special] = (struct special){text, len, node_special(s->g, text, len)};
    return FIRST_SPECIAL + s->n_special++;
}

// The child with the symbol, made where there is none; 0: an error.
static uint32_t child_of(struct search *s, uint32_t at, uint32_t symbol) {
    uint32_t child = s->place[at].child;
    while (child && s->place[child].symbol != symbol) {
        child = s->place[child].next;
        if (!grammar_work(s->g, 1)) return 0;
    }
    if (child) return child;
    if (s->n == s->capacity) {
        struct place *grown = grow(s->g, s->place, s->n, 2 * s->capacity, sizeof *grown);
        if (!grown) return 0;
        s->place = grown;
        s->capacity *= 2;
    }
    s->place[s->n] = (struct place){.symbol = symbol, .next = s->place[at].child};
    s->place[at].child = s->n;
    return s->n++;
}

// The place of a string; 0: an error. *has_special: it names special tokens.
static uint32_t place_of(struct search *s, const char *text, size_t len, bool is_plain,
                         bool *has_special) {
    uint32_t at = 0;
    *has_special = false;
    for (size_t i = 0; i < len;) {
        bool is_end;
        size_t n = is_plain ? 0 : special_at(s->g, text + i, len - i, &is_end);
        uint32_t symbol;
        if (n) {
            symbol = special_symbol(s, text + i, n);
            *has_special = true;
        } else {
            n = utf8_length((const uint8_t *)text + i, len - i);
            if (n == 0) n = 1; // no text has such a byte
            symbol = utf8_decode((const uint8_t *)text + i, n);
        }
        at = child_of(s, at, symbol);
        if (s->g->status) return 0;
        i += n;
    }
    return at;
}

static bool add_mark(struct search *s, uint32_t index) {
    const struct text_mark *mark = &s->mark[index];
    bool has_special, ignored;
    if (mark->len == 0) return true;
    const uint32_t at = place_of(s, mark->text, mark->len, false, &has_special);
    if (!at) return false;
    s->next_mark[index] = s->place[at].mark;
    s->place[at].mark = index + 1;
    if (!has_special) return true;
    const uint32_t plain = place_of(s, mark->text, mark->len, true, &ignored);
    if (plain) s->place[plain].is_full = true;
    return plain;
}

// 0: none, or no work is left.
static uint32_t find_child(struct search *s, uint32_t at, uint32_t symbol) {
    uint32_t child = s->place[at].child, steps = 1;
    for (; child && s->place[child].symbol != symbol; steps++) child = s->place[child].next;
    return grammar_work(s->g, steps) ? child : 0;
}

static bool link_places(struct search *s) {
    uint32_t n = 0;
    s->queue = grammar_alloc(s->g, s->n, sizeof *s->queue);
    if (!s->queue) return false;
    s->queue[n++] = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t at = s->queue[i];
        s->place[at].is_full |= s->place[at].mark || s->place[s->place[at].fail].is_full;
        for (uint32_t c = s->place[at].child; c; c = s->place[c].next) {
            uint32_t fail = s->place[at].fail;
            uint32_t found = at ? find_child(s, fail, s->place[c].symbol) : 0;
            while (!found && fail) {
                fail = s->place[fail].fail;
                found = find_child(s, fail, s->place[c].symbol);
                if (!grammar_work(s->g, 4)) return false;
            }
            if (s->g->status) return false;
            s->place[c].fail = found;
            s->queue[n++] = c;
        }
    }
    return true;
}

// --- the graph ---

static bool edge(struct search *s, uint32_t from, uint32_t to, const struct node *node) {
    if (!node) return false;
    if (s->n_edge == s->edge_capacity) {
        const size_t capacity = s->edge_capacity ? 2 * s->edge_capacity : 64;
        struct graph_edge *grown = grow(s->g, s->edge, s->n_edge, capacity, sizeof *grown);
        if (!grown) return false;
        s->edge = grown;
        s->edge_capacity = capacity;
    }
    s->edge[s->n_edge++] = (struct graph_edge){from, to, node};
    return true;
}

// The symbols that continue a string, the longest start first.
static bool list_symbols(struct search *s, uint32_t at) {
    s->n_listed = 0;
    for (uint32_t from = at;; from = s->place[from].fail) {
        for (uint32_t c = s->place[from].child; c; c = s->place[c].next) {
            uint32_t i = 0;
            while (i < s->n_listed && s->listed[i].symbol != s->place[c].symbol) i++;
            if (!grammar_work(s->g, 1 + i)) return false;
            if (i == s->n_listed) s->listed[s->n_listed++] = (struct listed){s->place[c].symbol, c};
        }
        if (!from) return true;
    }
}

// The code points of a range that are not listed.
static const struct node *rest_class(struct search *s, uint32_t lo, uint32_t hi) {
    struct range *range = grammar_alloc(s->g, s->n_listed + 2, sizeof *range);
    if (!range) return NULL;
    size_t n = 0;
    if (lo) range[n++] = (struct range){0, lo - 1};
    if (hi < 0x10FFFF) range[n++] = (struct range){hi + 1, 0x10FFFF};
    for (uint32_t i = 0; i < s->n_listed; i++)
        if (s->listed[i].symbol < FIRST_SPECIAL)
            range[n++] = (struct range){s->listed[i].symbol, s->listed[i].symbol};
    return node_class_not(s->g, range, n);
}

static const struct node *rest_specials(struct search *s) {
    struct node_list list = {0};
    for (uint32_t i = 0; i < s->n_listed; i++)
        if (s->listed[i].symbol >= FIRST_SPECIAL)
            node_list_add(s->g, &list, s->special[s->listed[i].symbol - FIRST_SPECIAL].node);
    return s->g->status ? NULL : node_special_but(s->g, list.node, list.n);
}

// States behind the places: `wide` for characters past ASCII, `special` for special tokens, both
// shared by the places that list none of them, and the end.
static bool connect_place(struct search *s, uint32_t at, bool may_end, bool specials) {
    struct grammar *g = s->g;
    const uint32_t wide = s->n, special = s->n + 1, end = s->n + 2;
    const struct node *empty = node_empty(g);
    bool has_wide = false, has_special = false;
    if (!list_symbols(s, at)) return false;
    for (uint32_t i = 0; i < s->n_listed; i++) {
        const uint32_t symbol = s->listed[i].symbol;
        const struct range one = {symbol, symbol};
        const bool is_special = symbol >= FIRST_SPECIAL;
        has_wide |= !is_special && symbol >= 0x80;
        has_special |= is_special;
        if (!edge(s, at, s->listed[i].to,
                  is_special ? s->special[symbol - FIRST_SPECIAL].node : node_class(g, &one, 1)))
            return false;
    }
    if (!edge(s, at, 0, rest_class(s, 0, 0x7F))) return false;
    if (!(has_wide ? edge(s, at, 0, rest_class(s, 0x80, 0x10FFFF)) : edge(s, at, wide, empty)))
        return false;
    if (specials && !(has_special ? edge(s, at, 0, rest_specials(s)) : edge(s, at, special, empty)))
        return false;
    return !may_end || edge(s, at, end, empty);
}

// All strings that end at a place: its own, and those of the shorter starts.
static bool connect_full(struct search *s, uint32_t at) {
    for (uint32_t from = at; from; from = s->place[from].fail) {
        for (uint32_t i = s->place[from].mark; i; i = s->next_mark[i - 1]) {
            const struct text_mark *mark = &s->mark[i - 1];
            if (mark->then && !edge(s, at, mark->is_end ? s->n + 2 : 0, mark->then)) return false;
        }
        if (!grammar_work(s->g, 1)) return false;
    }
    return true;
}

static bool connect(struct search *s, bool may_end, bool specials) {
    const struct range wide = {0x80, 0x10FFFF};
    s->listed = grammar_alloc(s->g, s->n, sizeof *s->listed);
    if (!s->listed) return false;
    for (uint32_t i = 0; i < s->n; i++)
        if (!(s->place[i].is_full ? connect_full(s, i) : connect_place(s, i, may_end, specials)))
            return false;
    return edge(s, s->n, 0, node_class(s->g, &wide, 1)) &&
           (!specials || edge(s, s->n + 1, 0, any_special(s->g)));
}

const struct node *node_free_text(struct grammar *g, const struct text_mark *mark, size_t n,
                                  bool may_end, bool specials) {
    struct search *s = grammar_alloc(g, 1, sizeof *s);
    if (!s) return NULL;
    *s = (struct search){.g = g, .mark = mark, .n = 1, .capacity = 32};
    s->place = grammar_alloc(g, s->capacity, sizeof *s->place);
    s->next_mark = grammar_alloc(g, n, sizeof *s->next_mark);
    if (!s->place || !s->next_mark) return NULL;
    for (uint32_t i = 0; i < n; i++)
        if (!add_mark(s, i)) return NULL;
    if (!link_places(s) || !connect(s, may_end, specials)) return NULL;
    return node_graph(g, s->edge, s->n_edge, s->n + 3);
}
