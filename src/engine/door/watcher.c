// See watcher.h. New watchers are pushed onto the driver's list while its thread may walk along it;
// they leave it only while no thread runs.
#include "engine/door/watcher.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/door/driver.h"

rn_status watcher_init(struct watcher *watcher, struct driver *driver, rn_error *err) {
    const struct engine *engine = driver->engine;
    const size_t n_pages = kv_view_pages(engine->kv);
    *watcher = (struct watcher){.driver = driver};
    watcher->stream = calloc((size_t)engine->max_live, sizeof *watcher->stream);
    watcher->page = calloc(n_pages, sizeof *watcher->page);
    if (!watcher->stream || !watcher->page) {
        free(watcher->stream);
        free(watcher->page);
        return err_set(err, RN_ERR_NOMEM, "no memory for a picture of %d streams and %zu pages",
                       engine->max_live, n_pages);
    }
    kv_view_init(engine->kv, watcher->page);
    watcher->view = (rn_view){.stream = watcher->stream, .page = watcher->page, .n_pages = n_pages};
    watcher->next = atomic_load(&driver->watchers);
    while (!atomic_compare_exchange_weak(&driver->watchers, &watcher->next, watcher)) continue;
    return RN_OK;
}

void watcher_deinit(struct watcher *watcher) {
    struct driver *driver = watcher->driver;
    assert(!driver_is_running(driver));
    pthread_mutex_lock(&driver->life); // in STOPPED the reader may step
    struct watcher *before = watcher;
    if (!atomic_compare_exchange_strong(&driver->watchers, &before, watcher->next)) {
        while (before->next != watcher) before = before->next;
        before->next = watcher->next;
    }
    pthread_mutex_unlock(&driver->life);
    free(watcher->stream);
    free(watcher->page);
}

void watcher_ask(struct watcher *watcher) {
    if (atomic_load(&watcher->state) == WATCHER_ASKED) return;
    atomic_store(&watcher->state, WATCHER_ASKED);
    bell_ring(&watcher->driver->bell);
}

void watcher_follow(struct watcher *watcher, uint64_t request) {
    atomic_store(&watcher->followed, request);
}

const rn_view *watcher_view(struct watcher *watcher) {
    return atomic_load(&watcher->state) == WATCHER_TAKEN ? &watcher->view : NULL;
}

// ---------------------------------------------------------------- the step's thread

static rn_stream_state state_of(const struct seq *seq) {
    if (seq->is_paused) return RN_STREAM_PAUSED;
    if (seq->state == SEQ_WAITING) return RN_STREAM_WAITING;
    // by landed steps: the rows in flight of a stream may be its last known ones
    const bool decodes =
        seq->n_token > seq->n_prompt && seq->n_token - seq->n_done == 1 + seq->n_again;
    return decodes ? RN_STREAM_DECODE : RN_STREAM_PROMPT;
}

static void add_stream(struct watcher *watcher, const struct seq *seq, const struct kv_config *kv) {
    uint32_t pages = 0;
    for (int g = 0; g < kv->n_group; g++) {
        pages += kv_table_pages(kv, &seq->table, g);
        pages += seq->table.marked && seq->table.mark_page[g] != KV_NO_PAGE;
        pages += seq->table.marked && seq->table.snapshot[g] != KV_NO_PAGE;
    }
    watcher->stream[watcher->view.n_streams++] =
        (rn_stream_view){.request = seq->id,
                         .data = seq->data,
                         .choice = seq->choices.index,
                         .state = state_of(seq),
                         .priority = seq->priority,
                         .prompt_tokens = seq->n_prompt,
                         .cached_tokens = seq->timings.cached_tokens,
                         .done_tokens = seq->n_done,
                         .output_tokens = seq->n_token - seq->n_prompt,
                         .draft_tokens = seq->timings.draft_tokens,
                         .accepted_tokens = seq->timings.accepted_tokens,
                         .pages = pages};
}

// The account as it is now: the time since the last token is its rest.
static void copy_account(struct watcher *watcher, const struct engine *engine,
                         const struct seq *seq) {
    if (seq->choices.index > 0) return;
    struct account copy = seq->account;
    if (seq->state == SEQ_WAITING) engine_charge_until(engine, seq, engine_now(engine), &copy);
    account_end(&copy);
    watcher->account = copy.sum;
    watcher->account.end_ns = 0;
    watcher->view.account = &watcher->account;
}

static void take(struct watcher *watcher, const struct engine *engine) {
    const uint64_t followed = atomic_load(&watcher->followed);
    watcher->view.account = NULL;
    watcher->view.account_request = followed;
    const struct kv_config *kv = &engine->kv_config;
    assert(engine->n_running + engine->n_waiting <= engine->max_live);
    watcher->view.n_streams = 0;
    kv_view_states(engine->kv, watcher->page);
    for (int i = 0; i < engine->n_running; i++) {
        const struct seq *seq = engine->running[i];
        add_stream(watcher, seq, kv);
        if (seq->id == followed) copy_account(watcher, engine, seq);
        kv_view_table(engine->kv, &seq->table, seq->id, watcher->page);
    }
    for (const struct seq *seq = engine->leaving; seq; seq = seq->next)
        kv_view_table(engine->kv, &seq->table, seq->id, watcher->page);
    for (int i = 0; i < engine->n_waiting; i++) {
        const struct seq *seq = engine->waiting[i].seq;
        add_stream(watcher, seq, kv);
        if (seq->id == followed) copy_account(watcher, engine, seq);
    }
    watcher->stats = engine->stats;
    watcher->view.stats = &watcher->stats;
    watcher->view.time_ns = engine_now(engine);
}

void watcher_take_all(struct driver *driver) {
    for (struct watcher *w = atomic_load(&driver->watchers); w; w = w->next) {
        if (atomic_load(&w->state) != WATCHER_ASKED) continue;
        take(w, driver->engine);
        atomic_store(&w->state, WATCHER_TAKEN);
    }
}
