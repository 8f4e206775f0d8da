# A plug-in beside the program. Without a device the program says so in one line and runs on the CPU. So it does where
# the device refuses the model. A broken plug-in is an error, and so is a device without memory. Neither the current
# folder nor an environment variable is searched.
# shellcheck shell=bash
. "$(dirname "$0")/lib.sh"
plugin=$BUILD/tests/backend/plugins/absent/runnel_cuda.so
note="runnel: cuda: no device here (no driver); running on cpu"
tell() { run run -m "$TINY" --prompt-ids 1,2,3 -n 2 --temp 0 "$@"; }

tell
equal "no plug-in: exit code" 0 "$code"
expect "no plug-in: there is a note" test "$(grep -c 'running on' err)" = 0
cp out plain

# The plug-in of this build, on a machine without such hardware: only a user who asks for it is told.
if [ -e "$BUILD/runnel_cuda.so" ] && [ ! -e /dev/nvidiactl ] && [ ! -e /proc/driver/nvidia ] && [ ! -e /dev/dxg ]; then
    refused 2 "backend 'cuda': no device here (no NVIDIA driver)" run -m "$TINY" -q --backend cuda --prompt-ids 1,2,3 -n 2
fi

# The program's folder is here; its links are followed.
mkdir -p moved/bin moved/lib/runnel elsewhere
cp "$BIN" moved/bin/runnel
ln -s ../moved/bin/runnel elsewhere/runnel
BIN=$work/moved/bin/runnel
cp "$plugin" .
LD_LIBRARY_PATH=$work tell
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

# A backend that refuses the model: the CPU runs it, and a line says why. A user who names the backend is told.
cp "$BUILD/tests/backend/plugins/picky/runnel_cuda.so" moved/bin/
tell
equal "a refusal: exit code" 0 "$code"
equal "a refusal: the note" "runnel: cuda: the op embed is not there yet; running on cpu" "$(grep 'running on' err)"
expect "a refusal: the text is another one" cmp -s out plain
refused 2 "cuda: the op embed is not there yet" run -m "$TINY" -q --backend cuda --prompt-ids 1,2,3 -n 2
finish
