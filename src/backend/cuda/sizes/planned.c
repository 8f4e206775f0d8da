// The class of GPUs that are not here: its KV types and its sums are the backend's own. The program
// plans with it (backend_planned) and never creates a backend of it. The traits are those that a
// GPU here has, too.
#include "backend/cuda/kv.h"
#include "backend/cuda/layout.h"
#include "backend/table.h"

void cuda_traits(struct backend_device *out) {
    *out = (struct backend_device){.pages = PAGES_FIXED,
                                   .depth = BACKEND_MAX_DEPTH,
                                   .runs_blocks = true};
}

static rn_status device(int index, struct backend_device *out, rn_error *err) {
    (void)index, (void)err;
    cuda_traits(out);
    return RN_OK;
}

const struct backend_class backend_cuda_planned = {.name = "cuda",
                                                   .kv_types = cuda_kv_names,
                                                   .kv_default = CUDA_KV_DEFAULT,
                                                   .device = device,
                                                   .need = cuda_need,
                                                   .stored = cuda_stored,
                                                   .block_check = cuda_block_check};
