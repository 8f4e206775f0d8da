// The plots of `runnel plan`. --svg is the roofline: operations per second of a step over its
// operations for each byte, below the machine's roof, which is the smaller of its arithmetic and
// its bandwidth times the intensity. --memory-svg is the memory over users, for each KV type.
// f32 is for tests: it has a line only where it was asked for.
#include <math.h>
#include <string.h>

#include "bench/plot.h"
#include "models/name.h"
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
    int len = snprintf(plot.subtitle, sizeof plot.subtitle, "%.60s, %.60s: %.4g GB/s",
                       model_name_short(NULL, rn_model_get_info(outline->model)).text,
                       machine->name, machine->bandwidth * 1e-9);
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

// ---------------------------------------------------------------- memory

// KV types whose lines are the same to the eye are one line. LONE_USERS: of a plan for one user,
// whose lines would be points.
enum { LONE_USERS = 64 };
static const double same_share = 0.01; // of the axis

struct memory_line {
    char types[PLOT_LABEL]; // "f16 101 MB, int8 51 MB"
    double gb[MEMORY_POINTS];
};

static int users_at(const struct outline *outline, int point) {
    const int users = outline->workload.users, last = users > 1 ? users : LONE_USERS;
    return 1 + (last - 1) * point / (MEMORY_POINTS - 1);
}

static rn_status line_fill(const struct outline *outline, const char *type, struct memory_line *out,
                           rn_error *err) {
    struct workload workload = outline->workload;
    workload.kv_type = type;
    for (int i = 0; i < MEMORY_POINTS; i++) {
        struct tools_memory memory;
        workload.users = users_at(outline, i);
        const rn_status status =
            sizing_memory(outline->model, &workload, outline->machine.memory, &memory, err);
        if (status) return status;
        if (i == 0)
            snprintf(out->types, sizeof out->types, "%s %.0f MB", type,
                     (double)memory.user_bytes * 1e-6);
        out->gb[i] = (double)memory.total_bytes * 1e-9;
    }
    return RN_OK;
}

// Adds the line, or its type to a line that it would cover.
static void line_merge(struct memory_line *lines, int *n, const struct memory_line *one,
                       double top) {
    int i = 0;
    while (i < *n &&
           fabs(lines[i].gb[MEMORY_POINTS - 1] - one->gb[MEMORY_POINTS - 1]) > same_share * top)
        i++;
    if (i == *n) {
        lines[(*n)++] = *one;
        return;
    }
    const size_t len = strlen(lines[i].types);
    snprintf(lines[i].types + len, sizeof lines[i].types - len, ", %.40s", one->types);
}

static void lines_add(const struct outline *outline, const struct memory_line *lines, int n,
                      struct plot *plot) {
    char label[PLOT_LABEL];
    for (int line = 0; line < n; line++) {
        snprintf(label, sizeof label, "KV %.130s for each user", lines[line].types);
        for (int i = 0; i < MEMORY_POINTS; i++)
            item_add(plot, line, label, users_at(outline, i), lines[line].gb[i]);
    }
}

int memory_write(const struct outline *outline, const char *path) {
    struct plot_item item[MAX_TYPES * MEMORY_POINTS + 2];
    struct plot plot = {.title = "Memory over users",
                        .x_name = "users",
                        .y_name = outline->memory.state_bytes
                                      ? "GB: weights, buffers of a step, KV, states"
                                      : "GB: weights, buffers of a step, KV",
                        .item = item};
    struct memory_line own[MAX_TYPES], lines[MAX_TYPES];
    const uint64_t memory = outline->machine.memory;
    const double room = memory ? (double)(memory - outline->memory.reserve_bytes) * 1e-9 : 0;
    double top = room;
    rn_error err = {0};
    int n_own = 0, n = 0;
    snprintf(plot.subtitle, sizeof plot.subtitle, "%.80s, %d tokens for each user",
             model_name_short(NULL, rn_model_get_info(outline->model)).text,
             outline->workload.n_ctx);
    for (const char *const *type = outline->machine.on.kv_types; *type && n_own < MAX_TYPES - 1;
         type++) {
        if (!strcmp(*type, "f32") && strcmp(outline->memory.kv_type, "f32") != 0) continue;
        if (line_fill(outline, *type, &own[n_own], &err)) return app_fail_error(&err);
        top = fmax(top, own[n_own++].gb[MEMORY_POINTS - 1]);
    }
    for (int i = 0; i < n_own; i++) line_merge(lines, &n, &own[i], top);
    lines_add(outline, lines, n, &plot);
    if (memory) {
        char label[PLOT_LABEL];
        snprintf(label, sizeof label, "%.80s, less the reserve", outline->machine.name);
        for (int i = 0; i < MEMORY_POINTS; i += MEMORY_POINTS - 1)
            item_add(&plot, n, label, users_at(outline, i), room);
    }
    return plot_write(&plot, path);
}
