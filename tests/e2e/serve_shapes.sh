#!/bin/bash
# Client libraries that ask for shapes and calls; see tests/npm/shapes.mjs.
. "$ROOT/tests/e2e/lib.sh"
node_tests shapes.mjs openai @anthropic-ai/sdk ai @ai-sdk/openai-compatible @ai-sdk/anthropic zod
