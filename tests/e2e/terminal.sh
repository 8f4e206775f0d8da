# On a terminal: the prompt is echoed dimmed, NO_COLOR and --color are obeyed, control characters do
# not reach it.
. "$(dirname "$0")/lib.sh"
command -v script >/dev/null || { echo "no script(1): skipped"; exit 0; }
escape=$(printf '\033')
export TERM=xterm

# on_terminal COMMAND: runs it with a terminal on all three; of a line that was overwritten the last
# version counts.
on_terminal() { script -qec "$1" /dev/null </dev/null | sed 's/\r*$//; s/.*\r//' >out; }

on_terminal "'$BIN' run -p 'Once upon a time' -n 8 --seed 1"
expect "the prompt is echoed dimmed" grep -qF "${escape}[2mOnce upon a time${escape}[0m" out
expect "the summary follows" grep -q "tokens/s" out
NO_COLOR=1 on_terminal "'$BIN' run -p 'Once upon a time' -n 8 --seed 1"
expect "NO_COLOR: the prompt is echoed" grep -q "^Once upon a time" out
expect "NO_COLOR: no escape sequence" sh -c "! grep -qF '$escape' out"
on_terminal "'$BIN' run -p 'Once upon a time' -n 8 --seed 1 --color never"
expect "--color never: no escape sequence" sh -c "! grep -qF '$escape' out"
on_terminal "'$BIN' run -p \"\$(printf 'a\\033[31mb')\" -n 1 --color never"
expect "control characters do not reach the terminal" sh -c "! grep -qF '$escape' out"
run run -p "Once upon a time" -n 2 --color always
expect "--color always: colour in a file" grep -qF "$escape" err
finish
