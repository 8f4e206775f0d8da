# Speculation: its options and their refusals. The text depends neither on the drafter nor on the length
# of drafts. tests/npm/metrics.mjs tests the view of the server's clients.
. "$(dirname "$0")/lib.sh"
runner=(timeout 60) # a server that is not refused would not end
draft=$MODELS/tale-1m-f16.gguf
ids=511,1,47,78,287,433,72,298,0,1,358,259,456,290,78,335,11,325,272,495,74,259

# Options.
for command in run serve; do
    refused 2 "--speculate: 'lookup,oracle' is not auto, off, or some of model, lookup, shared, mtp, shape" \
        $command --speculate lookup,oracle
    refused 2 "--speculate: 'lookup,' is not auto" $command --speculate lookup,
    refused 2 "--speculate: '' is not auto" $command --speculate ''
    refused 2 "--draft-max: '32' is not a whole number from 1 to 31" $command --draft-max 32
    refused 2 "--draft-max: '0' is not a whole number from 1 to 31" $command --draft-max 0
    refused 2 "--draft-min: '-1' is not a whole number from 0 to 31" $command --draft-min -1
    refused 2 "--draft-min: 5 is more than --draft-max, 4" $command --draft-min 5 --draft-max 4
    refused 2 "--draft-min: 16 is more than --draft-max, 15" $command --draft-min 16
done
refused 2 "--speculate: 'model' drafts with a model, and --draft names none" \
    run -p a --draft none --speculate model,lookup
refused 2 "--speculate: 'model' drafts with a model" run -p a -m "$TINY" --speculate model
RUNNEL_SPECULATE=x refused 2 "RUNNEL_SPECULATE: 'x' is not auto" run -p a
RUNNEL_DRAFT=/nonexistent.gguf refused 2 "RUNNEL_DRAFT: /nonexistent.gguf: No such file" run -p a
printf 'draft = /nonexistent.gguf\n' >draft.conf
refused 2 "draft.conf:1: draft: /nonexistent.gguf: No such file" run -p a --config draft.conf
printf 'draft-max = 2\n\ndraft-min = 3\n' >lengths.conf
refused 2 "lengths.conf:3: draft-min: 3 is more than lengths.conf:1: draft-max, 2" run -p a --config lengths.conf
printf 'speculate = some\n' >some.conf
refused 2 "some.conf:1: speculate: 'some' is not auto" run -p a --config some.conf

# Draft models that are none, or not for this model.
printf 'no model' >noise.gguf
mkdir folder
for command in "run -p a" "serve --port 0"; do
    command="$command -q"
    # shellcheck disable=SC2086  # to be split
    {
        refused 2 "--draft: /nonexistent.gguf: No such file" $command --draft /nonexistent.gguf
        refused 2 "--draft: noise.gguf: " $command --draft noise.gguf
        refused 2 "--draft: folder" $command --draft folder
        refused 2 "--draft: .*vocab.gguf: " $command --draft "$VOCAB"
        refused 2 "model.gguf cannot draft for tale-20m-q8_0 (embedded): .*vocabular" $command --draft "$TINY"
        refused 2 "tale-1m-f16.gguf cannot draft for .*model.gguf: .*vocabular" $command -m "$TINY" --draft "$draft"
    }
done
refused 2 "--draft: 16: No such file or directory; how many tokens a draft has is --draft-max" run -p a --draft 16
run run -p a -n 1 --draft /nonexistent.gguf --speculate off -q
equal "a draft that is not wanted is not opened" 0 "$code"
run run -p a -n 2 --draft "$MODELS/tale-20m-q8_0.gguf" --seed 1
equal "a draft as large as the model goes on" 0 "$code"
expect "with a warning" grep -q \
    "^runnel: warning: the draft model .*tale-20m-q8_0.gguf has 21.8 MB of weights, and tale-20m-q8_0 (embedded) has 21.8 MB" err
run run -p a -n 2 --draft "$MODELS/tale-20m-q8_0.gguf" --seed 1 -q
equal "which -q leaves out" "" "$(cat err)"

# answer OPTION...: one run of the story model; leaves out.
answer() {
    "$BIN" run --json -q -n 96 "${sampling[@]}" "$@" >out 2>err </dev/null || fail "run ${sampling[*]} $*: $(cat err)"
}

# The text is the same for every drafter, and drafts were really made.
story="Tell me a story about a fox and a lantern."
drafted=0
accepted=0
while read -r -a sampling; do
    sampling+=(-p "$story" --chat)
    answer --speculate off
    cp out plain
    equal "${sampling[*]}: nothing is drafted" 0/null/null \
        "$(json out draft_tokens)/$(json out draft_speedup)/$(json out reads_saved_share)"
    for how in "" "--draft $draft --draft-min 4" "--draft none --draft-min 8" \
        "--draft $MODELS/tale-20m-q8_0.gguf --draft-max 3 --draft-min 3"; do
        # shellcheck disable=SC2086  # options
        answer $how
        equal "${sampling[*]}, $how: ids" "$(json plain ids)" "$(json out ids)"
        equal "${sampling[*]}, $how: text" "$(json plain text)" "$(json out text)"
        equal "${sampling[*]}, $how: end" "$(json plain finish_reason)/$(json plain stop)" \
            "$(json out finish_reason)/$(json out stop)"
        expect "${sampling[*]}, $how: no more are accepted than were drafted" \
            test "$(json out accepted_tokens)" -le "$(json out draft_tokens)"
        drafted=$((drafted + $(json out draft_tokens)))
        accepted=$((accepted + $(json out accepted_tokens)))
    done
done <<'END'
--temp 0.8 --seed 1
--temp 0 --stop lantern --stop fox --repeat-penalty 1.3 --frequency-penalty 0.5 --dry-multiplier 0.8
END
expect "drafts were verified: $drafted" test "$drafted" -gt 200
expect "and accepted: $accepted" test "$accepted" -gt 100
sampling=(-p "$story" --chat --temp 0)
answer --draft "$MODELS/tale-20m-q8_0.gguf" --speculate model --draft-min 3 --draft-max 3
equal "a model drafts for itself what it will say" "$(json out draft_tokens)" "$(json out accepted_tokens)"
sampling=(-m "$TINY" --prompt-ids "$ids" --seed 4 --ignore-eos)
answer --speculate off
cp out plain
answer --draft "$TINY" --draft-min 3
equal "a model beside itself: ids" "$(json plain ids)" "$(json out ids)"

# An assistant of Gemma 4 is a part of the model, in a file of its own.
"$ASSISTANT_MAKE" . || fail "the assistant cannot be written"
sampling=(-m model.gguf --prompt-ids "$ids" --temp 0 --ignore-eos)
answer --speculate off
cp out plain
answer --draft assistant.gguf --speculate mtp --draft-min 3 --draft-max 3
equal "an assistant: ids" "$(json plain ids)" "$(json out ids)"
expect "it drafts" test "$(json out draft_tokens)" -gt 40
equal "and is right" "$(json out draft_tokens)" "$(json out accepted_tokens)"
run run -p a -n 1 -m assistant.gguf
expect "alone it is no model" grep -q "'gemma4-assistant' is no model of its own: it drafts for models of 'gemma4'" err
refused 2 "--draft: assistant.gguf drafts for models of 'gemma4', not of 'llama'" \
    run -p a -m "$TINY" --draft assistant.gguf
refused 2 "--draft: assistant.gguf is a draft block, and --speculate leaves 'mtp' out" \
    run -p a -m model.gguf --draft assistant.gguf --speculate model
refused 2 "--draft-backend: assistant.gguf is a draft block, which runs where the model does" \
    run -p a -m model.gguf --draft assistant.gguf --draft-backend cpu
run bench -m model.gguf --draft assistant.gguf --speculate --drafters mtp --draft-lengths 3 -n 16 -r 1 -q --output csv
equal "bench takes it" 0 "$code"
expect "as mtp" grep -q "mtp" out
expect "and names its file" grep -q "assistant.gguf" out
refused 2 "--draft-backend: assistant.gguf is a draft block, which runs where the model does" \
    bench -m model.gguf --draft assistant.gguf --draft-backend cpu --speculate
head -c 100000 assistant.gguf >cut.gguf
refused 2 "--draft: cut.gguf: tensor" run -p a -m model.gguf --draft cut.gguf --speculate mtp

# Options from a file, and under the names of other programs.
sampling=(-p "$story" --chat --temp 0)
printf 'speculate = off\ndraft-min = 4\n' >off.conf
answer --config off.conf
equal "a file can turn it off" 0 "$(json out draft_tokens)"
answer --config off.conf --speculate model
expect "and the command line on again" test "$(json out draft_tokens)" -gt 0
printf 'model-draft = %s\ndraft-n = 2\ndraft-n-min = 2\nspeculate = model\n' "$draft" >other.conf
answer --config other.conf
expect "the reads that drafts saved are those of the steps that they saved" awk -v n="$(json out tokens_per_step)" \
    -v saved="$(json out reads_saved_share)" 'BEGIN { d = saved - (1 - 1 / n); exit !(d < 1e-4 && d > -1e-4) }'
expect "drafts of two tokens give up to three a step" awk -v n="$(json out tokens_per_step)" 'BEGIN { exit !(n > 1.5 && n <= 3) }'

# The logits are those of the text alone.
sampling=(-p "$story" --temp 0)
answer --speculate off --logits plain.logits
answer --draft-min 4 --logits drafted.logits
expect "logits do not depend on drafts" cmp plain.logits drafted.logits

# The messages about it.
run run -p "$story" --chat --temp 0 -n 96 --draft-min 3
expect "the summary has a line about drafts" grep -Eq \
    '^  drafts  +[0-9]+ tokens +[0-9.]+% accepted, [0-9.]+ tokens a step' err
expect "a token's bytes, and those without drafts" grep -Eq \
    '^  memory  +[0-9.]+ MB/token instead of 2[0-9.]+ MB .* [0-9]+% of the reads saved$' err
expect "its time, and that without drafts" grep -Eq \
    '^  time  +[0-9.]+ ms/token instead of [0-9.]+ ms; steps at [0-9]+% of [0-9.]+ GB/s' err
run run -p "$story" --chat --temp 0 -n 96 --speculate off
expect "but not without" sh -c "! grep -Eq 'drafts|instead of' err && grep -Eq '^  memory .* GB/s .*% of ' err"
finish
