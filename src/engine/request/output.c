// Streaming text with stop strings. Text is given out up to the longest tail that could still
// become a stop string. A line that is indented too little ends the text, too, and nothing has to
// be held back for that: the line's blanks are part of the text.
#define _GNU_SOURCE 1 // memmem
#include "engine/request/output.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

rn_status output_init(struct output *output, const char *const *stop, size_t n_stop,
                      size_t token_bytes_max, int n_tokens, rn_error *err) {
    *output = (struct output){.matched = -1, .indent = -1};
    size_t stop_bytes_max = 0;
    if (n_stop > 0) {
        output->stop = calloc(n_stop, sizeof *output->stop);
        if (!output->stop)
            return err_set(err, RN_ERR_NOMEM, "no memory for %zu stop strings", n_stop);
    }
    for (size_t i = 0; i < n_stop; i++) {
        const size_t len = strlen(stop[i]);
        char *copy = malloc(len + 1);
        if (!copy) {
            output_deinit(output);
            return err_set(err, RN_ERR_NOMEM, "no memory for a stop string of %zu bytes", len);
        }
        memcpy(copy, stop[i], len + 1);
        output->stop[output->n_stop++] = (struct text_span){copy, len};
        if (len > stop_bytes_max) stop_bytes_max = len;
    }
    output->capacity = output_text_max(stop_bytes_max, token_bytes_max);
    // the text that earlier ones give out stays
    output->capacity += (size_t)(n_tokens - 1) * output_token_max(token_bytes_max);
    output->text = malloc(output->capacity);
    if (!output->text) {
        output_deinit(output);
        return err_set(err, RN_ERR_NOMEM, "no memory for a text buffer");
    }
    return RN_OK;
}

void output_deinit(struct output *output) {
    for (size_t i = 0; i < output->n_stop; i++) free((char *)(uintptr_t)output->stop[i].data);
    free(output->stop);
    free(output->text);
    memset(output, 0, sizeof *output);
}

void output_begin(struct output *output) {
    if (output->n_out == 0) return;
    memmove(output->text, output->text + output->n_out, output->n_held);
    output->n_out = 0;
}

// The first place in the held text where a stop string begins that ends behind n_past, or n_held.
// If two begin there, the earlier one in the list is taken.
static size_t find_stop(struct output *output) {
    const char *const held = output->text + output->n_out;
    size_t first = output->n_held;
    for (size_t i = 0; i < output->n_stop; i++) {
        const size_t len = output->stop[i].len;
        const size_t from = output->n_past >= len ? output->n_past - len + 1 : 0;
        const char *at = memmem(held + from, output->n_held - from, output->stop[i].data, len);
        if (at && (size_t)(at - held) < first) {
            first = (size_t)(at - held);
            output->matched = (int)i;
        }
    }
    return first;
}

// The first place from which the rest of the held text is the beginning of a stop string, or
// n_held.
static size_t find_beginning(const struct output *output) {
    const char *const held = output->text + output->n_out;
    size_t first = output->n_held;
    for (size_t i = 0; i < output->n_stop; i++) {
        const struct text_span stop = output->stop[i];
        size_t at = output->n_held >= stop.len ? output->n_held - stop.len + 1 : 0;
        for (; at < first; at++)
            if (memcmp(held + at, stop.data, output->n_held - at) == 0) first = at;
    }
    return first;
}

// The first place in the held text, from `from` on, where a line starts that has too few blanks: at
// its first other character, which a line break is, too. n_held if there is none.
static size_t find_outdent(struct output *output, size_t from) {
    const char *const held = output->text + output->n_out;
    if (output->indent_min == 0) return output->n_held;
    for (size_t at = from; at < output->n_held; at++) {
        const bool is_blank = held[at] == ' ' || held[at] == '\t';
        if (!is_blank && output->indent >= 0 && output->indent < output->indent_min) return at;
        if (held[at] == '\n')
            output->indent = 0;
        else if (output->indent >= 0)
            output->indent = is_blank ? output->indent + 1 : -1;
    }
    return output->n_held;
}

static struct text_span give(struct output *output, size_t n) {
    const struct text_span text = {output->text + output->n_out, n};
    output->n_out += n;
    output->n_held -= n;
    output->n_past -= output->n_past < n ? output->n_past : n;
    return text;
}

// The text ends at this place of the held text.
static struct text_span end_at(struct output *output, size_t at) {
    const struct text_span text = give(output, at);
    output->n_held = 0;
    return text;
}

struct text_span output_feed(struct output *output, struct text_span bytes, bool may_stop,
                             bool last) {
    assert(output->matched < 0 && !output->is_outdented);
    const size_t known = output->n_held;
    char *const held = output->text + output->n_out;
    assert(output->n_out + output->n_held + 3 * (bytes.len + 4) <= output->capacity);
    output->n_held +=
        detokenizer_feed(&output->detok, bytes.data, bytes.len, held + output->n_held);
    if (last) output->n_held += detokenizer_finish(&output->detok, held + output->n_held);
    if (!may_stop) output->n_past = output->n_held;
    const size_t stop = may_stop ? find_stop(output) : output->n_held;
    const size_t stop_len = output->matched >= 0 ? output->stop[output->matched].len : 0;
    const size_t outdent = find_outdent(output, known);
    if (outdent < stop + stop_len) { // it came before the stop string was whole
        output->is_outdented = true;
        output->matched = -1;
        return end_at(output, outdent);
    }
    if (output->matched >= 0) return end_at(output, stop + (output->keeps_stop ? stop_len : 0));
    return give(output, last ? output->n_held : find_beginning(output));
}
