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

run plan -m "$TINY" --json --bandwidth 1GB/s --n-prompt 16 --n-gen 16 --page-store-size 1G
equal "a plan: $(cat err)" 0 "$code"
equal "tokens that a store holds" $((1073741824 / $(json out memory.kv_token_bytes))) "$(json out memory.store_tokens)"

# the host's memory, alone: it ends with the program
long --page-store-memory 64M
equal "with memory alone: $(cat err)" "0 0" "$code $(json out cached_tokens)"
json out text >text.memory
expect "the same text" cmp text.without text.memory

refused 2 "page store no/such/folder: No such file or directory" run -m "$TINY" -p a --page-store no/such/folder
: >file
refused 2 "page store file: Not a directory" run -m "$TINY" -p a --page-store file
refused 2 "a page store needs the prefix cache, which is off" serve -m "$TINY" --port 0 -q --page-store pages --no-prefix-cache

# start: serves; leaves pid and port.
start() {
    : >said
    "$BIN" serve -m "$TINY" --port 0 -t 1 --page-store served.pages --page-store-memory 64M >served 2>said </dev/null &
    pid=$!
    ready "with a store"
}
body="{\"prompt\":\"$prompt\",\"max_tokens\":8,\"seed\":1}"
start
ask POST /v1/completions "$body" | tail -1 >first
metric() { ask GET /metrics "" | sed -n "s/^runnel:store_$1{.*} //p"; }
written() { [ "$(metric written_total)" -ge $((n_prompt / 32)) ]; }
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

ask GET /props "" | tail -1 >answer
equal "the properties have its size" "17179869184 67108864" \
    "$(json answer page_store.max_bytes) $(json answer page_store.memory_max_bytes)"
page=$(json answer page_store.page_bytes)
equal "and how many tokens that is" $((17179869184 / (page / 32))) "$(json answer page_store.max_tokens)"

# llama.cpp's slots. Their names are no paths.
slot() { ask POST "/slots/$1?action=$2" "$3" | tail -1; }
name='{"filename":"../../a conversation.bin"}'
slot 0 save "$name" >answer
expect "a slot without a text" grep -q '"slot 0 has no text' answer
ask POST /completion "{\"prompt\":\"$prompt\",\"n_predict\":6,\"id_slot\":0}" | tail -1 >answer
equal "the slot that was named" 0 "$(json answer id_slot)"
evaluated=$(json answer tokens_evaluated)
predicted=$(json answer tokens_predicted)
slot 0 save "$name" >answer
equal "its text is saved" $((evaluated + predicted)) "$(json answer n_saved)"
expect "with its pages: $(cat answer)" [ "$(json answer n_stored)" -ge $((evaluated / 32 * 32)) ]
equal "under its name" "../../a conversation.bin" "$(json answer filename)"
expect "which is no path" [ ! -e "../../a conversation.bin" ]
saved=$(json answer n_saved)
kill -TERM $pid
wait $pid
equal "it ends as usual" 0 $?
start
slot 1 restore '{"filename":"another"}' >answer
expect "a name that there is not" grep -q "there is no text of the name 'another'" answer
slot 1 restore "$name" >answer
equal "it is restored after a restart" "1 $saved" "$(json answer id_slot) $(json answer n_restored)"
expect "from the store: $(cat answer)" [ "$(json answer n_cached)" -ge $((evaluated / 32 * 32)) ]
slot 1 erase "$name" >answer
equal "it is erased" "$saved" "$(json answer n_erased)"
slot 1 restore "$name" >answer
expect "and gone" grep -q 'there is no text of the name' answer
slot x save "$name" >answer
expect "a slot that is no number" grep -q "slot 'x', expected a number" answer
ask GET /props "" | tail -1 >answer
slot $(($(json answer total_slots) * 1000 + 1)) erase "" >answer
equal "a slot beyond the last one wraps around" 1 "$(json answer id_slot)"
slot 0 copy "$name" >answer
expect "an action that there is not: $(cat answer)" [ "$(json answer error.message)" = "action: expected save, restore or erase, got 'copy'" ]
equal "its code" invalid_value "$(json answer error.code)"
slot 0 save '{}' >answer
expect "a name is needed" grep -q 'filename: expected the name of the text' answer
kill -TERM $pid
wait $pid
equal "it ends as usual" 0 $?

# A disk that is full, in a name space of its own: it holds some of the pages.
mkdir full
if unshare -rm sh -c 'mount -t tmpfs -o size=64k none full' 2>/dev/null; then
    : >said
    unshare -rm sh -c 'mount -t tmpfs -o size=$1 none full && exec "$2" serve -m "$3" --port 0 -t 1 --page-store full' \
        sh $((5 * page)) "$BIN" "$TINY" >served 2>said </dev/null &
    pid=$!
    ready "with a small disk"
    ask POST /v1/completions "$body" | tail -1 >third
    equal "the text beside a full disk" "$(json first choices.0.text)" "$(json third choices.0.text)"
    stopped() { [ "$(metric stopped)" = 1 ]; }
    until_true "nothing more is written" stopped
    expect "what fits is stored: $(metric pages) pages" [ "$(metric pages)" -gt 1 -a "$(metric pages)" -lt 6 ]
    ask POST /v1/completions "{\"prompt\":\"Another. $prompt\",\"max_tokens\":8,\"seed\":1}" >/dev/null
    ask POST /v1/completions "$body" | tail -1 >fourth
    equal "and again" "$(json first choices.0.text)" "$(json fourth choices.0.text)"
    equal "it is said once" 1 "$(grep -c 'page store: No space left on device' said)"
    kill -TERM $pid
    wait $pid
    equal "it ends as usual" 0 $?
else
    echo "a full disk is not tested: there is no mount here"
fi

# A disk that can only be read, with a folder of pages and without one: the server starts, says so
# once, reads what is there and stores nothing.
if unshare -rm sh -c 'mount -t tmpfs none full && mount -o remount,ro full' 2>/dev/null; then
    for folder in full/pages full/none; do
        : >said
        unshare -rm sh -c 'mount -t tmpfs none full && cp -r served.pages full/pages &&
            mount -o remount,ro full && exec "$1" serve -m "$2" --port 0 -t 1 --page-store "$3"' \
            sh "$BIN" "$TINY" $folder >served 2>said </dev/null &
        pid=$!
        ready "with $folder on a disk that can only be read"
        ask POST /v1/completions "$body" | tail -1 >third
        equal "the text with $folder" "$(json first choices.0.text)" "$(json third choices.0.text)"
        ask POST /v1/completions "{\"prompt\":\"Third. $prompt\",\"max_tokens\":8,\"seed\":1}" >/dev/null
        equal "it is said once" 1 "$(grep -c 'page store.*: Read-only file system' said)"
        equal "nothing is written" "1 0" "$(metric stopped) $(metric written_total)"
        if [ $folder = full/pages ]; then
            expect "pages are read: $(metric hits_total)" [ "$(metric hits_total)" -gt 0 ]
        fi
        kill -TERM $pid
        wait $pid
        equal "it ends as usual with $folder" 0 $?
    done
else
    echo "a disk that can only be read is not tested: there is no mount here"
fi
finish
