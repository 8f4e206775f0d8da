// A pool whose runs take all of its threads, however little their work is. The measured price would
// leave little work, such as that of tests, to one thread where cores are few.
#ifndef RN_TESTS_WHOLE_POOL_H
#define RN_TESTS_WHOLE_POOL_H

#include "base/pool.h"

static inline rn_status whole_pool_create(int n_threads, struct pool **out, rn_error *err) {
    const rn_status status = pool_create_here(n_threads, false, out, err);
    if (status) return status;
    struct pool_price *price = pool_price(*out);
    price->n = pool_size(*out) > 1 ? 1 : 0;
    price->run[0].n_workers = pool_size(*out);
    price->run[0].ns = 0;
    return RN_OK;
}

#endif
