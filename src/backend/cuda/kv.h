// The KV types of the CUDA backend and the bytes of their pages, for the host. The layout inside a
// page is kv.cuh's. Called by cuda.c and by the files of sizes/.
//
// A page has PAGE_TOKENS positions of all layers of a group: for each KV head of a layer the keys,
// the values, and the scales where the type has them. Layers of a group have equal bytes. All pages
// of a layer are together (struct step_kv).
#ifndef RN_BACKEND_CUDA_KV_H
#define RN_BACKEND_CUDA_KV_H

#include "backend/backend.h"
#include "backend/cuda/stage.h"

extern const char *const cuda_kv_names[KV_TYPES + 1]; // by enum kv_type; the last is NULL
#define CUDA_KV_DEFAULT "f16"
int kv_type_of(const char *name); // -1: unknown

// Whether the kernels have the group's shape.
rn_status kv_group_check(const struct plan_kv_group *group, int type, rn_error *err);
// Bytes of a KV head in a page: a multiple of 128.
uint64_t kv_head_bytes(int dim_k, int dim_v, int type);
// Bytes of a page of a group: all its layers. A multiple of 128 for each layer.
uint64_t cuda_page_bytes(const struct plan_kv_group *group, int type);

// Scratch of attention: stage_attention.parts and .counters, which start as zeros. Sequences whose
// results of splits find no place are done by one block each, so the bytes do not limit a batch.
uint64_t kv_parts_bytes(const struct plan_kv_group *group, int n_head,
                        const struct backend_sizes *sizes);
uint64_t kv_counters_bytes(const struct plan_kv_group *group, int n_head,
                           const struct backend_sizes *sizes);

#endif
