// The page's files, embedded from web/ when the program was built (assets_table.c is generated).
#ifndef RN_SERVER_ASSETS_H
#define RN_SERVER_ASSETS_H

#include <stddef.h>

struct asset {
    const char *path; // "/", "/assets/chat.js"
    const char *type;
    const char *etag; // quoted
    const unsigned char *data;
    size_t size;
};

const struct asset *asset_find(const char *path); // NULL: none

#endif
