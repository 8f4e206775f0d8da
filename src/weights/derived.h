// Tensors of a folder whose bytes are made while they are read (weights_read): codes and scales in
// the files become numbers or blocks of a format. Until then such a tensor has addresses without
// memory: nobody may read it in place. fp8.c and integers.c find them in the files, and decode
// them.
#ifndef RN_WEIGHTS_DERIVED_H
#define RN_WEIGHTS_DERIVED_H

#include "weights/fp8.h"
#include "weights/integers.h"

struct derived {
    const uint8_t *at;   // its addresses
    uint64_t bytes;      // of them
    const uint8_t *code; // in files[file]
    int file;
    enum tensor_codes codes;
    union {
        struct fp8 fp8;           // CODES_FP8
        struct integers integers; // CODES_INTEGERS
    };
    struct integers_held *held; // of CODES_INTEGERS
};

// A new one of these codes for the tensor, whose data are the codes. NULL: no memory.
struct derived *derived_push(struct weights *weights, struct st_tensor *t, enum tensor_codes codes);
// Before tensors are mapped: finds all of them. Does nothing where the config has no codes.
rn_status derived_adopt(struct hf_config *c, struct st_table *table);
// After that, when the tensors' bytes are those of their formats: gives them addresses.
rn_status derived_place(struct hf_config *c, struct st_table *table);
void derived_close(struct weights *weights); // gives the addresses back

// NULL: the address is in none of them.
const struct derived *derived_of(const struct weights *weights, const void *data);
// [data, data + bytes), which is in that tensor, into out.
rn_status derived_read(const struct weights *weights, const struct derived *derived,
                       const void *data, uint64_t bytes, void *out, rn_error *err);

// What the tensor is, beside its bytes in the files: the config has a part in it.
enum { DERIVED_NUMBERS = 6 };
void derived_numbers(const struct derived *derived, uint64_t out[DERIVED_NUMBERS]);

#endif
