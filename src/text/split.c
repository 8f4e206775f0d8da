// Runs a splitter, depth first: a step hands each of its pieces to the next one at once, so no list
// of pieces is kept. A step sees its text as a row of matches and of the gaps between them. Its
// behavior says how they become pieces.
#define _GNU_SOURCE // memmem
#include "text/split.h"

#include <assert.h>
#include <string.h>

#include "unicode/unicode.h"

struct run {
    const struct splitter *splitter;
    struct split_scratch *scratch;
    split_word_fn word;
    void *context;
    rn_error *err;
};

static rn_status run_from(const struct run *run, size_t level, const uint8_t *text, size_t len);

// Makes pieces of matches and gaps. A piece is held back while the next part may still join it.
struct cut {
    const struct run *run;
    const struct split_step *step;
    size_t level; // of the step
    const uint8_t *text;
    size_t begin, end; // of the piece held
    bool holds, was_match;
};

static rn_status cut_emit(const struct cut *cut, size_t begin, size_t end) {
    return run_from(cut->run, cut->level + 1, cut->text + begin, end - begin);
}

static rn_status cut_flush(struct cut *cut) {
    if (!cut->holds) return RN_OK;
    cut->holds = false;
    return cut_emit(cut, cut->begin, cut->end);
}

static rn_status cut_hold(struct cut *cut, size_t begin, size_t end) {
    const rn_status status = cut_flush(cut);
    cut->begin = begin;
    cut->end = end;
    cut->holds = true;
    return status;
}

// Whether the next part joins the piece that is held.
static bool cut_joins(const struct cut *cut, bool is_match) {
    if (!cut->holds) return false;
    switch (cut->step->behavior) {
    case SPLIT_MERGED_WITH_PREVIOUS:
        return is_match && !cut->was_match;
    case SPLIT_MERGED_WITH_NEXT:
        return !is_match && cut->was_match;
    case SPLIT_CONTIGUOUS:
        return is_match == cut->was_match;
    default:
        return false;
    }
}

static rn_status cut_add(struct cut *cut, size_t begin, size_t end, bool is_match) {
    is_match ^= cut->step->invert;
    if (cut->step->behavior == SPLIT_ISOLATED) return cut_emit(cut, begin, end);
    if (cut->step->behavior == SPLIT_REMOVED) return is_match ? RN_OK : cut_emit(cut, begin, end);
    rn_status status = RN_OK;
    if (cut_joins(cut, is_match))
        cut->end = end;
    else
        status = cut_hold(cut, begin, end);
    cut->was_match = is_match;
    return status;
}

// A match, and the gap from the end of the one before it.
static rn_status cut_match(struct cut *cut, size_t gap, size_t begin, size_t end) {
    rn_status status = RN_OK;
    if (gap < begin) status = cut_add(cut, gap, begin, false);
    return status == RN_OK ? cut_add(cut, begin, end, true) : status;
}

static rn_status cut_end(struct cut *cut, size_t gap, size_t len) {
    rn_status status = RN_OK;
    if (gap < len) status = cut_add(cut, gap, len, false);
    return status == RN_OK ? cut_flush(cut) : status;
}

static rn_status cut_by_pattern(struct cut *cut, size_t len) {
    size_t gap = 0, at = 0;
    while (at < len) {
        size_t skip = 1;
        const size_t n = cut->step->match(cut->text + at, len - at, &skip);
        assert(n <= len - at && skip > 0 && skip <= len - at);
        if (n == 0) {
            at += skip;
            continue;
        }
        const rn_status status = cut_match(cut, gap, at, at + n);
        if (status != RN_OK) return status;
        gap = at += n;
    }
    return cut_end(cut, gap, len);
}

static rn_status cut_by_literal(struct cut *cut, size_t len) {
    const struct text_span literal = cut->step->literal;
    size_t gap = 0;
    for (;;) {
        const uint8_t *const found = memmem(cut->text + gap, len - gap, literal.data, literal.len);
        if (!found) return cut_end(cut, gap, len);
        const size_t begin = (size_t)(found - cut->text);
        const rn_status status = cut_match(cut, gap, begin, begin + literal.len);
        if (status != RN_OK) return status;
        gap = begin + literal.len;
    }
}

// An empty match cuts where it stands, but not right behind another match.
static rn_status cut_by_regex(struct cut *cut, size_t len) {
    struct regex_search *const search = &cut->run->scratch->search[cut->level];
    rn_error *const err = cut->run->err;
    rn_status status = regex_search_begin(search, cut->step->regex, cut->text, len, err);
    size_t gap = 0, from = 0, begin, end;
    bool found = true, any = false;
    while (status == RN_OK && from <= len) {
        status = regex_find(search, from, &begin, &end, &found, err);
        if (status != RN_OK || !found) break;
        from = end;
        if (begin == end) { // continue behind the next character
            size_t n = 1;
            if (end < len) unicode_decode(search->text + end, len - end, &n);
            from = end + n;
        }
        if (begin == end && any && end == gap) continue;
        any = true;
        status = cut_match(cut, gap, begin, end);
        gap = end;
    }
    return status == RN_OK ? cut_end(cut, gap, len) : status;
}

static rn_status run_from(const struct run *run, size_t level, const uint8_t *text, size_t len) {
    if (len == 0) return RN_OK;
    if (level == run->splitter->n_step) return run->word(run->context, text, len);
    const struct split_step *const step = &run->splitter->step[level];
    if (step->covers) {
        rn_status status = RN_OK;
        for (size_t at = 0, n; at < len && status == RN_OK; at += n) {
            n = step->match(text + at, len - at, &n);
            assert(n > 0 && n <= len - at);
            status = run_from(run, level + 1, text + at, n);
        }
        return status;
    }
    struct cut cut = {.run = run, .step = step, .level = level, .text = text};
    if (step->match) return cut_by_pattern(&cut, len);
    return step->regex ? cut_by_regex(&cut, len) : cut_by_literal(&cut, len);
}

rn_status split_run(const struct splitter *splitter, struct split_scratch *scratch,
                    const uint8_t *text, size_t len, split_word_fn word, void *context,
                    rn_error *err) {
    const struct run run = {splitter, scratch, word, context, err};
    return run_from(&run, 0, text, len);
}

void splitter_deinit(struct splitter *splitter) {
    for (size_t i = 0; i < splitter->n_step; i++) regex_destroy(splitter->step[i].regex);
    *splitter = (struct splitter){0};
}

void split_scratch_deinit(struct split_scratch *scratch) {
    for (size_t i = 0; i < SPLIT_MAX_STEPS; i++) regex_search_deinit(&scratch->search[i]);
}
