// What a plan takes for granted, in one list for text and JSON: beside every result stands what it
// depends on.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bench/busy.h"
#include "plan/outline.h"

enum { MAX_ASSUMED = 8 };

struct assumed {
    char text[MAX_ASSUMED][200];
    int n;
};

__attribute__((format(printf, 2, 3))) static void add(struct assumed *out, const char *format,
                                                      ...) {
    va_list args;
    va_start(args, format);
    if (out->n < MAX_ASSUMED) vsnprintf(out->text[out->n++], sizeof out->text[0], format, args);
    va_end(args);
}

static void of_device(const struct device *device, struct assumed *out) {
    const struct device_class *class = device->class;
    add(out, "decoding reaches %.0f%% of the bandwidth, products %.0f%% of the arithmetic (%s)",
        100 * class->bandwidth_share, 100 * class->math_share, class->name);
    if (!device->backend)
        add(out,
            "a backend for the GPU of %s, which runnel lacks; KV types and bytes are the CPU's",
            device->title);
}

static void of_machine(const struct machine *m, struct assumed *out) {
    switch (m->kind) {
    case MACHINE_NONE:
        add(out, "decoding and products reach shares of each device's bandwidth and arithmetic");
        break;
    case MACHINE_DEVICE:
        of_device(m->device, out);
        break;
    case MACHINE_GIVEN:
        add(out, "all of the given bandwidth%s",
            m->flops > 0 ? " and arithmetic is reached"
                         : " is reached, and arithmetic is no limit");
        break;
    case MACHINE_HERE:
        add(out, "rates of small matrices, %s",
            m->is_kept ? "measured before (--measure: again)" : "measured now");
        if (busy_is(m->busy_share))
            add(out,
                "these rates are a free machine's, but other programs took %.0f%% of the cores' "
                "time while they were measured: they may be too low",
                100 * m->busy_share);
        break;
    }
}

bool assumed_has_experts(const struct plan *plan) {
    for (int i = 0; i < plan->n_op; i++)
        if (plan->op[i].kind == OP_ROUTE) return true;
    return false;
}

// A format that nobody named.
static void of_format(const struct outline *outline, struct assumed *out) {
    const char *name = option_text(outline->options, OPT_MODEL);
    if (!outline->model || !name || option_given(outline->options, OPT_FORMAT)) return;
    const rn_model_info *info = rn_model_get_info(outline->model);
    const size_t len = strlen(info->path);
    const char *format = strchr(info->path, ':');
    if (tools_is_shape(name) && !strchr(name, ':') && format)
        add(out, "weights in %s, as people get this model (--format takes another)", format + 1);
    else if (len > 5 && !strcmp(info->path + len - 5, ".json"))
        add(out,
            "weights in %s, because a config.json names no format of GGUF (--format takes one)",
            TOOLS_CONFIG_FORMAT);
}

static void of_workload(const struct outline *outline, struct assumed *out) {
    const struct workload *w = &outline->workload;
    if (w->n_draft)
        add(out, "%.0f%% of the drafted tokens are right (--acceptance)%s", 100 * w->acceptance,
            w->draft ? ""
                     : "; drafting itself takes no time and no memory (--draft MODEL counts both)");
    if (outline->plan && assumed_has_experts(outline->plan))
        add(out, "tokens choose their experts evenly and independently");
    if (w->n_draft && option_given(outline->options, OPT_REPLAY))
        add(out, "the replay drafts nothing");
}

static struct assumed list_of(const struct outline *outline) {
    struct assumed list = {.n = 0};
    of_format(outline, &list);
    of_machine(&outline->machine, &list);
    of_workload(outline, &list);
    return list;
}

void assumed_print(const struct outline *outline) {
    const struct assumed list = list_of(outline);
    for (int i = 0; i < list.n; i++) printf("assumed  %s\n", list.text[i]);
}

bool assumed_put(const struct outline *outline) {
    const struct assumed list = list_of(outline);
    json_t *array = json_array();
    for (int i = 0; array && i < list.n; i++)
        array = json_append(array, json_string(list.text[i]), true);
    return json_put(outline->json, "assumed", array);
}
