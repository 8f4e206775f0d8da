# `runnel serve` whose output no process reads: it continues to serve, ends on a signal, and reports how
# many lines of its log were lost. The same holds if the reader has gone or the disk is full.
# label: long waits
. "$(dirname "$0")/lib.sh"

mkfifo pipe
exec {hold}<>pipe # it has a reader, who does not read

# fill_pipe: nothing fits any more.
fill_pipe() { timeout 1 head -c 1000000 /dev/zero >pipe; }

# empty_pipe: leaves what was in it in ./lines.
empty_pipe() {
    local in
    exec {in}<pipe {hold}>&-
    timeout 60 cat <&"$in" >lines
    exec {in}>&- {hold}<>pipe
}

# await WHAT: /health must say that it is ready.
await() {
    local i
    for ((i = 0; i < 600; i++)); do
        kill -0 $pid 2>/dev/null || break
        (ask GET /health '') 2>/dev/null | grep -q '^HTTP/1.1 200 ' && return
        sleep 0.05
    done
    fail "$1: it is not ready"
}

# start OPTION...: serves with its standard output in ./pipe; leaves pid and port.
start() {
    : >said
    "$BIN" serve --port 0 -t 1 -q --access-log - "$@" >pipe 2>said </dev/null &
    pid=$!
    ready "with $*"
}

# ends WHAT CODE SIGNAL [SIGNAL]: it must end so, soon, after the signals.
ends() {
    local what=$1 status=$2 begin=$SECONDS i
    kill "-$3" $pid
    if [ "${4:-}" ]; then
        sleep 0.5
        kill "-$4" $pid 2>/dev/null
    fi
    for ((i = 0; i < 300; i++)); do
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL $pid 2>/dev/null # what hangs is a failure, not a wait
    wait $pid
    equal "$what: the status" "$status" $?
    expect "$what: it ends soon" [ $((SECONDS - begin)) -le 15 ]
}

# healthy WHAT COUNT: this many calls are answered, and quickly.
healthy() {
    local answers longest
    # shellcheck disable=SC2154  # the test runner sets ASKS
    read -r answers longest < <("$ASKS" "$port" "$2" /health)
    equal "$1: /health is answered" "$2" "$answers"
    expect "$1: and quickly, in $longest ms" [ "$longest" -lt 3000 ]
    ask POST /v1/completions '{"prompt":"Once","max_tokens":4}' >answer
    expect "$1: completions are" grep -q '^HTTP/1.1 200 ' answer
}

# dropped: prints what /metrics says.
dropped() { ask GET /metrics '' | sed -n 's/^runnel:access_log_dropped_total{.*} //p'; }

# The access log.
calls=9000 # more than the pipe and the server's memory take
start
equal "nothing was dropped" 0 "$(dropped)"
healthy "an unread log" $calls
expect "lines were dropped" [ "$(dropped)" -gt 100 ]
ends "an unread log" 0 TERM
lost=$(sed -n 's/^runnel: warning: \([0-9]*\) lines of the access log could not be written$/\1/p' said)
empty_pipe
equal "each line was written or counted" $((calls + 3)) $(($(wc -l <lines) + ${lost:-0}))
equal "lines are whole" "$(wc -l <lines)" "$(grep -c '^{"time":.*}$' lines)"
for signal in TERM INT; do
    start
    healthy "an unread log" 1000
    ends "an unread log, twice SIG$signal" 130 $signal $signal
    empty_pipe
done

# A reader that reads gets all: calls come in parts that the server's memory takes, since a busy machine may stop the
# reader for a while.
read_lines() { [ "$(wc -l <lines)" -ge "$1" ]; }
exec {in}<pipe
timeout 60 cat <&"$in" >lines {hold}>&- &
reader=$!
start
for part in 1 2 3; do
    healthy "a log that is read" 1000
    until_true "the reader has part $part" read_lines $((part * 1001))
done
ends "a log that is read" 0 TERM
exec {in}>&- {hold}>&-
wait $reader
exec {hold}<>pipe
equal "a log that is read has all" 3003 "$(grep -c '^{"time":.*}$' lines)"
equal "nothing is said of it" 1 "$(wc -l <said)"

# Standard error, full from the beginning. The port is that of the one before.
for signals in TERM "TERM TERM" INT "INT INT"; do
    fill_pipe
    "$BIN" serve --port "$port" -t 1 >served 2>pipe </dev/null &
    pid=$!
    await "an unread standard error"
    healthy "an unread standard error" 500
    status=0
    [ "$signals" = TERM ] || status=130
    # shellcheck disable=SC2086  # the list is to be split
    ends "an unread standard error, $signals" $status $signals
    empty_pipe
done

# While the model is loaded, a signal ends it too.
fill_pipe
"$BIN" serve --port "$port" -t 1 >served 2>pipe </dev/null &
pid=$!
sleep 0.02
kill -TERM $pid
wait $pid
code=$?
expect "a signal at the beginning ends it: $code" [ $code -eq 0 -o $code -eq 143 ]
empty_pipe

# A reader that has gone, a full disk: the work was done.
# lossy WHAT FILE: of a server that writes its log there.
lossy() {
    start --access-log "$2"
    healthy "$1" 200
    expect "$1: lines are counted" [ "$(dropped)" -ge 201 ]
    ends "$1" 0 TERM
}
lossy "a full disk" /dev/full
mkfifo gone
# shellcheck disable=SC2217  # it only opens it
sleep 60 <gone & # a reader, until the log was opened
sleeper=$!
: >said
"$BIN" serve --port "$port" -t 1 -q --access-log - >gone 2>said </dev/null &
pid=$!
await "a reader that has gone"
kill $sleeper
wait $sleeper 2>/dev/null
healthy "a reader that has gone" 200
expect "a reader that has gone: lines are counted" [ "$(dropped)" -ge 200 ]
ends "a reader that has gone" 0 TERM
finish
