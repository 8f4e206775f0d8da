// Summaries: one walk over the trie each, inside one rule.
#include "constraint/summary.h"

#include <stdlib.h>
#include <string.h>

#include "constraint/brief_lock.h"

enum {
    WIDE_NODES = 400,            // fewer live nodes are walked each time
    LISTED_STATES_MAX = 256,     // larger rules are seldom equal
    UNUSED_BYTES_MAX = 32 << 20, // rows of shares: from here on unused ones are dropped
};

// --- the walk ---

struct walk {
    const struct constraint_vocab *vocab;
    const struct machine *machine;
    uint32_t base;
    bool is_open;
    const uint64_t *follow; // [4]
    uint16_t *state;        // [max_depth + 1] of each depth
    uint16_t *units;        // [max_depth + 1] ended so far
    uint64_t *inner;        // [n_words] tokens that stay inside
    int32_t *token;         // [n_vocab + 1] of a counted rule: these tokens
    uint16_t *need;         // [n_vocab + 1] and the units that they need; NULL: not counted
    uint32_t n_token;
    struct summary_leave *leave;
    uint32_t n_leave, capacity;
    uint64_t *cut; // [n_words] tokens of other first bytes than a similar state has
    uint64_t visited;
};

static void walk_deinit(struct walk *w) {
    free(w->state);
    free(w->units);
    free(w->inner);
    free(w->token);
    free(w->need);
    free(w->leave);
    free(w->cut);
}

static bool leave_add(struct walk *w, struct summary_leave leave) {
    if (w->n_leave == w->capacity) {
        const uint32_t capacity = w->capacity ? 2 * w->capacity : 256;
        struct summary_leave *grown = realloc(w->leave, capacity * sizeof *grown);
        if (!grown) return false;
        w->leave = grown;
        w->capacity = capacity;
    }
    w->leave[w->n_leave++] = leave;
    return true;
}

// Whether a byte below the node may come behind the rule.
static bool may_follow(const struct walk *w, uint32_t index) {
    const struct trie_node *node = w->vocab->node;
    for (uint32_t i = index + 1; i < node[index].skip; i = node[i].skip)
        if (w->follow[node[i].byte >> 6] >> (node[i].byte & 63) & 1) return true;
    return false;
}

// only: the first bytes to look at; NULL: all.
static bool walk_run(struct walk *w, uint32_t start, const uint64_t *only) {
    const struct constraint_vocab *v = w->vocab;
    const struct machine *m = w->machine;
    const bool counted = m->flags[start] & STATE_COUNTED;
    w->state[0] = (uint16_t)start;
    w->units[0] = 0;
    for (uint32_t i = 0; i < v->n_node;) {
        const struct trie_node *node = &v->node[i];
        if (only && node->depth == 1 && !(only[node->byte >> 6] >> (node->byte & 63) & 1)) {
            i = node->skip;
            continue;
        }
        const uint16_t to = m->next[w->state[node->depth - 1]][node->byte];
        w->visited++;
        if (!to) {
            i = node->skip;
            continue;
        }
        const uint8_t flags = m->flags[to];
        const bool unit_ends = counted && (flags & STATE_ACCEPT);
        const uint16_t units = (uint16_t)(w->units[node->depth - 1] + unit_ends);
        w->state[node->depth] = to;
        w->units[node->depth] = units;
        trie_tokens(v, node, w->inner);
        for (int32_t id = counted ? node->token : -1; id >= 0; id = v->same[id]) {
            w->token[w->n_token] = id;
            w->need[w->n_token++] = (uint16_t)(units + !unit_ends);
        }
        i++;
        if ((flags & (STATE_ACCEPT | STATE_CALLS)) && i < node->skip &&
            ((flags & STATE_CALLS) || !w->is_open || may_follow(w, i - 1)) &&
            !leave_add(w, (struct summary_leave){i - 1, (uint16_t)(to - w->base), units}))
            return false;
    }
    return true;
}

// Sorts the tokens by their need, by counting.
static bool sort_needs(struct summary *s, const struct walk *w) {
    for (uint32_t i = 0; i < w->n_token; i++)
        if (w->need[i] > s->need_max) s->need_max = w->need[i];
    s->need_begin = calloc(s->need_max + 2, sizeof *s->need_begin);
    s->by_need = malloc((w->n_token + 1) * sizeof *s->by_need);
    if (!s->need_begin || !s->by_need) return false;
    for (uint32_t i = 0; i < w->n_token; i++) s->need_begin[w->need[i] + 1]++;
    for (uint32_t i = 0; i <= s->need_max; i++) s->need_begin[i + 1] += s->need_begin[i];
    for (uint32_t i = 0; i < w->n_token; i++) s->by_need[s->need_begin[w->need[i]]++] = w->token[i];
    memmove(s->need_begin + 1, s->need_begin, (s->need_max + 1) * sizeof *s->need_begin);
    s->need_begin[0] = 0;
    s->bytes += (s->need_max + 2) * sizeof *s->need_begin + w->n_token * sizeof *s->by_need;
    return true;
}

void summary_release(const struct summary *summary) {
    struct summary *s = (struct summary *)summary;
    if (!s || atomic_fetch_sub(&s->refs, 1) > 1) return;
    free(s->inner);
    free(s->need_begin);
    free(s->by_need);
    free(s->leave);
    free(s);
}

// Takes the walk's tokens and leaves. One reference.
static struct summary *summary_create(struct walk *w) {
    struct summary *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->refs = 1;
    s->bytes = sizeof *s + w->vocab->n_words * sizeof *s->inner + w->n_leave * sizeof *s->leave;
    if (w->need && !sort_needs(s, w)) {
        summary_release(s);
        return NULL;
    }
    s->inner = w->inner;
    w->inner = NULL;
    s->n_leave = w->n_leave;
    s->leave = w->leave;
    w->leave = NULL;
    for (uint32_t i = 0; i < s->n_leave; i++)
        if (s->leave[i].units > s->leave_max) s->leave_max = s->leave[i].units;
    return s;
}

// --- from the summary of a similar state ---

// The state that most text leads to from here; 0: none.
static uint32_t usual_state(const struct machine *m, uint32_t state) {
    uint32_t found = 0;
    int n = 0; // a vote: more than half of the bytes agree
    for (int byte = ' '; byte < 127; byte++) {
        const uint32_t to = m->next[state][byte];
        if (n == 0) found = to;
        n += to == found ? 1 : -1;
    }
    return found;
}

// First bytes by which two states differ. False: too many nodes of the trie are below them.
static bool differing_bytes(const struct constraint_vocab *v, const struct machine *m, uint32_t a,
                            uint32_t b, uint64_t only[4]) {
    uint32_t nodes = 0;
    memset(only, 0, 4 * sizeof *only);
    for (uint32_t i = 0; i < v->n_node; i = v->node[i].skip) {
        const uint8_t byte = v->node[i].byte;
        if (m->next[a][byte] == m->next[b][byte]) continue;
        only[byte >> 6] |= UINT64_C(1) << (byte & 63);
        nodes += v->node[i].skip - i;
    }
    return nodes < v->n_node / 4;
}

// Leaves of the other summary outside of the differing bytes, between the new ones.
static bool merge_leaves(struct walk *w, const struct summary *like, const uint64_t *only) {
    const struct constraint_vocab *v = w->vocab;
    struct summary_leave *merged = malloc((like->n_leave + w->n_leave + 1) * sizeof *merged);
    uint32_t n = 0, own = 0, end = 0;
    bool is_taken = false;
    if (!merged) return false;
    for (uint32_t i = 0, top = 0; i < like->n_leave; i++) {
        const struct summary_leave *leave = &like->leave[i];
        while (leave->node >= end) { // into the part of the trie that the node is in
            top = end;
            end = v->node[top].skip;
            is_taken = only[v->node[top].byte >> 6] >> (v->node[top].byte & 63) & 1;
        }
        while (own < w->n_leave && w->leave[own].node < top) merged[n++] = w->leave[own++];
        if (!is_taken) merged[n++] = *leave;
    }
    while (own < w->n_leave) merged[n++] = w->leave[own++];
    free(w->leave);
    w->leave = merged;
    w->n_leave = n;
    return true;
}

// Replaces the tokens of the differing bytes; all others are those of the other summary.
static struct summary *summary_from(struct walk *w, const struct summary *like,
                                    const uint64_t *only) {
    const struct constraint_vocab *v = w->vocab;
    if (!merge_leaves(w, like, only)) return NULL;
    struct summary *s = summary_create(w);
    if (!s) return NULL;
    for (uint32_t i = 0; i < v->n_node; i = v->node[i].skip) {
        if (!(only[v->node[i].byte >> 6] >> (v->node[i].byte & 63) & 1)) continue;
        for (uint32_t k = i; k < v->node[i].skip; k++) trie_tokens(v, &v->node[k], w->cut);
    }
    for (size_t i = 0; i < v->n_words; i++) s->inner[i] |= like->inner[i] & ~w->cut[i];
    return s;
}

// NULL: out of memory.
static struct summary *summary_make(const struct constraint_vocab *vocab, const struct machine *m,
                                    uint32_t state, const struct summary *like,
                                    const uint64_t *only, uint64_t *visited) {
    const struct machine_rule *rule = &m->rule[m->rule_of[state]];
    const bool counted = m->flags[state] & STATE_COUNTED;
    struct walk w = {.vocab = vocab,
                     .machine = m,
                     .base = rule->base,
                     .is_open = rule->is_open,
                     .follow = rule->follow};
    w.state = malloc((vocab->max_depth + 1) * sizeof *w.state);
    w.units = malloc((vocab->max_depth + 1) * sizeof *w.units);
    w.inner = calloc(vocab->n_words, sizeof *w.inner);
    w.cut = like ? calloc(vocab->n_words, sizeof *w.cut) : NULL;
    bool fits = w.state && w.units && w.inner && (w.cut || !like);
    if (counted) {
        w.token = malloc(((size_t)vocab->n_vocab + 1) * sizeof *w.token);
        w.need = malloc(((size_t)vocab->n_vocab + 1) * sizeof *w.need);
        fits = fits && w.token && w.need;
    }
    struct summary *made = NULL;
    if (fits && walk_run(&w, state, only))
        made = like ? summary_from(&w, like, only) : summary_create(&w);
    *visited += w.visited + w.n_token;
    walk_deinit(&w);
    return made;
}

// --- which states have one ---

// A walk that ends with the first nodes. NULL state: out of memory, and a wide state works.
static bool walk_is_wide(const struct constraint_vocab *v, const struct machine *m, uint32_t start,
                         uint64_t *visited) {
    uint16_t *state = malloc((v->max_depth + 1) * sizeof *state);
    int n_live = 0;
    if (!state) return true;
    state[0] = (uint16_t)start;
    for (uint32_t i = 0; i < v->n_node && n_live < WIDE_NODES;) {
        const struct trie_node *node = &v->node[i];
        const uint16_t to = m->next[state[node->depth - 1]][node->byte];
        ++*visited;
        if (to) state[node->depth] = to;
        n_live += to != 0;
        i = to ? i + 1 : node->skip;
    }
    free(state);
    return n_live == WIDE_NODES;
}

static uint32_t local_of(const struct machine *m, uint32_t state) {
    return state - m->rule[m->rule_of[state]].base;
}

bool summary_is_wide(const struct constraint_vocab *vocab, const struct machine *m,
                     struct share *share, uint32_t state, uint64_t *visited) {
    _Atomic uint8_t *width = &share->width[local_of(m, state)];
    const uint8_t known = atomic_load_explicit(width, memory_order_relaxed);
    if (known != WIDTH_UNKNOWN) return known == WIDTH_WIDE;
    const bool is_wide = walk_is_wide(vocab, m, state, visited);
    atomic_store_explicit(width, is_wide ? WIDTH_WIDE : WIDTH_NARROW, memory_order_relaxed);
    return is_wide;
}

// --- the list: the summary that was used last is the newest one; the lock is held ---

static void list_leave(struct constraint_vocab *vocab, struct summary *s) {
    *(s->newer ? &s->newer->older : &vocab->newest) = s->older;
    *(s->older ? &s->older->newer : &vocab->oldest) = s->newer;
}

static void list_enter(struct constraint_vocab *vocab, struct summary *s) {
    s->newer = NULL;
    s->older = vocab->newest;
    *(vocab->newest ? &vocab->newest->newer : &vocab->oldest) = s;
    vocab->newest = s;
}

static void drop(struct constraint_vocab *vocab, struct summary *s) {
    list_leave(vocab, s);
    s->share->summary[s->local] = NULL;
    vocab->summary_bytes -= s->bytes;
    summary_release(s);
}

const struct summary *summary_find(struct constraint_vocab *vocab, const struct machine *m,
                                   struct share *share, uint32_t state) {
    if (!brief_lock(&vocab->summary_mutex)) return NULL;
    struct summary *s = share->summary[local_of(m, state)];
    if (s) {
        s->refs++;
        list_leave(vocab, s);
        list_enter(vocab, s);
    }
    pthread_mutex_unlock(&vocab->summary_mutex);
    return s;
}

// The caller keeps its reference, to this summary or to that of a thread that was first.
static const struct summary *publish(struct constraint_vocab *vocab, struct share *share,
                                     struct summary *made) {
    if (!brief_lock(&vocab->summary_mutex)) return made;
    struct summary *first = share->summary[made->local];
    if (first) {
        first->refs++;
    } else {
        share->summary[made->local] = made;
        made->refs++;
        made->share = share;
        list_enter(vocab, made);
        vocab->summary_bytes += made->bytes;
        while (vocab->summary_bytes > vocab->summary_bytes_max && vocab->oldest != made)
            drop(vocab, vocab->oldest);
    }
    pthread_mutex_unlock(&vocab->summary_mutex);
    if (first) summary_release(made);
    return first ? first : made;
}

const struct summary *summary_acquire(struct constraint_vocab *vocab, const struct machine *m,
                                      struct share *share, uint32_t state, uint64_t *visited) {
    const struct summary *found = summary_find(vocab, m, share, state);
    if (found) return found;
    // inside of a string of the source that free text ends with, only the next byte is another one
    const uint32_t usual = m->flags[state] & STATE_COUNTED ? 0 : usual_state(m, state);
    const struct summary *like = NULL;
    uint64_t only[4];
    if (usual && usual != state && usual_state(m, usual) == usual &&
        summary_is_wide(vocab, m, share, usual, visited) &&
        differing_bytes(vocab, m, state, usual, only))
        like = summary_acquire(vocab, m, share, usual, visited);
    struct summary *made = summary_make(vocab, m, state, like, like ? only : NULL, visited);
    summary_release(like);
    if (!made) return NULL;
    made->local = local_of(m, state);
    return publish(vocab, share, made);
}

// --- shares ---

static void share_destroy(struct constraint_vocab *vocab, struct share *share) {
    pthread_mutex_lock(&vocab->summary_mutex);
    for (uint32_t i = 0; i < share->n; i++)
        if (share->summary[i]) drop(vocab, share->summary[i]);
    pthread_mutex_unlock(&vocab->summary_mutex);
    free(share->row);
    free(share->flags);
    free((void *)share->width);
    free(share);
}

// A state's row and its flags as far as a summary depends on them.
static uint16_t row_at(const struct machine *m, const struct machine_rule *rule, uint32_t local,
                       int byte) {
    const uint16_t to = m->next[rule->base + local][byte];
    return to ? (uint16_t)(to - rule->base + 1) : 0;
}

static uint64_t share_hash(const struct machine *m, const struct machine_rule *rule) {
    uint64_t h = rule->n;
    for (uint32_t i = 0; i < rule->n; i++) {
        h = (h ^ m->flags[rule->base + i]) * 0x9FB21C651E98DF25u;
        for (int byte = 0; byte < 256; byte++) {
            h = (h ^ row_at(m, rule, i, byte)) * 0x9FB21C651E98DF25u;
            h ^= h >> 31;
        }
    }
    return h;
}

static bool share_equals(const struct share *share, uint64_t hash, const struct machine *m,
                         const struct machine_rule *rule) {
    if (share->hash != hash || share->n != rule->n) return false;
    if (memcmp(share->flags, m->flags + rule->base, rule->n) != 0 ||
        (rule->is_open && memcmp(share->follow, rule->follow, sizeof rule->follow) != 0))
        return false;
    for (uint32_t i = 0; i < rule->n; i++)
        for (int byte = 0; byte < 256; byte++)
            if (share->row[i][byte] != row_at(m, rule, i, byte)) return false;
    return true;
}

static struct share *share_create(struct constraint_vocab *vocab, const struct machine *m,
                                  const struct machine_rule *rule, uint64_t hash, bool is_listed) {
    struct share *share = calloc(1, sizeof *share + rule->n * sizeof share->summary[0]);
    if (!share) return NULL;
    share->refs = 1;
    share->n = rule->n;
    share->hash = hash;
    share->is_listed = is_listed;
    share->width = calloc(rule->n + 1, 1);
    if (is_listed) {
        share->row = malloc(rule->n * sizeof *share->row);
        share->flags = malloc(rule->n);
    }
    if (!share->width || (is_listed && (!share->row || !share->flags))) {
        share_destroy(vocab, share);
        return NULL;
    }
    if (!is_listed) return share;
    memcpy(share->flags, m->flags + rule->base, rule->n);
    memcpy(share->follow, rule->follow, sizeof rule->follow);
    for (uint32_t i = 0; i < rule->n; i++)
        for (int byte = 0; byte < 256; byte++) share->row[i][byte] = row_at(m, rule, i, byte);
    return share;
}

static struct share **bucket_of(struct constraint_vocab *vocab, uint64_t hash) {
    return &vocab->same_hash[hash >> 32 & (SHARE_BUCKETS - 1)];
}

static void bucket_leave(struct constraint_vocab *vocab, const struct share *share) {
    struct share **at = bucket_of(vocab, share->hash);
    while (*at != share) at = &(*at)->same_hash;
    *at = share->same_hash;
}

// Drops unused shares from the oldest on while there are too many bytes. It looks at all of them,
// so it waits until a quarter of them is new.
static void shares_trim(struct constraint_vocab *vocab) {
    size_t bytes = 0;
    if (++vocab->n_new < vocab->n_share / 4) return;
    vocab->n_new = 0;
    for (struct share **at = &vocab->share; *at;) {
        struct share *share = *at;
        bytes += share->n * sizeof *share->row;
        if (share->refs == 0 && bytes > UNUSED_BYTES_MAX) {
            *at = share->next;
            bucket_leave(vocab, share);
            vocab->n_share--;
            share_destroy(vocab, share);
        } else {
            at = &share->next;
        }
    }
}

size_t shares_bytes(const struct machine *m) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < m->n_rule; i++) {
        const uint32_t n = m->rule[i].n;
        const bool is_listed = n <= LISTED_STATES_MAX;
        bytes += sizeof(struct share) + n * (sizeof(const struct summary *) + 1) +
                 (is_listed ? n * (sizeof(uint16_t[256]) + 1) : 0);
    }
    return bytes;
}

struct share *share_acquire(struct constraint_vocab *vocab, const struct machine *m,
                            uint32_t index) {
    const struct machine_rule *rule = &m->rule[index];
    if (rule->n > LISTED_STATES_MAX) return share_create(vocab, m, rule, 0, false);
    const uint64_t hash = share_hash(m, rule);
    pthread_mutex_lock(&vocab->mutex);
    struct share **bucket = bucket_of(vocab, hash), *share = *bucket;
    while (share && !share_equals(share, hash, m, rule)) share = share->same_hash;
    if (share) {
        share->refs++;
    } else {
        shares_trim(vocab);
        share = share_create(vocab, m, rule, hash, true);
        if (share) {
            share->next = vocab->share;
            share->same_hash = *bucket;
            vocab->share = *bucket = share;
            vocab->n_share++;
        }
    }
    pthread_mutex_unlock(&vocab->mutex);
    return share;
}

void share_release(struct constraint_vocab *vocab, struct share *share) {
    if (!share) return;
    if (!share->is_listed) {
        share_destroy(vocab, share);
        return;
    }
    pthread_mutex_lock(&vocab->mutex);
    share->refs--;
    pthread_mutex_unlock(&vocab->mutex);
}

void shares_destroy(struct constraint_vocab *vocab) {
    while (vocab->share) {
        struct share *share = vocab->share;
        vocab->share = share->next;
        share_destroy(vocab, share);
    }
}
