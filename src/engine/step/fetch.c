// Prompts take pages from the page store. A sequence that finds more of its prompt there than in
// memory gets pages for it and waits, while the store's reader fills them and other sequences run.
// It does so only where reading is expected to be faster than computing: by the last reads of the
// store, and the prices of this engine's steps. Called by schedule.c.
//
// The store writes pages beside steps, in no order with them. A step in flight may still read a
// page that was given up meanwhile, so the store is asked when the steps have landed that were in
// flight as the pages were taken.
#include <stdio.h>
#include <string.h>

#include "engine/step/engine.h"

// Of a sequence: a file that fails is not found again, and a shorter prefix is left.
enum { MAX_FETCHES = 3 };

// ---------------------------------------------------------------- prices

// The time of computing n positions from `first` on as a prompt; 0: nothing was measured yet.
static uint64_t compute_ns(const struct engine *engine, int first, int n) {
    const int chunk = engine->batch_tokens;
    double ns = 0;
    for (int at = 0; at < n; at += chunk) {
        struct batch_shape shape = {0};
        const int some = n - at < chunk ? n - at : chunk;
        batch_shape_add(engine->plan, &shape, first + at, chunk, 0); // others fill the step
        ns += price_of_exact(&engine->price, &shape) * some / chunk;
    }
    return (uint64_t)ns;
}

static uint64_t page_cost(void *ctx, int first, int n) { return compute_ns(ctx, first, n); }

// ---------------------------------------------------------------- the store

// All that determines the bytes of pages, beside the model's files.
static void identity_of(const struct engine *engine, char *out, size_t size) {
    char backend[BACKEND_IDENTITY] = "";
    engine->backend->cls->page_identity(engine->backend, backend);
    size_t n =
        (size_t)snprintf(out, size, "%s; kv %s; states %s; page %d", backend, engine->place.kv_type,
                         engine->place.bf16_states ? "bf16" : "f32", KV_PAGE_TOKENS);
    for (int g = 0; g < engine->plan->n_group && n < size; g++) {
        const struct plan_kv_group *group = &engine->plan->group[g];
        n += (size_t)snprintf(out + n, size - n, "; group %d %d %llu", (int)group->kind,
                              group->window, (unsigned long long)engine->kv_bytes.page[g]);
    }
}

rn_status engine_store_create(struct engine *engine, const struct engine_store *config,
                              rn_error *err) {
    char identity[BACKEND_IDENTITY + 512];
    if (engine->kv_config.no_prefix)
        return err_set(err, RN_ERR_ARG, "a page store needs the prefix cache, which is off");
    if (!engine->backend->cls->page_read)
        return err_set(err, RN_ERR_UNSUPPORTED, "the backend %s has no page store",
                       engine->backend->cls->name);
    identity_of(engine, identity, sizeof identity);
    engine->store_always = config->always;
    struct page_store_config c = {.path = config->path,
                                  .max_bytes =
                                      config->bytes ? config->bytes : RN_DEFAULT_STORE_BYTES,
                                  .memory_bytes = config->memory_bytes,
                                  .backend = engine->backend,
                                  .n_group = engine->plan->n_group,
                                  .weights = config->weights,
                                  .identity = identity,
                                  .max_blocks = engine->n_ctx / KV_PAGE_TOKENS + 1,
                                  .note = config->note,
                                  .note_ctx = config->note_ctx,
                                  .io = config->io};
    memcpy(c.page_bytes, engine->kv_bytes.page, sizeof c.page_bytes[0] * (size_t)c.n_group);
    const rn_status status = page_store_create(&c, &engine->store, err);
    if (status) return status;
    return kv_set_store(
        engine->kv, &(struct kv_store){.pages = engine->store, .cost = page_cost, .ctx = engine},
        err);
}

int engine_stored(struct engine *engine, const struct seq *seq) {
    if (!engine->store) return 0;
    page_store_look_often(engine->store); // another server may evaluate the prompt now
    return kv_count_stored(engine->kv, &seq->table, seq->token, seq->n_token);
}

// ---------------------------------------------------------------- fetches

static void end_fetch(struct engine *engine, struct seq *seq) {
    page_fetch_leave(engine->store, seq->fetch);
    engine_charge_until(engine, seq, engine->event_ns, &seq->account);
    seq->fetch = NULL;
    engine->n_fetching--;
}

bool engine_fetch_leave(struct engine *engine, struct seq *seq) {
    if (!seq->fetch) return false;
    end_fetch(engine, seq);
    kv_release(engine->kv, &seq->table);
    return true;
}

bool engine_fetch_lands(struct engine *engine, struct seq *seq) {
    const int state = atomic_load_explicit(&seq->fetch->state, memory_order_acquire);
    if (state == FETCH_FREE && engine->n_landed >= seq->fetch_after)
        page_fetch_ask(engine->store, seq->fetch);
    if (state == FETCH_FREE || state == FETCH_ASKED) return false;
    if (state != FETCH_DONE) {
        if (state == FETCH_REFUSED) seq->n_fetches = MAX_FETCHES;
        engine_fetch_leave(engine, seq);
        engine_table_begin(engine, seq);
        return true;
    }
    end_fetch(engine, seq);
    kv_take_stored(engine->kv, &seq->table, seq->token, seq->fetch_positions);
    const int n = seq->fetch_positions - seq->n_done;
    if (seq->timings.preemptions == 0) {
        seq->timings.cached_tokens += n;
        seq->timings.stored_tokens += n;
        engine->stats.cached_tokens += (uint64_t)n;
    }
    seq->n_done = seq->fetch_positions;
    engine_changed(engine, CHANGE_PROMPT);
    return true;
}

// Fills a fetch; false: the store has nothing, or computing is faster, or pages are short.
static bool fetch_fill(struct engine *engine, struct seq *seq, struct page_fetch *fetch) {
    double read_ns;
    const int n =
        kv_find_stored(engine->kv, &seq->table, seq->token, seq->n_token, fetch, &read_ns);
    if (n <= seq->n_done) {
        page_store_missed(engine->store);
        return false;
    }
    const uint64_t ns = compute_ns(engine, seq->n_done, n - seq->n_done);
    fetch->is_priced = ns > 0 || engine->store_always;
    if (fetch->is_priced && !engine->store_always && read_ns >= (double)ns) {
        page_store_refused(engine->store);
        return false;
    }
    seq->fetch_positions = n;
    return kv_expect_stored(engine->kv, &seq->table, n, fetch);
}

bool engine_fetch_begin(struct engine *engine, struct seq *seq) {
    if (!engine->store || seq->n_fetches >= MAX_FETCHES || engine_wants_rows(seq)) return false;
    if (seq->table.n_flight > 0 || seq->n_done != (int)seq->table.n_node * KV_PAGE_TOKENS)
        return false;
    if (!page_store_is_ready(engine->store)) return false;
    struct page_fetch *fetch = page_fetch_take(engine->store);
    if (!fetch) return engine->n_fetching > 0;
    seq->n_fetches++;
    if (!fetch_fill(engine, seq, fetch)) {
        seq->n_fetches = MAX_FETCHES;
        page_fetch_leave(engine->store, fetch);
        return false;
    }
    engine_charge_until(engine, seq, engine->event_ns, &seq->account);
    seq->fetch = fetch;
    seq->fetch_after = engine->n_flown;
    engine->n_fetching++;
    engine_fetch_lands(engine, seq); // asks, if no step is in flight
    return true;
}
