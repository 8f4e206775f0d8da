// The program's own functions under test: their output and messages are caught, and a command line
// of `runnel bench` runs in this process.
#ifndef RN_TESTS_APP_BENCH_WORLD_H
#define RN_TESTS_APP_BENCH_WORLD_H

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "check.h"

#define SMALL  MODELS_DIR "/tale-1m-f16.gguf"
#define BLOCKS MODELS_DIR "/tale-20m-q4_k_m.gguf"
#define TINY   TEST_DATA "/golden/llama/model.gguf"

// Standard output and standard error go to files until caught_end().
struct caught {
    FILE *file[2];
    int saved[2];
    char out[1 << 16], err[4096];
};

static inline void caught_begin(struct caught *caught) {
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        caught->file[i] = tmpfile();
        assert_non_null(caught->file[i]);
        caught->saved[i] = dup(i + 1);
        assert_int_equal(dup2(fileno(caught->file[i]), i + 1), i + 1);
    }
}

// Tests run beside other programs: the warning of it may be there or not, so it is left out.
static inline void busy_drop(char *err) {
    char *at = strstr(err, "runnel: warning: other programs took ");
    if (!at) return;
    const char *next = strchr(at, '\n');
    memmove(at, next ? next + 1 : at + strlen(at), next ? strlen(next) : 1);
}

static inline void caught_end(struct caught *caught) {
    char *const to[2] = {caught->out, caught->err};
    const size_t size[2] = {sizeof caught->out, sizeof caught->err};
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(caught->saved[i], i + 1);
        close(caught->saved[i]);
        rewind(caught->file[i]);
        to[i][fread(to[i], 1, size[i] - 1, caught->file[i])] = '\0';
        fclose(caught->file[i]);
    }
}

// A group's setup: no variable is meant for the program.
static inline int environment_clean(void **state) {
    extern char **environ;
    for (char **at = environ; *at;) {
        char name[64];
        const size_t len = strcspn(*at, "=");
        snprintf(name, sizeof name, "%.*s", (int)len, *at);
        if (strncmp(name, "RUNNEL_", 7) != 0 && strcmp(name, "NO_COLOR") != 0)
            at++;
        else if (unsetenv(name))
            return 1;
    }
    return 0;
}

enum { WORDS_MAX = 64 };

// The words of a line; text between single quotes is one word.
static inline int words_of(char *line, char *argv[WORDS_MAX]) {
    int n = 0;
    for (char *at = line; *at;) {
        const char end = *at == '\'' ? '\'' : ' ';
        if (*at == ' ' && at++) continue;
        if (end == '\'') at++;
        assert_true(n < WORDS_MAX);
        argv[n++] = at;
        at += strcspn(at, end == '\'' ? "'" : " ");
        if (*at) *at++ = '\0';
    }
    return n;
}

// Parses the line as options of the command and gives them to f; returns the exit code.
static inline int line_run_as(enum command_id command, const char *line,
                              int (*f)(const struct options *), struct caught *caught) {
    char copy[1024], *argv[WORDS_MAX];
    struct options options;
    snprintf(copy, sizeof copy, "%s", line);
    const int argc = words_of(copy, argv);
    caught_begin(caught);
    const int code = options_parse(&options, command, argc, argv) ? f(&options) : (int)APP_USAGE;
    options_deinit(&options);
    caught_end(caught);
    return code;
}

// The command, but measurements of the bandwidth take a moment only: no check looks at a speed.
static inline int bench_quick(const struct options *options) {
    const struct term term = {0};
    struct bench_config config;
    if (option_flag(options, OPT_KERNELS)) return command_bench(options);
    int code = bench_config_init(options, &config);
    if (code) return code;
    config.bandwidth_ms = 1;
    peer_prepare(&config);
    code = bench_run(&config, &term);
    bench_config_deinit(&config);
    return code;
}

static inline int line_run(const char *line, int (*f)(const struct options *),
                           struct caught *caught) {
    return line_run_as(COMMAND_BENCH, line, f, caught);
}

// Runs the command, which has to succeed.
static inline void bench_ran(const char *line, struct caught *caught) {
    const int code = line_run(line, bench_quick, caught);
    check(code == APP_OK, "bench %s: status %d: %s", line, code, caught->err);
}

// Runs the command, which has to fail with a message.
static inline void bench_failed(const char *line, int wanted, const char *message) {
    static struct caught caught;
    const int code = line_run(line, bench_quick, &caught);
    check(code == wanted, "bench %s: status %d: %s", line, code, caught.err);
    check(strstr(caught.err, message), "bench %s: '%s' is not in: %s", line, message, caught.err);
    check(!*caught.out, "bench %s: rows before the failure: %s", line, caught.out);
}

// The rows of the command's JSON; to be released.
static inline json_t *bench_rows(const char *line) {
    static struct caught caught;
    char json[1024];
    snprintf(json, sizeof json, "%s -o json", line);
    bench_ran(json, &caught);
    json_t *rows = json_loads(caught.out, 0, NULL);
    check(json_is_array(rows), "bench %s: no JSON: %s", line, caught.out);
    return rows;
}

static inline const json_t *row_value(const json_t *rows, size_t row, const char *key) {
    const json_t *value = json_object_get(json_array_get(rows, row), key);
    check(value, "row %zu has no %s", row, key);
    return value;
}

// NaN: null.
static inline double row_number(const json_t *rows, size_t row, const char *key) {
    const json_t *value = row_value(rows, row, key);
    if (json_is_boolean(value)) return json_is_true(value);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static inline const char *row_string(const json_t *rows, size_t row, const char *key) {
    const char *text = json_string_value(row_value(rows, row, key));
    return text ? text : "";
}

static inline int occurrences(const char *text, const char *part) {
    int n = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) n++;
    return n;
}

static inline void near(const char *what, double got, double wanted) {
    check(fabs(got - wanted) <= 1e-8 * fmax(fabs(got), fabs(wanted)), "%s: %.12g is not %.12g",
          what, got, wanted);
}

#endif
