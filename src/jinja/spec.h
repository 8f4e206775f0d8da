// One formatted item: what "%-8.3f" and "{:<8.3f}" have in common.
#ifndef RN_JINJA_SPEC_H
#define RN_JINJA_SPEC_H

#include "jinja/value.h"

struct spec {
    uint32_t fill;
    char align; // '<', '>', '^', '=' or 0: the type's own
    char sign;  // '+', ' ' or '-'
    bool is_alt, is_zero;
    char group; // ',', '_' or 0
    int64_t width;
    int precision; // -1: none
    char type;     // 0: none
};

// "[[fill]align][sign][#][0][width][,][.precision][type]"; false: failed.
bool jinja_spec_parse(struct render *r, const char *text, size_t len, struct spec *out);

bool jinja_spec_str(struct render *r, const struct spec *spec, const struct str *s);
bool jinja_spec_int(struct render *r, const struct spec *spec, int64_t i);
bool jinja_spec_float(struct render *r, const struct spec *spec, double f);

#endif
