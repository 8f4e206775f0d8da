# Chat templates against two other implementations, live: Python's jinja2, which transformers uses, and
# the npm package @huggingface/jinja. Every family of tests/data/templates renders its
# conversations; with jinja2 also the snippets. A tool that is missing is skipped.
. "$(dirname "$0")/lib.sh"

mkdir ours
if ! TEMPLATES_OUT=ours "$BUILD/tests/test_jinja" template >out 2>&1; then
    cat out
    fail "our own renders"
fi
expect "all families are rendered" [ "$(find ours -name '*.json' | wc -l)" -eq 29 ]

tools=0
if python3 -c 'import jinja2' 2>/dev/null; then
    tools=$((tools + 1))
    equal "jinja2 runs" 0 "$(python3 -W ignore "$ROOT/tests/e2e/templates_jinja2.py" theirs >out 2>&1; echo $?)"
    for file in theirs/*.json; do
        expect "$(basename "$file" .json): as with jinja2" \
            python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1])) != json.load(open(sys.argv[2])))' \
            "$file" "ours/$(basename "$file")"
    done
    expect "jinja2 rendered all families" [ "$(find theirs -name '*.json' | wc -l)" -eq 29 ]
else
    echo "skipped: python3 has no jinja2"
fi

if ! command -v node >/dev/null; then
    echo "skipped: there is no node"
elif [ ! -d "$ROOT/tests/npm/node_modules/@huggingface/jinja" ]; then
    echo "skipped: tests/npm has no node_modules (npm install makes them)"
else
    tools=$((tools + 1))
    expect "as with @huggingface/jinja" env TZ=UTC node "$ROOT/tests/npm/render.mjs" ours
    # The comparison itself must see a difference.
    mkdir changed
    sed 's/Hello!/Hallo!/' ours/phi3.json >changed/phi3.json
    for file in ours/*.json; do cp -n "$file" changed/; done
    env TZ=UTC node "$ROOT/tests/npm/render.mjs" changed >out
    equal "a changed result is seen" 1 $?
fi
if [ "$tools" -eq 0 ] && [ "$failures" -eq 0 ]; then exit 77; fi
finish
