// The tables of a record's members, and the writer. Times are whole nanoseconds, so that the parts
// of a sum still add up after reading; rn_timings stays in milliseconds.
#include "record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "record/fields.h"
#include "record/words.h"

// ---------------------------------------------------------------- derived members

static void put_lines(struct jbuf *out, const char *text, size_t len) {
    jbuf_text(out, "[");
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        const size_t n = end ? (size_t)(end - text) - at : len - at;
        if (at) jbuf_text(out, ",");
        jbuf_string(out, text + at, n);
        at += n + 1;
    }
    jbuf_text(out, "]");
}

static void derive_lines(struct jbuf *out, const struct record *record, const void *item,
                         void (*write)(struct jbuf *, const struct record *,
                                       const struct record_choice *)) {
    struct jbuf lines = {0};
    write(&lines, record, item);
    put_lines(out, lines.data, lines.len);
    out->failed |= lines.failed;
    jbuf_deinit(&lines);
}

static void derive_text(struct jbuf *out, const struct record *record, const void *item) {
    derive_lines(out, record, item, words_write);
}

static void derive_advice(struct jbuf *out, const struct record *record, const void *item) {
    derive_lines(out, record, item, words_advise);
}

static void derive_kv_bytes(struct jbuf *out, const struct record *record, const void *item) {
    jbuf_uint(out, record_kv_bytes(record, item));
}

static void derive_state(struct jbuf *out, const struct record *record, const void *item) {
    const struct record_choice *choice = item;
    (void)record;
    jbuf_cstring(out, choice->finish == RN_FINISH_NONE ? "running" : "finished");
}

static void derive_x_request_id(struct jbuf *out, const struct record *record, const void *item) {
    (void)item;
    jbuf_cstring(out, *record->x_request_id ? record->x_request_id : NULL);
}

// ---------------------------------------------------------------- tables

#define ROW(type, kind, member)                                                                    \
    { #member, FIELD_##kind, offsetof(type, member), sizeof(((type *)0)->member), NULL, NULL }
#define PART(type, member, table)                                                                  \
    { #member, FIELD_STRUCT, offsetof(type, member), sizeof(((type *)0)->member), &(table), NULL }
#define ITEMS(type, kind, name, member, table)                                                     \
    { name, FIELD_##kind, offsetof(type, member), sizeof(((type *)0)->member), table, NULL }
#define DERIVED(name, derive)                                                                      \
    { name, FIELD_DERIVED, 0, 0, NULL, derive }
#define FIELDS(rows)                                                                               \
    { rows, sizeof(rows) / sizeof(*(rows)) }

static const struct field timings_rows[] = {
    ROW(rn_timings, INT, prompt_tokens),   ROW(rn_timings, INT, output_tokens),
    ROW(rn_timings, INT, cached_tokens),   ROW(rn_timings, INT, preemptions),
    ROW(rn_timings, REAL, queue_ms),       ROW(rn_timings, REAL, prompt_ms),
    ROW(rn_timings, REAL, ttft_ms),        ROW(rn_timings, REAL, decode_ms),
    ROW(rn_timings, REAL, gap_ms_max),     ROW(rn_timings, COUNT, decode_bytes),
    ROW(rn_timings, COUNT, decode_steps),  ROW(rn_timings, INT, draft_tokens),
    ROW(rn_timings, INT, accepted_tokens), ROW(rn_timings, INT, draft_steps),
    ROW(rn_timings, REAL, undrafted_ms),
};
static const struct fields timings_fields = FIELDS(timings_rows);

static const struct field share_rows[] = {
    ROW(rn_share, COUNT, ns),
    ITEMS(rn_share, CAUSES, "causes_ns", cause_ns, NULL),
    ROW(rn_share, COUNT, steps),
    ROW(rn_share, INT, streams),
    ROW(rn_share, COUNT, prompt_request),
    ROW(rn_share, INT, prompt_tokens),
    ROW(rn_share, COUNT, pages_request),
    ROW(rn_share, COUNT, preempt_request),
};
static const struct fields share_fields = FIELDS(share_rows);

static const struct field work_rows[] = {
    ROW(rn_work, COUNT, steps), ROW(rn_work, COUNT, tokens), ROW(rn_work, COUNT, bytes),
    ROW(rn_work, COUNT, flops), ROW(rn_work, COUNT, run_ns),
};
static const struct fields work_fields = FIELDS(work_rows);

static const struct field gap_rows[] = {
    ROW(rn_slow_gap, INT, token),
    ROW(rn_slow_gap, COUNT, end_ns),
    PART(rn_slow_gap, share, share_fields),
};
const struct fields gap_fields = FIELDS(gap_rows);

static const struct field account_rows[] = {
    ROW(rn_account, COUNT, submit_ns),
    ROW(rn_account, COUNT, start_ns),
    ROW(rn_account, COUNT, first_ns),
    ROW(rn_account, COUNT, last_ns),
    ROW(rn_account, COUNT, end_ns),
    PART(rn_account, first, share_fields),
    PART(rn_account, decode, share_fields),
    PART(rn_account, rest, share_fields),
    PART(rn_account, prompt_work, work_fields),
    PART(rn_account, decode_work, work_fields),
    ITEMS(rn_account, GAPS, "slowest", slow, &gap_fields),
    ITEMS(rn_account, SPANS, "spans", span, NULL),
};
static const struct fields account_fields = FIELDS(account_rows);

static const struct field choice_rows[] = {
    ROW(struct record_choice, INT, index),
    DERIVED("state", derive_state),
    ROW(struct record_choice, FINISH, finish),
    DERIVED("text", derive_text),
    DERIVED("advice", derive_advice),
    DERIVED("kv_bytes", derive_kv_bytes),
    PART(struct record_choice, timings, timings_fields),
    PART(struct record_choice, account, account_fields),
};
const struct fields choice_fields = FIELDS(choice_rows);

static const struct field engine_rows[] = {
    ROW(struct record_engine, TEXT, backend),
    ROW(struct record_engine, TEXT, isa),
    ROW(struct record_engine, TEXT, kv_type),
    ROW(struct record_engine, INT, n_threads),
    ROW(struct record_engine, INT, n_ctx),
    ROW(struct record_engine, INT, max_seqs),
    ROW(struct record_engine, INT, batch_tokens),
    ROW(struct record_engine, REAL, itl_ms),
    ROW(struct record_engine, INT, draft_max),
    ROW(struct record_engine, COUNT, weight_bytes),
    ROW(struct record_engine, COUNT, kv_token_bytes),
    ROW(struct record_engine, COUNT, kv_bytes),
};
static const struct fields engine_fields = FIELDS(engine_rows);

static const struct field machine_rows[] = {
    ROW(struct record_machine, REAL, bandwidth),
    ROW(struct record_machine, REAL, peak),
};
static const struct fields machine_fields = FIELDS(machine_rows);

static const struct field record_rows[] = {
    ROW(struct record, TEXT, id),
    DERIVED("x_request_id", derive_x_request_id),
    ROW(struct record, COUNT, request),
    ROW(struct record, TEXT, model),
    ROW(struct record, SECONDS, time_s),
    PART(struct record, engine, engine_fields),
    PART(struct record, machine, machine_fields),
    ROW(struct record, INT, n),
    ITEMS(struct record, CHOICES, "choices", choice, &choice_fields),
};
const struct fields record_fields = FIELDS(record_rows);

// ---------------------------------------------------------------- the writer

static void put_fields(struct jbuf *out, const struct record *record, const struct fields *fields,
                       const void *item);

static void put_causes(struct jbuf *out, const uint64_t *ns) {
    jbuf_text(out, "{");
    for (int i = 0; i < RN_CAUSE_COUNT; i++)
        if (ns[i]) jbuf_put_uint(out, rn_cause_name((rn_cause)i), ns[i]);
    jbuf_text(out, "}");
}

static void put_gaps(struct jbuf *out, const struct record *record, const rn_account *account) {
    jbuf_text(out, "[");
    for (int i = 0; i < account->n_slow; i++) {
        if (i) jbuf_text(out, ",");
        put_fields(out, record, &gap_fields, &account->slow[i]);
    }
    jbuf_text(out, "]");
}

// [end_ns, ns, max_ns, tokens, cause]
static void put_spans(struct jbuf *out, const rn_account *account) {
    jbuf_text(out, "[");
    for (int i = 0; i < account->n_spans; i++) {
        const rn_span *span = &account->span[i];
        jbuf_printf(out, "%s[%llu,%llu,%llu,%u,\"%s\"]", i ? "," : "",
                    (unsigned long long)span->end_ns, (unsigned long long)span->ns,
                    (unsigned long long)span->max_ns, span->n_tokens,
                    rn_cause_name((rn_cause)span->cause));
    }
    jbuf_text(out, "]");
}

static void put_choices(struct jbuf *out, const struct record *record) {
    jbuf_text(out, "[");
    for (int i = 0; i < record->n_choices; i++) {
        if (i) jbuf_text(out, ",");
        put_fields(out, record, &choice_fields, &record->choice[i]);
    }
    jbuf_text(out, "]");
}

// %.17g reads back as the same number.
static void put_exact(struct jbuf *out, double value) { jbuf_printf(out, "%.17g", value); }

static void put_field(struct jbuf *out, const struct record *record, const struct field *field,
                      const void *item) {
    const void *at = (const char *)item + field->offset;
    switch (field->kind) {
    case FIELD_INT:
        jbuf_int(out, *(const int *)at);
        break;
    case FIELD_COUNT:
        jbuf_uint(out, *(const uint64_t *)at);
        break;
    case FIELD_SECONDS:
        jbuf_int(out, *(const int64_t *)at);
        break;
    case FIELD_REAL:
        put_exact(out, *(const double *)at);
        break;
    case FIELD_TEXT:
        jbuf_cstring(out, at);
        break;
    case FIELD_FINISH: {
        const rn_finish finish = *(const rn_finish *)at;
        jbuf_cstring(out, finish == RN_FINISH_NONE ? NULL : rn_finish_text(finish));
        break;
    }
    case FIELD_CAUSES:
        put_causes(out, at);
        break;
    case FIELD_STRUCT:
        put_fields(out, record, field->fields, at);
        break;
    case FIELD_GAPS:
        put_gaps(out, record, item);
        break;
    case FIELD_SPANS:
        put_spans(out, item);
        break;
    case FIELD_CHOICES:
        put_choices(out, record);
        break;
    case FIELD_DERIVED:
        field->derive(out, record, item);
        break;
    }
}

static void put_fields(struct jbuf *out, const struct record *record, const struct fields *fields,
                       const void *item) {
    jbuf_text(out, "{");
    for (int i = 0; i < fields->n; i++) {
        jbuf_key(out, fields->row[i].name);
        put_field(out, record, &fields->row[i], item);
    }
    jbuf_text(out, "}");
}

void record_write(struct jbuf *out, const struct record *record) {
    jbuf_printf(out, "{\"schema\":\"" RECORD_SCHEMA "\",\"version\":%d", RECORD_VERSION);
    for (int i = 0; i < record_fields.n; i++) {
        jbuf_key(out, record_fields.row[i].name);
        put_field(out, record, &record_fields.row[i], record);
    }
    jbuf_text(out, "}");
}

// ---------------------------------------------------------------- the record itself

static void copy_text(char *out, size_t size, const char *text) {
    snprintf(out, size, "%s", text ? text : "");
}

void record_init(struct record *record, const char *id, uint64_t request, const char *model,
                 const rn_engine_info *info, double bandwidth, double peak) {
    *record = (struct record){.request = request,
                              .time_s = (int64_t)time(NULL),
                              .engine = {.n_threads = info->n_threads,
                                         .n_ctx = info->n_ctx,
                                         .max_seqs = info->max_seqs,
                                         .batch_tokens = info->batch_tokens,
                                         .itl_ms = info->itl_ms,
                                         .draft_max = *info->drafters ? info->draft_max : 0,
                                         .weight_bytes = info->weight_bytes,
                                         .kv_token_bytes = info->kv_token_bytes,
                                         .kv_bytes = info->kv_bytes},
                              .machine = {.bandwidth = bandwidth, .peak = peak}};
    copy_text(record->id, sizeof record->id, id);
    copy_text(record->model, sizeof record->model, model);
    copy_text(record->engine.backend, sizeof record->engine.backend, info->backend);
    copy_text(record->engine.isa, sizeof record->engine.isa, info->isa);
    copy_text(record->engine.kv_type, sizeof record->engine.kv_type, info->kv_type);
}

void record_running(struct record_choice *choice, uint64_t now_ns) {
    const rn_account *account = &choice->account;
    rn_timings *timings = &choice->timings;
    if (account->start_ns > account->submit_ns)
        timings->queue_ms = (double)(account->start_ns - account->submit_ns) * 1e-6;
    if (account->first_ns) {
        timings->ttft_ms = (double)(account->first_ns - account->submit_ns) * 1e-6;
        timings->decode_ms = (double)(account->last_ns - account->first_ns) * 1e-6;
    } else if (account->start_ns && now_ns > account->start_ns) {
        timings->prompt_ms = (double)(now_ns - account->start_ns) * 1e-6;
    }
    if (account->n_slow) timings->gap_ms_max = (double)account->slow[0].share.ns * 1e-6;
}

uint64_t record_kv_bytes(const struct record *record, const struct record_choice *choice) {
    const uint64_t tokens =
        (uint64_t)choice->timings.prompt_tokens + (uint64_t)choice->timings.output_tokens;
    const uint64_t pages = (tokens + RN_PAGE_TOKENS - 1) / RN_PAGE_TOKENS;
    return pages * RN_PAGE_TOKENS * record->engine.kv_token_bytes;
}

void record_free(struct record *record) {
    free(record->choice);
    record->choice = NULL;
    record->n_choices = 0;
}
