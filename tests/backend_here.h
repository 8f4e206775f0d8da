// A backend and the threads that it runs on, made and destroyed together: a test that needs no more
// than one backend. The class is the CPU's, whose inside some of these tests look at.
#ifndef RN_TESTS_BACKEND_HERE_H
#define RN_TESTS_BACKEND_HERE_H

#include "backend/backend.h"
#include "check.h"
#include "whole_pool.h"

struct here {
    struct pool *pool;
    struct backend *backend;
    struct step_result result; // of the last run
};

// Threads: 0 are as many as the machine has. The configuration's pool is filled in. After an error
// there is nothing to destroy.
static inline rn_status here_try(struct here *here, const struct plan *plan,
                                 const struct backend_config *config, int n_threads,
                                 rn_error *err) {
    struct backend_config own = *config;
    const struct backend_class *cls;
    struct backend_device device;
    *here = (struct here){.pool = NULL};
    rn_status status = backend_find("cpu", 0, &cls, &device, err);
    if (!status) status = whole_pool_create(n_threads, &here->pool, err);
    if (status) return status;
    own.pool = here->pool;
    here->backend = (struct backend *)&own; // create writes NULL where it fails
    status = cls->create(plan, &own, &here->backend, err);
    check((status == RN_OK) == (here->backend != NULL), "status %d", (int)status);
    if (!status) return RN_OK;
    pool_destroy(here->pool);
    here->pool = NULL;
    return status;
}

static inline void here_create(struct here *here, const struct plan *plan,
                               const struct backend_config *config, int n_threads) {
    rn_error err = {0};
    check(here_try(here, plan, config, n_threads, &err) == RN_OK, "%s", err.message);
}

static inline void here_destroy(struct here *here) {
    backend_destroy(here->backend);
    pool_destroy(here->pool);
}

// One step that must succeed.
static inline void here_run(struct here *here, const struct batch *batch) {
    rn_error err = {0};
    check(backend_run(here->backend, batch, &here->result, &err) == RN_OK, "%s", err.message);
}

#endif
