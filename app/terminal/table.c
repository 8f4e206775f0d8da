// Tables of the benches that measure the engine.
#include "terminal/table.h"

#include <limits.h>
#include <math.h>
#include <unistd.h>

void table_fit(struct table *table, const struct term *term, const int *order, int n_order,
               int least) {
    int room = term->out_tty ? term_columns(STDOUT_FILENO) : INT_MAX;
    room -= 1; // the first border
    for (int i = 0; i < table->n; i++) table->shown[i] = false;
    for (int i = 0; i < n_order; i++) {
        const int width = table->width[order[i]] + 3;
        table->shown[order[i]] = i < least || width <= room;
        if (table->shown[order[i]]) room -= width;
    }
}

void table_head_print(const struct table *table) {
    putchar('|');
    for (int i = 0; i < table->n; i++)
        if (table->shown[i]) printf(" %*s |", table->width[i], table->name[i]);
    fputs("\n|", stdout);
    for (int i = 0; i < table->n; i++) {
        if (!table->shown[i]) continue;
        putchar(' ');
        for (int j = 1; j < table->width[i]; j++) putchar('-');
        fputs(": |", stdout);
    }
    putchar('\n');
}

void table_row_print(const struct table *table, table_cell_fn cell, const void *row) {
    putchar('|');
    for (int i = 0; i < table->n; i++) {
        char text[TABLE_CELL];
        if (!table->shown[i]) continue;
        cell(row, i, text);
        printf(" %*s |", table->width[i], text);
    }
    putchar('\n');
}

void table_number(double value, int digits, const char *unit, char out[TABLE_CELL]) {
    *out = '\0';
    if (isfinite(value)) snprintf(out, TABLE_CELL, "%.*f%s", digits, value, unit);
}
