#!/bin/bash
# Anthropic's client library; see tests/npm/anthropic.mjs.
. "$ROOT/tests/e2e/lib.sh"
node_tests anthropic.mjs @anthropic-ai/sdk
