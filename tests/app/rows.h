// Walks the option table: every option of every command.
#ifndef RN_TESTS_APP_ROWS_H
#define RN_TESTS_APP_ROWS_H

#include "app/parsed.h"

// Calls fn for each option of each command.
typedef void (*row_fn)(enum command_id command, enum option_id id, const struct option_row *row);

static inline void each_row(row_fn fn) {
    for (int command = 0; command < COMMAND_COUNT; command++) {
        for (int id = 0; id < OPT_COUNT; id++) {
            struct option_row row;
            if (option_row_get((enum command_id)command, (enum option_id)id, &row))
                fn((enum command_id)command, (enum option_id)id, &row);
        }
    }
}

#endif
