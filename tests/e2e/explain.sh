# `runnel explain`, `runnel run --explain`, and --trace: the same words from a run, a saved file and a
# server; wrong uses; traces that are whole when Ctrl-C ends the program.
# label: address
. "$(dirname "$0")/lib.sh"
export RUNNEL_MODEL=$SMALL
pid=
trap '[ "$pid" ] && kill "$pid" 2>/dev/null; rm -rf "$work"' EXIT

# Wrong uses.
refused 2 "what to explain" explain
refused 2 "nowhere.json: No such file" explain nowhere.json
refused 2 "'' is not a file name" explain ''
refused 2 "one argument too many: 'b'" explain a b
refused 2 "'a/b' is no id of a request" explain a/b --url http://127.0.0.1:1
refused 2 "--url: .*ftp://127.0.0.1" explain --url ftp://127.0.0.1
refused 1 "127.0.0.1" explain 1 --url http://127.0.0.1:1
echo '{"schema":"runnel.request","version":99}' >new.json
refused 2 "new.json: version 99 of the schema, expected 1" explain new.json
refused 2 "17: no such file; a request of a server needs --url" explain 17
echo '# A text' >text.md
refused 2 "text.md: not JSON" explain text.md
echo '{"schema":"other"}' >other.json
refused 2 "other.json: no document of the schema" explain other.json
echo '{"schema":"runnel.request","version":1' >cut.json
refused 2 "cut.json: offset 39" explain cut.json
refused 2 "--trace: nowhere/t.json: No such file" run -p a -n 1 --trace nowhere/t.json
refused 2 "--trace-limit belongs to --trace, which is missing" run -p a -n 1 --trace-limit 3
refused 2 "--trace-limit belongs to --trace, which is missing" serve --port 0 --trace-limit 3
refused 2 "is the file that --model reads" run -m "$SMALL" -p a -n 1 --trace "$SMALL"

# A run says it after its answer, and its document says the same later.
run run -p "Once upon a time" -n 20 --seed 1 --explain --trace run.trace
equal "run --explain" 0 "$code"
tr -s '\n ' ' ' <err >line # sentences go on in the next line
expect "it explains the first token: $(cat err)" grep -q " [0-9.,]* ms to first token: .* its own prompt (5 tokens" line
expect "it explains the tokens" grep -q "Then 19 tokens in" err
expect "the strip has a mark or an end" grep -q " ms$" err
equal "the trace of a run is whole" X "$(json run.trace traceEvents.5.ph)"
run run -p "Once upon a time" -n 20 --seed 1 --json --explain -q
json out explain >saved.json
expect "--json has the document" grep -q '"schema": *"runnel.request"' saved.json
run explain saved.json
equal "a saved document is shown: $(cat err)" 0 "$code"
cp out plain
expect "as text" grep -q " to first token: " plain
expect "without colour" test "$(grep -c "$(printf '\033')" plain)" = 0
run explain saved.json --color always
expect "with colour where it is wanted" grep -q "$(printf '\033')\[38;5;" out
equal "no line is wider than 100 columns" "" "$(awk 'length > 100' plain)"
first=$(json saved.json choices.0.text.0)
expect "the words are the document's: $first" grep -qF "  ${first:0:40}" plain

# A server.
"$BIN" serve --port 0 -q --api-key secret --trace serve.trace 2>said &
pid=$!
ready "with a trace"
url=http://127.0.0.1:$port
refused 1 "the key is refused" explain --url "$url"
export RUNNEL_API_KEY=secret
run explain --url "$url"
expect "an idle server has no requests" grep -q "no request is running or kept" out
ask POST /v1/completions '{"prompt":"Once","max_tokens":8}' "Authorization: Bearer secret" >answer
id=$(grep -o 'cmpl-[A-Za-z0-9]*' answer | head -n 1)
run explain --url "$url"
expect "the list has it: $(cat out)" grep -q " finished .* $id$" out
run explain "$id" --url "$url"
expect "by its id" grep -q "to first token: " out
run explain 1 --url "$url/" --json
expect "by its number, as JSON" test "$(json out id)" = "$id"
refused 2 "No request '77'" explain 77 --url "$url"
if command -v script >/dev/null; then
    for columns in 80 100 140; do
        script -qec "stty cols $columns; '$BIN' explain --url '$url' --color never" /dev/null </dev/null | tr -d '\r' >list
        equal "$columns columns: $(awk -v n=$columns 'length > n' list)" "" "$(awk -v n=$columns 'length > n' list)"
        expect "$columns columns: the cause is there" grep -q "tpot ms  largest cause" list
    done
    expect "a wide terminal has the id" grep -q "$id" list
fi
kill -INT "$pid"
wait "$pid"
equal "Ctrl-C" 130 $?
pid=
equal "the trace of a server is whole" M "$(json serve.trace traceEvents.0.ph)"
expect "it has the steps" grep -q '"name":"step"' serve.trace
expect "it has the request" grep -q "\"id\":\"$id\"" serve.trace

# An answer that is no document of ours is a failure of the server.
if command -v node >/dev/null; then
    node -e 'require("http").createServer((q, a) => a.end("[not ours")).listen(0, "127.0.0.1", function () { console.log(this.address().port); })' >port &
    pid=$!
    until_true "the other server is there" test -s port
    url=http://127.0.0.1:$(cat port)
    refused 1 "no list of requests" explain --url "$url"
    refused 1 "no list of requests" explain --url "$url" --json
    refused 1 "$url: offset" explain 1 --url "$url"
fi
finish
