// `runnel plan --replay`: the requests of a trace through the simulated queue. A line of the trace
// is an object with timestamp (ms), input_length, output_length and, where prompts have common
// starts, hash_ids: one for each 512 tokens of the prompt. Bad lines are refused by number.
#include <stdlib.h>
#include <string.h>

#include "plan/outline.h"
#include "plan/queue.h"

enum { MAX_REQUESTS = 1 << 20, MAX_TOKENS = 1 << 26 };

struct replay_trace {
    struct queue_request *request; // [n]
    int n, cap;
    int n_long; // left out: longer than the model's context
};

void replay_close(struct replay_trace *trace) {
    for (int i = 0; trace && i < trace->n; i++) free((void *)(uintptr_t)trace->request[i].block);
    if (trace) free(trace->request);
    free(trace);
}

// ---------------------------------------------------------------- reading

static int line_fail(const char *path, int line, const char *what) {
    return app_fail(APP_USAGE, "%s: line %d: %s", err_path(path), line, what);
}

static bool count_get(const json_t *object, const char *name, int *out) {
    const json_t *value = json_object_get(object, name);
    if (!json_is_integer(value)) return false;
    const json_int_t count = json_integer_value(value);
    *out = (int)count;
    return count >= 0 && count <= MAX_TOKENS;
}

static int blocks_get(const json_t *object, struct queue_request *out) {
    const json_t *ids = json_object_get(object, "hash_ids");
    const size_t n = json_array_size(ids);
    if (ids && !json_is_array(ids)) return APP_USAGE;
    int64_t *block = calloc(n ? n : 1, sizeof *block);
    if (!block) return app_fail(APP_FAILED, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id)) {
            free(block);
            return APP_USAGE;
        }
        block[i] = (int64_t)json_integer_value(id);
    }
    out->block = block;
    out->n_block = (int)n;
    return APP_OK;
}

// The object of one line.
static int request_read(const json_t *object, const char *path, int line,
                        struct queue_request *out) {
    const json_t *time = json_object_get(object, "timestamp");
    *out = (struct queue_request){0};
    if (!json_is_object(object)) return line_fail(path, line, "is not a JSON object");
    if (!json_is_number(time) || json_number_value(time) < 0)
        return line_fail(path, line, "timestamp is not a number of ms");
    if (!count_get(object, "input_length", &out->n_prompt) || out->n_prompt < 1)
        return line_fail(path, line, "input_length is not a number of tokens from 1 on");
    if (!count_get(object, "output_length", &out->n_output))
        return line_fail(path, line, "output_length is not a number of tokens");
    if (out->n_output == 0) out->n_output = 1; // a request writes at least one
    out->arrive_ms = json_number_value(time);
    const int code = blocks_get(object, out);
    return code == APP_USAGE ? line_fail(path, line, "hash_ids is not an array of whole numbers")
                             : code;
}

static int request_add(struct replay_trace *trace, struct queue_request *request) {
    if (trace->n == trace->cap) {
        const int cap = trace->cap ? 2 * trace->cap : 256;
        struct queue_request *grown = realloc(trace->request, (size_t)cap * sizeof *grown);
        if (!grown) return app_fail(APP_FAILED, "out of memory");
        trace->request = grown;
        trace->cap = cap;
    }
    trace->request[trace->n++] = *request;
    return APP_OK;
}

static int line_read(const char *text, size_t len, const char *path, int line, int n_ctx,
                     struct replay_trace *out) {
    json_error_t problem;
    struct queue_request request = {0};
    if (strspn(text, " \t\r") >= len) return APP_OK; // an empty line
    json_t *object = json_loadb(text, len, 0, &problem);
    int code =
        object ? request_read(object, path, line, &request) : line_fail(path, line, "is not JSON");
    json_decref(object);
    const bool is_long = request.n_prompt + request.n_output > n_ctx;
    if (!code && out->n == MAX_REQUESTS) code = line_fail(path, line, "is one request too many");
    if (!code && is_long) out->n_long++;
    if (!code && !is_long) code = request_add(out, &request);
    if (code || is_long) free((void *)(uintptr_t)request.block);
    return code;
}

static int arrive_compare(const void *a, const void *b) {
    const struct queue_request *x = a, *y = b;
    return (x->arrive_ms > y->arrive_ms) - (x->arrive_ms < y->arrive_ms);
}

static int trace_read(const char *path, int n_ctx, struct replay_trace *out) {
    struct text text;
    int code = source_read(path, (size_t)1 << 30, &text), line = 1;
    if (code) return code;
    for (size_t at = 0; at < text.len && !code; line++) {
        const size_t len = strcspn(text.data + at, "\n");
        code = line_read(text.data + at, len, path, line, n_ctx, out);
        at += len + 1;
    }
    text_free(&text);
    if (!code && out->n == 0)
        code = app_fail(APP_USAGE, "%s: holds no request that fits the model's context",
                        err_path(path));
    if (code) return code;
    qsort(out->request, (size_t)out->n, sizeof *out->request, arrive_compare);
    const double first = out->request[0].arrive_ms;
    for (int i = 0; i < out->n; i++) out->request[i].arrive_ms -= first;
    return APP_OK;
}

// ---------------------------------------------------------------- showing

struct quantiles {
    double p50, p90, p99;
};

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct quantiles quantiles_of(double *values, int n) { // sorts them
    if (n == 0) return (struct quantiles){0};
    qsort(values, (size_t)n, sizeof *values, compare);
    return (struct quantiles){values[n / 2], values[(int)(0.9 * n)], values[(int)(0.99 * n)]};
}

struct outcome {
    struct queue_totals totals;
    struct quantiles ttft, token;
    uint64_t n_prompt, n_cached;
    int n_token; // requests with a time per token
};

static bool outcome_make(const struct replay_trace *trace, struct outcome *out) {
    double *ttft = calloc((size_t)trace->n, sizeof *ttft);
    double *token = calloc((size_t)trace->n, sizeof *token);
    int n_token = 0;
    for (int i = 0; ttft && token && i < trace->n; i++) {
        const struct queue_request *r = &trace->request[i];
        ttft[i] = r->first_ms - r->arrive_ms;
        if (r->n_output > 1) token[n_token++] = (r->end_ms - r->first_ms) / (r->n_output - 1);
        out->n_prompt += (uint64_t)r->n_prompt;
        out->n_cached += (uint64_t)r->n_cached;
    }
    const bool ok = ttft && token;
    if (ok) out->ttft = quantiles_of(ttft, trace->n);
    if (ok) out->token = quantiles_of(token, n_token);
    out->n_token = n_token;
    free(ttft);
    free(token);
    return ok;
}

static void outcome_print(const struct outline *outline, const struct replay_trace *trace,
                          const struct outcome *o) {
    const double seconds = o->totals.end_ms * 1e-3;
    outline_section(outline, "replay");
    printf("  %d request%s in %.1f s, at most %d at a time; %llu step%s, %.1f tokens/s written\n",
           trace->n, trace->n == 1 ? "" : "s", seconds, o->totals.most_running,
           (unsigned long long)o->totals.n_steps, o->totals.n_steps == 1 ? "" : "s",
           seconds > 0 ? (double)o->totals.n_tokens / seconds : 0);
    printf("  %.1f%% of the prompts' tokens were computed before\n",
           100 * (double)o->n_cached / (double)o->n_prompt);
    if (trace->n_long)
        printf("  %d request%s longer than the model's context and left out\n", trace->n_long,
               trace->n_long == 1 ? " is" : "s are");
    printf("  %-14s %10s %10s %10s\n", "", "p50", "p90", "p99");
    printf("  %-14s %7.1f ms %7.1f ms %7.1f ms\n", "TTFT", o->ttft.p50, o->ttft.p90, o->ttft.p99);
    if (o->n_token) // answers of one token have none
        printf("  %-14s %7.2f ms %7.2f ms %7.2f ms\n", "time per token", o->token.p50, o->token.p90,
               o->token.p99);
}

static json_t *quantiles_pack(struct quantiles q) {
    return json_pack("{s:f, s:f, s:f}", "p50", q.p50, "p90", q.p90, "p99", q.p99);
}

static bool outcome_put(const struct outline *outline, const struct replay_trace *trace,
                        const struct outcome *o) {
    json_t *object =
        json_pack("{s:i, s:i, s:f, s:I, s:I, s:i, s:I}", "requests", trace->n, "left_out",
                  trace->n_long, "seconds", o->totals.end_ms * 1e-3, "steps",
                  (json_int_t)o->totals.n_steps, "output_tokens", (json_int_t)o->totals.n_tokens,
                  "most_running", o->totals.most_running, "cached_prompt_tokens",
                  (json_int_t)o->n_cached);
    return json_put(object, "ttft_ms", quantiles_pack(o->ttft)) &&
           json_put(object, "ms_per_token", o->n_token ? quantiles_pack(o->token) : json_null()) &&
           json_put(outline->json, "replay", object);
}

int replay_open(const struct outline *outline, const char *path, struct replay_trace **out) {
    const int max_seqs = option_int(outline->options, OPT_MAX_SEQS),
              batch_tokens = outline->workload.batch_tokens;
    char name[OPTION_NAME_SIZE];
    *out = NULL;
    if (batch_tokens < max_seqs)
        return app_fail(APP_USAGE, "%s: %d is less than --max-seqs, %d",
                        option_name(outline->options, OPT_BATCH_TOKENS, name), batch_tokens,
                        max_seqs);
    *out = calloc(1, sizeof **out);
    if (!*out) return app_fail(APP_FAILED, "out of memory");
    return trace_read(path, rn_model_get_info(outline->model)->n_ctx_train, *out);
}

static int pages_of(const struct queue_request *request) {
    return (request->n_prompt + request->n_output + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
}

// The KV memory of each request, as an engine has it: windows end, and a state has one size.
// Requests of as many pages take as much.
static rn_status pages_fill(const struct outline *outline, struct replay_trace *trace,
                            rn_error *err) {
    struct workload one = outline->workload;
    one.users = 1;
    one.n_shared = 0;
    int n_pages = 0;
    for (int i = 0; i < trace->n; i++) {
        const int pages = pages_of(&trace->request[i]);
        if (pages > n_pages) n_pages = pages;
    }
    uint64_t *bytes = calloc((size_t)n_pages + 1, sizeof *bytes); // 0: not known yet
    if (!bytes) return err_set(err, RN_ERR_NOMEM, "out of memory");
    rn_status status = RN_OK;
    for (int i = 0; i < trace->n && !status; i++) {
        struct queue_request *r = &trace->request[i];
        struct tools_memory memory;
        one.n_ctx = r->n_prompt + r->n_output;
        const int pages = pages_of(r);
        if (!bytes[pages]) {
            status = sizing_memory(outline->model, &one, 0, &memory, err);
            if (!status) bytes[pages] = memory.user_bytes;
        }
        r->kv_bytes = bytes[pages];
    }
    free(bytes);
    return status;
}

static int unfit_report(const struct outline *outline) {
    if (outline->json)
        return json_put(outline->json, "replay", json_null())
                   ? APP_OK
                   : app_fail(APP_FAILED, "out of memory");
    outline_section(outline, "replay");
    puts("  none: the weights do not fit the memory");
    return APP_OK;
}

int replay_report(const struct outline *outline, struct replay_trace *trace) {
    const struct tools_memory *memory = &outline->memory;
    const uint64_t taken = memory->weight_bytes + memory->step_bytes + memory->reserve_bytes;
    struct queue_config config = {.plan = outline->plan,
                                  .kv = &memory->kv,
                                  .machine = &outline->machine.predict,
                                  .max_seqs = option_int(outline->options, OPT_MAX_SEQS),
                                  .batch_tokens = outline->workload.batch_tokens};
    struct outcome outcome = {0};
    rn_error err = {0};
    if (outline->machine.memory && outline->machine.memory <= taken) return unfit_report(outline);
    if (outline->machine.memory) config.kv_bytes = outline->machine.memory - taken;
    if (pages_fill(outline, trace, &err)) return app_fail_error(&err);
    bool ok = queue_run(&config, trace->request, trace->n, &outcome.totals) &&
              outcome_make(trace, &outcome);
    if (ok && outline->json) ok = outcome_put(outline, trace, &outcome);
    if (ok && !outline->json) outcome_print(outline, trace, &outcome);
    return ok ? APP_OK : app_fail(APP_FAILED, "out of memory");
}
