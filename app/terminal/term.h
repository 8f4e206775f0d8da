// The terminal: whether colour and moving bars are wanted, bars, progress, numbers as people read
// them.
#ifndef RN_APP_TERM_H
#define RN_APP_TERM_H

#include "app.h"

struct term {
    bool out_tty, err_tty;
    bool out_color, err_color;
    bool moves; // standard output is a terminal that can move its cursor
    bool utf8;
};

// Columns of the terminal behind fd; a large number where there is none or it does not say.
int term_columns(int fd);

void term_init(struct term *term, const struct options *options);
// The escape sequences, or "" without colour.
const char *term_dim(bool color);
const char *term_bold(bool color);
const char *term_red(bool color);
const char *term_reset(bool color);

// A bar of `width` cells of which `share` (clamped to 0..1) are full. buffer: 3 * width + 1 bytes.
const char *term_bar(const struct term *term, double share, int width, char *buffer);

// Model text to standard output. On a terminal, control characters that could drive it are
// replaced. False: it could not be written (errno).
bool term_write(const struct term *term, const char *text, size_t len);

// Whether the character is a control character that could drive a terminal: neither tab, line feed
// nor carriage return.
bool term_drives(const char *c, int len);

// Text from a file made printable: control characters and bad bytes become \xNN. At most `limit`
// bytes are read.
void term_print_escaped(FILE *out, const char *text, size_t len, size_t limit);

// "21.9 MB", decimal units.
const char *human_bytes(double bytes, char buffer[32]);
// "21,889,152".
const char *human_count(uint64_t value, char buffer[32]);

// A bar on stderr that appears only on a terminal and after 200 ms. It takes one line at any width;
// progress_end erases it.
struct progress {
    const struct term *term;
    const char *label;
    uint64_t start_ns, shown_ns;
    int columns; // that are on the screen; 0: none
};
void progress_begin(struct progress *progress, const struct term *term, bool quiet,
                    const char *label);
// Fits rn_progress_fn; ctx is a struct progress.
void progress_update(void *ctx, uint64_t done, uint64_t total);
// Shows the bar without the wait, for work that is known to take long.
void progress_show(struct progress *progress, uint64_t done, uint64_t total);
void progress_end(struct progress *progress);

#endif
