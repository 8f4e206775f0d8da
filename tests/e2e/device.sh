# A device that is not the CPU, in a file of its own. The texts are those of the CPU, with a step in
# flight. The commands take --backend and --device and name the device. A failed step or a lost device ends the program with 1, and the server too, after its answers.
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

# The second device of the backend, under each name that an option can have.
name=" Q8_0; fake another device that is not there, kv f16\$"
for given in "option" "environment" "file"; do
    options=()
    unset RUNNEL_BACKEND RUNNEL_DEVICE
    case $given in
    option) options=(--backend "$plugin" --device 1) ;;
    environment) export RUNNEL_BACKEND=$plugin RUNNEL_DEVICE=1 ;;
    file) printf 'backend = %s\ndevice = 1\n' "$plugin" >conf && options=(--config conf) ;;
    esac
    tell --temp 0 "${options[@]}"
    equal "$given: exit code" 0 "$code"
    expect "the summary names the device: $(cat err)" grep -q "$name" err
done
unset RUNNEL_BACKEND RUNNEL_DEVICE
tell --temp 0 --backend auto
expect "auto is no name of a backend: $(cat err)" grep -q "^  model .*; [a-z]* " err
equal "auto: exit code" 0 "$code"

# The draft model on a device of its own.
tell --temp 0 --backend cpu
cp out plain
for options in "--backend cpu --draft-backend $plugin --draft-device 1" "--backend $plugin --device 1 --draft-backend cpu" \
    "--backend $plugin --draft-backend $plugin --draft-device 1"; do
    # shellcheck disable=SC2086
    tell --temp 0 $options
    equal "$options: exit code" 0 "$code"
    expect "$options: the text is another one" cmp -s out plain
done
refused 2 "backend 'fake': device is 2, expected 0 to 1" run -p a --draft-backend "$plugin" --draft-device 2
refused 2 "--draft-device belongs to --draft-backend, which is missing" run -p a --draft-device 1

# Numbers that no device has.
echo "Once upon a time there was a fox." >text
for command in "run -p a" "bench" "inspect" "eval --loss text" "plan"; do
    # shellcheck disable=SC2086
    refused 2 "backend 'fake': device is 7, expected 0 to 1" $command --backend "$plugin" --device 7
    # shellcheck disable=SC2086
    refused 2 "backend 'cpu': device is 1, expected 0: the CPU is one device" $command --backend cpu --device 1
    for value in -1 x; do
        # shellcheck disable=SC2086
        refused 2 "--device: '$value' is " $command --device "$value"
    done
    # shellcheck disable=SC2086
    refused 2 "backend: 'nosuch' is not known (known: cpu; no runnel_nosuch.so" $command --backend nosuch
done
refused 2 "KV type 'bf16' is unknown to backend 'cpu' (known: f32, f16, int8, int4)" run -p a --backend cpu --kv-type bf16
refused 2 "KV type 'fp8' is unknown to backend 'fake' (known: " bench --backend "$plugin" --kv-type fp8
RUNNEL_DEVICE=1024 refused 2 "RUNNEL_DEVICE: '1024' is not a whole number from 0 to 1023" run -p a

# bench, inspect, eval and plan speak of the device.
run bench -p 8 -n 2 -r 1 --backend "$plugin"
equal "bench: exit code, $(cat err)" 0 "$code"
equal "bench: the line above the table" "fake a device that is not there, kv f16" "$(head -n 1 out)"
expect "bench: no column of threads" sh -c '! grep -q threads out'
run bench -p 8 -n 2 -r 1 --backend "$plugin" --device 1 -o json
equal "bench, JSON" "fake another device that is not there" "$(json out 0.backends) $(json out 0.device)"
equal "bench, as llama-bench calls it" "another device that is not there" "$(json out 0.gpu_info)"
equal "bench: no peak" null "$(json out 0.peak_share)"
run bench -p 8 -n 2 -r 1 --backend cpu -o json
equal "bench of the CPU" "cpu null" "$(json out 0.backends) $(json out 0.device)"
run bench -p 8 -n 2 -r 1 --backend "$plugin" --isa scalar --stages
equal "bench: the CPU's options do not break it" 0 "$code"
expect "bench: --isa is said to have no effect" grep -q "^runnel: --isa is for the CPU; a device" err
expect "bench: and --stages" grep -q "^runnel: --stages: backend 'fake' does not time its stages" err
run bench --kernels --backend "$plugin"
equal "bench --kernels" "0 1" "$code $(grep -c 'shows the kernels of the CPU' err)"
run bench --batch 2 -p 8 -n 2 --backend "$plugin"
expect "bench --batch: its title: $(cat err)" grep -q "^llama .*, fake a device that is not there, kv f16$" out
run inspect --backend "$plugin" --device 1
expect "inspect: the device's memory" grep -q "^memory of another device that is not there (fake), now$" out
expect "inspect: contexts that fit" grep -q "^  kv int8 .* contexts of 1024, beside " out
run inspect --backend "$plugin" --json
equal "inspect, JSON" "fake a device that is not there" "$(json out backend) $(json out device)"
expect "inspect: bytes of a page" test "$(json out memory.f16.kv_page_bytes)" -gt 0
run eval --loss "$MODELS/val.txt" --chunks 1 --chunk 64 --backend "$plugin" --json
equal "eval" "0 fake a device that is not there" "$code $(json out backend) $(json out device)"
refused 2 "backend 'fake' does not measure its stages, so its speed cannot be predicted" plan -q --backend "$plugin"

# Too little memory is said before anything is loaded, with sizes.
export RUNNEL_FAKE="memory 9000000"
refused 1 "8.6 MiB of device memory are free on a device that is not there, and the weights take 20.7 MiB, the buffers of a step" \
    run -p "Once upon" -n 2 -q --speculate off --backend "$plugin"
refused 1 "8.6 MiB of device memory are free on a device that is not there, and the weights take 20.7 MiB, the buffers of a step" \
    bench -p 8 -n 2 -r 1 -q --backend "$plugin"
run inspect --backend "$plugin"
expect "inspect has the same words" grep -q "^  kv f16  8.6 MiB of device memory are free on " out
# Tests of a list that do not fit are left out, and the others run.
RUNNEL_FAKE="memory 3000000" run bench --synthetic tiny:Q4_0 -p 0 -n 2 -r 1 --streams 1,64 -d 32,640 -q --backend "$plugin"
equal "bench: the tests that fit, $(cat err)" "0 tg2 @ d32 tg2 @ d640 " "$code $(grep -o 'tg2[^|]*@ d[0-9]*' out | tr '\n' ' ')"
equal "bench: those that do not" "64 @ d640 64 @ d32 " "$(sed -n 's/.*: tg2 x\(.*\) is skipped: 2.9 MiB of device memory.*/\1/p' err | tr '\n' ' ')"
unset RUNNEL_FAKE

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
