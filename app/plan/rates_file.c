// The file of rates that `runnel plan` measured before, in $XDG_CACHE_HOME/runnel or
// ~/.cache/runnel, one JSON file for each key. The name is a hash of the key; the key itself is
// inside and must be equal. A file that is missing, broken or of another key is measured again.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan/machine.h"
#include "terminal/json.h"

enum { PATH_SIZE = 1024, LEAST_BANDWIDTH = 1000000 };

static bool path_make(const char *key, bool with_folders, char out[PATH_SIZE]) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char folder[PATH_SIZE / 2];
    uint64_t hash = 14695981039346656037u; // FNV-1a
    for (const char *c = key; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    const bool has_cache = cache && cache[0] == '/'; // the specification ignores relative ones
    if (!has_cache && (!home || !*home)) return false;
    int len = has_cache ? snprintf(folder, sizeof folder, "%s", cache)
                        : snprintf(folder, sizeof folder, "%s/.cache", home);
    if (len < 0 || (size_t)len >= sizeof folder) return false;
    if (with_folders) mkdir(folder, 0700);
    len = snprintf(out, PATH_SIZE, "%s/runnel", folder);
    if (with_folders) mkdir(out, 0700);
    len += snprintf(out + len, PATH_SIZE - (size_t)len, "/rates-%016llx.json",
                    (unsigned long long)hash);
    return len < PATH_SIZE;
}

static void heads_name(const struct rates_attention_key *heads, char out[96]) {
    snprintf(out, 96, "%s %d/%d x %d%s%d", heads->kv_type, heads->n_head, heads->n_head_kv,
             heads->dim_k, heads->is_latent ? " with " : "+", heads->dim_v);
}

// ---------------------------------------------------------------- reading

static bool number_get(const json_t *object, const char *name, double *out) {
    const json_t *value = json_object_get(object, name);
    if (!json_is_number(value) || json_number_value(value) < 0) return false;
    *out = json_number_value(value);
    return true;
}

static bool numbers_get(const json_t *object, const char *name, int n, double *out) {
    const json_t *array = json_object_get(object, name);
    if (json_array_size(array) != (size_t)n) return false;
    for (int i = 0; i < n; i++) {
        const json_t *value = json_array_get(array, (size_t)i);
        if (!json_is_number(value) || json_number_value(value) < 0) return false;
        out[i] = json_number_value(value);
    }
    return true;
}

static bool product_get(const json_t *object, struct predict_product *out) {
    bool ok = number_get(object, "share", &out->share) && out->share > 0 &&
              numbers_get(object, "cached", PREDICT_POINTS, out->cached) &&
              numbers_get(object, "output", PREDICT_POINTS, out->output) &&
              numbers_get(object, "input", PREDICT_POINTS, out->input) &&
              numbers_get(object, "overlap", PREDICT_POINTS, out->overlap);
    for (int i = 0; i < PREDICT_POINTS && ok; i++) ok = out->cached[i] > 0 && out->overlap[i] <= 1;
    return ok;
}

static bool kv_get(const json_t *object, struct predict_kv *out) {
    return number_get(object, "seq_ns", &out->seq_ns) &&
           number_get(object, "byte_ns", &out->byte_ns) &&
           number_get(object, "append_ns", &out->append_ns);
}

static bool base_get(const json_t *root, struct predict_rates *out) {
    double cache;
    bool ok = number_get(root, "bandwidth", &out->bandwidth) && out->bandwidth >= LEAST_BANDWIDTH &&
              number_get(root, "int_flops", &out->int_flops) &&
              number_get(root, "float_flops", &out->float_flops) &&
              number_get(root, "step_ns", &out->step_ns) &&
              number_get(root, "cache_bytes", &cache) &&
              numbers_get(root, "memory_share", PREDICT_SETS, out->memory_share);
    if (!ok) return false;
    out->cache_bytes = (uint64_t)cache;
    const json_t *ops = json_object_get(root, "ops");
    for (int kind = 0; kind < OP_COUNT && ok; kind++) {
        const json_t *op = json_object_get(ops, op_name((enum op_kind)kind));
        ok = number_get(op, "fixed_ns", &out->op[kind].fixed_ns) &&
             number_get(op, "float_ns", &out->op[kind].float_ns);
    }
    return ok;
}

static json_t *file_read(const char *key) {
    char path[PATH_SIZE];
    if (!path_make(key, false, path)) return NULL;
    json_t *root = json_load_file(path, 0, NULL);
    const json_t *own = json_object_get(root, "key");
    if (root && json_is_string(own) && !strcmp(json_string_value(own), key)) return root;
    json_decref(root);
    return NULL;
}

static double busy_get(const json_t *object) {
    double share;
    return number_get(object, "busy_share", &share) ? share : -1;
}

bool rates_load(const char *key, const struct rates_attention_key *heads, struct predict_rates *out,
                struct rates_busy *busy, bool *has_attention) {
    char name[96];
    json_t *root = file_read(key);
    *has_attention = false;
    if (!root || !base_get(root, out)) {
        *out = (struct predict_rates){0};
        json_decref(root);
        return false;
    }
    for (int i = 0; i < FORMAT_COUNT; i++) {
        const json_t *product =
            json_object_get(json_object_get(root, "products"), format_at((enum format_id)i)->name);
        out->product[i].is_known = product_get(product, &out->product[i]);
        busy->product[i] = busy_get(product);
    }
    busy->base = busy_get(root);
    heads_name(heads, name);
    const json_t *attention = json_object_get(json_object_get(root, "attention"), name);
    busy->attention = busy_get(attention);
    *has_attention = number_get(attention, "fixed_ns", &out->attention.fixed_ns) &&
                     number_get(attention, "row_ns", &out->attention.row_ns) &&
                     number_get(attention, "flop_ns", &out->attention.flop_ns) &&
                     kv_get(json_object_get(attention, "cached"), &out->attention.cached) &&
                     kv_get(json_object_get(attention, "memory"), &out->attention.memory);
    json_decref(root);
    return true;
}

// ---------------------------------------------------------------- writing

static json_t *numbers_pack(const double *values, int n) {
    json_t *array = json_array();
    for (int i = 0; array && i < n; i++) json_array_append_new(array, json_real(values[i]));
    return array;
}

static json_t *product_pack(const struct predict_product *product) {
    return json_pack("{s:f, s:o, s:o, s:o, s:o}", "share", product->share, "cached",
                     numbers_pack(product->cached, PREDICT_POINTS), "output",
                     numbers_pack(product->output, PREDICT_POINTS), "input",
                     numbers_pack(product->input, PREDICT_POINTS), "overlap",
                     numbers_pack(product->overlap, PREDICT_POINTS));
}

static json_t *kv_pack(const struct predict_kv *kv) {
    return json_pack("{s:f, s:f, s:f}", "seq_ns", kv->seq_ns, "byte_ns", kv->byte_ns, "append_ns",
                     kv->append_ns);
}

static json_t *child_get(json_t *root, const char *name) {
    if (!json_is_object(json_object_get(root, name)))
        json_object_set_new(root, name, json_object());
    return json_object_get(root, name);
}

// A part that was measured again has its own.
static void busy_put(json_t *object, double share) {
    if (share >= 0)
        json_object_set_new(object, "busy_share", json_real(share));
    else
        json_object_del(object, "busy_share");
}

static void rates_pack(json_t *root, const struct rates_attention_key *heads,
                       const struct predict_rates *rates, const struct rates_busy *busy) {
    char name[96];
    busy_put(root, busy->base);
    json_object_set_new(root, "bandwidth", json_real(rates->bandwidth));
    json_object_set_new(root, "int_flops", json_real(rates->int_flops));
    json_object_set_new(root, "float_flops", json_real(rates->float_flops));
    json_object_set_new(root, "cache_bytes", json_integer((json_int_t)rates->cache_bytes));
    json_object_set_new(root, "memory_share", numbers_pack(rates->memory_share, PREDICT_SETS));
    json_object_set_new(root, "step_ns", json_real(rates->step_ns));
    for (int kind = 0; kind < OP_COUNT; kind++)
        json_object_set_new(child_get(root, "ops"), op_name((enum op_kind)kind),
                            json_pack("{s:f, s:f}", "fixed_ns", rates->op[kind].fixed_ns,
                                      "float_ns", rates->op[kind].float_ns));
    for (int i = 0; i < FORMAT_COUNT; i++) {
        const struct predict_product *product = &rates->product[i];
        if (!product->is_known) continue;
        json_object_set_new(child_get(root, "products"), format_at((enum format_id)i)->name,
                            product_pack(product));
        busy_put(json_object_get(json_object_get(root, "products"),
                                 format_at((enum format_id)i)->name),
                 busy->product[i]);
    }
    heads_name(heads, name);
    if (!heads->n_head) return;
    json_object_set_new(child_get(root, "attention"), name,
                        json_pack("{s:f, s:f, s:f, s:o, s:o}", "fixed_ns",
                                  rates->attention.fixed_ns, "row_ns", rates->attention.row_ns,
                                  "flop_ns", rates->attention.flop_ns, "cached",
                                  kv_pack(&rates->attention.cached), "memory",
                                  kv_pack(&rates->attention.memory)));
    busy_put(json_object_get(json_object_get(root, "attention"), name), busy->attention);
}

void rates_save(const char *key, const struct rates_attention_key *heads,
                const struct predict_rates *rates, const struct rates_busy *busy) {
    char path[PATH_SIZE], next[PATH_SIZE + 32];
    json_t *root = file_read(key);
    if (!root) root = json_pack("{s:s}", "key", key);
    if (!root) return;
    rates_pack(root, heads, rates, busy);
    if (path_make(key, true, path)) {
        snprintf(next, sizeof next, "%s.%ld", path, (long)getpid()); // no reader sees half a file
        if (json_dump_file(root, next, JSON_INDENT(1)) != 0 || rename(next, path) != 0)
            unlink(next);
    }
    json_decref(root);
}
