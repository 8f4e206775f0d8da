// Reads one JSON value from standard input and prints what a path leads to, for the scripts:
// `jsonget ids.0`, `jsonget text`, `jsonget '#ids'` (a length), `jsonget .` (the whole, compact).
// Strings are printed as they are. Exit 1: not JSON, or no such path.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *step(json_t *value, const char *key) {
    if (json_is_array(value)) return json_array_get(value, (size_t)strtoul(key, NULL, 10));
    return json_object_get(value, key);
}

int main(int argc, char **argv) {
    json_error_t problem;
    json_t *root =
        json_loadf(stdin, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &problem);
    if (!root || argc != 2) {
        fprintf(stderr, "jsonget: %s\n", root ? "usage: jsonget PATH" : problem.text);
        return 1;
    }
    const int count = argv[1][0] == '#';
    json_t *value = root;
    char path[256];
    snprintf(path, sizeof path, "%s", argv[1] + count);
    char *rest = NULL;
    for (char *key = strtok_r(path, ".", &rest); key && value; key = strtok_r(NULL, ".", &rest)) {
        value = step(value, key);
    }
    if (!value) {
        fprintf(stderr, "jsonget: no %s\n", argv[1]);
    } else if (count) {
        printf("%zu\n", json_is_array(value) ? json_array_size(value) : json_object_size(value));
    } else if (json_is_string(value)) {
        fwrite(json_string_value(value), 1, json_string_length(value), stdout);
    } else {
        json_dumpf(value, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
        putchar('\n');
    }
    const int failed = !value;
    json_decref(root);
    return failed;
}
