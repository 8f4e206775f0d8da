# The example of several streams: the text of each stream, in any order of the lines.
# label: threads
. "$(dirname "$0")/lib.sh"

# told FILE NUMBER: the text of a stream.
told() { sed -n "s/^\[$2\] //p" "$1" | grep -v ' tokens, first after ' | tr -d '\n'; }

for i in 1 2; do
    "$EXAMPLE_STREAMS" "$MODELS/tale-1m-f16.gguf" >"out$i" 2>"err$i"
    equal "run $i succeeds" 0 $?
    equal "run $i complains about nothing" "" "$(cat "err$i")"
    equal "run $i: four streams end" 4 "$(grep -c ' tokens, first after ' "out$i")"
    expect "run $i: one was cancelled" grep -q '^\[3\] cancelled: ' "out$i"
    expect "run $i: statistics" grep -q ' 1 cancelled, 0 of [1-9][0-9]* pages held$' "out$i"
done
for number in 1 2 4; do
    expect "stream $number has text" test -n "$(told out1 $number)"
    equal "stream $number is the same again" "$(told out1 $number)" "$(told out2 $number)"
done
"$EXAMPLE_STREAMS" >out 2>err
equal "without a model it says how it is used" "2 usage: streams MODEL" "$? $(cat err)"
"$EXAMPLE_STREAMS" nothing.gguf >out 2>err
equal "without a file it fails, and names it once" "1 streams: nothing.gguf: No such file or directory" "$? $(cat err)"
finish
