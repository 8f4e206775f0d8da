// The library's helpers for the program, beside the public interface: the clock, the number of
// cores, low priority, error texts, UTF-8 and the reader of JSON. None of it knows a model.
// app/server includes runnel.h and this alone, so it is a client like any other; the tools that
// look inside a model include tools.h.
#ifndef RN_HELPERS_H
#define RN_HELPERS_H

#include "base/background.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/jread.h"
#include "base/status.h"
#include "unicode/unicode.h"

#endif
