#!/bin/bash
# What /metrics says against what a client measures; see tests/npm/metrics.mjs.
. "$ROOT/tests/e2e/lib.sh"
node_tests metrics.mjs
