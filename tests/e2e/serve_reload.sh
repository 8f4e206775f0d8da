# SIGHUP and SIGUSR1: the access log is opened again without losing a line or cutting a stream, and a
# terminal that goes away lets `runnel serve` finish.
# label: long waits
# While a busy disk holds the log up, lines find no room and are dropped; memory holds none up.
[ -w /dev/shm ] && export TMPDIR=/dev/shm
. "$(dirname "$0")/lib.sh"

# start OPTION...: serves on a free port; leaves pid and port, its messages in ./said.
start() {
    : >said
    "$BIN" serve --port 0 -t 1 -q "$@" >served 2>said </dev/null &
    pid=$!
    ready "with $*"
}

# stop: it must end well.
stop() {
    kill -TERM $pid
    wait $pid
    equal "the status" 0 $?
}

# Rotation, while requests come.
for signal in HUP USR1; do
    rm -f log*
    start --access-log log
    # shellcheck disable=SC2154,SC2153  # the test runner sets ASKS
    "$ASKS" "$port" 8000 /health >asked &
    asks=$!
    for n in 1 2 3 4; do
        ask GET /health '' >answer # the others may be through already
        until_true "the log has lines" [ -s log ]
        mv log log.$n
        kill -$signal $pid
        until_true "SIG$signal: there is a new log" [ -e log ]
    done
    wait $asks
    ask GET /v1/models '' >answer
    stop
    equal "SIG$signal: all was answered" 8000 "$(cut -d ' ' -f 1 asked)"
    equal "SIG$signal: the files have a line for each" 8005 "$(cat log log.? | grep -c '^{"time":.*}$')"
    equal "SIG$signal: and nothing else" 8005 "$(cat log log.? | wc -l)"
    expect "SIG$signal: the last one is in the new file" grep -q '"route":"/v1/models"' log
    cat log.1 log.2 log.3 log.4 log | sed 's/^{"time":"\([^"]*\)".*/\1/' >moments
    expect "SIG$signal: in order" sort -c moments
    equal "SIG$signal: nothing is said" 1 "$(wc -l <said)"
done

# A path that cannot be opened: the old file stays.
start --access-log log
mv log log.old
mkdir log
kill -HUP $pid
until_true "a log that cannot be opened is named" grep -q '^runnel: warning: log: Is a directory; the access log stays' said
ask GET /v1/models '' >answer
stop
expect "the old file has the line" grep -q '"route":"/v1/models"' log.old
rmdir log

# A renewed certificate, a pair that does not fit together, and a file that is gone.
if command -v openssl >/dev/null; then
    certificate() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" -keyout key.pem -out cert.pem 2>/dev/null; }
    name() { openssl s_client -connect "127.0.0.1:$port" </dev/null 2>/dev/null | sed -n 's/^subject=CN = //p'; }
    named() { [ "$(name)" = "$1" ]; }
    certificate first
    "$BIN" serve --port 0 -t 1 -q --tls-cert cert.pem --tls-key key.pem --access-log log >served 2>said </dev/null &
    pid=$!
    until_true "it is ready" grep -q 'is ready at https:' said
    port=$(sed -n 's/.*https:[^ ]*:\([0-9]*\).*/\1/p' said)
    equal "the certificate" first "$(name)"
    certificate second
    kill -HUP $pid
    until_true "the renewed certificate" named second
    cp key.pem other.pem
    certificate third
    cp other.pem key.pem
    kill -HUP $pid
    until_true "a pair that does not fit: $(cat said)" grep -q "^runnel: warning: --tls-cert, --tls-key: the key is not the certificate's: .*; the old certificate stays" said
    rm cert.pem
    mv log log.0
    kill -HUP $pid
    until_true "a file that is gone: $(cat said)" grep -q '^runnel: warning: cert.pem: No such file or directory; the old certificate stays' said
    until_true "the log is opened again all the same" [ -e log ]
    equal "the old one stays" second "$(name)"
    stop
fi

# A stream, also without a log. Its steps take time, so that it is there when the signals come; on a busy machine, which
# may run the server and not this script, more time.
tokens=$([ -n "$SAN" ] && echo 40 || echo 400)
for log in "" "--access-log=log"; do
    for delay in 500 5000 50000; do
        slowly $delay
        start "${slow[@]}" ${log:+"$log"}
        : >stream
        ask POST /v1/completions '{"prompt":"Once","max_tokens":'"$tokens"',"n":8,"ignore_eos":true,"stream":true}' >stream &
        reader=$!
        until_true "the stream begins" grep -q '^data: ' stream
        for signal in HUP USR1 HUP; do
            kill -$signal $pid
            sleep 0.02
        done
        streaming=$(grep -c '^data: \[DONE\]' stream)
        kill -TERM $pid
        sleep 0.02
        kill -HUP $pid # does not cut the drain short either
        wait $pid
        equal "it ends well" 0 $?
        wait $reader
        equal "the stream is whole" 1 "$(grep -c '^data: \[DONE\]' stream)"
        [ "$streaming" -eq 0 ] && break
    done
    equal "it streams while the signals come" 0 "$streaming"
done
unset RUNNEL_FAKE

# A terminal that goes away.
printf 'expect is ready\nhang up\n' >steps
# shellcheck disable=SC2154,SC2153  # the test runner sets DIALOGUE
"$DIALOGUE" "$BIN" serve --port 0 -t 1 -q <steps >out 2>err
status=$?
equal "without its terminal it ends well: $(cat err)" 0 $status
# Its messages go to a file, which has the port: a port of before may be another program's by now.
: >said
# shellcheck disable=SC2016  # for the inner shell
"$DIALOGUE" sh -c 'trap "" HUP; echo $$ >pid; (until grep -q "is ready" said; do sleep 0.05; done; echo it is ready) & exec "$@" 2>said' \
    sh "$BIN" serve --port 0 -t 1 -q --access-log log <steps >out 2>err &
dialogue=$!
until_true "it starts" grep -qs . pid
pid=$(cat pid)
ready "without SIGHUP"
sleep 1 # the terminal has gone by now
expect "where SIGHUP is ignored it stays" grep -q '^HTTP/1.1 200 ' <(ask GET /health '')
kill -TERM "$pid"
wait $dialogue
equal "and ends well" 0 $?
finish
