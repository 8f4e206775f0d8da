# `runnel plan` as a program: text and JSON for models of every kind, without measuring this machine. Values, refusals and
# the queue are tested in tests/app; rates in tests/runnel.
. "$(dirname "$0")/lib.sh"
export XDG_CACHE_HOME=$work/cache

run plan --help
equal "--help exits 0" 0 "$code"
expect "help fits 100 columns" [ "$(wc -L <out)" -le 100 ]

run plan 8b --device h100-sxm --ctx 8192 --users 8
equal "a shape on a device" 0 "$code"
expect "the assumed share is printed" grep -q "^assumed  decoding reaches 75% of the bandwidth" out
expect "memory" grep -q "^  total .* fits; at most [0-9]* users fit" out
expect "a row for each number of users" [ "$(grep -cE '^ +(1|2|4|8|16|32|64) ' out)" = 7 ]
equal "nothing on stderr" 0 "$(wc -c <err)"

# The embedded model, its file, and its file in another format.
run plan --bandwidth 20GB/s --memory 8G --json
equal "the embedded model: weights" 21755904 "$(json out memory.weight_bytes)"
equal "bytes of a step at 640 tokens are inspect's kind of bytes" $((3584 * 641)) "$(json out rows.0.kv_bytes)"
run plan "$MODELS/tale-20m-q8_0.gguf" --bandwidth 20GB/s --json
equal "its file, whose embedding is there twice" $((21755904 + 2228224)) "$(json out memory.weight_bytes)"
run plan "$MODELS/tale-20m-q8_0.gguf" --bandwidth 20GB/s --format F32 --json
equal "four bytes for each weight" $((4 * (20454912 + 4096 * 512))) "$(json out memory.weight_bytes)"
cp "$DATA/golden/qwen3/config.json" c.json
run plan c.json --bandwidth 20GB/s --ctx 32 --json
equal "a config alone" "0 qwen3 BF16" "$code $(json out model.architecture) $(json out model.format)"
mkdir folder && cp c.json folder/config.json
run plan folder --bandwidth 20GB/s --ctx 32 --json
equal "a folder with a config alone" "0 qwen3 BF16" "$code $(json out model.architecture) $(json out model.format)"
sed 's/{/{"quantization_config": {"quant_method": "fp8"},/;q' c.json >fp8.json && sed 1d c.json >>fp8.json
run plan fp8.json --format Q8_0 --bandwidth 20GB/s --ctx 32 --json
equal "weights in a format that no folder may have: $(cat err)" "0 Q8_0" "$code $(json out model.format)"

# The sizes of a model of 700 billion parameters, with much context.
cat >large.json <<'END'
{"architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
 "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 8, "head_dim": 128, "num_experts": 256,
 "num_experts_per_tok": 8, "norm_topk_prob": true, "vocab_size": 129280, "max_position_embeddings": 163840,
 "rms_norm_eps": 1e-6, "rope_theta": 10000, "decoder_sparse_step": 1, "mlp_only_layers": [], "tie_word_embeddings": false}
END
run plan large.json --bandwidth 900GB/s --memory 2T --users 100 --ctx 160000
equal "a large config: $(cat err)" 0 "$code"
expect "its size" grep -qxF "model    large.json, qwen3moe 704.9B BF16, 37.8B active: weights 1.4 TB, KV f16 250 kB per token" out
expect "the KV of all" grep -qxF "  KV             4.0 TB  40.0 GB for each user" out
expect "the memory of all" grep -q "^  total          5.4 TB  of 2.2 TB, .*: does not fit; at most 16 users fit" out
run plan large.json --bandwidth 900GB/s --memory 2T --users 100 --ctx 160000 --json
equal "in bytes" "1410067776512 3997696000000 704921055488" \
    "$(json out memory.weight_bytes) $(json out memory.kv_bytes) $(json out model.parameters)"

run plan 8b:Q4_K_M --users 40 --speed 20 --ctx 8192
expect "devices that suffice" grep -q "NVIDIA H100 SXM .* 75%" out
run plan --matrix 4096x4096:f16 --device h200
expect "one matrix" grep -q "33.6 MB, 33.6 MFLOP per token, 1.00 FLOP/byte" out
run plan 1b --bandwidth 50GB/s --flops 1T --svg roof.svg
expect "a plot" grep -q '^</svg>$' roof.svg
echo '{"timestamp": 0, "input_length": 100, "output_length": 3, "hash_ids": [1]}' >trace
run plan 1b --bandwidth 50GB/s --flops 1T --replay trace
expect "a replay" grep -q "^  TTFT " out
expect "nothing was measured" [ ! -e cache ]

refused 2 "'nosuch' is neither a file nor a known shape (known: 135m" plan nosuch
refused 2 "/nowhere.gguf" plan /nowhere.gguf
refused 2 "--device: 'h10' is unknown" plan 8b --device h10
RUNNEL_USERS=x refused 2 "RUNNEL_USERS: 'x' is not" plan 8b
refused 2 "trace.none: No such file" plan 1b --bandwidth 1G --replay trace.none

finish
