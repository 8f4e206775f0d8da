// Large anonymous memory: zeroed, huge pages where the system gives them, and a little slack behind
// the end, so that a kernel's last vector load or prefetch may pass it.
#ifndef RN_BACKEND_CPU_REGION_H
#define RN_BACKEND_CPU_REGION_H

#include "base/status.h"

struct region {
    uint8_t *base; // NULL: empty
    uint64_t bytes;
    uint64_t mapped; // bytes that the system was asked for
};

// Fails with RN_ERR_NOMEM, naming `what` and the number of bytes. 0 bytes give an empty region.
// lazy: much of it may never be touched, so the system need not have it all.
rn_status region_map(uint64_t bytes, bool lazy, const char *what, struct region *out,
                     rn_error *err);
void region_unmap(struct region *region); // an empty one is fine

// Gives the whole system pages inside [first, first + bytes) back; they read as zeros when they are
// next touched. A range without any is unchanged.
void region_forget(struct region *region, uint64_t first, uint64_t bytes);

// Asks for memory of these nodes (node n as bit n) in [first, first + bytes), where it was not
// touched yet. Several nodes give pages in turn; a node without free memory is passed over. Where
// the system refuses, a page comes from the node of the thread that touches it first.
void region_place(const struct region *region, uint64_t first, uint64_t bytes, uint64_t nodes);

// Carves a region in two passes of the same code: base NULL only measures.
struct region_carver {
    uint8_t *base;
    uint64_t used;
    bool overflow;
};

// count * size bytes aligned to 64; NULL while measuring.
void *region_carve(struct region_carver *carver, uint64_t count, uint64_t size);

#endif
