# Help, wrong use and exit codes of the program. tests/app/test_options.c tests every option's values,
# ranges, defaults and variables; this script tests behaviour that only a process shows.
# label: address
. "$(dirname "$0")/lib.sh"

export RUNNEL_MODEL=$SMALL
run --help
equal "help exits 0" 0 "$code"
cp out help
for command in run serve explain inspect tokenize detokenize eval bench "bench serve" plan models help completions version; do
    expect "help names $command" grep -q "^  $command " help
    # shellcheck disable=SC2086  # a name of two words is two arguments
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
expect "help COMMAND is that command's" grep -q "^usage: runnel run" out

refused 2 "'rnu'.*did you mean 'run'" rnu
refused 2 "'xyzzy'" xyzzy
refused 2 "'ins'.*did you mean 'inspect'" ins
refused 2 "'man'; 'runnel help --man COMMAND' prints a manual page" man
refused 2 "'chat'; 'runnel run' does it" chat
refused 2 "'pull'; nothing is downloaded or stored: 'runnel models --help' says how" pull llama3
run help models
expect "the help of models says how to get one: $(tail -n 20 out)" grep -q '^getting a model:$' out
refused 2 "'-m': a command comes first, such as 'runnel run -m'" -m x
touch some.gguf
refused 2 "'some.gguf' is not a command; did you mean 'runnel run some.gguf'" some.gguf
refused 2 "--tempature.*did you mean --temperature" run --tempature 1
refused 2 "--model and 'a' exclude each other" inspect -m b a
refused 2 "the text is missing: runnel eval \[MODEL\] FILE" eval

# Arguments without a flag, and command lines of other programs as their users paste them.
run run "$SMALL" "Once upon" -n 3 -s 7 --json
cp out argument
run run -m "$SMALL" -p "Once upon" -n 3 -s 7 --json
equal "run MODEL PROMPT" "$(json out ids)" "$(json argument ids)"
run tokenize "$SMALL" "Once upon"
equal "tokenize MODEL TEXT" "$("$BIN" tokenize -p "Once upon")" "$(cat out)"
printf 'Once upon a time there was a small cat. It sat.' >text
run eval text -q --chunk 8
equal "eval FILE: $(cat err)" 0 "$code"
run run -m "$SMALL" -ngl 99 -fa on -cb -c 64 --jinja --mmap -b 32 --ctx-size 64 --n-predict 2 \
    --temp 0 -ctk q8_0 -ctv q8_0 -p "Once upon" --json -q --no-display-prompt
equal "a command line of llama.cpp: $(cat err)" 0 "$code"
equal "its number of tokens" 2 "$(json out output_tokens)"
equal "its KV type" int8 "$(json out kv_type)"
run run -p a -n 1 -t 1000
expect "more threads than cores are said" grep -q "warning: 1000 threads on [0-9]* core" err
run run -p a -n 1 -t 1
expect "one thread is none" test -z "$(grep warning: err)"

# Values that the model or another option decides on.
refused 2 "--batch-tokens: 31 is less than --max-seqs, 32" serve --batch-tokens 31
RUNNEL_API_KEY='' refused 2 "RUNNEL_API_KEY: text 1, '', is empty" serve --port 0
refused 2 "KV memory of 1.0 PiB is more than there is, " run -p a --kv-memory 1024T
refused 2 "--ctx: 5000 is more than the model's context, 1024" run -p a -c 5000
RUNNEL_CTX=5000 refused 2 "RUNNEL_CTX: 5000 is more than the model's context, 1024" run -p a
for value in 8388608 8MiB 64p; do
    run run -p a -n 0 -q --kv-memory "$value"
    equal "--kv-memory $value: $(cat err)" 0 "$code"
done
for names in q8_0:int8 q4_0:int4 f16:f16 f32:f32; do # llama.cpp's and ours
    run run -p a -n 0 -q --json --cache-type-k "${names%:*}"
    equal "--cache-type-k $names" "${names#*:}" "$(json out kv_type)"
done

# --help as a value is a value.
run run -p --help -n 0 --json
equal "--help can be a prompt" 0 "$code"
equal "as text" "$("$BIN" tokenize --prompt=--help)" "$(json out prompt_ids)"

# Environment twins: used, checked, beaten by the command line.
RUNNEL_TEMPERATURE=hot refused 2 "RUNNEL_TEMPERATURE: 'hot' is not a number" run -p a
RUNNEL_PROMPT="Once upon" RUNNEL_MAX_TOKENS=3 RUNNEL_JSON=1 RUNNEL_SEED=7 run run
equal "environment alone runs" 0 "$code"
equal "RUNNEL_SEED is used" 7 "$(json out seed)"
equal "RUNNEL_MAX_TOKENS is used" 3 "$(json out output_tokens)"
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
refused 2 "--prompt-ids: '' where a comma or ] should be" run --prompt-ids "[1,2"
run run --prompt-ids "[31, 95]" -n 4 --temp 0 -q
cp out bare
run run --prompt-ids 31,95 -n 4 --temp 0 -q
expect "ids in brackets, as tokenize prints them" cmp -s out bare
refused 2 "4000 .*1024" run --prompt-ids "$(yes 5 | head -n 4000 | paste -sd,)"
refused 2 "20 .*16" run -c 16 --prompt-ids "$(yes 5 | head -n 20 | paste -sd,)"

# A byte order mark at the start of a file for a parser is skipped. In a prompt it is text.
marked() { printf '\357\273\277%s\n' "$2" >"$1"; }
marked mark.gbnf 'root ::= "ab"'
marked mark.schema '{"const":"ab"}'
marked mark.structure '{"type":"structural_tag","format":{"type":"const_string","value":"ab"}}'
for shape in --grammar:ab --json-schema:'"ab"' --structure:ab; do
    run run -p x -q "${shape%%:*}" "mark.$(sed 's/--grammar/gbnf/;s/--json-//;s/--//' <<<"${shape%%:*}")"
    equal "${shape%%:*} with a mark: $(cat err)" "0 ${shape#*:}" "$code $(cat out)"
done
marked mark.conf 'max-tokens = 3'
run run -p x --json --ignore-eos --config mark.conf
equal "--config with a mark: $(cat err)" "0 3" "$code $(json out output_tokens)"
marked messages.json '[{"role":"user","content":"Hi"}]'
marked mark.jinja '{{ messages[0].content }}{{ tools[0].function.name if tools }}'
marked tools.json '[{"type":"function","function":{"name":"f"}}]'
run run --messages messages.json --chat-template mark.jinja --tools tools.json -n 0 --json
equal "a conversation with marks: $(cat err)" "0 $("$BIN" tokenize -p Hif)" "$code $(json out prompt_ids)"
marked mark.jsonl '"a"'
"$BIN" tokenize --jsonl <mark.jsonl >out 2>err
equal "lines of JSON with a mark: $(cat err)" "$("$BIN" tokenize -p a)" "$(cat out)"
marked keys '# a mark alone is no key'
refused 2 "keys: holds no key" serve -m nosuch.gguf --port 0 --api-key-file keys
equal "a prompt keeps its mark" "$("$BIN" tokenize -p "$(cat keys)")" "$(printf '%s' "$(cat keys)" | "$BIN" tokenize)"
finish
