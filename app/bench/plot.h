// The plot of a bench as an SVG file.
#ifndef RN_APP_PLOT_H
#define RN_APP_PLOT_H

#include "bench/bench.h"

// Bars of each decoding test's share of the bandwidth; or, where several depths, streams or thread
// counts were measured, lines of tokens/s over the first of these that varies. Without decoding,
// prompts and their share of the arithmetic peak instead. Ratios: lines over n_verify, the length
// of drafts, with the peer dashed. On failure the error has been printed and the exit code is
// returned.
int plot_write(const struct bench *bench, const char *path);
// Whether the file can be written, asked before anything is measured; as above.
int plot_check(const char *path);

#endif
