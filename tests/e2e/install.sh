# The installed program runs from another folder, with nothing but itself; the installed library
# exports the public interface alone, and a program that finds it by pkg-config builds and runs.
. "$(dirname "$0")/lib.sh"

DESTDIR=$work/root cmake --install "$BUILD" --prefix /opt/runnel >log 2>&1
equal "install succeeds" 0 $?
prefix=$work/root/opt/runnel
files="./bin/runnel"
[ -n "$SAN" ] || files="./bin/runnel
./include/runnel.h
./include/runnel_status.h
./lib/librunnel.so.0.1.0
./lib/pkgconfig/runnel.pc"
# the plug-in for GPUs, where a toolkit built it
[ ! -e "$BUILD/runnel_cuda.so" ] || [ -n "$SAN" ] || files="$files
./lib/runnel/runnel_cuda.so"
equal "it installs the program, the library and what one builds with" "$files" \
    "$(cd "$prefix" && find . -type f -not -path './share/*' | LC_ALL=C sort)"
equal "and completions for three shells" "./share/bash-completion/completions/runnel
./share/fish/vendor_completions.d/runnel.fish
./share/zsh/site-functions/_runnel" \
    "$(cd "$prefix" && find ./share -type f -not -path './share/man/*' | LC_ALL=C sort)"
expect "and the manual" test -s "$prefix/share/man/man1/runnel-serve.1"

(cd / && exec "$prefix/bin/runnel" run -p "Once upon a time" -n 8 -q --ignore-eos --seed 1) >out
equal "the installed program runs" 0 $?
expect "and writes text" test -s out
[ -z "$SAN" ] || finish # no library then

library=$prefix/lib/librunnel.so
equal "the library's name has its version" librunnel.so.0 "$(basename "$(readlink "$library")")"
nm -D --defined-only "$library" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort >exported
cat "$ROOT"/include/runnel.h "$ROOT"/include/runnel_status.h | sed 's,//.*,,' | grep -oE '\brn_[a-z0-9_]+\(' |
    tr -d '(' | LC_ALL=C sort -u >declared
expect "it exports what the headers declare" diff declared exported
equal "and nothing else" "" \
    "$(nm -D --defined-only "$library" | awk '$2 != "T" && $3 !~ /^RUNNEL_0/')"

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
equal "pkg-config knows the version" 0.1.0 "$(pkg-config --modversion runnel)"
read -ra flags <<<"$(pkg-config --cflags --libs runnel)"
expect "pkg-config names the headers" grep -q "/include\b" <<<"${flags[*]}"
expect "a program builds with it" "${CC:-cc}" "$ROOT/examples/streams.c" "${flags[@]}" -pthread -o streams
LD_LIBRARY_PATH=$prefix/lib ./streams "$MODELS/tale-1m-f16.gguf" >out 2>err
equal "and runs" 0 $?
expect "with text" grep -q '^\[1\] ' out
equal "without complaint" "" "$(cat err)"

if command -v c++ >/dev/null; then
    cat >version.cc <<'END'
#include <runnel.h>
int main() { return rn_status_text(RN_OK)[0] == 'o' && rn_finish_text(RN_FINISH_STOP)[0] == 's' ? 0 : 1; }
END
    expect "a C++ program builds with it" c++ version.cc "${flags[@]}" -o version
    expect "and runs" env LD_LIBRARY_PATH="$prefix/lib" ./version
fi
finish
