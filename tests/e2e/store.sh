# The page store as users see it: the same text with fewer computed tokens, after an end, a kill and a restart; its messages.
# label: address
. "$(dirname "$0")/lib.sh"
prompt=$(for i in $(seq 16); do printf 'Once upon a time there was a fox of %d years. ' "$i"; done)
long() { run run -m "$TINY" -p "$prompt" -n 12 --seed 3 --json -q "$@"; }

long
equal "without a store" 0 "$code"
json out text >text.without
long --page-store pages
equal "the first run" "0 0" "$code $(json out cached_tokens)"
expect "the folder is for its owner alone" [ "$(stat -c %a pages)" = 700 ]
equal "so are its files" 600 "$(find pages -type f -exec stat -c %a {} + | sort -u)"
n_prompt=$(json out prompt_tokens)
json out text >text.first
long --page-store pages
equal "the second run: $(cat err)" 0 "$code"
json out text >text.second
expect "the same text" cmp text.without text.first
expect "and again" cmp text.without text.second
cached=$(json out cached_tokens)
expect "all whole blocks come from the store, $cached of $n_prompt" [ "$cached" = $(((n_prompt - 1) / 32 * 32)) ]
find pages -name '*-0' -exec sh -c 'printf spoilt | dd of="$1" bs=1 seek=700 conv=notrunc status=none' sh {} \;
long --page-store pages
json out text >text.spoilt
equal "spoilt pages are computed" 0 "$(json out cached_tokens)"
expect "to the same text" cmp text.without text.spoilt

refused 1 "page store no/such/folder: No such file or directory" run -m "$TINY" -p a --page-store no/such/folder
: >file
refused 1 "page store file: Not a directory" run -m "$TINY" -p a --page-store file
refused 2 "a page store needs the prefix cache, which is off" serve -m "$TINY" --port 0 -q --page-store pages --no-prefix-cache

# start: serves; leaves pid and port.
start() {
    "$BIN" serve -m "$TINY" --port 0 -t 1 --page-store served.pages >served 2>said </dev/null &
    pid=$!
    ready "with a store"
}
body="{\"prompt\":\"$prompt\",\"max_tokens\":8,\"seed\":1}"
start
ask POST /v1/completions "$body" | tail -1 >first
metric() { ask GET /metrics "" | sed -n "s/^runnel:store_$1{.*} //p"; }
written() { [ "$(metric written_total)" -gt 8 ]; }
until_true "pages are written" written
kill -9 $pid
wait $pid 2>/dev/null
start
ask POST /v1/completions "$body" | tail -1 >second
equal "the text after a kill" "$(json first choices.0.text)" "$(json second choices.0.text)"
equal "its prompt was read, not computed" $(((n_prompt - 1) / 32 * 32)) \
    "$(json second usage.prompt_tokens_details.cached_tokens)"
expect "the metrics say so" [ "$(metric hits_total)" -gt 8 ]
equal "nothing failed" "0 0" "$(metric errors_total) $(metric removed_total)"
kill -TERM $pid
wait $pid
equal "it ends as usual" 0 $?
finish
