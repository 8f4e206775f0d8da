#!/bin/bash
# Client libraries and streams of tool calls; see tests/npm/tools.mjs.
. "$ROOT/tests/e2e/lib.sh"
node_tests tools.mjs openai @anthropic-ai/sdk ai @ai-sdk/openai-compatible @ai-sdk/anthropic
