// Masks that are made in parts: of any size, with summaries at hand or without, in any order of
// runs. Sets with many wide states, and with guards. They equal the masks by definition, and fail
// for the same texts.
#include "constraint/vocab.h"
#include "kit.h"

enum { TOKENS = 1200, SOURCE = 1 << 14 };

static const char *const pieces[] = {"a",  "b",  "c",  "the", "er", "in", " ",  "A",  "B",
                                     "Z ", "0",  "12", "{",   "}",  "\"", ",",  ".",  ";",
                                     "x",  "yz", "qu", "st",  "{1", ";2", "\n", "\\", "-"};
enum { N_PIECES = sizeof pieces / sizeof *pieces };

// A comment makes the source another one, which finds no masks of the others.
static struct constraint *compile_again(const char *text) {
    static int salt;
    char source[SOURCE];
    snprintf(source, sizeof source, "%s\n%s %d\n", text, strstr(text, "::=") ? "#" : "//", salt++);
    return kit_compile(CONSTRAINT_GRAMMAR, source);
}

// Sources whose sets have many wide states, in different ways.
static void write_source(int kind, char *text) {
    const int n = kind == 5 ? 6 : 12 + kit_below(30);
    const bool is_lark = kind == 3 || kind == 4;
    char *at = text + sprintf(text, is_lark ? "start: (" : "root ::= (");
    for (int i = 0; i < n; i++) at += sprintf(at, "%s%c%d", i ? " | " : "", is_lark ? 'T' : 'r', i);
    at += sprintf(at, is_lark ? ")+\n" : ")*\n");
    for (int i = 0; i < n; i++) {
        const int period = 1 + kit_below(9);
        const char hole = (char)('a' + kit_below(26));
        if (kind == 0)
            at += sprintf(at, "r%d ::= ([a-zA-Z ,.]{%d})* \"{%d\"\n", i, period, i);
        else if (kind == 1)
            at += sprintf(at, "r%d ::= ([a-zA-Z ,.%d]{%d}[^%c])+ \";\"\n", i, i % 10, period, hole);
        else if (kind == 2)
            at += sprintf(at, "r%d ::= \"%c\" [a-z]+ tail%d\ntail%d ::= [A-Z ]{%d} root? \"}\"\n",
                          i, hole, i, i, period);
        else if (kind == 3)
            at += sprintf(at, "T%d: /[a-z%d]([a-z ]{%d})*[A-Z]?/\n", i, i % 10, period);
        else if (kind == 4)
            at += sprintf(at, "T%d: /[a-z]+%d?[a-z .]*%c/\n", i, i % 10, hole);
        else
            at += sprintf(at, "r%d ::= [^%c]{0,%d} \"%c\"\n", i, hole, 20 * period, hole);
    }
    if (kind == 4) sprintf(at, "%%ignore /[ \\n]+/\n");
}

static void get_mask(struct constraint_run *run, uint64_t *bits) {
    const rn_constraint hook = constraint_hook(run);
    memset(bits, 0xff, (KIT_MAX_TOKENS + 63) / 64 * sizeof *bits);
    hook.mask(hook.ctx, 0, bits, kit.n);
}

static int pick_from(const uint64_t *bits) {
    int n = 0, pick = -1;
    for (int i = 0; i < kit.n - kit.n_end; i++)
        if (kit_has(bits, i) && kit_below(++n) == 0) pick = i;
    return pick;
}

// Several ways to the same masks: at once, in parts, without any summary at hand.
CASE(masks_do_not_depend_on_how_they_are_made) {
    enum { AT_ONCE, IN_PARTS, WITHOUT, WAYS };
    char text[SOURCE];
    const size_t most = kit_vocab->summary_bytes_max;
    int n_failed = 0, n_parts = 0;
    for (int round = 0; round < test_scale(12, 48, 600); round++) {
        struct constraint *c[WAYS];
        struct constraint_run *run[WAYS];
        write_source(round % 6, text);
        for (int i = 0; i < WAYS; i++) {
            c[i] = compile_again(text);
            check(!constraint_open(c[i], 1, &run[i], NULL), "open");
        }
        for (int step = 0; step < 12; step++) {
            uint64_t bits[WAYS][(KIT_MAX_TOKENS + 63) / 64];
            get_mask(run[AT_ONCE], bits[AT_ONCE]);
            const uint64_t slice = constraint_slice(run[IN_PARTS]);
            while (!constraint_prepare(run[IN_PARTS], 0, slice + (uint64_t)kit_below(500)))
                n_parts++;
            get_mask(run[IN_PARTS], bits[IN_PARTS]);
            kit_vocab->summary_bytes_max = 0;
            get_mask(run[WITHOUT], bits[WITHOUT]);
            kit_vocab->summary_bytes_max = most;
            for (int i = 1; i < WAYS; i++) {
                check(memcmp(bits[0], bits[i], sizeof bits[0]) == 0, "%s: step %d, way %d", text,
                      step, i);
                check(constraint_status(run[i], 0) == constraint_status(run[0], 0), "%s: step %d",
                      text, step);
            }
            n_failed += constraint_status(run[0], 0) != RN_OK;
            const int pick = pick_from(bits[0]);
            if (constraint_status(run[0], 0) || pick < 0) break;
            if (step % 4 == 0) kit_check_mask(run[step % WAYS], text);
            for (int i = 0; i < WAYS; i++)
                check(constraint_take(run[i], 0, pick), "token %d", pick);
        }
        for (int i = 0; i < WAYS; i++) {
            constraint_close(run[i]);
            constraint_release(c[i]);
        }
    }
    check(n_parts > 0, "no mask took more than a part");
    (void)n_failed;
}

// A call does about as much work as it is allowed to, and a mask that is found costs none.
CASE(work_is_bounded_and_counted) {
    char text[SOURCE];
    for (int kind = 0; kind < 6; kind++) {
        write_source(kind, text);
        struct constraint *c = compile_again(text);
        struct constraint_run *run;
        check(!constraint_open(c, 1, &run, NULL), "open");
        check(constraint_feed(run, 0, "", 0) && !constraint_prepare(run, 0, 0), "nothing is there");
        const uint64_t slice = constraint_slice(run);
        uint64_t before = constraint_spent(run, 0), calls = 0;
        check(before < 100000, "%llu units without a mask", (unsigned long long)before);
        for (bool is_made = false; !is_made; calls++) {
            is_made = constraint_prepare(run, 0, slice);
            const uint64_t spent = constraint_spent(run, 0) - before;
            check(spent <= 3 * slice + 40000, "%llu units of %llu", (unsigned long long)spent,
                  (unsigned long long)slice);
            before += spent;
        }
        check(constraint_prepare(run, 0, 0) && constraint_spent(run, 0) == before, "it is there");
        constraint_close(run);
        check(!constraint_open(c, 1, &run, NULL), "open");
        constraint_feed(run, 0, "", 0);
        check(kind > 1 || constraint_prepare(run, 0, 0), "%s: another run does not find it", text);
        constraint_close(run);
        constraint_release(c);
    }
}

// The one that was used least recently makes room.
CASE(summaries_have_a_bound) {
    enum { BOUND = 100000 };
    const size_t most = kit_vocab->summary_bytes_max;
    kit_vocab->summary_bytes_max = BOUND;
    for (int i = 0; i < 60; i++) {
        char text[200];
        sprintf(text, "root ::= [^%c%c]* \"%d\"", 'a' + i % 26, 'A' + i % 25, i);
        struct constraint *c = compile_again(text);
        struct constraint_run *run;
        check(!constraint_open(c, 1, &run, NULL), "open");
        kit_check_mask(run, text);
        check(kit_vocab->summary_bytes > 0 && kit_vocab->summary_bytes <= BOUND, "%zu bytes",
              kit_vocab->summary_bytes);
        constraint_close(run);
        constraint_release(c);
    }
    kit_vocab->summary_bytes_max = most;
}

// Calls that move the text drop a mask in the making.
CASE(a_text_may_move_on_without_its_mask) {
    char text[SOURCE];
    write_source(0, text);
    struct constraint *c = compile_again(text);
    struct constraint_run *run;
    check(!constraint_open(c, 1, &run, NULL), "open");
    const rn_constraint hook = constraint_hook(run);
    for (int i = 0; i < 3; i++) {
        check(!constraint_prepare(run, 0, 1), "it is made at once");
        check(constraint_feed(run, 0, "the ", 4), "feed");
        check(!constraint_prepare(run, 0, 1), "it is made at once");
        hook.rollback(hook.ctx, 0, 1);
        check(!constraint_prepare(run, 0, 1), "it is made at once");
        constraint_restart(run, 0);
        hook.rollback(hook.ctx, 0, 1);
    }
    kit_check_mask(run, text);
    check(!constraint_feed(run, 0, "~", 1) && constraint_prepare(run, 0, 0), "no text goes on");
    constraint_close(run);
    constraint_release(c);
}

static int open_kit(void **state) {
    (void)state;
    kit_open(pieces, N_PIECES, 900);
    return 0;
}
static int close_kit(void **state) {
    (void)state;
    kit_close();
    return 0;
}

TEST_PROGRAM(masks) { return cases_run(open_kit, close_kit); }
