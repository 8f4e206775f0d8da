# The loss on the whole of val.txt of the embedded model and of its Q4_K_M form, which our encoders make:
# within 0.003 of the reference. That of Q4_K_M is of a file that llama.cpp's encoders made.
. "$(dirname "$0")/lib.sh"

# near FILE EXPECTED
near() {
    run eval -m "$1" --loss "$MODELS/val.txt" --json
    equal "$1: exit" 0 "$code"
    equal "$1: chunks" 103 "$(json out chunks)"
    equal "$1: tokens" $((103 * 1023)) "$(json out tokens)"
    local loss
    loss=$(json out loss)
    echo "$(basename "$1"): loss $loss, reference $2, $(json out tokens_per_second) tokens/s"
    expect "$1: loss $loss within 0.003 of $2" \
        awk -v a="$loss" -v b="$2" 'BEGIN { exit !(a - b < 0.003 && b - a < 0.003) }'
}
near "$MODELS/tale-20m-q8_0.gguf" 0.75504
near "$MODELS/tale-20m-q4_k_m.gguf" 0.75662
finish
