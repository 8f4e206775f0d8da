#!/bin/bash
# The AI SDK with OpenAI's provider; see tests/npm/ai_openai.mjs.
. "$ROOT/tests/e2e/lib.sh"
node_tests ai_openai.mjs ai @ai-sdk/openai
