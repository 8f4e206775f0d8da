# `runnel run`: the sources of prompts, the output on stdout and stderr, the JSON object, stops.
# label: address
. "$(dirname "$0")/lib.sh"

# From another folder, without -m: every source of a prompt gives the same text.
printf 'Once upon a time' >prompt.txt
run run -p "Once upon a time" -n 12 --seed 1
equal "run exits 0" 0 "$code"
expect "text came out" test -s out
expect "the summary is on stderr" grep -q 'tokens/s' err
for word in load prompt output memory first seed GB/s; do
    expect "the summary says $word" grep -q "$word" err
done
expect "no escape sequences in files" sh -c '! grep -q "$(printf "\033")" out err'
export RUNNEL_MODEL=$SMALL # from here on, but where the size matters
run run -p "Once upon a time" -n 1
expect "the summary names the model without its folder: $(cat err)" grep -q "^  model   tale-1m-f16.gguf, F16; " err
run run -p "Once upon a time" -n 12 --seed 1 -q
cp out text.p
run run -f prompt.txt -n 12 --seed 1 -q
expect "-f gives the same text as -p" cmp text.p out
equal "-q keeps stderr empty" "" "$(cat err)"
"$BIN" run -n 12 --seed 1 -q <prompt.txt >out 2>err
expect "standard input gives the same text as -p" cmp text.p out
ids=$("$BIN" tokenize -p "Once upon a time" | tr -d '[]')
run run --prompt-ids "$ids" -n 12 --seed 1 -q
expect "--prompt-ids gives the same text as -p" cmp text.p out
run run --prompt "Once upon a time" --max-tokens=12 -s1 --quiet
expect "long and short spellings agree" cmp text.p out
run run -p "" -n 3 -q
equal "an empty prompt with BOS runs" 0 "$code"

# The JSON object.
run run -p "Once upon a time" -n 12 --seed 1 --json
equal "--json exits 0" 0 "$code"
equal "--json keeps stderr empty" "" "$(cat err)"
equal "--json is one line" 1 "$(wc -l <out)"
cp out object
json object text >text.json
expect "the object's text is the streamed text" cmp text.p text.json
equal "prompt_ids" "[$ids]" "$(json object prompt_ids)"
equal "ids has a token per output token" "$(json object output_tokens)" "$(json object '#ids')"
equal "finish_reason" length "$(json object finish_reason)"
equal "stop is null" null "$(json object stop)"
for key in model seed load_ms prompt_tokens prompt_per_second ttft_ms output_tokens \
    output_per_second bytes_per_token read_gbs bandwidth_gbs bandwidth_share in_cache threads isa \
    kv_type backend ms_per_token undrafted_ms_per_token undrafted_bytes_per_token; do
    expect "the object has $key" sh -c "'$JSONGET' $key <object >/dev/null"
done
run run -p "Once upon a time" -n 0 --json
equal "-n 0 writes nothing" 0 "$(json out output_tokens)"
equal "-n 0 has no rate" null "$(json out output_per_second)"
equal "what was not measured is null" null/null "$(json out bandwidth_gbs)/$(json out in_cache)"
expect "what was measured is not" test "$(json object in_cache)" != null

# The end token is among the ids, and not in the text.
run run -p $'<|user|>\nHello, who are you?<|end|>\n<|assistant|>\n' --temp 0 --json
equal "an answer ends by itself" stop "$(json out finish_reason)"
last=$(($(json out '#ids') - 1))
equal "the last id is the end of turn" 3 "$(json out ids.$last)"
expect "markup is not part of the text" sh -c "! '$JSONGET' text <out | grep -q '<|'"
run run -p $'<|user|>\nHello, who are you?<|end|>\n<|assistant|>\n' --temp 0 --json --ignore-eos -n 60
equal "--ignore-eos goes on" 60 "$(json out output_tokens)"

# Ends, words that are not written, and reasoning.
run run -p "Once upon a time" --temp 0 -n 20 --ignore-eos --json
ids=$(json out ids)
sixth=$(tr -d '[] ' <<<"$ids" | cut -d, -f6)
run run -p "Once upon a time" --temp 0 -n 20 --ignore-eos --json --stop-ids "4095, $sixth"
equal "a stop token ends the text" "6 stop" "$(json out output_tokens) $(json out finish_reason)"
run run -p "Once upon a time" --temp 0 -n 20 --ignore-eos --json --stop-ids "$sixth" --min-tokens 8
expect "--min-tokens bans it for 8 tokens" test "$(json out output_tokens)" -ge 8
run run -p "Once upon a time" --temp 0 -n 40 -q --bad-word a --bad-word the
expect "bad words are not written" sh -c "! grep -qwE 'a|the' out"
run run -p "Once upon a time" --temp 0 -n 40 -q --stop " a" --include-stop
expect "--include-stop keeps the stop string" sh -c "tail -c 3 out | grep -q ' a'"
printf '{%% for m in messages %%}<|%s|>\n%s<|end|>\n{%% endfor %%}<|assistant|>\n<think>' \
    '{{ m.role }}' '{{ m.content }}' >think.jinja
run run --chat-template think.jinja -p "Tell me a story." --temp 0 -n 40 -q --reasoning-budget 4
expect "--reasoning-budget closes the reasoning" grep -q '</think>' out
refused 2 "--stop-ids: '9999' does not start with a token id from 0 to 4095" run -p a --stop-ids 9999
refused 2 "min_tokens is 9, expected at most max_tokens, 3" run -p a -n 3 --min-tokens 9
refused 2 "min_tokens is 9, expected 0: no token may be written" run -p a -n 0 --min-tokens 9

# Answers in a shape.
schema='{"type":"object","properties":{"name":{"type":"string","maxLength":9},"old":{"type":"boolean"}},"required":["name","old"],"additionalProperties":false}'
printf '%s' "$schema" >schema.json
run run -p "Once upon a time" --temp 1.5 --seed 3 -q --json-schema "$schema"
cp out shaped
expect "--json-schema" grep -qzE '^\{\s*"name":\s*"[^"]*",\s*"old":\s*(true|false)\s*\}\s*$' out
run run -p "Once upon a time" --temp 1.5 --seed 3 -q --json-schema schema.json
expect "a schema in a file gives the same" cmp shaped out
run run -p "Once upon a time" --temp 1.5 --seed 3 -q --json-schema schema.json --speculate off
expect "drafts do not change a shape" cmp shaped out
run run -p "Once upon a time" -q --choice "a fox" --choice "a hare" --ignore-eos
expect "--choice" grep -qxE 'a (fox|hare)' out
run run -p "Once upon a time" -q --regex '[0-9]{3}-[0-9]{2}'
expect "--regex" grep -qxE '[0-9]{3}-[0-9]{2}' out
refused 2 "--grammar: 'root = \"a\"' is neither a grammar, .* nor a file: No such file" run -p x --grammar 'root = "a"'
refused 2 "--json-schema: '\[1]' is neither a JSON object nor a file: No such file" run -p x --json-schema '[1]'
run run -p "Once upon a time" -q --grammar 'root ::= "<" [a-c]{2} ">"'
expect "--grammar" grep -qxE '<[a-c]{2}>' out
run run -p "Once upon a time" -q --grammar 'start: "<" A~2 ">"
A: "a".."c"'
expect "--grammar in Lark" grep -qxE '<[a-c]{2}>' out
run run --chat-template think.jinja -p "Tell me a story." -q --reasoning-budget 4 --choice hare
expect "a shape starts behind the reasoning" grep -qzE '</think>\s{0,4}hare\s*$' out
refused 2 "--json-schema: /properties/a/not: " run -p a --json-schema '{"properties":{"a":{"not":{}}}}'
refused 2 "--json-object and --regex exclude each other" run -p a --json-object --regex a

# Stop strings never leak, wherever they fall.
run run -p "Once upon a time" --temp 0 -n 40 -q
cp out whole
run run -p "Once upon a time" --temp 5 --top-p 0 -n 40 -q --seed 1
expect "--top-p 0 keeps the likeliest token alone" cmp whole out
for cut in 3 11 20 37; do
    stop=$(tail -c +$((cut + 1)) whole | head -c 9)
    before=$(head -c "$((cut + 9))" whole)
    run run -p "Once upon a time" --temp 0 -n 40 --json --stop "$stop" --stop "never this"
    json out text >text.stop
    expect "'$stop' does not leak" sh -c "! grep -qF '$stop' text.stop"
    expect "the text before '$stop' is whole" \
        test "${before#"$(cat text.stop)"}" != "$before" -a "$(wc -c <text.stop)" -le "$cut"
    equal "the stop that matched is named" "$stop" "$(json out stop)"
    equal "a stop string ends with stop" stop "$(json out finish_reason)"
done

# The largest seed is taken and reported as it is, and is another one than the largest of 63 bits.
run run -p 'Once "seed":-1' -n 8 --seed 18446744073709551615 --json -q
equal "the largest seed" 1 "$(grep -c '"seed":18446744073709551615,' out)"
ids=$(grep -o '"ids":[^]]*' out)
run run -p 'Once "seed":-1' -n 8 --seed 9223372036854775807 --json -q
equal "half of it" 9223372036854775807 "$(json out seed)"
expect "they give different texts" [ "$ids" != "$(grep -o '"ids":[^]]*' out)" ]

# One token is one.
run run -p a --no-bos -n 1 --ignore-eos --seed 1
equal "one token" 2 "$(grep -cE '^  (prompt|output) +1 token  ' err)"

slowly 5000
# interrupted ARG...: as run, with Ctrl-C while a long prompt is evaluated.
for i in $(seq 1000); do echo "a long story about word number $i"; done | head -c 3000 >long.txt
interrupted() {
    rm -f rows
    "$BIN" run -f long.txt -n 5 -b 1 "${slow[@]}" --logits rows "$@" >out 2>err &
    local pid=$!
    for _ in $(seq 600); do [ -s rows ] && break; sleep 0.05; done
    kill -INT $pid
    wait $pid
    code=$?
}
# Then there was no first token, and there is no rate.
interrupted --json -q
equal "cancelled in its prompt" "130 cancelled null null 0" \
    "$code $(json out finish_reason) $(json out ttft_ms) $(json out prompt_per_second) $(json out output_tokens)"
interrupted
expect "the summary leaves them out" grep -qE "^  prompt +[0-9]+ tokens$" err

# Where there is no /sys, hwloc has something to say; the library keeps it from saying it.
if unshare -rm mount -t tmpfs none /sys 2>/dev/null; then
    # shellcheck disable=SC2016  # for the inner shell
    HWLOC_HIDE_ERRORS=0 unshare -rm sh -c 'mount -t tmpfs none /sys && exec "$BIN" run -p a -n 2 -q --seed 1' >out 2>err
    equal "without /sys" "0 and nothing else" "$? and $(cat err)nothing else"
fi

# Output that cannot be written.
"$BIN" run -p a -n 400 --ignore-eos --seed 1 2>err | head -c 5 >out
status=${PIPESTATUS[0]}
equal "a reader that has gone ends the run" 1 "$status"
equal "quietly" "" "$(cat err)"
for command in "inspect --json" inspect "bench --kernels" "bench --kernels -o json"; do
    # shellcheck disable=SC2086  # words
    { sleep 0.1; "$BIN" $command 2>err; echo $? >status; } | true
    equal "$command: a reader that has gone" "1 and 0 bytes" "$(cat status) and $(wc -c <err) bytes"
    # shellcheck disable=SC2086
    "$BIN" $command >/dev/full 2>err
    expect "$command: a full disk" grep -q "standard output: No space left on device" err
done
"$BIN" run -p a -n 4 --ignore-eos --seed 1 >/dev/full 2>err
equal "a full disk ends the run" 1 $?
expect "and is named" grep -q "^runnel: standard output: No space left" err

# --logits: a bad path is known before anything runs, and a file that the run reads is refused. A
# refused request leaves an existing file as it was, and creates none.
refused 2 "--logits: /nonexistent/x: No such file" run -p a -n 1 --logits /nonexistent/x
RUNNEL_LOGITS=. refused 2 "RUNNEL_LOGITS: .: Is a directory" run -p a -n 1
refused 1 "/dev/full: No space left" run -p a -n 8 --logits /dev/full
cp "$TINY" model.gguf
ln model.gguf hard.gguf
ln -s model.gguf soft.gguf
for path in model.gguf ./hard.gguf soft.gguf; do
    refused 2 "--logits: '$path' is the file that --model reads" run -m model.gguf -p a --logits $path
done
refused 2 "--logits: 'prompt.txt' is the file that --file reads" run -f prompt.txt --logits prompt.txt
RUNNEL_LOGITS=prompt.txt refused 2 "RUNNEL_LOGITS: 'prompt.txt' is" run -f prompt.txt
"$BIN" run -n 1 --logits prompt.txt <prompt.txt >out 2>err
equal "standard input is read, too" 2 $?
expect "the model is whole" cmp model.gguf "$TINY"
equal "the prompt is whole" "Once upon a time" "$(cat prompt.txt)"
echo kept >logits
for path in logits new; do
    refused 2 "--ctx: 5000" run -p a -c 5000 --logits $path
    refused 2 "the context holds 16" run -c 16 --prompt-ids "$(yes 5 | head -n 20 | paste -sd,)" --logits $path
    refused 2 "the prompt is empty" run -p '' --no-bos --logits $path
    refused 2 "--stop: text 1" run -p a --stop '' --logits $path
done
equal "a refused request leaves the file as it was" kept "$(cat logits)"
expect "and makes none" test ! -e new
run run -p a --no-bos -n 0 -q --logits logits
equal "an accepted one replaces it" $((4096 * 4)) "$(stat -c %s logits)"

# KV memory, in KiB of a page of 32 tokens. The text does not depend on it, but ends with it; a context
# that was asked for is kept or refused.
run inspect --json
page=$(($(json out memory.f16.kv_token_bytes) / 32))
run run -p "Once upon a time" -n 12 --seed 1 --kv-memory 1p
expect "a page is enough for a short text" cmp text.p out
expect "the shorter context is said" grep -q "^runnel: warning: the context is 32 instead of 1024" err
run run -p "Once upon a time" -n 12 --seed 1 --kv-memory 1p -q
equal "but not with -q" "" "$(cat err)"
run run -p "Once upon a time" --ignore-eos --seed 1 --kv-memory $((2 * page + 1))K --json -q
equal "two pages hold 64 tokens" 64/length \
    "$(($(json out prompt_tokens) + $(json out output_tokens)))/$(json out finish_reason)"
run run -p "Once upon a time" -c 64 -n 12 --seed 1 --kv-memory $((2 * page))K
expect "a context that fits is kept" cmp text.p out
expect "without a warning" sh -c '! grep -q warning err'
run run -p "Once upon a time" -n 12 --seed 1 --kv-memory 1G
expect "much memory changes nothing" cmp text.p out
expect "and is nothing to say on a pipe" sh -c '! grep -q "warning\|memory:" err'
refused 2 "a context of 65 needs $((3 * page)).0 KiB .* the $((2 * page)).0 KiB that were asked for hold 64" \
    run -p a -c 65 --kv-memory 2p
refused 2 "KV memory of $((page - 1)).0 KiB is too little: a page of 32 tokens takes $page.0 KiB" \
    run -p a --kv-memory $((page - 1))K

# Memory that does not suffice: a run that ends well says whether the bandwidth was measured.
for kbytes in $([ -n "$SAN" ] || seq 40000 10000 100000); do
    (ulimit -v "$kbytes"; unset RUNNEL_MODEL; exec "$BIN" run -p a -n 4 -t 1 --ignore-eos --seed 1 --backend cpu >out 2>err)
    case $? in
        0) expect "$kbytes KB: the share, or why not" grep -q 'memory.*% of\|bandwidth not measured' err ;;
        1) equal "$kbytes KB: one line: $(cat err)" 1/1 "$(grep -c "^runnel: .*\(memory\|cannot allocate\)" err)/$(wc -l <err)" ;;
        *) fail "$kbytes KB: $(cat err)" ;;
    esac
done

# Ctrl-C: the text so far, the summary, 130. The child opens its files in its own time, so the old ones go first.
rm -f out err
"$BIN" run -p a --ignore-eos "${slow[@]}" --seed 1 >out 2>err &
pid=$!
for _ in $(seq 200); do [ -s out ] && break; sleep 0.1; done
kill -INT $pid
wait $pid
equal "an interrupted run exits 130" 130 $?
expect "with its summary" grep -q "cancelled" err

# Before there is a request it ends at once, with 130 and nothing left behind.
mkfifo prompt.fifo
"$BIN" run --logits early <prompt.fifo >out 2>err &
pid=$!
exec 3>prompt.fifo
for _ in $(seq 200); do [ -e early ] && break; sleep 0.1; done
kill -INT $pid
wait $pid
equal "interrupted early: 130" 130 $?
exec 3>&-
equal "interrupted early: nothing on stderr" "" "$(cat err)"
expect "interrupted early: no file" test ! -e early
finish
