// Counters over all engines that a model has had: a counter never goes back when a model is
// unloaded. Figures of the present moment are the living engine's alone.
#include "served.h"

static void add(uint64_t *sum, const uint64_t *more, int n) {
    for (int i = 0; i < n; i++) sum[i] += more[i];
}

static void drafts_add(rn_engine_stats *sum, const rn_engine_stats *more) {
    for (int i = 0; i < RN_DRAFTER_COUNT; i++) {
        sum->draft[i].drafts += more->draft[i].drafts;
        sum->draft[i].tokens += more->draft[i].tokens;
        sum->draft[i].accepted += more->draft[i].accepted;
    }
    add(sum->accepted_at, more->accepted_at, RN_MAX_DRAFT);
}

static void lists_add(rn_engine_stats *sum, const rn_engine_stats *more) {
    add(sum->steps_of, more->steps_of, RN_STEP_SIZES);
    add(sum->cause_ns, more->cause_ns, RN_CAUSE_COUNT);
    add(sum->first_ns, more->first_ns, RN_CAUSE_COUNT);
    add(sum->ops_ns, more->ops_ns, RN_OPS_COUNT);
    add(sum->ops_bytes, more->ops_bytes, RN_OPS_COUNT);
    for (int i = 0; i < RN_OPS_COUNT; i++) sum->ops_flops[i] += more->ops_flops[i];
    drafts_add(sum, more);
}

static void counters_add(rn_engine_stats *sum, const rn_engine_stats *more) {
#define ADD(field) sum->field += more->field
    ADD(steps);
    ADD(step_tokens);
    ADD(submitted);
    ADD(stopped);
    ADD(lengthy);
    ADD(cancelled);
    ADD(failed);
    ADD(preemptions);
    ADD(prompt_tokens);
    ADD(cached_tokens);
    ADD(computed_tokens);
    ADD(output_tokens);
    ADD(lookups);
    ADD(hits);
    ADD(evictions);
    ADD(state_evictions);
    ADD(schedule_ns);
    ADD(draft_ns);
    ADD(batch_ns);
    ADD(run_ns);
    ADD(sample_ns);
    ADD(publish_ns);
    ADD(idle_ns);
    ADD(late_steps);
    ADD(weight_bytes);
    ADD(kv_bytes);
    ADD(stream_ns);
    ADD(undrafted_ns);
#undef ADD
    lists_add(sum, more);
}

void served_stats(const struct served *served, rn_engine_stats *out) {
    *out = (rn_engine_stats){0};
    if (served->engine) rn_engine_get_stats(served->engine, out);
    counters_add(out, &served->past);
}

static void store_add(rn_store_stats *sum, const rn_store_stats *more) {
#define ADD(field) sum->field += more->field
    ADD(hits);
    ADD(misses);
    ADD(refused);
    ADD(read_bytes);
    ADD(written);
    ADD(written_bytes);
    ADD(evictions);
    ADD(dropped);
    ADD(removed);
    ADD(errors);
#undef ADD
}

bool served_store_stats(const struct served *served, rn_store_stats *out) {
    *out = (rn_store_stats){0};
    const bool has_store = served->engine && rn_engine_get_store_stats(served->engine, out);
    store_add(out, &served->past_store);
    return has_store;
}

void served_stats_keep(struct served *served) {
    rn_engine_stats stats;
    rn_store_stats store;
    rn_engine_get_stats(served->engine, &stats);
    counters_add(&served->past, &stats);
    if (rn_engine_get_store_stats(served->engine, &store)) store_add(&served->past_store, &store);
}
