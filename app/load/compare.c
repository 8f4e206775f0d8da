// --compare: two servers under the same load, in rounds of the order A B, B A, A B, ..., so that a
// machine that becomes slower during the run does not favour one of them. A round's difference is
// one observation; the interval is that of their mean.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "load/runner.h"
#include "terminal/interrupt.h"
#include "terminal/json.h"

enum { ROUNDS_MAX = 1000 };

enum side_figure {
    SIDE_OUTPUT_RATE,
    SIDE_REQUEST_RATE,
    SIDE_TTFT,
    SIDE_TPOT,
    SIDE_ITL,
    SIDE_E2EL,
    SIDE_COUNT
};

static const struct {
    const char *name, *key;
    bool more_is_faster;
} figures[SIDE_COUNT] = {
    [SIDE_OUTPUT_RATE] = {"tokens/s", "output_throughput", true},
    [SIDE_REQUEST_RATE] = {"requests/s", "request_throughput", true},
    [SIDE_TTFT] = {"TTFT, ms", "mean_ttft_ms", false},
    [SIDE_TPOT] = {"TPOT, ms", "mean_tpot_ms", false},
    [SIDE_ITL] = {"ITL, ms", "mean_itl_ms", false},
    [SIDE_E2EL] = {"E2EL, ms", "mean_e2el_ms", false},
};

struct sides {
    const struct load_config *config;
    double value[2][SIDE_COUNT][ROUNDS_MAX];
    int rounds; // complete ones
    int failed[2];
};

// NaN: no request has that figure.
static double mean_of(const struct spread *spread) {
    return spread->n ? spread->mean : (double)NAN;
}

static void values_take(struct sides *sides, int side, int round, const struct load_figures *f) {
    double(*to)[ROUNDS_MAX] = sides->value[side];
    to[SIDE_OUTPUT_RATE][round] = f->output_rate;
    to[SIDE_REQUEST_RATE][round] = f->request_rate;
    to[SIDE_TTFT][round] = mean_of(&f->ttft_ms);
    // answers that came in one piece have neither
    to[SIDE_TPOT][round] = f->tpot_ms.mean > 0 ? f->tpot_ms.mean : (double)NAN;
    to[SIDE_ITL][round] = mean_of(&f->itl_ms);
    to[SIDE_E2EL][round] = mean_of(&f->e2el_ms);
    sides->failed[side] += f->failed;
}

// Both sides get the same prompts in a round, and no round has those of another.
static int side_run(struct sides *sides, const struct load_target *target, int side, int round) {
    const struct load_config *config = sides->config;
    const int at_once = config->open ? config->most_at_once : config->level[0];
    const int share = (config->requests + config->rounds - 1) / config->rounds;
    struct load_records records = {0};
    struct load_figures f;
    const struct load_job job = {.config = config,
                                 .target = target,
                                 .concurrency = at_once,
                                 .rate = config->open ? config->rate[0] : 0,
                                 .requests = config->open || share > at_once ? share : at_once,
                                 .seed = draw_seed(config->seed, 6, (uint64_t)round)};
    int code = load_run(&job, &records);
    if (!code && !load_figures_of(&records, &config->slo, &f))
        code = app_fail(APP_FAILED, "out of memory");
    if (!code && f.completed == 0 && !interrupt_seen())
        code = app_fail(APP_FAILED, "%s: every request failed: %s", target->name,
                        records.n_faults ? records.fault[0].text : "");
    if (!code) values_take(sides, side, round, &f);
    load_records_free(&records);
    return code;
}

static int rounds_run(struct sides *sides, struct load_target *target[2], const struct term *term) {
    const int rounds = sides->config->rounds;
    struct progress progress;
    int code = APP_OK;
    progress_begin(&progress, term, sides->config->quiet, "comparing");
    for (int round = 0; round < rounds && !code; round++) {
        for (int i = 0; i < 2 && !code; i++) {
            const int side = round % 2 ? 1 - i : i;
            code = side_run(sides, target[side], side, round);
            progress_update(&progress, (uint64_t)(2 * round + i + 1), 2 * (uint64_t)rounds);
        }
        if (interrupt_seen()) break;
        sides->rounds += !code;
    }
    progress_end(&progress);
    return code;
}

// ---------------------------------------------------------------- the result

// A number of the mean of A; 0: A has none.
static double share_of(double value, const struct difference *d) {
    return d->a != 0 ? 100 * value / d->a : 0;
}

static const char *verdict_of(const struct difference *d, bool more_is_faster) {
    if (!(fabs(d->mean) > d->error)) return "cannot tell"; // NaN, too
    return (d->mean > 0) == more_is_faster ? "B is faster" : "B is slower";
}

static void cell_write(char out[24], double value, bool with_sign) {
    if (!isfinite(value))
        snprintf(out, 24, "-");
    else if (with_sign)
        snprintf(out, 24, "%+.2f", value);
    else
        snprintf(out, 24, "%.2f", value);
}

static void table_print(const struct sides *sides, struct load_target *target[2]) {
    printf("A: %s\nB: %s\n\n", target[0]->name, target[1]->name);
    printf("| %-10s | %10s | %10s | %8s | %6s | %-11s |\n", "", "A", "B", "B - A, %", "+-, %",
           "verdict");
    puts("| ---------- | ---------: | ---------: | -------: | -----: | ----------- |");
    for (int i = 0; i < SIDE_COUNT; i++) {
        const struct difference d =
            difference_of(sides->value[0][i], sides->value[1][i], sides->rounds);
        char cell[4][24];
        cell_write(cell[0], d.a, false);
        cell_write(cell[1], d.b, false);
        cell_write(cell[2], share_of(d.mean, &d), true);
        cell_write(cell[3], share_of(d.error, &d), false);
        printf("| %-10s | %10s | %10s | %8s | %6s | %-11s |\n", figures[i].name, cell[0], cell[1],
               cell[2], cell[3], verdict_of(&d, figures[i].more_is_faster));
    }
    printf("\n%d rounds; +- is half the 95%% interval of the mean difference\n", sides->rounds);
    for (int side = 0; side < 2; side++)
        if (sides->failed[side])
            printf("%c: %d requests failed\n", 'A' + side, sides->failed[side]);
}

static bool figure_put(json_t *out, const struct sides *sides, int i) {
    const struct difference d =
        difference_of(sides->value[0][i], sides->value[1][i], sides->rounds);
    json_t *row = json_object();
    const bool ok =
        row && json_put(row, "a", json_number(d.a)) && json_put(row, "b", json_number(d.b)) &&
        json_put(row, "difference", json_number(d.mean)) &&
        json_put(row, "error", json_number(d.error)) &&
        json_put(row, "verdict", json_string(verdict_of(&d, figures[i].more_is_faster)));
    return json_put(out, figures[i].key, row) && ok;
}

static json_t *json_make(const struct sides *sides, struct load_target *target[2]) {
    json_t *out = json_object();
    bool ok = out != NULL;
    for (int side = 0; ok && side < 2; side++)
        ok = json_put(out, side ? "b" : "a",
                      json_text(target[side]->name, strlen(target[side]->name))) &&
             json_put(out, side ? "b_failed" : "a_failed", json_integer(sides->failed[side]));
    ok = ok && json_put(out, "rounds", json_integer(sides->rounds));
    for (int i = 0; ok && i < SIDE_COUNT; i++) ok = figure_put(out, sides, i);
    if (ok) return out;
    json_decref(out);
    return NULL;
}

int load_compare(const struct load_config *config, const struct term *term,
                 struct load_target *target[2]) {
    struct load_config short_one = *config; // each of the parts gets its share of the time
    short_one.duration_s /= 2 * config->rounds;
    struct sides *sides = calloc(1, sizeof *sides);
    if (!sides) return app_fail(APP_FAILED, "out of memory");
    sides->config = &short_one;
    int code = rounds_run(sides, target, term);
    if (sides->rounds >= 2) {
        table_print(sides, target);
        const int wrote =
            config->json ? load_json_write(config->json, json_make(sides, target)) : APP_OK;
        if (!code) code = wrote;
    } else if (!code) {
        printf("%d of %d rounds are complete; a comparison needs two\n", sides->rounds,
               config->rounds);
    }
    free(sides);
    return !code && interrupt_seen() ? APP_INTERRUPTED : code;
}
