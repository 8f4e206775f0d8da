#!/bin/bash
# The AI SDK with Anthropic's provider as a client; see tests/npm/ai_anthropic.mjs.
. "$ROOT/tests/e2e/lib.sh"
node_tests ai_anthropic.mjs ai @ai-sdk/anthropic
