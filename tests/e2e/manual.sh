# Manual pages and completions: man and the shells can read them. tests/app/test_help.c tests that
# every option is in them.
. "$(dirname "$0")/lib.sh"

commands=$("$BIN" --help | sed -n '/^examples:/q; s/^  \([a-z]*\) .*/\1/p')
expect "there are commands" [ "$(wc -l <<<"$commands")" -gt 5 ]

run help --man
cp out runnel.1
expect "the page of the program has a name" grep -q '^runnel \\- ' runnel.1
for command in $commands; do
    expect "the program's page names $command" grep -qxF "\\fB$command\\fR" runnel.1
    run help --man "$command"
    equal "help --man $command" 0 "$code"
    cp out "runnel-$command.1"
done
run help --man bench serve # a name of two words
cp out runnel-bench-serve.1
expect "its page has a name" grep -q '^runnel\\-bench\\-serve \\- load a server' runnel-bench-serve.1
expect "the program's page names it" grep -qxF '\fBbench serve\fR' runnel.1
expect "and its page" grep -qF '.BR runnel\-bench\-serve (1)' runnel.1
if command -v man >/dev/null && command -v groff >/dev/null; then
    for page in *.1; do
        equal "man takes $page" "" "$(LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)"
    done
fi
if command -v mandoc >/dev/null; then # the date is left out: pages of one source are equal
    for page in *.1; do
        equal "mandoc takes $page" "" "$(mandoc -Tlint -W warning "$page" | grep -v 'missing date')"
    done
fi

for shell in bash zsh fish; do
    run completions $shell
    equal "completions $shell" 0 "$code"
    cp out "complete.$shell"
    for command in $commands; do
        expect "$shell knows $command" grep -qw -- "$command" "complete.$shell"
    done
    command -v $shell >/dev/null && expect "$shell can read them" $shell -n "complete.$shell"
done
refused 2 "name a shell" completions
refused 2 "'tcsh' is not one of bash, zsh and fish" completions tcsh

# completed WORD...: bash's completions of the last word, sorted.
# shellcheck disable=SC2016  # the inner shell expands
completed() {
    bash -c '. ./complete.bash
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _runnel
        printf "%s\n" "${COMPREPLY[@]}"' bash "$@" | LC_ALL=C sort | paste -sd ' '
}
equal "a command" "serve" "$(completed runnel s)"
equal "an option" "--port" "$(completed runnel serve --por)"
equal "an option of another command is none" "" "$(completed runnel run --po)"
equal "a choice" "avx2 avx512 avx512bw avxvnni" "$(completed runnel run --isa av)"
equal "a choice after =" "int4 int8" "$(completed runnel run --kv-type = int)"
equal "a file" "complete.bash complete.fish complete.zsh" "$(completed runnel run --file complete.)"
touch a.gguf a.txt
mkdir afolder
equal "a model is a GGUF file or a folder" "a.gguf afolder" "$(completed runnel run --model a)"
equal "also without a flag" "a.gguf afolder" "$(completed runnel serve a)"
equal "a text of eval is any file" "a.gguf a.txt afolder" "$(completed runnel eval a)"
equal "a template" "chatml" "$(completed runnel run --chat-template chat)"
equal "a drafter" "shape shared" "$(completed runnel serve --speculate sha)"
equal "a drafter of bench" "synthetic" "$(completed runnel bench --drafters sy)"
equal "a device of a plan" "h200" "$(completed runnel plan --device h2)"
equal "a shape of a plan" "70b" "$(completed runnel plan 70)"
equal "a shape of bench" "70b" "$(completed runnel bench --synthetic 70)"
equal "a backend" "cpu cuda" "$(completed runnel inspect --backend c)"
equal "a number is not guessed" "" "$(completed runnel run --seed '')"
equal "a command of help" "eval explain" "$(completed runnel help e)"
equal "the second word of a command" "serve" "$(completed runnel bench se)"
equal "an option of a command of two words" "--ramp" "$(completed runnel bench serve --ram)"
equal "which its first word alone does not have" "" "$(completed runnel bench --ram)"
equal "nor its second" "" "$(completed runnel serve --ram)"

# Names of models are those of this machine.
export RUNNEL_MODELS=$work/store
mkdir -p store/Own/Tale-GGUF "store/a b"
cp "$TINY" store/Own/Tale-GGUF/Tale-Q8_0.gguf
cp "$TINY" store/Own/Tale-GGUF/Tale-Q4_0.gguf
cp "$TINY" "store/a b/a b.gguf" # a name that would have to be quoted
equal "a model's name" "Own/Tale-GGUF:Q4_0 Own/Tale-GGUF:Q8_0" "$(completed "$BIN" run -m Own)"
equal "a model's name without its owner" "Tale-GGUF:Q4_0 Tale-GGUF:Q8_0" "$(completed "$BIN" serve T)"
equal "a name behind its colon" "Q4_0 Q8_0" "$(completed "$BIN" bench Own/Tale-GGUF : Q)"
equal "at its colon" "Q4_0 Q8_0" "$(completed "$BIN" bench -m Own/Tale-GGUF :)"
equal "a name after =" "Own/Tale-GGUF:Q4_0 Own/Tale-GGUF:Q8_0" "$(completed "$BIN" inspect --model = O)"
equal "a name beside files" "a.gguf afolder" "$(completed "$BIN" run -m a)"
equal "a program that is not there says nothing" " afolder" " $(completed nosuch run -m af 2>&1)"
run models --names
equal "the names alone" "0 Own/Tale-GGUF:Q4_0 Own/Tale-GGUF:Q8_0 a b" "$code $(LC_ALL=C sort out | paste -sd ' ')"
run models tale:q8_0
equal "the path of a model" "0 $work/store/Own/Tale-GGUF/Tale-Q8_0.gguf" "$code $(cat out)"
refused 2 "nosuch.gguf: No such file or directory" models nosuch.gguf
refused 2 "--names and the name of a model exclude each other" models --names tale
refused 2 "--names and --json exclude each other" models --names --json
# Variables are set for other commands, too: they do not change the answers that scripts ask for.
for variable in RUNNEL_JSON RUNNEL_NAMES; do
    export $variable=1
    run models tale:q8_0
    equal "$variable=1: the path of a model" "0 $work/store/Own/Tale-GGUF/Tale-Q8_0.gguf" "$code $(cat out)"
    run models --names
    equal "$variable=1: the names alone" "0 3" "$code $(wc -l <out)"
    run models --json
    equal "$variable=1: JSON" "0 3" "$code $(json out '#models')"
    unset $variable
done
RUNNEL_JSON=1 run models
equal "RUNNEL_JSON=1: JSON" "0 true" "$code $(json out complete)"
if command -v zsh >/dev/null; then
    # shellcheck disable=SC2016  # the inner shell expands
    equal "zsh: a model's name" "Own/Tale-GGUF:Q4_0 Own/Tale-GGUF:Q8_0 Tale-GGUF:Q4_0 Tale-GGUF:Q8_0" "$(zsh -f -c '
        program=$1
        _call_program() { shift; eval "$@"; }
        compadd() { shift; print -l -- "$@"; }
        _files() { }
        functions[loaded]=${"$(<complete.zsh)"%_runnel *}
        loaded
        _runnel_models' zsh "$BIN" | grep -v "a b" | LC_ALL=C sort -u | paste -sd ' ')"
fi
if command -v fish >/dev/null; then
    ln -s "$BIN" runnel
    equal "fish: a model's name" "Own/Tale-GGUF:Q4_0 Own/Tale-GGUF:Q8_0" \
        "$(HOME=$work fish -c 'source complete.fish; complete -C "./runnel run -m Own"' 2>/dev/null | cut -f 1 | LC_ALL=C sort | paste -sd ' ')"
    equal "fish: an option of a command of two words" "--ramp" \
        "$(HOME=$work fish -c 'source complete.fish; complete -C "runnel bench serve --ram"' 2>/dev/null | cut -f 1)"
    equal "fish: an option" "--port" \
        "$(HOME=$work fish -c 'source complete.fish; complete -C "runnel serve --por"' 2>/dev/null | cut -f 1)"
fi
finish
