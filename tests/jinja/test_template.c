// Chat templates against Python's jinja2, whose results are in tests/data/templates/expected
// (tests/e2e/templates_jinja2.py wrote them). The families' templates run on the conversations;
// snippets cover each filter, test, method, operator and rule. Omitted features are tested too.
// With TEMPLATES_OUT set the results are also written into that folder, in the same form, for
// tests/e2e/templates.sh.
// label: memory
#include "data_file.h"
#include "render_text.h"

#define FOLDER TEST_DATA "/templates/"

static json_t *conversations(void) { return data_json_read(FOLDER "conversations.json"); }

// {"text": ...}, {"raised": ...} or {"error": true}.
static json_t *result_of(const char *source, size_t source_len, const char *globals, int64_t now,
                         rn_error *err) {
    struct template *tmpl;
    char *text;
    size_t len;
    rn_status status = template_create(source, source_len, &tmpl, err);
    if (status == RN_OK) {
        status = render_text(tmpl, NULL, globals, now, &text, &len, err);
        template_destroy(tmpl);
    }
    json_t *result = json_object();
    if (status == RN_OK) {
        check(strlen(text) <= len && text[len] == 0, "the text does not end with a NUL");
        json_object_set_new(result, "text", json_stringn(text, len));
        free(text);
    } else if (status == RN_ERR_ARG && strncmp(err->message, "line ", 5) != 0) {
        json_object_set_new(result, "raised", json_string(err->message));
    } else {
        json_object_set_new(result, "error", json_true());
    }
    return result;
}

static void results_write(const char *name, const json_t *results) {
    const char *folder = getenv("TEMPLATES_OUT");
    if (!folder) return;
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    check(json_dump_file(results, path, JSON_INDENT(1)) == 0, "%s", path);
}

static char *text_of(const json_t *value) { return json_dumps(value, JSON_ENCODE_ANY); }

static void check_result(const char *what, const json_t *wanted, const json_t *got,
                         const rn_error *err) {
    char *wanted_text = text_of(wanted), *got_text = text_of(got);
    check(json_equal(wanted, got), "%s:\nwanted %s\ngot    %s\n%s", what, wanted_text, got_text,
          err->message);
    free(wanted_text);
    free(got_text);
}

static const char *const families[] = {"apertus", "chatml",   "cohere", "deepseek", "deepseek31",
                                       "ernie45", "exaone4",  "gemma",  "gemma4",   "glm45",
                                       "gptoss",  "granite4", "hermes", "hunyuan",  "kimi",
                                       "lfm2",    "llama3",   "llama4", "minimax",  "ministral3",
                                       "mistral", "nemotron", "olmo3",  "phi3",     "qwen25",
                                       "qwen3",   "qwen35",   "seed"};

static bool has_name(const json_t *list, const char *name) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!strcmp(json_string_value(json_array_get(list, i)), name)) return true;
    return false;
}

// Some families render a few of the conversations alone.
static bool is_left_out(const json_t *cases, const char *family, const char *name) {
    const json_t *const few = json_object_get(cases, "few");
    return has_name(json_object_get(few, "families"), family) &&
           !has_name(json_object_get(few, "conversations"), name);
}

static void check_family(const char *family) {
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, FOLDER "%s.jinja", family);
    const struct data_file source = data_file_read(path);
    snprintf(path, sizeof path, FOLDER "expected/%s.json", family);
    json_t *wanted = data_json_read(path), *cases = conversations(), *results = json_object();
    const int64_t now = json_integer_value(json_object_get(cases, "now"));
    size_t i, n = 0;
    json_t *conversation;
    json_array_foreach(json_object_get(cases, "conversations"), i, conversation) {
        const char *name = json_string_value(json_object_get(conversation, "name"));
        if (is_left_out(cases, family, name)) continue;
        n++;
        json_t *variables = json_copy(json_object_get(json_object_get(cases, "variables"), family));
        json_object_update(variables, json_object_get(conversation, "variables"));
        char *globals = json_dumps(variables, 0);
        rn_error err = {0};
        json_t *result = result_of((const char *)source.data, source.size, globals, now, &err);
        json_object_set_new(results, name, result);
        check_result(name, json_object_get(wanted, name), result, &err);
        free(globals);
        json_decref(variables);
    }
    check(json_object_size(wanted) == n && n >= 10, "%s has %zu conversations", family, n);
    results_write(family, results);
    json_decref(results);
    json_decref(wanted);
    json_decref(cases);
    free(source.data);
}

CASE(every_family_renders_its_conversations_as_jinja2_does) {
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) check_family(families[i]);
}

CASE(every_snippet_renders_as_with_jinja2) {
    const struct data_file globals = data_file_read(FOLDER "variables.json");
    json_t *groups = data_json_read(FOLDER "expected/snippets.json"), *cases = conversations();
    const int64_t now = json_integer_value(json_object_get(cases, "now"));
    json_t *results = json_object();
    size_t n = 0, i;
    const char *name;
    json_t *group, *wanted;
    json_object_foreach(groups, name, group) {
        json_t *list = json_array();
        json_object_set_new(results, name, list);
        json_array_foreach(group, i, wanted) {
            const json_t *source = json_object_get(wanted, "source");
            rn_error err = {0};
            json_t *result = result_of(json_string_value(source), json_string_length(source),
                                       (const char *)globals.data, now, &err);
            json_object_set(result, "source", (json_t *)source);
            json_array_append_new(list, result);
            check_result(json_string_value(source), wanted, result, &err);
            n++;
        }
    }
    check(n > 900, "%zu snippets", n);
    results_write("snippets", results);
    json_decref(results);
    json_decref(groups);
    json_decref(cases);
    free(globals.data);
}

// The expected results belong to the sources that are there.
CASE(the_results_are_of_the_current_snippets) {
    json_t *sources = data_json_read(FOLDER "snippets.json");
    json_t *groups = data_json_read(FOLDER "expected/snippets.json");
    const char *name;
    json_t *group, *source;
    size_t i;
    assert_int_equal(json_object_size(sources), json_object_size(groups));
    json_object_foreach(sources, name, group) {
        const json_t *results = json_object_get(groups, name);
        check(json_array_size(group) == json_array_size(results), "%s", name);
        json_array_foreach(group, i, source) {
            const json_t *result = json_array_get(results, i);
            check(json_equal(source, json_object_get(result, "source")), "%s: %s", name,
                  json_string_value(source));
        }
    }
    json_decref(sources);
    json_decref(groups);
}

// A construct of Jinja that this interpreter leaves out fails, and the message names it.
CASE(every_construct_that_is_left_out_is_refused_by_name) {
    const struct data_file globals = data_file_read(FOLDER "variables.json");
    json_t *pairs = data_json_read(FOLDER "left_out.json"), *pair;
    size_t i;
    json_array_foreach(pairs, i, pair) {
        const json_t *source = json_array_get(pair, 0);
        rn_error err = {0};
        json_decref(result_of(json_string_value(source), json_string_length(source),
                              (const char *)globals.data, 0, &err));
        check(!strcmp(err.message, json_string_value(json_array_get(pair, 1))), "%s: '%s'",
              json_string_value(source), err.message);
    }
    check(i > 100, "%zu constructs", i);
    json_decref(pairs);
    free(globals.data);
}

TEST_PROGRAM(template) { return cases_run(NULL, NULL); }
