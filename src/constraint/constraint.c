// Compilation, the compiled constraints that a vocabulary keeps, and runs.
#include "constraint/constraint.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "constraint/front.h"
#include "constraint/matcher.h"

// 12 million units take about 50 ms on the slowest machine that was measured.
const struct constraint_limits constraint_limits_default = {.source_bytes = 1 << 20,
                                                            .work = 12000000,
                                                            .bytes = 64 << 20};

enum {
    KEPT_MAX = 64,             // compiled constraints
    KEPT_SOURCE_MAX = 1 << 16, // longer sources are not kept
    KEPT_BYTES_MAX = 64 << 20, // of all of them
};

struct constraint {
    _Atomic int refs;
    struct constraint_vocab *vocab;
    struct machine machine;
    struct share **share; // [n_rule]
    struct mask_cache cache;
    bool has_cache;
    uint64_t work;
    size_t bytes;

    struct constraint *next; // in the list of kept ones; guarded by the vocabulary's mutex
    enum constraint_kind kind;
    uint64_t hash;
    char *source;
    size_t len;
};

// --- kept constraints ---

static uint64_t hash_source(enum constraint_kind kind, const char *text, size_t len) {
    uint64_t h = (uint64_t)kind + 0x9E3779B97F4A7C15u;
    for (size_t i = 0; i < len; i++) h = (h ^ (uint8_t)text[i]) * 0x100000001B3u;
    return h ^ h >> 31;
}

struct constraint *constraint_find(struct constraint_vocab *vocab, enum constraint_kind kind,
                                   const char *text, size_t len) {
    if (kind == CONSTRAINT_OBJECT) len = 0;
    const uint64_t hash = hash_source(kind, text, len);
    pthread_mutex_lock(&vocab->mutex);
    struct constraint *c = NULL;
    for (struct constraint **at = &vocab->kept; (c = *at); at = &c->next) {
        if (c->hash != hash || c->kind != kind || c->len != len ||
            memcmp(c->source, text, len) != 0)
            continue;
        c->refs++;
        *at = c->next; // to the front
        c->next = vocab->kept;
        vocab->kept = c;
        break;
    }
    pthread_mutex_unlock(&vocab->mutex);
    return c;
}

// Takes the oldest one out of the list.
static struct constraint *kept_take(struct constraint_vocab *vocab) {
    struct constraint **at = &vocab->kept;
    while ((*at)->next) at = &(*at)->next;
    struct constraint *oldest = *at;
    *at = NULL;
    vocab->n_kept--;
    vocab->kept_bytes -= oldest->bytes;
    return oldest;
}

// Takes a reference. The oldest ones go where there are too many.
static void kept_add(struct constraint_vocab *vocab, struct constraint *c,
                     enum constraint_kind kind, const char *text, size_t len) {
    if (len > KEPT_SOURCE_MAX || c->bytes > KEPT_BYTES_MAX / 8) return;
    c->source = malloc(len + 1);
    if (!c->source) return;
    if (len) memcpy(c->source, text, len);
    c->len = len;
    c->kind = kind;
    c->hash = hash_source(kind, text, len);
    c->refs++;
    struct constraint *dropped = NULL;
    pthread_mutex_lock(&vocab->mutex);
    c->next = vocab->kept;
    vocab->kept = c;
    vocab->n_kept++;
    vocab->kept_bytes += c->bytes;
    while (vocab->n_kept > KEPT_MAX || vocab->kept_bytes > KEPT_BYTES_MAX) {
        struct constraint *oldest = kept_take(vocab);
        oldest->next = dropped;
        dropped = oldest;
    }
    pthread_mutex_unlock(&vocab->mutex);
    while (dropped) {
        struct constraint *next = dropped->next;
        constraint_release(dropped);
        dropped = next;
    }
}

void constraint_kept_drop(struct constraint_vocab *vocab) {
    pthread_mutex_lock(&vocab->mutex);
    struct constraint *c = vocab->kept;
    vocab->kept = NULL;
    vocab->n_kept = 0;
    vocab->kept_bytes = 0;
    pthread_mutex_unlock(&vocab->mutex);
    while (c) {
        struct constraint *next = c->next;
        constraint_release(c);
        c = next;
    }
}

// --- compilation ---

static void constraint_destroy(struct constraint *c) {
    for (uint32_t i = 0; c->share && i < c->machine.n_rule; i++)
        share_release(c->vocab, c->share[i]);
    free(c->share);
    if (c->has_cache) mask_cache_deinit(&c->cache);
    free(c->source);
    machine_deinit(&c->machine);
    vocab_unref(c->vocab);
    free(c);
}

static void read_source(struct grammar *g, enum constraint_kind kind, const char *text,
                        size_t len) {
    switch (kind) {
    case CONSTRAINT_SCHEMA:
        schema_read(g, text, len);
        return;
    case CONSTRAINT_OBJECT:
        object_read(g);
        return;
    case CONSTRAINT_REGEX:
        regex_read(g, text, len);
        return;
    case CONSTRAINT_GRAMMAR:
        if (lark_is(text, len))
            lark_read(g, text, len);
        else
            gbnf_read(g, text, len);
        return;
    case CONSTRAINT_CHOICES:
        choices_read(g, text, len);
        return;
    case CONSTRAINT_STRUCTURE:
        structure_read(g, text, len);
        return;
    }
    grammar_fail(g, RN_ERR_ARG, "an unknown kind of constraint, %d", (int)kind);
}

// Whether most text stays in the state, as in a string: its summary is needed for sure.
static bool is_loop(const struct machine *m, uint32_t state) {
    int n = 0;
    for (int byte = ' '; byte < 127; byte++) n += m->next[state][byte] == state;
    return n >= 16;
}

// The summaries of loops, as many as the rest of the work pays for. The others are made when they
// are needed: a tree of names has wide states by the dozen, and a text meets few of them.
static void summarize(struct constraint *c, struct budget *budget) {
    const struct machine *m = &c->machine;
    for (uint32_t state = 1; state < m->n_state && budget->work < budget->work_max; state++) {
        if (!is_loop(m, state)) continue;
        uint64_t visited = 0;
        struct share *share = c->share[m->rule_of[state]];
        if (summary_is_wide(c->vocab, m, share, state, &visited))
            summary_release(summary_acquire(c->vocab, m, share, state, &visited));
        budget->work += visited;
    }
}

// A constraint that no text can start with is refused here, and not by its requests.
static rn_status check_start(struct constraint *c, rn_error *err) {
    struct matcher m;
    const rn_status status = matcher_init(&m, c->vocab, &c->machine, c->share, &c->cache, err);
    if (!status) matcher_deinit(&m);
    return status;
}

// Shares hash the rows of their rules, compare them and copy them.
static bool pay_shares(struct grammar *g, const struct machine *machine) {
    const size_t bytes = shares_bytes(machine);
    if (bytes <= g->budget.bytes_max - g->budget.bytes) return grammar_work(g, bytes / 8);
    grammar_fail(g, RN_ERR_ARG, "the constraint is too large: it needs more than %zu bytes",
                 g->budget.bytes_max);
    return false;
}

static rn_status fill(struct constraint *c, struct grammar *g) {
    rn_status status = machine_init(&c->machine, g);
    if (status) return status;
    if (!pay_shares(g, &c->machine)) return g->status;
    c->share = calloc(c->machine.n_rule, sizeof *c->share);
    for (uint32_t i = 0; c->share && i < c->machine.n_rule; i++) {
        c->share[i] = share_acquire(c->vocab, &c->machine, i);
        if (!c->share[i]) return err_set(g->err, RN_ERR_NOMEM, "out of memory for a constraint");
    }
    c->has_cache = mask_cache_init(&c->cache, c->vocab->n_words);
    if (!c->share || !c->has_cache)
        return err_set(g->err, RN_ERR_NOMEM, "out of memory for a constraint");
    status = check_start(c, g->err);
    if (status) return status;
    summarize(c, &g->budget);
    c->work = g->budget.work;
    c->bytes = machine_bytes(&c->machine);
    return RN_OK;
}

static rn_status compile(struct constraint_vocab *vocab, enum constraint_kind kind,
                         const char *text, size_t len, const struct constraint_limits *limits,
                         struct constraint **out, rn_error *err) {
    struct constraint *c = calloc(1, sizeof *c);
    if (!c) return err_set(err, RN_ERR_NOMEM, "out of memory for a constraint");
    c->refs = 1;
    c->vocab = vocab;
    vocab->refs++;
    struct grammar g;
    grammar_init(&g, limits->work, limits->bytes, err);
    g.vocab = vocab;
    read_source(&g, kind, text, len);
    const rn_status status = g.status ? g.status : fill(c, &g);
    grammar_deinit(&g);
    if (status) {
        constraint_destroy(c);
        return status;
    }
    *out = c;
    return RN_OK;
}

rn_status constraint_compile(struct constraint_vocab *vocab, enum constraint_kind kind,
                             const char *text, size_t len, const struct constraint_limits *limits,
                             struct constraint **out, rn_error *err) {
    struct constraint_limits l = limits ? *limits : constraint_limits_default;
    if (!l.source_bytes) l.source_bytes = constraint_limits_default.source_bytes;
    if (!l.work) l.work = constraint_limits_default.work;
    if (!l.bytes) l.bytes = constraint_limits_default.bytes;
    *out = NULL;
    if (len > l.source_bytes)
        return err_set(err, RN_ERR_ARG, "a constraint of %zu bytes, expected at most %zu", len,
                       l.source_bytes);
    if (kind == CONSTRAINT_OBJECT) len = 0;
    *out = constraint_find(vocab, kind, text, len);
    if (*out) return RN_OK;
    const rn_status status = compile(vocab, kind, text, len, &l, out, err);
    if (!status) kept_add(vocab, *out, kind, text, len);
    return status;
}

struct constraint *constraint_acquire(struct constraint *constraint) {
    constraint->refs++;
    return constraint;
}

void constraint_release(struct constraint *constraint) {
    if (constraint && atomic_fetch_sub(&constraint->refs, 1) == 1) constraint_destroy(constraint);
}

struct constraint_size constraint_size(const struct constraint *c) {
    return (struct constraint_size){c->machine.n_rule, c->machine.n_state, c->work, c->bytes};
}

// --- runs ---

struct constraint_run {
    struct constraint *constraint;
    int n_choices;
    struct matcher choice[];
};

rn_status constraint_open(struct constraint *constraint, int n_choices, struct constraint_run **out,
                          rn_error *err) {
    *out = NULL;
    if (n_choices < 1 || n_choices > RN_MAX_CHOICES)
        return err_set(err, RN_ERR_ARG, "a constraint for %d choices", n_choices);
    struct constraint_run *run = calloc(1, sizeof *run + (size_t)n_choices * sizeof run->choice[0]);
    if (!run) return err_set(err, RN_ERR_NOMEM, "out of memory for a constraint");
    run->constraint = constraint_acquire(constraint);
    for (; run->n_choices < n_choices; run->n_choices++) {
        const rn_status status =
            matcher_init(&run->choice[run->n_choices], constraint->vocab, &constraint->machine,
                         constraint->share, &constraint->cache, err);
        if (!status) continue;
        constraint_close(run);
        return status;
    }
    *out = run;
    return RN_OK;
}

void constraint_close(struct constraint_run *run) {
    if (!run) return;
    for (int i = 0; i < run->n_choices; i++) matcher_deinit(&run->choice[i]);
    constraint_release(run->constraint);
    free(run);
}

static struct matcher *choice_at(void *ctx, int choice) {
    struct constraint_run *run = ctx;
    assert(choice >= 0 && choice < run->n_choices);
    return &run->choice[choice];
}

static void hook_mask(void *ctx, int choice, uint64_t *allowed, int n_vocab) {
    matcher_mask(choice_at(ctx, choice), allowed, n_vocab);
}

static void hook_advance(void *ctx, int choice, int32_t token) {
    struct matcher *m = choice_at(ctx, choice);
    assert(token >= 0 && token < m->vocab->n_vocab);
    matcher_token(m, token);
}

static void hook_rollback(void *ctx, int choice, int n_tokens) {
    matcher_rollback(choice_at(ctx, choice), (uint32_t)n_tokens);
}

rn_constraint constraint_hook(struct constraint_run *run) {
    return (rn_constraint){.ctx = run,
                           .mask = hook_mask,
                           .advance = hook_advance,
                           .rollback = hook_rollback};
}

bool constraint_may_end(struct constraint_run *run, int choice) {
    const struct matcher *m = choice_at(run, choice);
    return !m->failure && matcher_can_end(m, matcher_set(m));
}

size_t constraint_forced(struct constraint_run *run, int choice, char *out, size_t size,
                         uint64_t units) {
    return matcher_forced(choice_at(run, choice), out, size, units);
}

bool constraint_prepare(struct constraint_run *run, int choice, uint64_t units) {
    return matcher_prepare(choice_at(run, choice), units);
}

uint64_t constraint_slice(const struct constraint_run *run) {
    return matcher_slice(&run->choice[0]);
}

uint64_t constraint_spent(const struct constraint_run *run, int choice) {
    assert(choice >= 0 && choice < run->n_choices);
    return run->choice[choice].spent;
}

const char *constraint_failure(const struct constraint_run *run, int choice) {
    assert(choice >= 0 && choice < run->n_choices);
    return run->choice[choice].failure;
}

rn_status constraint_status(const struct constraint_run *run, int choice) {
    const char *failure = constraint_failure(run, choice);
    if (!failure) return RN_OK;
    return failure == matcher_out_of_memory ? RN_ERR_NOMEM : RN_ERR_AMBIGUOUS;
}

bool constraint_feed(struct constraint_run *run, int choice, const void *bytes, size_t len) {
    return matcher_feed(choice_at(run, choice), bytes, len);
}

bool constraint_take(struct constraint_run *run, int choice, int32_t token) {
    hook_advance(run, choice, token);
    return matcher_set(choice_at(run, choice)) != 0;
}

void constraint_restart(struct constraint_run *run, int choice) {
    matcher_restart(choice_at(run, choice));
}
