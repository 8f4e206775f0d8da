// The backends that backend.c's table names; each folder defines its own.
#ifndef RN_BACKEND_TABLE_H
#define RN_BACKEND_TABLE_H

#include "backend/backend.h"

extern const struct backend_class backend_cpu;

#endif
