# `runnel serve --models`: models are loaded when requests name them and replace each other where memory
# holds one, memory is given back, and the server ends while a model is loading.
# label: address
. "$(dirname "$0")/lib.sh"

printf '%s' '{{ mood }} {{ more | default(0) }}' >vars.jinja
cat >models.conf <<END
# memory for one of them
max-seqs = 2
ctx = 256
[small]
model = $SMALL
alias = other
chat-template = $work/vars.jinja
chat-template-kwargs = {"mood": "happy"}
[tiny]
model = $TINY
kv-memory = 8M
END

# text MODEL: the text of a completion.
text() {
    ask POST /v1/completions "{\"model\":\"$1\",\"prompt\":\"Once upon\",\"max_tokens\":12,\"temperature\":0}" |
        tail -n 1 >answer
    json answer choices.0.text
}

anonymous() { sed -n 's/^RssAnon:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status"; }
status_is() { ask GET "/v1/models/$1" '' | grep -q "\"status\":{\"value\":\"$2\""; }

# Two models that do not fit together.
start --models models.conf --models-memory 12M --access-log log
before=$(anonymous)
small=$(text small)
tiny=$(text tiny)
expect "the models differ" [ "$small" != "$tiny" ]
for i in 1 2 3; do
    equal "small, again" "$small" "$(text other)"
    equal "tiny, again" "$tiny" "$(text tiny)"
done
expect "small makes room: $(cat said)" grep -q '^runnel: small is unloaded$' said
equal "loads of small" 4 "$(grep -c '^runnel: small is loaded' said)"
expect "the log names the model" grep -q '"model":"small".*"output_tokens":12' log
# chat_tokens MEMBERS: the number of tokens of its prompt.
chat_tokens() {
    ask POST /v1/chat/completions "{\"model\":\"small\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]$1}" |
        tail -n 1 >answer
    json answer usage.prompt_tokens
}
tokens() { "$BIN" tokenize -m "$SMALL" -p "$1" | tr ',' '\n' | wc -l; }
equal "the template has the section's variables" "$(tokens 'happy 0')" "$(chat_tokens '')"
equal "and those of a request" "$(tokens 'happy happy happy 1 2 3')" \
    "$(chat_tokens ',"chat_template_kwargs":{"more":"happy happy 1 2 3"}')"
equal "tiny, once more" "$tiny" "$(text tiny)"
# Clients of Ollama: all models are listed, the loaded one runs, and an empty prompt unloads it.
ask GET /api/tags '' >answer
expect "both are listed: $(tail -n 1 answer)" grep -q '"name":"small:latest".*"name":"tiny:latest"' answer
ask GET /api/ps '' >answer
expect "tiny runs: $(tail -n 1 answer)" grep -q '{"models":\[{"name":"tiny:latest"[^]]*\][^]]*\]}$' answer
ask POST /api/generate '{"model":"tiny","keep_alive":0}' >answer
expect "it is to go: $(tail -n 1 answer)" grep -q '"response":"","done":true,"done_reason":"unload"}' answer
until_true "tiny is unloaded" status_is tiny unloaded
ask POST /api/generate '{"model":"tiny:latest","prompt":"Once","raw":true,"stream":true,"options":{"num_predict":4}}' >answer
expect "a stream that waited is lines" grep -q '^Content-Type: application/x-ndjson' answer
expect "and no comments" eval '! grep -q "^:" answer'
expect "the wait is told: $(tail -n 3 answer)" grep -q '"done":true.*"load_duration":[1-9]' answer
# A model is described from its file: none is loaded or unloaded for it.
ask POST /api/show '{"model":"small"}' >answer
expect "small is described: $(tail -n 1 answer)" grep -q '"parameters":"num_ctx  *256\\n.*"format":"gguf"' answer
expect "tiny stays" status_is tiny loaded
expect "small is not loaded" status_is small unloaded
# keep_alive: a time until the model goes, none, or at once behind the answer.
ask POST /api/generate '{"model":"tiny","keep_alive":"1h"}' >answer
ask GET /api/ps '' >answer
expect "an hour: $(tail -n 1 answer)" grep -q -e "\"expires_at\":\"$(date -u -d '+1 hour' +%FT%H)" \
    -e "\"expires_at\":\"$(date -u -d '+3590 seconds' +%FT%H)" answer
ask POST /api/generate '{"model":"tiny","keep_alive":-1}' >answer
ask GET /api/ps '' >answer
expect "no end: $(tail -n 1 answer)" grep -q '"expires_at":"2[1-9]' answer
ask POST /api/embed '{"model":"tiny","input":"Once","keep_alive":0}' >answer
expect "an answer before it goes: $(tail -n 1 answer)" grep -q '"embeddings":' answer
until_true "tiny is unloaded" status_is tiny unloaded
ask POST /api/generate '{"model":"tiny","prompt":"Once","raw":true,"keep_alive":"0.2s","stream":false,"options":{"num_predict":2}}' >answer
expect "it was there: $(tail -n 1 answer)" grep -q '"done":true' answer
until_true "tiny is unloaded" status_is tiny unloaded
equal "tiny again" "$tiny" "$(text tiny)"
ask POST /models/unload '{"model":"tiny"}' >answer
expect "unloading by hand" grep -q '{"success":true}' answer
until_true "tiny is unloaded" status_is tiny unloaded
if [ -z "$SAN" ]; then
    until_true "all memory is given back" eval '[ $(($(anonymous) - before)) -lt 3000 ]'
fi
kill -TERM $pid
wait $pid
equal "the status" 0 $?

# A model that does not fit, one that cannot be loaded, and the default model.
head -c 5000 "$TINY" >cut.gguf
cp "$TINY" vast.gguf
truncate -s 64G vast.gguf # of which the system stores little
printf '[large]\nmodel = %s\nkv-memory = 1G\n[cut]\nmodel = %s\n[vast]\nmodel = %s\n' "$SMALL" "$work/cut.gguf" \
    "$work/vast.gguf" >bad.conf
backend=() # a plug-in by its path; sanitizers have none
[ -n "$SAN" ] || backend=(--backend "$BUILD/tests/runnel_fake.so")
start --models bad.conf --models-memory 64M -m "$TINY" --kv-memory 8M "${backend[@]}"
until_true "the default model is loaded at the start" status_is model loaded
equal "it serves requests without a name" "$tiny" "$(text '')"
ask POST /v1/completions '{"model":"large","prompt":"a"}' >answer
expect "too large: $(cat answer)" grep -q '503 Service Unavailable' answer
expect "it says how much" grep -q 'it needs 10[0-9]* MiB of memory' answer
ask POST /v1/completions '{"model":"cut","prompt":"a"}' >answer
expect "a bad file: $(cat answer)" grep -q 'The model `cut` cannot be loaded: ' answer
ask POST /api/show '{"model":"cut"}' >>answer
expect "nor described: $(cat answer)" grep -q 'The model `cut` cannot be read: ' answer
expect "no path is told" [ -z "$(grep -F "$work" answer)" ]
expect "the operator has it" grep -q '^runnel: cut cannot be loaded: .*/cut.gguf: ' said
if [ -z "$SAN" ]; then
    prlimit --pid $pid --as=$((16 << 30)) # not enough to map it
    ask POST /v1/completions '{"model":"vast","prompt":"a"}' >answer
    expect "memory runs out: $(cat answer)" grep -q '503 Service Unavailable' answer
    expect "with the size" grep -q 'The model `vast` cannot be loaded: its 68719476736 bytes cannot be mapped: ' answer
fi
equal "the others serve" "$tiny" "$(text model)"
expect "the server is ready: $(cat said)" grep -q '^runnel: a server of 4 models, of which 1 cannot be loaded, is ready at ' said
expect "the bad file is told at the start: $(cat said)" \
    grep -q '^runnel: warning: bad.conf:4: \[cut\]: cannot be loaded: .*/cut.gguf: ' said
kill -INT $pid
wait $pid
equal "interrupted" 130 $?

printf '[cut]\nmodel = %s\n[none]\nsynthetic = nosuch:Q4_0\n' "$work/cut.gguf" >worse.conf
run serve --models worse.conf --port 0
equal "without a model that can be loaded there is no server" 2 "$code"
expect "each reason is told: $(cat err)" eval 'grep -q "worse.conf:1: \[cut\]: cannot be loaded: " err &&
    grep -q "worse.conf:3: \[none\]: cannot be loaded: .*nosuch" err'
expect "and the end: $(cat err)" grep -q '^runnel: worse.conf: none of its models can be loaded$' err

# Files that are written to while they are served. Weights are in memory, so the text of most models
# stays. A table that steps read ends its model alone, and the next load takes the file as it is.
cp "$TINY" plain.gguf
cp "$DATA/golden/gemma4-e2b/model.gguf" table.gguf
printf 'max-seqs = 2\nkv-memory = 8M\nspeculate = off\n[plain]\nmodel = plain.gguf\n[table]\nmodel = table.gguf\n' >files.conf
start --models files.conf
table=$(text table)
expect "the model with a table: $(cat answer)" [ -n "$table" ]
equal "the other one" "$tiny" "$(text plain)"
ask POST /v1/completions '{"model":"plain","prompt":"Once upon","max_tokens":200,"ignore_eos":true,"temperature":0}' | tail -n 1 >long.before
ask POST /v1/completions '{"model":"plain","prompt":"Once upon","max_tokens":200,"ignore_eos":true,"temperature":0}' | tail -n 1 >long.after &
asking=$!
: >plain.gguf
cp "$TINY" table.gguf
text table >/dev/null
equal "the model ends: $(cat answer)" "model_changed" "$(json answer error.code)"
expect "it says what changed: $(cat answer)" grep -q 'table.gguf: changed since it was opened: has [0-9]* bytes, had [0-9]*; last written' answer
wait $asking
equal "the other one's request goes on" "$(json long.before choices.0.text)" "$(json long.after choices.0.text)"
equal "its text stays, with an empty file" "$tiny" "$(text plain)"
text table >/dev/null
expect "so does the reason: $(cat answer)" grep -q 'cannot be loaded: table.gguf: changed since it was opened' answer
cp "$DATA/golden/gemma4-e2b/model.gguf" table.gguf
sleep 5.2
equal "it is loaded again" "$table" "$(text table)"
for _ in 1 2; do equal "the text stays all the time" "$tiny" "$(text plain)"; done
equal "the operator is told once: $(cat said)" 1 \
    "$(grep -c '^runnel: warning: .*plain.gguf: changed since it was opened: has 0 bytes, .*; requests get what was loaded' said)"
kill -INT $pid
wait $pid
equal "interrupted" 130 $?

refused 2 'none.conf: No such file' serve --models none.conf
printf '[large]\nmodel = %s\n' "$TINY" >taken.conf
refused 2 '\[large\] has a name of the model of --model, large' serve -q -m "$TINY" --alias main --alias large --models taken.conf
refused 2 '--alias: names the model of --model' serve --alias main --models taken.conf
printf '[a]\nctx = 1x\n' >bad.conf
refused 2 "bad.conf:2: ctx: '1x' is not" serve --models bad.conf

# It ends while a model is loaded. The embedded one takes its time.
[ -n "$SAN" ] || {
    printf '[a]\nmodel = %s\n' "$MODELS/tale-20m-q8_0.gguf" >models.conf
    start --models models.conf
    ask POST /v1/completions '{"model":"a","prompt":"a"}' >answer &
    asking=$!
    until_true "it is loading" status_is a loading
    kill -TERM $pid
    wait $pid
    equal "the status while a model is loaded" 0 $?
    wait $asking
    expect "the request was answered: $(cat answer)" grep -q '"Draining"\|"finish_reason"' answer
}
finish
