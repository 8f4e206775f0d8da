// The memory of one of several models that are loaded together, by the arithmetic of `runnel plan`.
#ifndef RN_APP_MODELS_SHARE_H
#define RN_APP_MODELS_SHARE_H

#include "runnel.h"

struct model_share {
    uint64_t bytes;              // weights, buffers of a step, KV memory; the draft model's, too
    uint64_t free_bytes;         // of the device now; 0: unknown
    char device[RN_DEVICE_NAME]; // "": this machine's own memory
};

// Where the options leave the KV memory open, wanted->kv_bytes is set: two contexts for each
// sequence, but at most a quarter of the memory, so that several models fit, and no more than the
// weights leave. bytes_max: memory of all models; 0: the device's. RN_ERR_NOMEM: too little is free
// now; out is set.
rn_status model_share_get(const rn_model *model, uint64_t bytes_max, rn_engine_options *wanted,
                          struct model_share *out, rn_error *err);

// Whether a model could be opened, by the heads of its files: no weight and no vocabulary is read.
// shape: of --synthetic, instead of path; NULL if there is none.
rn_status model_head_check(const char *path, const char *shape, rn_error *err);

#endif
