// Places and names. Probes of the table are paid for, since a source may choose its names.
#include "constraint/source.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

void source_place(const struct source *source, size_t at, char out[SOURCE_PLACE_BYTES]) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < source->len; i++) {
        column = source->text[i] == '\n' ? 1 : column + 1;
        line += source->text[i] == '\n';
    }
    snprintf(out, SOURCE_PLACE_BYTES, "line %zu, column %zu: ", line, column);
}

bool source_fail(const struct source *source, size_t at, const char *fmt, ...) {
    char place[SOURCE_PLACE_BYTES], message[256];
    va_list args;
    if (source->g->status) return false;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    source_place(source, at, place);
    grammar_fail(source->g, RN_ERR_ARG, "%s%s", place, message);
    return false;
}

size_t source_char(const struct source *source, size_t at, uint32_t *out) {
    const size_t n = utf8_length(source->text + at, source->len - at);
    if (n == 0) source_fail(source, at, "bytes that are not UTF-8");
    *out = utf8_decode(source->text + at, n);
    return n;
}

static uint64_t hash_name(const char *text, size_t len) {
    uint64_t h = 5381;
    for (size_t i = 0; i < len; i++) h = h * 33 + (uint8_t)text[i];
    return h;
}

static bool names_grow(struct grammar *g, struct names *names) {
    const uint32_t n = names->capacity ? 2 * names->capacity : 32;
    struct name *at = grammar_alloc(g, n, sizeof *at);
    uint32_t *slot = grammar_alloc(g, 2 * (size_t)n, sizeof *slot);
    if (!at || !slot) return false;
    if (names->n) memcpy(at, names->at, names->n * sizeof *at);
    for (uint32_t i = 0; i < names->n; i++) {
        uint64_t h = hash_name(at[i].text, at[i].len);
        while (slot[h & (2 * n - 1)]) h++;
        slot[h & (2 * n - 1)] = i + 1;
    }
    *names = (struct names){.at = at, .n = names->n, .capacity = n, .slot = slot, .n_slot = 2 * n};
    return true;
}

uint32_t names_index(struct grammar *g, struct names *names, const char *text, size_t len) {
    if (names->n == names->capacity && !names_grow(g, names)) return UINT32_MAX;
    uint64_t h = hash_name(text, len);
    for (; names->slot[h & (names->n_slot - 1)]; h++) {
        const uint32_t i = names->slot[h & (names->n_slot - 1)] - 1;
        if (names->at[i].len == len && memcmp(names->at[i].text, text, len) == 0) return i;
        if (!grammar_work(g, 1)) return UINT32_MAX;
    }
    names->at[names->n] = (struct name){text, len};
    names->slot[h & (names->n_slot - 1)] = names->n + 1;
    return names->n++;
}
