// See queue.h. Invariant: running[0 .. n_running) are in the order of their admission, as the
// engine keeps them; the first prompts get the tokens that streams leave.
#include "plan/queue.h"

#include <stdlib.h>

// A running request.
struct runner {
    struct queue_request *request;
    int n_done;    // positions that are evaluated
    int n_written; // tokens
    int n_now;     // rows of the step at hand
};

// Ids of blocks that are in the cache: open addressing, never full.
struct block_set {
    int64_t *id;
    bool *is_used;
    size_t size;
};

struct queue {
    const struct queue_config *config;
    struct queue_request *requests;
    int n, n_arrived; // requests[0 .. n_arrived) were admitted
    struct runner *running;
    int n_running;
    struct block_set cached;
    double now_ms;
};

// ---------------------------------------------------------------- blocks

static size_t block_at(const struct block_set *set, int64_t id) {
    size_t at = (size_t)((uint64_t)id * 0x9e3779b97f4a7c15u >> 20) % set->size;
    while (set->is_used[at] && set->id[at] != id) at = (at + 1) % set->size;
    return at;
}

static bool blocks_init(struct block_set *set, const struct queue_request *requests, int n) {
    size_t count = 1;
    for (int i = 0; i < n; i++) count += (size_t)requests[i].n_block;
    set->size = 2 * count;
    set->id = calloc(set->size, sizeof *set->id);
    set->is_used = calloc(set->size, sizeof *set->is_used);
    return set->id && set->is_used;
}

// The block that a position is in; false: the request has no id for it, or it is not full.
static bool block_of(const struct queue_request *request, int position, int64_t *id) {
    const int index = position / QUEUE_BLOCK;
    if (index >= request->n_block || (index + 1) * QUEUE_BLOCK > request->n_prompt) return false;
    *id = request->block[index];
    return true;
}

// Skips blocks that are in the cache. The last token of a prompt is always evaluated, because its
// result is wanted.
static void prompt_hit(struct queue *queue, struct runner *runner) {
    int64_t id;
    while (runner->n_done % QUEUE_BLOCK == 0 && block_of(runner->request, runner->n_done, &id) &&
           queue->cached.is_used[block_at(&queue->cached, id)]) {
        const int end = runner->n_done + QUEUE_BLOCK, most = runner->request->n_prompt - 1;
        const int next = end < most ? end : most;
        runner->request->n_cached += next - runner->n_done;
        runner->n_done = next;
        if (next == most) return;
    }
}

// Whether an earlier request computes the block that this one would begin: then it waits.
static bool prompt_waits(const struct queue *queue, int index) {
    const struct runner *runner = &queue->running[index];
    int64_t id, other;
    if (runner->n_done % QUEUE_BLOCK != 0 || !block_of(runner->request, runner->n_done, &id))
        return false;
    for (int i = 0; i < index; i++)
        if (queue->running[i].n_now > 0 &&
            block_of(queue->running[i].request, queue->running[i].n_done, &other) && other == id)
            return true;
    return false;
}

static void blocks_keep(struct queue *queue, const struct runner *runner, int before) {
    for (int at = before / QUEUE_BLOCK * QUEUE_BLOCK; at + QUEUE_BLOCK <= runner->n_done;
         at += QUEUE_BLOCK) {
        int64_t id;
        if (!block_of(runner->request, at, &id)) return;
        const size_t place = block_at(&queue->cached, id);
        queue->cached.id[place] = id;
        queue->cached.is_used[place] = true;
    }
}

// ---------------------------------------------------------------- the step

// In order: a request that does not fit blocks those behind it. A lone request always runs.
static void admit(struct queue *queue) {
    const struct queue_config *config = queue->config;
    uint64_t held = 0;
    for (int i = 0; i < queue->n_running; i++) held += queue->running[i].request->kv_bytes;
    while (queue->n_arrived < queue->n && queue->n_running < config->max_seqs) {
        struct queue_request *next = &queue->requests[queue->n_arrived];
        if (next->arrive_ms > queue->now_ms) return;
        held += next->kv_bytes;
        if (config->kv_bytes && held > config->kv_bytes && queue->n_running > 0) return;
        queue->running[queue->n_running++] = (struct runner){.request = next};
        queue->n_arrived++;
    }
}

static bool is_stream(const struct runner *runner) { return runner->n_written > 0; }

static void step_add(const struct queue *queue, struct runner *runner, int n,
                     struct batch_shape *shape) {
    const bool ends = runner->n_done + n >= runner->request->n_prompt;
    runner->n_now = n;
    batch_shape_add(queue->config->plan, shape, runner->n_done, n, ends ? 1 : 0);
}

// Streams first, then prompts, as many tokens as the step has left.
static void schedule(struct queue *queue, struct batch_shape *shape) {
    int left = queue->config->batch_tokens;
    *shape = (struct batch_shape){0};
    for (int i = 0; i < queue->n_running; i++) {
        struct runner *runner = &queue->running[i];
        runner->n_now = 0;
        if (!is_stream(runner)) continue;
        step_add(queue, runner, 1, shape);
        left--;
    }
    for (int i = 0; i < queue->n_running && left > 0; i++) {
        struct runner *runner = &queue->running[i];
        if (is_stream(runner)) continue;
        prompt_hit(queue, runner);
        if (prompt_waits(queue, i)) continue;
        const int rest = runner->request->n_prompt - runner->n_done;
        step_add(queue, runner, rest < left ? rest : left, shape);
        left -= runner->n_now;
    }
}

// Moves on by the step's rows; true: the request is complete.
static bool runner_advance(struct queue *queue, struct runner *runner,
                           struct queue_totals *totals) {
    struct queue_request *request = runner->request;
    const int before = runner->n_done;
    runner->n_done += runner->n_now;
    if (runner->n_now == 0) return false;
    blocks_keep(queue, runner, before);
    if (runner->n_done < request->n_prompt) return false;
    if (runner->n_written++ == 0) request->first_ms = queue->now_ms;
    totals->n_tokens++;
    request->end_ms = queue->now_ms;
    return runner->n_written == request->n_output;
}

static void step(struct queue *queue, struct queue_totals *totals) {
    struct batch_shape shape;
    struct prediction prediction;
    int kept = 0;
    schedule(queue, &shape);
    predict_step(queue->config->plan, queue->config->kv, queue->config->machine, &shape,
                 &prediction);
    const double ms = prediction.ns * 1e-6 + (double)shape.n_logits * queue->config->token_ms;
    queue->now_ms += ms;
    totals->busy_ms += ms;
    for (int i = 0; i < queue->n_running; i++)
        if (!runner_advance(queue, &queue->running[i], totals))
            queue->running[kept++] = queue->running[i];
    queue->n_running = kept;
    totals->n_steps++;
}

bool queue_run(const struct queue_config *config, struct queue_request *requests, int n,
               struct queue_totals *out) {
    struct queue queue = {.config = config, .requests = requests, .n = n};
    *out = (struct queue_totals){0};
    queue.running = calloc((size_t)config->max_seqs, sizeof *queue.running);
    const bool ok = blocks_init(&queue.cached, requests, n) && queue.running;
    while (ok && (queue.n_running > 0 || queue.n_arrived < n)) {
        if (queue.n_running == 0 && requests[queue.n_arrived].arrive_ms > queue.now_ms)
            queue.now_ms = requests[queue.n_arrived].arrive_ms;
        admit(&queue);
        if (queue.n_running > out->most_running) out->most_running = queue.n_running;
        step(&queue, out);
    }
    out->end_ms = queue.now_ms;
    free(queue.running);
    free(queue.cached.id);
    free(queue.cached.is_used);
    return ok;
}
