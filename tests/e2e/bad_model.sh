# Damaged and foreign model files: exit 2 and one line that names the file; never a crash.
. "$(dirname "$0")/lib.sh"

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
done
for at in 20 2000 20000 200000; do
    head -c "$at" "$TINY" >cut.gguf
    refused 2 "cut.gguf" inspect cut.gguf
done

# Flipped bytes: some still make a model; none may crash, and a refusal names the file.
for at in $(seq 4 7) $(seq 8 8 64) $(seq 70 397 20000); do
    cp "$TINY" flip.gguf
    printf '\377' | dd of=flip.gguf bs=1 seek="$at" conv=notrunc status=none
    run run -m flip.gguf --prompt-ids 1,2,3 -n 1 -q
    checks=$((checks + 1))
    case $code in
        0) ;;
        2) [ "$(grep -c "^runnel: .*flip.gguf" err)/$(wc -l <err)" = 1/1 ] ||
            fail "byte $at flipped: exit 2 with $(head -c 500 err)" ;;
        1) [ "$(wc -l <err)" = 1 ] || fail "byte $at flipped: exit 1 with $(head -c 500 err)" ;;
        *) fail "byte $at flipped: exit $code with $(head -c 500 err)" ;;
    esac
done
finish
