# A plug-in beside the program. Where the driver's library is missing, its file is not even opened. Without a device the
# program says so in one line and runs on the CPU. So it does where the device refuses the model, or where there is no
# memory for the plug-in. A broken plug-in is an error, and so is a device without memory. The current folder is not
# searched.
# shellcheck shell=bash
. "$(dirname "$0")/lib.sh"
plugin=$BUILD/tests/backend/plugins/absent/runnel_cuda.so
note="runnel: cuda: no device here (no driver); running on cpu"
tell() { run run -m "$TINY" --prompt-ids 1,2,3 -n 2 --temp 0 "$@"; }

tell
equal "no plug-in: exit code" 0 "$code"
expect "no plug-in: there is a note" test "$(grep -c 'running on' err)" = 0
cp out plain

# No driver: the file is passed over unread, and only a user who asks for it is told.
if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
    mkdir bare
    cp "$BIN" bare/runnel
    echo "no shared object" >bare/runnel_cuda.so
    BIN=bare/runnel tell
    equal "no driver: exit code, $(cat err)" 0 "$code"
    expect "no driver: there is a note" test "$(grep -c 'running on' err)" = 0
    BIN=bare/runnel refused 2 "backend 'cuda': no device here (no NVIDIA driver)" run -m "$TINY" -q --backend cuda --prompt-ids 1,2,3 -n 2
fi

# The plug-in that the toolkit's compiler made for the tests loads without a device.
few=$BUILD/tests/cuda/few/runnel_cuda.so
if [ -e "$few" ] && [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
    refused 2 "backend '.*/runnel_cuda.so': no device here\|backend 'cuda': no device here" run -m "$TINY" -q --backend "$few" --prompt-ids 1,2,3 -n 2
fi

# From here on there is a driver's library.
export LD_LIBRARY_PATH=$BUILD/tests/backend/plugins/driver

# The program's folder is here; its links are followed.
mkdir -p moved/bin moved/lib/runnel elsewhere
cp "$BIN" moved/bin/runnel
ln -s ../moved/bin/runnel elsewhere/runnel
BIN=$work/moved/bin/runnel
cp "$plugin" .
tell
expect "the current folder was searched" test "$(grep -c 'running on' err)" = 0
rm runnel_cuda.so

for place in moved/bin moved/lib/runnel; do
    cp "$plugin" $place/
    for BIN in "$work/moved/bin/runnel" elsewhere/runnel; do
        tell
        equal "$place: exit code" 0 "$code"
        equal "$place: the note" "$note" "$(grep 'running on' err)"
        expect "$place: the text is another one" cmp -s out plain
    done
    tell -q
    equal "$place, quiet: what is printed" "" "$(cat err)"
    rm $place/runnel_cuda.so
done

BIN=$work/moved/bin/runnel
echo "no shared object" >moved/bin/runnel_cuda.so
refused 1 "backend 'cuda': .*/moved/bin/runnel_cuda.so cannot be loaded: " run -m "$TINY" -q --prompt-ids 1,2,3 -n 2
cp "$BUILD/tests/backend/plugins/good/runnel_cuda.so" moved/bin/
refused 1 "the device of a test has no memory" run -m "$TINY" -q --prompt-ids 1,2,3 -n 2

# No memory for the file: as if there was no such file, with a note. A user who names the backend is told why.
cp "$BUILD/tests/backend/plugins/large/runnel_cuda.so" moved/bin/
(ulimit -v 1000000 && tell)
equal "no memory to load: the note" "runnel: cuda: there is no memory to load it; running on cpu" "$(grep 'running on' err)"
expect "no memory to load: the text is another one" cmp -s out plain
(ulimit -v 1000000 && refused 1 "runnel_cuda.so cannot be loaded: no memory for its 107[0-9]* bytes" run -m "$TINY" -q --backend cuda --prompt-ids 1,2,3 -n 2
    [ "$failures" = 0 ]) || fail "no memory to load, asked for"

# A driver's library that cannot be loaded, as in a container without a GPU: the same.
mkdir broken
: >broken/libcuda.so.1
LD_LIBRARY_PATH=$work/broken tell
equal "a broken driver: the note" "runnel: cuda: its driver cannot be loaded; running on cpu" "$(grep 'running on' err)"
expect "a broken driver: the text is another one" cmp -s out plain
LD_LIBRARY_PATH=$work/broken refused 1 "the NVIDIA driver cannot be loaded: libcuda.so.1: " run -m "$TINY" -q --backend cuda --prompt-ids 1,2,3 -n 2

# A backend that refuses the model: the CPU runs it, and a line says why. A user who names the backend is told.
cp "$BUILD/tests/backend/plugins/picky/runnel_cuda.so" moved/bin/
tell
equal "a refusal: exit code" 0 "$code"
equal "a refusal: the note" "runnel: cuda: the op embed is not there yet; running on cpu" "$(grep 'running on' err)"
expect "a refusal: the text is another one" cmp -s out plain
refused 2 "cuda: the op embed is not there yet" run -m "$TINY" -q --backend cuda --prompt-ids 1,2,3 -n 2
finish
