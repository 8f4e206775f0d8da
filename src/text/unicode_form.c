// Decomposition and composition are utf8proc's, a character and a run of characters at a time. The
// canonical order of marks is sorted here, because utf8proc's exchange of neighbours is quadratic
// in a run of marks. Text is taken in pieces that end before a character which nothing can join, so
// the memory is that of a piece.
#include "text/unicode_form.h"

#include <utf8proc.h>

#include "unicode/unicode.h"

static bool is_ascii(const uint8_t *text, size_t len) {
    uint8_t all = 0;
    for (size_t i = 0; i < len; i++) all |= text[i];
    return all < 0x80;
}

// Whether the parts of a decomposed character compose to the same character again.
static bool recomposes(int32_t cp) {
    int32_t part[8];
    int boundary = 0;
    const utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    const utf8proc_ssize_t n = utf8proc_decompose_char(cp, part, 8, options, &boundary);
    return n > 0 && n <= 8 && utf8proc_normalize_utf32(part, n, options) == 1 && part[0] == cp;
}

// A character that is composed already and that composes with nothing before it.
static bool is_inert(int32_t cp) {
    if (cp < 0x300) return true;                    // and ill-formed bytes
    if (cp >= 0x1100 && cp <= 0x11FF) return false; // parts of Hangul syllables
    const utf8proc_property_t *const property = utf8proc_get_property(cp);
    const bool decomposes = property->decomp_type == 0 && property->decomp_seqindex != UINT16_MAX;
    // the high bit marks the second of a pair that composes
    const bool joins = property->comb_index != UINT16_MAX && property->comb_index >= 0x8000;
    return property->combining_class == 0 && !joins && (!decomposes || recomposes(cp));
}

bool unicode_form_has(enum unicode_form_kind form, const uint8_t *text, size_t len) {
    if (form == UNICODE_LOWERCASE) {
        for (size_t i = 0; i < len; i++)
            if (text[i] >= 0x80 || (text[i] >= 'A' && text[i] <= 'Z')) return false;
        return true;
    }
    if (is_ascii(text, len)) return true;
    if (form != UNICODE_NFC) return false;
    for (size_t at = 0, n; at < len; at += n)
        if (!is_inert(unicode_decode(text + at, len - at, &n))) return false;
    return true;
}

// ---------------------------------------------------------------- characters of a piece

struct piece {
    int32_t *cp;
    size_t len, capacity;
};

enum { DECOMPOSED_MAX = 64 }; // characters that one becomes: 18 at most

static bool piece_reserve(struct piece *piece, size_t n) {
    if (n <= piece->capacity - piece->len) return true;
    const size_t capacity = 2 * (piece->len + n);
    int32_t *const cp =
        capacity > SIZE_MAX / sizeof *cp ? NULL : realloc(piece->cp, capacity * sizeof *cp);
    if (!cp) return false;
    piece->cp = cp;
    piece->capacity = capacity;
    return true;
}

static int class_of(int32_t cp) {
    return cp < 0x300 ? 0 : utf8proc_get_property(cp)->combining_class;
}

// Sorts by class and leaves the order within a class: a merge sort into a second array.
static void marks_merge(int32_t *mark, int32_t *other, size_t count) {
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t low = 0; low < count; low += 2 * width) {
            const size_t middle = low + width < count ? low + width : count;
            const size_t high = low + 2 * width < count ? low + 2 * width : count;
            size_t left = low, right = middle;
            for (size_t i = low; i < high; i++) {
                const bool take_left =
                    left < middle &&
                    (right == high || class_of(mark[left]) <= class_of(mark[right]));
                other[i] = take_left ? mark[left++] : mark[right++];
            }
        }
        memcpy(mark, other, count * sizeof *mark);
    }
}

static bool marks_sort(struct piece *piece) {
    for (size_t at = 0; at < piece->len;) {
        size_t end = at;
        while (end < piece->len && class_of(piece->cp[end]) != 0) end++;
        if (end > at + 1) {
            const size_t count = end - at;
            // the second array is behind the piece
            if (!piece_reserve(piece, count)) return false;
            marks_merge(piece->cp + at, piece->cp + piece->len, count);
        }
        at = end + (end == at);
    }
    return true;
}

static bool piece_put(const struct piece *piece, struct text_buffer *out) {
    if (!text_buffer_reserve(out, 4 * piece->len)) return false;
    for (size_t i = 0; i < piece->len; i++)
        out->len += unicode_encode((uint32_t)piece->cp[i], out->data + out->len);
    return true;
}

static utf8proc_option_t options_of(enum unicode_form_kind form) {
    static const int options[] = {
        [UNICODE_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [UNICODE_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [UNICODE_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [UNICODE_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    return (utf8proc_option_t)options[form];
}

// Puts the piece in order, composes it and writes it out; then it is empty.
static bool piece_finish(struct piece *piece, enum unicode_form_kind form,
                         struct text_buffer *out) {
    if (!marks_sort(piece)) return false;
    if (piece->len > 0 && (form == UNICODE_NFC || form == UNICODE_NFKC)) {
        const utf8proc_ssize_t len =
            utf8proc_normalize_utf32(piece->cp, (utf8proc_ssize_t)piece->len, options_of(form));
        if (len >= 0) piece->len = (size_t)len;
    }
    if (!piece_put(piece, out)) return false;
    piece->len = 0;
    return true;
}

static bool piece_add(struct piece *piece, enum unicode_form_kind form, int32_t cp) {
    if (!piece_reserve(piece, DECOMPOSED_MAX)) return false;
    int boundary = 0;
    const utf8proc_ssize_t n = utf8proc_decompose_char(cp, piece->cp + piece->len, DECOMPOSED_MAX,
                                                       options_of(form), &boundary);
    if (n > 0 && n <= DECOMPOSED_MAX)
        piece->len += (size_t)n;
    else
        piece->cp[piece->len++] = cp;
    return true;
}

// Lower case by character; U+0130 alone becomes two.
static bool lowercase_put(int32_t cp, struct text_buffer *out) {
    static const uint8_t i_dot[] = {'i', 0xCC, 0x87};
    if (cp == 0x130) return text_buffer_put(out, i_dot, sizeof i_dot);
    uint8_t text[4];
    return text_buffer_put(out, text, unicode_encode((uint32_t)utf8proc_tolower(cp), text));
}

bool unicode_form_put(enum unicode_form_kind form, const uint8_t *text, size_t len,
                      struct text_buffer *out) {
    struct piece piece = {0};
    bool done = true;
    for (size_t at = 0, n; at < len && done; at += n) {
        const int32_t cp = unicode_decode(text + at, len - at, &n);
        if (cp >= 0 && form == UNICODE_LOWERCASE) {
            done = lowercase_put(cp, out);
            continue;
        }
        if (cp < 0x300) done = piece_finish(&piece, form, out); // nothing joins the piece
        if (!done) break;
        done = cp < 0 ? text_buffer_put(out, text + at, n) : piece_add(&piece, form, cp);
    }
    done = done && piece_finish(&piece, form, out);
    free(piece.cp);
    return done;
}
