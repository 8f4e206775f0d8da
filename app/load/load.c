// `runnel bench serve`: the command. It opens a server, runs one level of load after the other,
// prints a row for each, and writes the files. Ctrl-C ends the level at hand; its complete requests
// are shown.
#include "load/load.h"
#include "bench/busy.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "load/agree.h"
#include "load/runner.h"
#include "terminal/interrupt.h"

enum { CONCURRENCY_LIMIT = 65536 };
static const double rate_limit = 1e6;
static const double ramp_gain = 1.05; // a level that brings less than this is the last

struct load {
    const struct load_config *config;
    const struct term *term;
    struct load_target *target;
    struct load_level levels[LOAD_LEVELS_MAX];
    int n_levels;
    int room; // characters of a line
    struct agree_row agree[AGREE_COUNT];
};

// ---------------------------------------------------------------- levels

static int figures_take(struct load *load, struct load_records *records, struct load_level *level) {
    const bool ok = load_figures_of(records, &load->config->slo, &level->figures);
    memcpy(level->fault, records->fault, sizeof level->fault);
    level->n_faults = records->n_faults;
    level->interrupted = interrupt_seen();
    return ok ? APP_OK : app_fail(APP_FAILED, "out of memory");
}

// The server's counters, else the sum of what its answers say.
static void drafts_take(const struct agree_state *before, const struct agree_state *after,
                        struct load_level *level) {
    const struct load_figures *f = &level->figures;
    if (agree_drafts(before, after, &level->drafts)) return;
    level->drafts = (struct load_drafts){.drafts = -1};
    if (f->draft_tokens <= 0) return;
    level->drafts.tokens = f->draft_tokens;
    level->drafts.accepted = f->draft_accepted;
}

// A level needs more requests than there are at a time, or it never has that many.
static int requests_of(const struct load_config *config, int concurrency) {
    if (config->trace.n && config->trace.n < config->requests) return config->trace.n;
    return config->ramp && config->requests < 2 * concurrency ? 2 * concurrency : config->requests;
}

static int level_run(struct load *load, int concurrency, double rate) {
    const struct load_config *config = load->config;
    struct load_level *level = &load->levels[load->n_levels];
    struct progress progress;
    struct load_records records = {0};
    struct agree_state before, after;
    char label[48];
    *level = (struct load_level){.concurrency = config->open ? 0 : concurrency, .rate = rate};
    if (rate > 0)
        snprintf(label, sizeof label, "%g requests/s", rate);
    else
        snprintf(label, sizeof label, "%d at a time", concurrency);
    const int requests = requests_of(config, config->open ? 1 : concurrency);
    const struct load_job job = {.config = config,
                                 .target = load->target,
                                 .concurrency = concurrency,
                                 .rate = rate,
                                 .trace = config->trace.n > 0,
                                 .requests = requests,
                                 .seed = draw_seed(config->seed, 0, (uint64_t)load->n_levels),
                                 .progress = &progress};
    agree_ask(load->target, &before);
    progress_begin(&progress, load->term, config->quiet, config->trace.n ? "trace" : label);
    int code = load_run(&job, &records);
    progress_end(&progress);
    after = before;
    if (agree_is_known(&before)) agree_ask(load->target, &after);
    if (!code) code = figures_take(load, &records, level);
    // an interrupted level was to have more; a level that its duration ended was not
    level->requests = config->duration_s > 0 ? records.n : requests;
    load_records_free(&records);
    if (code) return code;
    agree_compare(&before, &after, &level->figures, load->agree);
    drafts_take(&before, &after, level);
    if (level->interrupted && level->figures.completed + level->figures.failed == 0) return APP_OK;
    load->n_levels++;
    const unsigned shown = load_report_columns(config, load->room);
    if (load->n_levels == 1) load_report_row_head(config, shown);
    load_report_row(config, level, shown);
    return app_flush_output();
}

static bool ramp_goes_on(const struct load *load) {
    const struct load_level *last = &load->levels[load->n_levels - 1];
    if (last->figures.failed > last->figures.completed) return false;
    if (load->n_levels == 1) return true;
    double best = 0;
    for (int i = 0; i < load->n_levels - 1; i++)
        if (load->levels[i].figures.output_rate > best) best = load->levels[i].figures.output_rate;
    return last->figures.output_rate >= ramp_gain * best;
}

static int ramp_run(struct load *load) {
    const struct load_config *config = load->config;
    const bool rates = config->open;
    int concurrency = rates ? config->most_at_once : config->level[0], code = APP_OK;
    double rate = rates ? config->rate[0] : 0;
    do {
        code = level_run(load, concurrency, rate);
        if (rates)
            rate *= 2;
        else
            concurrency *= 2;
    } while (!code && !interrupt_seen() && load->n_levels < LOAD_LEVELS_MAX && ramp_goes_on(load) &&
             rate <= rate_limit && concurrency <= CONCURRENCY_LIMIT);
    return code;
}

static int levels_run(struct load *load) {
    const struct load_config *config = load->config;
    if (config->ramp) return ramp_run(load);
    for (int i = 0; i < config->n_levels && !interrupt_seen(); i++) {
        const int code = level_run(load, config->open ? config->most_at_once : config->level[i],
                                   config->open && !config->trace.n ? config->rate[i] : 0);
        if (code) return code;
    }
    return APP_OK;
}

// ---------------------------------------------------------------- the command

static int check_result(const struct load *load) {
    const bool agree = agree_print(load->agree);
    bool any = false;
    for (int i = 0; i < AGREE_COUNT; i++) any |= load->agree[i].has;
    if (!load->config->check || agree) return APP_OK;
    return any ? app_fail(APP_FAILED, "--check: the server's own means differ")
               : app_fail(APP_FAILED, "--check: %s has no means of its own in /metrics",
                          load->target->name);
}

static int files_write(const struct load *load) {
    const struct load_config *config = load->config;
    int code = APP_OK;
    if (config->json) code = load_report_json(config, load->target, load->levels, load->n_levels);
    if (!code && config->plot)
        code = load_report_plot(config, load->target, load->levels, load->n_levels);
    return code;
}

// The last level in full, the server's own figures, and the files.
static int result_show(const struct load *load) {
    const struct load_level *last = &load->levels[load->n_levels - 1];
    int completed = 0;
    for (int i = 0; i < load->n_levels; i++) completed += load->levels[i].figures.completed;
    load_report_level(load->config, last, load->room);
    for (int i = 0; i < load->n_levels; i++) load_report_faults(load->config, &load->levels[i]);
    const int code = check_result(load), wrote = files_write(load);
    if (!completed && !code && !wrote) return app_fail(APP_FAILED, "every request failed");
    return code ? code : wrote;
}

static void busy_say(const struct load_config *config) {
    if (!config->quiet)
        busy_warn(config->busy_share, "a server on this machine is slower than it could be");
}

static int load_one(const struct load_config *config, const struct term *term) {
    struct load *load = calloc(1, sizeof *load);
    if (!load) return app_fail(APP_FAILED, "out of memory");
    load->config = config;
    load->term = term;
    load->room = term->out_tty ? term_columns(STDOUT_FILENO) : INT_MAX;
    int code = target_open(config, NULL, &load->target);
    if (!code) {
        busy_say(config);
        interrupt_watch();
        load_report_head(config, load->target);
        code = app_flush_output();
        if (!code) code = levels_run(load);
        const int shown = load->n_levels ? result_show(load) : APP_OK;
        if (!code) code = interrupt_seen() ? APP_INTERRUPTED : shown;
    }
    target_close(load->target);
    free(load);
    return code;
}

static int load_two(const struct load_config *config, const struct term *term) {
    struct load_target *target[2] = {NULL, NULL};
    int code = APP_OK;
    for (int i = 0; i < 2 && !code; i++) code = target_open(config, config->side[i], &target[i]);
    if (!code) {
        busy_say(config);
        interrupt_watch();
        code = load_compare(config, term, target);
    }
    for (int i = 0; i < 2; i++) target_close(target[i]);
    return code;
}

// Each stream is a socket: as many as the system allows.
static void sockets_allow(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

// Under load a server of this machine takes the cores, so others are looked for before it.
static double before_load(void) {
    struct busy busy;
    busy_begin(&busy);
    return busy_share(&busy);
}

int command_bench_serve(const struct options *options) {
    struct load_config config;
    struct term term;
    int code = load_config_init(options, &config);
    if (code) return code;
    term_init(&term, options);
    interrupt_ends(); // there is nothing to show before the load; an own server dies with the
                      // program
    sockets_allow();
    config.busy_share = before_load();
    code = (config.side[0] ? load_two : load_one)(&config, &term);
    load_config_deinit(&config);
    return code;
}
