# `make run STORY=...`: the text reaches the program as it was written, past make and the shell.
# `make clients` installs the packages of npm when their list has changed, and only then.
. "$(dirname "$0")/lib.sh"
command -v make >/dev/null || { echo "no make: skipped"; exit 0; }
mkdir build
printf '#!/bin/sh\ncat\n' >build/runnel # stands for the program: shows the prompt
chmod +x build/runnel
cp "$ROOT/Makefile" .
unset MAKEFLAGS MFLAGS MAKEOVERRIDES SAN STORY # of a make that runs the tests

# told STORY: the output of `make run` for it.
told() { printf '> Tell me a story about %s.\n\nTell me a story about %s.' "$1" "$1"; }

# shellcheck disable=SC2016  # nothing is to be expanded: that is the point
for story in 'a robot and a kite' 'a "b" $HOME `id` $(id)' "it's; id" '$(shell id) $$ 100% \n \\' '-n' '*'; do
    make -s -o program run STORY="$story" >out 2>err
    expect "on the command line: $story" cmp out <(told "$story")
    STORY=$story make -s -o program run >out 2>err
    expect "in the environment: $story" cmp out <(told "$story")
done
make -s -o program run >out 2>err
expect "the default" cmp out <(told "a fox and a lantern")

mkdir -p tools tests/npm fake
printf '#!/bin/sh\n' >tools/setup
printf '#!/bin/sh\necho >>../../installs\nmkdir -p node_modules\n[ ! -e ../../broken ]\n' >fake/npm
chmod +x tools/setup fake/npm
# installs: how often npm has run after one more `make clients`.
installs() {
    PATH=$PWD/fake:$PATH make -s clients >out 2>&1
    equal "make clients" 0 $?
    wc -l <installs
}
echo '{"a": 1}' >tests/npm/package.json
equal "packages that are not there are installed" 1 "$(installs)"
equal "those that are there are not" 1 "$(installs)"
echo '{"a": 2}' >tests/npm/package.json
touch broken
equal "a list that has changed is installed" 2 "$(installs)"
expect "a failure is told" grep -q "skipped" out
rm broken
equal "and tried again" 3 "$(installs)"
equal "until it is there" 3 "$(installs)"
finish
