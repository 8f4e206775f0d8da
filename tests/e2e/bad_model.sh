# Damaged and foreign model files: exit 2 and one line that names the file; never a crash.
. "$(dirname "$0")/lib.sh"

# bounded WHAT FILE: the last run needed at most 64 MB more than a run without a model, beside the
# file itself. Sanitizers have memory of their own, so there it is not measured.
[ -n "$SAN" ] || runner=("$RSS" rss)
run version
least=$(cat rss 2>/dev/null)
bounded() {
    [ -n "$SAN" ] && return
    checks=$((checks + 1))
    [ "$(cat rss)" -le $((least + 64000 + $(stat -c %s "$2") / 1000)) ] ||
        fail "$1: $(cat rss) KB of memory, a run without a model has $least"
}

refused 2 "/nonexistent.gguf" run -p a -m /nonexistent.gguf
refused 2 "/nonexistent.gguf" inspect /nonexistent.gguf
refused 2 "/nonexistent.gguf" tokenize -p a -m /nonexistent.gguf
refused 2 "/nonexistent.gguf" eval --loss prompt.txt -m /nonexistent.gguf
mkdir folder
refused 2 "folder" run -p a -m folder
refused 2 "folder" inspect folder
: >empty.gguf
refused 2 "empty.gguf" run -p a -m empty.gguf
printf 'GGML and then some more text that is no model' >magic.gguf
refused 2 "magic.gguf" run -p a -m magic.gguf
refused 2 "magic.gguf" inspect magic.gguf
head -c 4096 /dev/urandom >noise.gguf
refused 2 "noise.gguf" run -p a -m noise.gguf
refused 2 "vocab.gguf" run -p a -m "$VOCAB"
mkfifo pipe.gguf
refused 2 "pipe.gguf" inspect pipe.gguf

# Truncated: through the header in small steps, and through the data.
size=$(stat -c %s "$TINY")
for at in 1 3 4 7 8 15 16 23 24 31 40 57 100 300 1000 3000 6000 10000 12000 15000 20000 24000 \
    $(seq 40000 $((size / 20)) "$size") $((size - 1)); do
    head -c "$at" "$TINY" >cut.gguf
    refused 2 "cut.gguf" run -p a -n 1 -m cut.gguf
    bounded "cut at $at" cut.gguf
done
for at in 20 2000 20000 200000; do
    head -c "$at" "$TINY" >cut.gguf
    refused 2 "cut.gguf" inspect cut.gguf
    bounded "inspect, cut at $at" cut.gguf
done

# Flipped bytes: some still make a model; none may crash, and every complaint names the file.
for at in $(seq 4 7) $(seq 8 8 64) $(seq 70 397 20000); do
    cp "$TINY" flip.gguf
    printf '\377' | dd of=flip.gguf bs=1 seek="$at" conv=notrunc status=none
    run run -m flip.gguf --prompt-ids 1,2,3 -n 1 -q
    checks=$((checks + 1))
    line='^runnel: .*flip.gguf'
    case $code in
        0) continue ;;
        1) line='^runnel: flip.gguf: \(the model gave no finite logit at position [0-9]\|.*memory\|cannot allocate\)' ;;
        2) bounded "byte $at flipped" flip.gguf ;;
        *) fail "byte $at flipped: exit $code" ;;
    esac
    [ "$(grep -c "$line" err)/$(wc -l <err)" = 1/1 ] ||
        fail "byte $at flipped: exit $code with $(head -c 500 err)"
done

# Sizes that no file of this length can have.
for key in llama.context_length llama.block_count llama.embedding_length llama.attention.head_count \
    tokenizer.ggml.tokens; do
    at=$(grep -abo -- "$key" "$TINY" | head -n 1 | cut -d: -f1)
    for offset in 4 5 6 7; do
        cp "$TINY" size.gguf
        printf '\177' | dd of=size.gguf bs=1 seek=$((at + ${#key} + offset)) conv=notrunc status=none
        run run -m size.gguf --prompt-ids 1,2,3 -n 1 -q
        [ "$code" = 2 ] || continue # a longer context is no damage
        checks=$((checks + 1))
        grep -q "^runnel: .*size.gguf" err || fail "$key + $offset: $(head -c 500 err)"
        bounded "$key + $offset" size.gguf
    done
done

# Weights that are no numbers: the file and the position are named.
run inspect "$TINY" --json
i=0
while [ "$(json out tensors.$i.name)" != output_norm.weight ]; do i=$((i + 1)); done
cp "$TINY" nan.gguf
head -c "$(json out tensors.$i.bytes)" /dev/zero | tr '\0' '\377' |
    dd of=nan.gguf bs=1 seek="$(json out tensors.$i.offset)" conv=notrunc status=none
refused 1 "nan.gguf: the model gave no finite logit at position 3$" run -m nan.gguf --prompt-ids 1,2,3 -q
head -c 2000 "$MODELS/val.txt" >text
refused 1 "nan.gguf: the loss is not finite at position 0 of chunk 1$" eval -m nan.gguf --loss text --chunk 16
finish
