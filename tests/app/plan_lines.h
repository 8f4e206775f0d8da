// Lines of `runnel plan`, run in this process, and the numbers of their JSON.
#ifndef RN_TESTS_APP_PLAN_LINES_H
#define RN_TESTS_APP_PLAN_LINES_H

#include <jansson.h>

#include "bench_world.h"
#include "data_file.h"
#include "plan/machine.h"

static struct caught caught; // of the last line

static inline void ran(const char *line) {
    const int code = line_run_as(COMMAND_PLAN, line, command_plan, &caught);
    check(code == APP_OK, "plan %s: status %d: %s", line, code, caught.err);
}

static inline void refused(const char *line, const char *message) {
    const int code = line_run_as(COMMAND_PLAN, line, command_plan, &caught);
    check(code == APP_USAGE, "plan %s: status %d", line, code);
    check(strstr(caught.err, message), "plan %s: '%s' is not in: %s", line, message, caught.err);
    const char *end = strchr(caught.err, '\n');
    check(end && !end[1], "plan %s: not one line: %s", line, caught.err);
    check(!*caught.out, "plan %s: output before the failure: %s", line, caught.out);
}

static inline json_t *json_of(const char *line) {
    char all[512];
    json_error_t problem;
    snprintf(all, sizeof all, "%s --json", line);
    ran(all);
    json_t *root = json_loads(caught.out, 0, &problem);
    check(root != NULL, "plan %s: %s", line, problem.text);
    return root;
}

static inline double number_at(const json_t *root, const char *a, const char *b) {
    return json_number_value(json_object_get(json_object_get(root, a), b));
}

static inline double plan_number(const json_t *root, size_t row, const char *name) {
    return json_number_value(
        json_object_get(json_array_get(json_object_get(root, "rows"), row), name));
}

// The row of that many users.
static inline const json_t *row_of(const json_t *root, int users) {
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(root, "rows"), i, row) {
        if (json_integer_value(json_object_get(row, "users")) == users) return row;
    }
    return NULL;
}

#endif
