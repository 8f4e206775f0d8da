# The configuration file: what it sets, what beats it, and that each mistake is named with file, line
# and name.
. "$(dirname "$0")/lib.sh"

# text OPTION...: the text that these options give.
text() { "$BIN" run -q --seed 5 --ignore-eos "$@" </dev/null 2>err; }

cat >good.conf <<'END'
# comment
   # and another
prompt = Once upon a time

max-tokens=4
  temp =	0.5  
chunk = 7
port = 8080
END
equal "options come from the file" "$(text -p "Once upon a time" -n 4 --temp 0.5)" "$(text --config good.conf)"
equal "the variable names the file too" "$(text --config good.conf)" "$(RUNNEL_CONFIG=good.conf text)"
equal "the environment beats the file" "$(text -p "Once upon a time" -n 6 --temp 0.5)" \
    "$(RUNNEL_MAX_TOKENS=6 text --config good.conf)"
equal "the command line beats both" "$(text -p "Once upon a time" -n 8 --temp 0.5)" \
    "$(RUNNEL_MAX_TOKENS=6 text --config good.conf -n 8)"
printf 'prompt = Once upon a time\r\nmax-tokens = 4\r\ntemperature = 0.5\r' >dos.conf
equal "lines may end as elsewhere" "$(text --config good.conf)" "$(text --config dos.conf)"
printf 'prompt = Once # upon = a time\nmax-tokens = 1' >hash.conf
equal "a value goes to the end of the line" "$(text -p "Once # upon = a time" -n 1)" "$(text --config hash.conf)"
: >empty.conf
equal "an empty file sets nothing" "$(text -p "Once" -n 2)" "$(text -p "Once" -n 2 --config empty.conf)"

# lists
all=$(text -p "Once upon a time" -n 40 --temp 0)
printf 'stop = .\nstop = zzz\n' >stop.conf
equal "a list is built by repetition" "${all%%.*}" "$(text -p "Once upon a time" -n 40 --temp 0 --config stop.conf)"
equal "a list of the command line replaces it" "$all" \
    "$(text -p "Once upon a time" -n 40 --temp 0 --stop qqqq --config stop.conf)"

# flags
printf 'json = yes\n' >json.conf
text -p Once -n 1 --config json.conf >out
equal "a flag takes yes" 1 "$(json out output_tokens)"
text -p Once -n 1 --config json.conf --json=no >out
expect "which the command line takes back" grep -qv '^{' out

# mistakes
# wrong LINE PATTERN CONTENT
wrong() {
    # shellcheck disable=SC2059  # the content is a format
    printf -- "$3" >bad.conf
    refused 2 "bad.conf:$1: $2" run -p a -n 1 --config bad.conf
}
wrong 1 "max-tokens: 'many' is not a whole number" 'max-tokens = many\n'
wrong 3 "temperature: '101' is not a number from 0 to 100" '\n# x\ntemperature = 101\n'
wrong 2 "isa: 'mmx' is not one of" '\nisa=mmx'
wrong 1 "unknown option 'tempature'; did you mean 'temperature'?" 'tempature = 1\n'
wrong 1 "unknown option 'xyzzy'" 'xyzzy = 1\n'
wrong 1 "unknown option '--seed'" '--seed = 1\n'
wrong 2 "threads: is given on line 1 already" 'threads = 1\nthreads = 1\n'
wrong 1 "max-tokens: has no value" 'max-tokens =\n'
wrong 1 "'max-tokens': expected NAME = VALUE" 'max-tokens\n'
wrong 1 "'max-tokens 4': expected NAME = VALUE" 'max-tokens 4\n'
wrong 1 "config: cannot be given in such a file" 'config = other.conf\n'
wrong 1 "json: 'maybe' is not yes or no" 'json = maybe\n'
wrong 17 "stop: 'q' is one too many" "$(for i in $(seq 16); do echo "stop = $i"; done; echo 'stop = q')"
wrong 1 "unknown option ''" '= 3\n'
printf 'max-tokens = 1\n\0\n' >nul.conf
refused 2 "nul.conf: holds a NUL byte" run -p a --config nul.conf
refused 2 "none.conf: No such file" run -p a --config none.conf
RUNNEL_CONFIG=none.conf refused 2 "none.conf: No such file" run -p a
head -c 1100000 /dev/zero | tr '\0' '#' >long.conf
refused 2 "long.conf: is longer than the limit of 1 MiB" run -p a --config long.conf
printf 'ctx = 60000000\n' >ctx.conf
refused 2 "ctx.conf:1: ctx" run -p a --config ctx.conf
refused 2 "--config: '' is not a file name" run -p a --config ''
# values that a file only shows when they are used: every range of every option holds there too
printf 'port = 65536\n' >port.conf
refused 2 "port.conf:1: port: '65536' is not a whole number from 0 to 65535" serve --config port.conf
finish
