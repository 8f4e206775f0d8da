// Fields of an untrusted JSON object. Each reader checks type and range. A refusal has the field's
// path as param and the offending value, shortened, in the message. Names come from the caller;
// values can be anything that JSON allows.
#include "fields.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"

enum { PATH_BYTES = 256, SHOWN_BYTES = 64 };

struct fields fields_of(struct call *call, const json_t *object, const char *path) {
    return (struct fields){call, object, path};
}

// ---------------------------------------------------------------- refusing

static void path_of(const struct fields *fields, const char *name, char out[PATH_BYTES]) {
    snprintf(out, PATH_BYTES, "%s%s%s", fields->path, *fields->path ? "." : "", name);
}

__attribute__((format(printf, 4, 0))) static bool refuse(const struct fields *fields,
                                                         const char *name, const char *code,
                                                         const char *fmt, va_list args) {
    char path[PATH_BYTES], text[512];
    path_of(fields, name, path);
    vsnprintf(text, sizeof text, fmt, args);
    return call_refuse(fields->call, 400, path, code, "%s: %s", path, text);
}

bool field_refuse(const struct fields *fields, const char *name, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    refuse(fields, name, "invalid_value", fmt, args);
    va_end(args);
    return false;
}

__attribute__((format(printf, 4, 5))) static bool
refuse_as(const struct fields *fields, const char *name, const char *code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    refuse(fields, name, code, fmt, args);
    va_end(args);
    return false;
}

// The fewest digits that give the number back, written as people write it: 0.1, 1e9.
static void real_text(double value, char out[JSON_SHOWN_BYTES]) {
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(out, JSON_SHOWN_BYTES, "%.*g", digits, value);
        if (strtod(out, NULL) == value) break;
    }
    char *exponent = strchr(out, 'e');
    if (!exponent) return;
    char *from = ++exponent;
    if (*from == '+') from++;
    if (*from == '-') exponent = ++from;
    while (*from == '0' && from[1]) from++;
    memmove(exponent, from, strlen(from) + 1);
}

struct beginning {
    char text[SHOWN_BYTES - 1]; // not terminated
    size_t len;
};

// Takes the pieces that fit. The first piece that does not fit whole ends the dump.
static int beginning_take(const char *data, size_t len, void *context) {
    struct beginning *beginning = context;
    const size_t room = sizeof beginning->text - beginning->len;
    const size_t taken = len < room ? len : room;
    memcpy(beginning->text + beginning->len, data, taken);
    beginning->len += taken;
    return taken < len ? -1 : 0;
}

// The beginning of an array or an object.
static void container_text(const json_t *value, char out[JSON_SHOWN_BYTES]) {
    struct beginning beginning = {.len = 0};
    char shown[SHOWN_BYTES];
    const bool cut = json_dump_callback(value, beginning_take, &beginning,
                                        JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0;
    unicode_quote(beginning.text, beginning.len, shown, sizeof shown);
    snprintf(out, JSON_SHOWN_BYTES, "%s%s", shown, cut ? "..." : "");
}

// A string in quotes, shortened; control characters are shown as '?'.
static void string_text(const json_t *value, char out[JSON_SHOWN_BYTES]) {
    char shown[SHOWN_BYTES];
    const size_t len = json_string_length(value);
    unicode_quote(json_string_value(value), len, shown, sizeof shown);
    const bool cut = strlen(shown) < len;
    for (char *c = shown; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F) *c = '?';
    snprintf(out, JSON_SHOWN_BYTES, "\"%s%s\"", shown, cut ? "..." : "");
}

const char *json_shown(const json_t *value, char out[JSON_SHOWN_BYTES]) {
    switch (json_typeof(value)) {
    case JSON_STRING:
        string_text(value, out);
        break;
    case JSON_INTEGER:
        snprintf(out, JSON_SHOWN_BYTES, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        real_text(json_real_value(value), out);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        container_text(value, out);
        break;
    default:
        snprintf(out, JSON_SHOWN_BYTES, "%s",
                 json_is_true(value)    ? "true"
                 : json_is_false(value) ? "false"
                                        : "null");
    }
    return out;
}

static bool refuse_type(const struct fields *fields, const char *name, const char *expected,
                        const json_t *value) {
    char text[JSON_SHOWN_BYTES];
    return refuse_as(fields, name, "invalid_type", "expected %s, got %s", expected,
                     json_shown(value, text));
}

// ---------------------------------------------------------------- reading

// The field's value; NULL: there is nothing to read, because it is absent or null (*go_on), or
// because the call was refused before.
static const json_t *value_of(const struct fields *fields, const char *name, bool *go_on) {
    *go_on = !call_refused(fields->call);
    const json_t *value = *go_on ? json_object_get(fields->object, name) : NULL;
    return json_is_null(value) ? NULL : value;
}

// Integers, and reals without a fraction: many clients write 3.0.
static bool int_of(const json_t *value, int64_t *out) {
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return true;
    }
    const double real = json_is_real(value) ? json_real_value(value) : (double)NAN;
    if (!(real >= -0x1p63 && real < 0x1p63) || real != floor(real)) return false;
    *out = (int64_t)real;
    return true;
}

bool field_int(const struct fields *fields, const char *name, int64_t min, int64_t max,
               int64_t *out) {
    assert(min <= max);
    bool go_on;
    const json_t *value = value_of(fields, name, &go_on);
    if (!value) return go_on;
    int64_t number;
    const bool is_int = int_of(value, &number);
    const bool is_whole =
        is_int || (json_is_real(value) && json_real_value(value) == floor(json_real_value(value)));
    if (!is_whole) return refuse_type(fields, name, "an integer", value);
    if (!is_int || number < min || number > max) {
        char text[JSON_SHOWN_BYTES];
        json_shown(value, text);
        return field_refuse(fields, name, "%s is not between %lld and %lld", text, (long long)min,
                            (long long)max);
    }
    *out = number;
    return true;
}

bool field_real(const struct fields *fields, const char *name, double min, double max,
                double *out) {
    assert(min <= max);
    bool go_on;
    const json_t *value = value_of(fields, name, &go_on);
    if (!value) return go_on;
    if (!json_is_number(value)) return refuse_type(fields, name, "a number", value);
    const double number = json_number_value(value);
    if (!(number >= min && number <= max)) {
        char text[JSON_SHOWN_BYTES], min_text[JSON_SHOWN_BYTES], max_text[JSON_SHOWN_BYTES];
        json_shown(value, text);
        real_text(min, min_text);
        real_text(max, max_text);
        return field_refuse(fields, name, "%s is not between %s and %s", text, min_text, max_text);
    }
    *out = number;
    return true;
}

bool field_bool(const struct fields *fields, const char *name, bool *out) {
    bool go_on;
    const json_t *value = value_of(fields, name, &go_on);
    if (!value) return go_on;
    if (!json_is_boolean(value)) return refuse_type(fields, name, "true or false", value);
    *out = json_is_true(value);
    return true;
}

// value is a string that is there; name is its own, as in "stop[2]".
static bool string_check(const struct fields *fields, const char *name, const json_t *value,
                         size_t max) {
    if (!json_is_string(value)) return refuse_type(fields, name, "a string", value);
    const size_t len = json_string_length(value);
    if (strlen(json_string_value(value)) != len)
        return field_refuse(fields, name, "must not hold a NUL character");
    if (len > max) {
        char text[JSON_SHOWN_BYTES];
        json_shown(value, text);
        return refuse_as(fields, name, "string_above_max_length",
                         "%s is %zu bytes long, at most %zu are allowed", text, len, max);
    }
    return true;
}

bool field_string(const struct fields *fields, const char *name, size_t max, const char **out,
                  size_t *len) {
    bool go_on;
    const json_t *value = value_of(fields, name, &go_on);
    if (!value) return go_on;
    if (!string_check(fields, name, value, max)) return false;
    *out = json_string_value(value);
    if (len) *len = json_string_length(value);
    return true;
}

bool field_text(const struct fields *fields, const char *name, const char **out, size_t *len) {
    bool go_on;
    const json_t *value = value_of(fields, name, &go_on);
    if (!value) return go_on;
    if (!json_is_string(value)) return refuse_type(fields, name, "a string", value);
    *out = json_string_value(value);
    *len = json_string_length(value);
    return true;
}

bool field_choice(const struct fields *fields, const char *name, const char *choices, int *out) {
    bool go_on;
    const json_t *value = value_of(fields, name, &go_on);
    if (!value) return go_on;
    const char *text = json_string_value(value);
    const size_t len = json_string_length(value);
    int index = 0;
    for (const char *at = choices; text; index++) {
        const size_t n = strcspn(at, "|");
        if (n == len && memcmp(at, text, n) == 0) {
            *out = index;
            return true;
        }
        if (!at[n]) break;
        at += n + 1;
    }
    char shown[JSON_SHOWN_BYTES];
    json_shown(value, shown);
    return refuse_as(fields, name, text ? "invalid_value" : "invalid_type",
                     "expected one of %s, got %s", choices, shown);
}

bool field_object(const struct fields *fields, const char *name, const json_t **out) {
    bool go_on;
    const json_t *value = value_of(fields, name, &go_on);
    if (!value) return go_on;
    if (!json_is_object(value)) return refuse_type(fields, name, "an object", value);
    *out = value;
    return true;
}

static bool length_check(const struct fields *fields, const char *name, const json_t *array,
                         size_t max) {
    const size_t n = json_array_size(array);
    if (n <= max) return true;
    return refuse_as(fields, name, "array_above_max_length",
                     "an array of %zu, at most %zu are allowed", n, max);
}

bool field_array(const struct fields *fields, const char *name, size_t max, const json_t **out) {
    bool go_on;
    const json_t *value = value_of(fields, name, &go_on);
    if (!value) return go_on;
    if (!json_is_array(value)) return refuse_type(fields, name, "an array", value);
    if (!length_check(fields, name, value, max)) return false;
    *out = value;
    return true;
}

static bool item_check(const struct fields *fields, const char *name, const json_t *value,
                       size_t bytes_max) {
    if (!string_check(fields, name, value, bytes_max)) return false;
    return json_string_length(value) > 0 || field_refuse(fields, name, "\"\" is empty");
}

bool field_strings(const struct fields *fields, const char *name, size_t max, size_t bytes_max,
                   const char **out, size_t *n_out) {
    bool go_on;
    const json_t *value = value_of(fields, name, &go_on);
    if (!value) return go_on;
    if (json_is_string(value)) {
        if (!item_check(fields, name, value, bytes_max)) return false;
        out[0] = json_string_value(value);
        *n_out = 1;
        return true;
    }
    if (!json_is_array(value))
        return refuse_type(fields, name, "a string or an array of strings", value);
    if (!length_check(fields, name, value, max)) return false;
    const size_t n = json_array_size(value);
    for (size_t i = 0; i < n; i++) {
        char item_name[PATH_BYTES];
        snprintf(item_name, sizeof item_name, "%s[%zu]", name, i);
        const json_t *item = json_array_get(value, i);
        if (!item_check(fields, item_name, item, bytes_max)) return false;
        out[i] = json_string_value(item);
    }
    *n_out = n;
    return true;
}

bool field_unsupported(const struct fields *fields, const char *name, bool absent_if_false,
                       const char *why) {
    bool go_on;
    const json_t *value = value_of(fields, name, &go_on);
    if (!value || (absent_if_false && json_is_false(value))) return go_on;
    char text[JSON_SHOWN_BYTES];
    json_shown(value, text);
    return refuse_as(fields, name, "unsupported_parameter", "%s %s", text, why);
}

bool field_is_media(const char *type) {
    static const char *const media[] = {"image",       "image_url",   "input_image", "audio",
                                        "audio_url",   "input_audio", "video",       "video_url",
                                        "input_video", "file",        "input_file",  "image_file"};
    for (size_t i = 0; i < sizeof media / sizeof *media; i++)
        if (!strcmp(type, media[i])) return true;
    return false;
}

// ---------------------------------------------------------------- where JSON text is broken

enum { PATH_DEPTH = 32, KEY_BYTES = 64 };

// The containers that are open at a place of the text. Containers deeper than PATH_DEPTH are
// counted and not described.
struct walk {
    struct {
        bool is_object;
        size_t index;    // of an array's item
        const char *key; // of an object's member, escapes and all; NULL: none yet
        size_t key_len;  // so far
        bool wants_key;  // its name comes next
    } at[PATH_DEPTH];
    size_t depth, deeper;
    bool in_string, in_key, escaped;
};

static void walk_open(struct walk *walk, bool is_object) {
    if (walk->depth == PATH_DEPTH) {
        walk->deeper++;
        return;
    }
    memset(&walk->at[walk->depth], 0, sizeof walk->at[0]);
    walk->at[walk->depth].is_object = is_object;
    walk->at[walk->depth].wants_key = is_object;
    walk->depth++;
}

static void walk_close(struct walk *walk) {
    if (walk->deeper) {
        walk->deeper--;
    } else if (walk->depth) {
        walk->depth--;
    }
}

static void walk_string(struct walk *walk, char c) {
    if (!walk->escaped && c == '"') {
        walk->in_string = walk->in_key = false;
        return;
    }
    walk->escaped = !walk->escaped && c == '\\';
    if (walk->in_key) walk->at[walk->depth - 1].key_len++;
}

static void walk_mark(struct walk *walk, const char *c) {
    const bool known = walk->depth && !walk->deeper;
    if (*c == '{' || *c == '[') {
        walk_open(walk, *c == '{');
    } else if (*c == '}' || *c == ']') {
        walk_close(walk);
    } else if (*c == '"') {
        walk->in_string = true;
        walk->in_key = known && walk->at[walk->depth - 1].wants_key;
        if (!walk->in_key) return;
        walk->at[walk->depth - 1].wants_key = false;
        walk->at[walk->depth - 1].key = c + 1;
        walk->at[walk->depth - 1].key_len = 0;
    } else if (*c == ',' && known) {
        walk->at[walk->depth - 1].index++;
        walk->at[walk->depth - 1].key = NULL;
        walk->at[walk->depth - 1].wants_key = walk->at[walk->depth - 1].is_object;
    }
}

static void walk_print(const struct walk *walk, char *out, size_t out_size) {
    size_t used = 0;
    for (size_t i = 0; i < walk->depth && used + 1 < out_size; i++) {
        char key[KEY_BYTES] = "";
        if (!walk->at[i].is_object) {
            snprintf(key, sizeof key, "[%zu]", walk->at[i].index);
        } else if (walk->at[i].key) {
            unicode_quote(walk->at[i].key, walk->at[i].key_len, key, sizeof key);
        } else {
            break; // between two members: the object itself is the place
        }
        const char *dot = used && walk->at[i].is_object ? "." : "";
        const size_t need = strlen(dot) + strlen(key);
        if (need >= out_size - used) break;
        snprintf(out + used, out_size - used, "%s%s", dot, key);
        used += need;
    }
}

void json_path_at(const char *text, size_t len, size_t offset, char *out, size_t out_size) {
    assert(out_size > 0);
    out[0] = '\0';
    // The parser's offset is behind the byte that it refused, which may be a closing bracket. Then
    // the mistake is in the container that this bracket would close.
    if (offset > len) offset = len;
    struct walk walk;
    memset(&walk, 0, sizeof walk);
    for (size_t i = 0; i + 1 < offset; i++) {
        if (walk.in_string) {
            walk_string(&walk, text[i]);
        } else {
            walk_mark(&walk, text + i);
        }
    }
    walk_print(&walk, out, out_size);
}

// ---------------------------------------------------------------- integers beyond 64 bits

// place: "a", or "a.b" for the member b of the member a.
static bool walk_is_at(const struct walk *walk, const char *place) {
    for (size_t i = 0; i < walk->depth; i++) {
        const size_t len = strcspn(place, ".");
        if (!len || !walk->at[i].key || walk->at[i].key_len != len ||
            memcmp(walk->at[i].key, place, len) != 0)
            return false;
        place += len + (place[len] == '.');
    }
    return walk->depth && !walk->deeper && !*place;
}

// The length of the number at the text's start where it is an integer that int64_t does not hold,
// and a double does, else 0: the parser refuses and names what no double holds. A sign and 18
// digits always fit.
static size_t big_integer(const char *text, size_t len) {
    enum { DIGITS_FIT = 18 };
    size_t n = len && *text == '-';
    const size_t first = n;
    while (n < len && text[n] >= '0' && text[n] <= '9') n++;
    if (n - first <= DIGITS_FIT || (n < len && strchr(".eE", text[n]))) return 0;
    errno = 0;
    strtoll(text, NULL, 10);
    return errno && isfinite(strtod(text, NULL)) ? n : 0;
}

// Rewrites the integer of len bytes as a real of the same length: 17 digits, which are all that a
// double can tell apart, an exponent, blanks.
static void real_write(char *text, size_t len) {
    const size_t kept = 17 + (*text == '-');
    char exponent[24];
    const int n = snprintf(exponent, sizeof exponent, "e%zu", len - kept);
    memcpy(text + kept, exponent, (size_t)n);
    memset(text + kept + n, ' ', len - kept - (size_t)n);
}

// The number of leading bytes that can be part of a number.
static size_t number_span(const char *text, size_t len) {
    size_t n = 0;
    while (n < len && text[n] && strchr("0123456789+-.eE", text[n])) n++;
    return n;
}

static void big_note(const struct walk *walk, const char *text, size_t len, struct json_big *big,
                     size_t n_big) {
    for (size_t i = 0; i < n_big; i++) {
        if (!walk_is_at(walk, big[i].place)) continue;
        const int shown = (int)(sizeof big->text - sizeof "...");
        errno = 0;
        big[i].value = strtoull(text, NULL, 10);
        big[i].fits = *text != '-' && !errno;
        snprintf(big[i].text, sizeof big->text, "%.*s%s", len > (size_t)shown ? shown : (int)len,
                 text, len > (size_t)shown ? "..." : "");
    }
}

void json_integers_fit(char *text, size_t len, struct json_big *big, size_t n_big) {
    struct walk walk;
    memset(&walk, 0, sizeof walk);
    for (size_t i = 0; i < len;) {
        const bool is_number =
            !walk.in_string && (text[i] == '-' || (text[i] >= '0' && text[i] <= '9'));
        const size_t n = is_number ? big_integer(text + i, len - i) : 0;
        if (n) {
            big_note(&walk, text + i, n, big, n_big);
            real_write(text + i, n);
        } else if (walk.in_string) {
            walk_string(&walk, text[i]);
        } else {
            walk_mark(&walk, text + i);
        }
        i += n ? n : is_number ? number_span(text + i, len - i) : 1;
    }
}
