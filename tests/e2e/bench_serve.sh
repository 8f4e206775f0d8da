#!/bin/bash
# `runnel bench serve`: the own server, what is written, wrong use; then tests/npm/bench_serve.mjs.
. "$ROOT/tests/e2e/lib.sh"

slowly 1000
load=(bench serve -m "$SMALL" --server-args "${slow[*]}" --input-tokens 32 --output-tokens 8)
spin
run "${load[@]}" --requests 4 --concurrency 1,2 --json r.json --plot p.svg --goodput ttft:60000
spin_end
equal "levels: $(cat err)" 0 "$code"
equal "a row for each level" 2 "$(grep -c '^| *[12] | *4 | *0 |' out)"
equal "tokens of the first level" "128 32" "$(json r.json levels.0.total_input_tokens) $(json r.json levels.0.total_output_tokens)"
equal "all requests are good" "$(json r.json levels.1.request_throughput)" "$(json r.json levels.1.request_goodput)"
is_busy=$(json r.json levels.0.busy_share | awk '{ print ($1 >= 0.1) + 0 }')
equal "the warning and the JSON agree on a busy machine" "$is_busy" "$(grep -c 'warning: other programs took' err)"
expect "the plot has both points" [ "$(grep -c '<circle' p.svg)" = 2 ]
expect "with their loads" grep -q 'class="dim middle">2</text>' p.svg
expect "the server's own means are shown" grep -q "^the server's own means (/metrics): TTFT" out
run "${load[@]}" --requests 4 --rate 100 --prompt-ids -q --ramp
equal "a ramp of rates with token ids: $(cat err)" 0 "$code"
expect "it has several rows" [ "$(grep -c '^| *[0-9]*00 |' out)" -ge 2 ]

# The own server ends with the program, whatever ends that.
servers() { pgrep -f -- "--alias load-$$ " >/dev/null; }
no_servers() { ! servers; }
load=(bench serve -m "$SMALL" --server-args "--alias load-$$ ${slow[*]}" -q)
run "${load[@]}" --requests 2
expect "no server is left" no_servers
"$BIN" "${load[@]}" --requests 2 --rate 100,0.001 >out 2>&1 &
pid=$!
until_true "there is a server" servers
until_true "a row reaches a file when its level ends" grep -q '^| *100 | *2 |' out
kill -KILL $pid
wait $pid 2>/dev/null
until_true "no server is left after a kill" no_servers

# A server of random weights: its tokens are any bytes, 0 too.
run bench serve --server-args "--synthetic tiny:Q4_0 --backend cpu" --endpoint completions --concurrency 4 --requests 40 --input-tokens 8 --output-tokens 32
equal "synthetic: exit code, $(cat err)" 0 "$code"
expect "synthetic: all requests are complete" grep -q "^|         4 |       40 |      0 |" out
refused 2 "--synthetic: --model names another model" serve --synthetic tiny:Q4_0 -m "$SMALL"
refused 2 "the own server: /nonexistent: No such file" bench serve -m /nonexistent
refused 2 "the own server: no-such-model: no such file" bench serve -m no-such-model
refused 2 "the own server: unknown option --prot" bench serve --server-args "--prot 1"
refused 2 "--url: 'localhost' is not a URL of a server" bench serve --url localhost
refused 1 "127.0.0.1:9: cannot connect: Connection refused" bench serve --url http://127.0.0.1:9
refused 2 "--input-tokens: '0' is not a length" bench serve --input-tokens 0
refused 2 "one argument too many: 'x'" help run x
run help bench serve
expect "help of a command of two words" grep -q "^usage: runnel bench serve " out
[ "$failures" = 0 ] || finish
export SMALL BUILD
node_tests bench_serve.mjs
