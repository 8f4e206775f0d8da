// The bytes of KV pages for a store of them, to and from the host. Each direction has a stream of
// its own, so that no copy waits for a step. The caller sees to it that no step in flight touches
// the page (backend.h). Called through backend.h, by threads beside the step's.
#include <stdio.h>

#include "backend/cuda/cuda.h"

// The layers of a page are apart on the device, and one after the other here.
static cudaError_t copy(struct cuda_backend *b, int group, uint32_t page, void *host,
                        bool to_host) {
    const struct step_kv *kv = &b->kv[group];
    const cudaStream_t stream = to_host ? b->page_down : b->page_up;
    uint8_t *device = kv->at + page * kv->page_bytes;
    cudaError_t code = cudaSetDevice(b->device);
    if (!code && to_host)
        code = cudaMemcpy2DAsync(host, kv->page_bytes, device, kv->layer_bytes, kv->page_bytes,
                                 kv->n_layer, cudaMemcpyDeviceToHost, stream);
    if (!code && !to_host)
        code = cudaMemcpy2DAsync(device, kv->layer_bytes, host, kv->page_bytes, kv->page_bytes,
                                 kv->n_layer, cudaMemcpyHostToDevice, stream);
    return code ? code : cudaStreamSynchronize(stream);
}

rn_status cuda_page_read(struct backend *backend, int group, uint32_t page, void *to,
                         rn_error *err) {
    const cudaError_t code = copy((struct cuda_backend *)backend, group, page, to, true);
    return code ? cuda_fault(code, RN_ERR_DEVICE, "reading a page", err) : RN_OK;
}

rn_status cuda_page_write(struct backend *backend, int group, uint32_t page, const void *from,
                          rn_error *err) {
    void *host = (void *)(uintptr_t)from; // only read
    const cudaError_t code = copy((struct cuda_backend *)backend, group, page, host, false);
    return code ? cuda_fault(code, RN_ERR_DEVICE, "writing a page", err) : RN_OK;
}

// Sums are cut by shapes alone (CUDA.md), but the device is part of the identity: what another one
// computes was never compared.
void cuda_page_identity(const struct backend *backend, char out[BACKEND_IDENTITY]) {
    const struct cuda_backend *b = (const struct cuda_backend *)backend;
    snprintf(out, BACKEND_IDENTITY, "cuda %s %s, %d multiprocessors of %.64s", backend_fingerprint,
             b->variant, b->n_sm, b->prop.name);
}
