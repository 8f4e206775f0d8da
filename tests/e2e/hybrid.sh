# Models with recurrent layers and with a block that drafts, as users see them: inspect, plan, run, serve, bench.
. "$(dirname "$0")/lib.sh"
plain=$DATA/golden/qwen3_5/model.gguf # recurrent layers, no block
"$MTP_MAKE" mtp.gguf || fail "the model cannot be written"

# Four recurrent layers, one with attention. A state has 4 heads x 16 x 16 floats, and 3 inputs of a convolution.
run inspect "$plain" --json
equal "inspect" 0 "$code"
state=$(json out memory.f16.state_bytes)
equal "bytes of the states" 22528 "$state"
equal "they do not depend on the KV type" "$state" "$(json out memory.int8.state_bytes)"
equal "a page has KV alone" $((32 * $(json out memory.f16.kv_token_bytes))) "$(json out memory.f16.kv_page_bytes)"
equal "the states take the KV of 3 blocks" 96 "$(json out memory.f16.state_interval)"
equal "a step reads and writes them" $((2 * state)) \
    $(($(json out decode_reads.kinds.conv.state_bytes) + $(json out decode_reads.kinds.delta.state_bytes)))
sum=0
for kind in embed norm matmul attention conv delta; do
    for part in weight kv state; do sum=$((sum + $(json out decode_reads.kinds.$kind.${part}_bytes))); done
done
equal "the kinds add up" "$(json out memory.f16.decode_bytes_full)" "$sum"
equal "no block that drafts" null "$(json out mtp)"
equal "two states and the KV of a context" \
    $((2 * state + 512 * $(json out memory.f16.kv_token_bytes))) "$(json out memory_here.f16.kv_context_bytes)"
run inspect "$plain"
expect "the text says so" grep -q "^  state  *22.5 kB per sequence, read and written by every token" out
expect "and where prefixes continue" grep -q "^  *a checkpoint for prefixes every 96 tokens (kv f16)" out
expect "no tensor is a block's" sh -c '! grep -q "  mtp$" out'
run inspect --json
equal "a model without states" "0 0" "$(json out memory.f16.state_bytes) $(json out memory.f16.state_interval)"

# The block that drafts.
run inspect mtp.gguf --json
equal "its tensors" "15 true" "$(json out mtp.tensors) $(json out mtp.used)"
expect "its KV has memory" [ "$(json out memory_here.f16.mtp_kv_bytes)" -gt 0 ]
run inspect mtp.gguf
expect "the text names it" grep -q "^  a block of 15 tensors, .*, drafts tokens (mtp): used unless --speculate" out
equal "and marks its tensors" 15 "$(grep -c '^  blk.5.*  mtp$' out)"
run plan mtp.gguf --bandwidth 20GB/s --ctx 512 --users 3 --json
equal "plan: states of a user" $((2 * state)) "$(json out memory.state_user_bytes)"
equal "of all" $((6 * state)) "$(json out memory.states_bytes)"
equal "KV of all, apart" $((3 * 512 * 256)) "$(json out memory.kv_bytes)"
total=0
for part in weight step kv states mtp; do total=$((total + $(json out memory.${part}_bytes))); done
equal "all parts" "$(json out memory.total_bytes)" "$total"
run plan qwen3.5-27b --device h200 --ctx 8192 --users 8
expect "states per sequence" grep -q "^model .*KV f16 65.5 kB per token, state 157 MB per sequence$" out
expect "states of the users" \
    grep -q "^  states  *2.5 GB  314 MB for each user: the running state and a checkpoint, 157 MB each$" out
expect "the assumption" grep -q "One is counted for each user\.$" out

for command in "run -p a" "serve --port 0 -q" "bench --speculate -n 4 -r 1 -q --drafters"; do
    case $command in bench*) drafter=mtp ;; *) drafter="--speculate mtp" ;; esac
    # shellcheck disable=SC2086  # to be split
    refused 2 "'mtp' drafts with a block of the model, and this model has none" $command $drafter -m "$TINY"
done
for who in off auto mtp lookup,mtp; do
    run run -m mtp.gguf -p abcdef -n 100 --temp 0 --json --speculate "$who" --draft-min "$([ "$who" = off ] && echo 0 || echo 2)"
    equal "--speculate $who: $(cat err)" 0 "$code"
    json out text >"text.$who"
    expect "the same text" cmp -s text.off "text.$who"
done
run run -m mtp.gguf -p abcdef -n 100 --temp 0 --json --speculate mtp --draft-min 2
expect "most drafts are right" [ "$(json out accepted_tokens)" -gt 50 ]
run bench -m mtp.gguf --speculate -n 16 -r 1 --draft-lengths 2 -o json
expect "bench: mtp is one of the drafters" grep -q '"mtp"' out
run bench -m "$TINY" --speculate -n 16 -r 1 --draft-lengths 2 -o json
expect "where the model has it" sh -c '! grep -q "\"mtp\"" out'

# The server: its first lines, its metrics, its picture.
if command -v curl >/dev/null; then
    "$BIN" serve --port 0 -m mtp.gguf >log 2>&1 </dev/null &
    server=$!
    trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; rm -rf "$work"' EXIT
    for _ in $(seq 600); do
        url=$(sed -n 's/.*ready at \(http:[^ ]*\).*/\1/p' log)
        [ -n "$url" ] && break
        sleep 0.1
    done
    expect "a line for states: $(cat log)" \
        grep -q "^  states  *22.5 kB a sequence, in the same memory; kept for prefixes every 96 tokens" log
    expect "a line for the block" grep -q "^  draft block  .* of KV cache (mtp)" log
    expect "drafters" grep -q "^  drafts  .* by lookup, shared, mtp" log
    text=$(printf 'x%.0s' $(seq 200))
    curl -s "$url/v1/completions" -d "{\"prompt\":\"$text\",\"max_tokens\":8}" >answer
    for _ in $(seq 100); do # the request is over for the client first
        curl -s "$url/metrics" >metrics
        grep -q '^runnel:states{.*state="held"} 0$' metrics && break
        sleep 0.1
    done
    # value NAME [LABEL]
    value() { sed -n "s/^$1{[^}]*${2:-}} //p" metrics; }
    equal "bytes of a sequence" "$state" "$(value runnel:state_sequence_bytes)"
    equal "states are not held" 0 "$(value runnel:state_bytes 'state="held"')"
    cached=$(value runnel:states 'state="cached"')
    expect "some are cached" [ "$cached" -gt 0 ]
    equal "their bytes" $((cached * state)) "$(value runnel:state_bytes 'state="cached"')"
    equal "bytes of KV pages, apart" $((8192 * $(value runnel:kv_pages 'state="cached"'))) \
        "$(value runnel:kv_bytes 'state="cached"')"
    equal "evictions" 0 "$(value runnel:state_evictions_total)"
    expect "drafts by drafter" grep -q '^runnel:draft_tokens_total{.*drafter="mtp"} ' metrics
    expect "the program's own drafter is not the server's" sh -c '! grep -q "drafter=\"custom\"" metrics'
    curl -s "$url/engine" >picture
    equal "the picture has them" "$cached" "$(json picture kv.states.cached)"
    curl -s "$url/v1/chat/completions" \
        -d '{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,"}}]}]}' >answer
    expect "images are refused" grep -q '"image_url\\" is not supported: the model reads text alone' answer
fi
finish
