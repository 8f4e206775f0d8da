# The Debian packages: their contents, and that the program and the module run from the unpacked folder. The recipe of a
# container is read, not run.
. "$(dirname "$0")/lib.sh"
command -v dpkg-deb >/dev/null && command -v cpack >/dev/null || { echo "there is no dpkg-deb or no cpack"; exit 77; }

(cd "$BUILD" && cpack -G DEB -B "$work/packed" -D CPACK_STRIP_FILES=OFF \
    -D CPACK_DEBIAN_COMPRESSION_TYPE=none) >log 2>&1
status=$?
equal "cpack succeeds: $(tail -n 3 log)" 0 $status
version=0.1.0
package() { ls "$work/packed/${1}_$version"_*.deb; }
# contents PACKAGE: the files of it, without those of the folder of documents.
contents() {
    dpkg-deb -c "$(package "$1")" | awk '{ print $6 }' | grep -v '/$' | sed 's,^\./,/,' |
        grep -v '^/usr/share/doc/runnel/docs/' | LC_ALL=C sort
}
# holds PACKAGE FILE...: it has these files, a copyright and a changelog, and no others.
holds() {
    local name=$1
    shift
    expect "$name holds what it should" diff <(printf '%s\n' "$@" "/usr/share/doc/$name/changelog.gz" \
        "/usr/share/doc/$name/copyright" | LC_ALL=C sort) <(contents "$name")
    equal "all of $name is root's" "root/root" "$(dpkg-deb -c "$(package "$name")" | awk '{ print $2 }' | sort -u)"
}
pages=()
for page in runnel runnel-{run,serve,inspect,tokenize,detokenize,eval,bench,bench-serve,plan,models,explain,help,completions,version}; do
    pages+=("/usr/share/man/man1/$page.1.gz")
done
holds runnel /etc/runnel/runnel.conf /usr/bin/runnel /usr/lib/systemd/system/runnel.service \
    /usr/share/bash-completion/completions/runnel /usr/share/fish/vendor_completions.d/runnel.fish \
    /usr/share/zsh/vendor-completions/_runnel /usr/share/doc/runnel/README.md "${pages[@]}"
holds librunnel0 /usr/lib/librunnel.so.0 /usr/lib/librunnel.so.$version
holds librunnel-dev /usr/include/runnel.h /usr/include/runnel_status.h /usr/lib/librunnel.a /usr/lib/librunnel.so \
    /usr/lib/pkgconfig/runnel{,-static}.pc /usr/share/lintian/overrides/librunnel-dev \
    /usr/share/doc/librunnel-dev/{API,CONSTRAINTS}.md /usr/share/doc/librunnel-dev/examples/{chat,complete,shape,streams}.c
holds python3-runnel /usr/lib/python3/dist-packages/runnel/{__init__,_names,_native,engine,errors,model,settings,stream}.py \
    /usr/lib/python3/dist-packages/runnel/py.typed /usr/share/doc/python3-runnel/PYTHON.md
[ ! -e "$BUILD/runnel_cuda.so" ] || holds runnel-cuda /usr/lib/runnel/runnel_cuda.so
equal "the documents are there" "$(cd "$ROOT" && git ls-files docs | LC_ALL=C sort)" \
    "$(dpkg-deb -c "$(package runnel)" | awk '{ print $6 }' | sed -n 's,^\./usr/share/doc/runnel/\(docs/.*[^/]\)$,\1,p' | LC_ALL=C sort)"
for file in "$work"/packed/*.deb; do
    dpkg-deb -c "$file" | awk '/^-rwx/ { print $6 }'
    equal "version of $file" $version "$(dpkg-deb -f "$file" Version)"
    equal "long lines of its description" "" "$(dpkg-deb -f "$file" Description | grep '.\{81\}' )"
done >executable
equal "nothing but the program is executable" "./usr/bin/runnel" "$(cat executable)"

field() { dpkg-deb -f "$(package "$1")" "$2"; }
equal "the module is for every machine" all "$(field python3-runnel Architecture)"
equal "and needs the library" "python3 (>= 3.9), librunnel0 (>= $version)" "$(field python3-runnel Depends)"
expect "headers need the same version" grep -q "^librunnel0 (= $version)," <<<"$(field librunnel-dev Depends)"
if command -v dpkg-shlibdeps >/dev/null; then
    expect "the program depends on its libraries" grep -q 'libpcre2.*libssl3' <<<"$(field runnel Depends)"
    expect "and the library on its own" grep -q 'libpcre2.*libutf8proc' <<<"$(field librunnel0 Depends)"
fi
for name in runnel librunnel0 python3-runnel; do dpkg-deb -e "$(package $name)" $name.control; done
equal "its configuration is the administrator's" "/etc/runnel/runnel.conf" "$(cat runnel.control/conffiles)"
equal "programs that use the library will depend on it" "librunnel 0 librunnel0 (>= $version)" "$(cat librunnel0.control/shlibs)"
equal "its scripts are Debian's triggers" "activate-noawait ldconfig" \
    "$(cat librunnel0.control/triggers)$(ls librunnel0.control/p* 2>/dev/null)"
for script in runnel.control/{postinst,prerm,postrm} python3-runnel.control/{postinst,prerm}; do
    expect "$script is a shell script" sh -n $script
    expect "$script is executable" test -x $script
done
# The recipe of a container: what it copies is there, its base is pinned, it does not run as root, and it is watched.
recipe=$ROOT/packaging/Containerfile
grep -v '^ *#' "$recipe" | sed -e ':join' -e '/\\$/{N;s/\\\n//;bjoin' -e '}' >recipe
equal "every base image is pinned to a release" "" \
    "$(sed -n 's/^FROM  *\([^ ]*\).*/\1/p' recipe | grep -v ':[a-z]*-*[0-9]*\.*[0-9][0-9]*-slim$')"
expect "there are two stages" [ "$(grep -c '^FROM ' recipe)" = 2 ]
equal "what it copies is there" "" "$(sed -n 's/^COPY \([^-].*\) [^ ]*$/\1/p' recipe | tr ' ' '\n' | while read -r from; do
    [ -e "$ROOT/$from" ] || echo "$from"; done)"
stages=$(sed -n 's/^FROM .* AS //p' recipe)
equal "and copies of stages name a stage" "" "$(sed -n 's/^COPY --from=\([^ ]*\).*/\1/p' recipe | grep -vxF "$stages")"
expect "its last user is not root" grep -qv '^\(root\|0\)$' <<<"$(sed -n 's/^USER //p' recipe | tail -n 1)"
expect "it has a check of its health" grep -q '^HEALTHCHECK ' recipe
equal "packages leave no lists behind" "$(grep -c 'apt-get install' recipe)" "$(grep -c 'apt-get install.*rm -rf /var/lib/apt/lists' recipe)"
equal "words that it does not know" "" "$(sed -n 's/^\([A-Z]*\) .*/\1/p' recipe | sort -u | tr '\n' ' ' |
    sed 's/COPY\|FROM\|RUN\|USER\|WORKDIR\|EXPOSE\|HEALTHCHECK\|ENTRYPOINT\|CMD\|LABEL\|VOLUME\|ENV//g; s/ //g')"

for file in "$work"/packed/*.deb; do dpkg-deb -x "$file" root; done
(cd / && exec "$work/root/usr/bin/runnel" run -p "Once upon a time" -n 8 -q --ignore-eos --seed 1) >out 2>err
status=$?
equal "the program runs: $(cat err)" 0 $status
expect "and writes text" test -s out
run run -p "Once upon a time" -n 8 -q --ignore-eos --seed 1 --config root/etc/runnel/runnel.conf
equal "the configuration is in order: $(cat err)" 0 "$code"
sed -n 's/^#\([a-z-]* = \)/\1/p' root/etc/runnel/runnel.conf | grep -v '^model\|^draft\|^api-key-file' >all.conf
expect "and has examples" [ "$(wc -l <all.conf)" -gt 5 ]
refused 2 "none.gguf" serve --config all.conf -m none.gguf
gzip -dc root/usr/share/man/man1/runnel-serve.1.gz >page
expect "the pages are those of the program" cmp page <("$BIN" help --man serve)
if command -v python3 >/dev/null; then
    equal "the module finds the library" "0.1.0" "$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$work/root/usr/lib/python3/dist-packages \
        python3 -c 'import runnel; print(runnel.__version__)')"
fi
finish
