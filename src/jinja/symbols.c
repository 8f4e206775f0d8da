// Which names a scope hides before they are set. Jinja decides this when it compiles: where the
// first thing that a scope does with a name is to set it (not under an if), and no scope around it
// mentions the name, what is nested inside sees it as undefined until then, even if the caller gave
// a variable of that name. Here those names are collected for each scope; the render binds them as
// missing.
#include <stdlib.h>
#include <string.h>

#include "jinja/parser.h"

struct symbol {
    const struct str *name;
    uint32_t frame;      // the scope that mentioned it last
    bool is_set_first;   // in that scope
    uint32_t n_mentions; // scopes around the current one that mention it
};

struct symbols {
    struct arena *arena;
    struct symbol *all;
    size_t n, cap;
    uint32_t *index; // open addressing over all + 1
    size_t index_size;
    uint32_t *seen; // the symbols of the scopes that are open, innermost last
    size_t n_seen, seen_cap;
    uint32_t n_frames;
    bool has_failed; // no memory
};

// What a scope is made of.
struct frame {
    struct node *owner;             // gets the hidden names
    const struct node *targets;     // set before anything else: loop and with targets, parameters
    const struct node *expressions; // evaluated inside, before the body
    const struct node *body;
};

static uint64_t hash_name(const struct str *name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < name->len; i++) hash = (hash ^ (uint8_t)name->data[i]) * 0x100000001b3u;
    return hash ^ (hash >> 32);
}

static bool array_grow(void **array, size_t *cap, size_t n, size_t size) {
    if (n < *cap) return true;
    const size_t more = *cap ? *cap * 2 : 64;
    void *grown = realloc(*array, more * size);
    if (!grown) return false;
    *array = grown;
    *cap = more;
    return true;
}

static size_t slot_find(const struct symbols *s, const struct str *name) {
    const size_t mask = s->index_size - 1;
    size_t slot = hash_name(name) & mask;
    while (s->index[slot]) {
        const struct str *other = s->all[s->index[slot] - 1].name;
        if (other->len == name->len && memcmp(other->data, name->data, name->len) == 0) break;
        slot = (slot + 1) & mask;
    }
    return slot;
}

static bool index_grow(struct symbols *s) {
    if (s->n * 2 < s->index_size) return true;
    const size_t size = s->index_size ? s->index_size * 2 : 128;
    uint32_t *index = calloc(size, sizeof *index);
    if (!index) return false;
    free(s->index);
    s->index = index;
    s->index_size = size;
    for (size_t i = 0; i < s->n; i++) index[slot_find(s, s->all[i].name)] = (uint32_t)i + 1;
    return true;
}

// The current scope mentions the name, setting it or not.
static void mention(struct symbols *s, const struct str *name, bool is_set) {
    if (!index_grow(s) || !array_grow((void **)&s->all, &s->cap, s->n, sizeof *s->all) ||
        !array_grow((void **)&s->seen, &s->seen_cap, s->n_seen, sizeof *s->seen)) {
        s->has_failed = true;
        return;
    }
    const size_t slot = slot_find(s, name);
    if (!s->index[slot]) {
        s->all[s->n++] = (struct symbol){.name = name};
        s->index[slot] = (uint32_t)s->n;
    }
    const uint32_t id = s->index[slot] - 1;
    if (s->all[id].frame == s->n_frames) return; // only the first time counts
    s->all[id].frame = s->n_frames;
    s->all[id].is_set_first = is_set;
    s->seen[s->n_seen++] = id;
}

// Every name in a list of expressions.
static void mention_all(struct symbols *s, const struct node *node) {
    for (; node; node = node->next) {
        if (node->kind == N_NAME) mention(s, node->constant.s, false);
        if (node->kind == N_CONST || node->kind == N_NAME) continue;
        mention_all(s, node->a);
        if (node->kind != L_CALL) mention_all(s, node->b);  // there it is a call block's body
        if (node->kind != N_CHAIN) mention_all(s, node->c); // there it is the last of b
    }
}

static void mention_target(struct symbols *s, const struct node *target, bool is_set) {
    if (target->kind == N_TUPLE) {
        for (const struct node *item = target->a; item; item = item->next) {
            mention_target(s, item, is_set);
        }
    } else {
        mention(s, target->constant.s, is_set && target->kind == N_NAME);
    }
}

static void mention_body(struct symbols *s, const struct node *body, bool in_branch) {
    for (const struct node *node = body; node; node = node->next) {
        switch (node->kind) {
        case S_OUTPUT:
        case S_FILTER:
            mention_all(s, node->a);
            break;
        case S_FOR:
            mention_all(s, node->b);
            break;
        case S_WITH:
            for (const struct node *pair = node->a; pair; pair = pair->next) {
                mention_all(s, pair->b);
            }
            break;
        case S_IF:
            for (const struct node *branch = node->a; branch; branch = branch->next) {
                mention_all(s, branch->a);
                mention_body(s, branch->b, true);
            }
            mention_body(s, node->b, true);
            break;
        case S_SET:
            mention_all(s, node->b);
            mention_target(s, node->a, !in_branch);
            break;
        case S_SET_BLOCK:
            mention_target(s, node->a, !in_branch);
            break;
        case N_MACRO:
            mention(s, node->constant.s, !in_branch);
            break;
        default:
            break;
        }
    }
}

static void targets_mention(struct symbols *s, const struct node *targets) {
    for (const struct node *target = targets; target; target = target->next) {
        if (target->kind == N_PAIR) {
            mention_target(s, target->a, false);
        } else if (target->kind == N_PARAM) {
            mention(s, target->constant.s, false);
        } else {
            mention_target(s, target, false);
            break; // a loop has one
        }
    }
    for (const struct node *target = targets; target; target = target->next) {
        if (target->kind == N_PARAM) mention_all(s, target->a);
    }
}

static void shadow_make(struct symbols *s, const struct frame *frame, size_t from) {
    size_t n = 0;
    for (size_t i = from; i < s->n_seen; i++) {
        const struct symbol *symbol = &s->all[s->seen[i]];
        n += symbol->is_set_first && symbol->n_mentions == 0;
    }
    if (n == 0) return;
    struct shadow *shadow = arena_alloc(s->arena, sizeof *shadow);
    const struct str **names = arena_array(s->arena, n, sizeof *names);
    if (!shadow || !names) {
        s->has_failed = true;
        return;
    }
    shadow->names = names;
    for (size_t i = from; i < s->n_seen; i++) {
        const struct symbol *symbol = &s->all[s->seen[i]];
        if (symbol->is_set_first && symbol->n_mentions == 0) names[shadow->n++] = symbol->name;
    }
    frame->owner->shadow = shadow;
}

static void frames_inside(struct symbols *s, const struct node *body);

static void frame_visit(struct symbols *s, const struct frame *frame) {
    const size_t from = s->n_seen;
    s->n_frames++;
    targets_mention(s, frame->targets);
    mention_all(s, frame->expressions);
    mention_body(s, frame->body, false);
    if (s->has_failed) return;
    shadow_make(s, frame, from);
    for (size_t i = from; i < s->n_seen; i++) s->all[s->seen[i]].n_mentions++;
    frames_inside(s, frame->body);
    for (size_t i = from; i < s->n_seen; i++) s->all[s->seen[i]].n_mentions--;
    s->n_seen = from;
}

static void for_visit(struct symbols *s, struct node *node) {
    struct node *parts = node->c;
    frame_visit(s, &(struct frame){parts, node->a, NULL, parts->b});
    frame_visit(s, &(struct frame){node, NULL, NULL, parts->c});
}

static void frames_inside(struct symbols *s, const struct node *body) {
    for (const struct node *const_node = body; const_node && !s->has_failed;
         const_node = const_node->next) {
        struct node *node = (struct node *)const_node; // to be given its shadow
        switch (node->kind) {
        case S_IF:
            for (const struct node *branch = node->a; branch; branch = branch->next) {
                frames_inside(s, branch->b);
            }
            frames_inside(s, node->b);
            break;
        case S_FOR:
            for_visit(s, node);
            break;
        case S_OUTPUT:
            if (node->a->kind == N_CHAIN && node->a->c->kind == L_CALL && node->a->c->b) {
                struct node *macro = node->a->c->b;
                frame_visit(s, &(struct frame){macro, macro->a, NULL, macro->b});
            }
            break;
        case N_MACRO:
        case S_WITH:
            frame_visit(s, &(struct frame){node, node->a, NULL, node->b});
            break;
        case S_SET_BLOCK:
            frame_visit(s, &(struct frame){node, NULL, node->b, node->c});
            break;
        case S_FILTER:
        case S_SCOPE:
            frame_visit(s, &(struct frame){node, NULL, NULL, node->b});
            break;
        default:
            break;
        }
    }
}

bool jinja_symbols_resolve(struct template *tmpl) {
    struct symbols s = {.arena = &tmpl->arena};
    struct node root = {0};
    frame_visit(&s, &(struct frame){&root, NULL, NULL, tmpl->body});
    tmpl->shadow = root.shadow;
    free(s.all);
    free(s.index);
    free(s.seen);
    return !s.has_failed;
}
