// Guards in texts. Two sorted lists of the tokenizer tell which places could become a control
// token: the texts of control tokens, and all their endings. A walk down such a list at a place of
// a text says whether an entry stands there, and whether the text ends inside of one.
#include "text/guard.h"

#include <string.h>

#include "text/tokenizer_data.h"
#include "unicode/unicode.h"

enum { GUARD_LEN = sizeof GUARD_TEXT - 1 };

// ---------------------------------------------------------------- places

void guard_list_deinit(struct guard_list *list) {
    free(list->at);
    *list = (struct guard_list){0};
}

bool guard_list_put(struct guard_list *list, size_t at) {
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 64;
        size_t *const grown = capacity > SIZE_MAX / sizeof *grown
                                  ? NULL
                                  : realloc(list->at, capacity * sizeof *grown);
        if (!grown) return false;
        list->at = grown;
        list->capacity = capacity;
    }
    list->at[list->count++] = at;
    return true;
}

// The first guard at `at` or behind it.
static size_t guard_from(const struct guard_list *list, size_t at) {
    size_t low = 0, high = list->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (list->at[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct guard_view guard_list_view(const struct guard_list *list, size_t begin, size_t end) {
    const size_t first = guard_from(list, begin);
    const size_t last = guard_from(list, end + 1);
    return (struct guard_view){list->count ? list->at + first : NULL, last - first, begin};
}

static const char *guard_find(const char *text, const char *end) {
    while (end - text >= GUARD_LEN) {
        text = memchr(text, GUARD_TEXT[0], (size_t)(end - text) - GUARD_LEN + 1);
        if (!text || memcmp(text, GUARD_TEXT, GUARD_LEN) == 0) return text;
        text++;
    }
    return NULL;
}

bool guard_remove(const char *text, size_t len, struct text_buffer *out, struct guard_list *list) {
    const char *const end = text + len;
    const size_t start = out->len;
    for (const char *guard; (guard = guard_find(text, end)); text = guard + GUARD_LEN) {
        if (!text_buffer_put(out, text, (size_t)(guard - text))) return false;
        if (list && !guard_list_put(list, out->len - start)) return false;
    }
    return text_buffer_put(out, text, (size_t)(end - text));
}

// ---------------------------------------------------------------- input

struct ends {
    bool first, last; // the text wants a guard at its start, at its end
};

static bool is_plain_word(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '_' && c != '-')
            return false;
    }
    return true;
}

// Whether the text ends, or starts, inside of a control token's.
static struct ends ends_of(const struct guard_texts *texts, const char *text, size_t len) {
    if (len == 0 || is_plain_word(text, len)) return (struct ends){0};
    const struct special_reach reach = special_reach(&texts->tail, text, len);
    struct ends ends = {.first = reach.is_there || reach.goes_on};
    const size_t from = len > texts->max_len ? len - texts->max_len : 0;
    for (size_t at = from; at < len && !ends.last; at++)
        ends.last = special_reach(&texts->whole, text + at, len - at).goes_on;
    return ends;
}

static bool has_occurrence(const struct guard_texts *texts, const char *text, size_t len) {
    for (size_t at = 0; at < len; at++)
        if (special_reach(&texts->whole, text + at, len - at).is_there) return true;
    return false;
}

// Normalization may make markup of a text that has none. Nothing in it can then be told apart, so
// every character gets its guards.
static rn_status check_normalized(const struct tokenizer *tokenizer, const char *text, size_t len,
                                  bool *all, rn_error *err) {
    const struct guard_texts *const texts = &tokenizer->control[1];
    *all = false;
    if (texts->whole.count == 0 || len == 0) return RN_OK;
    struct normal_scratch scratch = {0};
    const uint8_t *normal;
    size_t normal_len;
    const rn_status status = normalizer_run(&tokenizer->normalizer, &scratch, (const uint8_t *)text,
                                            len, NORMAL_BARE, &normal, &normal_len, err);
    if (status == RN_OK && (normal_len != len || memcmp(normal, text, len) != 0)) {
        const struct ends ends = ends_of(texts, (const char *)normal, normal_len);
        *all = ends.first || ends.last || has_occurrence(texts, (const char *)normal, normal_len);
    }
    normal_scratch_deinit(&scratch);
    return status;
}

static bool put_guards(struct text_buffer *out, int n) {
    bool ok = true;
    for (int i = 0; i < n; i++) ok = ok && text_buffer_put(out, GUARD_TEXT, GUARD_LEN);
    return ok;
}

static bool put_all(const struct guard_texts *texts, const char *text, size_t len, bool all,
                    struct text_buffer *out) {
    const struct ends ends = ends_of(texts, text, len);
    bool ok = put_guards(out, ends.first || all);
    for (size_t at = 0, n; at < len && ok; at += n) {
        unicode_decode((const uint8_t *)text + at, len - at, &n);
        const struct special_reach reach = special_reach(&texts->whole, text + at, len - at);
        const int guards = all || (reach.is_there && reach.shortest <= n) ? 2 : reach.is_there;
        ok = text_buffer_put(out, text + at, n) && put_guards(out, guards);
    }
    return ok && put_guards(out, ends.last);
}

rn_status guard_put(const struct tokenizer *tokenizer, const char *text, size_t len,
                    struct text_buffer *out, rn_error *err) {
    struct text_buffer clean = {0};
    bool all = false;
    rn_status status = RN_OK;
    bool ok = guard_remove(text, len, &clean, NULL);
    const char *const data = clean.len ? (const char *)clean.data : "";
    if (ok) status = check_normalized(tokenizer, data, clean.len, &all, err);
    if (ok && status == RN_OK) ok = put_all(&tokenizer->control[0], data, clean.len, all, out);
    text_buffer_deinit(&clean);
    if (!ok) return err_set(err, RN_ERR_NOMEM, "no memory for %zu bytes of text", len);
    return status;
}

rn_status guard_input(const struct tokenizer *tokenizer, const char *text, const uint8_t *marks,
                      size_t len, struct text_buffer *out, rn_error *err) {
    rn_status status = RN_OK;
    for (size_t from = 0, to; from < len && status == RN_OK; from = to) {
        for (to = from; to < len && !marks[to] == !marks[from];) to++;
        if (marks[from])
            status = guard_put(tokenizer, text + from, to - from, out, err);
        else if (!text_buffer_put(out, text + from, to - from))
            status = err_set(err, RN_ERR_NOMEM, "no memory for %zu bytes of text", len);
    }
    return status;
}
