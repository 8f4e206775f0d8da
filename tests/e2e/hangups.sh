#!/bin/bash
# Streams whose clients hang up give descriptors and connections back at once, also while older
# connections stay open.
# label: long
. "$ROOT/tests/e2e/lib.sh"
expect "600 hang-ups leave nothing behind" "$HANGUPS" "$BIN" 600 16
finish
