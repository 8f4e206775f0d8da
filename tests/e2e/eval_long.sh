# The loss of both shipped models on the first 6 of the 103 chunks of val.txt, to six digits: it does not depend on the
# machine. On all chunks it was within 0.003 of the reference implementation's, 0.75504 and 0.75662.
# label: long cores
. "$(dirname "$0")/lib.sh"

# near FILE EXPECTED
near() {
    run eval -m "$1" --loss "$MODELS/val.txt" --chunks 6 --json
    equal "$1: exit" 0 "$code"
    equal "$1: chunks" 6 "$(json out chunks)"
    equal "$1: tokens" $((6 * 1023)) "$(json out tokens)"
    local loss
    loss=$(json out loss)
    echo "$(basename "$1"): loss $loss, expected $2, $(json out tokens_per_second) tokens/s"
    expect "$1: loss $loss is $2" awk -v a="$loss" -v b="$2" 'BEGIN { exit !(a - b < 1e-6 && b - a < 1e-6) }'
}
near "$MODELS/tale-20m-q8_0.gguf" 0.4212699
near "$MODELS/tale-20m-q4_k_m.gguf" 0.4218681
finish
