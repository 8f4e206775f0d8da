# The configuration file reaches the text that a run writes, and a mistake in it ends the program.
# tests/app/test_config.c tests the contents of a file and every mistake.
. "$(dirname "$0")/lib.sh"

# text OPTION...: the text that these options give.
text() { "$BIN" run -q --seed 5 --ignore-eos "$@" </dev/null 2>err; }

cat >good.conf <<'END'
# comment
prompt = Once upon a time
max-tokens=4
temp = 0.5
port = 8080
END
equal "options come from the file" "$(text -p "Once upon a time" -n 4 --temp 0.5)" "$(text --config good.conf)"
equal "the variable names the file too" "$(text --config good.conf)" "$(RUNNEL_CONFIG=good.conf text)"
equal "the command line beats environment and file" "$(text -p "Once upon a time" -n 8 --temp 0.5)" \
    "$(RUNNEL_MAX_TOKENS=6 text --config good.conf -n 8)"

all=$(text -p "Once upon a time" -n 40 --temp 0)
printf 'stop = .\nstop = zzz\n' >stop.conf
equal "a list is built by repetition" "${all%%.*}" "$(text -p "Once upon a time" -n 40 --temp 0 --config stop.conf)"

printf 'max-tokens = many\n' >bad.conf
refused 2 "bad.conf:1: max-tokens: 'many' is not a whole number" run -p a --config bad.conf
printf 'ctx = 60000000\n' >ctx.conf
refused 2 "ctx.conf:1: ctx" run -p a --config ctx.conf # the model decides
printf 'port = 65536\n' >port.conf
refused 2 "port.conf:1: port: '65536' is not a whole number from 0 to 65535" serve --config port.conf
finish
