// Texts of constraints by random tokens, for comparisons with other implementations. Each line of
// the input is a JSON Schema; for each, some texts follow on one line as a JSON array of strings,
// or "ERROR message". Run by hand: sample_jobs [TEXTS] < schemas
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "constraint/constraint.h"

static const char *const words[] = {"{\"",      "\":",
                                    "\",\"",    "\"}",
                                    "true",     "null",
                                    "ab",       "  ",
                                    "\n  ",     "12",
                                    "9.5",      "-",
                                    "e1",       "[",
                                    "],",       "}",
                                    "hello",    " wor",
                                    "\\n",      "\\u00",
                                    "\xc3\xa9", "\xf0\x9f\x98\x80",
                                    "0",        "\":\"",
                                    "\", \"",   "</s>"};
enum {
    N_WORDS = sizeof words / sizeof *words,
    N_VOCAB = 256 + N_WORDS,
    N_SETS = (N_VOCAB + 63) / 64,
    MAX_TEXT = 1 << 16
};

static struct constraint_token token_at(void *ctx, int32_t id) {
    static char byte[256];
    (void)ctx;
    if (id >= 256) {
        return (struct constraint_token){.data = words[id - 256],
                                         .len = strlen(words[id - 256]),
                                         .is_end = id == N_VOCAB - 1};
    }
    byte[id] = (char)id;
    return (struct constraint_token){.data = &byte[id], .len = 1};
}

static uint64_t seed = 88172645463325252u;
static uint32_t below(uint32_t n) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32) % n;
}

// Bytes that close something are likelier, so that texts end.
static int pick(const uint64_t *bits) {
    int best = -1;
    uint32_t best_weight = 0;
    for (int id = 0; id < N_VOCAB; id++) {
        if (!(bits[id / 64] >> (id % 64) & 1)) continue;
        const struct constraint_token token = token_at(NULL, id);
        const char last = token.data[token.len - 1];
        const bool closes = token.is_end || last == '"' || last == '}' || last == ']';
        const uint32_t weight = below(1000) + (closes                              ? 300
                                               : id < 256 && (id < 32 || id > 126) ? 0
                                                                                   : 150);
        if (best >= 0 && weight <= best_weight) continue;
        best = id;
        best_weight = weight;
    }
    return best;
}

static size_t sample(struct constraint *c, char *text) {
    struct constraint_run *run;
    size_t len = 0;
    if (constraint_open(c, 1, &run, NULL)) exit(1);
    const rn_constraint hook = constraint_hook(run);
    for (;;) {
        uint64_t bits[N_SETS];
        memset(bits, 0xff, sizeof bits);
        hook.mask(run, 0, bits, N_VOCAB);
        const int id = pick(bits);
        if (id < 0) {
            printf("ERROR a dead end behind %.*s\n", (int)len, text);
            exit(1);
        }
        const struct constraint_token token = token_at(NULL, id);
        if (token.is_end) break;
        if (len + token.len > MAX_TEXT) {
            len = 0; // not complete: left out
            break;
        }
        memcpy(text + len, token.data, token.len);
        len += token.len;
        hook.advance(run, 0, id);
    }
    constraint_close(run);
    return len;
}

static void print_string(const char *text, size_t len) {
    putchar('"');
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 32)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

int main(int argc, char **argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 5;
    struct constraint_vocab *vocab;
    if (constraint_vocab_create(N_VOCAB, token_at, NULL, &vocab, NULL)) return 1;
    char *line = NULL, *text = malloc(MAX_TEXT);
    size_t capacity = 0;
    for (ssize_t len; (len = getline(&line, &capacity, stdin)) > 0;) {
        struct constraint *c;
        rn_error err;
        if (constraint_compile(vocab, CONSTRAINT_SCHEMA, line, (size_t)len, NULL, &c, &err)) {
            printf("ERROR %s\n", err.message);
            continue;
        }
        putchar('[');
        for (int i = 0, printed = 0; i < n; i++) {
            const size_t size = sample(c, text);
            if (size == 0) continue;
            if (printed++) putchar(',');
            print_string(text, size);
        }
        puts("]");
        constraint_release(c);
    }
    constraint_vocab_release(vocab);
    free(line);
    free(text);
    return 0;
}
