# The programs that make the test data: they make the same bytes again, and refuse bad input.
. "$(dirname "$0")/lib.sh"

recipe=$DATA/../recipes/llama/model.gguf.recipe
head=$DATA/../recipes/llama/model.gguf.head

# unmade PATTERN COMMAND...: the command must fail, with one line that matches, and leave no file.
unmade() {
    local pattern=$1
    shift
    rm -f made
    "$@" >out 2>err
    code=$?
    equal "exit of $(basename "$1")" 1 "$code"
    expect "'$pattern' in: $(cat err)" grep -q -- "$pattern" err
    equal "lines" 1 "$(wc -l <err)"
    expect "no file is left: $pattern" [ ! -e made ]
}

expect "a file is drawn" "$DRAW_WEIGHTS" "$recipe" "$head" made
expect "with the same bytes" cmp made "$TINY"
edits=(
    's/^seed .*/seed 1/' 'the checksum is '
    's/^fnv .*/fnv 1/' 'not 0000000000000001'
    's/^draw output.weight [0-9]*/draw output.weight 1257000/' 'output.weight: 49152 floats at 1257000 are not in the file'
    's/:1$/;1/' 'no shape:  [0-9]*;1'
    's/^draw output.weight.*/throw output.weight/' 'unknown line: throw'
)
for ((i = 0; i < ${#edits[@]}; i += 2)); do
    sed "${edits[i]}" "$recipe" >edited
    unmade "${edits[i + 1]}" "$DRAW_WEIGHTS" edited "$head" made
done
unmade "usage: " "$DRAW_WEIGHTS" "$recipe"
unmade "nothing cannot be opened" "$DRAW_WEIGHTS" "$recipe" nothing made

expect "a model is converted" "$CONVERT_MODEL" "$MODELS/tale-1m-q8_0.gguf" f16 made
expect "with the same bytes" cmp made "$MODELS/tale-1m-f16.gguf"
run inspect "$MODELS/tale-20m-q4_k_m.gguf" --json
formats=$(grep -o '"format": *"[^"]*"' out | grep -o '[A-Z][0-9A-Z_]*' | sort | uniq -c | tr -s ' \n' ' ')
equal "the formats of Q4_K_M" " 15 F32 43 Q4_K 7 Q6_K " "$formats"
unmade "q9 is no form" "$CONVERT_MODEL" "$MODELS/tale-1m-q8_0.gguf" q9 made
unmade "no model\|nothing" "$CONVERT_MODEL" nothing f16 made
finish
