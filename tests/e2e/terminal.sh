# On a terminal: the prompt is echoed dimmed, NO_COLOR and --color are obeyed, and control characters do
# not reach the terminal.
# label: waits
. "$(dirname "$0")/lib.sh"
command -v script >/dev/null || { echo "no script(1): skipped"; exit 77; }
escape=$(printf '\033')
export TERM=xterm
# Colour is a sequence that ends in m. A bar that a busy machine has time to show moves the cursor, by other ones.
coloured() { grep -q "$escape\[[0-9;]*m" out; }

# on_terminal COMMAND: runs it with a terminal on all three; of an overwritten line only the last
# version is kept.
on_terminal() { script -qec "$1" /dev/null </dev/null | sed 's/\r*$//; s/.*\r//' >out; }

on_terminal "'$BIN' run -p 'Once upon a time' -n 8 --seed 1"
expect "the prompt is echoed dimmed" grep -qF "${escape}[2mOnce upon a time${escape}[0m" out
expect "the summary follows" grep -q "tokens/s" out
NO_COLOR=1 on_terminal "'$BIN' run -p 'Once upon a time' -n 8 --seed 1"
expect "NO_COLOR: the prompt is echoed" grep -q "^Once upon a time" out
expect "NO_COLOR: no colour" eval '! coloured'
on_terminal "'$BIN' run -p 'Once upon a time' -n 8 --seed 1 --color never"
expect "--color never: no colour" eval '! coloured'
on_terminal "'$BIN' run -p \"\$(printf 'a\\033[31mb')\" -n 1 --color never"
expect "control characters do not reach the terminal" eval '! coloured'

# A file's memory is said before it is loaded: on a terminal, and to those who want to hear.
model=$MODELS/tale-20m-q8_0.gguf
on_terminal "'$BIN' run -m '$model' -p 'Once upon a time' -n 2 --kv-memory 16p --color never"
expect "memory is said first: $(head -n 1 out)" sh -c "head -n 1 out | grep -q \
    '^  memory: weights 24.0 MB, KV 1.8 MB of .* free: 512 tokens of f16 (3.6 kB each)\$'"
script -qec "stty cols 80; '$BIN' run -m '$model' -p a -n 1 --color never" /dev/null </dev/null | tr -d '\r' >out
expect "80 columns: it fits: $(head -n 1 out)" sh -c "head -n 1 out | grep -q '^  memory: .*: 2,048 tokens of f16\$'"
run inspect --json
on_terminal "'$BIN' run -m '$model' -p 'Once upon a time' -n 2 --kv-memory $(json out memory_here.f16.total_bytes)"
expect "more than is free is said to be so" grep -q "memory: .*, more than the .* that are free: " out
for quiet in "run -p a" "run -m '$model' -p a -q" "run -m '$model' -p a --json"; do
    on_terminal "'$BIN' $quiet -n 2 --color never"
    expect "$quiet: nothing about memory" sh -c '! grep -q "memory:" out'
done

# The progress bar keeps to one line. It shows itself only when there is time to see it, so the work
# grows until it does.
head -c 200000 "$MODELS/val.txt" >text
chunks=8
for columns in 20 80; do
    while :; do
        script -qec "stty cols $columns; '$BIN' eval --loss text --chunk 16 --chunks $chunks" /dev/null \
            </dev/null | tr '\r' '\n' >out
        if grep -q "^evaluating.* [0-9]*%$" out || [ $chunks -gt 2000 ]; then break; fi # loading may have a bar, too
        chunks=$((2 * chunks))
    done
    expect "$columns columns: there is progress" grep -q "^evaluating.* [0-9]*%$" out
    expect "$columns columns: on one line" [ "$(grep "%$" out | wc -L)" -lt "$columns" ]
    expect "$columns columns: the result follows" grep -q "^loss" out
done

# The table of bench leaves out the columns that do not fit; a bar shows itself at once.
small=$MODELS/tale-1m-f16.gguf
for columns in 80 200; do
    script -qec "stty cols $columns; '$BIN' bench -m '$small' -p 4 -n 2 -r 1 --color never" /dev/null </dev/null |
        tr '\r' '\n' >out
    expect "$columns columns: the table fits" [ "$(grep '^|' out | wc -L)" -le "$columns" ]
    expect "$columns columns: with what matters" grep -q '^| model .* test | .* t/s | .* of B |' out
    expect "$columns columns: a bar" grep -q '^measuring .* 0%$' out
done
for columns in 60 200; do
    script -qec "stty cols $columns; '$BIN' bench -m '$small' --batch 1,2 -p 64 -n 4 --color never" /dev/null </dev/null |
        tr '\r' '\n' >wide
    expect "$columns columns: a bar" grep -q '^measuring .* 0%$' wide
    script -qec "stty cols $columns; '$BIN' bench -m '$small' --arrive 99 --itl-ms 5 -p 4 -n 4 -q" /dev/null </dev/null |
        tr -d '\r' >arrive
    expect "$columns columns: the engine's table fits" [ "$(grep '^|' wide | wc -L)" -le "$columns" ]
    expect "$columns columns: with what matters" grep -q '^| *test | streams | .* t/s | ' wide
    expect "$columns columns: and that of a prompt that arrives" [ "$(grep '^|' arrive | wc -L)" -le "$columns" ]
    expect "$columns columns: with the gaps" grep -q '^| *test | streams | .*gap ms 50/99/max | ' arrive
done
expect "200 columns: everything" grep -q '| pages held/shared | ' wide
expect "200 columns: all of them" grep -q '| backend | threads | .* bytes/token | *GB/s |' out
run run -p "Once upon a time" -n 2 --color always
expect "--color always: colour in a file" grep -qF "$escape" err
finish
