# `runnel bench` as a program: it starts, exits right, prints JSON with its keys, refuses bad options by name, and ends
# well by Ctrl-C. Figures, printers, plots, options and measurements are tested in tests/app.
. "$(dirname "$0")/lib.sh"

small=$MODELS/tale-1m-f16.gguf

run bench --help
equal "--help exits 0" 0 "$code"
expect "help fits 100 columns" [ "$(wc -L <out)" -le 100 ]

run bench -p 0 -n 2 -r 1 --color always --plot bars.svg
equal "the embedded model: a head, a rule, a row" "0 3" "$code $(wc -l <out)"
equal "nothing on stderr away from a terminal, but for a busy machine" 0 "$(grep -vc 'warning: other programs took' err)"
expect "colour when asked for" grep -q "$(printf '\033')" out
expect "a plot" grep -q '^</svg>$' bars.svg

# A decode step reads what inspect says: weights, and KV of the positions before and its own.
run bench -p 0 -n 1 -d 1023 -r 1 -o json
equal "bytes of the last step of a context" "$("$BIN" inspect --json | "$JSONGET" memory.f16.decode_bytes_full).0" \
    "$(json out 0.bytes_per_token)"
for key in model_filename n_threads busy_share avg_ts samples_ns bandwidth_share peer_ratio; do
    expect "a row has $key" sh -c "'$JSONGET' 0.$key <out >/dev/null"
done
run bench -m "$small" --batch 2 -p 4 -n 4 -o json
equal "--batch" "0 batch 2" "$code $(json out 0.test) $(json out 0.n_streams)"
run bench -m "$small" --speculate --drafters lookup --draft-lengths 2 -n 4 -r 1 -o json --plot drafts.svg
equal "--speculate" "0 speculate true" "$code $(json out 0.test) $(json out 0.same_text)"
expect "a plot of drafts" grep -q '^</svg>$' drafts.svg
# Programs beside it: the warning and the figure in JSON say the same.
spin
run bench -m "$small" -p 0 -n 2 -r 1 -o json
is_busy=$(json out 0.busy_share | awk '{ print ($1 >= 0.1) + 0 }')
equal "a busy machine is named" "$is_busy" "$(grep -c 'warning: other programs took .* figures are too low' err)"
run bench -m "$small" -p 0 -n 2 -r 1 -q
equal "--quiet: no warning of others" 0 "$(wc -c <err)"
spin_end
run bench --kernels -o csv
equal "--kernels" "0 format,isa,here,one,few,many,panel,file_bits,packed_bits,way" "$code $(head -n 1 out)"
run run -p a -n 1 --isa scalar -q
equal "--quiet: no warning of run" 0 "$(wc -c <err)"

refused 2 "--n-gen: '3x' is not a whole number" bench -n 1,2,3x
refused 2 "--batch cannot be combined with --verify" bench --batch 2 --verify 2
RUNNEL_N_GEN=x refused 2 "RUNNEL_N_GEN: 'x' is not" bench
refused 2 "/nonexistent.gguf: .*No such file" bench -m /nonexistent.gguf
refused 1 "70b:F32: takes twice 282[0-9]* bytes" bench --synthetic 70b:F32

# Ctrl-C shows the rows that are complete, in every format. A peer that ignores the signal is killed, and none stays
# behind when the program is ended.
printf '#!/bin/sh\ntrap "" INT TERM\nkill -INT $PPID\necho "[{\\"avg_ts\\": 2}]"\n' >asking
printf '#!/bin/sh\ntrap "" INT TERM\necho $$ >pid\nwhile :; do sleep 0.1; done\n' >stubborn
printf '#!/bin/sh\necho $$ >pid\nexec sleep 1000\n' >hanging
chmod +x asking stubborn hanging
run bench -m "$small" -p 0 -n 1,2 -r 1 --peer ./asking
equal "Ctrl-C in the last repetition exits 130" 130 "$code"
expect "its row is there, and no other" sh -c "grep -q '| *tg1 | .* | *2.00 |' out && ! grep -q '| *tg2 |' out"
run bench -m "$small" -p 0 -n 1,2 -r 1 --peer ./asking -o json
equal "and in JSON" "130 1 1" "$code $(json out 0.n_gen) $(json out '#.')"
for case in stubborn:INT:130 hanging:INT:130 hanging:TERM:143; do
    rm -f pid
    IFS=: read -r peer signal want <<<"$case"
    "$BIN" bench -m "$small" -p 0 -n 1 -r 1 --peer "./$peer" >out 2>err &
    until [ -s pid ] || ! kill -0 $! 2>/dev/null; do sleep 0.05; done
    kill "-$signal" $!
    wait $! 2>/dev/null
    equal "$case" "$want" $?
    for _ in $(seq 100); do kill -0 "$(cat pid)" 2>/dev/null && sleep 0.05; done
    expect "$case: the peer is gone" sh -c '! kill -0 $(cat pid) 2>/dev/null'
    kill -KILL "$(cat pid)" 2>/dev/null # whatever happened, nothing that was started here stays
done
finish
