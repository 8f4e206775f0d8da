// Synthetic models: a spec becomes weights, whose keys are synthetic_keys.c's and whose tensors are
// synthetic_tensors.c's. Owns one anonymous mapping that stands in for the file, so that closing is
// weights_close. The values are synthetic_fill.c's. Called by runnel.c for the bench.
#define _GNU_SOURCE 1
#include "weights/synthetic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "weights/synthetic_maker.h"

enum { HUGE_BYTES = 2 << 20 };

// ---------------------------------------------------------------- memory

// No file is behind these weights, so they stay in memory beside the backend's packed copy.
static rn_status check_room(const char *name, uint64_t bytes, rn_error *err) {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const uint64_t there = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
    if (bytes <= there / 2) return RN_OK;
    return err_set(err, RN_ERR_NOMEM,
                   "%s: takes twice %llu bytes, as made and as packed; the machine has %llu", name,
                   (unsigned long long)bytes, (unsigned long long)there);
}

// The memory that stands in for the file, for tensors that have no data yet; aligned to huge pages:
// packing the weights reads it faster. Without the right to write, it costs nothing. No file is
// behind it: dropped bytes are lost.
static rn_status map_tensors(struct weights *weights, uint64_t bytes, int rights, rn_error *err) {
    uint8_t *raw =
        mmap(NULL, bytes + HUGE_BYTES, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED)
        return err_set(err, RN_ERR_NOMEM, "%s: no memory for %llu bytes", weights->name,
                       (unsigned long long)bytes);
    const size_t before = (HUGE_BYTES - (uintptr_t)raw % HUGE_BYTES) % HUGE_BYTES;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (bytes + page - 1) / page * page;
    if (before) munmap(raw, before);
    munmap(raw + before + size, bytes + HUGE_BYTES - before - size);
    madvise(raw + before, size, MADV_HUGEPAGE); // a wish
    const rn_status status =
        store_file_add(weights, weights->path, raw + before, (size_t)bytes, err);
    if (status) {
        munmap(raw + before, size);
        return status;
    }
    const int file = weights->n_files - 1;
    weights->files[file].image = (struct file_image){raw + before, size};
    weights->files[file].is_stand_in = !(rights & PROT_WRITE);
    for (int i = 0; i < weights->n_tensors; i++) {
        struct tensor_view *tensor = &weights->tensors[i];
        if (tensor->data) continue;
        tensor->data = raw + before + tensor->offset;
        tensor->file = file;
    }
    return RN_OK;
}

static rn_status make(struct maker *m, bool is_filled) {
    snprintf(m->weights->container, sizeof m->weights->container, "synthetic");
    maker_put_keys(m);
    maker_add_tensors(m);
    rn_status status = m->status;
    if (!status) status = store_metas_index(&m->weights->metas, m->weights->name, m->err);
    if (!status) status = store_tensors_index(m->weights, m->err);
    if (!status && is_filled) status = check_room(m->weights->name, m->bytes, m->err);
    if (!status)
        status = map_tensors(m->weights, m->bytes, is_filled ? PROT_READ | PROT_WRITE : PROT_READ,
                             m->err);
    if (!status && is_filled) status = synthetic_fill(m->weights, m->err);
    return status;
}

// ---------------------------------------------------------------- the spec

// Appends to a list for a message.
static void list_add(char *list, size_t size, const char *name) {
    const size_t len = strlen(list);
    snprintf(list + len, size - len, "%s%s", len ? ", " : "", name);
}

void weights_shapes_list(char *out, size_t size) {
    *out = '\0';
    const struct shape *shape;
    for (int i = 0; (shape = shape_at(i)); i++)
        if (!(shape->flags & (SHAPE_HIDDEN | SHAPE_PART))) list_add(out, size, shape->name);
}

static rn_status unknown_shape(const char *name, int len, rn_error *err) {
    char known[SHAPES_LIST];
    weights_shapes_list(known, sizeof known);
    return err_set(err, RN_ERR_ARG, "shape '%.*s' is unknown (known: %s)", len < 64 ? len : 64,
                   name, known);
}

// Of the part before a colon; NULL: none.
static const struct shape *shape_find(const char *spec) {
    return shape_named(spec, strcspn(spec, ":"));
}

const char *weights_shape_format(const char *spec) { return shape_format(shape_find(spec)); }

const char *weights_shape_at(int index) {
    const struct shape *shape;
    for (int i = 0; (shape = shape_at(i)); i++)
        if (!(shape->flags & (SHAPE_HIDDEN | SHAPE_PART)) && index-- == 0) return shape->name;
    return NULL;
}

bool weights_is_shape(const char *spec) { return shape_find(spec) != NULL; }

static rn_status unknown_format(const char *name, rn_error *err) {
    char known[300] = "";
    for (int i = 0; i < FORMAT_COUNT; i++)
        list_add(known, sizeof known, format_at((enum format_id)i)->name);
    for (int i = 0; mix_name_at(i); i++) list_add(known, sizeof known, mix_name_at(i));
    return err_set(err, RN_ERR_ARG, "format '%.64s' is unknown (known: %s)", name, known);
}

static rn_status parse(const char *spec, struct maker *m) {
    const char *colon = strchr(spec, ':');
    const size_t len = colon ? (size_t)(colon - spec) : strlen(spec);
    m->shape = shape_find(spec);
    if (!m->shape) return unknown_shape(spec, (int)(len < 64 ? len : 64), m->err);
    if (!colon)
        return err_set(m->err, RN_ERR_ARG,
                       "synthetic model '%.64s' has no format, expected as in %s:Q4_0", spec,
                       m->shape->name);
    return mix_find(colon + 1, &m->mix) ? RN_OK : unknown_format(colon + 1, m->err);
}

static rn_status open_spec(const char *spec, bool is_filled, struct weights **out, rn_error *err) {
    struct maker m = {.err = err};
    *out = NULL;
    rn_status status = parse(spec, &m);
    if (status) return status;
    m.weights = calloc(1, sizeof *m.weights);
    char *path = strdup(spec);
    if (!m.weights || !path) {
        free(m.weights);
        free(path);
        return err_set(err, RN_ERR_NOMEM, "%s: out of memory", err_path(spec));
    }
    m.weights->path = path;
    m.weights->name = err_path(path);
    status = make(&m, is_filled);
    if (status) {
        weights_close(m.weights);
        return status;
    }
    *out = m.weights;
    return RN_OK;
}

rn_status weights_open_synthetic(const char *spec, struct weights **out, rn_error *err) {
    return open_spec(spec, true, out, err);
}

rn_status weights_describe_synthetic(const char *spec, struct weights **out, rn_error *err) {
    return open_spec(spec, false, out, err);
}

rn_status weights_check_synthetic(const char *spec, rn_error *err) {
    struct weights *weights;
    rn_status status = weights_describe_synthetic(spec, &weights, err);
    if (status) return status;
    status = check_room(weights->name, weights_bytes(weights), err);
    weights_close(weights);
    return status;
}

// ---------------------------------------------------------------- other formats

const char *weights_format_missed(const struct weights *weights, const char *format,
                                  int64_t *cols) {
    uint64_t missed = 0, all = 0;
    struct mix mix;
    if (!mix_find(format, &mix)) return NULL;
    const struct format *base = format_at(mix.base);
    for (int i = 0; i < weights->n_tensors; i++) {
        const struct tensor_view *t = &weights->tensors[i];
        all += t->bytes;
        if (t->n_dims == 1 || t->format == mix.base || t->dim[0] % base->block == 0) continue;
        missed += t->bytes;
        *cols = t->dim[0];
    }
    return 2 * missed > all ? base->name : NULL;
}

// "<arch>.<suffix>", or the fallback.
static int arch_number(const struct weights *weights, const char *suffix, int fallback) {
    const struct meta_view *arch = weights_meta_find(weights, "general.architecture");
    const char *name = "";
    size_t len = 0;
    char key[160];
    int64_t value;
    if (!arch || !meta_get_string(arch, &name, &len)) return fallback;
    snprintf(key, sizeof key, "%.*s.%s", (int)(len < 64 ? len : 64), name, suffix);
    const struct meta_view *meta = weights_meta_find(weights, key);
    return meta && meta_get_i64(meta, &value) && value > 0 && value < INT32_MAX ? (int)value
                                                                                : fallback;
}

// "attn_v.weight" of "blk.3.attn_v.weight", whose layer is 3; -1: a tensor outside the layers.
static const char *layer_name(const char *name, int *layer) {
    int end = 0;
    *layer = -1;
    if (sscanf(name, "blk.%d.%n", layer, &end) == 1 && end > 0) return name + end;
    *layer = -1;
    return name;
}

static enum format_id mix_format(const struct mix *mix, const char *full, struct spot spot,
                                 bool is_tied) {
    const char *name = layer_name(full, &spot.layer);
    const bool is_expert = strstr(name, "_exps.") != NULL;
    if (!strcmp(name, "output.weight") || (!strcmp(name, "token_embd.weight") && is_tied))
        return rules_choose(mix->base, &mix->head, 1, &spot);
    if (is_expert && mix->experts.where != NOWHERE)
        return rules_choose(mix->base, &mix->experts, 1, &spot);
    if (!strcmp(name, "attn_v.weight"))
        return rules_choose(mix->base, mix->attn_v, MAX_RULES, &spot);
    if (!strcmp(name, "attn_output.weight"))
        return rules_choose(mix->base, &mix->attn_output, 1, &spot);
    if (!strncmp(name, "ffn_down", 8))
        return rules_choose(mix->base, mix->ffn_down, MAX_RULES, &spot);
    return mix->base;
}

// Vectors, columns, norms by group, biases, routers and convolutions stay floats in every mix.
static bool is_matrix(const struct tensor_view *tensor) {
    if (tensor->n_dims == 1 || tensor->dim[0] == 1 || strstr(tensor->name, "norm.")) return false;
    const size_t len = strlen(tensor->name);
    const bool is_bias = len > 5 && !strcmp(tensor->name + len - 5, ".bias");
    const bool is_conv = strstr(tensor->name, "ssm_conv1d") || strstr(tensor->name, ".conv.");
    return !is_bias && !is_conv && !strstr(tensor->name, "ffn_gate_inp");
}

rn_status weights_reformat(struct weights *weights, const char *format, rn_error *err) {
    struct mix mix;
    if (!mix_find(format, &mix)) return unknown_format(format, err);
    const int n_head = arch_number(weights, "attention.head_count", 1);
    const struct spot spot = {.layer = -1,
                              .n_layer = arch_number(weights, "block_count", 1),
                              .queries =
                                  n_head / arch_number(weights, "attention.head_count_kv", n_head)};
    const bool is_tied = !weights_tensor_find(weights, "output.weight");
    uint64_t bytes = 0;
    for (int i = 0; i < weights->n_tensors; i++) {
        struct tensor_view *t = &weights->tensors[i];
        if (is_matrix(t)) {
            t->data = NULL;
            t->parts = NULL;
            t->codes = CODES_NONE;
            t->format = format_fit(mix_format(&mix, t->name, spot, is_tied), t->dim[0]);
        } else if (!t->data) {
            t->format = FORMAT_F32;
        }
        t->bytes =
            format_row_bytes(t->format, t->dim[0]) * (uint64_t)(t->dim[1] * t->dim[2] * t->dim[3]);
        if (t->data) continue; // vectors keep their values: rope's frequencies depend on them
        t->offset = bytes;
        bytes = (bytes + t->bytes + TENSOR_ALIGN - 1) / TENSOR_ALIGN * TENSOR_ALIGN;
    }
    return map_tensors(weights, bytes, PROT_READ, err);
}
