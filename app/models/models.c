// `runnel models`: the models of all stores on this machine. Of each model its head is read, which
// says its format, architecture and context; no weight is. --names and the path of one model take
// the folders' contents alone.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/advice.h"
#include "models/find.h"
#include "models/store.h"
#include "terminal/interrupt.h"
#include "terminal/json.h"
#include "terminal/term.h"

enum { SPEC = 1024 };

// What a head says.
struct head {
    char spec[SPEC];
    char format[48], architecture[64];
    char problem[512];       // "": it can be run
    uint64_t n_params, need; // need: bytes of memory
    int n_ctx_train, n_ctx;  // n_ctx: positions that need is for
    bool fits;
};

struct listing {
    const struct options *options;
    struct model_list list;
    struct store_roots roots;
    struct room room;
    struct head *head; // of each entry
};

// ---------------------------------------------------------------- heads

static void text_copy(char *to, size_t size, const char *text) { snprintf(to, size, "%s", text); }

static void head_read(const struct listing *listing, const struct model_entry *entry,
                      struct head *out) {
    rn_model *model = NULL;
    struct tools_memory memory;
    rn_error err = {0};
    model_entry_spec(&listing->list, entry, out->spec, sizeof out->spec);
    if (entry->problem) {
        text_copy(out->problem, sizeof out->problem, entry->problem);
        return;
    }
    if (tools_model_describe(entry->path, NULL, &model, &err)) {
        text_copy(out->problem, sizeof out->problem, err.message);
        return;
    }
    const rn_model_info *info = rn_model_get_info(model);
    text_copy(out->format, sizeof out->format, info->format);
    text_copy(out->architecture, sizeof out->architecture, info->architecture);
    out->n_params = info->n_params;
    out->n_ctx_train = info->n_ctx_train;
    if (room_need(&listing->room, model, &out->n_ctx, &memory, &err) == RN_OK) {
        out->need = memory.total_bytes;
        out->fits = memory.fits;
    } else {
        text_copy(out->problem, sizeof out->problem, err.message);
    }
    rn_model_close(model);
}

// ---------------------------------------------------------------- text

// A cell; width 0: the last one. Control characters are escaped.
static void cell_print(const char *text, int width, bool is_right) {
    char *shown = NULL;
    size_t len = 0;
    FILE *memory = open_memstream(&shown, &len);
    if (!memory) return;
    term_print_escaped(memory, text, strlen(text), SPEC);
    fclose(memory);
    if (is_right)
        printf("%*s  ", width, shown ? shown : "");
    else
        printf("%-*s%s", width, shown ? shown : "", width ? "  " : "");
    free(shown);
}

static void row_print(const struct model_entry *entry, const struct head *head, int width) {
    char text[96];
    cell_print(head->spec, width, false);
    cell_print(store_title(entry->store), 13, false);
    cell_print(human_bytes((double)entry->bytes, text), 9, true);
    cell_print(*head->format ? head->format : "-", 8, false);
    cell_print(*head->architecture ? head->architecture : "-", 12, false);
    snprintf(text, sizeof text, head->n_ctx_train ? "%d" : "-", head->n_ctx_train);
    cell_print(text, 7, true);
    if (*head->problem)
        cell_print(head->problem, 0, false);
    else if (head->fits)
        printf("yes");
    else
        printf("no: needs %s", human_bytes((double)head->need, text));
    puts("");
}

static void none_print(const struct listing *listing) {
    puts("No models were found. The embedded model runs without -m. Looked in:");
    for (int i = 0; i < listing->roots.n; i++) {
        const struct store_root *root = &listing->roots.root[i];
        printf("  %-13s  ", store_title(root->store));
        term_print_escaped(stdout, root->path, strlen(root->path), SPEC);
        puts(root->is_there ? "" : " (is not there)");
    }
    advice_models(stdout, &listing->room);
}

static void text_print(const struct listing *listing) {
    char text[32];
    int width = 4;
    if (!listing->list.n) {
        none_print(listing);
        return;
    }
    for (int i = 0; i < listing->list.n; i++) {
        const int len = (int)strlen(listing->head[i].spec);
        if (len > width && len <= 60) width = len;
    }
    printf("%-*s  %-13s  %9s  %-8s  %-12s  %7s  %s\n", width, "name", "place", "size", "format",
           "architecture", "context", "fits");
    for (int i = 0; i < listing->list.n; i++)
        row_print(&listing->list.entry[i], &listing->head[i], width);
    if (listing->room.device.memory_free)
        printf("%s of memory are free; fits: with %d positions of context\n",
               human_bytes((double)listing->room.device.memory_free, text), ROOM_CONTEXT);
    puts("'runnel models --help' says how to get others.");
    if (listing->list.is_cut) puts("The folders have too many files; the list is not complete.");
}

// ---------------------------------------------------------------- JSON

static json_t *text_or_null(const char *text) {
    return *text ? json_text(text, strlen(text)) : json_null();
}

static json_t *count_or_null(uint64_t value) {
    return value ? json_integer((json_int_t)value) : json_null();
}

static json_t *row_pack(const struct model_entry *entry, const struct head *head) {
    json_t *row = json_object();
    const bool ok =
        row && json_put(row, "name", json_text(head->spec, strlen(head->spec))) &&
        json_put(row, "place", json_string(store_key(entry->store))) &&
        json_put(row, "path", json_text(entry->path, strlen(entry->path))) &&
        json_put(row, "bytes", json_integer((json_int_t)entry->bytes)) &&
        json_put(row, "format", text_or_null(head->format)) &&
        json_put(row, "architecture", text_or_null(head->architecture)) &&
        json_put(row, "parameters", count_or_null(head->n_params)) &&
        json_put(row, "context", count_or_null((uint64_t)head->n_ctx_train)) &&
        json_put(row, "memory_bytes", count_or_null(head->need)) &&
        json_put(row, "memory_context", count_or_null((uint64_t)head->n_ctx)) &&
        json_put(row, "fits", *head->problem ? json_null() : json_boolean(head->fits)) &&
        json_put(row, "problem", text_or_null(head->problem));
    if (ok) return row;
    json_decref(row);
    return NULL;
}

static json_t *roots_pack(const struct store_roots *roots) {
    json_t *rows = json_array();
    for (int i = 0; rows && i < roots->n; i++) {
        const struct store_root *root = &roots->root[i];
        json_t *row =
            json_pack("{s:s, s:o, s:b}", "place", store_key(root->store), "path",
                      json_text(root->path, strlen(root->path)), "exists", root->is_there);
        rows = json_append(rows, row, true);
    }
    return rows;
}

static int json_write(const struct listing *listing) {
    json_t *object = json_object(), *rows = json_array();
    for (int i = 0; rows && i < listing->list.n; i++)
        rows = json_append(rows, row_pack(&listing->list.entry[i], &listing->head[i]), true);
    const bool ok =
        json_put(object, "models", rows) &&
        json_put(object, "memory_free", count_or_null(listing->room.device.memory_free)) &&
        json_put(object, "complete", json_boolean(!listing->list.is_cut)) &&
        json_put(object, "looked_in", roots_pack(&listing->roots));
    if (ok) return json_print(object, 0);
    json_decref(object);
    return json_print(NULL, 0);
}

// ---------------------------------------------------------------- the command

static int listing_print(struct listing *listing) {
    rn_error err = {0};
    if (!stores_read(&listing->list) || !store_roots_get(&listing->roots) ||
        !(listing->head = calloc((size_t)listing->list.n + 1, sizeof *listing->head)))
        return app_fail(APP_FAILED, "out of memory");
    if (room_get(&listing->room, &err)) return app_fail_error(&err);
    for (int i = 0; i < listing->list.n; i++)
        head_read(listing, &listing->list.entry[i], &listing->head[i]);
    if (option_flag(listing->options, OPT_JSON)) return json_write(listing);
    text_print(listing);
    return APP_OK;
}

// A line for each model that can be opened. A name with a control character would be two lines.
static int names_print(struct listing *listing) {
    if (!stores_read(&listing->list)) return app_fail(APP_FAILED, "out of memory");
    for (int i = 0; i < listing->list.n; i++) {
        const struct model_entry *entry = &listing->list.entry[i];
        char spec[SPEC];
        model_entry_spec(&listing->list, entry, spec, sizeof spec);
        bool is_line = !entry->problem;
        for (const char *at = spec; *at; at++)
            is_line = is_line && (unsigned char)*at >= ' ' && *at != 0x7f;
        if (is_line) puts(spec);
    }
    return APP_OK;
}

static int path_print(const char *name) {
    char *path;
    int code = model_path_find(name, false, &path);
    if (!code && access(path, F_OK) != 0)
        code = app_fail(APP_USAGE, "%s: %s", app_short(name).text, strerror(errno));
    if (!code) puts(path);
    free(path);
    return code;
}

static int exclude(enum option_id id, const char *what) {
    return app_fail(APP_USAGE, "--%s and %s exclude each other", option_flag_name(id), what);
}

// Not a variable, which is set for other commands, too.
static bool is_typed(const struct options *options, enum option_id id) {
    return options->value[id].origin == ORIGIN_COMMAND_LINE && option_flag(options, id);
}

int command_models(const struct options *options) {
    const bool wants_names = is_typed(options, OPT_NAMES), wants_json = is_typed(options, OPT_JSON);
    const bool names = option_flag(options, OPT_NAMES) && !wants_json;
    struct listing listing = {.options = options};
    if (wants_names && wants_json) return exclude(OPT_NAMES, "--json");
    if (options->positional && (wants_names || wants_json))
        return exclude(wants_names ? OPT_NAMES : OPT_JSON, "the name of a model");
    interrupt_ends();
    if (options->positional) return path_print(options->positional);
    const int code = names ? names_print(&listing) : listing_print(&listing);
    free(listing.head);
    store_roots_free(&listing.roots);
    model_list_free(&listing.list);
    return code;
}
