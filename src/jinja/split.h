// The methods of strings that cut them.
#ifndef RN_JINJA_SPLIT_H
#define RN_JINJA_SPLIT_H

#include "jinja/table.h"

entry_fn jinja_str_partition, jinja_str_rpartition, jinja_str_rsplit, jinja_str_split,
    jinja_str_splitlines;

#endif
