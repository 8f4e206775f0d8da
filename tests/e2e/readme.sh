# Each command line of README.md's fenced blocks, pasted as it is, with a home folder of its own. A line that this script
# does not know fails: it is to be added here. What is put in a command's place:
#   make TARGET         make's dry run: e2e.makefile builds and runs
#   model.gguf          a small model of that name in the working folder
#   a terminal          a dialogue that leaves the conversation
#   :8080, :8000        the free port that `runnel serve` is given by RUNNEL_PORT
#   bench, bench serve  fewer repetitions and short requests, by their variables
# label: waits
. "$(dirname "$0")/lib.sh"
mkdir bin home
ln -s "$BIN" bin/runnel
ln -s "$SMALL" model.gguf
export PATH=$work/bin:$PATH HOME=$work/home TERM=xterm NO_COLOR=1
unset XDG_STATE_HOME XDG_CACHE_HOME
export RUNNEL_REPETITIONS=1 RUNNEL_REQUESTS=8 RUNNEL_INPUT_TOKENS=8 RUNNEL_OUTPUT_TOKENS=4

# commands FILE: lines of ```sh blocks without their comments, and lines behind $ in other blocks.
commands() {
    awk '/^```/ { inside = !inside; shell = $0 == "```sh"; next }
        inside && shell && !/^#/ && NF { sub(/ +# .*/, ""); print }
        inside && !shell && /^\$ / { print substr($0, 3) }' "$1"
}

# pasted LINE [STATUS]: a shell runs it; leaves ./out.
pasted() {
    bash -c "$1" >out 2>err </dev/null
    status=$?
    equal "$1: $(head -c 300 err)" "${2:-0}" $status
}

pid=
commands "$ROOT/README.md" >lines
expect "the README has commands" [ "$(wc -l <lines)" -ge 10 ]
while IFS= read -r line <&3; do
    case $line in
    'make '*) pasted "make -n -C '$ROOT' ${line#make }" ;;
    'runnel run')
        printf 'expect lists the commands\nexpect > \nsend /bye\\r\n' | "$DIALOGUE" bash -c "$line" >out 2>err
        status=$?
        equal "$line: $(cat err)" 0 $status
        ;;
    'runnel run '*)
        pasted "$line"
        expect "$line: writes a text" [ -s out ]
        ;;
    'runnel models' | 'runnel models --help' | 'runnel plan '* | 'runnel bench model.gguf '*)
        pasted "$line"
        expect "$line: prints its lines" [ "$(wc -l <out)" -gt 1 ]
        ;;
    'runnel serve' | 'runnel serve --page-store pages')
        [ -z "$pid" ] || { kill "$pid"; wait "$pid"; }
        : >said
        RUNNEL_PORT=0 bash -c "exec $line" >served 2>said </dev/null &
        pid=$!
        ready "by $line"
        ;;
    'curl '* | 'runnel explain --url '* | 'runnel bench serve --url '*)
        expect "$line: behind runnel serve" [ "$pid" ]
        [ "${line%% *}" != curl ] || command -v curl >/dev/null || continue
        pasted "$(sed -E "s/:(8080|8000)/:$port/g" <<<"$line")"
        expect "$line: has an answer" [ -s out ]
        ;;
    *) fail "the README has a command that this test does not know: $line" ;;
    esac
done 3<lines
if [ "$pid" ]; then
    kill "$pid"
    wait "$pid"
    equal "the server ends well" 0 $?
fi
finish
