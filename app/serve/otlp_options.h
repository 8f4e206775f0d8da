// The exporter of spans as the user wants it: --otlp-endpoint, and the environment variables that
// OpenTelemetry gives every program.
#ifndef RN_SERVE_OTLP_OPTIONS_H
#define RN_SERVE_OTLP_OPTIONS_H

#include "options/options.h"

struct otlp;

// *out is NULL where no endpoint is given. Returns an exit code; a refusal has been printed.
int otlp_open(const struct options *options, bool quiet, struct otlp **out);

#endif
