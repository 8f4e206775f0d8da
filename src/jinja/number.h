// Numbers as Python reads and prints them, whatever the locale.
#ifndef RN_JINJA_NUMBER_H
#define RN_JINJA_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum number_result { NUMBER_BAD, NUMBER_OK, NUMBER_BIG };
enum { NUMBER_ROOM = 40, NUMBER_MAX_PRECISION = 250, NUMBER_FORMAT_ROOM = 640 };

// int(text, base): blanks around, a sign, underscores between digits. Base 0 takes the prefix's.
// BIG: it is an integer but does not fit.
enum number_result number_parse_int(const char *text, size_t len, int base, int64_t *out);
// float(text): also inf and nan; past 400 characters no number.
bool number_parse_float(const char *text, size_t len, double *out);

// repr(f): the shortest text that reads back as f. Returns its length.
size_t number_float_repr(double f, char out[NUMBER_ROOM]);
// "%.<precision><conversion>" for e, f, g and their capitals; is_alt: '#'. precision at most
// NUMBER_MAX_PRECISION, f finite.
size_t number_format(double f, char conversion, int precision, bool is_alt,
                     char out[NUMBER_FORMAT_ROOM]);

// round(f, precision), half to even on the exact value.
double number_round(double f, int precision);

#endif
