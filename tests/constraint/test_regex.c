// Regular expressions against PCRE2: random patterns, random texts, and texts sampled from masks.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "kit.h"

static const char *const pieces[] = {
    "a",  "b", "c",   "ab", "0", "1", "x", "-", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
    "\n", " ", "\xe2"};
enum { N_PIECES = sizeof pieces / sizeof *pieces };

static const char *const atoms[] = {"a",       "b",        "c",       "[ab]",
                                    "[^a]",    ".",        "\\d",     "\\w",
                                    "x",       "\xc3\xa9", "[a-c0]",  "\\W",
                                    "[^\\d-]", "\\u00e9",  "\\x61",   "[\xc3\xa9-\xe2\x82\xac]",
                                    "\\-",     "[^ab\\n]", "(?:ab|c)"};
static const char *const quantifiers[] = {"*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?"};

static void random_pattern(char *out, size_t size, int depth) {
    size_t len = 0;
    out[0] = 0;
    for (int n = 1 + kit_below(4); n > 0 && len + 80 < size; n--) {
        if (depth > 0 && kit_below(4) == 0) {
            char inner[120], other[120];
            random_pattern(inner, sizeof inner, depth - 1);
            random_pattern(other, sizeof other, depth - 1);
            len += (size_t)snprintf(out + len, size - len, kit_below(2) ? "(%s|%s)" : "(?:%s%s)",
                                    inner, other);
            if (len >= size) len = size - 1;
        } else {
            len += (size_t)snprintf(out + len, size - len, "%s",
                                    atoms[kit_below(sizeof atoms / sizeof *atoms)]);
        }
        if (kit_below(3) == 0)
            len +=
                (size_t)snprintf(out + len, size - len, "%s",
                                 quantifiers[kit_below(sizeof quantifiers / sizeof *quantifiers)]);
    }
}

static pcre2_code *peer_compile(const char *pattern) {
    int code;
    PCRE2_SIZE at;
    return pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_ALT_BSUX | PCRE2_DOLLAR_ENDONLY, &code, &at, NULL);
}

static bool peer_matches(pcre2_code *code, const char *text, size_t len) {
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
    const int found =
        pcre2_match(code, (PCRE2_SPTR)text, len, 0, PCRE2_ANCHORED | PCRE2_ENDANCHORED, data, NULL);
    pcre2_match_data_free(data);
    return found >= 0;
}

CASE(random_patterns_match_the_texts_that_pcre2_matches) {
    int both = 0, neither = 0, sampled = 0, refused = 0;
    const int n = test_scale(100, 500, 6000);
    for (int round = 0; round < n; round++) {
        char pattern[200];
        random_pattern(pattern, sizeof pattern, 2);
        pcre2_code *peer = peer_compile(pattern);
        if (!peer) continue;
        struct constraint *c;
        rn_error err = {0};
        if (constraint_compile(kit_vocab, CONSTRAINT_REGEX, pattern, strlen(pattern), NULL, &c,
                               &err)) {
            check(strstr(err.message, "nothing to repeat") || strstr(err.message, "too large"),
                  "%s: %s", pattern, err.message);
            refused++;
            pcre2_code_free(peer);
            continue;
        }
        for (int i = 0; i < 40; i++) {
            char text[64] = "";
            size_t len = 0;
            for (int k = kit_below(7); k > 0; k--) {
                const char *piece = pieces[kit_below(N_PIECES - 1)]; // well-formed
                memcpy(text + len, piece, strlen(piece));
                len += strlen(piece);
            }
            const bool want = peer_matches(peer, text, len);
            check(kit_accepts(c, text, len) == want, "/%s/ \"%.*s\": expected %d", pattern,
                  (int)len, text, want);
            *(want ? &both : &neither) += 1;
        }
        for (int i = 0; i < 4; i++) {
            char text[256];
            size_t len;
            if (!kit_sample(c, text, sizeof text, &len, 12)) continue;
            check(peer_matches(peer, text, len), "/%s/ gave \"%.*s\"", pattern, (int)len, text);
            sampled++;
        }
        constraint_release(c);
        pcre2_code_free(peer);
    }
    check(both > n && neither > n && sampled > n && refused < n / 20, "%d, %d, %d of %d patterns",
          both, neither, sampled, n);
}

// PCRE2 refuses it; ECMAScript reads it as the same with a backslash.
CASE(a_minus_beside_a_class_is_a_character) {
    static const char *const same[][2] = {{"[\\d-b]", "[\\d\\-b]"},
                                          {"[b-\\d]", "[b\\-\\d]"},
                                          {"[^\\w-\\s]", "[^\\w\\-\\s]"},
                                          {"[\\d-a-c]", "[\\d\\-a\\-c]"}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct constraint *c = kit_compile(CONSTRAINT_REGEX, same[i][0]);
        pcre2_code *peer = peer_compile(same[i][1]);
        for (char text = 1; text < 127; text++)
            check(kit_accepts(c, &text, 1) == peer_matches(peer, &text, 1), "%s: '%c'", same[i][0],
                  text);
        pcre2_code_free(peer);
        constraint_release(c);
    }
}

CASE(long_repetitions_are_counted) {
    struct constraint *c = kit_compile(CONSTRAINT_REGEX, "x[ab\xc3\xa9]{40,1000}y");
    check(constraint_size(c).states < 20, "%u states", constraint_size(c).states);
    char text[2100] = "x";
    size_t len = 1;
    for (int n = 0; n <= 1002; n++) {
        text[len] = 'y';
        const bool want = n >= 40 && n <= 1000;
        check(kit_accepts(c, text, len + 1) == want, "%d characters", n);
        const char *unit = n % 3 == 0 ? "\xc3\xa9" : "a";
        memcpy(text + len, unit, strlen(unit));
        len += strlen(unit);
    }
    constraint_release(c);
}

// The second pattern has the same unit, and other bytes behind it.
CASE(masks_of_counted_text_are_exact_near_its_bounds) {
    static const char *const patterns[] = {"x[^y]{40,70}(y|ab)c*", "x[^y]{40,70}[b-]+c"};
    for (int i = 0; i < 2; i++) {
        struct constraint *c = kit_compile(CONSTRAINT_REGEX, patterns[i]);
        struct constraint_run *run;
        check(!constraint_open(c, 1, &run, NULL) && constraint_feed(run, 0, "x", 1), "open");
        for (int n = 0; n <= 70; n++) {
            kit_check_mask(run, patterns[i]);
            const char *unit = n % 7 ? "c" : "\xc3\xa9";
            if (n < 70) check(constraint_feed(run, 0, unit, strlen(unit)), "%d", n);
        }
        constraint_close(run);
        constraint_release(c);
    }
}

CASE(blanks_are_those_of_ecmascript) {
    struct constraint *c = kit_compile(CONSTRAINT_REGEX, "\\s");
    struct constraint *other = kit_compile(CONSTRAINT_REGEX, "\\S");
    static const char *const text[] = {
        " ", "\n", "\xc2\xa0", "\xe2\x80\xa8", "\xef\xbb\xbf", "a", "\xe2\x80\x8b"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        check(kit_accepts(c, text[i], strlen(text[i])) == (i < 5), "%zu", i);
        check(kit_accepts(other, text[i], strlen(text[i])) == (i >= 5), "%zu", i);
    }
    constraint_release(c);
    constraint_release(other);
}

static const struct refusal {
    const char *pattern, *message;
} refusals[] = {
    {"a(?=b)", "offset 1: lookaround is not supported"},
    {"a(?<!b)", "offset 1: lookaround is not supported"},
    {"(a)\\1", "offset 3: backreferences are not supported"},
    {"\\bfoo", "offset 0: word boundaries are not supported"},
    {"a**", "offset 2: nothing to repeat"},
    {"[b-a]", "offset 1: a range whose end is before its start"},
    {"(a", "offset 0: a group without its end"},
    {"a)", "offset 1: a closing bracket without its opening one"},
    {"[a", "offset 0: a class without its end"},
    {"(^a)", "offset 1: an anchor inside a group is not supported"},
    {"a$b", "offset 2: text behind the anchor '$'"},
    {"\\p{L}", "offset 0: classes by Unicode property are not supported"},
    {"((a{1,30}){1,30}){1,4000}", "the constraint is too large"},
    {"[]", "the constraint allows no text"},
    {"a[]{99}|b[]{40,}", "the constraint allows no text"},
    {"a{5000,}b(ab){5000}", "a repetition of 5000 times, expected at most 4096"},
};

CASE(unsupported_constructs_are_refused_by_their_place) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct constraint *c;
        rn_error err = {0};
        const char *pattern = refusals[i].pattern;
        const rn_status status = constraint_compile(kit_vocab, CONSTRAINT_REGEX, pattern,
                                                    strlen(pattern), NULL, &c, &err);
        check(status == RN_ERR_ARG && !c, "%s: status %d", pattern, status);
        check(strstr(err.message, refusals[i].message), "%s: \"%s\"", pattern, err.message);
    }
}

static int open_kit(void **state) {
    kit_open(pieces, N_PIECES, 300);
    return 0;
}
static int close_kit(void **state) {
    kit_close();
    return 0;
}

TEST_PROGRAM(regex) { return cases_run(open_kit, close_kit); }
