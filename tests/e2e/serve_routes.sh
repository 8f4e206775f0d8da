#!/bin/bash
# Who may call what, and how requests are refused; see tests/npm/routes.mjs.
. "$ROOT/tests/e2e/lib.sh"
node_tests routes.mjs
