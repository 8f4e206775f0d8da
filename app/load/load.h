// `runnel bench serve`: the configuration of a load (load_options.c), and the command (load.c). The
// command opens its servers (target.c), runs levels of load on them (runner.c, which fills records)
// and shows the figures (load_report.c, compare.c). A function that fails has printed the error,
// and returns the exit code.
#ifndef RN_APP_LOAD_LOAD_H
#define RN_APP_LOAD_LOAD_H

#include <jansson.h>

#include "load/arrivals.h"
#include "load/draw.h"
#include "load/record.h"
#include "terminal/term.h"

enum { LOAD_LEVELS_MAX = 64 };

struct load_config {
    const char *url;         // NULL: the program's own server
    const char *model_path;  // of the own server; NULL: the embedded model
    const char *server_args; // further options of the own server; NULL: none
    const char *api_key;     // NULL: none
    const char *model_name;  // NULL: the first that the server lists
    bool chat;               // /v1/chat/completions, else /v1/completions
    bool prompt_ids;         // prompts are token ids
    bool ignore_eos;
    char *extra; // ",\"key\":value": further members of each request; owned, NULL: none
    int level[LOAD_LEVELS_MAX];   // requests at a time
    double rate[LOAD_LEVELS_MAX]; // arrivals a second
    int n_levels;
    bool open;        // levels are rates
    int most_at_once; // of open loads
    int n_bounds;     // numbers that were given for it
    bool poisson, ramp;
    int requests;      // of a level
    double duration_s; // 0: no bound
    double timeout_s;  // of a request
    struct dist input, output;
    int prefix, groups; // tokens of the common start; number of different ones
    int turns;
    double think_s;
    struct arrivals trace; // n 0: none
    double speedup;
    uint64_t seed;
    struct load_slo slo;
    const char *side[2]; // of --compare; NULL: none
    int rounds;
    const char *json, *plot; // NULL: none
    bool check, quiet;
    double busy_share; // that other programs took before the load, as busy_share says
};

int load_config_init(const struct options *options, struct load_config *out);
void load_config_deinit(struct load_config *config);

// A server, ready to be loaded.
struct load_target;

// Drafts of a level; drafts -1: only tokens are known.
struct load_drafts {
    int64_t drafts, tokens, accepted;
};

// One level: its load and its figures.
struct load_level {
    int concurrency; // 0: arrivals
    double rate;     // 0: closed, or a trace
    int requests;    // that the level was to have; a duration may have ended it before
    bool interrupted;
    struct load_figures figures;
    struct load_drafts drafts; // tokens 0: none, or the server does not say
    struct load_fault fault[LOAD_FAULTS];
    int n_faults;
};

// load_report.c
void load_report_head(const struct load_config *config, const struct load_target *target);
// The columns of the rows that fit a line of `room` characters, as bits.
unsigned load_report_columns(const struct load_config *config, int room);
void load_report_row_head(const struct load_config *config, unsigned shown);
void load_report_row(const struct load_config *config, const struct load_level *level,
                     unsigned shown);
void load_report_faults(const struct load_config *config, const struct load_level *level);
// All spreads of a level, as far as they fit a line of `room` characters, and notes.
void load_report_level(const struct load_config *config, const struct load_level *level, int room);
int load_report_json(const struct load_config *config, const struct load_target *target,
                     const struct load_level *levels, int n);
// Writes the value to a file and releases it; NULL is a value for which memory ran out.
int load_json_write(const char *path, json_t *value);
int load_report_plot(const struct load_config *config, const struct load_target *target,
                     const struct load_level *levels, int n);

// compare.c: --compare, on its two sides.
int load_compare(const struct load_config *config, const struct term *term,
                 struct load_target *target[2]);

#endif
