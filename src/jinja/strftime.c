// strftime in UTC and the C locale, with the calendar computed here: no environment is read. The
// directives are those of glibc, with its flags - _ 0 ^ and widths left out; what is not known is
// copied as it stands.
#include <stdio.h>
#include <string.h>

#include "jinja/render.h"

struct date {
    int64_t year, seconds;                                  // seconds since 1970
    int month, day, weekday, yearday, hour, minute, second; // month, weekday, yearday from 0
};

static bool is_leap(int64_t year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static void date_from_seconds(int64_t seconds, struct date *out) {
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const int64_t days = floor_div(seconds, 86400);
    const int rest = (int)(seconds - days * 86400);
    out->seconds = seconds;
    out->hour = rest / 3600;
    out->minute = rest / 60 % 60;
    out->second = rest % 60;
    out->weekday = (int)(((days + 4) % 7 + 7) % 7); // 1970 began on a Thursday
    // Cycles of 400 years have 146097 days; within one, years are counted off.
    const int64_t cycle = floor_div(days, 146097);
    int left = (int)(days - cycle * 146097);
    out->year = 1970 + cycle * 400;
    while (left >= 365 + is_leap(out->year)) left -= 365 + is_leap(out->year++);
    out->yearday = left;
    for (out->month = 0;; out->month++) {
        const int length = lengths[out->month] + (out->month == 1 && is_leap(out->year));
        if (left < length) break;
        left -= length;
    }
    out->day = left + 1;
}

// The ISO 8601 week and the year it belongs to.
static int iso_week(const struct date *d, int64_t *year) {
    const int weekday = (d->weekday + 6) % 7; // Monday is 0
    int week = (d->yearday - weekday + 10) / 7;
    *year = d->year;
    if (week < 1) {
        const int days = 365 + is_leap(d->year - 1);
        *year = d->year - 1;
        week = (d->yearday + days - weekday + 10) / 7;
    } else if (week == 53) {
        const int days = 365 + is_leap(d->year);
        if (d->yearday - weekday + 3 >= days) {
            *year = d->year + 1;
            week = 1;
        }
    }
    return week;
}

static const char *const day_names[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};
static const char *const month_names[] = {"January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December"};

static const char *expansion_of(char directive) {
    switch (directive) {
    case 'c':
        return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x':
        return "%m/%d/%y";
    case 'F':
        return "%Y-%m-%d";
    case 'R':
        return "%H:%M";
    case 'r':
        return "%I:%M:%S %p";
    case 'T':
    case 'X':
        return "%H:%M:%S";
    default:
        return NULL;
    }
}

struct field {
    int64_t value;
    int width;
    char pad; // '0' or ' '
};

static bool field_of(const struct date *d, char directive, struct field *out) {
    int64_t year;
    const int week = iso_week(d, &year);
    const int hour12 = d->hour % 12 ? d->hour % 12 : 12;
    const struct {
        char directive;
        struct field field;
    } fields[] = {
        {'d', {d->day, 2, '0'}},
        {'e', {d->day, 2, ' '}},
        {'H', {d->hour, 2, '0'}},
        {'k', {d->hour, 2, ' '}},
        {'I', {hour12, 2, '0'}},
        {'l', {hour12, 2, ' '}},
        {'j', {d->yearday + 1, 3, '0'}},
        {'m', {d->month + 1, 2, '0'}},
        {'M', {d->minute, 2, '0'}},
        {'S', {d->second, 2, '0'}},
        {'U', {(d->yearday + 7 - d->weekday) / 7, 2, '0'}},
        {'W', {(d->yearday + 7 - (d->weekday + 6) % 7) / 7, 2, '0'}},
        {'V', {week, 2, '0'}},
        {'G', {year, 1, '0'}},
        {'g', {(year % 100 + 100) % 100, 2, '0'}},
        {'u', {d->weekday ? d->weekday : 7, 1, '0'}},
        {'w', {d->weekday, 1, '0'}},
        {'Y', {d->year, 1, '0'}},
        {'y', {(d->year % 100 + 100) % 100, 2, '0'}},
        {'C', {floor_div(d->year, 100), 2, '0'}},
        {'s', {d->seconds, 1, '0'}},
        {'f', {0, 6, '0'}},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].directive != directive) continue;
        *out = fields[i].field;
        return true;
    }
    return false;
}

static bool write_name(struct render *r, const char *name, size_t len, bool is_upper) {
    char text[16];
    for (size_t i = 0; i < len; i++) {
        const bool flips = is_upper && name[i] >= 'a' && name[i] <= 'z';
        text[i] = (char)(name[i] ^ (flips ? 0x20 : 0));
    }
    return jinja_write(r, text, len);
}

static bool write_number(struct render *r, struct field field, char flag) {
    char text[32];
    const char pad = flag == '_' ? ' ' : flag == '0' ? '0' : field.pad;
    const int width = flag == '-' ? 1 : field.width;
    const int n = pad == '0' ? snprintf(text, sizeof text, "%0*lld", width, (long long)field.value)
                             : snprintf(text, sizeof text, "%*lld", width, (long long)field.value);
    return jinja_write(r, text, (size_t)n);
}

// Directives that give words; *is_known: whether this is one.
static bool write_word(struct render *r, const struct date *d, char directive, char flag,
                       bool *is_known) {
    const bool is_upper = flag == '^';
    const char *day = day_names[d->weekday], *month = month_names[d->month];
    *is_known = true;
    switch (directive) {
    case 'a':
        return write_name(r, day, 3, is_upper);
    case 'A':
        return write_name(r, day, strlen(day), is_upper);
    case 'b':
    case 'h':
        return write_name(r, month, 3, is_upper);
    case 'B':
        return write_name(r, month, strlen(month), is_upper);
    case 'p':
        return jinja_write(r, d->hour < 12 ? "AM" : "PM", 2);
    case 'P':
        return jinja_write(r, d->hour < 12 ? "am" : "pm", 2);
    case 'n':
        return jinja_write(r, "\n", 1);
    case 't':
        return jinja_write(r, "\t", 1);
    case '%':
        return jinja_write(r, "%", 1);
    case 'Z': // a naive time has no zone
    case 'z':
        return true;
    default:
        *is_known = false;
        return true;
    }
}

static bool write_format(struct render *r, const struct date *d, const char *text, size_t len);

// The directive behind the '%' at `at`; returns the offset behind it, or 0 when the render failed.
static size_t write_directive(struct render *r, const struct date *d, const char *text, size_t len,
                              size_t at) {
    size_t end = at + 1;
    char flag = 0;
    if (end < len && text[end] && strchr("-_0^", text[end])) flag = text[end++];
    if (end == len) return jinja_write(r, text + at, end - at) ? end : 0;
    const char directive = text[end++];
    bool is_known;
    if (!write_word(r, d, directive, flag, &is_known)) return 0;
    if (is_known) return end;
    const char *expansion = expansion_of(directive);
    if (expansion) return write_format(r, d, expansion, strlen(expansion)) ? end : 0;
    struct field field;
    if (field_of(d, directive, &field)) return write_number(r, field, flag) ? end : 0;
    return jinja_write(r, text + at, end - at) ? end : 0;
}

static bool write_format(struct render *r, const struct date *d, const char *text, size_t len) {
    for (size_t at = 0; at < len;) {
        if (text[at] != '%') {
            if (!jinja_write(r, text + at++, 1)) return false;
            continue;
        }
        at = write_directive(r, d, text, len, at);
        if (!at || !jinja_charge(r, 1)) return false;
    }
    return true;
}

struct value jinja_strftime(struct render *r, const struct str *format) {
    // Years of one to four digits, as Python's datetime has them.
    const int64_t first = -62135596800, last = 253402300799;
    if (r->now < first || r->now > last) {
        return jinja_limit(r, "the time %lld is outside of the years 1 to 9999", (long long)r->now);
    }
    struct date date;
    date_from_seconds(r->now, &date);
    const size_t mark = r->out_len;
    if (!jinja_work_chars(r, format->len)) return value_error();
    return write_format(r, &date, format->data, format->len) ? jinja_take(r, mark) : value_error();
}
