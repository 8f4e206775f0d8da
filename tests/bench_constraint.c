// The cost of constraints, as a table: compile times (the first one for a vocabulary, and one that
// finds the summaries of others), the cost of a mask (median, 99th of 100, most), and of moving
// over a token. The vocabulary is made up in the manner of byte-level ones: words with and without
// a blank before them, numbers of up to three digits, runs of punctuation and blanks, characters of
// several scripts. Texts are walked token by token, the longest allowed prefix of the rest or a
// random allowed token. Run by hand on a quiet machine: bench_constraint [VOCABULARY]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "constraint/constraint.h"

enum { TOKEN_BYTES = 20, MAX_SAMPLES = 1 << 20, N_COMPILES = 9 };

static char (*bytes)[TOKEN_BYTES];
static uint8_t *length;
static int n_vocab = 128256, n_token;

static uint64_t seed = 88172645463325252u;
static uint32_t random_u32(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32);
}
static int below(int n) { return (int)(random_u32() % (uint32_t)n); }

static void add(const char *text) {
    const size_t len = strlen(text);
    if (n_token >= n_vocab - 1 || len == 0 || len >= TOKEN_BYTES) return;
    memcpy(bytes[n_token], text, len);
    length[n_token++] = (uint8_t)len;
}

static void add_word(void) {
    static const char *const part[] = {"a",    "e",  "i",   "o",  "er", "in",  "st",  "re",
                                       "tion", "th", "an",  "co", "de", "pro", "s",   "t",
                                       "l",    "m",  "ing", "ed", "un", "ab",  "com", "ly",
                                       "or",   "al", "is",  "on", "k",  "v"};
    static const char *const other[] = {"\xd0\xb0",     "\xd0\xbe",     "\xd1\x82",
                                        "\xd0\xbd",     "\xe4\xb8\xad", "\xe5\x9b\xbd",
                                        "\xe6\x98\xaf", "\xc3\xa9",     "\xc3\xbc",
                                        "\xd9\x85",     "\xe3\x81\xae", "\xed\x95\x9c"};
    static const char *const mark[] = {"\"", "\",", "\":", ".", ",", ")", "(",
                                       "{",  "}",   "_",   "-", "/", "'", "\n"};
    char text[64] = "";
    const int kind = below(10);
    if (below(2)) strcat(text, " ");
    if (kind == 0) {
        for (int n = 1 + below(4); n > 0; n--) strcat(text, mark[below(14)]);
    } else if (kind <= 2) {
        for (int n = 1 + below(4); n > 0; n--) strcat(text, other[below(12)]);
    } else {
        for (int n = 1 + below(4); n > 0; n--) strcat(text, part[below(30)]);
        if (below(12) == 0) strcat(text, mark[below(14)]);
        if (below(5) == 0 && text[0] != ' ') text[0] = (char)(text[0] - 32);
    }
    add(text);
}

static void make_vocabulary(void) {
    bytes = calloc((size_t)n_vocab, sizeof *bytes);
    length = calloc((size_t)n_vocab, 1);
    for (int i = 0; i < 256; i++) {
        bytes[n_token][0] = (char)i;
        length[n_token++] = 1;
    }
    for (int i = 0; i < 1000; i++) {
        char text[8];
        snprintf(text, sizeof text, i < 10 ? "%d" : i < 100 ? "%02d" : "%03d", i);
        add(text);
    }
    for (int n = 2; n < 19; n++) {
        char text[TOKEN_BYTES] = "";
        memset(text, ' ', (size_t)n);
        add(text);
        text[0] = '\n';
        add(text);
    }
    static const char *const code[] = {"{\"",  "\":",   "\": ",   "\",",    "\", \"", "\"}",
                                       "},",   "\":[",  "\":{\"", "\":\"",  "]}",     "null",
                                       "true", "false", "name",   "\"name", "id",     "[{"};
    for (size_t i = 0; i < sizeof code / sizeof *code; i++) add(code[i]);
    while (n_token < n_vocab - 1) add_word();
    memcpy(bytes[n_token], "<end>", 5);
    length[n_token++] = 5;
}

static struct constraint_token token_at(void *ctx, int32_t id) {
    (void)ctx;
    return (
        struct constraint_token){.data = bytes[id], .len = length[id], .is_end = id == n_vocab - 1};
}

static double *sample;
static int n_sample;
static double advance_us;
static uint64_t n_advance;

static int compare_double(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double now_us(void) { return (double)clock_ns() / 1000; }

// One text of at most max tokens.
static void walk(struct constraint *c, int max) {
    struct constraint_run *run;
    if (constraint_open(c, 1, &run, NULL)) exit(1);
    const rn_constraint hook = constraint_hook(run);
    const size_t n_words = ((size_t)n_vocab + 63) / 64;
    uint64_t *allowed = malloc(n_words * sizeof *allowed);
    int32_t *list = malloc((size_t)n_vocab * sizeof *list);
    for (int step = 0; step < max; step++) {
        memset(allowed, 0xff, n_words * sizeof *allowed);
        const double begin = now_us();
        hook.mask(hook.ctx, 0, allowed, n_vocab);
        if (n_sample < MAX_SAMPLES) sample[n_sample++] = now_us() - begin;
        int n = 0;
        for (int32_t i = 0; i < n_vocab; i++)
            if (allowed[i / 64] >> (i % 64) & 1) list[n++] = i;
        if (n == 0) {
            printf("no token left: %s\n", constraint_failure(run, 0));
            break;
        }
        // models write structure in few tokens, and close their strings
        int32_t pick = list[below(n)];
        for (int k = 0; k < 8; k++) {
            const int32_t other = list[below(n)];
            if (memchr(bytes[other], '"', length[other]) || length[other] > length[pick])
                pick = other;
        }
        if (pick == n_vocab - 1) break;
        const double before = now_us();
        hook.advance(hook.ctx, 0, pick);
        advance_us += now_us() - before;
        n_advance++;
    }
    free(allowed);
    free(list);
    constraint_close(run);
}

static double compile_ms(struct constraint_vocab *vocab, enum constraint_kind kind,
                         const char *text, struct constraint **out) {
    rn_error err;
    const double begin = now_us();
    if (constraint_compile(vocab, kind, text, strlen(text), NULL, out, &err)) {
        printf("%s\n", err.message);
        exit(1);
    }
    return (now_us() - begin) / 1000;
}

static struct constraint_vocab *vocab_create(void) {
    struct constraint_vocab *vocab;
    if (constraint_vocab_create(n_vocab, token_at, NULL, &vocab, NULL)) exit(1);
    return vocab;
}

static void row(const char *name, enum constraint_kind kind, const char *text) {
    struct constraint_vocab *fresh = vocab_create();
    struct constraint *c, *warm;
    const double first = compile_ms(fresh, kind, text, &c);
    char other[8192]; // the same source with a blank: compiled again, with the summaries at hand
    snprintf(other, sizeof other, "%s ", text);
    const double again = kind == CONSTRAINT_SCHEMA ? compile_ms(fresh, kind, other, &warm) : 0;
    n_sample = 0;
    advance_us = 0;
    n_advance = 0;
    for (int i = 0; i < 20; i++) walk(c, 100);
    qsort(sample, (size_t)n_sample, sizeof *sample, compare_double);
    const struct constraint_size size = constraint_size(c);
    printf("%-28s %8.2f %8.2f %7u %9.2f %9.2f %9.2f %9.2f %9.2f\n", name, first, again, size.states,
           (double)size.work / 1e6, sample[n_sample / 2], sample[(size_t)(n_sample * 0.99)],
           sample[n_sample - 1], n_advance ? advance_us / (double)n_advance : 0);
    if (kind == CONSTRAINT_SCHEMA) constraint_release(warm);
    constraint_release(c);
    constraint_vocab_release(fresh);
}

static void properties_row(const char *name, int n, bool closed, const char *type) {
    char text[8000] = "{\"type\":\"object\",\"properties\":{";
    for (int i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\"field_%c%d\":%s",
                 i ? "," : "", 'a' + i % 26, i, type);
    strcat(text, "},\"required\":[\"field_a0\"]");
    strcat(text, closed ? ",\"additionalProperties\":false}" : "}");
    row(name, CONSTRAINT_SCHEMA, text);
}

int main(int argc, char **argv) {
    if (argc > 1) n_vocab = atoi(argv[1]);
    sample = malloc(MAX_SAMPLES * sizeof *sample);
    make_vocabulary();
    const double begin = now_us();
    constraint_vocab_release(vocab_create());
    printf("vocabulary of %d tokens: %.1f ms\n", n_vocab, (now_us() - begin) / 1000);
    printf("%-28s %8s %8s %7s %9s %9s %9s %9s %9s\n", "constraint", "compile", "again", "states",
           "work", "mask", "99%", "most", "advance");
    printf("%-28s %8s %8s %7s %9s %9s %9s %9s %9s\n", "", "ms", "ms", "", "million", "us", "us",
           "us", "us");
    row("json_object", CONSTRAINT_OBJECT, "");
    properties_row("20 strings, closed", 20, true, "{\"type\":\"string\"}");
    properties_row("20 strings, open", 20, false, "{\"type\":\"string\"}");
    properties_row("20 integers, closed", 20, true, "{\"type\":\"integer\"}");
    properties_row("20 strings of maxLength 200", 20, true,
                   "{\"type\":\"string\",\"maxLength\":200}");
    properties_row("20 arrays of strings", 20, true,
                   "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"minItems\":1}");
    properties_row("20 enumerations", 20, true, "{\"enum\":[\"red\",\"green\",\"blue\",null]}");
    properties_row("20 dates", 20, true, "{\"type\":\"string\",\"format\":\"date-time\"}");
    row("pattern", CONSTRAINT_SCHEMA,
        "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[a-z "
        "]+(-[a-z]+){2,5}$\"}}");
    row("recursive", CONSTRAINT_SCHEMA,
        "{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"name\":{"
        "\"type\":\"string\"},\"children\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
        "n\"}}},"
        "\"required\":[\"name\",\"children\"],\"additionalProperties\":false}}}");
    row("regex", CONSTRAINT_REGEX, "(yes|no|maybe): [A-Za-z ,.]{1,500}");
    row("grammar", CONSTRAINT_GRAMMAR,
        "root ::= expr\nexpr ::= term ([-+*/] term)*\nterm ::= [0-9]+ | [a-z]+ | \"(\" ws expr ws "
        "\")\"\n"
        "ws ::= [ \\t\\n]*\n");
#define TOOL(begin, style, end)                                                                    \
    "{\"begin\":\"" begin "\",\"content\":{\"type\":\"json_schema\",\"style\":\"" style            \
    "\",\"json_schema\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},"      \
    "\"days\":{\"type\":\"integer\"},\"note\":{\"type\":\"string\",\"maxLength\":100}},"           \
    "\"required\":["                                                                               \
    "\"city\"],\"additionalProperties\":false}},\"end\":\"" end "\"}"
    row("tools, free text", CONSTRAINT_STRUCTURE,
        "{\"type\":\"triggered_tags\",\"triggers\":[\"<tool_call>\"],\"tags\":[" TOOL(
            "<tool_call>\\n{\\\"name\\\": \\\"weather\\\", \\\"arguments\\\": ", "json",
            "}\\n</tool_call>") "]}");
    row("tools, between tags", CONSTRAINT_STRUCTURE,
        "{\"type\":\"tags_with_separator\",\"separator\":\"\\n\",\"at_least_one\":true,\"tags\":"
        "[" TOOL("<tool_call>\\n<function=weather>\\n", "qwen_xml",
                 "</function>\\n</tool_call>") "]}");
    row("choices", CONSTRAINT_CHOICES, "[\"positive\",\"negative\",\"neutral\"]");
    free(sample);
    free(bytes);
    free(length);
    return 0;
}
