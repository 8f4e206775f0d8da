#!/bin/bash
# Traces of requests as a collector gets them; see tests/npm/otlp.mjs.
. "$ROOT/tests/e2e/lib.sh"
for variable in "${!OTEL_@}"; do unset "$variable"; done
node_tests otlp.mjs
