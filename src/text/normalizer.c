// The steps of normalization, each from one text to the next; two buffers take turns. A step that
// changes nothing costs a look at the text and no copy. The growth of a text is bounded for every
// file.
#define _GNU_SOURCE // memmem
#include "text/normalizer.h"

#include <stdio.h>

#include "text/unicode_form.h"
#include "unicode/unicode.h"

enum { GROWTH_FACTOR = 64, GROWTH_BASE = 1 << 16 }; // of a text, in bytes

static rn_status no_memory(rn_error *err, size_t len) {
    return err_set(err, RN_ERR_NOMEM, "out of memory for %zu bytes of text", len);
}

struct state {
    struct normal_scratch *scratch;
    int turn; // the buffer that the next step writes
    const uint8_t *text;
    size_t len, limit;
    rn_error *err;
};

static struct text_buffer *begin(struct state *s) {
    struct text_buffer *const out = &s->scratch->buffer[s->turn];
    out->len = 0;
    return out;
}

static rn_status finish(struct state *s, const struct text_buffer *out) {
    if (out->len > s->limit)
        return err_set(s->err, RN_ERR_ARG, "normalization makes %zu bytes of text, at most %zu",
                       out->len, s->limit);
    s->text = out->data;
    s->len = out->len;
    s->turn ^= 1;
    return RN_OK;
}

static rn_status form_run(struct state *s, enum unicode_form_kind form) {
    if (unicode_form_has(form, s->text, s->len)) return RN_OK;
    struct text_buffer *const out = begin(s);
    if (!unicode_form_put(form, s->text, s->len, out)) return no_memory(s->err, s->len);
    return finish(s, out);
}

static bool prepend_put(struct text_buffer *out, struct text_span prefix, const uint8_t *text,
                        size_t len) {
    return text_buffer_reserve(out, prefix.len + len) &&
           text_buffer_put(out, prefix.data, prefix.len) && text_buffer_put(out, text, len);
}

static rn_status prepend_run(struct state *s, struct text_span prefix) {
    if (s->len == 0 || prefix.len == 0) return RN_OK;
    struct text_buffer *const out = begin(s);
    if (!prepend_put(out, prefix, s->text, s->len)) return no_memory(s->err, s->len);
    return finish(s, out);
}

rn_status normalizer_prefix(const struct normalizer *normalizer, struct normal_scratch *scratch,
                            bool is_first, const uint8_t **text, size_t *len, rn_error *err) {
    const struct text_span to = normalizer->prefix.to;
    if (to.len == 0 || *len == 0) return RN_OK;
    if (normalizer->prefix.kind == NORMAL_PREPEND_FIRST && !is_first) return RN_OK;
    if (*len >= to.len && memcmp(*text, to.data, to.len) == 0) return RN_OK;
    struct text_buffer *const out = &scratch->prefixed;
    out->len = 0;
    if (!prepend_put(out, to, *text, *len)) return no_memory(err, *len);
    *text = out->data;
    *len = out->len;
    return RN_OK;
}

// Appends the text before a match, and the match's replacement.
static bool replace_put(struct state *s, struct text_buffer *out, size_t from, size_t match,
                        struct text_span to) {
    return text_buffer_put(out, s->text + from, match - from) &&
           text_buffer_put(out, to.data, to.len);
}

static rn_status replace_run(struct state *s, struct text_span from, struct text_span to) {
    struct text_buffer *out = NULL;
    size_t at = 0;
    while (from.len > 0) {
        const uint8_t *const found = from.len == 1
                                         ? memchr(s->text + at, from.data[0], s->len - at)
                                         : memmem(s->text + at, s->len - at, from.data, from.len);
        if (!found) break;
        if (!out) out = begin(s);
        const size_t match = (size_t)(found - s->text);
        if (!replace_put(s, out, at, match, to)) return no_memory(s->err, s->len);
        if (out->len > s->limit) return finish(s, out);
        at = match + from.len;
    }
    if (!out) return RN_OK;
    if (!text_buffer_put(out, s->text + at, s->len - at)) return no_memory(s->err, s->len);
    return finish(s, out);
}

static rn_status regex_run(struct state *s, const struct normal_step *step) {
    struct regex_search *const search = &s->scratch->search;
    struct text_buffer *const out = begin(s);
    rn_status status = regex_search_begin(search, step->regex, s->text, s->len, s->err);
    size_t at = 0, from = 0, match, end;
    bool found = true, any = false;
    while (status == RN_OK && from <= s->len) {
        status = regex_find(search, from, &match, &end, &found, s->err);
        if (status != RN_OK || !found) break;
        size_t n = 1;
        if (end < s->len) unicode_decode(search->text + end, s->len - end, &n);
        from = match == end ? end + n : end;
        if (match == end && any && end == at) continue; // an empty match right behind another
        if (!replace_put(s, out, at, match, step->to)) return no_memory(s->err, s->len);
        if (out->len > s->limit) return finish(s, out);
        at = end;
        any = true;
    }
    if (status != RN_OK || !any) return status;
    if (!text_buffer_put(out, s->text + at, s->len - at)) return no_memory(s->err, s->len);
    return finish(s, out);
}

static void strip_left(struct state *s) {
    size_t n;
    while (s->len > 0 && unicode_traits_at(s->text, s->len, &n) & UNICODE_SPACE) {
        s->text += n;
        s->len -= n;
    }
}

static void strip_right(struct state *s) {
    while (s->len > 0) {
        size_t back = 1, n;
        while (back < s->len && back < 4 && (s->text[s->len - back] & 0xC0) == 0x80) back++;
        if (!(unicode_traits_at(s->text + s->len - back, back, &n) & UNICODE_SPACE) || n != back)
            return;
        s->len -= back;
    }
}

static rn_status step_run(struct state *s, const struct normal_step *step,
                          enum normal_place place) {
    switch (step->kind) {
    case NORMAL_NFC:
        return form_run(s, UNICODE_NFC);
    case NORMAL_NFD:
        return form_run(s, UNICODE_NFD);
    case NORMAL_NFKC:
        return form_run(s, UNICODE_NFKC);
    case NORMAL_NFKD:
        return form_run(s, UNICODE_NFKD);
    case NORMAL_LOWERCASE:
        return form_run(s, UNICODE_LOWERCASE);
    case NORMAL_REPLACE:
        return replace_run(s, step->from, step->to);
    case NORMAL_REPLACE_REGEX:
        return regex_run(s, step);
    case NORMAL_PREPEND:
        return place == NORMAL_BARE ? RN_OK : prepend_run(s, step->to);
    case NORMAL_STRIP_LEFT:
        strip_left(s);
        return RN_OK;
    case NORMAL_STRIP_RIGHT:
        strip_right(s);
        return RN_OK;
    case NORMAL_PREPEND_FIRST: // the prefix
    case NORMAL_PREPEND_ONCE:
    case NORMAL_UNSUPPORTED:
        break;
    }
    return RN_OK;
}

rn_status normalizer_run(const struct normalizer *normalizer, struct normal_scratch *scratch,
                         const uint8_t *text, size_t len, enum normal_place place,
                         const uint8_t **out, size_t *out_len, rn_error *err) {
    struct state s = {.scratch = scratch, .text = text, .len = len, .err = err};
    s.limit = len > (SIZE_MAX - GROWTH_BASE) / GROWTH_FACTOR ? SIZE_MAX
                                                             : len * GROWTH_FACTOR + GROWTH_BASE;
    for (size_t i = 0; i < normalizer->n_step; i++) {
        const rn_status status = step_run(&s, &normalizer->step[i], place);
        if (status != RN_OK) return status;
    }
    *out = s.text;
    *out_len = s.len;
    return RN_OK;
}

void normal_scratch_deinit(struct normal_scratch *scratch) {
    text_buffer_deinit(&scratch->buffer[0]);
    text_buffer_deinit(&scratch->buffer[1]);
    text_buffer_deinit(&scratch->prefixed);
    regex_search_deinit(&scratch->search);
}

// ---------------------------------------------------------------- from a vocabulary

static rn_status span_copy(struct arena *arena, struct text_span *span, rn_error *err) {
    const char *const copy = arena_strdup(arena, span->data, span->len);
    if (!copy) return err_set(err, RN_ERR_NOMEM, "out of memory for a normalizer");
    span->data = copy;
    return RN_OK;
}

static void name_unsupported(struct text_span name, const char *why, char *out, size_t size) {
    if (out[0]) return; // the first one is named
    char quoted[64];
    unicode_quote(name.data, name.len, quoted, sizeof quoted);
    snprintf(out, size, "normalizer '%s' is not supported%s%.40s", quoted, why[0] ? ": " : "", why);
}

rn_status normalizer_init(struct normalizer *normalizer, const struct vocab_source *source,
                          struct arena *arena, char *unsupported, size_t size, rn_error *err) {
    *normalizer = (struct normalizer){0};
    for (int32_t i = 0; i < source->n_normal; i++) {
        const struct vocab_normal *const normal = &source->normal[i];
        if ((unsigned)normal->kind > NORMAL_UNSUPPORTED)
            return err_set(err, RN_ERR_MODEL, "a normalizer of the unknown kind %d",
                           (int)normal->kind);
        struct normal_step step = {normal->kind, normal->from, normal->to, NULL};
        rn_status status = span_copy(arena, &step.from, err);
        if (status == RN_OK) status = span_copy(arena, &step.to, err);
        if (status != RN_OK) return status;
        rn_error why = {0};
        if (normal->kind == NORMAL_REPLACE_REGEX)
            status = regex_create(step.from, &step.regex, &why);
        if (status != RN_OK && status != RN_ERR_UNSUPPORTED)
            return err_set(err, status, "%s", why.message);
        if (status != RN_OK || normal->kind == NORMAL_UNSUPPORTED) {
            name_unsupported(step.from, why.message, unsupported, size);
        } else if (normal->kind == NORMAL_PREPEND_FIRST || normal->kind == NORMAL_PREPEND_ONCE) {
            normalizer->prefix = step;
        } else if (normalizer->n_step == NORMAL_MAX_STEPS) {
            name_unsupported(step.from, "there are more than 32 steps", unsupported, size);
            regex_destroy(step.regex);
        } else {
            normalizer->step[normalizer->n_step++] = step;
        }
    }
    return RN_OK;
}

void normalizer_deinit(struct normalizer *normalizer) {
    for (size_t i = 0; i < normalizer->n_step; i++) regex_destroy(normalizer->step[i].regex);
    *normalizer = (struct normalizer){0};
}
