#!/bin/bash
# Access to routes, and the refusal of requests; see tests/npm/routes.mjs.
. "$ROOT/tests/e2e/lib.sh"
node_tests routes.mjs
