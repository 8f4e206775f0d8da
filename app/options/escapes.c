// --escape: \n and the like in texts of the command line, as llama.cpp reads them. The unescaped
// text is a copy that its option owns. An escape that is not known stays as it is written.
#include <stdlib.h>
#include <string.h>

#include "app.h"

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') return (c | 0x20) - 'a' + 10;
    return -1;
}

// The character of the escape at `at`, a backslash, and its length in *len. 0: it is none; texts
// hold no \x00 either.
static char escape_read(const char *at, int *len) {
    static const char letters[] = "nrt\\'\"", meant[] = "\n\r\t\\'\"";
    const char *letter = at[1] ? strchr(letters, at[1]) : NULL;
    *len = 2;
    if (letter) return meant[letter - letters];
    const int high = at[1] == 'x' ? hex_digit(at[2]) : -1;
    const int low = high >= 0 ? hex_digit(at[3]) : -1;
    *len = 4;
    return low >= 0 ? (char)(high << 4 | low) : 0;
}

// Writes the text to `out`, which has room for a copy; returns the end behind its '\0'.
static char *unescape(const char *text, char *out) {
    while (*text) {
        int len = 1;
        const char read = *text == '\\' ? escape_read(text, &len) : 0;
        *out++ = read ? read : *text;
        text += read ? len : 1;
    }
    *out++ = '\0';
    return out;
}

static bool value_unescape(struct option_value *value) {
    size_t size = value->text ? strlen(value->text) + 1 : 0;
    for (int i = 0; i < value->n_list; i++) size += strlen(value->list[i]) + 1;
    if (!size) return true;
    char *at = value->unescaped = malloc(size);
    if (!at) return false;
    for (int i = 0; i < value->n_list; i++) {
        const char *text = value->list[i];
        value->list[i] = at;
        at = unescape(text, at);
    }
    if (value->text) {
        const char *text = value->text;
        value->text = at;
        unescape(text, at);
    }
    return true;
}

bool escapes_apply(struct options *options) {
    static const enum option_id texts[] = {OPT_PROMPT, OPT_SYSTEM, OPT_STOP};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (value_unescape(&options->value[texts[i]])) continue;
        app_fail(APP_FAILED, "out of memory");
        return false;
    }
    return true;
}
