// The plot of `runnel plan --svg`: operations per second of a step over the number of users, below
// the machine's roof, which is the smaller of its arithmetic and its bandwidth times the intensity.
#include <math.h>

#include "bench/plot.h"
#include "plan/outline.h"

int roofline_write(const struct outline *outline, const char *path) {
    const struct machine *machine = &outline->machine;
    struct plot_item item[2 * REPORT_ROWS];
    struct plot plot = {.title = "Roofline",
                        .x_name = "users that decode together",
                        .y_name = "GFLOP/s",
                        .log_x = true,
                        .item = item};
    snprintf(plot.subtitle, sizeof plot.subtitle, "%.60s, %.60s: %.4g GB/s, %.4g TFLOP/s",
             rn_model_get_info(outline->model)->path, machine->name, machine->bandwidth * 1e-9,
             machine->flops * 1e-12);
    for (int line = 0; line < 2; line++) {
        for (int i = 0; i < outline->n_rows; i++) {
            const struct sizing_row *row = &outline->row[i];
            const double roof = row->intensity * machine->bandwidth;
            const double limit =
                machine->flops > 0 && machine->flops < roof ? machine->flops : roof;
            struct plot_item *at = &item[plot.n++];
            *at = (struct plot_item){.line = line,
                                     .x = row->users,
                                     .y = line ? limit * 1e-9
                                               : (double)row->step.cost.flops / row->step.ns,
                                     .peer = (double)NAN,
                                     .peer_share = (double)NAN};
            snprintf(at->label, sizeof at->label, "%s",
                     line ? "the machine's roof" : "predicted for this model");
        }
    }
    return plot_write(&plot, path);
}
