# The tracked files together stay small: large files are made at build time (tests/data/README.md).
#   repository_size.sh [LIMIT]    in MiB
. "$(dirname "$0")/lib.sh"

limit=${1:-40}
if [ "$(git -C "$ROOT" rev-parse --show-toplevel 2>/dev/null)" != "$(realpath "$ROOT")" ]; then
    echo "skipped: $ROOT is no git checkout, or there is no git"
    exit 77
fi

# A file that is tracked but was deleted has no size.
(cd "$ROOT" && git ls-files -z | xargs -0 stat -c '%s %n' 2>/dev/null) >sizes
total=$(awk '{ sum += $1 } END { printf "%d", sum }' sizes)
echo "$(wc -l <sizes) tracked files, $total bytes, $(awk "BEGIN { printf \"%.1f\", $total / 1048576 }") MiB of $limit"
expect "there are tracked files" [ "$total" -gt 0 ]
expect "tracked files have $total bytes, more than $limit MiB; the largest: $(sort -rn sizes | head -n 10 | tr '\n' ';')" \
    [ "$total" -le $((limit * 1048576)) ]
finish
