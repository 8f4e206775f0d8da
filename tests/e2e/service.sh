# The service: it tells the service manager when the model is loaded, when it reloads and when it stops.
# It takes its options from a file, and systemd accepts its unit.
. "$(dirname "$0")/lib.sh"

printf 'port = 0\nmodel = %s\nthreads = 1\nquiet = yes\n' "$MODELS/tale-1m-f16.gguf" >serve.conf
# shellcheck disable=SC2154  # the test runner sets NOTIFIED
for socket in "$work/notify" "@runnel-test-$$"; do
    "$NOTIFIED" "$socket" "$BIN" serve --config serve.conf >out 2>err
    status=$?
    equal "it ends well ($socket): $(cat err)" 0 $status
    equal "it says what it is at ($socket)" "READY=1
RELOADING=1
MONOTONIC_USEC=N
READY=1
STOPPING=1" "$(sed 's/^\(MONOTONIC_USEC=\)[0-9]\{6,\}$/\1N/' out)"
    echo "access-log = $work/log" >>serve.conf # the second time, a file is opened again
done
expect "the options of the file count" grep -q 'tale-1m-f16 is ready at http://127.0.0.1:' err
printf 'port = 0\nmodel = none.gguf\n' >serve.conf
NOTIFY_SOCKET=$work/nobody refused 2 "none.gguf" serve --config serve.conf
NOTIFY_SOCKET=relative run version
equal "a name that is none does no harm" 0 "$code"

command -v systemd-analyze >/dev/null || finish
unit=$BUILD/packaging/runnel.service
# shellcheck disable=SC2016  # systemd's variable
expect "a reload asks for it" grep -q '^ExecReload=/bin/kill -HUP \$MAINPID$' "$unit"
expect "the unit runs the program with its configuration" \
    grep -q '^ExecStart=/usr/bin/runnel serve --config /etc/runnel/runnel.conf$' "$unit"
sed "s|/usr/bin/runnel|$BIN|; /^Documentation=/d" "$unit" >runnel.service
systemd-analyze verify ./runnel.service >out 2>&1
equal "systemd takes it" "" "$(grep -F runnel.service out)"
expect "it is exposed little" systemd-analyze security --offline=yes --threshold=20 ./runnel.service >out 2>&1
finish
