// The plots of `runnel plan`. --svg is the roofline: operations per second of a step over its
// operations for each byte, below the machine's roof, which is the smaller of its arithmetic and
// its bandwidth times the intensity. --memory-svg is the memory over users, for each KV type.
// f32 is for tests: it has a line only where it was asked for.
#include <math.h>
#include <string.h>

#include "bench/plot.h"
#include "plan/outline.h"

enum { ROOF_POINTS = 3, MEMORY_POINTS = 5, MAX_TYPES = 8 };

static struct plot_item *item_add(struct plot *plot, int line, const char *label, double x,
                                  double y) {
    struct plot_item *at = &plot->item[plot->n++];
    *at = (struct plot_item){
        .line = line, .x = x, .y = y, .peer = (double)NAN, .peer_share = (double)NAN};
    snprintf(at->label, sizeof at->label, "%s", label);
    return at;
}

static double roof(const struct machine *machine, double intensity) {
    const double read = intensity * machine->bandwidth;
    return (machine->flops > 0 && machine->flops < read ? machine->flops : read) * 1e-12;
}

// From half of the least intensity to twice the largest, with its ridge where that is between.
static void roof_add(const struct machine *machine, struct plot *plot, int line) {
    double least = INFINITY, most = 0;
    for (int i = 0; i < plot->n; i++) {
        least = fmin(least, plot->item[i].x);
        most = fmax(most, plot->item[i].x);
    }
    const double ridge = machine->flops / machine->bandwidth;
    const double at[ROOF_POINTS] = {least / 2, ridge, fmax(2 * most, 2 * ridge)};
    for (int i = 0; i < ROOF_POINTS; i++)
        if (i != 1 || (ridge > at[0] && ridge < at[2]))
            item_add(plot, line, "the machine's roof", at[i], roof(machine, at[i]));
}

static bool is_power_of_4(int n) { return (n & (n - 1)) == 0 && (n & 0x55555555) != 0; }

int roofline_write(const struct outline *outline, const char *path) {
    const struct machine *machine = &outline->machine;
    struct plot_item item[REPORT_ROWS + 1 + ROOF_POINTS];
    struct plot plot = {.title = "Roofline",
                        .x_name = "operations for each byte of weights and KV",
                        .y_name = "TFLOP/s",
                        .log_x = true,
                        .log_y = true,
                        .item = item};
    int len =
        snprintf(plot.subtitle, sizeof plot.subtitle, "%.60s, %.60s: %.4g GB/s",
                 rn_model_get_info(outline->model)->path, machine->name, machine->bandwidth * 1e-9);
    if (machine->flops > 0)
        snprintf(plot.subtitle + len, sizeof plot.subtitle - (size_t)len, ", %.4g TFLOP/s",
                 machine->flops * 1e-12);
    for (int i = 0; i < outline->n_rows; i++) {
        const struct sizing_row *row = &outline->row[i];
        struct plot_item *at =
            item_add(&plot, 0, "decoding; the number is that of users", row->intensity,
                     (double)row->step.cost.flops / row->step.ns * 1e-3);
        if (is_power_of_4(row->users)) snprintf(at->point, sizeof at->point, "%d", row->users);
    }
    struct prediction prompt;
    sizing_prompt_step(outline->plan, &outline->memory, machine, &outline->workload, &prompt);
    const double bytes = (double)(prompt.cost.weight_bytes + prompt.cost.kv_read_bytes);
    item_add(&plot, 1, "a step of a prompt alone", (double)prompt.cost.flops / bytes,
             (double)prompt.cost.flops / prompt.ns * 1e-3);
    roof_add(machine, &plot, 2);
    return plot_write(&plot, path);
}

// The memory of that many users, with KV of a type.
static rn_status type_add(const struct outline *outline, const char *type, int line,
                          struct plot *plot, rn_error *err) {
    char label[PLOT_LABEL];
    for (int i = 0; i < MEMORY_POINTS; i++) {
        struct workload workload = outline->workload;
        struct tools_memory memory;
        workload.kv_type = type;
        workload.users = 1 + (outline->workload.users - 1) * i / (MEMORY_POINTS - 1);
        const rn_status status =
            sizing_memory(outline->model, &workload, outline->machine.memory, &memory, err);
        if (status) return status;
        if (i == 0)
            snprintf(label, sizeof label, "KV %s, %.0f MB for each user", type,
                     (double)memory.user_bytes * 1e-6);
        item_add(plot, line, label, workload.users, (double)memory.total_bytes * 1e-9);
    }
    return RN_OK;
}

int memory_write(const struct outline *outline, const char *path) {
    struct plot_item item[MAX_TYPES * MEMORY_POINTS + 2];
    struct plot plot = {.title = "Memory over users",
                        .x_name = "users",
                        .y_name = outline->memory.state_bytes
                                      ? "GB: weights, buffers of a step, KV, states"
                                      : "GB: weights, buffers of a step, KV",
                        .item = item};
    rn_error err = {0};
    int line = 0;
    snprintf(plot.subtitle, sizeof plot.subtitle, "%.80s, %d tokens for each user",
             rn_model_get_info(outline->model)->path, outline->workload.n_ctx);
    const char *const *types = outline->machine.on.kv_types;
    for (; line < MAX_TYPES - 1 && *types; types++) {
        const char *type = *types;
        if (!strcmp(type, "f32") && strcmp(outline->memory.kv_type, "f32") != 0) continue;
        if (type_add(outline, type, line++, &plot, &err)) return app_fail_error(&err);
    }
    const uint64_t memory = outline->machine.memory;
    if (memory) {
        char label[PLOT_LABEL];
        snprintf(label, sizeof label, "%.80s, less the reserve", outline->machine.name);
        for (int i = 0; i < 2; i++)
            item_add(&plot, line, label, i ? outline->workload.users : 1,
                     (double)(memory - outline->memory.reserve_bytes) * 1e-9);
    }
    return plot_write(&plot, path);
}
