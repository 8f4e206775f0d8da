// The folder's tensors under GGUF's names: each is matched with the rows of its class, and its row
// says what it becomes (hf_maps.c). A tensor without a row is refused, so that no part of a model
// is left out silently. Rows of q and k stay as they are (see rope.halves in hf_config.c). Called
// by hf_folder.c, after the config was read.
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/derived.h"

void hf_mapper_fail(struct hf_mapper *m, rn_status status, const char *fmt, ...) {
    if (m->c->status != RN_OK) return;
    char text[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    m->c->status = err_set(m->c->err, status, "%s: tensor %.128s: %s",
                           m->c->weights->files[m->tensor->file].path, m->tensor->name, text);
}

// --- names ---

static bool starts_with(const char **text, const char *prefix) {
    const size_t len = strlen(prefix);
    if (strncmp(*text, prefix, len) != 0) return false;
    *text += len;
    return true;
}

// In a model that also reads images, the text model has "language_model." before or behind
// "model.".
static const char *name_bare(const char *name) {
    starts_with(&name, "model.");
    starts_with(&name, "language_model.");
    starts_with(&name, "model.");
    starts_with(&name, "transformer.");
    starts_with(&name, "backbone.");
    return name;
}

// A number as one is written, so that no two names mean the same.
static bool number_read(const char **text, int64_t *out) {
    const char *at = *text;
    int64_t value = 0;
    while (*at >= '0' && *at <= '9' && at - *text < 9) value = value * 10 + (*at++ - '0');
    if (at == *text || (**text == '0' && at - *text > 1)) return false;
    *text = at;
    *out = value;
    return true;
}

static bool matches(const char *pattern, const char *text, int64_t number[2]) {
    int n = 0;
    for (; *pattern; pattern++) {
        if (*pattern == '*') return true;
        if (*pattern == '#') {
            if (!number_read(&text, &number[n++])) return false;
        } else if (*pattern != *text++) {
            return false;
        }
    }
    return *text == 0;
}

static const struct hf_tensor *row_find(struct hf_mapper *m, const char *name) {
    for (int t = 0; t < HF_MAX_TABLES && m->c->class->tensors[t]; t++)
        for (const struct hf_tensor *row = m->c->class->tensors[t]; row->pattern; row++)
            if (matches(row->pattern, name, m->number)) return row;
    return NULL;
}

static int row_count(const struct hf_class *class) {
    int n = 0;
    for (int t = 0; t < HF_MAX_TABLES && class->tensors[t]; t++)
        for (const struct hf_tensor *row = class->tensors[t]; row->pattern; row++) n++;
    return n;
}

int *hf_mapper_slices(struct hf_mapper *m) {
    const struct hf_class *class = m->c->class;
    int *slices = &m->slices[m->number[0] * m->n_rows];
    for (int t = 0; t < HF_MAX_TABLES && class->tensors[t]; t++)
        for (const struct hf_tensor *row = class->tensors[t]; row->pattern; row++, slices++)
            if (row->name && strcmp(row->name, m->row->name) == 0) return slices;
    return slices;
}

void hf_mapper_name(const struct hf_mapper *m, const char *which, char out[HF_GGUF_NAME_MAX]) {
    size_t len = 0;
    for (const char *at = m->row->name; *at; at++) {
        const size_t left = HF_GGUF_NAME_MAX - len;
        if (*at == '#') {
            len += (size_t)snprintf(out + len, left, "%" PRId64, m->number[0]);
        } else if (*at == '@') {
            len += (size_t)snprintf(out + len, left, "%s", which);
        } else {
            out[len++] = *at;
        }
        assert(len < HF_GGUF_NAME_MAX); // names are those of rows
    }
    out[len] = 0;
}

// --- all of them ---

// Blocks that predict further tokens: "mtp.layers.0." and "mtp." name the first one. Elsewhere they
// are layers behind the last one, as many as the config says, and the files may be without them.
#define MTP "mtp."

static int64_t nextn_count(const struct hf_config *c, const struct st_table *table) {
    int64_t count = 0, layer;
    for (int i = 0; i < table->n; i++) {
        const char *name = name_bare(table->tensors[i].name);
        if (starts_with(&name, MTP)) return 1;
        if (!starts_with(&name, "layers.") || !number_read(&name, &layer)) continue;
        const int64_t behind = layer - c->n_layer + 1;
        if (behind > count && behind <= c->n_nextn) count = behind;
    }
    return count;
}

static const char *name_of(const struct st_tensor *t) { return t->as ? t->as : t->name; }

// The tensor's row, its layer and its expert. *n_layer is the number of layers that it may be of.
static void row_match(struct hf_mapper *m, int64_t *n_layer) {
    const char *name = name_bare(name_of(m->tensor));
    m->number[0] = m->number[1] = 0;
    m->row = row_find(m, name);
    *n_layer = m->c->n_layer;
    if (starts_with(&name, MTP)) { // the block behind the layers
        if (!m->row) m->row = row_find(m, name);
        m->number[0] += *n_layer;
        *n_layer += m->n_nextn;
    } else if (m->c->n_nextn > 0) {
        *n_layer += m->n_nextn;
    }
}

static void map_one(struct hf_mapper *m) {
    int64_t n_layer;
    row_match(m, &n_layer);
    if (!m->row) {
        hf_mapper_fail(m, RN_ERR_UNSUPPORTED, "no tensor of this name is known for %s", m->c->arch);
    } else if (m->number[0] >= n_layer) {
        hf_mapper_fail(m, RN_ERR_MODEL, "layer %" PRId64 ", the config has %" PRId64, m->number[0],
                       m->c->n_layer);
    } else {
        m->row->map(m);
        store_bring_end(m->c->weights);
    }
}

// Every expert of a tensor in slices must have come.
static void check_parts(struct hf_mapper *m) {
    struct hf_config *c = m->c;
    for (int64_t i = 0; c->status == RN_OK && i < (c->n_layer + m->n_nextn) * m->n_rows; i++) {
        if (m->slices[i] < 0) continue;
        const struct tensor_view *view = &c->weights->tensors[m->slices[i]];
        for (int64_t e = 0; c->status == RN_OK && e < c->n_expert; e++)
            if (!view->parts[e])
                c->status =
                    err_set(c->err, RN_ERR_MODEL, "%s: tensor %s: expert %" PRId64 " is missing",
                            c->weights->name, view->name, e);
    }
}

// --- formats of integers ---

// Experts of one tensor have one format. `pass` 0 finds in `widest` the one that has the values of
// all; pass 1 gives it to them. Numbers are needed where a matrix is cut by columns.
static void format_agree(struct hf_mapper *m, struct st_tensor *t, int *widest, int pass) {
    struct weights *weights = m->c->weights;
    int64_t n_layer;
    m->tensor = t;
    row_match(m, &n_layer);
    if (!m->row || m->number[0] >= n_layer) return;
    if (m->row->map == hf_map_kv_b) integers_widen(weights, t, integers_plain(weights, t));
    if (m->row->map != hf_map_expert) return;
    int *of = &widest[hf_mapper_slices(m) - m->slices];
    const int rank = integers_rank(t->dtype);
    if (pass == 0 && rank > *of) *of = rank;
    if (pass == 1 && rank < *of) integers_widen(weights, t, integers_dtype(*of));
}

static void formats_agree(struct hf_mapper *m, struct st_table *table, size_t n_slices) {
    if (m->c->quant.integers == HF_INTEGERS_NONE || m->c->status != RN_OK) return;
    int *widest = calloc(n_slices + 1, sizeof *widest);
    if (!widest)
        m->c->status = err_set(m->c->err, RN_ERR_NOMEM, "%s: out of memory", m->c->weights->name);
    for (int pass = 0; widest && pass < 2; pass++)
        for (int i = 0; i < table->n; i++)
            if (table->tensors[i].codes == CODES_INTEGERS)
                format_agree(m, &table->tensors[i], widest, pass);
    free(widest);
}

rn_status hf_tensors_map(struct hf_config *c, struct st_table *table) {
    if (c->status == RN_OK) c->status = derived_adopt(c, table);
    if (c->status != RN_OK) return c->status;
    struct hf_mapper m = {.c = c, .table = table, .n_rows = row_count(c->class)};
    m.n_nextn = nextn_count(c, table);
    if (m.n_nextn > 0) hf_put_u32(c, "nextn_behind", m.n_nextn);
    const size_t n_slices = (size_t)(c->n_layer + m.n_nextn) * (size_t)m.n_rows;
    m.slices = malloc((n_slices + 1) * sizeof *m.slices);
    if (!m.slices) return err_set(c->err, RN_ERR_NOMEM, "%s: out of memory", c->weights->name);
    memset(m.slices, 0xff, n_slices * sizeof *m.slices); // -1
    formats_agree(&m, table, n_slices);
    if (c->status == RN_OK) c->status = derived_place(c, table);
    for (int i = 0; c->status == RN_OK && i < table->n; i++) {
        m.tensor = &table->tensors[i];
        if (!m.tensor->is_known) map_one(&m);
    }
    check_parts(&m);
    free(m.slices);
    if (c->status == RN_OK) c->status = store_tensors_index(c->weights, c->err);
    return c->status;
}
