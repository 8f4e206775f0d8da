// Numbers as Python reads and prints them, in every locale.
#ifndef RN_JINJA_NUMBER_H
#define RN_JINJA_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum number_result { NUMBER_BAD, NUMBER_OK, NUMBER_BIG };
enum { NUMBER_ROOM = 40 };

// int(text): blanks around, a sign, underscores between digits. BIG: it does not fit 64 bits.
enum number_result number_parse_int(const char *text, size_t len, int64_t *out);
// float(text), but neither inf nor nan; past 400 characters no number.
bool number_parse_float(const char *text, size_t len, double *out);
// repr(f): the shortest text that reads back as f. Returns its length.
size_t number_float_repr(double f, char out[NUMBER_ROOM]);

#endif
