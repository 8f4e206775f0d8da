# The installed program runs from another folder, with nothing but itself.
. "$(dirname "$0")/lib.sh"

DESTDIR=$work/root cmake --install "$BUILD" --prefix /opt/runnel >log 2>&1
equal "install succeeds" 0 $?
equal "it installs the program alone" ./opt/runnel/bin/runnel "$(cd root && find . -type f)"
cd / || exit 1
"$work/root/opt/runnel/bin/runnel" run -p "Once upon a time" -n 8 -q --ignore-eos --seed 1 >"$work/out"
equal "the installed program runs" 0 $?
expect "and writes text" test -s "$work/out"
finish
