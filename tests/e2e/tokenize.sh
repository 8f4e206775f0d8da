# tokenize and detokenize: whole texts and JSON lines, with and without BOS and markup.
. "$(dirname "$0")/lib.sh"

printf 'Once upon a time, in a caf\303\251, a \360\237\246\212 said: "Hi!"\n\n  \t<|end|> ok' >text
"$BIN" tokenize <text >ids 2>err
equal "tokenize exits 0" 0 $?
equal "BOS comes first" 0 "$(json ids 0)"
"$BIN" tokenize --no-bos <text >ids.plain
equal "--no-bos leaves it out" "$(json ids .)" "[0,$(json ids.plain . | tr -d '[')"
"$BIN" detokenize <ids.plain >back
expect "a round trip keeps every byte" cmp text back
expect "markup is parsed" grep -q '[[,]3[],]' ids.plain
"$BIN" tokenize --no-bos --no-special <text >ids.text
expect "--no-special takes markup as text" sh -c "! grep -q '[[,]3[],]' ids.text"
"$BIN" detokenize <ids.text >back
expect "and its round trip keeps every byte" cmp text back
"$BIN" detokenize --no-special <ids.plain >back
expect "--no-special leaves special tokens out" cmp <(sed 's/<|end|>//' text) back
"$BIN" tokenize --no-bos -f text >ids.file
expect "-f reads the file" cmp ids.plain ids.file
"$BIN" tokenize --no-bos -p "$(cat text)" >ids.arg
expect "-p takes the text" cmp ids.plain ids.arg
"$BIN" tokenize --no-bos </dev/null >out
equal "no text gives no ids" "[]" "$(cat out)"

# A vocabulary without tensors will do.
"$BIN" tokenize --no-bos -m "$VOCAB" <text >ids
equal "tokenize with a vocabulary file" 0 $?
"$BIN" detokenize -m "$VOCAB" <ids >back
expect "round trip with a vocabulary file" cmp text back

# One value per line.
printf '%s\n' '"Once upon"' '""' '"two\nlines\u0000and a NUL"' '"caf\u00e9"' >lines
"$BIN" tokenize --no-bos --jsonl <lines >lines.ids
equal "one array per line" 4 "$(wc -l <lines.ids)"
equal "an empty string gives an empty array" "[]" "$(sed -n 2p lines.ids)"
"$BIN" detokenize --jsonl <lines.ids >back
expect "a round trip of lines" cmp <(sed 's/\\u00e9/\xc3\xa9/' lines) back

# lines_refused COMMAND PATTERN INPUT
lines_refused() {
    printf '%s' "$3" | "$BIN" "$1" --jsonl >out 2>err
    equal "$1 --jsonl refuses '$3'" 2 $?
    expect "$1 --jsonl names the place in '$3'" grep -q "^runnel: .*$2" err
}
lines_refused tokenize "line 2 is not a JSON string" $'"a"\nb\n'
lines_refused tokenize "line 1 is not a JSON string: it is an array" $'[1]\n'
lines_refused tokenize "line 2 is not a JSON string: it is an object" $'"a"\n{}\n'
lines_refused tokenize "line 2 is not a JSON string" $'"a"\n\n"b"\n'
lines_refused detokenize "line 2: " $'[1]\n[1,\n'
lines_refused detokenize "line 1: token id 4096 is not from 0 to 4095" $'[4096]\n'
for bad in '' x '{}' '[1' '["a"]' '[1.5]' '[-1]' '[4096]' '[99999999999999999999]' '3'; do
    printf '%s' "$bad" | "$BIN" detokenize >out 2>err
    equal "detokenize refuses '$bad'" 2 $?
    equal "with one line" 1 "$(wc -l <err)"
done
# named INPUT MESSAGE
named() {
    printf '%s' "$1" | "$BIN" detokenize >out 2>err
    equal "what is wrong with $(head -c 40 <<<"$1")" "runnel: $2" "$(cat err)"
}
named '[-1]' "token id -1 is not from 0 to 4095"
named '[1,1.5]' "item 2 is 1.5, not a token id"
named '["a"]' 'item 1 is "a", not a token id'
named '[1,2,{"a":[null]}]' 'item 3 is {"a":[null]}, not a token id'
named "[\"$(printf 'x%.0s' $(seq 500))\"]" "item 1 is \"$(printf 'x%.0s' $(seq 59))..., not a token id"
named 3 "not a JSON array of token ids: it is a number"
named '{}' "not a JSON array of token ids: it is an object"

# Input has a limit.
head -c $(((64 << 20) + 1)) /dev/zero >huge
refused 2 "huge: is longer than the limit of 64 MiB" tokenize -f huge
refused 2 "line 1 is longer than the limit of 64 MiB" tokenize --jsonl -f huge
for command in tokenize detokenize; do
    cat huge | "$BIN" $command >out 2>err
    equal "$command refuses a huge input" 2 "${PIPESTATUS[1]}"
    equal "and says why" "runnel: standard input: is longer than the limit of 64 MiB" "$(cat err)"
done
finish
