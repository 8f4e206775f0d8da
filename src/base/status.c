// Fills error records. Owns nothing; every module's cold calls end here. A message is one line of
// printable text for all values in it.
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *rn_status_text(rn_status status) {
    switch (status) {
#define X(name, text)                                                                              \
    case RN_##name:                                                                                \
        return text;
        RN_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

// Also the two-byte C1 controls (C2 80 to C2 9F), which some terminals obey.
static void controls_replace(char *text) {
    for (unsigned char *at = (unsigned char *)text; *at; at++) {
        if (*at < 0x20 || *at == 0x7f) {
            *at = '?';
        } else if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] <= 0x9f) {
            at[0] = at[1] = '?';
        }
    }
}

rn_status err_set(rn_error *err, rn_status status, const char *fmt, ...) {
    if (!err) return status;
    err->status = status;
    va_list args;
    va_start(args, fmt);
    if (vsnprintf(err->message, sizeof err->message, fmt, args) < 0) err->message[0] = 0;
    va_end(args);
    controls_replace(err->message);
    return status;
}

enum { PATH_SHOWN = 200 };

const char *err_path(const char *path) {
    const size_t len = strlen(path);
    if (len <= PATH_SHOWN) return path;
    const char *tail = path + len - PATH_SHOWN;
    const char *slash = strchr(tail, '/');
    return slash && slash[1] ? slash + 1 : tail;
}

rn_status err_prefix(rn_error *err, const char *prefix) {
    if (!err) return RN_ERR_ARG; // nothing is known of the failure except that there was one
    char tail[sizeof err->message];
    memcpy(tail, err->message, sizeof tail);
    return err_set(err, err->status, "%s: %s", prefix, tail);
}
