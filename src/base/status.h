// Errors of cold calls: a status, and one line that names the offending value. err may be NULL
// wherever an rn_error * is taken. If several errors are set, the last one is kept.
#ifndef RN_BASE_STATUS_H
#define RN_BASE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runnel_status.h"

#define RN_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

// Fills err (when not NULL) and returns status, so that callers write `return err_set(err,
// RN_ERR_IO, ...)`. Control characters in the formatted text are replaced by '?', so hostile names
// cannot break the line.
rn_status err_set(rn_error *err, rn_status status, const char *fmt, ...) RN_PRINTF(3, 4);

// The end of a long path, from the start of a folder or file name where there is one. So a message
// about it has room for the fault. Short paths come back as they are.
const char *err_path(const char *path);

// Puts "prefix: " before the message, for the caller that knows the file's name. Returns err's
// status.
rn_status err_prefix(rn_error *err, const char *prefix);

#endif
