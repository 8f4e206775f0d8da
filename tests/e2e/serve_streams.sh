#!/bin/bash
# Many clients at once; see tests/npm/streams.mjs.
. "$ROOT/tests/e2e/lib.sh"
command -v node >/dev/null || { echo "node is not installed"; exit 77; }
export BIN SAN=${SAN:-}
exec node --test --test-reporter=spec "$ROOT/tests/npm/streams.mjs"
