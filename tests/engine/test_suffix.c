// The index of a text and the ring of recent texts, against plain searches of all places. The
// result is the longest past that agrees, and never comes from texts of another salt.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "engine/draft/suffix.h"

#define RANDOM_SEED 0x5aff1ce5u
#include "random.h"

enum { MAX_DRAFT = 31 };

static int least(int a, int b) { return a < b ? a : b; }

// --- the index of one text ---

// The longest of the latest SUFFIX_CHAIN places whose past ends in the same two tokens.
static struct suffix_match plain_find(const int32_t *token, int n_token) {
    struct suffix_match best = {0};
    int n_places = 0;
    for (int at = n_token - 1; at >= 2; at--) {
        int n = 0;
        while (n < least(at, SUFFIX_MOST) && token[at - 1 - n] == token[n_token - 1 - n]) n++;
        if (n < SUFFIX_LEAST) continue;
        if (++n_places <= SUFFIX_CHAIN && n > best.length)
            best = (struct suffix_match){.length = n, .at = at};
    }
    return best;
}

static void check_find(const struct suffix_index *index, const int32_t *token, int n_token) {
    const struct suffix_match want = plain_find(token, n_token);
    const struct suffix_match got = suffix_find(index, token, n_token);
    check(got.length == want.length && got.at == want.at, "%d tokens: %d at %d, not %d at %d",
          n_token, got.length, got.at, want.length, want.at);
}

// Few tokens, and runs that are copied from before: places abound, and so do long ones.
static int32_t next_token(const int32_t *token, int n_token, int n_ids) {
    static int from = -1;
    if (from < 0 || from >= n_token || below(12) == 0)
        from = n_token > 0 && below(2) ? below(n_token) : -1;
    return from >= 0 ? token[from++] : below(n_ids);
}

CASE(what_is_found_is_the_longest_and_latest) {
    enum { N = 400 };
    int32_t token[N];
    for (int round = 0; round < 300; round++) {
        const int n_ids = 1 + below(round % 2 ? 4 : 60);
        struct suffix_index index;
        // as many hashes as there can be: pairs with equal ones would take places of the bound
        assert_int_equal(suffix_init(&index, 65536, NULL), RN_OK);
        for (int n = 0; n < N; n++) {
            token[n] = next_token(token, n, n_ids);
            suffix_add(&index, token, n + 1, 1);
            check_find(&index, token, n + 1);
        }
        suffix_deinit(&index);
    }
}

CASE(texts_of_no_or_few_tokens_have_no_match) {
    const int32_t token[] = {7, 7, 7, 7};
    struct suffix_index index;
    assert_int_equal(suffix_init(&index, 4, NULL), RN_OK);
    for (int n = 0; n <= 2; n++) {
        suffix_add(&index, token, n, 100);
        assert_int_equal(suffix_find(&index, token, n).length, 0);
    }
    suffix_add(&index, token, 3, 100);
    const struct suffix_match match = suffix_find(&index, token, 3);
    assert_int_equal(match.length, 2);
    assert_int_equal(match.at, 2);
    suffix_deinit(&index);
}

CASE(a_long_text_is_indexed_in_parts_as_at_once) {
    enum { N = 1000 };
    int32_t token[N];
    for (int i = 0; i < N; i++) token[i] = next_token(token, i, 5);
    struct suffix_index whole, parts;
    assert_int_equal(suffix_init(&whole, N, NULL), RN_OK);
    assert_int_equal(suffix_init(&parts, N, NULL), RN_OK);
    suffix_add(&whole, token, N, N);
    for (int n = 0; n < N; n = least(n + 7, N)) {
        assert_int_equal(parts.n_token, n);
        suffix_add(&parts, token, N, 7);
    }
    assert_int_equal(parts.n_token, N);
    assert_memory_equal(whole.head, parts.head, (size_t)whole.n_head * sizeof *whole.head);
    assert_memory_equal(whole.prev + 1, parts.prev + 1, (N - 1) * sizeof *whole.prev);
    suffix_deinit(&whole);
    suffix_deinit(&parts);
}

// The best place of a text in which two tokens occur n_worse times after it: no more places are
// looked at than the bound says, and no fewer.
static struct suffix_match find_behind(int n_worse) {
    enum { MAX = 4 * 64 + 16 };
    int32_t token[MAX];
    int n = 0;
    for (int i = 0; i < 4; i++) token[n++] = 10 + i; // 10 11 12 13: the tokens that the end repeats
    for (int i = 0; i < n_worse; i++) {
        token[n++] = 1000 + i;
        token[n++] = 12;
        token[n++] = 13;
    }
    for (int i = 0; i < 4; i++) token[n++] = 10 + i;
    struct suffix_index index;
    // more hashes than pairs by far: none of the others falls into the chain
    assert_int_equal(suffix_init(&index, 65536, NULL), RN_OK);
    suffix_add(&index, token, n, n);
    const struct suffix_match match = suffix_find(&index, token, n);
    suffix_deinit(&index);
    return match;
}

CASE(places_beyond_the_bound_are_not_looked_at) {
    assert_int_equal(find_behind(SUFFIX_CHAIN - 1).length, 4);
    assert_int_equal(find_behind(SUFFIX_CHAIN - 1).at, 4);
    assert_int_equal(find_behind(SUFFIX_CHAIN).length, 2);
}

CASE(one_token_100000_times_matches_at_its_end) {
    enum { N = 100000 };
    int32_t *const token = malloc(N * sizeof *token);
    assert_non_null(token);
    for (int i = 0; i < N; i++) token[i] = 5;
    struct suffix_index index;
    assert_int_equal(suffix_init(&index, N, NULL), RN_OK);
    for (int n = 1; n <= N; n++) {
        suffix_add(&index, token, n, 1);
        const struct suffix_match match = suffix_find(&index, token, n);
        assert_int_equal(match.length, n < 3 ? 0 : least(n - 1, SUFFIX_MOST));
        assert_int_equal(match.at, n < 3 ? 0 : n - 1);
    }
    suffix_deinit(&index);
    free(token);
}

// --- the ring of recent texts ---

enum { MAX_TEXT = 250, MAX_TEXTS = 2000 };

struct plain_text {
    int32_t token[MAX_TEXT];
    int n;
    char salt[4];
    size_t n_salt;
};

// All texts that were ever added, and which of them a ring keeps.
struct plain_ring {
    struct plain_text *text; // [MAX_TEXTS]
    int first, n;            // kept: [first, n)
    int max_tokens;
};

static bool same_salt(const struct plain_text *text, const char *salt, size_t n_salt) {
    return text->n_salt == n_salt && memcmp(text->salt, salt, n_salt) == 0;
}

static void plain_add(struct plain_ring *ring, const int32_t *token, int n_token, const char *salt,
                      size_t n_salt) {
    const int n = least(n_token, ring->max_tokens / 4);
    if (n <= SUFFIX_LEAST) return;
    struct plain_text *const text = &ring->text[ring->n++];
    memcpy(text->token, token + n_token - n, (size_t)n * sizeof *token);
    text->n = n;
    memcpy(text->salt, salt, n_salt);
    text->n_salt = n_salt;
    const int max_texts = (ring->max_tokens + SUFFIX_TEXT_TOKENS - 1) / SUFFIX_TEXT_TOKENS;
    int used = 0;
    for (int i = ring->first; i < ring->n; i++) used += ring->text[i].n + 1;
    while (used > ring->max_tokens || ring->n - ring->first > max_texts)
        used -= ring->text[ring->first++].n + 1;
}

static int plain_texts_find(const struct plain_ring *ring, const int32_t *token, int n_token,
                            const char *salt, size_t n_salt, int32_t *out, int most, int *length) {
    const struct plain_text *best = NULL;
    int best_at = 0, n_places = 0;
    *length = 0;
    for (int i = ring->n - 1; i >= ring->first; i--) {
        const struct plain_text *const text = &ring->text[i];
        if (!same_salt(text, salt, n_salt)) continue;
        for (int at = text->n - 1; at >= SUFFIX_LEAST; at--) {
            int n = 0;
            while (n < least(least(at, n_token), SUFFIX_MOST) &&
                   text->token[at - 1 - n] == token[n_token - 1 - n])
                n++;
            if (n >= SUFFIX_LEAST && ++n_places <= SUFFIX_CHAIN && n > *length)
                *length = n, best = text, best_at = at;
        }
    }
    if (!best) return 0;
    const int n = least(most, best->n - best_at);
    memcpy(out, best->token + best_at, (size_t)n * sizeof *out);
    return n;
}

static const char *const salts[] = {"", "a", "ab", "abc", "\0\0"};
static const size_t salt_bytes[] = {0, 1, 2, 3, 2};

// A few tokens of a kept text, so that long matches are asked for, or any.
static int make_query(const struct plain_ring *ring, int n_ids, int32_t *token) {
    int n = below(80);
    for (int i = 0; i < n; i++) token[i] = below(n_ids);
    if (ring->n == ring->first || below(4) == 0) return n;
    const struct plain_text *const text = &ring->text[ring->first + below(ring->n - ring->first)];
    const int from = below(text->n), n_more = 1 + below(least(text->n - from, 90));
    memcpy(token + n, text->token + from, (size_t)n_more * sizeof *token);
    return n + n_more;
}

static void check_texts_find(const struct suffix_texts *texts, const struct plain_ring *ring,
                             int n_ids, int salt) {
    int32_t token[256], want[MAX_DRAFT], got[MAX_DRAFT];
    const int n = make_query(ring, n_ids, token), most = 1 + below(MAX_DRAFT);
    int want_length, got_length;
    const int n_want =
        plain_texts_find(ring, token, n, salts[salt], salt_bytes[salt], want, most, &want_length);
    const int n_got =
        suffix_texts_find(texts, token, n, salts[salt], salt_bytes[salt], got, most, &got_length);
    check(n_got == n_want && got_length == want_length, "%d tokens, %d agree; not %d, %d", n_got,
          got_length, n_want, want_length);
    if (n_got > 0) assert_memory_equal(got, want, (size_t)n_got * sizeof *got);
}

CASE(the_ring_finds_what_a_plain_search_of_its_texts_does) {
    struct plain_ring ring = {.text = malloc(MAX_TEXTS * sizeof *ring.text)};
    assert_non_null(ring.text);
    for (int round = 0; round < 12; round++) {
        // a power of two may be full to the last slot
        ring.max_tokens = round % 3 ? 512 : 150 + below(1000);
        struct suffix_texts *texts;
        assert_int_equal(suffix_texts_create(ring.max_tokens, &texts, NULL), RN_OK);
        ring.first = ring.n = 0;
        const int n_ids = 1 + below(round % 2 ? 3 : 20);
        for (int i = 0; i < 600; i++) {
            int32_t token[MAX_TEXT];
            const int n = below(below(4) ? 40 : MAX_TEXT), salt = below(5);
            for (int j = 0; j < n; j++) token[j] = next_token(token, j, n_ids);
            suffix_texts_add(texts, token, n, salts[salt], salt_bytes[salt]);
            plain_add(&ring, token, n, salts[salt], salt_bytes[salt]);
            for (int j = 0; j < 5; j++) check_texts_find(texts, &ring, n_ids, j);
        }
        suffix_texts_destroy(texts);
    }
    free(ring.text);
}

// Two rings get the same texts of one salt; one gets others' as well, between them. While no text
// of the salt had to go for those, nothing tells the rings apart.
CASE(texts_of_other_salts_change_nothing_but_how_long_texts_are_kept) {
    enum { LARGE = 1 << 16, N = 60 };
    struct suffix_texts *alone, *among;
    assert_int_equal(suffix_texts_create(LARGE, &alone, NULL), RN_OK);
    assert_int_equal(suffix_texts_create(LARGE, &among, NULL), RN_OK);
    int n_found = 0;
    for (int i = 0; i < 100; i++) {
        int32_t token[N];
        for (int j = 0; j < N; j++) token[j] = next_token(token, j, 3);
        suffix_texts_add(alone, token, N, "mine", 4);
        suffix_texts_add(among, token, N, "mine", 4);
        for (int k = 0; k < 7; k++) {
            char salt[8];
            const int n_salt = snprintf(salt, sizeof salt, "%d", k);
            for (int j = 0; j < N; j++) token[j] = next_token(token, j, 3);
            suffix_texts_add(among, token, N, salt, (size_t)n_salt);
        }
        for (int k = 0; k < 20; k++) {
            const int n = 2 + below(8);
            int32_t a[MAX_DRAFT], b[MAX_DRAFT];
            for (int j = 0; j < n; j++) token[j] = below(3);
            int a_length, b_length;
            const int n_a = suffix_texts_find(alone, token, n, "mine", 4, a, MAX_DRAFT, &a_length);
            const int n_b = suffix_texts_find(among, token, n, "mine", 4, b, MAX_DRAFT, &b_length);
            assert_int_equal(n_a, n_b);
            assert_int_equal(a_length, b_length);
            if (n_a > 0) assert_memory_equal(a, b, (size_t)n_a * sizeof *a);
            n_found += n_a > 0;
        }
    }
    assert_true(n_found > 1000);
    suffix_texts_destroy(alone);
    suffix_texts_destroy(among);
}

CASE(a_salt_that_begins_like_another_is_another) {
    const int32_t token[] = {1, 2, 3, 4};
    struct suffix_texts *texts;
    assert_int_equal(suffix_texts_create(1000, &texts, NULL), RN_OK);
    suffix_texts_add(texts, token, 4, "user", 4);
    int32_t out[4];
    int length;
    assert_int_equal(suffix_texts_find(texts, token, 2, "user", 4, out, 4, &length), 2);
    assert_int_equal(length, 2);
    assert_int_equal(suffix_texts_find(texts, token, 2, "user", 3, out, 4, &length), 0);
    assert_int_equal(suffix_texts_find(texts, token, 2, "user\0", 5, out, 4, &length), 0);
    assert_int_equal(suffix_texts_find(texts, token, 2, NULL, 0, out, 4, &length), 0);
    suffix_texts_destroy(texts);
}

CASE(texts_and_queries_that_are_too_short_find_nothing) {
    const int32_t token[] = {1, 1, 1};
    struct suffix_texts *texts;
    assert_int_equal(suffix_texts_create(1000, &texts, NULL), RN_OK);
    int32_t out[4];
    int length;
    for (int n = 0; n < 3; n++) {
        suffix_texts_add(texts, token, n, "", 0);
        assert_int_equal(suffix_texts_find(texts, token, 3, "", 0, out, 4, &length), 0);
    }
    suffix_texts_add(texts, token, 3, "", 0);
    for (int n = 0; n < 2; n++)
        assert_int_equal(suffix_texts_find(texts, token, n, "", 0, out, 4, &length), 0);
    assert_int_equal(suffix_texts_find(texts, token, 3, "", 0, out, 4, &length), 1);
    assert_int_equal(length, 2); // later tokens are not a part of the past
    suffix_texts_destroy(texts);
    // a ring too small for any text
    assert_int_equal(suffix_texts_create(8, &texts, NULL), RN_OK);
    suffix_texts_add(texts, token, 3, "", 0);
    assert_int_equal(suffix_texts_find(texts, token, 3, "", 0, out, 4, &length), 0);
    suffix_texts_destroy(texts);
}

CASE(a_ring_that_is_too_large_is_refused) {
    struct suffix_texts *texts;
    rn_error err = {0};
    assert_int_equal(suffix_texts_create(INT32_MAX, &texts, &err), RN_ERR_ARG);
    assert_null(texts);
    assert_non_null(strstr(err.message, "2147483647"));
}

TEST_PROGRAM(suffix) { return cases_run(NULL, NULL); }
