// See marks.h.
#define _GNU_SOURCE // memmem
#include "engine/choice/marks.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT_MAX = 8 };

static rn_status no_memory(rn_error *err) {
    return err_set(err, RN_ERR_NOMEM, "no memory for the marks of a reasoning");
}

// ---------------------------------------------------------------- lists of tokens

static rn_status list_add(int32_t **list, int *n, int32_t id, rn_error *err) {
    if ((*n & (*n - 1)) == 0) { // full at every power of two
        int32_t *grown = realloc(*list, (size_t)(*n ? 2 * *n : 1) * sizeof *grown);
        if (!grown) return no_memory(err);
        *list = grown;
    }
    (*list)[(*n)++] = id;
    return RN_OK;
}

// Whether one of the two texts starts with the other.
static bool agree(const char *a, size_t n_a, const char *b, size_t n_b) {
    return memcmp(a, b, n_a < n_b ? n_a : n_b) == 0;
}

static bool may_open(const struct reasoning_rule *rule, struct text_span text) {
    const size_t len = text.len;
    while (text.len && reasoning_is_blank(*text.data)) text.data++, text.len--;
    if (text.len == 0) return len > 0 && len <= REASONING_BLANKS;
    for (size_t at = 0; at < rule->n_open; at++)
        if (agree(text.data, text.len, rule->open + at, rule->n_open - at)) return true;
    return false;
}

static bool may_close(const struct reasoning_rule *rule, struct text_span text) {
    if (text.len > 1 && memchr(text.data, rule->last.text[rule->n_close - 1], text.len - 1))
        return true;
    for (int i = 0; text.len && i < rule->n_answer; i++)
        if (memchr(text.data, rule->answer[i].text[rule->answer[i].len - 1], text.len)) return true;
    return false;
}

static bool has_mark(const struct reasoning_rule *rule, struct text_span text) {
    if (memmem(text.data, text.len, rule->last.text, rule->n_close)) return true;
    for (int i = 0; i < rule->n_answer; i++)
        if (memmem(text.data, text.len, rule->answer[i].text, rule->answer[i].len)) return true;
    return false;
}

static void put_whole_first(struct marks *marks, const struct reasoning_rule *rule) {
    for (int i = 0; i < marks->n_closing; i++) {
        const int32_t id = marks->closing[i];
        if (!has_mark(rule, tokenizer_bytes(rule->tokenizer, id))) continue;
        marks->closing[i] = marks->closing[marks->n_whole];
        marks->closing[marks->n_whole++] = id;
    }
}

static rn_status fill(struct marks *marks, const struct reasoning_rule *rule, rn_error *err) {
    const struct tokenizer *tokenizer = rule->tokenizer;
    const int32_t n_vocab = tokenizer_size(tokenizer);
    rn_status s = RN_OK;
    for (int32_t id = 0; id < n_vocab && !s; id++) {
        const struct text_span text = tokenizer_bytes(tokenizer, id);
        if (may_open(rule, text)) s = list_add(&marks->opening, &marks->n_opening, id, err);
        if (!s && may_close(rule, text)) s = list_add(&marks->closing, &marks->n_closing, id, err);
        if (!s && tokenizer_is_end(tokenizer, id))
            s = list_add(&marks->end, &marks->n_end, id, err);
    }
    if (!s) put_whole_first(marks, rule);
    return s;
}

static rn_status create(const struct reasoning_rule *rule, struct marks **out, rn_error *err) {
    struct marks *marks = calloc(1, sizeof *marks);
    if (!marks) return no_memory(err);
    marks->refs = 1;
    marks->open = strndup(rule->open, rule->n_open);
    marks->close = strndup(rule->last.text, rule->n_close);
    marks->n_answer = rule->n_answer;
    bool ok = marks->open && marks->close;
    for (int i = 0; i < rule->n_answer; i++)
        ok = (marks->answer[i] = strdup(rule->answer[i].text)) && ok;
    const rn_status status = ok ? fill(marks, rule, err) : no_memory(err);
    if (status)
        marks_release(marks);
    else
        *out = marks;
    return status;
}

void marks_release(struct marks *marks) {
    if (!marks || atomic_fetch_sub(&marks->refs, 1) > 1) return;
    free(marks->open);
    free(marks->close);
    for (int i = 0; i < marks->n_answer; i++) free(marks->answer[i]);
    free(marks->opening);
    free(marks->closing);
    free(marks->end);
    free(marks);
}

// ---------------------------------------------------------------- kept ones

rn_status marks_kept_init(struct marks_kept *kept, rn_error *err) {
    *kept = (struct marks_kept){0};
    return pthread_mutex_init(&kept->lock, NULL) ? no_memory(err) : RN_OK;
}

void marks_kept_deinit(struct marks_kept *kept) {
    while (kept->first) {
        struct marks *marks = kept->first;
        kept->first = marks->next;
        marks_release(marks);
    }
    pthread_mutex_destroy(&kept->lock);
}

static bool has_marks_of(const struct marks *marks, const struct reasoning_rule *rule) {
    bool same = strlen(marks->close) == rule->n_close && strcmp(marks->open, rule->open) == 0 &&
                memcmp(marks->close, rule->last.text, rule->n_close) == 0 &&
                marks->n_answer == rule->n_answer;
    for (int i = 0; same && i < rule->n_answer; i++)
        same = strcmp(marks->answer[i], rule->answer[i].text) == 0;
    return same;
}

// Takes the lists of the rule's marks out of the kept ones; NULL: there are none.
static struct marks *kept_take(struct marks_kept *kept, const struct reasoning_rule *rule) {
    for (struct marks **at = &kept->first; *at; at = &(*at)->next) {
        struct marks *marks = *at;
        if (!has_marks_of(marks, rule)) continue;
        *at = marks->next;
        return marks;
    }
    return NULL;
}

// To the front; the oldest goes where there are too many.
static void kept_put(struct marks_kept *kept, struct marks *marks) {
    marks->next = kept->first;
    kept->first = marks;
    struct marks **at = &kept->first;
    for (int i = 0; i < KEPT_MAX && *at; i++) at = &(*at)->next;
    marks_release(*at);
    *at = NULL;
}

// Other threads wait for the first one that needs new lists, instead of making them too.
rn_status marks_acquire(struct marks_kept *kept, const struct reasoning_rule *rule,
                        struct marks **out, rn_error *err) {
    rn_status status = RN_OK;
    *out = NULL;
    pthread_mutex_lock(&kept->lock);
    struct marks *marks = kept_take(kept, rule);
    if (!marks) status = create(rule, &marks, err);
    if (!status) {
        kept_put(kept, marks);
        atomic_fetch_add(&marks->refs, 1);
        *out = marks;
    }
    pthread_mutex_unlock(&kept->lock);
    return status;
}
