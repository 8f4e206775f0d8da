#!/bin/bash
# Many clients at once; see tests/npm/streams.mjs.
# label: long
. "$ROOT/tests/e2e/lib.sh"
node_tests streams.mjs
