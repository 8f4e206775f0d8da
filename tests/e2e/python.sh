# The Python package: its structs are those of the header, the blocks of docs/PYTHON.md run, and streams, threads,
# coroutines, cancellation, errors and cleanup work.
. "$(dirname "$0")/lib.sh"
[ -z "$SAN" ] || { echo "there is no library with a sanitizer"; exit 77; }
command -v python3 >/dev/null || { echo "there is no python3"; exit 77; }

export RUNNEL_LIBRARY=$BUILD/librunnel.so.0 PYTHONPATH=$ROOT/python PYTHONDONTWRITEBYTECODE=1
cp "$SMALL" model.gguf
mkdir pair
"$ASSISTANT_MAKE" pair || fail "the assistant cannot be written"
python3 -W error -X faulthandler "$ROOT/tests/e2e/python_package.py" >log 2>&1
status=$?
equal "the package's tests: $(grep -v '^\.' log | tail -n 60)" 0 $status
expect "there are many" grep -q '^Ran [2-9][0-9] tests' log

RUNNEL_LIBRARY=none.so python3 -c 'import runnel' >out 2>&1
equal "without a library it says where it looked" \
    "ImportError: runnel: the library was not found (RUNNEL_LIBRARY names its file): none.so: cannot open shared object file: No such file or directory" \
    "$(tail -n 1 out)"

# A program that forgets to close everything still ends, quietly.
python3 -W error - >out 2>&1 <<'END'
import runnel
model = runnel.Model("model.gguf")
engine = runnel.Engine(model, max_seqs=2)
shape = model.shape(choices=["a"])
streams = [engine.generate("Once", ignore_eos=True) for _ in range(3)]
next(iter(streams[0]))
print("over")
END
equal "nothing has to be closed at the end" "0 over" "$? $(cat out)"
finish
