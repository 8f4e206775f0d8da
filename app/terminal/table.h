// A table of fixed columns, printed row by row as markdown: right-aligned, in columns of fixed
// width, so that a row can be shown before the next is known. A longer cell moves its row only.
#ifndef RN_APP_TABLE_H
#define RN_APP_TABLE_H

#include "terminal/term.h"

enum { TABLE_MAX_COLUMNS = 16, TABLE_CELL = 64 };

struct table {
    const char *name[TABLE_MAX_COLUMNS];
    int width[TABLE_MAX_COLUMNS];
    bool shown[TABLE_MAX_COLUMNS];
    int n;
};

// Shows the columns of order[n_order] for which the terminal has room, the first `least` anyway;
// everything where there is no terminal.
void table_fit(struct table *table, const struct term *term, const int *order, int n_order,
               int least);
void table_head_print(const struct table *table);
// Writes a cell's text.
typedef void (*table_cell_fn)(const void *row, int column, char out[TABLE_CELL]);
void table_row_print(const struct table *table, table_cell_fn cell, const void *row);

// Text of a cell: empty where the value is not finite.
void table_number(double value, int digits, const char *unit, char out[TABLE_CELL]);

#endif
