// `runnel plan --speed`: the devices that give each of the users N tokens/s. Where none does,
// the changes that would help are computed, one at a time: fewer users, a smaller KV type, a
// smaller format, a shorter context.
#include <stdlib.h>
#include <string.h>

#include "plan/outline.h"

struct need {
    const struct outline *outline;
    double speed;
};

// A model, a workload and a device together.
struct verdict {
    const struct device *device; // NULL: the machine that was asked for
    bool suffices;
    struct tools_memory memory;
    struct sizing_row row;
    double share;
};

static rn_status judge_machine(const struct need *need, const rn_model *model,
                               const struct workload *workload, const struct machine *machine,
                               struct verdict *out, rn_error *err) {
    const rn_status status = sizing_memory(model, workload, machine->memory, &out->memory, err);
    if (status) return status;
    sizing_row(tools_plan(model), &out->memory, machine, workload, workload->users, &out->row);
    out->device = machine->device;
    out->share = machine->bandwidth_share;
    out->suffices = out->row.fits && out->row.user_ts >= need->speed;
    return RN_OK;
}

// The first device of the table, or the machine that was asked for, that suffices.
static rn_status judge_any(const struct need *need, const rn_model *model,
                           const struct workload *workload, struct verdict *out, rn_error *err) {
    const struct machine *asked = &need->outline->machine;
    const struct device *device;
    rn_status status = RN_OK;
    if (asked->kind != MACHINE_NONE) return judge_machine(need, model, workload, asked, out, err);
    for (int i = 0; (device = device_at(i)) && !status; i++) {
        struct machine machine;
        machine_of_device(device, asked->memory, &machine);
        status = judge_machine(need, model, workload, &machine, out, err);
        if (out->suffices) break;
    }
    return status;
}

// ---------------------------------------------------------------- changes

struct change {
    char text[160];
    struct verdict verdict;
};
enum { MAX_CHANGES = 6 };

// The largest value from 1 on, below `from`, with which some device suffices; 0: none.
static rn_status largest(const struct need *need, const rn_model *model, bool is_users, int from,
                         struct verdict *out, int *found, rn_error *err) {
    int good = 0, bad = from;
    while (bad - good > 1) {
        const int middle = good + (bad - good) / 2;
        struct workload w = need->outline->workload;
        struct verdict verdict;
        if (is_users) {
            w.users = middle;
        } else {
            w.n_ctx = middle;
            w.n_gen = w.n_gen < middle ? w.n_gen : middle - 1;
            w.n_prompt = w.n_prompt + w.n_gen <= middle ? w.n_prompt : middle - w.n_gen;
            if (w.n_shared > w.n_prompt) w.n_shared = w.n_prompt;
        }
        const rn_status status = judge_any(need, model, &w, &verdict, err);
        if (status) return status;
        if (verdict.suffices) {
            good = middle;
            *out = verdict;
        } else {
            bad = middle;
        }
    }
    *found = good;
    return RN_OK;
}

static rn_status change_count(const struct need *need, bool is_users, struct change *out, int *n,
                              rn_error *err) {
    const struct workload *w = &need->outline->workload;
    int found = 0;
    const rn_status status = largest(need, need->outline->model, is_users,
                                     is_users ? w->users : w->n_ctx, &out[*n].verdict, &found, err);
    if (status || !found || (!is_users && found < 2)) return status;
    snprintf(out[(*n)++].text, sizeof out->text,
             is_users ? "%d users instead of %d" : "a context of %d instead of %d", found,
             is_users ? w->users : w->n_ctx);
    return RN_OK;
}

static rn_status change_kv(const struct need *need, struct change *out, int *n, rn_error *err) {
    static const char *const types[] = {"int8", "int4"};
    const char *own = need->outline->workload.kv_type;
    for (int i = !strcmp(own, "int8"); i < 2 && strcmp(own, "int4") != 0; i++) {
        struct workload w = need->outline->workload;
        w.kv_type = types[i];
        const rn_status status = judge_any(need, need->outline->model, &w, &out[*n].verdict, err);
        if (status) return status;
        if (!out[*n].verdict.suffices) continue;
        snprintf(out[(*n)++].text, sizeof out->text, "KV in %s instead of %s", types[i], own);
        return RN_OK;
    }
    return RN_OK;
}

// The model in a format of the list, from large to small; *out is NULL where that is not smaller.
static rn_status smaller_model(const struct need *need, const char *name, const char *format,
                               rn_model **out, rn_error *err) {
    const uint64_t bytes = rn_model_get_info(need->outline->model)->weight_bytes;
    char shape[128];
    const bool is_shape = tools_is_shape(name);
    snprintf(shape, sizeof shape, "%s", name);
    if (is_shape) shape[strcspn(shape, ":")] = '\0'; // its own format
    const rn_status status = tools_model_describe(is_shape ? shape : name, format, out, err);
    if (status || rn_model_get_info(*out)->weight_bytes < bytes) return status;
    rn_model_close(*out);
    *out = NULL;
    return RN_OK;
}

// The first smaller format that suffices: alone, or with as many users as it allows.
static rn_status change_format(const struct need *need, const char *name, bool with_users,
                               struct change *out, int *n, rn_error *err) {
    static const char *const formats[] = {"Q8_0", "Q6_K",   "Q5_K_M", "Q4_K_M",
                                          "Q4_0", "Q3_K_M", "Q2_K"};
    const struct workload *w = &need->outline->workload;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        rn_model *model;
        int users = 0;
        rn_status status = smaller_model(need, name, formats[i], &model, err);
        if (status) return status;
        if (!model) continue;
        if (with_users)
            status = largest(need, model, true, w->users, &out[*n].verdict, &users, err);
        else
            status = judge_any(need, model, w, &out[*n].verdict, err);
        rn_model_close(model);
        if (status) return status;
        if (!(with_users ? users > 0 : out[*n].verdict.suffices)) continue;
        const int len = snprintf(out[*n].text, sizeof out->text, "weights in %s", formats[i]);
        if (with_users)
            snprintf(out[*n].text + len, sizeof out->text - (size_t)len,
                     " and %d users instead of %d", users, w->users);
        ++*n;
        return RN_OK;
    }
    return RN_OK;
}

static rn_status changes_find(const struct need *need, const char *name, struct change *out, int *n,
                              rn_error *err) {
    rn_status status = change_count(need, true, out, n, err);
    if (!status) status = change_kv(need, out, n, err);
    if (!status && name) status = change_format(need, name, false, out, n, err);
    if (!status) status = change_count(need, false, out, n, err);
    if (!status && name && *n == 0) status = change_format(need, name, true, out, n, err);
    return status;
}

// ---------------------------------------------------------------- showing

static void verdict_print(const struct outline *outline, const struct verdict *v) {
    char used[32], of[32];
    const uint64_t memory = outline->machine.memory ? outline->machine.memory
                            : v->device             ? (uint64_t)(v->device->memory_gib * 0x1p30)
                                                    : 0;
    printf("  %-30s %10s of %-8s %9.1f %11.1f %12.1f  %3.0f%%  %s\n",
           v->device ? v->device->title : outline->machine.name,
           human_bytes((double)v->memory.total_bytes, used),
           memory ? human_bytes((double)memory, of) : "?", v->row.user_ts, v->row.total_ts,
           v->row.ttft_ms, 100 * v->share,
           v->row.fits ? predict_bound_name(v->row.step.bound) : "does not fit");
}

static json_t *verdict_pack(const struct outline *outline, const struct verdict *v) {
    return json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:s}", "device",
                     v->device ? v->device->name : "", "name",
                     v->device ? v->device->title : outline->machine.name, "total_bytes",
                     (json_int_t)v->memory.total_bytes, "tokens_per_s", v->row.user_ts,
                     "total_tokens_per_s", v->row.total_ts, "ttft_ms", v->row.ttft_ms,
                     "bandwidth_share", v->share, "bound", predict_bound_name(v->row.step.bound));
}

static void changes_print(const struct outline *outline, const struct change *changes, int n) {
    outline_section(outline, "each of these changes would suffice");
    for (int i = 0; i < n; i++) {
        const struct verdict *v = &changes[i].verdict;
        printf("  %-46s %s, %.1f tokens/s for each user\n", changes[i].text,
               v->device ? v->device->title : outline->machine.name, v->row.user_ts);
    }
    if (!n)
        printf(
            "  none: fewer users, smaller KV, weights and contexts were tried, and smaller weights "
            "with fewer users\n");
}

static bool changes_put(const struct outline *outline, json_t *need, const struct change *changes,
                        int n) {
    json_t *rows = json_array();
    for (int i = 0; rows && i < n; i++) {
        json_t *row = verdict_pack(outline, &changes[i].verdict);
        const bool ok = row && json_put(row, "change", json_string(changes[i].text));
        rows = json_append(rows, row, ok);
    }
    return json_put(need, "changes", rows);
}

static void head_print(void) {
    printf("  %-30s %22s %9s %11s %12s  %4s  %s\n", "device", "memory", "tokens/s", "all users",
           "TTFT ms", "of B", "bound by");
}

// All verdicts that suffice; *n_good is their number.
static int table_show(const struct need *need, json_t *rows, int *n_good) {
    const struct outline *outline = need->outline;
    const bool is_one = outline->machine.kind != MACHINE_NONE;
    const struct device *device;
    int n_shown = 0;
    rn_error err = {0};
    for (int i = 0; (is_one && i == 0) || (!is_one && (device = device_at(i))); i++) {
        struct machine machine = outline->machine;
        struct verdict verdict;
        if (!is_one) machine_of_device(device, outline->machine.memory, &machine);
        if (judge_machine(need, outline->model, &outline->workload, &machine, &verdict, &err))
            return app_fail_error(&err);
        *n_good += verdict.suffices;
        if (rows && verdict.suffices) json_array_append_new(rows, verdict_pack(outline, &verdict));
        // the machine that was asked for is shown in any case
        if (rows || (!verdict.suffices && !is_one)) continue;
        if (n_shown++ == 0) head_print();
        verdict_print(outline, &verdict);
    }
    return APP_OK;
}

int need_report(const struct outline *outline, double speed) {
    const struct need need = {outline, speed};
    const char *name = outline->options->positional ? outline->options->positional
                                                    : option_text(outline->options, OPT_MODEL);
    char title[128];
    json_t *object = outline->json ? json_object() : NULL, *rows = object ? json_array() : NULL;
    struct change changes[MAX_CHANGES];
    int n_good = 0, n_changes = 0;
    rn_error err = {0};
    snprintf(title, sizeof title, "%d user%s at %g tokens/s each", outline->workload.users,
             outline->workload.users == 1 ? "" : "s", speed);
    if (!outline->json) outline_section(outline, title);
    int code = table_show(&need, rows, &n_good);
    if (!code && n_good == 0) {
        if (!outline->json)
            printf("  %s\n", outline->machine.kind == MACHINE_NONE
                                 ? "no device of the table suffices"
                                 : "this does not suffice");
        if (changes_find(&need, name, changes, &n_changes, &err)) code = app_fail_error(&err);
        if (!code && !outline->json) changes_print(outline, changes, n_changes);
    }
    if (!outline->json) return code;
    const bool ok =
        json_put(object, "speed", json_real(speed)) && json_put(object, "devices", rows) &&
        changes_put(outline, object, changes, n_changes) && json_put(outline->json, "need", object);
    return code || ok ? code : app_fail(APP_FAILED, "out of memory");
}
