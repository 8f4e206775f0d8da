// See sized.h.
#include "base/sized.h"

#include <string.h>

rn_status sized_check(const char *name, const void *room, size_t size, rn_error *err) {
    const unsigned char *at = room;
    for (size_t i = 0; i < size; i++)
        if (at[i])
            return err_set(err, RN_ERR_ARG,
                           "%s: a member is set that this version of the library does not know",
                           name);
    return RN_OK;
}

rn_status sized_read(const char *name, const void *from, size_t size, void *to, size_t own,
                     rn_error *err) {
    const size_t known = size < own ? size : own;
    memcpy(to, from, known);
    memset((char *)to + known, 0, own - known);
    return sized_check(name, (const char *)from + known, size - known, err);
}

void sized_write(const void *from, size_t own, void *to, size_t size) {
    const size_t known = size < own ? size : own;
    memcpy(to, from, known);
    memset((char *)to + known, 0, size - known);
}
