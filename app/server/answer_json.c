// A machine with one state for each place in JSON's grammar. Containers are a depth and a bit each.
// A number ends at the first byte behind it; all other values end with their own last byte.
#include "answer_json.h"

#include <string.h>

#include "helpers.h"

enum state {
    STATE_VALUE,    // a value is due
    STATE_ITEM,     // the same, or the end of an array
    STATE_KEY,      // a key is due
    STATE_MEMBER,   // the same, or the end of an object
    STATE_COLON,    // behind a key
    STATE_BEHIND,   // behind a value
    STATE_STRING,   // within a string
    STATE_ESCAPE,   // behind its backslash
    STATE_CODE,     // within the digits of \uXXXX
    STATE_TRAIL,    // a backslash with the second half of a pair is due
    STATE_TRAIL_U,  // and its u
    STATE_WIDE,     // within a character of several bytes
    STATE_WORD,     // within true, false, null
    STATE_MINUS,    // behind a number's sign
    STATE_ZERO,     // behind its 0
    STATE_WHOLE,    // within its digits
    STATE_POINT,    // behind its point
    STATE_FRACTION, // within the digits behind the point
    STATE_E,        // behind its e
    STATE_E_SIGN,   // behind the exponent's sign
    STATE_EXPONENT, // within the exponent's digits
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

static bool is_number_whole(int state) {
    return state == STATE_ZERO || state == STATE_WHOLE || state == STATE_FRACTION ||
           state == STATE_EXPONENT;
}

bool json_walk_is_behind(const struct json_walk *walk) {
    return walk->state == STATE_BEHIND || is_number_whole(walk->state);
}

bool json_walk_wants_key(const struct json_walk *walk) {
    return walk->state == STATE_KEY || walk->state == STATE_MEMBER;
}

// ---------------------------------------------------------------- strings

static unsigned character_end(struct json_walk *walk) {
    walk->state = STATE_STRING;
    return JSON_CHAR;
}

static unsigned string_end(struct json_walk *walk) {
    walk->state = walk->is_key ? STATE_COLON : STATE_BEHIND;
    return walk->is_key ? JSON_KEY_END : JSON_END;
}

// The character's length by its first byte; 0: it is none.
static int wide_length(unsigned char c) {
    if (c < 0xC2 || c > 0xF4) return 0;
    return c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

static unsigned string_push(struct json_walk *walk, char c) {
    if (c == '"') return string_end(walk);
    if ((unsigned char)c < 0x20) return JSON_FAULT;
    if (c == '\\') {
        walk->state = STATE_ESCAPE;
        return 0;
    }
    walk->text[0] = c;
    walk->n_text = 1;
    if ((unsigned char)c < 0x80) return JSON_CHAR;
    walk->n_left = wide_length((unsigned char)c) - 1;
    if (walk->n_left < 0) return JSON_FAULT;
    walk->state = STATE_WIDE;
    return 0;
}

static unsigned wide_push(struct json_walk *walk, char c) {
    size_t n;
    if (((unsigned char)c & 0xC0) != 0x80) return JSON_FAULT;
    walk->text[walk->n_text] = c;
    if (walk->n_left > 1) {
        walk->n_text++;
        walk->n_left--;
        return 0;
    }
    if (unicode_decode((const uint8_t *)walk->text, (size_t)walk->n_text + 1, &n) < 0)
        return JSON_FAULT;
    walk->n_text++;
    return character_end(walk);
}

static unsigned code_begin(struct json_walk *walk) {
    walk->state = STATE_CODE;
    walk->n_left = 4;
    walk->unit = 0;
    return 0;
}

static unsigned escape_push(struct json_walk *walk, char c) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (c == 'u') return code_begin(walk);
    const char *const name = c ? strchr(names, c) : NULL;
    if (!name) return JSON_FAULT;
    walk->text[0] = values[name - names];
    walk->n_text = 1;
    return character_end(walk);
}

static int digit_of(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_lead(uint32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
static bool is_trail(uint32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }

static unsigned code_push(struct json_walk *walk, char c) {
    const int digit = digit_of(c);
    if (digit < 0) return JSON_FAULT;
    const uint32_t unit = walk->unit << 4 | (uint32_t)digit;
    const bool is_last = walk->n_left == 1;
    if (is_last && is_trail(unit) != (walk->lead != 0)) return JSON_FAULT; // half of a pair
    walk->unit = unit;
    walk->n_left--;
    if (!is_last) return 0;
    if (is_lead(unit)) {
        walk->lead = unit;
        walk->state = STATE_TRAIL;
        return 0;
    }
    const uint32_t cp =
        walk->lead ? 0x10000 + ((walk->lead - 0xD800) << 10) + (unit - 0xDC00) : unit;
    walk->lead = 0;
    walk->n_text = (int)unicode_encode(cp, (uint8_t *)walk->text);
    return character_end(walk);
}

// ---------------------------------------------------------------- numbers and words

// The state behind a number's byte; -1: the byte is not part of it.
static int number_next(int state, char c) {
    const bool digit = is_digit(c), is_e = c == 'e' || c == 'E';
    switch (state) {
    case STATE_MINUS:
        return !digit ? -1 : c == '0' ? STATE_ZERO : STATE_WHOLE;
    case STATE_WHOLE:
        if (digit) return STATE_WHOLE;
        // fall through
    case STATE_ZERO:
        return c == '.' ? STATE_POINT : is_e ? STATE_E : -1;
    case STATE_POINT:
        return digit ? STATE_FRACTION : -1;
    case STATE_FRACTION:
        return digit ? STATE_FRACTION : is_e ? STATE_E : -1;
    case STATE_E:
        if (c == '+' || c == '-') return STATE_E_SIGN;
        // fall through
    default:
        return digit ? STATE_EXPONENT : -1;
    }
}

static unsigned word_push(struct json_walk *walk, char c) {
    if (c != *walk->word) return JSON_FAULT;
    if (*++walk->word) return 0;
    walk->state = STATE_BEHIND;
    return JSON_END;
}

// ---------------------------------------------------------------- structure

static unsigned container_open(struct json_walk *walk, char c) {
    enum { DEPTH_MAX = JREAD_MAX_DEPTH };
    if (walk->depth == DEPTH_MAX) return JSON_FAULT;
    const uint64_t bit = UINT64_C(1) << walk->depth++;
    walk->is_object = c == '{' ? walk->is_object | bit : walk->is_object & ~bit;
    walk->state = c == '{' ? STATE_MEMBER : STATE_ITEM;
    return JSON_BEGIN;
}

static bool in_object(const struct json_walk *walk) {
    return walk->depth > 0 && walk->is_object >> (walk->depth - 1) & 1;
}

static unsigned container_close(struct json_walk *walk, char c) {
    if (walk->depth == 0 || in_object(walk) != (c == '}')) return JSON_FAULT;
    walk->depth--;
    walk->state = STATE_BEHIND;
    return JSON_END;
}

static unsigned value_push(struct json_walk *walk, char c) {
    static const char *const words[] = {"true", "false", "null"};
    if (c == '{' || c == '[') return container_open(walk, c);
    if (c == '"') {
        walk->is_key = false;
        walk->state = STATE_STRING;
        return JSON_BEGIN;
    }
    if (c == '-' || is_digit(c)) {
        walk->state = c == '-' ? STATE_MINUS : c == '0' ? STATE_ZERO : STATE_WHOLE;
        return JSON_BEGIN;
    }
    for (int i = 0; i < 3; i++) {
        if (c != words[i][0]) continue;
        walk->word = words[i] + 1;
        walk->state = STATE_WORD;
        return JSON_BEGIN;
    }
    return JSON_FAULT;
}

static unsigned key_push(struct json_walk *walk, char c) {
    if (c != '"') return JSON_FAULT;
    walk->is_key = true;
    walk->state = STATE_STRING;
    return 0;
}

static unsigned behind_push(struct json_walk *walk, char c) {
    if (c == '}' || c == ']') return container_close(walk, c);
    if (c != ',' || walk->depth == 0) return JSON_FAULT;
    walk->state = in_object(walk) ? STATE_KEY : STATE_VALUE;
    return 0;
}

static unsigned structure_push(struct json_walk *walk, char c) {
    if (is_blank(c)) return 0;
    switch (walk->state) {
    case STATE_ITEM:
        return c == ']' ? container_close(walk, c) : value_push(walk, c);
    case STATE_MEMBER:
        return c == '}' ? container_close(walk, c) : key_push(walk, c);
    case STATE_KEY:
        return key_push(walk, c);
    case STATE_COLON:
        if (c != ':') return JSON_FAULT;
        walk->state = STATE_VALUE;
        return 0;
    case STATE_BEHIND:
        return behind_push(walk, c);
    default:
        return value_push(walk, c);
    }
}

static unsigned number_push(struct json_walk *walk, char c) {
    const int next = number_next(walk->state, c);
    if (next >= 0) {
        walk->state = next;
        return 0;
    }
    if (!is_number_whole(walk->state)) return JSON_FAULT;
    const int before = walk->state;
    walk->state = STATE_BEHIND;
    const unsigned events = structure_push(walk, c);
    if (!(events & JSON_FAULT)) return events | JSON_NUMBER_END;
    walk->state = before;
    return JSON_FAULT;
}

unsigned json_walk_push(struct json_walk *walk, char c) {
    switch (walk->state) {
    case STATE_STRING:
        return string_push(walk, c);
    case STATE_ESCAPE:
        return escape_push(walk, c);
    case STATE_CODE:
        return code_push(walk, c);
    case STATE_TRAIL:
        walk->state = c == '\\' ? STATE_TRAIL_U : STATE_TRAIL;
        return c == '\\' ? 0 : JSON_FAULT;
    case STATE_TRAIL_U:
        return c == 'u' ? code_begin(walk) : JSON_FAULT;
    case STATE_WIDE:
        return wide_push(walk, c);
    case STATE_WORD:
        return word_push(walk, c);
    default:
        return walk->state >= STATE_MINUS ? number_push(walk, c) : structure_push(walk, c);
    }
}
