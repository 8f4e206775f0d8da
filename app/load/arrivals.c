// Reads a trace of arrivals, line by line. Times must not go back.
#include "load/arrivals.h"

#include <stdlib.h>
#include <string.h>

#include "helpers.h"
#include "load/draw.h"

void arrivals_free(struct arrivals *arrivals) {
    free(arrivals->item);
    free(arrivals->block);
    *arrivals = (struct arrivals){0};
}

// Room for one more of `size` bytes behind n; the array doubles. False: out of memory.
static bool grow(void **array, int n, size_t size) {
    if (n & (n - 1)) return true; // only at 0, 1, 2, 4, ...
    void *bigger = realloc(*array, (n ? 2 * (size_t)n : 1) * size);
    if (!bigger) return false;
    *array = bigger;
    return true;
}

static bool blocks_take(struct jread *r, struct arrivals *out, struct arrival *item) {
    item->first_block = out->n_blocks;
    if (!jread_enter_array(r)) return false;
    while (jread_next_item(r)) {
        int64_t id;
        if (!jread_i64(r, &id)) return false;
        if (!grow((void **)&out->block, out->n_blocks, sizeof *out->block))
            return jread_fail(r, "out of memory");
        out->block[out->n_blocks++] = id;
    }
    item->n_blocks = out->n_blocks - item->first_block;
    return !r->error;
}

static bool length_take(struct jread *r, int *out) {
    int64_t value;
    if (!jread_i64(r, &value)) return false;
    if (value < 1 || value > LENGTH_MAX) return jread_fail(r, "expected a length of 1 to 16777216");
    *out = (int)value;
    return true;
}

static bool field_take(struct jread *r, const struct jread_text *key, struct arrivals *out,
                       struct arrival *item, bool *has_time) {
    if (jread_equals(key, "timestamp")) {
        double ms;
        if (!jread_f64(r, &ms)) return false;
        item->at_s = ms * 1e-3;
        *has_time = true;
        return ms >= 0 || jread_fail(r, "expected a time of at least 0");
    }
    if (jread_equals(key, "input_length")) return length_take(r, &item->input);
    if (jread_equals(key, "output_length")) return length_take(r, &item->output);
    if (jread_equals(key, "hash_ids")) return blocks_take(r, out, item);
    return jread_skip(r);
}

static bool line_take(struct jread *r, struct arrivals *out) {
    struct arrival item = {0};
    struct jread_text key;
    bool has_time = false;
    if (!jread_enter_object(r)) return false;
    while (jread_next_key(r, &key))
        if (!field_take(r, &key, out, &item, &has_time)) return false;
    if (!jread_finish(r)) return false;
    if (!has_time || !item.input || !item.output)
        return jread_fail(r, "expected timestamp, input_length and output_length");
    const int needed = (item.input + ARRIVALS_BLOCK - 1) / ARRIVALS_BLOCK;
    if (item.n_blocks && item.n_blocks < needed)
        return jread_fail(r, "expected a hash id for each 512 tokens of input_length");
    if (out->n && item.at_s < out->item[out->n - 1].at_s)
        return jread_fail(r, "the timestamp is before the last one");
    if (!grow((void **)&out->item, out->n, sizeof *out->item))
        return jread_fail(r, "out of memory");
    out->item[out->n++] = item;
    return true;
}

static bool is_blank(const char *line, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') return false;
    return true;
}

int arrivals_parse(const char *name, const char *text, size_t len, struct arrivals *out) {
    *out = (struct arrivals){0};
    int number = 0;
    for (size_t at = 0; at < len;) {
        const char *lf = memchr(text + at, '\n', len - at);
        const char *line = text + at;
        const size_t line_len = lf ? (size_t)(lf - line) : len - at;
        struct jread r;
        number++;
        jread_init(&r, line, line_len);
        at += line_len + 1;
        if (is_blank(line, line_len)) continue;
        if (line_take(&r, out)) continue;
        arrivals_free(out);
        return app_fail(APP_USAGE, "--trace: %s:%d: column %zu: %s", err_path(name), number,
                        r.error_at + 1, r.error ? r.error : "not an object of a trace");
    }
    if (out->n) return APP_OK;
    return app_fail(APP_USAGE, "--trace: %s: holds no arrivals", err_path(name));
}

int arrivals_read(const char *path, struct arrivals *out) {
    struct text text;
    *out = (struct arrivals){0};
    int code = source_read(path, TEXT_LIMIT, &text);
    if (code) return code;
    code = arrivals_parse(path, text.data, text.len, out);
    text_free(&text);
    return code;
}
