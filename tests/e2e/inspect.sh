# `runnel inspect`: text and JSON, of whole models, a vocabulary, and hostile strings.
. "$(dirname "$0")/lib.sh"

run inspect
equal "the embedded model" 0 "$code"
expect "its architecture" grep -q "general.architecture .*llama" out
expect "its tensors" grep -q "token_embd.weight .*\[512, 4096\] .*Q8_0" out
expect "long arrays are abbreviated" grep -q "tokenizer.ggml.tokens .*, \.\.\.\] (4096)" out
expect "KV bytes" grep -q "kv f16 .*per token" out
cp out embedded
run inspect "$ROOT/models/tale-20m-q8_0.gguf"
expect "the same file by its path" cmp <(tail -n +2 embedded) <(tail -n +2 out)
run inspect -m "$ROOT/models/tale-20m-q8_0.gguf"
equal "-m FILE" 0 "$code"

run inspect --json
equal "--json exits 0" 0 "$code"
equal "parameters" 20454912 "$(json out totals.params)"
equal "KV bytes per token, f16: 7 layers x 2 heads x 64 x (K and V) x 2 bytes" 3584 \
    "$(json out memory.f16.kv_token_bytes)"
equal "f32 is twice that" 7168 "$(json out memory.f32.kv_token_bytes)"
equal "all tensors are listed" "$(json out totals.tensors)" "$(json out '#tensors')"
equal "supported" true "$(json out supported)"
equal "file_bytes" "$(stat -c %s "$ROOT/models/tale-20m-q8_0.gguf")" "$(json out file_bytes)"

# What a decode step reads, by kind of op: it adds up to the step's bytes.
equal "matmuls read the weights" 21725184 "$(json out decode_reads.kinds.matmul.weight_bytes)"
equal "attention reads the KV of the whole context" $((3584 * 1024)) \
    "$(json out decode_reads.kinds.attention.kv_bytes)"
sum=0
for kind in embed norm matmul attention; do
    sum=$((sum + $(json out decode_reads.kinds.$kind.weight_bytes) + $(json out decode_reads.kinds.$kind.kv_bytes)))
done
equal "the kinds add up" "$(json out memory.f16.decode_bytes_full)" "$sum"
equal "kinds that read nothing are left out" 4 "$(json out '#decode_reads.kinds')"
expect "the text has them" grep -q "^  attention  *7  *0  *3,670,016 " embedded
expect "and nothing else" sh -c "! grep -q '^  rope ' embedded"

run inspect "$VOCAB" --json
equal "a vocabulary can be inspected" 0 "$code"
equal "it cannot be run" false "$(json out supported)"
expect "and the reason is given" test -n "$(json out reason)"
run inspect "$VOCAB"
expect "without what a step reads" sh -c '! grep -q "step" out'
expect "in the text too" grep -q "not computed: " out

# Another architecture: shown, with the reason why it cannot run.
sed 's/llama/xlama/g' "$TINY" >other.gguf
run inspect other.gguf
equal "a foreign architecture can be inspected" 0 "$code"
expect "and is named" grep -q "not computed: .*xlama" out
refused 2 "xlama" run -m other.gguf -p a

# Control characters in names must not reach the terminal.
LC_ALL=C sed 's/token_embd/tok\x1b[31mm\xff/g' "$TINY" >hostile.gguf
run inspect hostile.gguf
equal "hostile names can be inspected" 0 "$code"
expect "and are escaped" grep -qF 'tok\x1b[31mm\xff' out
expect "completely" sh -c '! grep -q "$(printf "\033")" out'
run inspect hostile.gguf --json
expect "their JSON is sound" sh -c "'$JSONGET' tensors.0.name <out >/dev/null"
finish
