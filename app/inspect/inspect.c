// `runnel inspect`: a model file as people read it. Files of architectures that runnel cannot run
// are shown too, without the part that needs a plan. Strings of the file are escaped.
#include "inspect/inspect.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "models/find.h"
#include "run/engine.h"
#include "terminal/json.h"
#include "terminal/term.h"

enum { STRING_LIMIT = 160, ITEM_LIMIT = 32, TEMPLATE_LIMIT = 72 };

static uint64_t tensor_params(const struct tensor_view *tensor) {
    uint64_t params = 1; // the file's reader has checked that the product fits
    for (int i = 0; i < tensor->n_dims; i++) params *= (uint64_t)tensor->dim[i];
    return params;
}

const char *inspect_type_name(enum meta_type type) {
    static const char *const names[] = {
        [META_U8] = "u8",         [META_I8] = "i8",       [META_U16] = "u16", [META_I16] = "i16",
        [META_U32] = "u32",       [META_I32] = "i32",     [META_F32] = "f32", [META_BOOL] = "bool",
        [META_STRING] = "string", [META_ARRAY] = "array", [META_U64] = "u64", [META_I64] = "i64",
        [META_F64] = "f64"};
    return (unsigned)type < sizeof names / sizeof *names ? names[type] : "?";
}

uint64_t inspect_u64(const struct meta_view *meta, uint64_t index) {
    uint64_t value;
    memcpy(&value, meta->data + 8 * index, sizeof value);
    return value;
}

double inspect_shortest(float value) {
    char digits[32];
    for (int precision = 6; precision < 9; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, (double)value);
        if (strtof(digits, NULL) == value) return strtod(digits, NULL);
    }
    return (double)value;
}

// Nothing where the backend has no such type.
static struct kv_bytes kv_bytes_of(const struct inspect *inspect, const char *kv_type) {
    struct kv_bytes kv = {{0}};
    tools_kv_bytes(inspect->opened, &inspect->place, kv_type, &kv, NULL);
    return kv;
}

void inspect_cost(const struct inspect *inspect, const char *kv_type, struct inspect_cost *out) {
    const struct kv_bytes kv = kv_bytes_of(inspect, kv_type);
    const int n_ctx = inspect->model->n_ctx_train;
    struct batch_shape shape;
    out->token_bytes = plan_kv_token_bytes(inspect->plan, &kv);
    out->page_bytes = out->token_bytes * RN_PAGE_TOKENS;
    out->state_bytes = plan_state_bytes(inspect->plan, &kv);
    out->state_interval = tools_state_interval(inspect->opened, &kv);
    out->context_bytes = out->token_bytes * (uint64_t)n_ctx;
    batch_shape_decode(inspect->plan, 0, &shape);
    struct cost cost = plan_cost(inspect->plan, &kv, &shape);
    out->first_step = cost.weight_bytes + cost.kv_read_bytes;
    batch_shape_decode(inspect->plan, n_ctx - 1, &shape);
    cost = plan_cost(inspect->plan, &kv, &shape);
    out->last_step = cost.weight_bytes + cost.kv_read_bytes;
}

rn_status inspect_here(const struct inspect *inspect, const char *kv_type, rn_memory_plan *out,
                       uint64_t *n_contexts, rn_error *err) {
    rn_engine_options engine = inspect->engine;
    const bool is_given = engine.kv_bytes || engine.kv_pages;
    engine.kv_type = kv_type;
    *n_contexts = 0;
    const rn_status status = rn_engine_plan_memory(inspect->opened, &engine, out, err);
    if (status) return status;
    *n_contexts =
        is_given || !out->available ? out->n_contexts : out->free_bytes / out->kv_context_bytes;
    return RN_OK;
}

void inspect_reads(const struct inspect *inspect, struct inspect_read out[OP_COUNT]) {
    const struct kv_bytes kv = kv_bytes_of(inspect, inspect->device.kv_default);
    const struct plan *plan = inspect->plan;
    struct batch_shape shape;
    uint64_t total = 0;
    memset(out, 0, OP_COUNT * sizeof *out);
    batch_shape_decode(plan, inspect->model->n_ctx_train - 1, &shape);
    for (int i = 0; i < plan->n_op; i++) {
        const struct cost cost = op_cost(plan, &plan->op[i], &kv, &shape);
        struct inspect_read *read = &out[plan->op[i].kind];
        read->ops++;
        read->weight_bytes += cost.weight_bytes;
        *(op_has_state(plan->op[i].kind) ? &read->state_bytes : &read->kv_bytes) +=
            cost.kv_read_bytes;
        total += cost.weight_bytes + cost.kv_read_bytes;
    }
    for (int kind = 0; kind < OP_COUNT && total; kind++) {
        const struct inspect_read *read = &out[kind];
        out[kind].share =
            (double)(read->weight_bytes + read->kv_bytes + read->state_bytes) / (double)total;
    }
}

// The layer of a tensor; -1: it is of none.
static int layer_of(const struct tensor_view *tensor) {
    int layer;
    return sscanf(tensor->name, "blk.%5d.", &layer) == 1 ? layer : -1;
}

bool inspect_is_block(const struct inspect *inspect, const struct tensor_view *tensor) {
    return inspect->model && layer_of(tensor) >= inspect->model->n_layer;
}

int inspect_codes_count(const struct weights *weights, enum tensor_codes codes) {
    int n = 0;
    for (int i = 0; i < weights_tensor_count(weights); i++)
        n += weights_tensor_at(weights, i)->codes == codes;
    return n;
}

void inspect_block(const struct inspect *inspect, struct inspect_block *out) {
    *out = (struct inspect_block){0};
    if (!inspect->plan || !plan_has_block(inspect->plan)) return;
    for (int i = 0; i < weights_tensor_count(inspect->weights); i++) {
        const struct tensor_view *tensor = weights_tensor_at(inspect->weights, i);
        if (layer_of(tensor) != inspect->model->n_layer) continue;
        out->n_tensors++;
        out->bytes += tensor->bytes;
    }
    out->is_used = inspect->device.runs_blocks;
}

// ---------------------------------------------------------------- metadata

static void number_print(const struct meta_view *meta, enum meta_type type, uint64_t index) {
    int64_t integer;
    double real;
    const bool single = meta->type != META_ARRAY;
    if (type == META_BOOL &&
        (single ? meta_get_i64(meta, &integer) : meta_item_i64(meta, index, &integer))) {
        fputs(integer ? "true" : "false", stdout);
    } else if (type != META_F32 && type != META_F64 &&
               (single ? meta_get_i64(meta, &integer) : meta_item_i64(meta, index, &integer))) {
        printf("%" PRId64, integer);
    } else if (type == META_U64) {
        printf("%" PRIu64, inspect_u64(meta, index));
    } else if (single ? meta_get_f64(meta, &real) : meta_item_f64(meta, index, &real)) {
        printf("%.15g", type == META_F32 ? inspect_shortest((float)real) : real);
    } else {
        putchar('?');
    }
}

static void array_print(const struct meta_view *meta) {
    struct meta_cursor cursor;
    const bool strings = meta_strings_begin(meta, &cursor);
    putchar('[');
    uint64_t i = 0;
    for (; i < meta->count && i < INSPECT_ITEMS && meta->item_type != META_ARRAY; i++) {
        if (i) fputs(", ", stdout);
        const char *text;
        size_t len;
        if (!strings) {
            number_print(meta, meta->item_type, i);
        } else if (meta_strings_next(&cursor, &text, &len)) {
            putchar('"');
            term_print_escaped(stdout, text, len, ITEM_LIMIT);
            putchar('"');
        }
    }
    if (i < meta->count) fputs(i ? ", ..." : "...", stdout);
    printf("] (%" PRIu64 ")", meta->count);
}

static void meta_print(const struct meta_view *meta, const struct term *term) {
    char type[32];
    snprintf(type, sizeof type, "%s%s",
             inspect_type_name(meta->type == META_ARRAY ? meta->item_type : meta->type),
             meta->type == META_ARRAY ? "[]" : "");
    fputs("  ", stdout);
    const size_t len = strlen(meta->key);
    term_print_escaped(stdout, meta->key, len, STRING_LIMIT);
    printf("%*s %s%-9s%s ", len < 42 ? 42 - (int)len : 0, "", term_dim(term->out_color), type,
           term_reset(term->out_color));
    const char *text;
    size_t text_len;
    if (meta_get_string(meta, &text, &text_len)) {
        term_print_escaped(stdout, text, text_len, STRING_LIMIT);
    } else if (meta->type == META_ARRAY) {
        array_print(meta);
    } else {
        number_print(meta, meta->type, 0);
    }
    putchar('\n');
}

// ---------------------------------------------------------------- tensors and totals

static void tensor_print(const struct inspect *inspect, const struct tensor_view *tensor) {
    char shape[96];
    int used = snprintf(shape, sizeof shape, "[");
    for (int i = 0; i < tensor->n_dims; i++) {
        used += snprintf(shape + used, sizeof shape - (size_t)used, "%s%" PRId64, i ? ", " : "",
                         tensor->dim[i]);
    }
    char bytes[32];
    const size_t len = strlen(tensor->name);
    fputs("  ", stdout);
    term_print_escaped(stdout, tensor->name, len, STRING_LIMIT);
    printf("%*s %s]%*s %-5s %14s @ %" PRIu64, len < 32 ? 32 - (int)len : 0, "", shape,
           used < 20 ? 20 - used : 0, "", format_at(tensor->format)->name,
           human_count(tensor->bytes, bytes), tensor->offset);
    if (weights_file_count(inspect->weights) > 1) printf(" in file %d", tensor->file + 1);
    if (inspect_is_block(inspect, tensor)) fputs("  mtp", stdout);
    putchar('\n');
}

static void format_print(const char *name, const struct inspect_format *format) {
    char params[32], bytes[32];
    printf("  %-6s %5" PRIu64 " tensors %15s params %15s bytes", name, format->tensors,
           human_count(format->params, params), human_count(format->bytes, bytes));
    if (format->params) {
        printf("  %5.2f bits", 8.0 * (double)format->bytes / (double)format->params);
    }
    putchar('\n');
}

// States are f32 whatever the KV type; their checkpoints depend on it.
static void states_print(const struct inspect *inspect) {
    struct inspect_cost cost;
    char state[32], interval[32];
    inspect_cost(inspect, inspect->device.kv_default, &cost);
    if (!cost.state_bytes) return;
    printf("  state   %9s per sequence, read and written by every token; steps count both\n"
           "          a checkpoint for prefixes every %s tokens (kv %s)\n",
           human_bytes((double)cost.state_bytes, state),
           human_count((uint64_t)cost.state_interval, interval), inspect->device.kv_default);
}

// The bytes of a decode step grow from an empty to a full cache.
static void costs_print(const struct inspect *inspect) {
    const char *kv;
    for (int i = 0; (kv = inspect->device.kv_types[i]); i++) {
        struct inspect_cost cost;
        char token[32], page[32], context[32], first[32], last[32];
        inspect_cost(inspect, kv, &cost);
        printf("  kv %-4s %9s per token, %9s a page, %9s in all; steps read %s to %s\n", kv,
               human_bytes((double)cost.token_bytes, token),
               human_bytes((double)cost.page_bytes, page),
               human_bytes((double)cost.context_bytes, context),
               human_bytes((double)cost.first_step, first),
               human_bytes((double)cost.last_step, last));
    }
}

static void here_print(const struct inspect *inspect) {
    const char *kv;
    for (int i = 0; (kv = inspect->device.kv_types[i]); i++) {
        rn_memory_plan plan;
        rn_error err = {0};
        uint64_t n_contexts;
        char count[32], weights[32], available[32];
        if (inspect_here(inspect, kv, &plan, &n_contexts, &err)) {
            printf("  kv %-4s %s\n", kv, err.message);
            continue;
        }
        printf("  kv %-4s %9s context%s of %d, beside %s of weights", kv,
               human_count(n_contexts, count), n_contexts == 1 ? "" : "s", plan.n_ctx,
               human_bytes((double)plan.weight_bytes, weights));
        if (plan.available) printf(", %s free", human_bytes((double)plan.available, available));
        putchar('\n');
    }
}

// Kinds of ops that read neither weights nor KV nor states are left out.
static void reads_print(const struct inspect *inspect) {
    struct inspect_read read[OP_COUNT];
    inspect_reads(inspect, read);
    bool has_state = false;
    for (int kind = 0; kind < OP_COUNT; kind++) has_state |= read[kind].state_bytes > 0;
    printf("  %-10s %6s %18s %18s", "kind", "ops", "weight bytes", "KV bytes");
    if (has_state) printf(" %18s", "state bytes");
    printf(" %7s\n", "share");
    for (int kind = 0; kind < OP_COUNT; kind++) {
        const struct inspect_read *r = &read[kind];
        char weights[32], kv[32], state[32];
        if (!r->weight_bytes && !r->kv_bytes && !r->state_bytes) continue;
        printf("  %-10s %6d %18s %18s", op_name((enum op_kind)kind), r->ops,
               human_count(r->weight_bytes, weights), human_count(r->kv_bytes, kv));
        if (has_state) printf(" %18s", human_count(r->state_bytes, state));
        printf(" %6.1f%%\n", 100 * r->share);
    }
    if (has_state) puts("  State bytes are read and written.");
}

static void section(const struct term *term, const char *title, int count) {
    printf("\n%s%s%s", term_bold(term->out_color), title, term_reset(term->out_color));
    if (count >= 0) printf(" (%d)", count);
    putchar('\n');
}

// Of the template, only the first line is shown.
static void template_print(const char *text) {
    char bytes[32];
    const size_t len = strcspn(text, "\n");
    printf("  chat template of %s bytes: ", human_count(strlen(text), bytes));
    term_print_escaped(stdout, text, len, TEMPLATE_LIMIT);
    fputs(text[len] && len < TEMPLATE_LIMIT ? " ...\n" : "\n", stdout);
}

// How the files want vectors of texts to be made, if they say it.
static void embeddings_print(const rn_model_info *model) {
    rn_error err;
    rn_pooling pooling;
    if (!model->pooling && model->normalizes < 0) return;
    const char *name = model->pooling ? model->pooling : "mean";
    fputs("  embeddings: pooling ", stdout);
    term_print_escaped(stdout, name, strlen(name), STRING_LIMIT);
    if (rn_model_pooling(NULL, name, &pooling, &err)) fputs(" (not supported)", stdout);
    puts(model->normalizes == 1 ? ", length 1" : model->normalizes == 0 ? ", any length" : "");
}

static void head_print(const struct inspect *inspect, const struct term *term) {
    const struct weights *weights = inspect->weights;
    char size[32], bytes[32];
    fputs(term_bold(term->out_color), stdout);
    term_print_escaped(stdout, weights_name(weights), strlen(weights_name(weights)), SIZE_MAX);
    printf("%s\n  %s, %s (%s bytes)\n", term_reset(term->out_color), weights_container(weights),
           human_bytes((double)weights_bytes(weights), size),
           human_count(weights_bytes(weights), bytes));
    if (inspect->model) {
        const rn_model_info *model = inspect->model;
        printf("  %s, %d layers of width %d, %d heads (%d for keys and values), context %d, "
               "vocabulary %d\n",
               model->architecture, model->n_layer, model->n_embd, model->n_head, model->n_head_kv,
               model->n_ctx_train, model->n_vocab);
    }
    if (inspect->model) embeddings_print(inspect->model);
    const int n_fp8 = inspect_codes_count(weights, CODES_FP8),
              n_integers = inspect_codes_count(weights, CODES_INTEGERS);
    if (n_fp8)
        printf("  %d tensors of 8-bit floats (F8_E4M3) are read as BF16, with their scales\n",
               n_fp8);
    if (n_integers)
        printf("  %d tensors of packed integers are read as the formats below, with their scales\n",
               n_integers);
    struct inspect_block block;
    inspect_block(inspect, &block);
    if (block.n_tensors)
        printf("  a block of %d tensors, %s, drafts tokens (mtp): %s\n", block.n_tensors,
               human_bytes((double)block.bytes, size),
               block.is_used ? "used unless --speculate says otherwise"
                             : "not used, because this backend does not run it");
    if (inspect->chat_template) template_print(inspect->chat_template);
}

static void files_print(const struct weights *weights, const struct term *term) {
    const int count = weights_file_count(weights);
    if (count < 2 && !weights_folder(weights)) return;
    section(term, "files", count);
    for (int i = 0; i < count; i++) {
        const char *name = weights_file_at(weights, i);
        printf("  %4d  ", i + 1);
        term_print_escaped(stdout, name, strlen(name), STRING_LIMIT);
        putchar('\n');
    }
}

static void left_out_print(const struct weights *weights) {
    const struct weights_left_out *left;
    for (int i = 0; (left = weights_left_out_at(weights, i)); i++)
        printf("  left out: %d tensor%s of %s\n", left->n_tensors, left->n_tensors == 1 ? "" : "s",
               left->pattern);
}

static void totals_print(const struct inspect *inspect, const struct term *term) {
    section(term, "totals", -1);
    for (int i = 0; i < FORMAT_COUNT; i++) {
        if (inspect->format[i].tensors) {
            format_print(format_at((enum format_id)i)->name, &inspect->format[i]);
        }
    }
    format_print("all", &inspect->total);
}

static void lists_print(const struct inspect *inspect, const struct term *term) {
    const struct weights *weights = inspect->weights;
    section(term, "metadata", weights_meta_count(weights));
    for (int i = 0; i < weights_meta_count(weights); i++) {
        meta_print(weights_meta_at(weights, i), term);
    }
    section(term, "tensors, row length first", weights_tensor_count(weights));
    for (int i = 0; i < weights_tensor_count(weights); i++) {
        tensor_print(inspect, weights_tensor_at(weights, i));
    }
    left_out_print(weights);
}

static void text_print(const struct inspect *inspect, bool is_short, const struct term *term) {
    const struct weights *weights = inspect->weights;
    head_print(inspect, term);
    files_print(weights, term);
    if (!is_short) lists_print(inspect, term);
    totals_print(inspect, term);
    if (!inspect->plan) {
        section(term, "memory", -1);
        printf("  not computed: %s\n", inspect->reason);
        return;
    }
    char title[128];
    snprintf(title, sizeof title, "memory of a context of %d", inspect->model->n_ctx_train);
    section(term, title, -1);
    costs_print(inspect);
    states_print(inspect);
    const struct tools_device *device = &inspect->device;
    snprintf(title, sizeof title, *device->name ? "memory of %s (%s), now" : "memory here, now",
             device->name, device->backend);
    section(term, title, -1);
    here_print(inspect);
    snprintf(title, sizeof title, "read by the last step of that context, kv %s",
             device->kv_default);
    section(term, title, -1);
    reads_print(inspect);
}

// ---------------------------------------------------------------- the command

static void totals_add(struct inspect *inspect) {
    for (int i = 0; i < weights_tensor_count(inspect->weights); i++) {
        const struct tensor_view *tensor = weights_tensor_at(inspect->weights, i);
        struct inspect_format *const targets[] = {&inspect->format[tensor->format],
                                                  &inspect->total};
        for (int j = 0; j < 2; j++) {
            targets[j]->tensors++;
            targets[j]->params += tensor_params(tensor);
            targets[j]->bytes += tensor->bytes;
        }
    }
}

static int weights_get(const char *path, struct weights **out) {
    rn_error err = {0};
    const size_t size = (size_t)(embedded_model_end - embedded_model);
    const rn_status status =
        path ? tools_weights_open(path, out, &err)
             : weights_open_memory(EMBEDDED_NAME, embedded_model, size, out, &err);
    if (status == RN_OK) return APP_OK;
    const int code = app_fail_error(&err);
    return status == RN_ERR_IO ? APP_USAGE : code;
}

// A file can be inspected where the best backend is broken or busy: its pages are then the CPU's,
// and the section of the memory here has the error.
static int device_find(const struct options *options, struct inspect *inspect) {
    const bool is_asked = option_given(options, OPT_BACKEND) || option_given(options, OPT_DEVICE);
    rn_error err = {0};
    rn_status status = tools_device_find(&inspect->place, &inspect->device, &err);
    if (status && !is_asked) {
        inspect->place = TOOLS_PLACE_CPU;
        status = tools_device_find(&inspect->place, &inspect->device, &err);
    }
    return status ? app_fail_error(&err) : APP_OK;
}

// A line for each architecture: its name in GGUF, and the classes of folders.
static int architectures_print(const struct options *options) {
    struct tools_arch arch;
    struct term term;
    term_init(&term, options);
    if (option_flag(options, OPT_JSON)) {
        json_t *all = json_object();
        bool ok = all != NULL;
        for (int i = 0; ok && tools_arch_at(i, &arch); i++) {
            json_t *classes = json_array();
            for (int k = 0; arch.classes[k]; k++)
                ok = json_array_append_new(classes, json_string(arch.classes[k])) == 0 && ok;
            ok = json_put(all, arch.name, classes) && ok;
        }
        if (ok) return json_print(all, JSON_INDENT(2));
        json_decref(all);
        return app_fail(APP_FAILED, "no memory for the list");
    }
    for (int i = 0; tools_arch_at(i, &arch); i++) {
        printf("%s%-16s%s", term_bold(term.out_color), arch.name, term_reset(term.out_color));
        for (int k = 0; arch.classes[k]; k++) printf(" %s", arch.classes[k]);
        printf("\n");
    }
    return APP_OK;
}

static int model_inspect(const struct options *options, const char *path) {
    struct weights *weights = NULL;
    struct inspect inspect = {.place = {.backend = option_text(options, OPT_BACKEND),
                                        .device = option_int(options, OPT_DEVICE)}};
    rn_error err = {0};
    int code = device_find(options, &inspect);
    if (!code) code = weights_get(path, &weights);
    if (code) return code;
    // The model on top of the file, where runnel knows how; otherwise the reason is shown.
    rn_model *model = NULL;
    const rn_status status =
        path ? rn_model_open(path, &model, &err)
             : rn_model_open_memory(EMBEDDED_NAME, embedded_model,
                                    (size_t)(embedded_model_end - embedded_model), &model, &err);
    if (status == RN_ERR_NOMEM) { // says nothing about the file
        weights_close(weights);
        return app_fail_error(&err);
    }
    inspect.weights = weights;
    inspect.reason = err.message;
    if (status == RN_OK && tools_plan(model)) {
        inspect.opened = model;
        inspect.model = rn_model_get_info(model);
        inspect.plan = tools_plan(model);
    } else if (path) {
        rn_model_open_vocab(path, &model, NULL); // a template needs no more
    }
    if (model) inspect.chat_template = rn_model_chat_template(model);
    app_engine_place(options, &inspect.engine);
    app_engine_memory(options, &inspect.engine);
    totals_add(&inspect);
    if (option_flag(options, OPT_JSON)) {
        code = inspect_json_print(&inspect);
    } else {
        struct term term;
        term_init(&term, options);
        text_print(&inspect, option_flag(options, OPT_SHORT), &term);
    }
    rn_model_close(model);
    weights_close(weights);
    return code;
}

int command_inspect(const struct options *options) {
    const char *path = option_text(options, OPT_MODEL);
    if (option_flag(options, OPT_ARCHITECTURES) &&
        options->value[OPT_MODEL].origin == ORIGIN_COMMAND_LINE)
        return app_fail(APP_USAGE, "--architectures lists all, not '%s' alone",
                        app_short(path).text);
    if (option_flag(options, OPT_ARCHITECTURES)) return architectures_print(options);
    char *found = NULL;
    int code = path ? model_path_find(path, false, &found) : APP_OK;
    if (!code) code = model_inspect(options, found);
    free(found);
    return code;
}
