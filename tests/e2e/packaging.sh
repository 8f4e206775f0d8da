# The Debian package: its contents, and that the program runs from the unpacked folder.
. "$(dirname "$0")/lib.sh"
command -v dpkg-deb >/dev/null && command -v cpack >/dev/null || { echo "there is no dpkg-deb or no cpack"; exit 77; }

(cd "$BUILD" && cpack -G DEB -B "$work/packed" -D CPACK_STRIP_FILES=OFF \
    -D CPACK_DEBIAN_COMPRESSION_TYPE=none) >log 2>&1
equal "cpack succeeds: $(tail -n 3 log)" 0 $?
deb=$(ls "$work"/packed/runnel_*.deb)

dpkg-deb -c "$deb" | awk '{ print $6 }' | grep -v '/$' | sed 's,^\./,/,' |
    grep -v '^/usr/share/doc/runnel/docs/\|^/usr/share/doc/runnel/examples/' | LC_ALL=C sort >files
{
    printf '%s\n' /etc/runnel/runnel.conf /usr/bin/runnel /usr/lib/systemd/system/runnel.service \
        /usr/include/runnel.h /usr/include/runnel_status.h \
        /usr/lib/librunnel.so /usr/lib/librunnel.so.0 /usr/lib/librunnel.so.0.1.0 /usr/lib/pkgconfig/runnel.pc \
        /usr/share/bash-completion/completions/runnel /usr/share/fish/vendor_completions.d/runnel.fish \
        /usr/share/zsh/vendor-completions/_runnel \
        /usr/share/doc/runnel/changelog.gz /usr/share/doc/runnel/copyright \
        /usr/share/doc/runnel/README.md /usr/share/doc/runnel/LICENSE
    [ ! -e "$BUILD/runnel_cuda.so" ] || echo /usr/lib/runnel/runnel_cuda.so
    for page in runnel runnel-{run,serve,inspect,tokenize,detokenize,eval,bench,bench-serve,plan,models,explain,help}; do
        echo "/usr/share/man/man1/$page.1.gz"
    done
} | LC_ALL=C sort >wanted
expect "it holds what it should" diff wanted files
equal "all of it is root's" "root/root" "$(dpkg-deb -c "$deb" | awk '{ print $2 }' | sort -u)"
equal "nothing but the program is executable" "./usr/bin/runnel" \
    "$(dpkg-deb -c "$deb" | awk '/^-rwx/ { print $6 }')"

field() { dpkg-deb -f "$deb" "$1"; }
equal "name" runnel "$(field Package)"
equal "version" 0.1.0 "$(field Version)"
if command -v dpkg-shlibdeps >/dev/null; then
    expect "it depends on its libraries" grep -q 'libpcre2.*libssl3' <<<"$(field Depends)"
fi
dpkg-deb -e "$deb" control
equal "its configuration is the administrator's" "/etc/runnel/runnel.conf" "$(cat control/conffiles)"
for script in postinst prerm postrm; do
    expect "$script is a shell script" sh -n control/$script
    expect "$script is executable" test -x control/$script
done

dpkg-deb -x "$deb" root
(cd / && exec "$work/root/usr/bin/runnel" run -p "Once upon a time" -n 8 -q --ignore-eos --seed 1) >out 2>err
equal "the program runs: $(cat err)" 0 $?
expect "and writes text" test -s out
run run -p "Once upon a time" -n 8 -q --ignore-eos --seed 1 --config root/etc/runnel/runnel.conf
equal "the configuration is in order: $(cat err)" 0 "$code"
sed -n 's/^#\([a-z-]* = \)/\1/p' root/etc/runnel/runnel.conf | grep -v '^model\|^draft\|^api-key-file' >all.conf
expect "and has examples" [ "$(wc -l <all.conf)" -gt 5 ]
refused 2 "none.gguf" serve --config all.conf -m none.gguf
gzip -dc root/usr/share/man/man1/runnel-serve.1.gz >page
expect "the pages are those of the program" cmp page <("$BIN" help --man serve)
finish
