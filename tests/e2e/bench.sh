# `runnel bench`: the table, JSON and CSV, their arithmetic, the plot, drafts, a peer, wrong use, Ctrl-C. No
# check looks at how long anything took.
. "$(dirname "$0")/lib.sh"

blocks=$MODELS/tale-20m-q4_k_m.gguf
small=$MODELS/tale-1m-f16.gguf

# near WHAT A B: the two numbers agree to six digits.
near() {
    expect "$1: $2 is not $3" awk -v a="$2" -v b="$3" \
        'BEGIN { d = a - b; if (d < 0) d = -d; m = a < 0 ? -a : a; exit !(d <= 1e-6 * m) }'
}

run bench --help
equal "--help exits 0" 0 "$code"
expect "help fits 100 columns" [ "$(wc -L <out)" -le 100 ]

# The table, of the embedded model.
run bench -p 8 -n 4 -r 1
equal "bench exits 0" 0 "$code"
equal "nothing on stderr away from a terminal" 0 "$(wc -c <err)"
equal "a head, a rule, two rows" 4 "$(wc -l <out)"
equal "the columns" "model|size|params|backend|threads|test|t/s|bytes/token|GB/s|B,GB/s|ofB|ofpeak" \
    "$(head -n 1 out | tr -d ' ' | sed 's/^|//; s/|$//')"
expect "the rule is markdown" grep -q '^| -* | -*: |' out
expect "the prompt's row" grep -q '^| llama 20M Q8_0 .* | *20.75 MiB | *20.45 M | cpu .* | *pp8 | *[0-9.]* ± 0.00 |' out
expect "the decoding row" grep -q ' | *tg4 | *[0-9.]* ± 0.00 |' out
equal "lines are aligned" 1 "$(sed 's/±/+/' out | awk '{ print length($0) }' | sort -u | wc -l)"
expect "no colour away from a terminal" sh -c '! grep -q "$(printf "\033")" out'
run bench -p 0 -n 2 -r 1 --color always
expect "colour when asked for" grep -q "$(printf '\033')" out

# Tests and their names, in order; columns that a test has none for are empty.
run bench -m "$small" -p 4,8 -n 3 -d 0,64 --streams 1,4 --verify 2 -r 1 -t 1 --kv-type f32
equal "the order of the tests" "pp4,pp8,tg3,tg3x4,verify2,pp4@d64,pp8@d64,tg3@d64,tg3x4@d64,verify2@d64" \
    "$(tail -n +3 out | cut -d'|' -f8 | tr -d ' ' | paste -sd,)"
expect "a column for the KV type that is not the default" grep -q '| type_kv |' out
expect "a column for the cost" grep -q '| *cost |' out
run bench -m "$small" -p 4 -p 8,16 -n 0 -r 1 -o json
equal "options add up" "4 8 16" "$(json out 0.n_prompt) $(json out 1.n_prompt) $(json out 2.n_prompt)"
run bench -m "$small,$blocks" -m "$small" -p 0 -n 2 -t 1,2 -r 1 -o json
equal "models and threads" 6 "$(json out '#.')"
equal "the second model" "$blocks" "$(json out 2.model_filename)"
equal "the second thread count" 2 "$(json out 3.n_threads)"
cp "$small" a,b.gguf
run bench -m a,b.gguf -p 0 -n 2 -r 1 -o json
equal "a file's name may have commas" "a,b.gguf" "$(json out 0.model_filename)"

# JSON.
run bench -m "$blocks" -p 8 -n 4 -d 32 -r 3 --streams 2 --verify 2 -t 2 -b 4 -o json
equal "-o json exits 0" 0 "$code"
equal "rows" 3 "$(json out '#.')"
for key in build_commit build_number cpu_info backends model_filename model_type model_size model_n_params n_batch \
    n_ubatch n_threads type_k type_v n_prompt n_gen n_depth test_time avg_ns stddev_ns avg_ts stddev_ts samples_ns \
    samples_ts bytes_per_token read_gbs bandwidth_gbs bandwidth_share peak_share n_seqs n_verify isa cost in_cache \
    peer_ts peer_ratio; do
    for row in 0 1 2; do
        expect "row $row has $key" sh -c "'$JSONGET' $row.$key <out >/dev/null"
    done
done
equal "the version" "0.1.0" "$(json out 0.build_commit)"
equal "the batch" 4 "$(json out 0.n_batch)"
equal "the KV type" f16 "$(json out 0.type_v)"
equal "streams" 2 "$(json out 1.n_seqs)"
equal "drafts" 2 "$(json out 2.n_verify)"
equal "a prompt has no cost" null "$(json out 0.cost)"
equal "decoding has no peak" null "$(json out 1.peak_share)"
equal "no peer" null "$(json out 1.peer_ts)"
expect "the time of the test" sh -c "'$JSONGET' 0.test_time <out | grep -q '^20..-..-..T..:..:..Z$'"
equal "the model's parameters" "$("$BIN" inspect "$blocks" --json | "$JSONGET" totals.params)" \
    "$(json out 0.model_n_params)"
for row in 0 1 2; do
    equal "row $row: samples" 3 "$(json out "#$row.samples_ns")"
    tokens=$(((row == 0) * 8 + (row > 0) * 4 * 2))
    ns=$(json out $row.samples_ns | tr -d '[]')
    near "row $row: the first sample" "$(awk "BEGIN { printf \"%.12g\", $tokens * 1e9 / ${ns%%,*} }")" \
        "$(json out $row.samples_ts.0)"
    mean=$(json out $row.samples_ts | tr -d '[]' | awk -F, '{ printf "%.12g", ($1 + $2 + $3) / 3 }')
    near "row $row: avg_ts is the mean of samples_ts" "$mean" "$(json out $row.avg_ts)"
    near "row $row: stddev_ts is their deviation" "$(json out $row.samples_ts | tr -d '[]' | awk -F, -v m="$mean" \
        '{ printf "%.12g", sqrt((($1 - m)^2 + ($2 - m)^2 + ($3 - m)^2) / 2) }')" "$(json out $row.stddev_ts)"
    near "row $row: read_gbs is bytes over time" "$(awk -v b="$(json out $row.bytes_per_token)" -v n="$(json out $row.avg_ns)" \
        "BEGIN { printf \"%.12g\", b * $tokens / n }")" "$(json out $row.read_gbs)"
    expect "row $row: a share between 0 and 1" awk -v s="$(json out $row.bandwidth_share)" \
        'BEGIN { exit !(s > 0 && s <= 1.0000001) }'
    near "row $row: the first share" "$(awk -v b="$(json out $row.bytes_per_token)" -v ns="${ns%%,*}" \
        -v B="$(json out $row.samples_bandwidth_gbs.0)" "BEGIN { printf \"%.12g\", b * $tokens / ns / B }")" \
        "$(json out $row.samples_share.0)"
done
# The prompt's multiply-adds, from the model's shapes: 8 tokens of every product, but 1 of the head and of what
# follows the last attention; that of 8 tokens at depth 32 in the layers before, of 1 in the last.
near "the share of the peak" "$(awk -v n="$(json out 0.avg_ns)" -v i="$(json out 0.peak_int8_gmacs)" \
    -v f="$(json out 0.peak_f32_gmacs)" 'BEGIN { printf "%.12g", (133300224 / i + 1835008 / f) / n }')" \
    "$(json out 0.peak_share)"
# A decode step reads what inspect says: weights, and KV of the positions before and its own.
run bench -p 0 -n 1 -d 1023 -r 1 -o json
equal "bytes of the last step of a context" "$("$BIN" inspect --json | "$JSONGET" memory.f16.decode_bytes_full).0" \
    "$(json out 0.bytes_per_token)"

# CSV: the names, then as many fields in each line.
run bench -m "$small" -p 4 -n 2 -r 2 -o csv
equal "-o csv exits 0" 0 "$code"
equal "a line of names and two rows" 3 "$(wc -l <out)"
equal "as many fields in each line" 1 \
    "$(sed 's/"\([^"]\|""\)*"/x/g' out | awk -F, '{ print NF }' | sort -u | wc -l)"
expect "llama-bench's names" grep -q '^build_commit,.*,model_filename,.*,avg_ts,stddev_ts,' out

# Stages.
run bench -m "$small" -p 4 -n 2 -r 1 --stages
expect "the stages of a step" grep -q '^| matmul ffn_down  *|  *3\.0 | ' out
equal "of each test" 2 "$(grep -c '^| stage ' out)"
run bench -m "$small" -p 0 -n 2 -r 1 --stages -o json
equal "in JSON" "embed token_embd" "$(json out 0.stages.0.name)"
equal "runs of the first" 2 "$(json out 0.stages.0.runs)"

# Kernels: the same rows in every format.
run bench --kernels
equal "--kernels exits 0" 0 "$code"
expect "a kernel of this machine's reference" grep -q '^| Q4_0   | scalar  | yes  | reference, slow | ' out
equal "lines are aligned" 1 "$(awk '{ print length($0) }' out | sort -u | wc -l)"
kernels=$(($(wc -l <out) - 2))
run bench --kernels -o json
equal "in JSON" "$kernels F32 scalar true" "$(json out '#.') $(json out 0.format) $(json out 0.isa) $(json out 0.here)"
equal "bits" "32.0 32.0" "$(json out 0.file_bits) $(json out 0.packed_bits)"
run bench --kernels -o csv
equal "in CSV" $((kernels + 1)) "$(wc -l <out)"
equal "its first line" "format,isa,here,one,few,many,panel,file_bits,packed_bits" "$(head -n 1 out)"

# Formats without a kernel are said once, unless that is unwanted.
run bench --synthetic tiny:Q4_0,tiny:Q8_0 -t 1,2 -p 0 -n 1 -r 1 --isa scalar --no-pin
equal "a warning for each format" "Q4_0 Q8_0" "$(sed 's/.*no kernel for //; s/ .*//' err | paste -sd' ')"
equal "the rows" 6 "$(wc -l <out)"
run bench --synthetic tiny:Q4_0 -p 0 -n 1 -r 1 --isa scalar -q
equal "--quiet: no warning" 0 "$(wc -c <err)"
run run -p a -n 1 --isa scalar -q
equal "--quiet: no warning of run" 0 "$(wc -c <err)"

# Plots: bars, and lines over each axis.
if command -v xmllint >/dev/null; then
    sound() { xmllint --noout "$1"; }
elif command -v python3 >/dev/null; then
    sound() { python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$1"; }
else
    sound() { grep -q '</svg>' "$1"; }
fi
run bench -m "$small" -p 4 -n 2 -r 1 --plot bars.svg
equal "--plot exits 0" 0 "$code"
expect "bars are well-formed" sound bars.svg
expect "bars have their axis" grep -q 'share of the read bandwidth B, %' bars.svg
expect "light and dark" grep -q 'prefers-color-scheme: dark' bars.svg
run bench -m "$small" -p 4 -n 0 -r 1 --plot prompt.svg
expect "prompts alone are drawn against the peak" grep -q 'share of the arithmetic peak' prompt.svg
for axis in "-d 0,32:tokens in the context" "--streams 1,2,4:sequences decoded together" "-t 1,2:threads"; do
    # shellcheck disable=SC2086  # to be split
    run bench -m "$small,$blocks" -p 0 -n 2 -r 1 ${axis%%:*} --plot lines.svg
    expect "lines over ${axis##*:} are well-formed" sound lines.svg
    expect "with that axis" grep -q ">${axis##*:}<" lines.svg
    equal "a line for each model" 2 "$(grep -c '<polyline' lines.svg)"
done

run bench --synthetic tiny:Q4_K_S,tiny:Q4_K_M -p 0 -n 2 -r 1 -t 1,2 --streams 1,2 --plot lines.svg
expect "models of one type are told apart" grep -q '>tiny:Q4_K_M, tg2, 1 thread<' lines.svg
equal "a line for each model and thread count" 4 "$(grep -c '<polyline' lines.svg)"

# The engine with requests: so many at a time, with nothing in common and with a prefix of 48 tokens, of which a page
# of 32 can be shared.
run bench -m "$small" --batch 1,2,4 -p 64 -n 8
equal "--batch exits 0" 0 "$code"
equal "a title, a head, a rule, two blocks of rows" 10 "$(wc -l <out)"
equal "the columns" "test|streams|promptt/s|t/s|/1stream|/1by1|gapms50/99/max|firstms50/99|hostus|sampleus|ofB|pagesheld/shared|saved" \
    "$(sed -n 3p out | tr -d ' ' | sed 's/^|//; s/|$//')"
expect "a row without prefix" grep -q '^| *pp64+tg8 | *4 | .* / 0 | *0.0% |$' out
expect "a row with one" grep -q '^| *pp64+tg8, 48 shared | *4 | .* / 1 | *37.5% |$' out
run bench -m "$small" --batch 1,2,4 -p 64 -n 8 -r 2 -o json --plot batch.svg
equal "rows" 6 "$(json out '#.')"
expect "the plot is well-formed" sound batch.svg
equal "a line for each block" 2 "$(grep -c '<polyline' batch.svg)"
expect "over the streams" grep -q ">sequences decoded together<" batch.svg
for row in 0 1 2 3 4 5; do
    streams=$((1 << row % 3))
    equal "row $row: streams" $streams "$(json out $row.n_streams)"
    equal "row $row: tokens of the prompts" $((64 * streams)) "$(json out $row.prompt_tokens)"
    equal "row $row: tokens written" $((8 * streams)) "$(json out $row.output_tokens)"
    equal "row $row: tokens that were found" $((row < 3 ? 0 : 32 * (streams - 1))) "$(json out $row.cached_tokens)"
    expect "row $row: pages" [ "$(json out $row.pages_held)" -ge $((row < 3 ? 2 * streams : streams + 1)) ]
    equal "row $row: shared pages" $((row > 3)) "$(json out $row.pages_shared)"
    near "row $row: the gain over one by one" "$(awk -v s="$(json out $row.serial_ms)" -v w="$(json out $row.wall_ms)" \
        'BEGIN { printf "%.12g", s / w }')" "$(json out $row.gain_serial)"
    near "row $row: the gain over one stream" "$(awk -v n="$(json out $row.gen_ts)" \
        -v one="$(json out $((row / 3 * 3)).gen_ts)" 'BEGIN { printf "%.12g", n / one }')" "$(json out $row.gain_stream)"
    near "row $row: the share of the bandwidth" "$(awk -v r="$(json out $row.read_gbs)" \
        -v b="$(json out $row.bandwidth_gbs)" 'BEGIN { printf "%.12g", r / b }')" "$(json out $row.bandwidth_share)"
    expect "row $row: gaps and first tokens are in order" awk -v a="$(json out $row.gap_ms_p50)" \
        -v b="$(json out $row.gap_ms_p99)" -v c="$(json out $row.gap_ms_max)" -v d="$(json out $row.ttft_ms_p50)" \
        -v e="$(json out $row.ttft_ms_max)" -v w="$(json out $row.wall_ms)" \
        'BEGIN { exit !(0 < a && a <= b && b <= c && c < w && 0 < d && d <= e && e <= w) }'
    equal "row $row: no bound" null "$(json out $row.over_bound)"
done
run bench -m "$small" --batch 1,2 -p 16 -n 2 --itl-ms 0,5 -o csv --plot bounds.svg
equal "bounds have lines of their own" 4 "$(grep -c '<polyline' bounds.svg)"
expect "and say so" grep -q ', shared prefix, 5 ms, ' bounds.svg
run bench --synthetic tiny:Q4_0 --batch 3 -p 33,70 -n 2,4 --shared-prefix 64 --itl-ms 5 -o json
equal "lists of lengths, on a vocabulary without text" 8 "$(json out '#.')"
equal "a prefix is at most the prompt" "33 64" "$(json out 1.n_shared) $(json out 5.n_shared)"
equal "without one stream nothing is compared with it" null "$(json out 0.gain_stream)"
equal "the bound" 5 "$(json out 0.itl_ms)"
expect "a share of gaps above it" awk -v o="$(json out 0.over_bound)" 'BEGIN { exit !(o >= 0 && o <= 1) }'
run bench -m "$small" --arrive 300 --batch 2 --itl-ms 0,5 -p 16 -n 8 -o csv
equal "--arrive in CSV: names, and two rows for each bound" 5 "$(wc -l <out)"
equal "as many fields in each line" 1 \
    "$(sed 's/"\([^"]\|""\)*"/x/g' out | awk -F, '{ print NF }' | sort -u | wc -l)"
run bench -m "$small" --arrive 300 -p 16 -n 8 -o json
equal "eight streams" 8 "$(json out 0.n_streams)"
equal "before and while it arrives" "before arrive" "$(json out 0.test) $(json out 1.test)"
equal "the streams write on" 64 "$(json out 0.output_tokens)"
near "the rate of its prompt" "$(awk -v t="$(json out 1.ttft_ms_max)" 'BEGIN { printf "%.12g", 300000 / t }')" \
    "$(json out 1.prompt_ts)"
run bench -m "$small" --arrive 300 -p 16 -n 8 --itl-ms 5
expect "its row" grep -q '^| *pp300 arrives, 5 ms | *8 | .*% | ' out
for other in "--n-depth 1" "--streams 2" "--verify 2" "--stages" "--peer x"; do
    # shellcheck disable=SC2086  # to be split
    refused 2 "--batch cannot be combined with ${other%% *}" bench -m "$small" --batch 2 $other
done
refused 2 "--kv-memory is for the engine, and --batch, --arrive or --speculate is missing" bench --kv-memory 4p
refused 2 "a context of [0-9]* needs .* asked for hold 32 positions" bench -m "$small" --batch 2 -p 64 -n 8 --kv-memory 1p
RUNNEL_KV_MEMORY=1p run bench -m "$small" -p 4 -n 2 -r 1
equal "RUNNEL_KV_MEMORY is not for bench without --batch" 0 "$code"
run bench -m "$small" --batch 4 -p 64 -n 8 --kv-memory 4p
equal "--kv-memory: requests take turns" 0 "$code"
refused 2 "--itl-ms is for the engine, and --batch or --arrive is missing" bench --itl-ms 5
refused 2 "--sample is for the engine, and --batch or --arrive is missing" bench --sample
run bench -m "$small" --batch 2 -p 16 -n 4 --sample -o json
equal "sampled requests say so" true "$(json out 0.sampled)"
refused 2 "--shared-prefix is for the engine, and --batch is missing" bench --shared-prefix 5
refused 2 "--shared-prefix: 9 is more than the prompt's 8 tokens" bench --batch 2 -p 4,8 --shared-prefix 9
RUNNEL_BATCH=2 refused 2 "RUNNEL_BATCH cannot be combined with --streams" bench --streams 2
RUNNEL_ARRIVE=9 refused 2 "RUNNEL_ARRIVE has no plot" bench --plot x.svg
refused 2 "--arrive cannot be combined with --shared-prefix" bench --arrive 10 --shared-prefix 4
refused 2 "--batch: '0' is not a whole number from 1 to 4096" bench --batch 1,0
refused 2 "--batch: prompts of 0 tokens are no requests" bench --batch 1 -p 0
refused 2 "--batch: --n-gen 1 has no gaps" bench --batch 1 -n 1
refused 2 "--arrive has no plot" bench --arrive 10 --plot x.svg
refused 2 "requests of 1152 positions are more than the model's context, 1024" bench --batch 1 -p 1024

# Drafts against none: rows, their arithmetic, and texts that are the same.
run bench --speculate -m "$blocks" --draft "$small" -n 8 -r 1 --draft-lengths auto,2
equal "--speculate exits 0" 0 "$code"
equal "nothing on stderr" 0 "$(wc -c <err)"
equal "the columns" "drafter|length|temp|streams|nonet/s|t/s|ratio|says|drafted|accepted|tokens/step|drafted/step|bytes/token|text" \
    "$(sed -n 3p out | tr -d ' ' | sed 's/^|//; s/|$//')"
equal "all drafters that there are, each with both lengths" \
    "model auto,model 2,lookup auto,lookup 2,shared auto,shared 2,auto auto,auto 2,synthetic0.8 auto,synthetic0.8 2,synthetic0 auto,synthetic0 2" \
    "$(tail -n +5 out | awk -F'|' '{ gsub(/ /, "", $2); gsub(/ /, "", $3); print $2, $3 }' | paste -sd,)"
equal "lines are aligned" 1 "$(tail -n +3 out | awk '{ print length($0) }' | sort -u | wc -l)"
run bench --speculate -m "$small" -n 24 -r 3 --drafters synthetic,none --acceptance 1,0 --draft-lengths 4 \
    --temperatures 0,0.5 --streams 1,3 -o json
equal "drafters, acceptances, temperatures, streams" 12 "$(json out '#.')"
equal "the order" "synthetic 1.0 0.0 1,synthetic 1.0 0.0 3,synthetic 1.0 0.5 1,synthetic 1.0 0.5 3,synthetic 0.0 0.0 1" \
    "$(for row in 0 1 2 3 4; do
        echo "$(json out $row.drafter) $(json out $row.acceptance) $(json out $row.temperature) $(json out $row.n_streams)"
    done | paste -sd,)"
for row in 0 1 2 3 4 5 6 7 8 9 10 11; do
    streams=$((row % 2 ? 3 : 1))
    equal "row $row: the same text" true "$(json out $row.same_text)"
    equal "row $row: all tokens but the first ones" $((3 * 23 * streams)) "$(json out $row.decode_tokens)"
    near "row $row: the ratio is the median of the pairs'" "$(json out $row.samples_ratio | tr -d '[]' | tr , '\n' |
        sort -g | awk 'NR == 2 { printf "%.12g", $1 }')" "$(json out $row.ratio)"
    near "row $row: tokens of a step" "$(awk -v t="$(json out $row.decode_tokens)" -v s="$(json out $row.decode_steps)" \
        'BEGIN { printf "%.12g", t / s }')" "$(json out $row.tokens_per_step)"
    case $row in
    [0-3]) # right all the time: 5 tokens in a step
        equal "row $row: steps" $((3 * 5 * streams)) "$(json out $row.decode_steps)"
        equal "row $row: all are accepted" "$(json out $row.draft_tokens)" "$(json out $row.accepted_tokens)"
        expect "row $row: fewer bytes are read" awk -v a="$(json out $row.bytes_per_token)" \
            -v b="$(json out $row.none_bytes_per_token)" 'BEGIN { exit !(a < b) }'
        ;;
    [4-7]) # never right
        equal "row $row: none is accepted" 0 "$(json out $row.accepted_tokens)"
        expect "row $row: though drafted" [ "$(json out $row.draft_tokens)" -gt 0 ]
        equal "row $row: a token in a step" 1.0 "$(json out $row.tokens_per_step)"
        ;;
    *)
        equal "row $row: nothing is drafted" 0 "$(json out $row.draft_tokens)"
        equal "row $row: there is no share of nothing" null "$(json out $row.accepted_share)"
        ;;
    esac
done
run bench --speculate -m "$small" --draft "$small" -n 16 -r 1 --drafters model --draft-lengths 3 --temperatures 0.8 -o json
equal "a model is its own best drafter" "$(json out 0.draft_tokens)" "$(json out 0.accepted_tokens)"
equal "its file" "$small" "$(json out 0.draft_filename)"
for forced in 5 "a lantern in the rain"; do
    run bench --speculate -m "$small" -n 24 -r 1 --drafters lookup,shared --draft-lengths 4 --forced "$forced" -o json
    for row in 0 1; do
        expect "what repeats itself is found: $forced, $(json out $row.drafter)" \
            awk -v t="$(json out $row.tokens_per_step)" 'BEGIN { exit !(t > 3) }'
        equal "in the same text" "true true" "$(json out $row.same_text) $(json out $row.forced)"
    done
done
run bench --speculate --synthetic tiny:Q4_0 -p 40 -n 12 -r 1 --forced 5 --drafters lookup --draft-lengths 1,3 --plot drafts.svg -o csv
equal "random weights; CSV: names and two rows" 3 "$(wc -l <out)"
expect "the plot is well-formed" sound drafts.svg
expect "over the lengths" grep -q '>tokens of a draft<' drafts.svg
equal "one line: the engine chose in no row" 1 "$(grep -c '<polyline' drafts.svg)"
for other in "--n-depth 1" "--verify 2" "--stages" "--peer x" "--batch 2" "--arrive 9" "--sample" "--itl-ms 5"; do
    # shellcheck disable=SC2086  # to be split
    refused 2 "cannot be combined with" bench -m "$small" --speculate $other
done
for ours in "--drafters lookup" "--draft-lengths 2" "--acceptance 1" "--temperatures 0" "--forced 5" "--draft $small"; do
    # shellcheck disable=SC2086  # to be split
    refused 2 "${ours%% *} is for drafts, and --speculate is missing" bench $ours
done
RUNNEL_DRAFT=/nonexistent run bench -m "$small" -p 0 -n 1 -r 1
equal "RUNNEL_DRAFT is not for other tests" 0 "$code"
refused 2 "/nonexistent: .*No such file" bench --speculate --draft /nonexistent
refused 2 "--drafters: 'luck' is not one of none|model|" bench --speculate --drafters lookup,luck
refused 2 "--drafters: 'model' drafts with a model, and --draft names none" bench --speculate -m "$small" --drafters model
refused 2 "--drafters: 'model' drafts with a model" bench --speculate --draft none --drafters model
run bench --speculate -n 4 -r 1 --drafters model --draft-lengths 2 -o json
equal "the embedded model has a draft" "true true" "$(json out 0.same_text) $([ "$(json out 0.draft_tokens)" -gt 0 ] && echo true)"
refused 2 "cannot draft for" bench --speculate -n 4 -r 1 --drafters model --draft "$TINY"
run bench --speculate -m "$small" --draft "$blocks" -n 4 -r 1 --drafters model --draft-lengths 2
expect "a draft model that is too large" grep -q "warning: the draft model .* its drafts cost more" err
equal "is measured all the same" 0 "$code"
for length in 0 32 x 1.5 ''; do
    refused 2 "--draft-lengths: '$length' is neither auto nor a whole number from 1 to 31" bench --speculate --draft-lengths "1,$length"
done
refused 2 "--acceptance: '1.5' is not a number from 0 to 1" bench --speculate --acceptance 0,1.5
refused 2 "--temperatures: '-1' is not a number from 0 to 100" bench --speculate --temperatures=-1
refused 2 "--n-gen: --speculate takes one number of tokens, at least 2" bench --speculate -n 1
refused 2 "--n-prompt: --speculate takes one length, at least 1" bench --speculate -p 8,16
refused 2 "--forced: '0' is not a number of tokens from 1 to 4096" bench --speculate -m "$small" --forced 0
refused 2 "--forced: a model of random weights has no words" bench --speculate --synthetic tiny:Q4_0 --forced words
refused 2 "--plot draws lengths of drafts" bench --speculate --draft-lengths auto --plot x.svg
refused 2 "requests of .* positions are more than the model's context, 1024" bench --speculate -n 1024

# A peer: run after each repetition of ours, on the same file, and its median compared with ours.
cat >peer <<'PEER'
#!/bin/sh
echo "$@" >>calls
n=$(wc -l <calls)
echo "a line for people" >&2
printf '[{"build_commit": "abc", "n_prompt": 0, "avg_ts": %d.5, "samples_ts": [1]}]\n' $((n * n))
PEER
chmod +x peer
run bench -m "$small" -p 0 -n 2 -r 3 -t 1 --peer ./peer --peer-args "-rtr 1" -o json --plot bars.svg
equal "--peer exits 0" 0 "$code"
equal "its calls" "-m $small -t 1 -p 0 -n 2 -r 1 -o json -rtr 1" "$(sort -u calls)"
equal "one for each repetition" 3 "$(wc -l <calls)"
equal "its samples" "[1.5,4.5,9.5]" "$(json out 0.peer_samples_ts)"
equal "its median" 4.5 "$(json out 0.peer_ts)"
expect "its bar" grep -q 'class="peer".*height="7"' bars.svg
expect "its rate beside the bar" grep -q '>4.5 tokens/s<' bars.svg
equal "its name" "peer abc" "$(json out 0.peer_name)"
near "the ratio of the medians" \
    "$(json out 0.samples_ts | tr -d '[]' | tr , '\n' | sort -g | awk 'NR == 2 { printf "%.12g", $1 / 4.5 }')" \
    "$(json out 0.peer_ratio)"
rm calls
cp peer 'p<&"r'
run bench -m "$small" -p 4 -n 2 -d 16 -r 1 --streams 1,2 --verify 2 --peer './p<&"r' --plot peer.svg --kv-type f32
expect "the columns" grep -q '| *peer t/s | *ratio |$' out
equal "a prompt and a sequence, not streams or drafts" 2 "$(wc -l <calls)"
expect "at the same depth and KV type" grep -q -- '-p 4 -n 0 -d 16 -ctk f32 -ctv f32 -r 1' calls
expect "the other rows have no peer" grep -q '| *tg2 x2 @ d16 | .*| *| *|$' out
expect "the plot is well-formed" sound peer.svg
expect "and names the peer" grep -qF 'p&lt;&amp;&quot;r abc<' peer.svg
refused 2 "--peer needs a model that is a file: the embedded one has none" bench --peer ./peer
refused 2 "--peer needs a model that is a file: --synthetic 1b:Q4_0 has none" bench --peer ./peer --synthetic 1b:Q4_0
refused 2 "--peer-args is for a peer, and --peer is missing" bench --peer-args x
refused 2 "--peer: '/nonexistent/peer': No such file" bench -m "$small" -p 0 -n 1 --peer /nonexistent/peer
printf '#!/bin/sh\necho "no such model" >&2\nexit 3\n' >failing
printf '#!/bin/sh\necho "not json"\n' >talking
printf '#!/bin/sh\necho "[{}]"\n' >silent
chmod +x failing talking silent
refused 1 "failing: ended with status 3: no such model" bench -m "$small" -p 0 -n 1 --peer ./failing
refused 1 "talking: its output is not JSON" bench -m "$small" -p 0 -n 1 --peer ./talking
refused 1 "silent: its output has no avg_ts" bench -m "$small" -p 0 -n 1 --peer ./silent

# Wrong use.
for option in n-prompt n-gen n-depth; do
    for value in x -1 1.5 1, ,1 '1,,2' 1x 16777217 99999999999999999999; do
        refused 2 "--$option: '[^']*' is not a whole number from 0 to 16777216" bench "--$option=$value"
    done
done
refused 2 "--n-gen: '3x' is not" bench -n 1,2,3x
refused 2 "--threads: '0' is not a whole number from 1 to 1024" bench -t 1,0
refused 2 "--streams: '4097' is not a whole number from 1 to 4096" bench --streams 4097
refused 2 "--verify: '0' is not" bench --verify 0
refused 2 "-r: '0' is not a whole number from 1 to 1000" bench -r 0
refused 2 "--output: 'xml' is not one of md|json|csv" bench --output xml
refused 2 "nothing to measure" bench -p 0 -n 0
refused 2 "/nonexistent.gguf: .*No such file" bench -m "$small,/nonexistent.gguf"
refused 2 "1025 positions after 0 are more than the model's context, 1024" bench -p 1025
refused 2 "128 positions after 1000 .* 1024" bench -p 0 -d 1000
refused 2 "--plot: '/nonexistent/x.svg': No such file" bench --plot /nonexistent/x.svg
refused 2 "shape 'nonsense' is unknown (known: 135m, .*)" bench --synthetic nonsense
refused 2 "'1b' has no format" bench --synthetic 1b
refused 1 "70b:F32: takes twice 282[0-9]* bytes" bench --synthetic 70b:F32
# What is wrong with a later model is said before the first is measured.
for later in "--synthetic tiny:Q9" "--synthetic 70b:F32" "-m $TINY"; do
    # shellcheck disable=SC2086  # to be split
    run bench -m "$small" $later -p 0 -n 2 -d 600 -r 1
    expect "a bad later model is refused: $later" [ "$code" != 0 ]
    equal "before any row: $later" 0 "$(wc -c <out)"
done
RUNNEL_N_GEN=x refused 2 "RUNNEL_N_GEN: 'x' is not" bench

# Ctrl-C: the rows that are complete are shown, in every format; then 130.
for format in md json; do
    "$BIN" bench -m "$small" -p 0 -n 1,100 -d 0,512 -r 2 -o $format --peer ./peer >out 2>err &
    : >calls
    while [ "$(wc -l <calls)" -lt 3 ]; do sleep 0.05; done
    kill -INT $!
    wait $!
    equal "Ctrl-C exits 130, $format" 130 $?
    case $format in
    md) expect "the first row was printed" grep -q '| *tg1 |' out ;;
    json) equal "the first row is whole" 1 "$(json out 0.n_gen)" ;;
    esac
done

# A row that is complete is kept; a peer that does not care about the signal is killed, and none
# stays behind when the program is ended.
printf '#!/bin/sh\ntrap "" INT TERM\nkill -INT $PPID\necho "[{\\"avg_ts\\": 2}]"\n' >asking
printf '#!/bin/sh\ntrap "" INT TERM\necho $$ >pid\nwhile :; do sleep 0.1; done\n' >stubborn
printf '#!/bin/sh\necho $$ >pid\nexec sleep 1000\n' >hanging
chmod +x asking stubborn hanging
run bench -m "$small" -p 0 -n 1 -r 1 --peer ./asking
equal "Ctrl-C in the last repetition exits 130" 130 "$code"
expect "its row is there" grep -q '| *tg1 | .* | *2.00 |' out
for case in stubborn:INT:130 hanging:INT:130 hanging:TERM:143; do
    rm -f pid
    IFS=: read -r peer signal want <<<"$case"
    "$BIN" bench -m "$small" -p 0 -n 1 -r 1 --peer "./$peer" >out 2>err &
    until [ -s pid ]; do sleep 0.05; done
    kill "-$signal" $!
    wait $! 2>/dev/null
    equal "$case" "$want" $?
    for _ in $(seq 100); do kill -0 "$(cat pid)" 2>/dev/null && sleep 0.05; done
    expect "$case: the peer is gone" sh -c '! kill -0 $(cat pid) 2>/dev/null'
done
finish
