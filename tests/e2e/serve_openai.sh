#!/bin/bash
# OpenAI's client library; see tests/npm/openai.mjs.
. "$ROOT/tests/e2e/lib.sh"
node_tests openai.mjs openai
