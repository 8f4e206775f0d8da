// Names of the tables of `runnel plan`, for completions of command lines.
#ifndef RN_APP_PLAN_NAMES_H
#define RN_APP_PLAN_NAMES_H

#include <stdio.h>

// With a blank between two names.
void plan_shapes_put(FILE *out);
void plan_devices_put(FILE *out);

#endif
