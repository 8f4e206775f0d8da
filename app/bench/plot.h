// Plots as SVG files: bars of shares, or lines over an axis. It knows no rows; chart.c turns rows
// into a plot.
#ifndef RN_APP_BENCH_PLOT_H
#define RN_APP_BENCH_PLOT_H

#include <stdbool.h>

enum { PLOT_LABEL = 160 };

struct plot_item {
    char label[PLOT_LABEL];
    int line; // items of one line follow each other, in the order they are joined
    double x;
    char point[16];          // of lines: a text at the point; "": none
    double y;                // of lines, and beside a bar
    double share;            // of bars, 0 to 1
    double peer, peer_share; // y and share of the peer; NaN: none
};

struct plot {
    const char *title, *x_name, *y_name;
    char subtitle[200];
    const char *peer_name; // NULL: none
    bool bars;
    bool log_x, log_y;      // all values are above 0
    struct plot_item *item; // [n]
    int n;
};

// On failure the error has been printed and the exit code is returned.
int plot_write(const struct plot *plot, const char *path);
// Whether the file can be written, asked before anything is measured.
int plot_check(const char *option, const char *path); // option: its name, for the message

#endif
