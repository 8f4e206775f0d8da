# `runnel eval`: the measure's definition on short texts; eval_long.sh runs a part of val.txt.
. "$(dirname "$0")/lib.sh"
head -c 3000 "$MODELS/val.txt" >text

run eval --loss text --chunk 64 --chunks 3 --json
equal "eval exits 0" 0 "$code"
equal "tokens: all but the first of each chunk" $((3 * 63)) "$(json out tokens)"
equal "chunks" 3 "$(json out chunks)"
loss=$(json out loss)
run eval --loss text --chunk 64 --chunks 3 --json --batch-tokens 7 -t 1
equal "the loss does not depend on batches and threads" "$loss" "$(json out loss)"
run eval --loss text --chunk 64 --chunks 3
expect "the text form" grep -q "^loss  *${loss:0:6}" out

# The same from the logits that run writes, by another program.
"$BIN" tokenize --no-bos -f text | tr -d '[]' | cut -d, -f1-64 >ids
run run --prompt-ids "$(cat ids)" -n 0 --logits logits -q
equal "the logits of a chunk" $((64 * 4096 * 4)) "$(stat -c %s logits)"
run eval --loss text --chunk 64 --chunks 1 --json
loss=$(json out loss)
other=$("$LOGITS_LOSS" logits 4096 "$(cat ids)")
expect "eval's loss of a chunk, $loss, is that of the logits, $other" \
    awk -v a="$loss" -v b="$other" 'BEGIN { exit !(a > 0.1 && a - b < 1e-5 && b - a < 1e-5) }'

# The same as evaluation harnesses ask a server for it. The second time the prompt is cached.
"$BIN" serve --port 0 -t 1 >served 2>said </dev/null &
pid=$!
ready "for logprobs"
for max in 0 1; do
    ask POST /v1/completions "{\"prompt\":[$(cat ids)],\"echo\":true,\"logprobs\":1,\"max_tokens\":$max}" |
        tail -n 1 >answer
    other=$(json answer choices.0.logprobs.token_logprobs | tr -d '[]' | tr ',' '\n' |
        awk 'NR > 1 && NR <= 64 { sum -= $1; n++ } END { printf "%.8f", sum / n }')
    expect "eval's loss, $loss, is that of echoed logprobs, $other" \
        awk -v a="$loss" -v b="$other" 'BEGIN { exit !(a > 0.1 && a - b < 1e-5 && b - a < 1e-5) }'
done
kill $pid
wait $pid

# Another format of the same model against it, and the model against itself.
run eval --loss text --chunk 64 --chunks 2 --reference "$MODELS/tale-20m-q8_0.gguf" --json
equal "itself: no divergence" "0 0.0 1.0 0.0" \
    "$code $(json out reference.kl_max) $(json out reference.same_top) $(json out reference.loss_difference)"
run eval -m "$MODELS/tale-20m-q4_k_m.gguf" --loss text --chunk 64 --chunks 2 --reference "$MODELS/tale-20m-q8_0.gguf"
expect "the losses, their difference and the divergence: $(cat out)" \
    grep -q '^reference .*loss [0-9.]* ± ' out
expect "KL is above 0" grep -q '^KL  *0\.0*[1-9][0-9]* ± ' out
refused 2 "--reference: .* has 512 tokens, and .* has 4096: they cannot be compared" eval --loss text --chunk 64 --reference "$TINY"

printf 'short' >short
refused 2 "short: . tokens are less than one chunk of 1024" eval --loss short
refused 2 "/nonexistent: No such file" eval --loss /nonexistent
refused 2 "--chunk: 2000 tokens do not fit the context of 1024" eval --loss text --chunk 2000
refused 2 "--chunk: '1' is not a whole number from 2" eval --loss text --chunk 1
refused 2 "--ctx: 5000 is more than the model's context, 1024" eval --loss text -c 5000
refused 2 "--loss: '' is not a file name" eval --loss ''
truncate -s $(((1 << 30) + 1)) huge
refused 2 "huge: is longer than the limit of 1024 MiB" eval --loss huge
finish
