# The text depends on model, prompt, sampling and seed alone: not on threads, instruction set, or how
# the prompt was cut. Compared by ids and by the bits of every logit.
. "$(dirname "$0")/lib.sh"
ids=511,1,47,78,287,433,72,298,0,1,358,259,456,290,78,335,11,325,272,495,74,259

# variant OPTION...: runs the tiny model; leaves ids and logits.
variant() {
    "$BIN" run -m "$TINY" --prompt-ids $ids -n 20 --seed 5 --temp 0.9 --ignore-eos --json -q \
        --logits logits "$@" >out 2>err || { fail "run $*: $(cat err)"; return; }
    json out ids >ids
}

for kv in f32 f16 int8 int4; do
    variant --kv-type $kv -t 1 --isa scalar
    mv ids ids.$kv
    mv logits logits.$kv
    # one row of 512 floats for each of 22 prompt tokens and 19 of the 20 sampled ones
    equal "$kv: one row of logits per evaluated position" $(((22 + 19) * 512 * 4)) \
        "$(stat -c %s logits.$kv)"
    for isa in scalar avx2 avx512bw avx512 amx; do
        flag=${isa/%avx512/avx512_vnni}
        if [ $isa != scalar ] && ! grep -qw "${flag/amx/amx_int8}" /proc/cpuinfo; then continue; fi
        for threads in 1 2; do
            for batch in $([ $kv = f16 ] && echo 1 7 16 512 || echo $((threads * 3))); do
                variant --kv-type $kv -t $threads --isa $isa --batch-tokens $batch
                expect "$kv $isa -t $threads --batch-tokens $batch: ids" cmp ids.$kv ids
                expect "$kv $isa -t $threads --batch-tokens $batch: logits" cmp logits.$kv logits
            done
        done
    done
done
expect "f32 and f16 KV differ in their bits" sh -c "! cmp -s logits.f32 logits.f16"

# The embedded model: the same seed gives the same text, another seed another.
run run -p "Once upon a time" -n 24 --seed 3 -q
cp out first
run run -p "Once upon a time" -n 24 --seed 3 -q -t 1 --batch-tokens 2
expect "the same seed gives the same text" cmp first out
run run -p "Once upon a time" -n 24 --seed 4 -q
expect "another seed gives another text" sh -c "! cmp -s first out"
run run -p "Once upon a time" -n 24 --json
seed=$(json out seed)
json out text >drawn
run run -p "Once upon a time" -n 24 --seed "$seed" -q
expect "a drawn seed is reported and repeats the text" cmp drawn out
finish
