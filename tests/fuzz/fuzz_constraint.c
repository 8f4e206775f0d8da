// Sources of constraints: the first byte is the kind. A source that compiles is then walked: masks
// against their definition, some tokens forward, some back.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "constraint/constraint.h"

static const char *const words[] = {"{\"", "\":",  "\",\"", "\"}",      "true", "null", "ab",
                                    "  ",  "\n\t", "12",    "\xe2\x82", "<c>",  "</c>", "</s>"};
enum {
    N_WORDS = sizeof words / sizeof *words, // the last three are special tokens
    N_VOCAB = 256 + N_WORDS,
    N_SETS = (N_VOCAB + 63) / 64
};

static struct constraint_token token_at(void *ctx, int32_t id) {
    static char byte[256];
    (void)ctx;
    if (id >= 256) {
        return (struct constraint_token){.data = words[id - 256],
                                         .len = strlen(words[id - 256]),
                                         .is_special = id >= N_VOCAB - 3,
                                         .is_end = id == N_VOCAB - 1};
    }
    byte[id] = (char)id;
    return (struct constraint_token){.data = &byte[id], .len = 1};
}

static int has(const uint64_t *bits, int id) { return bits[id / 64] >> (id % 64) & 1; }

static void check_mask(struct constraint_run *run, const uint64_t *bits) {
    for (int id = 0; id < N_VOCAB - 1; id++) {
        const struct constraint_token token = token_at(NULL, id);
        char bytes[8] = "\xff";
        memcpy(bytes + token.is_special, token.data, token.len);
        if (token.is_special) bytes[token.len + 1] = '\xfe';
        const size_t len = token.len + 2 * token.is_special;
        const bool is_bracket = id == 0xFE || id == 0xFF;
        const bool want = constraint_feed(run, 0, bytes, len) && !is_bracket;
        const bool failed = constraint_failure(run, 0);
        constraint_hook(run).rollback(run, 0, 1);
        if (!failed && has(bits, id) != want) abort();
    }
    if (!constraint_failure(run, 0) && has(bits, N_VOCAB - 1) != constraint_may_end(run, 0))
        abort();
}

static void walk(struct constraint_run *run, uint32_t seed) {
    const rn_constraint hook = constraint_hook(run);
    char forced[16];
    for (int step = 0; step < 12; step++) {
        uint64_t bits[N_SETS];
        memset(bits, 0xff, sizeof bits);
        hook.mask(run, 0, bits, N_VOCAB);
        if (constraint_failure(run, 0)) return;
        if (step % 4 == 0) check_mask(run, bits);
        if (constraint_failure(run, 0)) return;
        const size_t n_forced = constraint_forced(run, 0, forced, sizeof forced, UINT64_MAX);
        if (n_forced && forced[0] != '\xff' && !has(bits, (uint8_t)forced[0])) abort();
        int pick = -1, n = 0;
        for (int id = 0; id < N_VOCAB - 1; id++) {
            seed = seed * 1664525 + 1013904223;
            if (has(bits, id) && (seed >> 8) % (uint32_t)++n == 0) pick = id;
        }
        if (pick < 0 && !constraint_may_end(run, 0)) abort(); // a dead end
        if (pick < 0) return;
        hook.advance(run, 0, pick);
        if (step % 5 == 4) hook.rollback(run, 0, 2);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct constraint_vocab *vocab; // for all runs, as a server has it
    struct constraint *c;
    struct constraint_run *run;
    rn_error err = {0};
    if (size == 0) return 0;
    if (!vocab && constraint_vocab_create(N_VOCAB, token_at, NULL, &vocab, &err)) abort();
    const struct constraint_limits limits = {.work = 500000, .bytes = 8 << 20};
    const rn_status status =
        constraint_compile(vocab, (enum constraint_kind)(data[0] % 6), (const char *)data + 1,
                           size - 1, &limits, &c, &err);
    if (status) {
        if (status != RN_ERR_ARG || c || err.status != status || !err.message[0]) abort();
    } else {
        if (constraint_open(c, 1, &run, &err)) abort();
        walk(run, (uint32_t)size * 2654435761u);
        constraint_close(run);
        constraint_release(c);
    }
    return 0;
}
