#!/bin/bash
# Ollama's client library; see tests/npm/ollama.mjs.
. "$ROOT/tests/e2e/lib.sh"
node_tests ollama.mjs ollama zod
