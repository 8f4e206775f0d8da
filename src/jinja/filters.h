// The filters' functions, by file; filters.c has the table. Methods of strings that do the same
// share them.
#ifndef RN_JINJA_FILTERS_H
#define RN_JINJA_FILTERS_H

#include "jinja/render.h"

// filters_text.c
entry_fn jinja_filter_capitalize, jinja_filter_center, jinja_filter_escape,
    jinja_filter_forceescape, jinja_filter_format, jinja_filter_indent, jinja_filter_join,
    jinja_filter_lower, jinja_filter_replace, jinja_filter_safe, jinja_filter_string,
    jinja_filter_striptags, jinja_filter_title, jinja_filter_tojson, jinja_filter_trim,
    jinja_filter_truncate, jinja_filter_upper, jinja_filter_urlencode, jinja_filter_wordcount;

// filters_seq.c
entry_fn jinja_filter_batch, jinja_filter_first, jinja_filter_items, jinja_filter_last,
    jinja_filter_length, jinja_filter_list, jinja_filter_map, jinja_filter_reject,
    jinja_filter_rejectattr, jinja_filter_reverse, jinja_filter_select, jinja_filter_selectattr,
    jinja_filter_slice, jinja_filter_sum;

// filters_sort.c
entry_fn jinja_filter_dictsort, jinja_filter_groupby, jinja_filter_max, jinja_filter_min,
    jinja_filter_sort, jinja_filter_unique;

#endif
