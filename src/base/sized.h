// Structs of callers that were compiled with another version of the public header. Members are only
// ever added at the end, and 0 is the default of each. So a shorter struct is one whose further
// members are 0, and a longer one is understood if its further members are 0.
#ifndef RN_BASE_SIZED_H
#define RN_BASE_SIZED_H

#include "base/status.h"

// Room for members of later versions: RN_ERR_ARG when a caller uses it. `name` is the struct's.
rn_status sized_check(const char *name, const void *room, size_t size, rn_error *err);

// A caller's struct of `size` bytes, as ours of `own` bytes; RN_ERR_ARG: it sets members that are
// not known here.
rn_status sized_read(const char *name, const void *from, size_t size, void *to, size_t own,
                     rn_error *err);

// Our struct of `own` bytes into a caller's of `size` bytes.
void sized_write(const void *from, size_t own, void *to, size_t size);

#endif
