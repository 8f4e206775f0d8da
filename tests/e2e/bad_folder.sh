# Damaged and foreign model folders: exit 2 and one line that names the file and the value; never a
# crash, never much memory.
. "$(dirname "$0")/lib.sh"

golden=$DATA/golden

# bounded WHAT: the last run needed at most 64 MB more than a run without a model, beside the files
# themselves. Sanitizers have memory of their own, so there it is not measured.
[ -n "$SAN" ] || runner=("$RSS" rss)
run version
least=$(cat rss 2>/dev/null)
bounded() {
    [ -n "$SAN" ] && return
    checks=$((checks + 1))
    [ "$(cat rss)" -le $((least + 64000 + $(du -sk f | cut -f1))) ] ||
        fail "$1: $(cat rss) KB of memory, a run without a model has $least"
}

# fresh: a good folder f. bad PATTERN: the folder as it is now is refused.
fresh() {
    rm -rf f
    mkdir f
    cp "$golden"/mistral/config.json "$golden"/mistral/model.safetensors "$golden"/tokenizers/spm/* f/
    chmod -R u+w f
}
bad() {
    refused 2 "$1" run -m f --prompt-ids 1,2,3 -n 1 -q
    bounded "$1"
}
# le64 NUMBER: its eight bytes, the lowest first. safetensors HEADER BYTES: f/model.safetensors.
le64() {
    local value=$1 i
    for i in 1 2 3 4 5 6 7 8; do
        # shellcheck disable=SC2059  # the format is the byte
        printf "\\x$(printf %02x $((value & 255)))"
        value=$((value >> 8))
    done
}
safetensors() {
    { le64 ${#1}; printf %s "$1"; head -c "$2" /dev/zero; } >f/model.safetensors
}

fresh
run run -m f --prompt-ids 1,2,3 -n 1 -q
equal "a good folder runs" 0 "$code"
run inspect f
equal "a good folder is inspected" 0 "$code"

# --- config.json
rm f/config.json
bad 'f/config.json: is missing'
refused 2 'f/config.json: is missing' inspect f
mkdir empty
refused 2 'empty/config.json: is missing' run -p a -m empty
: >f/config.json
bad 'f/config.json: is empty'
for text in '{' '{"a" 1}' '[]' '{"a": 01}' '{"a": "\x"}' '{} {}' 'nonsense' '{"architectures": [}'; do
    printf %s "$text" >f/config.json
    bad 'f/config.json: offset [0-9]*: '
done
{ printf '{"a":'; printf '%.0s[' $(seq 100000); } >f/config.json
bad 'f/config.json: offset 68: nested too deeply'
head -c 5000000 /dev/zero | tr '\0' ' ' >f/config.json
bad 'f/config.json: has 5000000 bytes, expected at most'
printf '{"architectures": ["BertModel"]}' >f/config.json
bad 'f/config.json: architecture BertModel is not supported; '
for key in hidden_size num_hidden_layers num_attention_heads intermediate_size \
    max_position_embeddings num_key_value_heads sliding_window head_dim; do
    values=(-1 0 1e300 1e999 9223372036854775807 9223372036854775808 '"8"' '[]' true 2.5)
    [ $key = hidden_size ] || values=(0 '"8"') # all are read by the same function
    for value in "${values[@]}"; do
        fresh
        sed -i "s/\"$key\": [0-9]*/\"$key\": $value/" f/config.json
        bad "f/config.json: offset [0-9]*: $key is "
    done
done
fresh
sed -i 's/"rope_theta": [0-9.]*/"rope_theta": 1e300/' f/config.json
bad 'f/config.json: offset [0-9]*: rope_theta is 1e300, expected'
fresh
sed -i 's/"rope_type": "default"/"rope_type": "dynamic"/' f/config.json
bad 'f/config.json: rope scaling: type "dynamic" is not supported'
fresh
sed -i 's/"hidden_size": 64/"hidden_size": 64, "hidden_size": 64/' f/config.json
bad 'f/config.json: offset [0-9]*: hidden_size is there twice'
fresh
sed -i 's/"hidden_size": 64/"hidden_size": 64, "quantization_config": {"quant_method": "hqq"}/' f/config.json
bad 'f/config.json: quantization_config: quant_method hqq is not supported; a folder in BF16 or a GGUF file is'
fresh
sed -i 's/"hidden_size": 64/"hidden_size": 128/' f/config.json
bad 'f: tensor .*' # shapes that the config does not fit
fresh
printf '{"temperature": }' >f/generation_config.json
bad 'f/generation_config.json: offset 16: '

# --- one file of tensors
fresh
rm f/model.safetensors
bad 'f: neither model.safetensors nor model.safetensors.index.json is in the folder'
fresh
size=$(stat -c %s f/model.safetensors)
for at in 1 7 8 9 100 1000 3000 $(seq 4000 $((size / 4)) "$size") $((size - 1)); do
    fresh
    truncate -s "$at" f/model.safetensors
    bad 'f/model.safetensors: '
done
fresh
printf '\377\377\377\377\377\377\377\177' | dd of=f/model.safetensors conv=notrunc status=none
bad 'f/model.safetensors: header of 9223372036854775807 bytes'
# Changes of one length, in the header: a type, a shape, an offset, a name.
damage() {
    fresh
    LC_ALL=C sed -i "s/$1/$2/" f/model.safetensors
    bad "$3"
}
damage '"lm_head.weight":{"dtype":"F32"' '"lm_head.weight":{"dtype":"Q77"' \
    'f/model.safetensors: tensor lm_head.weight: dtype Q77 is not supported'
damage '"lm_head.weight":{"dtype":"F32"' '"lm_head.weight":{"dtype":"I32"' \
    'f/model.safetensors: tensor lm_head.weight: dtype I32 is not supported'
damage '"shape":\[512,64\]' '"shape":[512,65]' 'f/model.safetensors: tensor lm_head.weight: data_offsets 0 to 131072 are not the 133120 bytes'
damage '"shape":\[512,64\]' '"shape":[-12,64]' 'f/model.safetensors: header: offset [0-9]*: a negative dimension'
damage '"data_offsets":\[0,131072\]' '"data_offsets":[4,131076]' 'f/model.safetensors: tensor model.embed_tokens.weight: offset [0-9]* is inside tensor lm_head.weight'
damage '"data_offsets":\[131072,262144\]' '"data_offsets":[931072,962144]' 'f/model.safetensors: tensor model.embed_tokens.weight: data_offsets 931072 to 962144 are past the end'
damage '"lm_head.weight"' '"lm_tail.weight"' 'f/model.safetensors: tensor lm_tail.weight: no tensor of this name is known for llama'
damage 'layers.0.mlp.down_proj' 'layers.1.mlp.down_proj' 'tensor model.layers.1.mlp.down_proj.weight: the name is there twice'
damage 'layers.0.mlp.down_proj' 'layers.9.mlp.down_proj' 'layer 9, the config has 3'
fresh
safetensors '{' 0
bad 'f/model.safetensors: header: offset 9: '
safetensors "{\"__metadata__\":$(printf '%.0s[' $(seq 1000))" 0
bad 'nested too deeply'
safetensors '{"a":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,0]}}' 0
bad 'tensor a: the bytes of its shape overflow'
# A header with many unused tensors must not take much memory.
entries=$(printf '"t%d.rotary_emb.inv_freq":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},' $(seq 20000))
safetensors "{${entries%,}}" 0
bad 'no tensor of this name is known'

# --- several files
index() {
    fresh
    mv f/model.safetensors f/a.safetensors
    printf %s "$1" >f/model.safetensors.index.json
}
index '{"weight_map":{"lm_head.weight":"../../etc/passwd"}}'
bad 'f/model.safetensors.index.json: weight_map names the file "../../etc/passwd", expected'
index '{"weight_map":{"lm_head.weight":"/etc/passwd"}}'
bad 'weight_map names the file "/etc/passwd", expected'
index '{"weight_map":{"lm_head.weight":"a.safetensors","model.norm.weight":"b.safetensors"}}'
bad 'f/b.safetensors: No such file or directory'
index '{"weight_map":{"lm_head.weight":"a.safetensors","nobody":"a.safetensors"}}'
bad 'f/a.safetensors: has no tensor nobody, which the index says it has'
index '{"weight_map":{"x":"a.safetensors","x":"a.safetensors"}}'
bad 'weight_map names tensor x twice'
index '{"weight_map":7}'
bad 'f/model.safetensors.index.json: offset 14: expected an object'
index '{}'
bad 'f/model.safetensors.index.json: weight_map is missing or empty'

# --- the vocabulary: an unreadable file is not taken for a missing one
for name in tokenizer.json tokenizer_config.json chat_template.jinja; do
    fresh
    rm -f f/$name
    ln -s nowhere f/$name
    bad "f/$name: No such file or directory"
    ln -sf $name f/$name
    bad "f/$name: Too many levels of symbolic links"
    rm f/$name
    mkfifo f/$name
    bad "f/$name: is not a regular file"
    rm f/$name
    mkdir f/$name
    bad "f/$name: is a directory"
done

# --- a file of the folder instead of the folder
fresh
refused 2 'f/config.json: .*give the folder' run -p a -m f/config.json
refused 2 'f/model.safetensors: .*give the folder' inspect f/model.safetensors
finish
