// A command line as options_parse takes it, with the messages that were printed about it.
#ifndef RN_TESTS_APP_PARSED_H
#define RN_TESTS_APP_PARSED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "check.h"

// Catches what is printed to *stream (stdout or stderr) between catch_begin and catch_end.
struct caught {
    FILE **stream, *kept, *memory;
    char *text; // owned; valid after catch_end
    size_t len;
};

static inline void catch_begin(struct caught *caught, FILE **stream) {
    *caught = (struct caught){.stream = stream, .kept = *stream};
    *stream = caught->memory = open_memstream(&caught->text, &caught->len);
    assert_non_null(caught->memory);
}

static inline const char *catch_end(struct caught *caught) {
    *caught->stream = caught->kept;
    fclose(caught->memory);
    return caught->text;
}

struct parsed {
    bool ok;
    struct options options;
    struct caught errors; // its text: the message, "" for none
};

// argv ends with NULL.
static inline void parse_list(struct parsed *out, enum command_id command, char **argv) {
    int argc = 0;
    while (argv[argc]) argc++;
    catch_begin(&out->errors, &stderr);
    out->ok = options_parse(&out->options, command, argc, argv);
    catch_end(&out->errors);
}

#define parse(out, command, ...)                                                                   \
    parse_list(out, command, (char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static inline void parsed_free(struct parsed *parsed) {
    options_deinit(&parsed->options);
    free(parsed->errors.text);
}

static inline void check_refused(struct parsed *parsed, const char *part) {
    check(!parsed->ok, "accepted, expected '%s'", part);
    check(strstr(parsed->errors.text, part), "'%s' does not hold '%s'", parsed->errors.text, part);
    check(strchr(parsed->errors.text, '\n') == parsed->errors.text + parsed->errors.len - 1,
          "'%s' is not one line", parsed->errors.text);
    parsed_free(parsed);
}

static inline void check_accepted(const struct parsed *parsed) {
    check(parsed->ok, "refused: %s", parsed->errors.text);
}

#define refused(part, command, ...)                                                                \
    do {                                                                                           \
        struct parsed parsed_;                                                                     \
        parse(&parsed_, command, __VA_ARGS__);                                                     \
        check_refused(&parsed_, part);                                                             \
    } while (0)

#endif
