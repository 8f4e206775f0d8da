// One job and one result under a lock that is not held while a job runs.
#include "loader.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "helpers.h"

enum loader_state { LOADER_IDLE, LOADER_GIVEN, LOADER_WORKING, LOADER_DONE };

struct loader {
    const struct server_loading *loading;
    int wake_fd;
    pthread_mutex_t lock;
    pthread_cond_t some; // a job, or the end
    enum loader_state state;
    bool ending;
    struct loader_result job;
    pthread_t thread;
};

static void job_run(const struct server_loading *loading, struct loader_result *job) {
    void *ctx = job->step.served->source->ctx;
    if (job->step.act == LINEUP_PLAN) {
        job->status = loading->plan(ctx, &job->need, &job->err);
    } else if (job->step.act == LINEUP_LOAD) {
        job->status = loading->load(ctx, &job->parts, &job->err);
    } else {
        loading->unload(ctx);
    }
}

static void *work(void *ctx) {
    struct loader *loader = ctx;
    pthread_mutex_lock(&loader->lock);
    for (;;) {
        while (!loader->ending && loader->state != LOADER_GIVEN)
            pthread_cond_wait(&loader->some, &loader->lock);
        if (loader->state != LOADER_GIVEN) break;
        loader->state = LOADER_WORKING;
        pthread_mutex_unlock(&loader->lock);
        job_run(loader->loading, &loader->job); // nobody else reads it meanwhile
        pthread_mutex_lock(&loader->lock);
        loader->state = LOADER_DONE;
        const uint64_t one = 1;
        const ssize_t written = write(loader->wake_fd, &one, sizeof one);
        (void)written; // a full counter is readable all the same
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

// Signals are the I/O thread's.
static bool thread_start(struct loader *loader) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool ok = !pthread_create(&loader->thread, NULL, work, loader);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

rn_status loader_create(const struct server_loading *loading, int wake_fd, struct loader **out,
                        rn_error *err) {
    struct loader *loader = calloc(1, sizeof *loader);
    *out = NULL;
    if (!loader) return err_set(err, RN_ERR_NOMEM, "out of memory");
    loader->loading = loading;
    loader->wake_fd = wake_fd;
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->some, NULL);
    if (!thread_start(loader)) {
        pthread_cond_destroy(&loader->some);
        pthread_mutex_destroy(&loader->lock);
        free(loader);
        return err_set(err, RN_ERR_NOMEM, "no thread can be started");
    }
    *out = loader;
    return RN_OK;
}

void loader_destroy(struct loader *loader) {
    if (!loader) return;
    pthread_mutex_lock(&loader->lock);
    loader->ending = true;
    pthread_cond_signal(&loader->some);
    pthread_mutex_unlock(&loader->lock);
    pthread_join(loader->thread, NULL);
    pthread_cond_destroy(&loader->some);
    pthread_mutex_destroy(&loader->lock);
    free(loader);
}

bool loader_is_busy(struct loader *loader) {
    pthread_mutex_lock(&loader->lock);
    const bool busy = loader->state != LOADER_IDLE;
    pthread_mutex_unlock(&loader->lock);
    return busy;
}

void loader_start(struct loader *loader, struct lineup_step step) {
    pthread_mutex_lock(&loader->lock);
    loader->job = (struct loader_result){.step = step};
    loader->state = LOADER_GIVEN;
    pthread_cond_signal(&loader->some);
    pthread_mutex_unlock(&loader->lock);
}

bool loader_take(struct loader *loader, struct loader_result *out) {
    pthread_mutex_lock(&loader->lock);
    const bool done = loader->state == LOADER_DONE;
    if (done) {
        *out = loader->job;
        loader->state = LOADER_IDLE;
    }
    pthread_mutex_unlock(&loader->lock);
    return done;
}
