// The generated table of the page's files; its last row has no path.
#ifndef RN_SERVER_ASSETS_TABLE_H
#define RN_SERVER_ASSETS_TABLE_H

#include "assets.h"

extern const struct asset assets_table[];

#endif
