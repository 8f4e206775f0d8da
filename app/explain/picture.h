// A record on a terminal: its sentences, bars of the causes, and the stream's time as a strip of
// blocks. Callers: `runnel explain`, and `runnel run --explain`.
#ifndef RN_EXPLAIN_PICTURE_H
#define RN_EXPLAIN_PICTURE_H

#include <stdio.h>

#include "record/record.h"

struct picture {
    FILE *out;
    int columns; // of a line
    bool color, utf8;
};

// For this stream, as wide as its terminal, within bounds.
struct term;
struct picture picture_on(FILE *out, const struct term *term);
// All choices of the record. False: out of memory.
bool picture_print(const struct picture *picture, const struct record *record);

#endif
