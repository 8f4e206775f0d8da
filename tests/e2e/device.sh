# A device that is not the CPU, in a file of its own. The texts are those of the CPU, with a step in
# flight. A failed step or a lost device ends the program with 1, and the server too, after its answers.
# shellcheck shell=bash
. "$(dirname "$0")/lib.sh"
plugin=$BUILD/tests/runnel_fake.so

# tell OPTION...: a text of the embedded model.
tell() { run run -p "Once upon a time" -n 60 --ignore-eos "$@"; }

for options in "--temp 0" "--seed 3" "--seed 4 --repeat-penalty 1.2" "--seed 5 --speculate off" "--temp 0 --speculate off --kv-type int8"; do
    # shellcheck disable=SC2086
    tell $options --backend cpu
    cp out plain
    # shellcheck disable=SC2086
    tell $options --backend "$plugin"
    equal "$options: exit code" 0 "$code"
    expect "$options: the text is another one" cmp -s out plain
done

# Calibration takes some steps before the first of the text.
export RUNNEL_FAKE
RUNNEL_FAKE="lost 20"
refused 1 "the device was lost: fake: step 20 was to fail" run -p "Once upon" -n 60 --speculate off --backend "$plugin" -q
RUNNEL_FAKE="step 20"
refused 1 "step failed" run -p "Once upon" -n 60 --speculate off --backend "$plugin" -q

RUNNEL_FAKE="lost 30"
"$BIN" serve --port 0 -t 1 -q --speculate off --backend "$plugin" >served 2>said </dev/null &
pid=$!
ready "on the device"
body='{"prompt":"Once upon","max_tokens":200,"stream":true}'
exec {fd}<>"/dev/tcp/127.0.0.1/$port"
printf 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s' ${#body} "$body" >&"$fd"
timeout 60 cat <&"$fd" >answer
exec {fd}>&-
expect "a stream of a lost device has text before its end" grep -q '"text"' answer
expect "it ends with an error: $(tail -c 300 answer)" grep -q 'The device was lost' answer
wait $pid
equal "the server's exit code" 1 $?
expect "it says why: $(cat said)" grep -q 'the device was lost: fake: step 30 was to fail' said
finish
