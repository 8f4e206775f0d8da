#!/bin/bash
# The figures of /metrics against those that a client measures; see tests/npm/metrics.mjs.
. "$ROOT/tests/e2e/lib.sh"
node_tests metrics.mjs
