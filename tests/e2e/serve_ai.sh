#!/bin/bash
# The AI SDK as a client; see tests/npm/ai.mjs.
. "$ROOT/tests/e2e/lib.sh"
node_tests ai.mjs ai @ai-sdk/openai-compatible
