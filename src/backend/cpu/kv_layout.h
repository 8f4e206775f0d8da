// The formats of KV entries that the CPU backend has, and where a page stores a head's keys and
// values. The layout is this backend's alone: others ask for the bytes of a page (backend.h).
//
// A page has room for KV_PAGE_TOKENS tokens. For each layer and then each KV head it holds the keys
// by elements, all tokens of an element (or of a few) side by side, and the values by tokens:
//   f32, f16  K [dim_k][tokens]; V [tokens][dim_v]
//   int8      K i8 [groups of 4][tokens][4], f16 scale [tokens]; V i8 [tokens][row], f16 scale
//             [tokens]
//   int4      K u8 [groups of 8][tokens][4], byte i has elements i and, above, 4 + i of its group,
//             f16 scale [blocks][tokens]; V u8 [tokens][row], 16 bytes per block, byte i has
//             elements i and 16 + i, f16 scale [blocks][tokens]; nibbles are codes + 8
// A latent group has no V: a value is the beginning of its key. With int8 a key has a scale for
// each KV_LATENT_BLOCK elements there, because its two parts differ in size.
#ifndef RN_BACKEND_CPU_KV_LAYOUT_H
#define RN_BACKEND_CPU_KV_LAYOUT_H

#include "plan/plan.h"

enum {
    KV_BLOCK = 32,        // elements of an int4 head that share a scale
    KV_LATENT_BLOCK = 64, // of an int8 key of a latent group
};

// The name is what --kv-type takes.
enum kv_type { KV_F32, KV_F16, KV_INT8, KV_INT4, KV_TYPE_COUNT };

// A head's part of a page. Every offset and size is a multiple of 32 bytes; a vector of 16 codes
// from a multiple of 16 on stays inside its array.
struct kv_layout {
    bool is_coded;        // codes and scales; otherwise numbers
    bool is_latent;       // values are keys: v, row_v and scale_v are those of keys
    int block_k, block_v; // elements that share a scale; not coded: all of them
    uint32_t row_v;       // bytes from a token's values to the next token's
    uint32_t scale_k;     // offset of the keys' scales, [ceil(dim_k / block_k)][tokens]
    uint32_t v;           // of the values
    uint32_t scale_v;     // of the values' scales, [ceil(dim_v / block_v)][tokens]
    uint32_t bytes;
};

extern const char *const kv_type_names[KV_TYPE_COUNT + 1]; // the last is NULL
int kv_type_find(const char *name);                        // -1: unknown
struct kv_layout kv_layout_of(enum kv_type type, int dim_k, int dim_v);
struct kv_layout kv_layout_latent(enum kv_type type, int dim_k);
// Bytes of a page of a group: all its layers.
uint64_t kv_page_bytes(const struct plan_kv_group *group, enum kv_type type, bool bf16_states);

#endif
