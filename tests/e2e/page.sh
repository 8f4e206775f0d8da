# The page in a real browser (tests/npm/page.mjs drives Chromium) against a real server. The server's
# steps wait on the fake device, so that an answer takes seconds and can be stopped.
# label: long waits
. "$(dirname "$0")/lib.sh"

npm=$ROOT/tests/npm
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if ! command -v node >/dev/null; then
    echo "skipped: there is no node"
    exit 77
elif [ ! -d "$npm/node_modules/playwright-core" ]; then
    echo "skipped: tests/npm has no playwright-core (npm install brings it)"
    exit 77
elif [ -z "$chromium" ]; then
    echo "skipped: there is no chromium"
    exit 77
fi

servers=()
trap 'for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; done; rm -rf "$work"' EXIT

# serve NAME ARG...: starts a server on a free port.
serve() {
    local name=$1
    shift
    "$BIN" serve --port 0 "$@" >"$name.log" 2>&1 </dev/null &
    servers+=($!)
}

# address NAME: waits for the server, and leaves its address in $url.
address() {
    local name=$1 i
    for i in $(seq 600); do
        url=$(sed -n 's/.*ready at \(http:[^ ]*\).*/\1/p' "$name.log")
        [ -n "$url" ] && return
        sleep 0.1
    done
    fail "$name: no server: $(head -c 2000 "$name.log")"
    finish
}

# Drafts are made whether they pay or not.
slow=(--threads 1 --backend "$BUILD/tests/runnel_fake.so")
export RUNNEL_FAKE="delay 8000"
serve open "${slow[@]}" --draft-min 1
serve locked "${slow[@]}" --api-key secret-of-the-test
serve bare --no-ui
serve tight --threads 1 --ctx 128
urls=()
for name in open locked bare tight; do
    address $name
    urls+=("$url")
done

expect "the page" env CHROMIUM="$chromium" node "$npm/page.mjs" "${urls[@]}"
finish
