# Help, wrong use, exit codes, and the ranges of every numeric option.
# label: address
. "$(dirname "$0")/lib.sh"

run --help
equal "help exits 0" 0 "$code"
cp out help
for command in run inspect tokenize detokenize eval help version; do
    expect "help names $command" grep -q "^  $command " help
    run $command --help
    equal "$command --help exits 0" 0 "$code"
    expect "$command --help shows its usage" grep -q "^usage: runnel $command" out
done
run
equal "no command exits 2" 2 "$code"
expect "no command shows the help on stderr" grep -q "^usage: runnel" err
run version
equal "version" "runnel 0.1.0" "$(cat out)"
run help run
expect "every option of run has a twin in the help" \
    [ "$(grep -c '^ .*--' out)" -le "$(($(grep -co 'RUNNEL_[A-Z_]*' out) + 1))" ]
expect "help fits 100 columns" [ "$(wc -L <out)" -le 100 ]

refused 2 "'rnu'.*did you mean 'run'" rnu
refused 2 "'xyzzy'" xyzzy
refused 2 "--tempature.*did you mean --temperature" run --tempature 1
refused 2 "--max;.*did you mean --max-tokens" run --max 3
refused 2 "'ins'.*did you mean 'inspect'" ins
refused 2 "--no-webui;.*did you mean --no-ui" serve --no-webui
# No guess that asks for the opposite, or that is near only because both are short.
refused 2 "--enable-prefix-caching; see 'runnel serve --help'" serve --enable-prefix-caching
refused 2 "--disable-log; see 'runnel serve --help'" serve --disable-log
refused 2 "--keep; see 'runnel run --help'" run --keep 5
refused 2 "'man'; see 'runnel --help'" man
refused 2 "unknown option -Z" run -Z
refused 2 "-p=hi: write -p hi or --prompt=hi" run -p=hi
refused 2 "-q=no: write -q or --quiet=no" run -q=no
refused 2 "unknown option --jsonl" run --jsonl
refused 2 "unexpected argument 'hello'" run hello
refused 2 "one argument too many: 'b'" inspect a b
refused 2 "--model and 'a' exclude each other" inspect -m b a
refused 2 "--seed needs a value" run --seed
refused 2 "--loss FILE is missing" eval

# Numbers: junk, overflow, NaN, infinity, out of range.
for option in max-tokens top-k seed threads ctx batch-tokens; do
    for value in '' x 1x 1.5 ' 1' 0x10 99999999999999999999 -9223372036854775809 nan; do
        refused 2 "--$option: '$value' is not a whole number from" run -p a "--$option=$value"
    done
done
for option in temperature top-p min-p; do
    for value in '' x 0.5x ' 1' nan inf -inf 1e999 -0.1 101 0x10 0x1p-3 +0.5 infinity; do
        refused 2 "--$option: '$value' is not a number from 0 to" run -p a "--$option" "$value"
    done
done
refused 2 "-t: '0' is not a whole number from 1 to 1024" run -p a -t 0
refused 2 "--max-tokens: '-2'" run -p a --max-tokens -2
refused 2 "--temperature: '101'" run -p a --temp 101
refused 2 "--isa: 'mmx' is not one of auto|scalar|avx2|avxvnni|avx512|neon" run -p a --isa mmx
refused 2 "--kv-type: 'f1' is not one of f16|f32|int8|int4" run -p a --kv-type f1
refused 2 "--kv-type: 'bf16' is not one of f16|f32|int8|int4" run -p a --cache-type-k bf16
for names in q8_0:int8 q4_0:int4 f16:f16 f32:f32; do # llama.cpp's and ours
    run run -p a -n 0 -q --json --cache-type-k "${names%:*}"
    equal "--cache-type-k $names" "${names#*:}" "$(json out kv_type)"
done
RUNNEL_KV_TYPE=q8_0 run run -p a -n 0 -q --json
equal "in the environment too" int8 "$(json out kv_type)"
refused 2 "--seed: '-1' is not a whole number from 0 to 18446744073709551615" run -p a --seed -1
refused 2 "--seed: '18446744073709551616' is not" run -p a --seed 18446744073709551616
refused 2 "--batch-tokens: 31 is less than --max-seqs, 32" serve --batch-tokens 31
# Who sets a key wants one: no server without.
for value in '' $'\n' $'\n\n'; do
    RUNNEL_API_KEY=$value refused 2 "RUNNEL_API_KEY: text 1, '', is empty" serve --port 0
done
RUNNEL_API_KEY_FILE='' refused 2 "RUNNEL_API_KEY_FILE: '' is not a file name" serve --port 0
RUNNEL_STOP='' run run -p a -n 0 -q
equal "another empty variable is none" 0 "$code"
for value in '' x 1x 0 0p 1.5 1.5p -1 1e5 0x10 ' 1' +1 G p inf 2GB 1Gi 1kk 0.0001K 4294967296p 8388608T; do
    refused 2 "--kv-memory: '$value' is not a size such as 512M, 1.5G or 4096p" run -p a --kv-memory "$value"
done
RUNNEL_KV_MEMORY=lots refused 2 "RUNNEL_KV_MEMORY: 'lots' is not a size" run -p a
for value in 8388608 8m 8M 8MiB 0.0078125G 8192K 8192kiB 64p; do
    run run -p a -n 0 -q --kv-memory "$value"
    equal "--kv-memory $value: $(cat err)" 0 "$code"
done
refused 2 "KV memory of 1.0 PiB is more than there is, " run -p a --kv-memory 1024T
refused 2 "--json: 'maybe' is not yes or no" run -p a --json=maybe
refused 2 "--stop: text 2, '', is empty" run -p a --stop x --stop ''
refused 2 "--stop: text 1, 'a?b', is not valid UTF-8" run -p a --stop $'a\xffb'
long=$(printf 'x%.0s' $(seq 4097))
refused 2 "--stop: text 1, '${long:0:60}...', has 4097 bytes; at most 4096" run -p a --stop "$long"
RUNNEL_STOP=$'ok\n\xff' refused 2 "RUNNEL_STOP: text 2, '?', is not valid UTF-8" run -p a
run run -p a -n 0 -q --stop "${long:1}"
equal "a stop string may have 4096 bytes" 0 "$code"
stops=()
for i in $(seq 17); do stops+=(--stop "x$i"); done
refused 2 "--stop: 'x17' is one too many" run -p a "${stops[@]}"

# File names.
for option in --model --file --logits --messages --tools --chat-template; do
    refused 2 "$option: '' is not a file name" run -p a "$option="
done
refused 2 "-m: '' is not a file name" run -p a -m ''
refused 2 "-f: '' is not a file name" run -f ''
refused 2 "'' is not a file name" inspect ''

# The context.
refused 2 "--ctx: 5000 is more than the model's context, 1024" run -p a -c 5000
RUNNEL_CTX=5000 refused 2 "RUNNEL_CTX: 5000 is more than the model's context, 1024" run -p a
refused 2 "--ctx: '67108865' is not a whole number from 1 to 67108864" run -p a --ctx 67108865

# --help wins over a bad value before or after it, but not over its place as a value.
for arguments in "--seed x --help" "--help --seed x" "--nonsense -h" "hello --help"; do
    # shellcheck disable=SC2086  # to be split
    run run $arguments
    equal "run $arguments exits 0" 0 "$code"
    expect "run $arguments shows the help" grep -q "^usage: runnel run" out
done
run run -p --help -n 0 --json
equal "--help can be a prompt" 0 "$code"
equal "as text" "$("$BIN" tokenize --prompt=--help)" "$(json out prompt_ids)"

# The last one counts.
run run -p a -n 1 --seed 3 --seed 4 --json -q
equal "of an option given twice the last counts" 4 "$(json out seed)"

# A value cannot break the line or drive the terminal.
refused 2 "--seed: '?\[31m?x'" run -p a --seed $'\e[31m\nx'

# Environment twins: used, checked, beaten by the command line.
RUNNEL_TEMPERATURE=hot refused 2 "RUNNEL_TEMPERATURE: 'hot' is not a number" run -p a
RUNNEL_PROMPT="Once upon" RUNNEL_MAX_TOKENS=3 RUNNEL_JSON=1 RUNNEL_SEED=7 run run
equal "environment alone runs" 0 "$code"
equal "RUNNEL_SEED is used" 7 "$(json out seed)"
equal "RUNNEL_MAX_TOKENS is used" 3 "$(json out output_tokens)"
RUNNEL_SEED=7 run run -p "Once upon" -n 1 --json --seed 8
equal "the command line beats the environment" 8 "$(json out seed)"
RUNNEL_JSON=1 run run -p "Once upon" -n 1 --json=no -q --seed 1
expect "a flag can be switched off" test "$(head -c 1 out)" != "{"
RUNNEL_FILE=/nonexistent run run -p "Once upon" -n 1 -q
equal "a prompt on the command line beats one in the environment" 0 "$code"

# Prompts.
refused 2 "--prompt and --file exclude each other" run -p a -f b
refused 2 "--prompt and --prompt-ids exclude each other" run -p a --prompt-ids 1
refused 2 "/nonexistent/file: No such file" run -f /nonexistent/file
refused 2 "the prompt is empty" run -p '' --no-bos
for ids in '' a '1,,2' '1,' '1;2' -1 4096 99999999999999999999; do
    refused 2 "--prompt-ids: " run --prompt-ids "$ids"
done
refused 2 "--prompt-ids: an id is missing after the last comma" run --prompt-ids "1,2, "
refused 2 "4000 .*1024" run --prompt-ids "$(yes 5 | head -n 4000 | paste -sd,)"
refused 2 "20 .*16" run -c 16 --prompt-ids "$(yes 5 | head -n 20 | paste -sd,)"
finish
