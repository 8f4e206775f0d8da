# A model of 57 MB. Its packed weights replace the file's pages instead of adding to them. The text is
# that of the scalar reference, which reads weights in place.
# shellcheck shell=bash
. "$(dirname "$0")/lib.sh"

"$GGUF_MAKE" m.gguf 2 || fail "the model cannot be written"
file=$(($(stat -c %s m.gguf) / 1024))
tensor=6144 # KB, the largest
slack=32000 # the program, buffers of a step, KV
runner=("$RSS" rss)
text() { run run -m m.gguf -p xyz -n 6 --temp 0 -c 64 -q "$@"; }

for threads in 1 2 5; do
    text -t "$threads"
    equal "$threads threads: exit code" 0 "$code"
    expect "$threads threads: $(cat rss) KB of memory for a file of $file KB" \
        [ "$(cat rss)" -le $((file + tensor + slack)) ]
    # Less would mean that nothing was packed, and that the bound above says nothing.
    grep -qw avx2 /proc/cpuinfo &&
        expect "$threads threads: $(cat rss) KB of memory, the weights alone have $file" \
            [ "$(cat rss)" -ge $((file - 1000)) ]
    cp out "text.$threads"
done
text --isa scalar
equal "scalar: exit code" 0 "$code"
for threads in 1 2 5; do
    expect "$threads threads: the text is another one" cmp -s out "text.$threads"
done
expect "the text has no words" grep -q w out
finish
