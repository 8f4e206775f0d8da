# The sampling options: they reach the sampler, and bad values are refused with the value.
. "$(dirname "$0")/lib.sh"

ids() { # the ids that a greedy run of the model inside the program gives, with these options
    run run -p "Once upon a time there was" -n 40 --temperature 0 --ignore-eos --json -q "$@"
    [ "$code" = 0 ] || fail "run $*: $(cat err)"
    json out ids
}

export RUNNEL_MODEL=$SMALL
plain=$(ids)
equal "off values change nothing" "$plain" "$(ids --repeat-penalty 1 --repeat-last-n 5 \
    --presence-penalty 0 --frequency-penalty 0 --dry-multiplier 0 --dry-base 3 --typical-p 1 \
    --top-n-sigma -1 --xtc-probability 0 --xtc-threshold 0.5)"
equal "filters do not matter to greedy" "$plain" "$(ids --top-k 3 --typical-p 0.2 --top-n-sigma 1 \
    --xtc-probability 1 --xtc-threshold 0)"
for option in --repeat-penalty=5 --presence-penalty=2 --frequency-penalty=2 \
    "--dry-multiplier=50 --dry-allowed-length=1"; do
    # shellcheck disable=SC2086  # to be split
    expect "$option changes the text" [ "$plain" != "$(ids $option)" ]
done
equal "a second spelling" "$(ids --repeat-penalty 5)" "$(ids --repetition-penalty 5)"
equal "the environment" "$(ids --repeat-penalty 5)" "$(RUNNEL_REPEAT_PENALTY=5 ids)"
equal "an empty window is off" "$plain" "$(ids --repeat-penalty 5 --repeat-last-n 0)"

# Logit bias.
first=$(tr -d '[] ' <<<"$plain" | cut -d, -f1)
for form in "$first-100" "$first=-100"; do
    banned=$(ids --logit-bias "$form" | tr -d '[] ' | tr , '\n')
    equal "$form bans the token" 0 "$(grep -cx "$first" <<<"$banned")"
done
forced=$(yes 33 | head -n 40 | paste -sd,)
for form in 33+100 33=100 33=+100; do
    equal "$form forces the token" "$forced" "$(ids --logit-bias "$form" | tr -d '[] ')"
done
equal "entries add up" "$plain" "$(ids --logit-bias 33+60 --logit-bias 33-60)"
equal "one entry per line in the environment" "$plain" "$(RUNNEL_LOGIT_BIAS=$'33+60\n33-60' ids)"
for value in x 5 5+ 5+x +5 -5+1 5++1 5+1x 4096+1 99999999999999999999+1 5+100.1 5-101 5+inf 5-inf \
    5+nan 5+0x10 5==1 "5 +1" 5,1; do
    refused 2 "--logit-bias: '$value' is not ID+X, ID-X or ID=X with a token id from 0 to 4095" \
        run -p a --logit-bias "$value"
done
RUNNEL_LOGIT_BIAS=5 refused 2 "RUNNEL_LOGIT_BIAS: '5' is not" run -p a
many=()
for i in $(seq 0 1023); do many+=(--logit-bias "$i+0"); done
equal "1024 biases are possible" "$plain" "$(ids "${many[@]}")"
refused 2 "--logit-bias: '7+1' is one too many: at most 1024" run -p a "${many[@]}" --logit-bias 7+1

# The breakers of DRY.
dry=(--dry-multiplier 50 --dry-allowed-length 1)
every=()
for letter in a e i o u . ,; do every+=(--dry-sequence-breaker "$letter"); done
equal "few repetitions are left between many breakers" "$plain" "$(ids "${dry[@]}" "${every[@]}")"
expect "more without" [ "$plain" != "$(ids "${dry[@]}" --dry-sequence-breaker none)" ]
refused 2 "--dry-sequence-breaker: text 2, 'xxx.*', has 65 bytes; at most 64 are possible" run -p a --dry-sequence-breaker x \
    --dry-sequence-breaker "$(printf 'x%.0s' $(seq 65))"
refused 2 "--dry-sequence-breaker: text 1, '', is empty" run -p a --dry-sequence-breaker ''

# Two lists in the environment do not get into each other's way.
equal "two lists" "$(ids "${dry[@]}" --logit-bias 33+1 --dry-sequence-breaker x)" \
    "$(RUNNEL_LOGIT_BIAS=33+1 RUNNEL_DRY_SEQUENCE_BREAKER=x ids "${dry[@]}")"

# Ranges.
for option in repeat-penalty dry-multiplier dry-base typical-p xtc-probability xtc-threshold; do
    for value in -0.1 101 nan inf x ''; do
        refused 2 "--$option: '$value' is not a number from 0 to" run -p a "--$option=$value"
    done
done
for option in presence-penalty frequency-penalty; do
    for value in -2.1 2.1 nan; do
        refused 2 "--$option: '$value' is not a number from -2 to 2" run -p a "--$option=$value"
    done
done
refused 2 "--top-n-sigma: '-1.5' is not a number from -1 to 100" run -p a --top-n-sigma -1.5
refused 2 "--typical: '1.5' is not a number from 0 to 1" run -p a --typical 1.5
for option in repeat-last-n dry-penalty-last-n; do
    refused 2 "--$option: '-2' is not a whole number from -1" run -p a "--$option" -2
done
refused 2 "--dry-allowed-length: '-1' is not a whole number from 0" run -p a --dry-allowed-length -1
finish
