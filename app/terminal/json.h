// JSON output for all commands: values that jansson would refuse, and printing with its errors.
#ifndef RN_APP_JSON_H
#define RN_APP_JSON_H

#include <jansson.h>

#include "app.h"

// value, or null where it is not finite.
json_t *json_number(double value);
// A string of any bytes; invalid UTF-8 becomes U+FFFD. NULL: out of memory.
json_t *json_text(const char *data, size_t len);
// Takes value over, NULL too. False: out of memory.
bool json_put(json_t *object, const char *key, json_t *value);
// rows with object behind them; takes both over, object may be NULL. NULL: memory ran out, now or,
// where !ok, before.
json_t *json_append(json_t *rows, json_t *object, bool ok);
// Whether a text could not be read because memory ran out; then problem has no message.
bool json_no_memory(const json_error_t *problem);
// "an object", "a number", for messages.
const char *json_kind(const json_t *value);

// Prints value as a line on stdout and releases it; NULL is a value for which memory ran out. On
// failure the error has been printed and the exit code is returned.
int json_print(json_t *value, size_t flags);
// The same as CSV, for an array of objects with the same keys: a line of keys, then one line per
// object. A null is an empty cell; an array is JSON in its cell.
int json_csv_print(json_t *rows, size_t flags);
// The same: an object per line; a table runnel_bench, with a column for each key.
int json_lines_print(json_t *rows, size_t flags);
int json_sql_print(json_t *rows, size_t flags);

#endif
