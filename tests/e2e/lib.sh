# Shared by the end-to-end scripts. The test runner sets BIN (the program), JSONGET and the other
# helpers, ROOT (the sources), BUILD and SAN (the sanitizer, if any). DATA and MODELS hold the files of
# tests/data and models, tracked and made by the build. Work happens in a temporary folder; a failed
# check is printed, and makes the script fail at its end.
# shellcheck shell=bash
set -u
for variable in "${!RUNNEL_@}"; do unset "$variable"; done
unset NO_COLOR
export LC_ALL=C.UTF-8
export TINY=$DATA/golden/llama/model.gguf
export SMALL=$MODELS/tale-1m-f16.gguf # a start with it takes a tenth of the embedded model's CPU time
export VOCAB=$DATA/tokenizers/gpt-2/vocab.gguf
work=$(mktemp -d)
trap '[ "$BASHPID" = $$ ] && rm -rf "$work"' EXIT # a child that has not become its program yet must not
cd "$work" || exit 1
checks=0
failures=0
runner=() # what the program is run by

# fail WHAT: notes a failed check.
fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}

# run ARG...: runs the program; leaves code, ./out and ./err. Standard input is empty unless given.
run() {
    "${runner[@]}" "$BIN" "$@" >out 2>err </dev/null
    code=$?
}

# expect WHAT COMMAND...: the command must succeed.
expect() {
    local what=$1
    shift
    checks=$((checks + 1))
    "$@" || fail "$what"
}

# equal WHAT EXPECTED ACTUAL
equal() {
    checks=$((checks + 1))
    [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"
}

# refused CODE PATTERN ARG...: the program must end with CODE and one line on stderr that matches.
refused() {
    local want=$1 pattern=$2
    shift 2
    run "$@"
    checks=$((checks + 1))
    if [ "$code" != "$want" ] || [ "$(wc -l <err)" != 1 ] || ! grep -q -- "^runnel: .*$pattern" err; then
        fail "runnel $(head -c 100 <<<"$*"): expected exit $want and one line with '$pattern', got exit $code and: $(head -c 2000 err)"
    fi
}

# json FILE PATH: prints a value of a JSON file.
json() { "$JSONGET" "$2" <"$1"; }

# node_tests FILE [PACKAGE...]: runs the tests of tests/npm/FILE; skipped where they cannot work.
node_tests() {
    local file=$ROOT/tests/npm/$1 package
    shift
    if ! node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)' 2>/dev/null; then
        echo "skipped: there is no node, or one before 20"
        exit 77
    fi
    for package; do
        [ -d "$ROOT/tests/npm/node_modules/$package" ] && continue
        echo "skipped: tests/npm/node_modules has no $package (npm install puts it there)"
        exit 77
    done
    export BIN ROOT SAN
    SAN=${SAN:-} node --test --test-reporter=spec "$file"
    exit
}

# slowly MICROSECONDS: sets `slow` to options with which a step takes that much longer. The steps wait
# on the fake device, which takes no core; sanitizers are slow without it.
slowly() {
    slow=(-t 1 --speculate off --backend "$BUILD/tests/runnel_fake.so")
    [ -z "$SAN" ] || slow=(-t 1 --speculate off --isa scalar)
    export RUNNEL_FAKE="delay $1"
}

# Programs that take all cores, until spin_end.
spin() {
    spinners=()
    for _ in $(seq "$(nproc)"); do
        sh -c 'while :; do :; done' &
        spinners+=($!)
    done
}
spin_end() {
    kill "${spinners[@]}"
    wait "${spinners[@]}" 2>/dev/null
}

# ask METHOD PATH [BODY [HEADER]]: prints the answer of the server at `port`, head and all.
ask() {
    local fd
    exec {fd}<>"/dev/tcp/127.0.0.1/$port" || return
    printf '%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n%s' \
        "$1" "$2" "${#3}" "${4:+$4$'\r\n'}" "${3:-}" >&"$fd"
    timeout 600 cat <&"$fd"
    exec {fd}>&-
}

# until_true WHAT COMMAND...: until the command succeeds, for 30 s.
until_true() {
    local what=$1 i
    shift
    for ((i = 0; i < 600; i++)); do
        "$@" && return
        sleep 0.05
    done
    fail "$what"
}

# ready WHAT: waits until the server `pid`, whose messages are in ./said, is ready; leaves its port.
ready() {
    local i
    port=
    for ((i = 0; i < 600 && ${#port} == 0; i++)); do
        port=$(sed -n 's/.* is ready at [^ ]*:\([0-9][0-9]*\).*/\1/p' said)
        kill -0 "$pid" 2>/dev/null || break
        [ "$port" ] || sleep 0.05
    done
    expect "it is ready $1: $(cat said)" [ "$port" ]
}

# start OPTION...: serves on a free port; leaves pid and port, its output in ./served and ./said.
start() {
    : >said
    "$BIN" serve --port 0 -t 1 "$@" >served 2>said </dev/null &
    pid=$!
    ready "with $*"
}

finish() {
    echo "$checks checks, $failures failed"
    [ "$failures" -eq 0 ] && [ "$checks" -gt 0 ]
    exit
}
