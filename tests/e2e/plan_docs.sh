# The figures of `runnel plan` in the documentation are those of the program. Each block that begins with "$ runnel plan" and
# names a device, figures or a speed is run: its lines are in the output, in their order; "..." stands for lines that
# are left out. Commands in tables end well. Plots of such commands are the files of the pages.
# RUNNEL_DOCS_PRINT=1 prints what the program says instead, to be copied into a page.
. "$(dirname "$0")/lib.sh"
export XDG_CACHE_HOME=$work/cache

pages=$(cd "$ROOT" && ls README.md docs/*.md docs/questions/*.md)

# blocks PAGE: writes blocks 1, 2, ... of such commands as N.command and N.lines; a rest without a command is left out.
blocks() {
    rm -f ./*.command ./*.lines
    awk '/^```/ { inside = !inside; out = ""; next }
        inside && /^\$ / {
            out = ""
            if ($0 ~ /^\$ runnel plan .*--(device|bandwidth|speed)/) {
                out = ++n ".lines"
                print substr($0, 3) >(n ".command")
                printf "" >out
            }
            next
        }
        inside && out != "" { print >out }' "$ROOT/$1"
}

# in_order LINES OUTPUT: prints the first line that is not there, behind the line before it.
in_order() {
    awk 'function trimmed(text) { sub(/[ \t]+$/, "", text); return text }
        FNR == NR { line[++n] = trimmed($0); next }
        at < n {
            while (at < n && (line[at + 1] == "..." || line[at + 1] == "")) at++
            if (at < n && trimmed($0) == line[at + 1]) at++
        }
        END {
            while (at < n && (line[at + 1] == "..." || line[at + 1] == "")) at++
            if (at < n) print line[at + 1]
        }' "$1" "$2"
}

n_blocks=0
for page in $pages; do
    blocks "$page"
    for command in *.command; do
        [ -e "$command" ] || continue
        n_blocks=$((n_blocks + 1))
        line=$(cat "$command")
        # shellcheck disable=SC2086  # words of a command line without quotes
        run ${line#runnel }
        equal "$page: $line: $(head -c 300 err)" 0 "$code"
        [ -z "${RUNNEL_DOCS_PRINT-}" ] || { echo "== $page: $line" && cat out; } >&2
        equal "$page: $line: a line that is not in the output" "" "$(in_order "${command%.command}.lines" out)"
        plot=$(sed -nE 's/.* --(memory-)?svg ([^ ]+).*/\2/p' "$command")
        if [ "$plot" ]; then
            expect "$page: $plot is the plot of $line" cmp "$plot" "$ROOT/$(dirname "$page")/$plot"
        fi
    done
done
expect "there are blocks" [ "$n_blocks" -ge 5 ]

# In tables and in texts.
grep -ohE '`runnel plan [^`]*--(device|speed|bandwidth)[^`]*`' $(printf "$ROOT/%s " $pages) | tr -d '`' |
    grep -vE '[A-Z]{4}| X($| )|\.jsonl|FILE' | sort -u >lines
expect "there are commands in tables" [ "$(wc -l <lines)" -ge 3 ]
while IFS= read -r line <&3; do
    # shellcheck disable=SC2086
    run ${line#runnel }
    equal "$line: $(head -c 300 err)" 0 "$code"
done 3<lines
expect "nothing was measured" [ ! -e cache ]

finish
