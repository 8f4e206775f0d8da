# The installed program runs from another folder, with nothing but itself; the installed library
# exports the public interface alone, and a program that finds it by pkg-config builds and runs.
. "$(dirname "$0")/lib.sh"

prefix=$work/root/opt/runnel
mkdir -p "$prefix/share/man" "$prefix/bin" # folders and files of others
touch "$prefix/bin/other"
find "$work/root" | LC_ALL=C sort >before
"$ROOT/tools/install" "$BUILD" /opt/runnel/ "$work/root" >log 2>&1
status=$?
equal "install succeeds: $(tail -n 2 log)" 0 $status
rm "$prefix/bin/other"
files="./bin/runnel"
[ -n "$SAN" ] || files="./bin/runnel
./include/runnel.h
./include/runnel_status.h
./lib/librunnel.a
./lib/librunnel.so.0.1.0
./lib/pkgconfig/runnel-static.pc
./lib/pkgconfig/runnel.pc"
# the plug-in for GPUs, where a toolkit built it
[ ! -e "$BUILD/runnel_cuda.so" ] || [ -n "$SAN" ] || files="$files
./lib/runnel/runnel_cuda.so"
equal "it installs the program, the library and what one builds with" "$files" \
    "$(cd "$prefix" && find . -type f -not -path './share/*' -not -path './lib/python*' | LC_ALL=C sort)"
equal "and completions for three shells" "./share/bash-completion/completions/runnel
./share/fish/vendor_completions.d/runnel.fish
./share/zsh/site-functions/_runnel" \
    "$(cd "$prefix" && find ./share -type f -not -path './share/man/*' -not -path './share/doc/*' -not -path './share/runnel/*' | LC_ALL=C sort)"
expect "and the manual" test -s "$prefix/share/man/man1/runnel-serve.1"
equal "and the documents" "" \
    "$(cd "$ROOT" && for file in README.md LICENSE $(git ls-files docs 'examples/*.c'); do
        cmp -s "$file" "$prefix/share/doc/runnel/$file" || echo "$file"; done)"

python=$(dirname "$(find "$prefix/lib" -path '*/runnel/__init__.py')")
equal "and the Python package" "$(cd "$ROOT/python/runnel" && git ls-files)" "$(cd "$python" && LC_ALL=C ls)"

(cd / && exec "$prefix/bin/runnel" run -p "Once upon a time" -n 8 -q --ignore-eos --seed 1) >out
equal "the installed program runs" 0 $?
expect "and writes text" test -s out
# removed: nothing of it is left, and all that was there before.
removed() {
    touch "$prefix/bin/other"
    "$ROOT/tools/uninstall" /opt/runnel "$work/root" >log 2>&1
    status=$?
    equal "uninstall succeeds: $(cat log)" 0 $status
    expect "and leaves what was there before" diff before <(find "$work/root" | LC_ALL=C sort)
    "$ROOT/tools/uninstall" /opt/runnel "$work/root" >log 2>&1
    equal "there is nothing to uninstall then" "1 1" "$? $(grep -c 'nothing is installed' log)"
}
[ -z "$SAN" ] || { removed; finish; } # no library then

library=$prefix/lib/librunnel.so
equal "the library's name has its version" librunnel.so.0 "$(basename "$(readlink "$library")")"
nm -D --defined-only "$library" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort >exported
cat "$ROOT"/include/runnel.h "$ROOT"/include/runnel_status.h | sed 's,//.*,,; /^static inline/,/^}/d' |
    grep -oE '\brn_[a-z0-9_]+\(' | tr -d '(' | LC_ALL=C sort -u >declared
expect "it exports what the headers declare" diff declared exported
equal "and nothing else" "" \
    "$(nm -D --defined-only "$library" | awk '$2 != "T" && $3 !~ /^RUNNEL_0/')"
equal "every function has a version" "" "$(nm -D --defined-only "$library" | awk '$2 == "T" && $3 !~ /@@RUNNEL_0\.1$/')"

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
equal "pkg-config knows the version" 0.1.0 "$(pkg-config --modversion runnel)"
read -ra flags <<<"$(pkg-config --cflags --libs runnel)"
expect "pkg-config names the headers" grep -q "/include\b" <<<"${flags[*]}"
strict=(-Wall -Wextra -pedantic -Werror)
export LD_LIBRARY_PATH=$prefix/lib
# example NAME PATTERN ARG...: an installed example builds with the library, runs, and prints this.
example() {
    local name=$1 pattern=$2
    shift 2
    expect "$name.c builds" "${CC:-cc}" -std=c11 "${strict[@]}" "$prefix/share/doc/runnel/examples/$name.c" \
        "${flags[@]}" -pthread -o "$name"
    "./$name" "$@" >out 2>err
    equal "$name runs" 0 $?
    expect "$name prints text: $(head -c 300 out)" grep -q "$pattern" out
    equal "$name does not complain" "" "$(cat err)"
    "./$name" nothing.gguf "${@:2}" >out 2>err
    equal "$name names a missing file once" "1 $name: nothing.gguf: No such file or directory" "$? $(cat err)"
}
example streams '^\[1\] ' "$SMALL"
example complete '^Once upon a time,* [a-z]' "$SMALL" "Once upon a time"
example chat '^\[stop: ' "$SMALL" '[{"role": "user", "content": "Tell me a story about a \"fox\"."}]'
example shape '"animal": *"\(fox\|dog\|owl\)"' "$SMALL" "The animal, as JSON: "

# Every block of C in docs/API.md compiles: those with a function as they are, the others inside of one.
cat >blocks.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <runnel.h>
struct my_stream;
struct grammar;
static void fail(const char *message) { puts(message); exit(1); }
static void handle(const rn_event *event);
static void append(struct my_stream *stream, const char *text, size_t len) { (void)stream, (void)text, (void)len; }
static void note(struct my_stream *stream, const char *text, double ms) { (void)stream, (void)text, (void)ms; }
static void done(struct my_stream *stream) { (void)stream; }
static void draw(const rn_view *view) { (void)view; }
static int grammar_allows(const struct grammar *g, int choice, int32_t id) { return g && choice && id; }
static void grammar_push(struct grammar *g, int choice, int32_t id) { (void)g, (void)choice, (void)id; }
static void grammar_pop(struct grammar *g, int choice, int n) { (void)g, (void)choice, (void)n; }
static rn_error err;
static rn_model *model;
static rn_engine *engine;
static rn_request request;
static struct my_stream *my_stream;
static int32_t *prompt, *ids;
static size_t n_prompt, n_ids;
static uint64_t id;
static const char *text = "";
END
awk '/^```c$/ { on = 1; n++; block = "\n"; next }
     /^```/ && on {
         on = 0
         if (block ~ /\n(static|struct) [^;=]*{\n/) print block
         else printf "static void block_%d(void) {%s}\n", n, block
     }
     on { block = block $0 "\n" }' "$ROOT/docs/API.md" >>blocks.c
expect "the page has its blocks" test "$(grep -c '^static void block_' blocks.c)" -ge 12
expect "the blocks of docs/API.md compile" "${CC:-cc}" -std=c99 "${strict[@]}" -Wno-unused -fsyntax-only blocks.c "${flags[@]}"
# The first two open a model and are whole programs.
mapfile -t blocks < <(grep -o 'block_[0-9]*' blocks.c)
echo "int main(void) { text = \"Once\"; ${blocks[0]}(); ${blocks[1]}(); return fflush(stdout); }" >>blocks.c
cp "$ROOT/models/tale-20m-q8_0.gguf" model.gguf # the embedded model, whose context is 1,024
expect "the first two build" "${CC:-cc}" -std=c99 -w blocks.c "${flags[@]}" -o blocks
./blocks >out 2>&1
status=$?
equal "and run: $(tail -n 2 out)" 0 $status

# A program that was compiled with an older header, whose structs are shorter, works with this library. One that was
# compiled with a newer header does, too, but for members that are not known here.
for age in old new; do
    mkdir "$age"
    cp "$prefix/include/runnel_status.h" "$age"
done
sed -e '/^    void \*on_logits_ctx;/d; /^    rn_progress_fn progress;/d; /^    void \*progress_ctx;/d; /^    int64_t now;/d' \
    -e '/^    const float \*embedding;/d; /^    const char \*note;/d; /^    double ops_flops\[/d; /^    uint64_t mtp_kv_bytes;/d' \
    -e '/^    uint64_t prompt_request; .*; 0: none$/d; /^    double undrafted_ms;/d' "$prefix/include/runnel.h" >old/runnel.h
structs="engine_options|request|chat|event|engine_info|engine_stats|memory_plan|step|timings"
sed -E "s/^} rn_($structs);/    uint64_t later;\n&/" "$prefix/include/runnel.h" >new/runnel.h
cat >ages.c <<'END'
#include <runnel.h>
#include <stdio.h>
#include <string.h>
#define DIE(call) if (call) return puts(err.message), 1
int main(int argc, char **argv) {
    rn_error err = {0};
    rn_model *model;
    rn_engine *engine;
    rn_memory_plan plan;
    rn_engine_options options = {.max_seqs = 2, .n_ctx = 256};
    DIE(rn_model_open(argv[1], &model, &err));
    DIE(rn_engine_plan_memory(model, &options, &plan, &err));
    DIE(rn_engine_create(model, &options, &engine, &err));
    rn_chat_template *tmpl;
    rn_chat chat = {.messages = "[{\"role\":\"user\",\"content\":\"Hello\"}]", .add_generation_prompt = true};
    char *text;
    size_t len;
    int32_t *ids;
    rn_request request = {.max_tokens = 20, .n = 2, .sampling = rn_sampling_neutral()};
    request.sampling.has_seed = true;
    DIE(rn_chat_template_create(model, NULL, &tmpl, &err));
    DIE(rn_chat_render(tmpl, &chat, &text, &len, &err));
    DIE(rn_tokenize(model, text, len, RN_TOKENIZE_BOS | RN_TOKENIZE_SPECIAL, &ids, &request.n_prompt, &err));
    request.prompt = ids;
#ifdef LATER
    request.later = argc > 2;
#endif
    uint64_t id;
    DIE(rn_engine_start(engine, &err));
    DIE(rn_engine_submit(engine, &request, &id, &err));
    char said[2][1000] = {"", ""};
    for (int last = 0; !last;) {
        rn_event event[5];
        const int n = rn_engine_wait(engine, event, 5, 20000);
        if (n == 0) return 1;
        for (int i = 0; i < n; i++) {
            strncat(said[event[i].choice], event[i].text, event[i].text_len);
            if (event[i].finish) printf("%s after %d\n", rn_finish_text(event[i].finish), event[i].timings->output_tokens);
            last = last || event[i].last;
        }
    }
    rn_engine_info info;
    rn_engine_stats stats;
    rn_step step[4];
    rn_engine_get_info(engine, &info);
    rn_engine_get_stats(engine, &stats);
    const size_t n_steps = rn_engine_steps(engine, 0, step, 4);
    printf("%s|%s|%d %d %d %d\n", said[0], said[1], info.n_ctx, (int)stats.output_tokens, (int)n_steps, (int)step[3].index);
    rn_free(text);
    rn_free(ids);
    rn_chat_template_destroy(tmpl);
    rn_engine_destroy(engine);
    rn_model_close(model);
    fprintf(stderr, "%zu\n", sizeof plan + sizeof options + sizeof chat + sizeof request + sizeof *step + sizeof info + sizeof stats);
    return argc < 1;
}
END
for age in "" old new; do
    expect "a program with $age headers builds" "${CC:-cc}" ${age:+"-I$age"} ${age:+"-D$([ $age = new ] && echo LATER || echo OLDER)"} \
        ages.c "${flags[@]}" -o "ages$age"
    "./ages$age" "$SMALL" >"ages$age.out" 2>"ages$age.size"
    status=$?
    equal "a program with $age headers runs: $(tail -n 1 "ages$age.out")" 0 $status
done
expect "with the same result as now" cmp ages.out agesold.out
expect "with the same result as later" cmp ages.out agesnew.out
expect "though its structs are shorter" test "$(cat agesold.size)" -lt "$(cat ages.size)"
expect "or longer" test "$(cat agesnew.size)" -gt "$(cat ages.size)"
equal "a member that is not known is refused" \
    "request: a member is set that this version of the library does not know" "$(./agesnew "$SMALL" later)"

if command -v c++ >/dev/null; then
    cat >version.cc <<'END'
#include <runnel.h>
int main() {
    rn_engine_options options = {};
    rn_engine *(*unused)(const rn_engine_options *) = nullptr;
    rn_engine_stats stats = {};
    if (unused) rn_engine_get_stats(unused(&options), &stats);
    return rn_status_text(RN_OK)[0] == 'o' && rn_finish_text(RN_FINISH_STOP)[0] == 's' ? 0 : 1;
}
END
    expect "a C++ program builds with it" c++ -std=c++11 "${strict[@]}" version.cc "${flags[@]}" -o version
    expect "and runs" env LD_LIBRARY_PATH="$prefix/lib" ./version
fi

# What docs/API.md says of a program that is to start without LD_LIBRARY_PATH.
unset LD_LIBRARY_PATH
# linked NAME FLAG...: examples/complete.c links with these flags and runs.
linked() {
    local name=$1
    shift
    expect "a program links by $name" "${CC:-cc}" "$ROOT/examples/complete.c" "$@" -o "linked-$name"
    "./linked-$name" "$SMALL" "Once upon a time" >out 2>&1
    equal "the program linked by $name runs" 0 $?
    expect "and writes text: $(head -c 300 out)" grep -q '^Once upon a time,* [a-z]' out
}
linked rpath "${flags[@]}" "-Wl,-rpath,$(pkg-config --variable=libdir runnel)"
linked static-libs $(pkg-config --cflags --static --libs runnel) "-Wl,-rpath,$prefix/lib"
linked archive $(pkg-config --cflags --libs runnel-static)
equal "which needs no file of runnel" "" "$(readelf -d linked-archive | grep -i 'librunnel\|rpath\|runpath')"
expect "as the program linked by rpath does" grep -q librunnel.so.0 <(readelf -d linked-rpath)
equal "the archive shows the public interface alone" "" "$(nm -g --defined-only "$prefix/lib/librunnel.a" | grep ' [TDBR] ' | grep -v ' rn_')"
if command -v python3 >/dev/null; then
    equal "the Python package finds the library and the program of its prefix" "0.1.0 $prefix/lib/librunnel.so.0 $prefix/bin/runnel" "$(env -u LD_LIBRARY_PATH -u PYTHONDONTWRITEBYTECODE \
        PYTHONPATH="$(dirname "$python")" python3 -c 'import runnel, runnel._names, runnel._native as n; print(runnel.__version__, n._places()[0], runnel._names._program())')"
    expect "and was compiled" test -d "$python/__pycache__"
fi
"$ROOT/tools/install" "$BUILD" /opt/runnel "$work/root" >log 2>&1
equal "installing again succeeds" 0 $?
removed
finish
