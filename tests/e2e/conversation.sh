# A conversation on a terminal: turns, commands, Ctrl-C and Ctrl-D, the history.
# label: waits
. "$(dirname "$0")/lib.sh"
export NO_COLOR=1 TERM=xterm XDG_STATE_HOME=$work/state
export DIALOGUE_COLUMNS=1000 # answers are compared whole; one case has an edge
slowly 5000

# talk ARG...: a conversation with the steps of standard input; leaves code and ./out.
talk() {
    "$DIALOGUE" "$BIN" run --temp 0 "$@" >out 2>err
    code=$?
    [ "$code" = 99 ] && fail "$(cat err); the terminal showed: $(cat -v out)"
}

# answer MESSAGES [ARG...]: the first line of the greedy answer to a JSON array of messages.
answer() {
    printf '%s' "$1" >messages.json
    shift
    run run --messages messages.json --temp 0 -q "$@"
    head -n 1 out
}

hello=$(answer '[{"role": "user", "content": "Hello, who are you?"}]')
first_thanks=$(answer '[{"role": "user", "content": "Thank you!"}]')
thanks=$(answer "[{\"role\": \"user\", \"content\": \"Hello, who are you?\"},
    {\"role\": \"assistant\", \"content\": \"$hello\"}, {\"role\": \"user\", \"content\": \"Thank you!\"}]")
cat=$(answer '[{"role": "user", "content": "Hello, who are you?"}]' --system "You are a cat.")
expect "what came before changes the answer: $thanks" test -n "$thanks" -a "$thanks" != "$first_thanks"
expect "a system message changes the answer: $cat" test -n "$cat" -a "$cat" != "$hello"

# Two turns, then without what came before.
talk <<STEPS
expect /help
expect > 
send Hello, who are you?\r
expect $hello
expect tokens/s, first token after
expect > 
send Thank you!\r
expect $thanks
expect  (32 of 
expect  cached)
expect > 
send /stats\r
expect ms, 32 cached
expect > 
send /reset\r
expect The conversation is empty.
send Thank you!\r
expect $first_thanks
expect > 
send """\r
expect . 
send Hello,\r
expect . 
send who are you?"""\r
expect tokens/s
expect > 
send /save quoted.json\r
expect saved
expect > 
send \x04
STEPS
equal "Ctrl-D leaves with 0" 0 "$code"
expect "lines between marks: $(cat quoted.json)" grep -q '"Hello,\\nwho are you?"' quoted.json

# At the terminal's edge words stay whole.
DIALOGUE_COLUMNS=40 talk <<STEPS
expect > 
send Hello, who are you?\r
expect tokens/s
expect > 
send /bye\r
STEPS
fold -s -w 39 <<<"$hello" | sed 's/ *$//' >folded
sed 's/\x1b\[?2004l//; s/[^ ]*\x1b\[[0-9]*D\x1b\[K//; s/ *\r*$//' out | grep -xFf folded >shown
equal "words at the edge: $(cat -v out)" "$(cat folded)" "$(cat shown)"

# So do the lists of commands.
DIALOGUE_COLUMNS=40 talk <<STEPS
expect > 
send /\x09
expect /bye
send \x15/help\r
expect Anything else
expect > 
send \x04
STEPS
tr -d '\r' <out | sed 's/[^ ]*\x1b\[[0-9]*D\x1b\[K//' >shown
expect "Tab at the edge: $(cat -v out)" grep -qx '  /tool   /set   /save   /load   /reset' shown
expect "help at the edge" grep -qx ' \{23\}sampling option,' shown

# A long first step of a prompt has a bar before it ends.
printf 'fox %.0s' {1..900} >foxes
"$DIALOGUE" "$BIN" run -f foxes --isa scalar -t 1 -b 1024 --speculate off >out 2>err <<STEPS
expect prompt 
expect   0%
signal 15
STEPS
code=$?
expect "a bar inside of the first step: $(cat err; cat -v out)" [ $code != 99 ]

# The commands.
talk <<STEPS
expect > 
send /stats\r
expect Nothing was answered yet.
send /system\r
expect There is no system message.
send /system You are a cat.\r
expect The system message is set; the conversation starts again.
send /system\r
expect You are a cat.
expect > 
send Hello, who are you?\r
expect $cat
expect > 
send /stats\r
expect first token after
expect MB/token
expect context
expect tokens of 1024
expect > 
send /system ""\r
expect The system message is gone
send Hello, who are you?\r
expect $hello
expect > 
send /nonsense 1\r
expect Unknown command /nonsense. There are /system, /undo, /regen, /tool, /set, /save, /load, /reset, /stats, /help, /exit.
send /help\r
expect this list
expect > 
send   \r
expect > 
send /quit\r
STEPS
equal "/quit leaves with 0" 0 "$code"

echo kept >kept.json
# The context: with --no-trim the message that does not fit is not sent, and nothing is lost.
talk -c 40 --no-trim <<STEPS
expect > 
send Hello, who are you?\r
expect $hello
expect > 
send Thank you!\r
expect With this message the conversation has
expect ; the context holds 40.
expect /reset starts a new conversation; --ctx gives a larger context
expect > 
send $(printf 'fox %.0s' {1..60})\r
expect This message alone has
expect ; the context holds 40.
expect Send a shorter one; --ctx gives a larger context
expect > 
send /stats\r
expect tokens of 40
expect > 
send /reset\r
expect empty
send Tell me a story.\r
expect The context of 40 tokens is full
expect > 
send \x04
STEPS
equal "a full context does not end the conversation" 0 "$code"

# Otherwise the oldest turns are dropped, which is said; a message that is too long alone drops nothing.
thanks=$(answer '[{"role": "user", "content": "Thank you!"}]')
long=$(printf 'fox %.0s' {1..60})
talk -c 40 <<STEPS
expect > 
send Hello, who are you?\r
expect $hello
expect > 
send Thank you!\r
expect The context holds 40 tokens: 1 turn of 
expect tokens is dropped.
expect $thanks
expect > 
send $long\r
expect This message alone has
expect It was not sent. Send a shorter one
expect > 
send /stats\r
expect context
expect > 
send /bye\r
STEPS
equal "a full context drops the oldest turn, and the answer is that without it" 0 "$code"

# Commands that change the conversation, completed by Tab; a file of it.
hi_thanks=$(answer '[{"role": "user", "content": "Hello, who are you?"}, {"role": "assistant", "content": "'"$hello"'"},
    {"role": "user", "content": "Thank you!"}]')
talk <<STEPS
expect > 
send /undo\r
expect There is no message to take back.
expect > 
send Hello, who are you?\r
expect $hello
expect > 
send Tell me a joke.\r
expect tokens/s
expect > 
send /un\x09\r
expect taken back; 1 message is left.
expect > 
send /sa\x09talk.json\r
expect 2 messages are saved in talk.json.
expect > 
send /save kept.json\r
expect kept.json: there is such a file
expect > 
send /clear\r
expect empty
expect > 
send /load nosuch\r
expect nosuch: No such file
expect > 
send /load talk.json\r
expect 2 messages are loaded.
expect > 
send Thank you!\r
expect $hi_thanks
expect > 
send /set te\x090\r
expect temperature is 0.
expect > 
send /set top-p 7\r
expect top-p: '7' is not a number from 0 to 1
expect > 
send /set model x\r
expect model cannot be set here
expect > 
send /set\r
expect temperature              0
expect > 
send /regen\r
expect tokens/s
expect > 
send /re\x09\x09
expect /regen  /regenerate  /reset
expect > /re
send \x03
expect (Ctrl-C again or Ctrl-D leaves)
expect > 
send /?\r
expect /undo
expect > 
send /bye\r
STEPS
equal "commands: $(tail -c 300 out)" 0 "$code"
equal "the file is private" 600 "$(stat -c %a talk.json)"
equal "a file that was there stays" kept "$(cat kept.json)"
# A file that cannot be written whole stays as it was.
printf '#!/bin/bash\ntrap "" XFSZ\nulimit -f 1\nexec "%s" "$@"\n' "$BIN" >limited
chmod +x limited
"$DIALOGUE" ./limited run --temp 0 -q >out 2>err <<STEPS
expect > 
send /save small.json\r
expect 0 messages are saved in small.json.
expect > 
send /system $(printf 'x%.0s' {1..1500})\r
expect > 
send /save\r
expect small.json: File too large.
expect > 
send /save other.json\r
expect other.json: File too large.
expect > 
send /system Be kind.\r
expect > 
send /save one.json\r
expect 1 message is saved in one.json.
expect > 
send /load one.json\r
expect 1 message is loaded.
expect > 
send /exit\r
STEPS
equal "what was saved is there" "[]" "$(cat small.json)"
equal "nothing half is left" "small.json" "$(echo small.json* other.json* | sed 's/ other.json\*//')"
equal "--messages reads what /save wrote" "Hello, who are you?" "$(json talk.json 0.content)"

# From here on the text matters less than the number of starts.
export RUNNEL_MODEL=$SMALL
hello=$(answer '[{"role": "user", "content": "Hello, who are you?"}]')
first_thanks=$(answer '[{"role": "user", "content": "Thank you!"}]')

# A message over several lines, and a message that starts with a slash.
lines=$(answer '[{"role": "user", "content": "Hello,\nwho are you?"}]')
slash=$(answer '[{"role": "user", "content": "/thanks"}]')
talk -q <<STEPS
expect > 
send Hello,\\\\\r
expect . 
send who are you?\r
expect $lines
expect > 
send /reset\r
expect empty
expect > 
send \e[200~Hello,\rwho are you?\r\e[201~
expect who are you?
send \r
expect $lines
expect > 
send /reset\r
expect empty
expect > 
send //thanks\r
expect $slash
expect > 
send /exit\r
STEPS
equal "/exit leaves with 0" 0 "$code"
expect "-q: no summary" sh -c '! grep -q tokens/s out'

# Ctrl-C stops an answer, which stays in the conversation, and clears a line; twice it leaves.
talk --ignore-eos "${slow[@]}" <<'STEPS'
expect > 
send Tell me a story.\r
expect  the 
send \x03
expect , stopped
expect > 
send /stats\r
expect context
expect > 
send half a line
expect half a line
send \x03
expect (Ctrl-C again or Ctrl-D leaves)
expect > 
send another
expect another
send \x03
expect (Ctrl-C again or Ctrl-D leaves)
expect > 
send \x03
STEPS
equal "Ctrl-C twice leaves with 0" 0 "$code"
equal "a stopped answer is no Ctrl-C at the prompt" 2 "$(grep -c 'Ctrl-C again' out)"
context=$(sed -n 's/.*context *\([0-9]*\) tokens of.*/\1/p' out)
expect "what was written stays: $context tokens" test "${context:-0}" -gt 15

# Text typed during an answer waits for the prompt, and is not mixed into the answer.
talk --ignore-eos "${slow[@]}" -n 60 <<'STEPS'
expect > 
send Tell me a story.\r
expect  the 
send /exit\r
STEPS
equal "what was typed ahead is read" 0 "$code"
equal "and shown once" 1 "$(grep -c /exit out)"

# A signal that ends the program leaves the terminal's modes (dialogue looks at them) and its pastes
# as they were.
for number in 1 3 15; do
    talk --ignore-eos "${slow[@]}" <<STEPS
expect > 
send Tell me a story.\\r
expect  the 
signal $number
expect \\e[?2004l
STEPS
    equal "signal $number ends an answer" $((128 + number)) "$code"
    talk <<STEPS
expect > 
send half a line
expect half a line
signal $number
expect \\e[?2004l
STEPS
    equal "signal $number ends the prompt" $((128 + number)) "$code"
done

# Text typed while figures are measured waits as well.
talk -n 4 <<'STEPS'
expect > 
send Hi\r
expect 4 tokens
expect > 
send /stats\r/exit\r
STEPS
equal "what was typed during a command is read" 0 "$code"
equal "and shown once, too" 1 "$(grep -c /exit out)"

# A name of a model cannot drive the terminal.
evil=$(printf 'e\033[31mvil\nname.gguf')
cp "$MODELS/tale-1m-f16.gguf" "$evil"
talk -m "$evil" -n 4 <<'STEPS'
expect e\\x1b[31mvil\\nname.gguf, 
expect > 
send Hi\r
expect > 
send /stats\r
expect model   e\\x1b[31mvil\\nname.gguf, 
expect > 
send \x04
STEPS
equal "a hostile name" 0 "$code"

# A system message alone is no conversation: /stats says nothing of its size.
talk --system "Be brief." -n 4 <<'STEPS'
expect > 
send Hi\r
expect > 
send /stats\r
expect context
expect > 
send /reset\r
expect empty but for the system message
expect > 
send /stats\r
expect output
expect > 
send \x04
STEPS
equal "/stats after /reset" "0, 1 context" "$code, $(grep -c '^  context ' out) context"

# A template that refuses a message does not end it, either.
echo "{% if messages[0].content == 'no' %}{{ raise_exception('not that') }}{% endif %}{{ messages[0].content }}" >moody.jinja
talk --chat-template moody.jinja -n 4 <<'STEPS'
expect > 
send no\r
expect not that
expect > 
send yes\r
expect 4 tokens
expect > 
send \x04
STEPS
equal "a refused message does not end the conversation" 0 "$code"

# The history: a private file, recalled by Up in the next conversation.
equal "the history is private" 600 "$(stat -c %a state/runnel/history)"
expect "it has what was typed" grep -qxF "Hello, who are you?" state/runnel/history
expect "lines of a message stay together" grep -qxF 'Hello,\nwho are you?' state/runnel/history
printf 'Thank you!\nHello, who are you?\n' >state/runnel/history
talk <<STEPS
expect > 
send \e[A\r
expect $hello
expect > 
send /reset\r
expect empty
expect > 
send \e[A\e[A\e[A\r
expect $first_thanks
expect > 
send \x04
STEPS
equal "Up recalls what was typed" 0 "$code"
for i in $(seq 2500); do echo "message $i"; done >state/runnel/history
talk <<'STEPS'
expect > 
send \x04
STEPS
equal "a long history is cut" 1000 "$(wc -l <state/runnel/history)"
equal "to its end" "message 2500" "$(tail -n 1 state/runnel/history)"
equal "and stays private" 600 "$(stat -c %a state/runnel/history)"
for bad in /dev/null/x relative "$work/moody.jinja"; do
    XDG_STATE_HOME=$bad HOME=$bad talk <<STEPS
expect > 
send Hello, who are you?\r
expect $hello
expect > 
send \x04
STEPS
    equal "$bad: no history, and all else works" 0 "$code"
done

# Colour, and a terminal that cannot move its cursor.
unset NO_COLOR
talk -n 4 <<'STEPS'
expect \e[1;32m>
send Hi\r
expect \e[2m  4 tokens
expect \e[1;32m>
send \x04
STEPS
equal "colour" 0 "$code"
TERM=dumb talk <<STEPS
expect > 
send Hello, who are you?\r
expect $hello
expect > 
send Hello,\\\\\r
expect . 
send who are you?\r
expect tokens/s
expect > 
send x\x03
expect (Ctrl-C again or Ctrl-D leaves)
expect > 
send \x04
STEPS
equal "TERM=dumb works" 0 "$code"
expect "TERM=dumb: no escape sequence" sh -c '! grep -q "$(printf "\033")" out'

# Reasoning and calls are told apart, in the conversation's messages, too; /tool answers a call.
printf '%s' '{{ bos_token }}{% for m in messages %}<|user|>{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}[{{ c.function.name }}]{% endfor %}<|end|>{% endfor %}{% if tools %}{# <tool_call> #}{% endif %}<|assistant|><think>' >think.jinja
echo '[{"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}]' >clock.json
call='<tool_call>\{"name": "clock", "arguments": \{"a": 1\}\}</tool_call>'
NO_COLOR=1 talk --chat-template think.jinja --tools clock.json --reasoning-budget 4 --regex "So:$call$call" <<'STEPS'
expect > 
send /tool noon\r
expect The model has called no tool.
expect > 
send What time is it?\r
expect Thinking: 
expect So:
expect Call: clock({"a": 1})
expect Call: clock({"a": 1})
expect /tool TEXT gives the result of clock.
expect > 
send /tool\r
expect /tool needs the result of the call.
expect > 
send /tool noon\r
expect /tool TEXT gives the result of clock.
expect > 
send /tool midnight\r
expect Thinking: 
expect /tool TEXT gives the result of clock.
expect > 
send /save calls.json\r
expect 5 messages are saved
expect > 
send \x04
STEPS
equal "a conversation with tools" 0 "$code"
messages=$(tr -d ' \n' <calls.json)
expect "the call is no content: $messages" grep -q '"content":"So:","reasoning_content":"[^<]*","tool_calls":\[{"id":"call00100","type":"function","function":{"name":"clock","arguments":{"a":1}}},{"id":"call00101",' <<<"$messages"
expect "its results: $messages" grep -q '{"role":"tool","tool_call_id":"call00100","name":"clock","content":"noon"},{"role":"tool","tool_call_id":"call00101","name":"clock","content":"midnight"},{"role":"assistant"' <<<"$messages"

# The same for one message; a pipe gets the text as it is.
set -- --temp 0 --chat-template think.jinja --tools clock.json --reasoning-budget 4 --regex "So:$call" -p Hi -q
"$DIALOGUE" "$BIN" run "$@" </dev/null >out
equal "one message" 0 $?
expect "its parts: $(cat -v out)" sh -c 'tr -d "\r\n" <out | grep -q "Thinking: .*So:Call: clock({\"a\": 1})$"'
run run "$@"
expect "in a pipe: $(cat out)" sh -c 'tr "\n" " " <out | grep -q "</think> *So:<tool_call>{.*}</tool_call>"'

# Who has a prompt, or no terminal, gets no conversation; a model without a template neither.
"$DIALOGUE" "$BIN" run -p Once -n 2 --seed 1 -q </dev/null >out
equal "with a prompt the run ends" 0 $?
"$DIALOGUE" "$BIN" run -m "$TINY" -n 2 >out <<'STEPS'
expect no conversation: the model has no chat template; type a prompt, end with Ctrl-D
send a\r
send \x04
STEPS
equal "a model without a template reads a prompt" 0 $?
"$DIALOGUE" "$BIN" run -m "$TINY" --chat </dev/null >out
equal "--chat needs a template" 2 $?
expect "and says so" grep -q "no chat template; --chat-template gives one" out
finish
