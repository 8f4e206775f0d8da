// See fake_backend.h. A job is a step: the copy of its batch, and later its result. Jobs are run in
// the order of their submits by one thread; `jobs` has the ones in flight, the oldest first.
#include "fake/fake_backend.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/table.h"

struct fake_control fake_control;

void fake_reset(void) { memset(&fake_control, 0, sizeof fake_control); }

void fake_fail_at(enum fake_fault fault, long submits_from_now) {
    fake_control.fault = (int)fault;
    fake_control.fault_at = fake_control.n_submit + submits_from_now;
}

struct job {
    struct batch batch; // points to copies in `memory`
    void **memory;
    int n_memory, max_memory;
    enum fake_fault fault;
    bool is_done;
    rn_status status;
    rn_error err;
    struct step_result result; // points to copies in `memory` too
};

struct fake_backend {
    struct backend base;
    const struct plan *plan;
    struct backend *inner;
    struct pool *pool;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    struct job *jobs[BACKEND_MAX_DEPTH + 1];
    int n_jobs, n_run; // steps in flight; the number of them that were run
    struct job *last;  // whose result is being read
    int32_t *before;   // [max_logits] tokens that the last step chose
    int n_before;
    bool is_over, is_lost;
};

// ---------------------------------------------------------------- copies

// The memory is the job's from now on.
static void *own(struct job *job, void *memory) {
    if (job->n_memory == job->max_memory) {
        job->max_memory = job->max_memory ? 2 * job->max_memory : 64;
        job->memory = realloc(job->memory, (size_t)job->max_memory * sizeof(void *));
    }
    assert(memory && job->memory);
    return job->memory[job->n_memory++] = memory;
}

static void *keep(struct job *job, const void *data, size_t bytes) {
    if (!data) return NULL;
    void *copy = own(job, malloc(bytes ? bytes : 1));
    if (bytes) memcpy(copy, data, bytes);
    return copy;
}

static void job_free(struct job *job) {
    if (!job) return;
    for (int i = 0; i < job->n_memory; i++) free(job->memory[i]);
    free(job->memory);
    free(job);
}

static void keep_seqs(struct job *job, const struct batch *from, int n_group) {
    struct batch_seq *seq = keep(job, from->seq, (size_t)from->n_seqs * sizeof *seq);
    for (int s = 0; s < from->n_seqs; s++) {
        const int end = seq[s].first_pos + seq[s].n_tokens;
        const size_t blocks = (size_t)(end + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
        for (int g = 0; g < n_group; g++)
            seq[s].page_table[g] = keep(job, seq[s].page_table[g], blocks * sizeof(uint32_t));
    }
    job->batch.seq = seq;
}

static void keep_choices(struct job *job, const struct batch *from) {
    if (!from->choice) return;
    struct choice *choice = keep(job, from->choice, (size_t)from->n_logits * sizeof *choice);
    for (int i = 0; i < from->n_logits; i++) {
        struct choice *c = &choice[i];
        c->numbers = keep(job, c->numbers, sizeof *c->numbers);
        c->edit = keep(job, c->edit, (size_t)c->n_edit * sizeof *c->edit);
        c->allowed = keep(job, c->allowed, token_set_words(c->n_vocab) * sizeof *c->allowed);
    }
    job->batch.choice = choice;
}

static struct job *job_make(const struct fake_backend *b, const struct batch *from) {
    struct job *job = calloc(1, sizeof *job);
    assert(job);
    job->batch = *from;
    job->batch.token = keep(job, from->token, (size_t)from->n_tokens * sizeof *from->token);
    job->batch.pos = keep(job, from->pos, (size_t)from->n_tokens * sizeof *from->pos);
    job->batch.out_row = keep(job, from->out_row, (size_t)from->n_out * sizeof *from->out_row);
    job->batch.page = keep(job, from->page, (size_t)from->n_pages * sizeof *from->page);
    keep_seqs(job, from, b->plan->n_group);
    keep_choices(job, from);
    return job;
}

// The rows that were asked for; others stay NULL.
static void keep_rows(struct job *job, const struct fake_backend *b,
                      const struct step_result *from) {
    const struct batch *batch = &job->batch;
    const bool has_hidden = b->plan->hidden != PLAN_NONE;
    const size_t n_embd = has_hidden ? (size_t)b->plan->buffer[b->plan->hidden].width : 0;
    const float **logits = own(job, calloc((size_t)batch->n_out + 1, sizeof *logits));
    const float **hidden = own(job, calloc((size_t)batch->n_out + 1, sizeof *hidden));
    for (int i = 0; i < batch->n_logits; i++)
        if (!batch->choice || batch->choice[i].wants_logits)
            logits[i] = keep(job, from->logits[i], (size_t)b->plan->n_vocab * sizeof(float));
    for (int i = batch->n_logits; has_hidden && i < batch->n_out; i++)
        hidden[i] = keep(job, from->hidden[i], n_embd * sizeof(float));
    job->result.logits = logits;
    job->result.hidden = hidden;
}

// ---------------------------------------------------------------- the device

static void take_tokens(struct fake_backend *b, struct job *job) {
    int32_t *token = (int32_t *)(uintptr_t)job->batch.token;
    for (int i = 0; i < job->batch.n_tokens; i++) {
        if (token[i] >= 0) continue;
        const int row = BATCH_ROW_OF(token[i]);
        assert(row < b->n_before);
        token[i] = b->before[row] >= 0 ? b->before[row] : 0; // its sequence has failed
        fake_control.n_of_row++;
    }
}

static void job_run(struct fake_backend *b, struct job *job) {
    struct step_result result;
    if (fake_control.delay_us > 0) usleep((useconds_t)fake_control.delay_us);
    if (job->fault == FAKE_STEP || job->fault == FAKE_LOST || b->is_lost) {
        b->is_lost |= job->fault == FAKE_LOST;
        job->status = err_set(&job->err, b->is_lost ? RN_ERR_DEVICE : RN_ERR_STEP,
                              "step %ld was to fail", fake_control.fault_at);
        memset(b->before, 0, sizeof *b->before * (size_t)job->batch.n_logits);
        b->n_before = job->batch.n_logits;
        return;
    }
    take_tokens(b, job);
    job->status = backend_run(b->inner, &job->batch, &result, &job->err);
    if (job->status) return;
    job->result = result;
    keep_rows(job, b, &result);
    job->result.token = keep(job, result.token, (size_t)job->batch.n_logits * sizeof *result.token);
    if (result.token && job->batch.n_tokens > 0) {
        memcpy(b->before, result.token, (size_t)job->batch.n_logits * sizeof *result.token);
        b->n_before = job->batch.n_logits;
    }
    if (job->fault == FAKE_SEQ) {
        rn_status *status = own(job, calloc((size_t)job->batch.n_seqs, sizeof *status));
        status[0] = RN_ERR_STEP;
        job->result.seq_status = status;
    }
}

static void *device_main(void *arg) {
    struct fake_backend *b = arg;
    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (b->n_run == b->n_jobs && !b->is_over) pthread_cond_wait(&b->moved, &b->lock);
        if (b->n_run == b->n_jobs) break;
        struct job *job = b->jobs[b->n_run];
        pthread_mutex_unlock(&b->lock);
        job_run(b, job);
        pthread_mutex_lock(&b->lock);
        job->is_done = true;
        b->n_run++;
        pthread_cond_broadcast(&b->moved);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

// ---------------------------------------------------------------- the class

static rn_status fake_device(int index, struct backend_device *out, rn_error *err) {
    static const char *const names[FAKE_DEVICES] = {"a device that is not there",
                                                    "another device that is not there"};
    if (index >= FAKE_DEVICES)
        return err_set(err, RN_ERR_ARG, "device is %d, expected 0 to %d", index, FAKE_DEVICES - 1);
    const rn_status status = backend_cpu.device(0, out, err);
    strcpy(out->name, names[index]);
    out->on_host = false;
    out->pages = PAGES_FIXED;
    out->depth = BACKEND_MAX_DEPTH;
    out->runs_blocks = false; // jobs have no inputs of a block
    return status;
}

static rn_status fake_need(const struct plan *plan, const struct backend_sizes *sizes,
                           const char *kv_type, struct backend_need *out, rn_error *err) {
    return backend_cpu.need(plan, sizes, kv_type, out, err);
}

static void fake_destroy(struct backend *backend) {
    struct fake_backend *b = (struct fake_backend *)backend;
    pthread_mutex_lock(&b->lock);
    b->is_over = true;
    pthread_cond_broadcast(&b->moved);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    for (int i = 0; i < b->n_jobs; i++) job_free(b->jobs[i]);
    job_free(b->last);
    backend_destroy(b->inner);
    pool_destroy(b->pool);
    pthread_cond_destroy(&b->moved);
    pthread_mutex_destroy(&b->lock);
    free(b->before);
    free(b);
}

static rn_status fake_create(const struct plan *plan, const struct backend_config *config,
                             struct backend **out, rn_error *err) {
    struct fake_backend *b = calloc(1, sizeof *b);
    if (!b) return err_set(err, RN_ERR_NOMEM, "no memory for a device");
    struct backend_config inner = *config;
    if (config->device >= 0 && config->device < FAKE_DEVICES)
        fake_control.n_create[config->device]++;
    inner.device = 0;
    rn_status status = pool_create(pool_size(config->pool), &b->pool, err);
    inner.pool = b->pool; // the host's are busy while a step runs
    inner.now = NULL;
    if (!status) status = backend_cpu.create(plan, &inner, &b->inner, err);
    if (status) {
        if (b->pool) pool_destroy(b->pool);
        free(b);
        return status;
    }
    b->base.cls = &backend_fake;
    b->plan = plan;
    b->before = calloc((size_t)config->sizes.max_logits, sizeof *b->before);
    assert(b->before);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->moved, NULL);
    const int code = pthread_create(&b->thread, NULL, device_main, b);
    assert(code == 0);
    (void)code;
    *out = &b->base;
    return RN_OK;
}

static rn_status fake_submit(struct backend *backend, const struct batch *batch, rn_error *err) {
    struct fake_backend *b = (struct fake_backend *)backend;
    enum fake_fault fault = FAKE_NONE;
    if (batch->n_tokens > 0 && ++fake_control.n_submit == fake_control.fault_at) {
        fault = (enum fake_fault)fake_control.fault;
        fake_control.n_fault++;
    }
    if (fault == FAKE_SUBMIT) return err_set(err, RN_ERR_STEP, "the submit was to fail");
    if (fault == FAKE_LOST_SUBMIT) return err_set(err, RN_ERR_DEVICE, "the submit was to fail");
    if (fault == FAKE_FILE_SUBMIT) return err_set(err, RN_ERR_IO, "m.gguf: was to change");
    struct job *job = job_make(b, batch);
    job->fault = fault;
    pthread_mutex_lock(&b->lock);
    assert(b->n_jobs < BACKEND_MAX_DEPTH);
    fake_control.n_overlap += b->n_run < b->n_jobs;
    b->jobs[b->n_jobs++] = job;
    pthread_cond_broadcast(&b->moved);
    pthread_mutex_unlock(&b->lock);
    return RN_OK;
}

static rn_status fake_wait(struct backend *backend, struct step_result *out, rn_error *err) {
    struct fake_backend *b = (struct fake_backend *)backend;
    pthread_mutex_lock(&b->lock);
    assert(b->n_jobs > 0);
    while (!b->jobs[0]->is_done) pthread_cond_wait(&b->moved, &b->lock);
    struct job *job = b->jobs[0];
    b->n_jobs--;
    b->n_run--;
    memmove(b->jobs, b->jobs + 1, sizeof(struct job *) * (size_t)b->n_jobs);
    pthread_mutex_unlock(&b->lock);
    job_free(b->last);
    b->last = job;
    if (job->status && err) *err = job->err;
    *out = job->result;
    return job->status;
}

static rn_status fake_page_read(struct backend *backend, int group, uint32_t page, void *to,
                                rn_error *err) {
    struct fake_backend *b = (struct fake_backend *)backend;
    return b->inner->cls->page_read(b->inner, group, page, to, err);
}

static rn_status fake_page_write(struct backend *backend, int group, uint32_t page,
                                 const void *from, rn_error *err) {
    struct fake_backend *b = (struct fake_backend *)backend;
    return b->inner->cls->page_write(b->inner, group, page, from, err);
}

static void fake_page_identity(const struct backend *backend, char out[BACKEND_IDENTITY]) {
    const struct fake_backend *b = (const struct fake_backend *)backend;
    b->inner->cls->page_identity(b->inner, out);
}

static void fake_describe(const struct backend *backend, struct backend_info *out) {
    const struct fake_backend *b = (const struct fake_backend *)backend;
    b->inner->cls->describe(b->inner, out);
}

static double fake_bandwidth(struct backend *backend, uint64_t working_set, int budget_ms) {
    struct fake_backend *b = (struct fake_backend *)backend;
    return b->inner->cls->bandwidth(b->inner, working_set, budget_ms);
}

static const char *const kv_types[] = {"f32", "f16", "int8", "int4", NULL};

const struct backend_class backend_fake = {
    .name = "fake",
    .kv_types = kv_types,
    .kv_default = "f16",
    .device = fake_device,
    .need = fake_need,
    .create = fake_create,
    .destroy = fake_destroy,
    .submit = fake_submit,
    .wait = fake_wait,
    .page_read = fake_page_read,
    .page_write = fake_page_write,
    .page_identity = fake_page_identity,
    .describe = fake_describe,
    .bandwidth = fake_bandwidth,
};
