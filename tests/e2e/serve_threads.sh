#!/bin/bash
# Threads of Anthropic's client library; see tests/npm/threads.mjs.
. "$ROOT/tests/e2e/lib.sh"
node_tests threads.mjs @anthropic-ai/sdk zod
