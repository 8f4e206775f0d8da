# The server's reader of requests against llhttp, the parser of Node. Both split a stream of bytes in
# the same way, and the reader refuses everything that llhttp refuses. `make http-diff` compares far
# more.
# label: long
. "$(dirname "$0")/lib.sh"

if ! command -v node >/dev/null; then
    echo "skipped: there is no node"
    exit 77
fi
diff=$ROOT/tests/http_diff/http_diff.mjs

expect "each allowed difference has examples" node "$diff" --reader "$READER_SPLIT" --examples
expect "the fuzz corpus is split alike" node "$diff" --reader "$READER_SPLIT" --files "$ROOT/tests/fuzz/corpus/reader"
expect "streams are split alike" node "$diff" --reader "$READER_SPLIT" --requests 20000 --seed 1

# The comparison itself must see a reader that is less strict.
server=$ROOT/app/server
# loose WHAT EDIT: the reader with that change to its source.
loose() {
    sed "$2" "$server/reader.c" >loose.c
    expect "the source has the line for: $1" test -n "$(cmp loose.c "$server/reader.c")"
    "${CC:-cc}" -O1 -I"$server" loose.c "$ROOT/tests/http_diff/reader_split.c" -o loose || fail "cannot compile: $1"
    node "$diff" --reader ./loose --requests 20000 --seed 1 --first >out
    equal "exit with $1" 1 "$?"
}
if command -v "${CC:-cc}" >/dev/null && [ -z "$SAN" ]; then
    loose "folds passed over" 's/if (!empty) return field_parse/if (!empty) return is_blank(reader->head.text[reader->used]) || field_parse/'
    loose "two lengths" 's/n_lengths + reader->n_codings > 1/n_lengths + reader->n_codings > 2/'
    loose "tabs after lengths" 's/if (tab \&\& is_framing(line))/if (tab \&\& !line)/'
    loose "trailers of any name" 's/if (!is_framing(name) \&\& strcasecmp(name, "Host"))/if (*name)/'
    loose "chunk sizes of any length" 's/if (size >> 58)/if (n > 1000)/'
    loose "Proxy-Connection passed over" 's/ || !strcasecmp(name, "Proxy-Connection")//'
    loose "any host" 's/bad(reader, "The Host field is not a name")/bad(reader, "The host is odd")/'
fi
finish
