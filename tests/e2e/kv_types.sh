# The cost of the coarser formats of the KV cache: memory per token, and the perplexity of the embedded
# model.
. "$(dirname "$0")/lib.sh"

run inspect "$MODELS/tale-20m-q8_0.gguf" --json
equal "inspect exits 0" 0 "$code"
# 7 layers, 2 heads of 64 for keys and for values
equal "f16: two bytes an element" $((7 * 2 * 2 * 64 * 2)) "$(json out memory.f16.kv_token_bytes)"
equal "int8: a byte, and a scale per head" $((7 * 2 * 2 * (64 + 2))) "$(json out memory.int8.kv_token_bytes)"
equal "int4: half a byte, and a scale per 32" $((7 * 2 * 2 * (32 + 4))) "$(json out memory.int4.kv_token_bytes)"

# the rest is arithmetic that other tests run under sanitizers, and slow there
[ -z "${SAN:-}" ] || finish

# perplexity TYPE: of the beginning of the validation text
perplexity() {
    run eval -m "$MODELS/tale-20m-q8_0.gguf" --loss "$MODELS/val.txt" --chunks 3 --json --kv-type "$1"
    equal "$1: exit" 0 "$code"
    json out perplexity
}

# near TYPE MOST: perplexity within MOST of f16's
near() {
    local other
    other=$(perplexity "$1")
    echo "perplexity: f16 $base, $1 $other"
    expect "$1: perplexity $other within $2 of $base" \
        awk -v a="$base" -v b="$other" -v most="$2" 'BEGIN { d = b / a - 1; exit !(d < most && -d < most && a != b) }'
}
base=$(perplexity f16)
near int8 0.001
near int4 0.02
finish
