#ifdef RUNNEL_ZMQ

#include "kv_zmq.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "helpers.h"

static const char file[] = "libzmq.so.5";

rn_status kv_zmq_load(struct kv_zmq *out, rn_error *err) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) return err_set(err, RN_ERR_UNSUPPORTED, "KV events need %s: %s", file, dlerror());
#define X(name, symbol)                                                                            \
    void *name = dlsym(library, #symbol);                                                          \
    if (!name) return err_set(err, RN_ERR_UNSUPPORTED, "%s has no %s", file, #symbol);             \
    memcpy(&out->name, &name, sizeof name);
    KV_ZMQ_CALLS(X)
#undef X
    return RN_OK;
}

#endif
