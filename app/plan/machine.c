// See machine.h.
#include "plan/machine.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/busy.h"
#include "plan/sizing.h"

enum {
#define CLASS(id, ...) CLASS_##id,
#define DEVICE(...)
#include "plan/devices.def"
#undef CLASS
#undef DEVICE
    CLASS_COUNT
};

static const struct device_class classes[CLASS_COUNT] = {
#define CLASS(id, name, bandwidth, arithmetic, stage_us, step_us, step_tokens)                     \
    [CLASS_##id] = {name, bandwidth, arithmetic, stage_us, step_us, step_tokens},
#define DEVICE(...)
#include "plan/devices.def"
#undef CLASS
#undef DEVICE
};

static const struct device devices[] = {
#define CLASS(...)
#define BACKEND_CUDA "cuda"
#define BACKEND_CPU  "cpu"
#define BACKEND_NONE NULL
#define DEVICE(name, title, class, backend, block, memory, bandwidth, tflops, int8)                \
    {name,   title, &classes[CLASS_##class], BACKEND_##backend, block, memory, bandwidth,          \
     tflops, int8},
#include "plan/devices.def"
#undef CLASS
#undef DEVICE
};
enum { N_DEVICES = sizeof devices / sizeof *devices };

const struct device *device_at(int index) { return index < N_DEVICES ? &devices[index] : NULL; }

// "NVIDIA GeForce RTX 4090" as "rtx4090": how people write a device, and how the table does.
static void name_plain(const char *text, char out[64]) {
    static const char *const makers[] = {"nvidia", "geforce", "amd", "apple", "intel"};
    size_t n = 0;
    for (; *text && n + 1 < 64; text++)
        if (isalnum((unsigned char)*text)) out[n++] = (char)tolower((unsigned char)*text);
    out[n] = '\0';
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        const size_t len = strlen(makers[i]);
        if (!strncmp(out, makers[i], len)) memmove(out, out + len, strlen(out + len) + 1);
    }
}

const struct device *device_find(const char *name) {
    char wanted[64], own[64], title[64];
    name_plain(name, wanted);
    for (int i = 0; i < N_DEVICES && *wanted; i++) {
        name_plain(devices[i].name, own);
        name_plain(devices[i].title, title);
        if (!strcmp(wanted, own) || !strcmp(wanted, title)) return &devices[i];
    }
    return NULL;
}

// ---------------------------------------------------------------- values

// A smaller number is one whose unit was forgotten.
enum { LEAST_RATE = 1000000, LEAST_MEMORY = 1 << 20, MOST_DEVICE = 1023 };

// --device has a number: it is a device of this machine, and not of the table.
static bool device_is_number(const struct options *options) {
    const char *text = option_text(options, OPT_DEVICE);
    return text && *text && text[strspn(text, "0123456789")] == '\0';
}

// The device whose name begins so, or has a part that does: "4090" is rtx-4090. NULL if none does.
static const char *device_begun(const char *text) {
    const size_t len = strlen(text);
    for (int i = 0; i < N_DEVICES && len; i++) {
        const char *part = devices[i].name, *dash;
        while (strncasecmp(part, text, len) != 0 && (dash = strchr(part, '-'))) part = dash + 1;
        if (!strncasecmp(part, text, len)) return devices[i].name;
    }
    return NULL;
}

static int device_number_read(const struct options *options, int *out) {
    const char *text = option_text(options, OPT_DEVICE);
    char name[OPTION_NAME_SIZE];
    *out = 0;
    if (!device_is_number(options)) return APP_OK;
    const long number = strlen(text) < 9 ? strtol(text, NULL, 10) : MOST_DEVICE + 1;
    *out = (int)number;
    if (number <= MOST_DEVICE) return APP_OK;
    const char *meant = device_begun(text);
    return app_fail(APP_USAGE, "%s: '%s' is not a whole number from 0 to %d%s%s%s",
                    option_name(options, OPT_DEVICE, name), app_short(text).text, MOST_DEVICE,
                    meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

static int unit_fail(const struct options *options, enum option_id id, const char *unit,
                     const char *example) {
    char name[OPTION_NAME_SIZE];
    return app_fail(APP_USAGE, "%s: '%s' is too few %s; name a unit, as in %s",
                    option_name(options, id, name), app_short(option_text(options, id)).text, unit,
                    example);
}

// "900GB/s", "120T", "3.35e12": a number above 0, a decimal suffix and one of the units, of which
// the first is used in messages.
static int rate_read(const struct options *options, enum option_id id, const char *const *units,
                     const char *example, double *out) {
    static const char suffixes[] = "kMGTPE";
    const char *text = option_text(options, id);
    char *end = NULL, name[OPTION_NAME_SIZE];
    const bool is_digit = *text >= '0' && *text <= '9';
    double value = is_digit ? strtod(text, &end) : 0;
    if (is_digit) {
        while (*end == ' ') end++;
        const char *suffix = *end ? strchr(suffixes, *end == 'K' ? 'k' : *end) : NULL;
        if (suffix) value *= pow(1000, (double)(suffix - suffixes + 1));
        if (suffix) end++;
        for (int i = 0; units[i] && *end; i++)
            if (!strcasecmp(end, units[i])) end += strlen(end);
    }
    if (!is_digit || *end || !isfinite(value) || value <= 0)
        return app_fail(APP_USAGE, "%s: '%s' is not a rate such as %s",
                        option_name(options, id, name), app_short(text).text, example);
    if (value < LEAST_RATE) return unit_fail(options, id, units[0], example);
    *out = value;
    return APP_OK;
}

// The device whose name begins so, or is near; NULL if there is none.
static const char *device_meant(const char *text) {
    const char *names[N_DEVICES], *begun = device_begun(text);
    for (int i = 0; i < N_DEVICES; i++) names[i] = devices[i].name;
    return begun ? begun : nearest_word(text, names, N_DEVICES);
}

// "h200x8", "2x h100", "l4:4", "h200,h200": the number of devices; 0 or 1: text does not say so.
// A number of four digits is a name: "4090x2", "rtx4080". one is the name of one of them.
static int devices_counted(const char *text, char one[64]) {
    static const char marks[] = " xX*:";
    const size_t len = strlen(text), digits = strspn(text, "0123456789");
    size_t tail = len;
    int n = 0;
    snprintf(one, 64, "%.*s", (int)strcspn(text, ",+"), text);
    for (const char *c = text; *c; c++) n += *c == ',' || *c == '+';
    if (n) return n + 1;
    if (len > 60) return 0;
    if (digits && digits < 4 && text[digits] && strchr(marks, text[digits])) {
        snprintf(one, 64, "%s", text + digits + strspn(text + digits, marks));
        return atoi(text);
    }
    while (tail && text[tail - 1] >= '0' && text[tail - 1] <= '9') tail--;
    if (tail == len || len - tail > 3 || tail < 2 || !strchr(marks, text[tail - 1])) return 0;
    n = atoi(text + tail);
    while (tail && strchr(marks, text[tail - 1])) tail--;
    snprintf(one, 64, "%.*s", (int)tail, text);
    return n;
}

// "a100-40 or a100-80": the few devices whose names begin so, or the nearest one; "" if none is
// near.
static void devices_meant(const char *text, char *out, size_t size) {
    enum { FEW = 4 };
    const size_t len = strlen(text);
    size_t at = 0;
    int n = 0;
    *out = '\0';
    for (int i = 0; i < N_DEVICES && len; i++)
        if (!strncasecmp(devices[i].name, text, len) && n++ < FEW)
            at += (size_t)snprintf(out + at, size - at, "%s%s", at ? " or " : "", devices[i].name);
    const char *one = n ? NULL : device_meant(text);
    if (one) snprintf(out, size, "%s", one);
    if (n > FEW) *out = '\0';
}

static int device_unknown(const struct options *options, const char *text) {
    char name[OPTION_NAME_SIZE], known[640] = "", meant[128], one[64];
    const int n = devices_counted(text, one);
    const char *single = n > 1 ? device_meant(one) : NULL;
    if (single)
        return app_fail(APP_USAGE,
                        "%s: '%s' is %d devices, and runnel runs a model on one; name one, such as "
                        "%s (more of them serve more users as replicas)",
                        option_name(options, OPT_DEVICE, name), app_short(text).text, n, single);
    size_t len = 0;
    for (int i = 0; i < N_DEVICES && len < sizeof known; i++)
        len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", i ? ", " : "",
                                devices[i].name);
    option_name(options, OPT_DEVICE, name);
    devices_meant(text, meant, sizeof meant);
    return *meant ? app_fail(APP_USAGE, "%s: '%s' is unknown; did you mean %s?", name,
                             app_short(text).text, meant)
                  : app_fail(APP_USAGE, "%s: '%s' is unknown (known: %s)", name,
                             app_short(text).text, known);
}

static int exclude(const struct options *options, enum option_id a, enum option_id b) {
    char first[OPTION_NAME_SIZE], second[OPTION_NAME_SIZE];
    if (!option_given(options, a) || !option_given(options, b)) return APP_OK;
    return app_fail(APP_USAGE, "%s and %s exclude each other", option_name(options, a, first),
                    option_name(options, b, second));
}

static int options_check(const struct options *options) {
    char name[OPTION_NAME_SIZE];
    int code = exclude(options, OPT_DEVICE, OPT_BANDWIDTH);
    if (!code && !device_is_number(options)) code = exclude(options, OPT_MEASURE, OPT_DEVICE);
    if (!code) code = exclude(options, OPT_MEASURE, OPT_BANDWIDTH);
    if (!code && option_given(options, OPT_FLOPS) && !option_given(options, OPT_BANDWIDTH))
        code = app_fail(APP_USAGE, "%s belongs to --bandwidth, which is missing",
                        option_name(options, OPT_FLOPS, name));
    return code;
}

// ---------------------------------------------------------------- figures

// The pages and KV types of a backend whose machine is not here.
static void bytes_of(const char *backend, struct machine *out) {
    rn_error err;
    out->place = (struct tools_place){.backend = backend, .is_absent = true};
    const rn_status status = tools_device_find(&out->place, &out->on, &err);
    assert(!status); // the names of the table are backends
    (void)status;
    tools_stored(&out->place, out->predict.stored);
}

void machine_of_device(const struct device *device, uint64_t memory, struct machine *out) {
    const struct device_class *class = device->class;
    *out = (struct machine){
        .kind = MACHINE_DEVICE,
        .memory = memory ? memory : (uint64_t)(device->memory_gib * 0x1p30),
        .bandwidth = device->bandwidth_gbs * 1e9,
        .flops = device->tflops * 1e12,
        .bandwidth_share = class->bandwidth_share,
        .math_share = class->math_share,
        .device = device,
        .predict = {.bandwidth = device->bandwidth_gbs * 1e9 * class->bandwidth_share,
                    .flops = device->tflops * 1e12 * class->math_share,
                    .stage_ns = class->stage_us * 1e3,
                    .step_ns = class->step_us * 1e3},
    };
    snprintf(out->name, sizeof out->name, "%s", device->title);
    bytes_of(device->backend ? device->backend : BACKEND_CPU, out);
}

void machine_of_bytes(const char *kv_type, struct machine *out) {
    static const char *const backends[] = {BACKEND_CPU, BACKEND_CUDA};
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        bytes_of(backends[i], out);
        if (machine_has_kv_type(out, kv_type)) return;
    }
}

bool machine_has_kv_type(const struct machine *machine, const char *kv_type) {
    const char *const *type = machine->on.kv_types;
    while (*type && strcmp(*type, kv_type) != 0) type++;
    return *type != NULL;
}

rn_status machine_runs(const struct machine *machine, const rn_model *model, const char *kv_type,
                       rn_error *err) {
    if (!machine->device) return RN_OK;
    return tools_block_check(model, &machine->place, kv_type,
                             (uint32_t)machine->device->block_kb << 10, machine->name, err);
}

int machine_kv_check(const struct options *options, const struct machine *machine) {
    const char *kv_type = option_text(options, OPT_KV_TYPE);
    char name[OPTION_NAME_SIZE], known[128] = "";
    if (machine_has_kv_type(machine, kv_type) || !option_given(options, OPT_KV_TYPE)) return APP_OK;
    for (const char *const *type = machine->on.kv_types; *type; type++) {
        const size_t len = strlen(known);
        snprintf(known + len, sizeof known - len, "%s%s", len ? ", " : "", *type);
    }
    return app_fail(APP_USAGE, "%s: '%s' is not a KV type of %s (it has %s)",
                    option_name(options, OPT_KV_TYPE, name), kv_type,
                    machine->kind == MACHINE_GIVEN ? "the CPU, whose pages --bandwidth plans with"
                                                   : machine->name,
                    known);
}

static int given_read(const struct options *options, uint64_t memory, struct machine *out) {
    static const char *const bytes[] = {"B/s", "B", NULL};
    static const char *const flops[] = {"FLOP/s", "FLOPS", "FLOP", NULL};
    double bandwidth, math = HUGE_VAL;
    int code = rate_read(options, OPT_BANDWIDTH, bytes, "900GB/s", &bandwidth);
    if (!code && option_given(options, OPT_FLOPS))
        code = rate_read(options, OPT_FLOPS, flops, "120T", &math);
    if (code) return code;
    *out = (struct machine){.kind = MACHINE_GIVEN,
                            .name = "given figures",
                            .memory = memory,
                            .bandwidth = bandwidth,
                            .flops = isfinite(math) ? math : 0,
                            .bandwidth_share = 1,
                            .math_share = 1,
                            .predict = {.bandwidth = bandwidth, .flops = math}};
    bytes_of(BACKEND_CPU, out);
    return APP_OK;
}

int machine_read(const struct options *options, struct machine *out) {
    const char *device_name = option_text(options, OPT_DEVICE);
    const uint64_t memory = (uint64_t)options->value[OPT_MEMORY].integer;
    *out = (struct machine){.kind = MACHINE_NONE,
                            .memory = memory,
                            .place = {.backend = option_text(options, OPT_BACKEND)}};
    int code = options_check(options);
    if (!code) code = device_number_read(options, &out->place.device);
    if (code) return code;
    if (option_given(options, OPT_MEMORY) && memory < LEAST_MEMORY)
        return unit_fail(options, OPT_MEMORY, "bytes", "48G");
    if (option_given(options, OPT_BANDWIDTH)) return given_read(options, memory, out);
    if (!option_given(options, OPT_DEVICE) || device_is_number(options)) return APP_OK;
    const struct device *device = device_find(device_name);
    if (!device) return device_unknown(options, device_name);
    machine_of_device(device, memory, out);
    return APP_OK;
}

double machine_balance(const struct machine *machine) {
    return machine->flops > 0 ? machine->flops / machine->bandwidth : 0;
}

double machine_ridge(const struct machine *machine) {
    if (machine->kind == MACHINE_HERE || machine->flops <= 0) return 0;
    return machine->predict.flops / machine->predict.bandwidth;
}

int machine_step_tokens(const struct machine *machine) {
    const int own = machine->device                 ? machine->device->class->step_tokens
                    : machine->kind == MACHINE_HERE ? machine->on.step_tokens
                                                    : 0;
    return own > RN_DEFAULT_BATCH_TOKENS ? own : RN_DEFAULT_BATCH_TOKENS;
}

void machine_forget(struct machine *machine) { free(machine->rates); }

// ---------------------------------------------------------------- this machine

// Instruction sets of this machine: rates depend on them, and virtual machines hide some.
static void isas_here(char *out, size_t size) {
    struct tools_kernel kernel;
    *out = '\0';
    for (int i = 0; tools_kernel_at(i, &kernel); i++) {
        const size_t len = strlen(out);
        if (kernel.here && kernel.built && !strstr(out, kernel.isa))
            snprintf(out + len, size - len, "%s%s", len ? "," : "", kernel.isa);
    }
}

void rates_key_make(const struct tools_device *device, int n_threads, const char *isa,
                    char out[RATES_KEY]) {
    char cpu[128], isas[96];
    if (*device->name) {
        snprintf(out, RATES_KEY, "%s %s; runnel %s; rates 3", device->backend, device->name,
                 RN_VERSION);
        return;
    }
    app_cpu_name(cpu, sizeof cpu);
    isas_here(isas, sizeof isas);
    snprintf(out, RATES_KEY, "%s; %d threads of %ld; isa %s of %s; runnel %s; rates 3", cpu,
             n_threads, sysconf(_SC_NPROCESSORS_ONLN), isa, isas, RN_VERSION);
}

// A measurement that is still missing.
struct measuring {
    struct tools_rates_options options;
    struct predict_rates *rates;
    struct rates_attention_key heads;
    struct rates_busy busy;
    bool is_needed[FORMAT_COUNT];
    bool has_base, has_attention;
};

static int missing_count(const struct measuring *m) {
    int n = !m->has_base + !m->has_attention;
    for (int i = 0; i < FORMAT_COUNT; i++) n += m->is_needed[i] && !m->rates->product[i].is_known;
    return n;
}

static rn_status missing_measure(struct measuring *m, struct progress *progress, rn_error *err) {
    const uint64_t total = (uint64_t)missing_count(m);
    uint64_t done = 0;
    rn_status status = RN_OK;
    progress_show(progress, 0, total);
    if (!m->has_base) {
        status = tools_rates_base(&m->options, m->rates, err);
        progress_update(progress, ++done, total);
    }
    for (int i = 0; i < FORMAT_COUNT && !status; i++) {
        if (!m->is_needed[i] || m->rates->product[i].is_known) continue;
        status = tools_rates_product(&m->options, m->rates, (enum format_id)i,
                                     &m->rates->product[i], err);
        progress_update(progress, ++done, total);
    }
    if (!status && !m->has_attention) {
        const struct plan_kv_group group = {.n_head_kv = m->heads.n_head_kv,
                                            .dim_k = m->heads.dim_k,
                                            .dim_v = m->heads.dim_v,
                                            .is_latent = m->heads.is_latent};
        status = tools_rates_attention(&m->options, &group, m->heads.n_head, m->rates->cache_bytes,
                                       &m->rates->attention, err);
        progress_update(progress, ++done, total);
    }
    return status;
}

// The formats of the plan, and its heads where none are known yet.
static void needs_read(const struct plan *plan, struct measuring *m) {
    for (int i = 0; i < plan->n_op; i++) {
        const struct op *op = &plan->op[i];
        if (op_is_product(op->kind)) m->is_needed[plan->weight[op->weight].format] = true;
        if (op->kind != OP_ATTENTION || m->heads.n_head) continue;
        const struct plan_kv_group *group = &plan->group[op->kv.group];
        m->heads.n_head = op->kv.n_head;
        m->heads.n_head_kv = group->n_head_kv;
        m->heads.dim_k = group->dim_k;
        m->heads.dim_v = group->dim_v;
        m->heads.is_latent = group->is_latent;
    }
}

// Parts that are measured now are measured beside the same programs.
static void busy_fill(struct measuring *m, bool had_base, bool had_attention,
                      const bool had_product[FORMAT_COUNT], double share) {
    if (!had_base) m->busy.base = share;
    if (!had_attention) m->busy.attention = share;
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (!had_product[i]) m->busy.product[i] = share;
}

// Of the parts that the plan uses, at most.
static double busy_most(const struct measuring *m) {
    double most = fmax(m->busy.base, m->heads.n_head ? m->busy.attention : -1);
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (m->is_needed[i]) most = fmax(most, m->busy.product[i]);
    return most;
}

// Measures what is missing, and how busy the machine is meanwhile.
static rn_status beside_measure(struct measuring *m, struct progress *progress, rn_error *err) {
    const bool had_base = m->has_base, had_attention = m->has_attention;
    bool had_product[FORMAT_COUNT];
    struct busy busy;
    for (int i = 0; i < FORMAT_COUNT; i++) had_product[i] = m->rates->product[i].is_known;
    busy_begin(&busy);
    const rn_status status = missing_measure(m, progress, err);
    if (!status) busy_fill(m, had_base, had_attention, had_product, busy_share(&busy));
    return status;
}

// The device that is measured, and its name.
static int here_find(const struct options *options, struct machine *out) {
    const bool quiet = option_flag(options, OPT_QUIET);
    char name[OPTION_NAME_SIZE];
    rn_error err = {0};
    if (tools_device_find(&out->place, &out->on, &err)) return app_fail_error(&err);
    if (*out->on.note && !quiet && isatty(STDERR_FILENO)) app_fail(APP_OK, "%s", out->on.note);
    if (!*out->on.name) {
        app_cpu_name(out->name, sizeof out->name);
        return APP_OK;
    }
    snprintf(out->name, sizeof out->name, "%s", out->on.name);
    if (strcmp(option_text(options, OPT_ISA), "auto") != 0 && !quiet)
        app_fail(APP_OK, "%s is for the CPU; %s has kernels of its own",
                 option_name(options, OPT_ISA, name), out->on.name);
    return APP_OK;
}

int machine_measure(const struct options *options, const struct plan *plan,
                    const struct plan *draft, const struct term *term, struct machine *out) {
    const char *kv_type = option_text(options, OPT_KV_TYPE);
    char key[RATES_KEY];
    struct progress progress;
    rn_error err = {0};
    int code = here_find(options, out);
    if (code) return code;
    const char *isa = *out->on.name ? "auto" : option_text(options, OPT_ISA);
    if (!option_given(options, OPT_KV_TYPE)) kv_type = out->on.kv_default;
    out->kind = MACHINE_HERE;
    out->bandwidth_share = out->math_share = 1;
    out->rates = calloc(1, sizeof *out->rates);
    if (!out->rates) return app_fail(APP_FAILED, "out of memory");
    struct measuring m = {.options = {.place = out->place,
                                      .isa = strcmp(isa, "auto") ? isa : NULL,
                                      .n_threads = option_int(options, OPT_THREADS),
                                      .kv_type = kv_type},
                          .rates = out->rates,
                          .heads = {.kv_type = kv_type}};
    needs_read(plan, &m);
    if (draft) needs_read(draft, &m);
    if (!m.heads.n_head) m.has_attention = true; // there is none to measure
    if (m.heads.n_head && (code = machine_kv_check(options, out))) return code;
    rates_key_make(&out->on, option_int(options, OPT_THREADS), isa, key);
    if (!option_flag(options, OPT_MEASURE)) {
        bool has_attention = false;
        m.has_base = rates_load(key, &m.heads, out->rates, &m.busy, &has_attention);
        m.has_attention |= has_attention;
    }
    out->is_kept = missing_count(&m) == 0;
    if (!out->is_kept) {
        progress_begin(&progress, term, option_flag(options, OPT_QUIET), "measuring");
        const rn_status status = beside_measure(&m, &progress, &err);
        progress_end(&progress);
        if (status) return app_fail_error(&err);
        rates_save(key, &m.heads, out->rates, &m.busy);
    }
    out->busy_share = busy_most(&m);
    if (!option_flag(options, OPT_QUIET))
        busy_warn(out->busy_share, out->is_kept
                                       ? "the kept rates may be too low; repeat with --measure"
                                       : "rates may be too low; repeat with --measure");
    out->predict.rates = out->rates;
    out->bandwidth = out->rates->bandwidth;
    out->flops = out->rates->int_flops > out->rates->float_flops ? out->rates->int_flops
                                                                 : out->rates->float_flops;
    return APP_OK;
}
