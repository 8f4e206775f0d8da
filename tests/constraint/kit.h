// Shared by the tests of constraints: a vocabulary of all bytes and random pieces, texts walked
// through an automaton, texts sampled from masks, and masks by their definition.
#ifndef RN_TESTS_CONSTRAINT_KIT_H
#define RN_TESTS_CONSTRAINT_KIT_H

#include <stdio.h>

#include "check.h"
#include "constraint/constraint.h"

enum { KIT_MAX_TOKENS = 1200, KIT_TOKEN_BYTES = 24 };

static struct kit_vocab {
    char bytes[KIT_MAX_TOKENS][KIT_TOKEN_BYTES];
    size_t len[KIT_MAX_TOKENS];
    int n, n_special, n_end; // special tokens and ends are the last ones
} kit;
static struct constraint_vocab *kit_vocab;

static uint64_t kit_seed = 88172645463325252u;
static inline uint32_t kit_random(void) {
    kit_seed ^= kit_seed << 13;
    kit_seed ^= kit_seed >> 7;
    kit_seed ^= kit_seed << 17;
    return (uint32_t)(kit_seed >> 32);
}
static inline int kit_below(int n) { return (int)(kit_random() % (uint32_t)n); }

static inline struct constraint_token kit_token(void *ctx, int32_t id) {
    return (struct constraint_token){
        .data = kit.bytes[id],
        .len = kit.len[id],
        .is_special = id >= kit.n - kit.n_special - kit.n_end && id < kit.n - kit.n_end,
        .is_end = id >= kit.n - kit.n_end,
    };
}

static inline void kit_add(const char *bytes, size_t len) {
    check(kit.n < KIT_MAX_TOKENS && len < KIT_TOKEN_BYTES, "token %d of %zu bytes", kit.n, len);
    memcpy(kit.bytes[kit.n], bytes, len);
    kit.len[kit.n++] = len;
}

// All bytes, n random texts of pieces (some of them twice), three special tokens and two ends.
static inline void kit_open(const char *const *piece, int n_piece, int n) {
    kit.n = 0;
    for (int i = 0; i < 256; i++) kit_add((char[]){(char)i}, 1);
    for (int i = 0; i < n; i++) {
        char text[KIT_TOKEN_BYTES];
        size_t len = 0;
        for (int k = 1 + kit_below(5); k > 0; k--) {
            const char *part = piece[kit_below(n_piece)];
            if (len + strlen(part) >= sizeof text) break;
            memcpy(text + len, part, strlen(part));
            len += strlen(part);
        }
        if (len) kit_add(text, len);
    }
    kit_add("<s>", 3);
    kit_add("<call>", 6);
    kit_add("</call>", 7);
    kit_add("</s>", 4);
    kit_add("<end>", 5);
    kit.n_special = 3;
    kit.n_end = 2;
    rn_error err;
    check(!constraint_vocab_create(kit.n, kit_token, NULL, &kit_vocab, &err), "%s", err.message);
}

static inline void kit_close(void) { constraint_vocab_release(kit_vocab); }

static inline struct constraint *kit_compile(enum constraint_kind kind, const char *text) {
    struct constraint *c;
    rn_error err = {0};
    const rn_status status =
        constraint_compile(kit_vocab, kind, text, strlen(text), NULL, &c, &err);
    check(!status, "%s: %s", text, err.message);
    return c;
}

// Whether the constraint lets the whole text pass.
static inline bool kit_accepts(struct constraint *c, const char *text, size_t len) {
    struct constraint_run *run;
    check(!constraint_open(c, 1, &run, NULL), "open");
    const bool passes = constraint_feed(run, 0, text, len) && constraint_may_end(run, 0);
    check(!constraint_failure(run, 0), "%s", constraint_failure(run, 0));
    constraint_close(run);
    return passes;
}

static inline bool kit_has(const uint64_t *bits, int id) { return bits[id / 64] >> (id % 64) & 1; }

// Samples a text of at most max tokens; true where it is complete. Rare tokens are as likely as
// others, so texts leave every beaten track. Ends are taken as soon as a coin says so.
static inline bool kit_sample(struct constraint *c, char *text, size_t size, size_t *len, int max) {
    struct constraint_run *run;
    check(!constraint_open(c, 1, &run, NULL), "open");
    const rn_constraint hook = constraint_hook(run);
    bool is_complete = false;
    *len = 0;
    for (int step = 0; step < max && !is_complete; step++) {
        uint64_t bits[(KIT_MAX_TOKENS + 63) / 64];
        memset(bits, 0xff, sizeof bits);
        hook.mask(hook.ctx, 0, bits, kit.n);
        if (constraint_failure(run, 0)) break; // too ambiguous
        int n = 0, pick = -1;
        for (int i = 0; i < kit.n; i++)
            if (kit_has(bits, i) && kit_below(++n) == 0) pick = i;
        check(n > 0, "no token left behind \"%.*s\"", (int)*len, text);
        if (constraint_may_end(run, 0) && kit_below(3) == 0) pick = kit.n - 1;
        check(kit_has(bits, pick), "an end is not allowed where the text may end");
        is_complete = pick >= kit.n - kit.n_end;
        if (is_complete) break;
        if (*len + kit.len[pick] > size) break;
        memcpy(text + *len, kit.bytes[pick], kit.len[pick]);
        *len += kit.len[pick];
        hook.advance(hook.ctx, 0, pick);
    }
    constraint_close(run);
    return is_complete;
}

// Feeds the bytes that a token stands for.
static inline bool kit_feed(struct constraint_run *run, int id) {
    char symbol[KIT_TOKEN_BYTES + 2];
    if (id < kit.n - kit.n_end - kit.n_special)
        return constraint_feed(run, 0, kit.bytes[id], kit.len[id]);
    symbol[0] = '\xff';
    memcpy(symbol + 1, kit.bytes[id], kit.len[id]);
    symbol[kit.len[id] + 1] = '\xfe';
    return constraint_feed(run, 0, symbol, kit.len[id] + 2);
}

// Compares the mask of a run with the definition: a token may come where its bytes may.
static inline void kit_check_mask(struct constraint_run *run, const char *what) {
    const rn_constraint hook = constraint_hook(run);
    uint64_t bits[(KIT_MAX_TOKENS + 63) / 64];
    memset(bits, 0xff, sizeof bits);
    hook.mask(hook.ctx, 0, bits, kit.n);
    for (int i = 0; i < kit.n; i++) {
        bool want;
        if (i >= kit.n - kit.n_end) {
            want = constraint_may_end(run, 0);
        } else if (i == 0xFF || i == 0xFE) {
            want = false; // the brackets of special tokens are no text
        } else {
            want = kit_feed(run, i);
            hook.rollback(hook.ctx, 0, 1);
        }
        check(kit_has(bits, i) == want, "%s: token %d \"%.*s\": the mask says %d", what, i,
              (int)kit.len[i], kit.bytes[i], !want);
    }
}

// The source is refused, with a message that begins so.
static inline void kit_refused(enum constraint_kind kind, const char *text, const char *message) {
    struct constraint *c;
    rn_error err = {0};
    const rn_status status =
        constraint_compile(kit_vocab, kind, text, strlen(text), NULL, &c, &err);
    check(status == RN_ERR_ARG && !c, "%s: status %d", text, status);
    check(strncmp(err.message, message, strlen(message)) == 0, "%s: \"%s\"", text, err.message);
}

#endif
