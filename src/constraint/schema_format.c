// The formats of strings as expressions. They describe a part of what the format allows: no
// quoted local parts of addresses, no leap seconds.
#include <string.h>

#include "constraint/schema.h"

#define DATE                                                                                       \
    "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)" \
    "|02-(?:0[1-9]|1\\d|2[0-8]))"                                                                  \
    "|(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
#define TIME                                                                                       \
    "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4  OCTET "\\." OCTET "\\." OCTET "\\." OCTET
#define H16   "[0-9a-fA-F]{1,4}"
#define IPV6                                                                                       \
    "(?:(?:" H16 ":){7}" H16 "|(?:" H16 ":){1,7}:|(?:" H16 ":){1,6}:" H16 "|(?:" H16               \
    ":){1,5}(?::" H16 "){1,2}|(?:" H16 ":){1,4}(?::" H16 "){1,3}"                                  \
    "|(?:" H16 ":){1,3}(?::" H16 "){1,4}|(?:" H16 ":){1,2}(?::" H16 "){1,5}"                       \
    "|" H16 ":(?::" H16 "){1,6}|:(?:(?::" H16 "){1,7}|:))"
// At most 63 characters, and no "--", which starts the second half of an encoded name.
#define LABEL "[a-zA-Z0-9]{1,15}(?:-[a-zA-Z0-9]{1,15}){0,3}"
#define HOST  LABEL "(?:\\." LABEL ")*"
// At most 253 characters: three labels of any length, or ten of at most 23.
#define SHORT "[a-zA-Z0-9]{1,11}(?:-[a-zA-Z0-9]{1,11})?"
#define NAME  "(?:" LABEL "(?:\\." LABEL "){0,2}|" SHORT "(?:\\." SHORT "){0,9})"
#define ATOM  "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
#define PCHAR "(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})"

static const struct format {
    const char *name, *expression; // NULL: known and not supported
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"uuid", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
    {"email", ATOM "(?:\\." ATOM ")*@" LABEL "(?:\\." LABEL ")+"},
    {"hostname", NAME},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uri", "[a-zA-Z][a-zA-Z0-9+.-]{0,15}://" HOST "(?::\\d{1,5})?(?:/" PCHAR "*)*(?:\\?(?:" PCHAR
            "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"},
    {"duration", NULL},
    {"idn-email", NULL},
    {"idn-hostname", NULL},
    {"iri", NULL},
    {"iri-reference", NULL},
    {"json-pointer", NULL},
    {"regex", NULL},
    {"relative-json-pointer", NULL},
    {"uri-reference", NULL},
    {"uri-template", NULL},
};

const char *format_expression(const char *name, size_t len, bool *is_known) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strlen(formats[i].name) != len || memcmp(formats[i].name, name, len) != 0) continue;
        *is_known = true;
        return formats[i].expression;
    }
    *is_known = false;
    return NULL;
}
