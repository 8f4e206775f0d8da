// Random bits from the system: seeds of requests, and of hashes that files must not be able to aim
// at.
#ifndef RN_BASE_ENTROPY_H
#define RN_BASE_ENTROPY_H

#include <stdint.h>

uint64_t entropy_u64(void);

#endif
