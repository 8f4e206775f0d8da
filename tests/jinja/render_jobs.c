// Renders the jobs on stdin, for tests/e2e/templates_many.py. A line is the path of a template, a
// tab, and the JSON text of its variables. The answer is a line of JSON: {"text": ...}, {"raised":
// ...} where the template calls raise_exception, or {"error": message}.
#include <stdio.h>

#include "data_file.h"
#include "render_text.h"

static json_t *result_of(const struct template *tmpl, const char *globals, int64_t now) {
    char *text;
    size_t len;
    rn_error err = {0};
    const rn_status status = render_text(tmpl, NULL, globals, now, &text, &len, &err);
    if (status == RN_OK) {
        json_t *result = json_pack("{s:s%}", "text", text, len);
        free(text);
        return result;
    }
    const bool is_raised = status == RN_ERR_ARG && strncmp(err.message, "line ", 5) != 0;
    return json_pack("{s:s}", is_raised ? "raised" : "error", err.message);
}

int main(int argc, char **argv) {
    const int64_t now = argc > 1 ? strtoll(argv[1], NULL, 10) : 0;
    char *line = NULL, path[DATA_PATH_BYTES] = "";
    size_t cap = 0;
    struct template *tmpl = NULL;
    rn_error err = {0};
    while (getline(&line, &cap, stdin) > 0) {
        line[strcspn(line, "\n")] = 0;
        char *const globals = strchr(line, '\t') + 1;
        globals[-1] = 0;
        if (strcmp(path, line) != 0) { // jobs of one template follow each other
            template_destroy(tmpl);
            snprintf(path, sizeof path, "%s", line);
            const struct data_file source = data_file_read(path);
            template_create((const char *)source.data, source.size, &tmpl, &err);
            free(source.data);
        }
        json_t *result =
            tmpl ? result_of(tmpl, globals, now) : json_pack("{s:s}", "error", err.message);
        json_dumpf(result, stdout, JSON_ENSURE_ASCII);
        putchar('\n');
        json_decref(result);
    }
    template_destroy(tmpl);
    free(line);
    return 0;
}
