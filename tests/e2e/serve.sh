# `runnel serve` as a user sees it: its output, the line to paste, its end, and its message for each
# mistake. HTTP itself is tested elsewhere.
# label: address
. "$(dirname "$0")/lib.sh"

chat='{"messages":[{"role":"user","content":"Hello"}],"max_tokens":4}'

# stop SIGNAL CODE: it must end so.
stop() {
    kill "-$1" $pid
    wait $pid
    equal "the status after SIG$1" "$2" $?
}

# Its output, and that the line to paste works.
start
equal "what it costs is said before it is ready" "weights KV kept users draft memory drafts runnel: curl runnel " \
    "$(awk '/set aside/ { print "kept"; next } { print $1 }' said | tr '\n' ' ')"
equal "colours are for terminals" 0 "$(grep -c $'\033' said)"
if command -v curl >/dev/null && [ -z "$SAN" ]; then # a story takes half a minute there
    sh -c "$(sed -n 's/^ *curl /curl -s /p' said)" >answer
    equal "the line can be pasted" assistant "$(json answer choices.0.message.role)"
fi
exec {fd}<>"/dev/tcp/127.0.0.1/$port"
printf 'GET /health HTTP/1.0\r\n\r\n' >&"$fd"
expect "a load balancer's check, without a host, is answered" grep -q '"status":"ok"' <&"$fd"
exec {fd}>&-
"$BIN" serve --port "$port" >out 2>err
equal "a port that is in use ends it with 1" 1 $?
expect "and is named" grep -q "^runnel: cannot listen on 127.0.0.1 port $port: Address already in use$" err
ask POST /v1/messages '{' >answer
expect "Anthropic's clients find the request's id" grep -q '^request-id: [A-Za-z0-9]*' answer
stop TERM 0
equal "ending says nothing" 10 "$(wc -l <said)"

# Addresses that are limited: it says why it cannot serve, or it serves.
for kbytes in $([ -n "$SAN" ] || echo 120000 180000 200000 250000 400000); do
    : >said
    (ulimit -v "$kbytes"; exec "$BIN" serve --port 0 -t 1 >served 2>said </dev/null) &
    pid=$!
    for ((i = 0; i < 600; i++)); do
        grep -q ' is ready at ' said && break # a warning may come before it
        kill -0 $pid 2>/dev/null || break
        sleep 0.05
    done
    port=$(sed -n 's/.* is ready at [^ ]*:\([0-9]*\)\b.*/\1/p' said)
    if [ "$port" ]; then
        for i in 1 2 3 4 5 6 7 8; do ask POST /v1/chat/completions "${chat/4/40}" >answer.$i & asked[i]=$!; done
        wait "${asked[@]}"
        equal "$kbytes KB: all are answered" 8 "$(grep -l "^HTTP/1.1 200" answer.[1-8] | wc -l)"
        stop TERM 0
    else
        wait $pid
        equal "$kbytes KB: it ends" 1 $?
        equal "$kbytes KB: it says why: $(cat said)" 1 "$(grep -c 'of memory are free, and the weights take' said)"
    fi
done
expect "400 MB suffice" [ "$port" ]
export RUNNEL_MODEL=$SMALL

# Without a template.
start -m "$TINY"
expect "a model without a template is warned of" grep -q "^runnel: warning: the model has no chat template" said
ask POST /v1/chat/completions "$chat" >answer
expect "its chats are refused" grep -q '^HTTP/1.1 400 ' answer
if command -v curl >/dev/null; then
    sh -c "$(sed -n 's/^ *curl /curl -s /p' said)" >answer
    equal "its line can be pasted, too" text_completion "$(json answer object)"
fi
stop INT 130

start -q -v --color always --alias one --alias two --access-log log
equal "-q leaves the line that it is ready" 1 "$(wc -l <said)"
expect "with colour where that is asked for" grep -q $'^runnel: one is ready at \033' said
ask GET /v1/models '' >answer
equal "each name is listed once" 2 "$(grep -o '"id":' answer | wc -l)"
for request in "GET /v1/completions" "DELETE /v1/models/a-name" "HEAD /health" "GET /a-secret"; do
    ask "${request% *}" "${request#* }" '' >/dev/null
done
stop TERM 0
expect "the log has the route of a 405" grep -q '"method":"GET","route":"/v1/completions","status":405' log
expect "and no more of a path than the route has" grep -q '"method":"DELETE","route":"/v1/models/\*","status":405' log
expect "HEAD is no GET" grep -q '"method":"HEAD","route":"/health","status":200' log
expect "an unknown path is not written" grep -q '"method":"GET","route":null,"status":404' log
expect "-v: $(cat said)" grep -q ' GET /v1/completions 405 in' said
expect "-v, an unknown path: $(cat said)" grep -q ' GET (no route) 404 in' said
expect "the access log has the request" grep -q '"route":"/v1/models","status":200' log
expect "-v: a line of it for people: $(cat said)" grep -q '^[0-9:]* GET /v1/models 200 in [0-9.]* ms$' said

# File, environment, command line.
printf 'alias = file\nquiet = yes\nthreads = 1\n' >serve.conf
start --config serve.conf
expect "options come from the file" grep -q '^runnel: file is ready' said
stop TERM 0
RUNNEL_ALIAS=environment start --config serve.conf
expect "the environment beats it" grep -q '^runnel: environment is ready' said
stop TERM 0
RUNNEL_ALIAS=environment start --config serve.conf --alias line --pooling last
expect "the command line beats both" grep -q '^runnel: line is ready' said
ask POST /v1/embeddings '{"input":"a fox"}' >own
ask POST /v1/embeddings '{"input":"a fox","pooling":"last"}' >last
ask POST /v1/embeddings '{"input":"a fox","pooling":"mean"}' >mean
vector() { grep -o '"embedding":\[[^]]*' "$1"; }
equal "--pooling is that of requests without one" "$(vector last)" "$(vector own)"
expect "and not the mean" [ "$(vector mean)" != "$(vector own)" ]
stop TERM 0

# Keys.
printf '# ours\n\n  first \nsecond\n' >keys
start -q --host 0.0.0.0 --api-key-file keys
ask GET /v1/models '' >answer
expect "a key is asked for" grep -q '^HTTP/1.1 401 ' answer
for key in first second; do
    ask GET /v1/models '' "Authorization: Bearer $key" >answer
    expect "the key '$key' counts" grep -q '^HTTP/1.1 200 ' answer
done
stop TERM 0

# The environment's text is read as a file's is.
export RUNNEL_API_KEY="$(printf ' first \r\nsecond\t\r\n.')"
start -q
for key in first second .; do
    ask GET /v1/models '' "Authorization: Bearer $key" >answer
    expect "the key '$key' of the environment counts" grep -q '^HTTP/1.1 200 ' answer
done
stop TERM 0
unset RUNNEL_API_KEY

# Accepted requests finish, unless their time is over or a second signal comes.
# drained WHAT TOKENS SIGNAL CODE AGAIN DONE OPTION...
drained() {
    local what=$1 tokens=$2 signal=$3 status=$4 again=$5 done=$6
    shift 6
    start -q "$@"
    : >stream
    ask POST /v1/completions "{\"prompt\":\"Once\",\"max_tokens\":$tokens,\"n\":8,\"ignore_eos\":true,\"stream\":true}" >stream &
    local reader=$!
    until_true "$what: the stream begins" grep -q '^data: ' stream
    kill "-$signal" $pid
    if [ "$again" ]; then # two of a kind at once are one
        while ask GET /health '' 2>/dev/null | grep -q '^HTTP/1.1 200 '; do sleep 0.01; done
        kill "-$again" $pid
    fi
    wait $pid
    equal "$what: its status" "$status" $?
    wait $reader
    equal "$what: streams finish" "$done" "$(grep -c '^data: \[DONE\]' stream)"
}
drained "SIGTERM" 100 TERM 0 "" 1
drained "Ctrl-C" 100 INT 130 "" 1
slowly 5000
drained "a drain that takes too long" 900 TERM 0 "" 0 --drain-timeout 0.05 "${slow[@]}"
expect "it says why it ends" grep -q '^data: {"error":{.*"The request was ended by the server"' stream
drained "Ctrl-C twice" 900 INT 130 INT 0 "${slow[@]}"

# Mistakes: one line that names the value.
# shellcheck disable=SC2034  # run uses it
runner=(timeout 60)
: >empty
echo junk >junk
# shellcheck disable=SC2016  # Jinja, not the shell
echo '{% for %}' >broken.jinja
head -c 1000000 "$MODELS/tale-20m-q8_0.gguf" >cut.gguf
printf 'prot = 1\n' >bad.conf
refused 2 "--port: '99999' is not a whole number from 0 to 65535" serve --port 99999
refused 2 "--host 0.0.0.0: others than this machine could connect, so --api-key" serve --host 0.0.0.0
refused 2 "none/log: No such file" serve --host 0.0.0.0 --allow-anyone --access-log none/log
refused 2 "--host: '' is not an address" serve --host ''
for host in https://chat.example chat.example:80 chat.example/ 'chat example'; do
    refused 2 "--allow-host: '$host' is not a name such as chat.example" serve -m nosuch.gguf --allow-host "$host"
done
refused 2 "::1.:80' is not a name such as chat.example" serve -m nosuch.gguf --allow-host '[::1]:80'
refused 2 "nosuch.gguf: No such file" serve -m nosuch.gguf --allow-host chat.example --allow-host ::1
refused 2 "none: No such file" serve --api-key-file none
refused 2 "empty: holds no key" serve --api-key-file empty
printf 'one\0two\n' >keys
refused 2 "keys: holds a NUL byte" serve -m nosuch.gguf --api-key-file keys
refused 2 "--api-key: a key has 0 bytes, expected 1 to 512" serve -m nosuch.gguf --api-key ' '
refused 2 "--api-key: byte 2 of key 2 is 0x0a; a key has printable ASCII characters" \
    serve -m nosuch.gguf --api-key fine --api-key "$(printf 'k\n2')"
for key in ' ' "$(printf '\t')" "$(printf '\r\n\r')"; do
    RUNNEL_API_KEY=$key refused 2 "RUNNEL_API_KEY: a key has 0 bytes, expected 1 to 512" serve -m nosuch.gguf
done
RUNNEL_API_KEY=$(printf 'caf\303\251') refused 2 "RUNNEL_API_KEY: byte 4 of key 1 is 0xc3; a key has printable ASCII" \
    serve -m nosuch.gguf
expect "the key is not shown" [ -z "$(grep caf err)" ]
RUNNEL_API_KEY=$(printf 'k1\nk2') refused 2 "RUNNEL_API_KEY: a header's value cannot hold control characters" \
    explain --url http://127.0.0.1:1
refused 2 "--tls-cert is given without --tls-key" serve --tls-cert junk
refused 2 "none.pem: No such file" serve --tls-cert none.pem --tls-key none.pem
refused 2 "junk: holds no CERTIFICATE" serve --tls-cert junk --tls-key junk
refused 2 "--access-log: none/log: No such file" serve --access-log none/log
refused 2 "--trace: none/trace: No such file" serve --trace none/trace
refused 2 "bad.conf:1: unknown option 'prot'; did you mean 'port'" serve --config bad.conf
refused 2 "none.jinja: No such file" serve --chat-template none.jinja
refused 2 "--chat-template: 'chatmal' is neither a file nor a template of ours" serve --chat-template chatmal
refused 2 "--chat-template-kwargs: '7' is a number, not an object" serve --chat-template-kwargs 7
refused 2 "broken.jinja: chat template: line 1, column 8" serve --chat-template broken.jinja
refused 2 "cut.gguf: tensor token_embd.weight: offset" serve -m cut.gguf
refused 2 "vocab.gguf: holds no tensors" serve -m "$VOCAB"
refused 2 "--ctx: 2048 is more than the model's context, 1024" serve --ctx 2048
refused 2 "KV memory of 1.0 KiB is too little" serve --kv-memory 1K
refused 2 "--max-body: '32p' is not a size such as" serve --max-body 32p
refused 2 "--cors-origin: 'https://chat.example/' is not an origin" serve --cors-origin https://chat.example/
refused 2 "nosuch.gguf: No such file" serve nosuch.gguf
finish
