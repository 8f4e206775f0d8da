# `runnel inspect --json` against another reader of GGUF, the npm package @huggingface/gguf: metadata
# and tensor tables of our models, of the reference models and of files without tensors.
. "$(dirname "$0")/lib.sh"

npm=$ROOT/tests/npm
if ! command -v node >/dev/null; then
    echo "skipped: there is no node"
    exit 77
elif [ ! -d "$npm/node_modules/@huggingface/gguf" ]; then
    echo "skipped: tests/npm has no node_modules (npm install makes them)"
    exit 77
fi

for kind in "$MODELS" "$DATA/golden" "$DATA/tokenizers"; do
    mapfile -t files < <(find -L "$kind" -name '*.gguf' | sort)
    expect "$kind has GGUF files" [ "${#files[@]}" -gt 0 ]
    expect "$kind read alike" node "$npm/gguf_check.mjs" "$BIN" "${files[@]}"
done

# The check itself must see a difference: a value, a name, an offset.
for edit in 's/"llama.block_count": 3/"llama.block_count": 4/' 's/"blk.1.attn_q.weight"/"blk.1.attn_r.weight"/' \
    's/"offset": 13504/"offset": 13536/'; do
    printf '#!/bin/sh\n"%s" "$@" | sed '"'%s'"'\n' "$BIN" "$edit" >altered
    chmod +x altered
    node "$npm/gguf_check.mjs" ./altered "$TINY" >out
    equal "exit with $edit" 1 "$?"
    equal "differences with $edit" 1 "$(grep -c "the package reads" out)"
done
finish
