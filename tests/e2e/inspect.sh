# `runnel inspect`: text and JSON, of whole models, a vocabulary, and hostile strings.
. "$(dirname "$0")/lib.sh"

run inspect
equal "the embedded model" 0 "$code"
expect "its architecture" grep -q "general.architecture .*llama" out
expect "its tensors" grep -q "token_embd.weight .*\[512, 4096\] .*Q8_0" out
expect "long arrays are abbreviated" grep -q "tokenizer.ggml.tokens .*, \.\.\.\] (4096)" out
expect "KV bytes" grep -q "kv f16 .*per token" out
expect "its chat template" grep -qF "  chat template of 5" out
expect "which begins so" grep -q "^  chat template of [0-9]* bytes: {{ bos_token }}{% if " out
expect "one file is not listed" sh -c '! grep -q "^files" out'
cp out embedded
run inspect "$MODELS/tale-20m-q8_0.gguf"
# free memory changes between two runs
expect "the same file by its path" \
    cmp <(tail -n +2 embedded | grep -v " contexts of ") <(tail -n +2 out | grep -v " contexts of ")
run inspect -m "$MODELS/tale-20m-q8_0.gguf"
equal "-m FILE" 0 "$code"

run inspect --json
equal "--json exits 0" 0 "$code"
equal "parameters" 20454912 "$(json out totals.params)"
equal "KV bytes per token, f16: 7 layers x 2 heads x 64 x (K and V) x 2 bytes" 3584 \
    "$(json out memory.f16.kv_token_bytes)"
equal "f32 is twice that" 7168 "$(json out memory.f32.kv_token_bytes)"
equal "weights that are loaded" 21755904 "$(json out memory_here.f16.weight_bytes)"
equal "KV memory: at most two contexts" $((2 * 3584 * 1024)) "$(json out memory_here.f16.kv_bytes)"
expect "contexts that fit into what is free" \
    [ "$(json out memory_here.f16.contexts)" -le $(($(json out memory_here.f16.available_bytes) / 3584 / 1024)) ]
expect "at least one" [ "$(json out memory_here.f32.contexts)" -ge 1 ]
expect "the text has them" grep -q "^  kv f16 .* contexts of 1024, beside 21.8 MB of weights" embedded
equal "all tensors are listed" "$(json out totals.tensors)" "$(json out '#tensors')"
equal "supported" true "$(json out supported)"
equal "the template is whole" "$(sed -n 's/^  chat template of \([0-9]*\) bytes.*/\1/p' embedded)" \
    "$(json out chat_template | wc -c)"
equal "files" 1 "$(json out '#files')"
equal "the file of a tensor" 0 "$(json out tensors.0.file)"
equal "file_bytes" "$(stat -L -c %s "$MODELS/tale-20m-q8_0.gguf")" "$(json out file_bytes)"

# The bytes that a decode step reads, by kind of op: they add up to the step's bytes.
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

run inspect --json --kv-memory 80p # 32 pages are a context
equal "--kv-memory: contexts that fit" 2 "$(json out memory_here.f16.contexts)"
run inspect --json --kv-memory 8p
equal "less than one: a shorter one" 256/1 "$(json out memory_here.f16.context)/$(json out memory_here.f16.contexts)"
run inspect --json --kv-memory 200K # a page of f32 takes 224
expect "none: why" sh -c "'$JSONGET' memory_here.f32.error <out | grep -q 'KV memory of 200.0 KiB is too little'"
run inspect --kv-memory 32p
expect "one context is one" grep -q "^  kv f16 *1 context of 1024, beside " out
run inspect --kv-memory 200K
expect "in the text too" grep -q "^  kv f32  *KV memory of 200.0 KiB is too little" out

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
refused 2 "architecture 'xlama' is not supported; 'runnel inspect --architectures' lists the " run -m other.gguf -p a
run inspect --architectures
expect "known ones are listed with their classes" grep -q "^llama  *LlamaForCausalLM MistralForCausalLM" out
equal "as many as the refusal says" "$("$BIN" run -m other.gguf -p a 2>&1 | sed 's/.*lists the \([0-9]*\) .*/\1/')" "$(wc -l <out)"
for name in $(cut -d' ' -f1 out); do
    expect "the README names $name" grep -q "^| .* | .*\`$name\`.* |\$" "$ROOT/README.md"
done
refused 2 "--architectures lists all, not 'x' alone" inspect x --architectures
run inspect --architectures --json
equal "in JSON too" LlamaForCausalLM "$(json out llama.0)"

# Control characters in names must not reach the terminal.
LC_ALL=C sed 's/token_embd/tok\x1b[31mm\xff/g' "$TINY" >hostile.gguf
run inspect hostile.gguf
equal "hostile names can be inspected" 0 "$code"
expect "and are escaped" grep -qF 'tok\x1b[31mm\xff' out
expect "completely" sh -c '! grep -q "$(printf "\033")" out'
run inspect hostile.gguf --json
expect "their JSON is sound" sh -c "'$JSONGET' tensors.0.name <out >/dev/null"

# A folder with two shards, its weights all zero: the container, the files, and where each tensor is.
data=$DATA/golden
mkdir folder
cp "$data/llama/config.json" "$data/tokenizers/gpt-2/tokenizer.json" "$data/tokenizers/gpt-2/tokenizer_config.json" folder
printf '{{ messages[0].content }}\nsecond line' >folder/chat_template.jinja
mkdir folder/1_Pooling
printf '{"pooling_mode_max_tokens":true}' >folder/1_Pooling/config.json
printf '[{"type":"sentence_transformers.models.Normalize"}]' >folder/modules.json
# shard NUMBER HEADER: the header's length in eight bytes, the header, zeros for the tensors.
shard() {
    local bytes
    bytes=$(grep -o '[0-9]*\]}' <<<"$2" | tr -d ']}' | sort -n | tail -n 1)
    {
        printf "\\x$(printf %02x $((${#2} % 256)))\\x$(printf %02x $((${#2} / 256)))\\0\\0\\0\\0\\0\\0"
        printf '%s' "$2"
        head -c "$bytes" /dev/zero
    } >"folder/model-0000$1-of-00002.safetensors"
}
whole=$(sed 's/"__metadata__":{[^}]*},//; s/ *$//' <(tail -c +9 "$DATA/../recipes/llama/model.safetensors.head"))
first=$(grep -o '"lm_head.weight":{[^}]*}' <<<"$whole")
size=$(grep -o '[0-9]*\]}' <<<"$first" | tr -d ']}')
rest=$(sed 's/"lm_head.weight":{[^}]*},//' <<<"$whole" | awk -v shift="$size" '{
    while (match($0, /data_offsets":\[[0-9]+,[0-9]+\]/)) {
        split(substr($0, RSTART + 15, RLENGTH - 16), at, ",")
        printf "%sdata_offsets\":[%d,%d]", substr($0, 1, RSTART - 1), at[1] - shift, at[2] - shift
        $0 = substr($0, RSTART + RLENGTH)
    }
    print
}')
shard 1 "{$first}"
shard 2 "$rest"
{
    printf '{"weight_map": {"lm_head.weight": "model-00001-of-00002.safetensors"'
    grep -o '"[^"]*":{"dtype"' <<<"$rest" | sed 's/:.*/: "model-00002-of-00002.safetensors"/; s/^/, /'
    printf '}}'
} >folder/model.safetensors.index.json
run inspect folder
equal "a folder can be inspected: $(cat err)" 0 "$code"
expect "its container" grep -q "^  safetensors, " out
expect "its files" grep -q "^files (2)" out
expect "by name" grep -q "^     2  model-00002-of-00002.safetensors" out
expect "the file of a tensor" grep -q "^  output.weight .* in file 1$" out
expect "of another" grep -q "^  token_embd.weight .* in file 2$" out
expect "the template of the folder" grep -qF 'chat template of 37 bytes: {{ messages[0].content }} ...' out
expect "what a step reads" grep -q "^  matmul " out
expect "how embeddings are made" grep -q "^  embeddings: pooling max (not supported), length 1$" out
run inspect folder --json
equal "the pooling" max "$(json out pooling)"
equal "the size of all files" "$(cat folder/*.safetensors | wc -c)" "$(json out file_bytes)"
equal "their names" "model-00001-of-00002.safetensors" "$(json out files.0)"
equal "the whole template" $'{{ messages[0].content }}\nsecond line' "$(json out chat_template)"
run run -m folder --chat -p "a" -n 2 --temp 0 -q
equal "a folder runs: $(cat err)" 0 "$code"
refused 2 "--logits: 'folder/model-00001-of-00002.safetensors' is a file of the model" \
    run -m folder -p a --logits folder/model-00001-of-00002.safetensors

# A terabyte of weights, all of them a hole in the file.
if "$GGUF_MAKE" large.gguf 26 40960; then
    run inspect large.gguf
    equal "a terabyte can be inspected: $(cat err)" 0 "$code"
    expect "its size" grep -qxF "  GGUF v3, 1.1 TB (1,134,312,611,136 bytes)" out
    expect "its parameters" grep -q "^  all  *236 tensors 567,154,114,560 params 1,134,312,570,880 bytes" out
    expect "the last tensor" grep -q "^  blk.25.ffn_down.weight .* 10,066,329,600 @ 1124246281536$" out
    expect "the bytes of a step" grep -q "^  kv f16 .* 17.4 GB in all; steps read 1.1 TB to 1.2 TB$" out
    expect "the memory here" grep -q "the weights take 1.0 TiB, " out
    run inspect large.gguf --json
    equal "the bytes of all" 1134312570880 "$(json out totals.bytes)"
    equal "those of the file" 1134312611136 "$(json out file_bytes)"
    equal "those that a full context's step reads" 1151760957440 "$(json out memory.f16.decode_bytes_full)"
    refused 1 "and the weights take 1.0 TiB, the buffers of a step" run -m large.gguf -p x -n 1
else
    echo "skipped: no file of a terabyte here"
fi
finish
