// `runnel plan --speed`: the devices that give each of the users N tokens/s. Where none does,
// the changes that would help are computed: smaller formats and KV types, alone and together, fewer
// users, a shorter context. Where all users cannot be kept, the formats that keep most are found.
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "plan/outline.h"

static const char *const formats[] = {"",       "Q8_0", "Q6_K",   "Q5_K_M",
                                      "Q4_K_M", "Q4_0", "Q3_K_M", "Q2_K"}; // "": the model's own
enum { N_FORMATS = sizeof formats / sizeof *formats, OWN_FORMAT = 0 };

enum { MAX_KV_TYPES = 8 };

struct need {
    const struct outline *outline;
    double speed;
    rn_model *smaller[N_FORMATS];      // owned; NULL if it is not smaller than the model
    const char *kv_type[MAX_KV_TYPES]; // the workload's own, then smaller ones, from large to small
    int n_kv;
};

// A model, a workload and a device together.
struct verdict {
    const struct device *device; // NULL: the machine that was asked for
    bool suffices;
    struct tools_memory memory;
    struct sizing_row row;
    double share;
};

// *workload and *parts belong to the machine. TTFT is left out.
static void judge_parts(const struct need *need, const rn_model *model,
                        const struct workload *workload, const struct tools_memory *parts,
                        const struct machine *machine, struct verdict *out) {
    *out = (struct verdict){.device = machine->device,
                            .memory = *parts,
                            .share = machine->bandwidth_share};
    sizing_step(tools_plan(model), parts, machine, workload, workload->users, &out->row);
    out->row.fits = tools_memory_fits(parts, machine->memory);
    out->suffices = out->row.fits && out->row.user_ts >= need->speed;
}

// The sums of a workload, which machines of one backend and one size of steps share.
enum { MAX_SUMS = 8 };
struct sums {
    struct {
        struct workload workload;
        struct tools_memory memory;
    } of[MAX_SUMS];
    int n;
};

static bool is_same_sum(const struct workload *a, const struct workload *b) {
    return !strcmp(a->place.backend, b->place.backend) && a->batch_tokens == b->batch_tokens;
}

// The index in out->of of the machine's sums.
static rn_status sums_find(const rn_model *model, const struct workload *workload,
                           const struct machine *machine, struct sums *sums, int *out,
                           rn_error *err) {
    const struct workload own = workload_on(workload, machine);
    for (*out = 0; *out < sums->n; ++*out)
        if (is_same_sum(&sums->of[*out].workload, &own)) return RN_OK;
    if (sums->n == MAX_SUMS) *out = --sums->n; // the last one makes room
    sums->of[*out].workload = own;
    sums->n++;
    return sizing_memory(model, &own, 0, &sums->of[*out].memory, err);
}

// Judges the machine. A machine without the KV type does not suffice.
static rn_status judge(const struct need *need, const rn_model *model,
                       const struct workload *workload, const struct machine *machine,
                       struct sums *sums, struct verdict *out, rn_error *err) {
    int at;
    *out = (struct verdict){.device = machine->device};
    if (!machine_has_kv_type(machine, workload->kv_type) ||
        machine_runs(machine, model, workload->kv_type, NULL))
        return RN_OK;
    const rn_status status = sums_find(model, workload, machine, sums, &at, err);
    if (!status)
        judge_parts(need, model, &sums->of[at].workload, &sums->of[at].memory, machine, out);
    return status;
}

// The first device of the table, or the machine that was asked for, that suffices. Its TTFT is
// left out: a search asks this for many workloads.
static rn_status judge_any(const struct need *need, const rn_model *model,
                           const struct workload *workload, struct verdict *out, rn_error *err) {
    const struct machine *asked = &need->outline->machine;
    const struct device *device;
    struct sums sums = {.n = 0};
    *out = (struct verdict){0};
    if (asked->kind != MACHINE_NONE) return judge(need, model, workload, asked, &sums, out, err);
    rn_status status = RN_OK;
    for (int i = 0; (device = device_at(i)) && !out->suffices && !status; i++) {
        struct machine machine;
        if (!device->backend) continue; // no advice: runnel does not run on its GPU
        machine_of_device(device, asked->memory, &machine);
        status = judge(need, model, workload, &machine, &sums, out, err);
    }
    return status;
}

static void ttft_fill(const rn_model *model, const struct workload *workload,
                      const struct machine *machine, struct verdict *verdict) {
    const struct workload own = workload_on(workload, machine);
    verdict->row.ttft_ms =
        sizing_ttft_ms(tools_plan(model), &verdict->memory, machine, &own, own.users);
}

// ---------------------------------------------------------------- changes

struct change {
    char text[160];
    struct verdict verdict;
};
enum { MAX_CHANGES = 8 };

struct changes {
    struct change change[MAX_CHANGES];
    int n;
};

// The model in the formats that make it smaller. Without a name it is embedded and keeps its own.
static rn_status smaller_open(struct need *need, const char *name, rn_error *err) {
    const uint64_t bytes = rn_model_get_info(need->outline->model)->weight_bytes;
    const bool is_shape = name && tools_is_shape(name);
    char shape[128];
    snprintf(shape, sizeof shape, "%s", is_shape ? name : "");
    shape[strcspn(shape, ":")] = '\0'; // its own format
    for (int i = OWN_FORMAT + 1; i < N_FORMATS && name; i++) {
        rn_model **model = &need->smaller[i];
        const rn_status status =
            tools_model_describe(is_shape ? shape : name, formats[i], model, err);
        if (status) return status;
        if (rn_model_get_info(*model)->weight_bytes < bytes) continue;
        rn_model_close(*model);
        *model = NULL;
    }
    return RN_OK;
}

static const rn_model *format_model(const struct need *need, int format) {
    return format == OWN_FORMAT ? need->outline->model : need->smaller[format];
}

// The smaller type of a machine takes its place in the list, unless it is there.
static rn_status kv_add(struct need *need, const struct machine *machine, const char *type,
                        uint64_t bytes[MAX_KV_TYPES], rn_error *err) {
    struct workload w = workload_on(&need->outline->workload, machine);
    struct tools_memory memory;
    int at = 1;
    for (int i = 0; i < need->n_kv; i++)
        if (!strcmp(need->kv_type[i], type)) return RN_OK;
    w.kv_type = type;
    const rn_status status = sizing_memory(need->outline->model, &w, 0, &memory, err);
    if (status || memory.user_bytes >= bytes[0] || need->n_kv == MAX_KV_TYPES) return status;
    while (at < need->n_kv && bytes[at] >= memory.user_bytes) at++;
    for (int i = need->n_kv++; i > at; i--) {
        need->kv_type[i] = need->kv_type[i - 1];
        bytes[i] = bytes[i - 1];
    }
    need->kv_type[at] = type;
    bytes[at] = memory.user_bytes;
    return RN_OK;
}

// The KV types that the machine has, or some device of the table.
static rn_status kv_types_find(struct need *need, rn_error *err) {
    const struct machine *asked = &need->outline->machine;
    uint64_t bytes[MAX_KV_TYPES] = {need->outline->memory.user_bytes};
    rn_status status = RN_OK;
    need->kv_type[need->n_kv++] = need->outline->workload.kv_type;
    for (int i = 0; !status; i++) {
        const struct device *device = asked->kind == MACHINE_NONE ? device_at(i) : NULL;
        struct machine machine = *asked;
        if (asked->kind == MACHINE_NONE ? !device : i > 0) break;
        if (device) machine_of_device(device, 0, &machine);
        for (const char *const *type = machine.on.kv_types; *type && !status; type++)
            status = kv_add(need, &machine, *type, bytes, err);
    }
    return status;
}

static struct workload workload_of(const struct need *need, int kv, int users) {
    struct workload w = need->outline->workload;
    w.kv_type = need->kv_type[kv];
    w.users = users;
    return w;
}

// Adds a change with which verdict->device suffices.
static void change_add(const struct need *need, int format, const struct workload *w,
                       const struct verdict *verdict, struct changes *out) {
    const struct workload *own = &need->outline->workload;
    struct change *change = &out->change[out->n++];
    char part[4][56];
    int n = 0;
    if (format != OWN_FORMAT) snprintf(part[n++], sizeof part[0], "weights in %s", formats[format]);
    if (strcmp(w->kv_type, own->kv_type) != 0)
        snprintf(part[n++], sizeof part[0], "KV in %s instead of %s", w->kv_type, own->kv_type);
    if (w->users != own->users)
        snprintf(part[n++], sizeof part[0], "%d user%s instead of %d", w->users,
                 w->users == 1 ? "" : "s", own->users);
    if (w->n_ctx != own->n_ctx)
        snprintf(part[n++], sizeof part[0], "a context of %d instead of %d", w->n_ctx, own->n_ctx);
    size_t len = 0;
    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(change->text + len, sizeof change->text - len, "%s%s",
                                i == 0       ? ""
                                : i == n - 1 ? " and "
                                             : ", ",
                                part[i]);
    change->verdict = *verdict;
    struct machine machine = need->outline->machine;
    if (machine.kind == MACHINE_NONE) machine_of_device(verdict->device, machine.memory, &machine);
    ttft_fill(format_model(need, format), w, &machine, &change->verdict);
}

// For each KV type, from large to small, the largest format that suffices for all users. One that
// a larger KV type allows too is left out.
static rn_status change_formats(const struct need *need, struct changes *out, rn_error *err) {
    int end = N_FORMATS;
    for (int kv = 0; kv < need->n_kv; kv++) {
        const struct workload w = workload_of(need, kv, need->outline->workload.users);
        for (int format = 0; format < end; format++) {
            const rn_model *model = format_model(need, format);
            struct verdict verdict;
            const rn_status status = model ? judge_any(need, model, &w, &verdict, err) : RN_OK;
            if (status) return status;
            if (!model || !verdict.suffices) continue;
            change_add(need, format, &w, &verdict, out);
            end = format;
        }
    }
    return RN_OK;
}

// More users than w->users, below `beyond`, with which the model suffices: the most of them, in w.
static rn_status users_grow(const struct need *need, const rn_model *model, int beyond,
                            struct workload *w, struct verdict *out, rn_error *err) {
    int next = w->users + 1; // where one more does not suffice, nothing is searched
    while (next < beyond) {
        struct workload more = *w;
        struct verdict verdict;
        more.users = next;
        const rn_status status = judge_any(need, model, &more, &verdict, err);
        if (status) return status;
        if (verdict.suffices) {
            *w = more;
            *out = verdict;
        } else {
            beyond = next;
        }
        if (w->users + 1 >= beyond) break;
        next = w->users + (beyond - w->users) / 2;
    }
    return RN_OK;
}

// Fewer users: of the model as it is, and where no format and KV type suffices for all users, of
// those that keep the most.
static rn_status change_users(const struct need *need, struct changes *out, rn_error *err) {
    const int all = need->outline->workload.users;
    const bool is_alone = out->n > 0;
    struct workload w = workload_of(need, 0, 0);
    struct verdict verdict = {0};
    int best_format = OWN_FORMAT;
    rn_status status = users_grow(need, need->outline->model, all, &w, &verdict, err);
    if (!status && w.users) change_add(need, OWN_FORMAT, &w, &verdict, out);
    const int alone = w.users;
    for (int kv = 0; kv < need->n_kv && !is_alone; kv++) {
        for (int format = 0; format < N_FORMATS && !status; format++) {
            struct workload more = workload_of(need, kv, w.users);
            if (!format_model(need, format)) continue;
            status = users_grow(need, format_model(need, format), all, &more, &verdict, err);
            if (more.users == w.users) continue;
            w = more;
            best_format = format;
        }
    }
    if (!status && w.users > alone) change_add(need, best_format, &w, &verdict, out);
    return status;
}

// The longest context, from 2 on, with which some device suffices.
static rn_status change_context(const struct need *need, struct changes *out, rn_error *err) {
    struct workload good = need->outline->workload;
    struct verdict found = {0};
    int least = 1, beyond = good.n_ctx;
    while (beyond - least > 1) {
        const int middle = least + (beyond - least) / 2;
        struct workload w = need->outline->workload;
        struct verdict verdict;
        w.n_ctx = middle;
        w.n_gen = w.n_gen < middle ? w.n_gen : middle - 1;
        w.n_prompt = w.n_prompt + w.n_gen <= middle ? w.n_prompt : middle - w.n_gen;
        if (w.n_shared > w.n_prompt) w.n_shared = w.n_prompt;
        const rn_status status = judge_any(need, need->outline->model, &w, &verdict, err);
        if (status) return status;
        if (verdict.suffices) {
            least = middle;
            good = w;
            found = verdict;
        } else {
            beyond = middle;
        }
    }
    if (least > 1) change_add(need, OWN_FORMAT, &good, &found, out);
    return RN_OK;
}

static rn_status changes_find(struct need *need, const char *name, struct changes *out,
                              rn_error *err) {
    rn_status status = smaller_open(need, name, err);
    if (!status) status = kv_types_find(need, err);
    if (!status) status = change_formats(need, out, err);
    if (!status) status = change_users(need, out, err);
    if (!status) status = change_context(need, out, err);
    for (int i = 0; i < N_FORMATS; i++) rn_model_close(need->smaller[i]);
    return status;
}

// ---------------------------------------------------------------- showing

static void verdict_print(const struct outline *outline, const struct verdict *v) {
    char used[32], of[32], bound[BOUND_TEXT], name[160];
    const uint64_t memory = outline->machine.memory ? outline->machine.memory
                            : v->device             ? (uint64_t)(v->device->memory_gib * 0x1p30)
                                                    : 0;
    snprintf(name, sizeof name, "%s%s", v->device ? v->device->title : outline->machine.name,
             v->device && !v->device->backend ? " *" : "");
    printf("  %-30s %10s of %-8s %9.1f %11.1f %12.1f  %3.0f%%  %s\n", name,
           human_bytes((double)v->memory.total_bytes, used),
           memory ? human_bytes((double)memory, of) : "?", v->row.user_ts, v->row.total_ts,
           v->row.ttft_ms, 100 * v->share,
           v->row.fits ? outline_bound(&v->row, bound) : "does not fit");
}

static json_t *verdict_pack(const struct outline *outline, const struct verdict *v) {
    const char *backend = v->device ? v->device->backend : outline->machine.on.backend;
    return json_pack("{s:s, s:s, s:s?, s:I, s:f, s:f, s:f, s:f, s:s}", "device",
                     v->device ? v->device->name : "", "name",
                     v->device ? v->device->title : outline->machine.name, "backend", backend,
                     "total_bytes", (json_int_t)v->memory.total_bytes, "tokens_per_s",
                     v->row.user_ts, "total_tokens_per_s", v->row.total_ts, "ttft_ms",
                     v->row.ttft_ms, "bandwidth_share", v->share, "bound",
                     predict_bound_name(v->row.step.bound));
}

static void changes_print(const struct outline *outline, const struct changes *changes) {
    int width = 0;
    for (int i = 0; i < changes->n; i++) {
        const int len = (int)strlen(changes->change[i].text);
        if (len > width) width = len;
    }
    outline_section(outline,
                    changes->n ? "each of these changes would suffice" : "no change suffices");
    for (int i = 0; i < changes->n; i++) {
        const struct verdict *v = &changes->change[i].verdict;
        printf("  %-*s  %s, %.1f tokens/s for each user\n", width, changes->change[i].text,
               v->device ? v->device->title : outline->machine.name, v->row.user_ts);
    }
    if (!changes->n)
        printf("  Smaller weights and KV were tried, together with one user, and shorter contexts. "
               "Drafts and other devices were not.\n");
    printf("  Several devices are no change: runnel runs a model on one. Replicas divide the users "
           "among servers.\n");
}

static bool changes_put(const struct outline *outline, json_t *need,
                        const struct changes *changes) {
    json_t *rows = json_array();
    for (int i = 0; rows && i < changes->n; i++) {
        json_t *row = verdict_pack(outline, &changes->change[i].verdict);
        const bool ok = row && json_put(row, "change", json_string(changes->change[i].text));
        rows = json_append(rows, row, ok);
    }
    return json_put(need, "changes", rows);
}

static void head_print(void) {
    printf("  %-30s %22s %9s %11s %12s  %4s  %s\n", "device", "memory", "tokens/s", "all users",
           "TTFT ms", "of B", "bound by");
}

// batch_tokens: the least of the devices that were shown.
static void foot_print(const struct outline *outline, int batch_tokens) {
    printf("  Of B: the share of the bandwidth that decoding is assumed to reach. Bound by: the "
           "largest part of a step's time.\n");
    if (outline->machine.kind == MACHINE_NONE)
        outline_room_note(outline, outline->workload.users, batch_tokens);
}

// All verdicts that suffice; *n_good is their number.
static int table_show(const struct need *need, json_t *rows, int *n_good) {
    const struct outline *outline = need->outline;
    const bool is_one = outline->machine.kind != MACHINE_NONE;
    const struct device *device;
    struct sums sums = {.n = 0};
    int n_shown = 0, least_tokens = INT_MAX;
    bool has_foreign = false;
    rn_error err = {0};
    for (int i = 0; (is_one && i == 0) || (!is_one && (device = device_at(i))); i++) {
        struct machine machine = outline->machine;
        struct verdict verdict;
        if (!is_one) machine_of_device(device, outline->machine.memory, &machine);
        if (judge(need, outline->model, &outline->workload, &machine, &sums, &verdict, &err))
            return app_fail_error(&err);
        // the machine that was asked for is shown in any case
        if (!verdict.suffices && !is_one) continue;
        ttft_fill(outline->model, &outline->workload, &machine, &verdict);
        *n_good += verdict.suffices;
        if (rows && verdict.suffices) json_array_append_new(rows, verdict_pack(outline, &verdict));
        if (rows) continue;
        const int tokens = workload_on(&outline->workload, &machine).batch_tokens;
        if (tokens < least_tokens) least_tokens = tokens;
        has_foreign |= machine.device && !machine.device->backend;
        if (n_shown++ == 0) head_print();
        verdict_print(outline, &verdict);
    }
    if (n_shown) foot_print(outline, least_tokens);
    if (has_foreign)
        puts("  *: runnel has no backend for its GPU; KV types and bytes are the CPU's.");
    return APP_OK;
}

int need_report(const struct outline *outline, double speed) {
    struct need need = {.outline = outline, .speed = speed};
    const char *name = option_text(outline->options, OPT_MODEL);
    char title[128];
    json_t *object = outline->json ? json_object() : NULL, *rows = object ? json_array() : NULL;
    struct changes changes = {.n = 0};
    int n_good = 0;
    rn_error err = {0};
    snprintf(title, sizeof title, "%d user%s at %.10g tokens/s each", outline->workload.users,
             outline->workload.users == 1 ? "" : "s", speed);
    if (!outline->json) outline_section(outline, title);
    int code = table_show(&need, rows, &n_good);
    if (!code && n_good == 0) {
        if (!outline->json)
            printf("  %s\n", outline->machine.kind == MACHINE_NONE
                                 ? "no device of the table suffices"
                                 : "this does not suffice");
        if (changes_find(&need, name, &changes, &err)) code = app_fail_error(&err);
        if (!code && !outline->json) changes_print(outline, &changes);
    }
    if (!outline->json) return code;
    const bool ok = json_put(object, "speed", json_real(speed)) &&
                    json_put(object, "devices", rows) && changes_put(outline, object, &changes) &&
                    json_put(outline->json, "need", object);
    return code || ok ? code : app_fail(APP_FAILED, "out of memory");
}
