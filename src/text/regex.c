// PCRE2 behind regex.h. Time is bounded by looking at the text through a window. A match that is
// still undecided at the window's end (a partial match) is tried again, anchored, with a window
// four times as long. Every such window is paid for from a budget linear in the text's length.
// Within a window the match limit bounds backtracking. So a pattern that scans far ahead from every
// position, `\s+[0-9]` over a million blanks, runs out of budget instead of time.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <assert.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "text/regex_syntax.h"
#include "unicode/unicode.h"

enum {
    WINDOW_BYTES = 512, // of a search
    MATCH_LIMIT = 20,   // backtracking steps for each byte of a window of this size, and
    MATCH_BYTES = 1 << 14,
    MATCH_LIMIT_BEHIND = 2,   // for each byte behind: a step can be as long as a repeat's count
    HEAP_LIMIT_KIB = 1 << 16, // of one match
    JIT_STACK_BYTES = 1 << 20,
    WORK_BASE = 1 << 23, // window bytes that a search may pay for, and
    WORK_FACTOR = 48,    // more of them for each byte of text
};

struct regex {
    pcre2_code *code;
};

struct regex_memory {
    pcre2_match_context *context;
    pcre2_match_data *data;
    pcre2_jit_stack *stack;
};

static rn_status compile_error(int code, size_t offset, rn_error *err) {
    char message[160] = "";
    pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
    return err_set(err, RN_ERR_UNSUPPORTED, "%s at offset %zu", message, offset);
}

rn_status regex_create(struct text_span pattern, struct regex **out, rn_error *err) {
    char *text;
    size_t len;
    const rn_status status = regex_syntax_read(pattern, &text, &len, err);
    if (status != RN_OK) return status;
    int code = 0;
    PCRE2_SIZE offset = 0;
    struct regex *const regex = calloc(1, sizeof *regex);
    // Oniguruma's ^ and $ stand at every line.
    const uint32_t options =
        PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE;
    if (regex) regex->code = pcre2_compile((PCRE2_SPTR)text, len, options, &code, &offset, NULL);
    free(text);
    if (!regex) return err_set(err, RN_ERR_NOMEM, "out of memory for a regular expression");
    if (!regex->code) {
        free(regex);
        if (code == PCRE2_ERROR_HEAP_FAILED)
            return err_set(err, RN_ERR_NOMEM, "out of memory for a regular expression");
        return compile_error(code, offset, err);
    }
    // Where there is no JIT, the interpreter does it.
    (void)pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    *out = regex;
    return RN_OK;
}

void regex_destroy(struct regex *regex) {
    if (!regex) return;
    pcre2_code_free(regex->code);
    free(regex);
}

// ---------------------------------------------------------------- a search

static void memory_destroy(struct regex_memory *memory) {
    if (!memory) return;
    pcre2_jit_stack_free(memory->stack);
    pcre2_match_data_free(memory->data);
    pcre2_match_context_free(memory->context);
    free(memory);
}

static struct regex_memory *memory_create(void) {
    struct regex_memory *const memory = calloc(1, sizeof *memory);
    if (!memory) return NULL;
    memory->context = pcre2_match_context_create(NULL);
    memory->data = pcre2_match_data_create(1, NULL);
    if (!memory->context || !memory->data) {
        memory_destroy(memory);
        return NULL;
    }
    // Without a stack of its own the JIT takes 32 KiB of ours; a match that needs more is
    // interpreted.
    memory->stack = pcre2_jit_stack_create(1 << 15, JIT_STACK_BYTES, NULL);
    if (memory->stack) pcre2_jit_stack_assign(memory->context, NULL, memory->stack);
    pcre2_set_heap_limit(memory->context, HEAP_LIMIT_KIB);
    return memory;
}

void regex_search_deinit(struct regex_search *search) {
    memory_destroy(search->memory);
    free(search->copy);
    *search = (struct regex_search){0};
}

// U+180E is still white space for PCRE2, but not for Unicode and Oniguruma. The search sees another
// format character of the same length there.
static const uint8_t vowel_separator[] = {0xE1, 0xA0, 0x8E}, zero_width[] = {0xE2, 0x80, 0x8B};

// The length of the unit that begins the text, and the text that a search is to see instead; NULL:
// the unit itself.
static const uint8_t *unit_seen(const uint8_t *text, size_t len, size_t *n) {
    static const uint8_t control[] = {1};
    if (unicode_decode(text, len, n) < 0) return control;
    return *n == 3 && memcmp(text, vowel_separator, 3) == 0 ? zero_width : NULL;
}

static rn_status copy_reserve(struct regex_search *search, size_t len, rn_error *err) {
    if (len <= search->copy_bytes) return RN_OK;
    free(search->copy);
    search->copy = malloc(len);
    search->copy_bytes = search->copy ? len : 0;
    return search->copy ? RN_OK : err_set(err, RN_ERR_NOMEM, "out of memory for %zu bytes", len);
}

rn_status regex_search_begin(struct regex_search *search, const struct regex *regex,
                             const uint8_t *text, size_t len, rn_error *err) {
    if (!search->memory) {
        if (!(search->memory = memory_create()))
            return err_set(err, RN_ERR_NOMEM, "out of memory for a search");
        search->work = WORK_BASE;
    }
    search->regex = regex;
    search->work += (uint64_t)len * WORK_FACTOR;
    search->text = text;
    search->len = len;
    for (size_t at = 0, n; at < len; at += n) {
        n = 1;
        if (text[at] < 0x80) continue;
        const uint8_t *const seen = unit_seen(text + at, len - at, &n);
        if (!seen) continue;
        if (search->text == text) {
            const rn_status status = copy_reserve(search, len, err);
            if (status != RN_OK) return status;
            memcpy(search->copy, text, len);
            search->text = search->copy;
        }
        memcpy(search->copy + at, seen, n);
    }
    return RN_OK;
}

// One call of PCRE2 over at most `window` bytes from `from` on.
static int window_match(struct regex_search *search, size_t from, size_t window, uint32_t options) {
    size_t end = search->len;
    if (window < search->len - from) {
        end = from + window;
        while (end < search->len && (search->text[end] & 0xC0) == 0x80) end++; // whole characters
    }
    if (end < search->len) options |= PCRE2_PARTIAL_HARD;
    struct regex_memory *const memory = search->memory;
    const uint64_t seen = window < end ? window : end;
    const uint64_t dense = seen < MATCH_BYTES ? seen : MATCH_BYTES;
    const uint64_t limit = MATCH_LIMIT * dense + MATCH_LIMIT_BEHIND * (seen - dense) + 10000;
    pcre2_set_match_limit(memory->context, limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit);
    pcre2_set_depth_limit(memory->context, limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit);
    options |= PCRE2_NO_UTF_CHECK;
    int code = pcre2_match(search->regex->code, search->text, end, from, options, memory->data,
                           memory->context);
    if (code == PCRE2_ERROR_JIT_STACKLIMIT)
        code = pcre2_match(search->regex->code, search->text, end, from, options | PCRE2_NO_JIT,
                           memory->data, memory->context);
    return code;
}

static rn_status search_error(int code, rn_error *err) {
    if (code == PCRE2_ERROR_NOMEMORY)
        return err_set(err, RN_ERR_NOMEM, "out of memory for a regular expression's match");
    return err_set(err, RN_ERR_ARG,
                   "the tokenizer's regular expression takes too many steps on this text");
}

// A match that begins at `from` and is undecided within the window of a search.
static int anchored_match(struct regex_search *search, size_t from) {
    int code = PCRE2_ERROR_PARTIAL;
    for (size_t window = WINDOW_BYTES; code == PCRE2_ERROR_PARTIAL;) {
        window = window > SIZE_MAX / 4 ? SIZE_MAX : 4 * window;
        const size_t cost = window < search->len - from ? window : search->len - from;
        if (cost > search->work) return PCRE2_ERROR_MATCHLIMIT;
        search->work -= cost;
        code = window_match(search, from, window, PCRE2_ANCHORED);
    }
    return code;
}

static size_t character_behind(const struct regex_search *search, size_t at) {
    size_t n = 1;
    if (at < search->len) unicode_decode(search->text + at, search->len - at, &n);
    return at + n;
}

rn_status regex_find(struct regex_search *search, size_t from, size_t *begin, size_t *end,
                     bool *found, rn_error *err) {
    *found = false;
    while (from <= search->len) {
        const size_t *const span = pcre2_get_ovector_pointer(search->memory->data);
        int code = window_match(search, from, WINDOW_BYTES, 0);
        if (code == PCRE2_ERROR_PARTIAL) {
            from = span[0];
            code = anchored_match(search, from);
            if (code == PCRE2_ERROR_NOMATCH) {
                from = character_behind(search, from);
                continue;
            }
        }
        if (code >= 0) {
            assert(span[0] >= from && span[1] >= span[0] && span[1] <= search->len);
            *begin = span[0];
            *end = span[1];
            *found = true;
            return RN_OK;
        }
        if (code != PCRE2_ERROR_NOMATCH) return search_error(code, err);
        if (search->len - from <= WINDOW_BYTES) return RN_OK;
        from += WINDOW_BYTES; // no match begins in the window
        while (from < search->len && (search->text[from] & 0xC0) == 0x80) from++;
    }
    return RN_OK;
}
