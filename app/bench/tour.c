// The tour: five sections that measure the story of decoding. A section has a configuration of its
// own for a measurement of the bench, or computes its rows from the plan. Its rows get names and
// the section's table. A section is shown when it is complete: a title, two sentences, the table,
// bars. Ctrl-C drops the section at hand; complete sections stay.
// Invariant: the rows of a section follow each other, and have its table.
#include "bench/tour.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/figures.h"
#include "terminal/interrupt.h"

enum {
    CONTEXT_MAX = 4096, // tokens of the longest context, where none is given
    DRAFT_GEN = 2,      // times as many tokens as other tests have: drafts come in runs
    DRAFT_PROMPT = 32,  // at most, of the drafts' prompts
    BAR_WIDTH = 32,
    BARS_MAX = 2, // columns that are drawn
};

enum { MAX_KV_TYPES = 8 };

// The device's KV types that are compared. f32 is for tests.
static int kv_types_of(const struct bench_config *config, const char *out[MAX_KV_TYPES]) {
    int n = 0;
    for (const char *const *type = config->device.kv_types; *type && n < MAX_KV_TYPES; type++)
        if (strcmp(*type, "f32") != 0) out[n++] = *type;
    return n;
}

// A visit of a section: the bench's rows from `first` on are its own.
struct visit {
    struct bench_place *place;
    const struct bench_config *tour; // the command's
    struct bench_config config;      // the section's
    int first;
};

struct section {
    enum table_id table;
    const char *name, *title;
    int (*run)(struct visit *visit);
    enum column_id bars[BARS_MAX]; // up to a BUILD_COMMIT
};

static int visit_rows(const struct visit *visit) {
    return visit->place->bench->n_rows - visit->first;
}

static struct row *visit_row(const struct visit *visit, int index) {
    return &visit->place->bench->rows[visit->first + index];
}

static void rows_drop(struct bench *bench, int first) {
    while (bench->n_rows > first) row_deinit(&bench->rows[--bench->n_rows]);
}

static struct bench_list list_of(double value) { return (struct bench_list){{value}, 1}; }

// ---------------------------------------------------------------- rounds

// Tests of a section take turns, so that a slow phase of the machine affects all of them: each
// round runs every test once. A test's row is that of the round with its median time.

static int time_compare(const void *a, const void *b) {
    const double x = row_number_at(a, COLUMN_AVG_NS), y = row_number_at(b, COLUMN_AVG_NS);
    return (x > y) - (x < y);
}

// rows: [n_rounds][n], of which the first n stay.
static int medians_keep(struct visit *visit, int n_rounds, int n) {
    struct row *rows = visit_row(visit, 0), *test = calloc((size_t)n_rounds, sizeof *test);
    const int middle = (n_rounds - 1) / 2;
    if (!test) return app_fail(APP_FAILED, "out of memory");
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < n_rounds; k++) test[k] = rows[k * n + i];
        qsort(test, (size_t)n_rounds, sizeof *test, time_compare);
        rows[i] = test[middle];
        for (int k = 0, at = 1; k < n_rounds; k++)
            if (k != middle) rows[at++ * n + i] = test[k];
    }
    free(test);
    rows_drop(visit->place->bench, visit->first + n);
    return APP_OK;
}

// A measurement with the section's configuration; its rows are added.
static int visit_measure(struct visit *visit, const struct measure *measure) {
    struct bench *bench = visit->place->bench;
    bench->config = &visit->config;
    const int code = measure->run(visit->place);
    bench->config = visit->tour;
    return code;
}

// round: every test of the section once.
static int rounds_run(struct visit *visit, int (*round)(struct visit *visit)) {
    const int n_rounds = visit->tour->repetitions;
    int code = APP_OK;
    visit->config.repetitions = 1;
    for (int i = 0; !code && i < n_rounds; i++) code = round(visit);
    return code ? code : medians_keep(visit, n_rounds, visit_rows(visit) / n_rounds);
}

static int steps_round(struct visit *visit) { return visit_measure(visit, &measure_steps); }

static const char *streams_name(int n, char out[64]) {
    snprintf(out, 64, "%d stream%s", n, n == 1 ? "" : "s");
    return out;
}

// ---------------------------------------------------------------- the sections

static int intensity_run(struct visit *visit) {
    visit->config.peaks = true;
    visit->config.n_depth = list_of(0);
    visit->config.streams = list_of(1);
    const int code = rounds_run(visit, steps_round);
    if (code) return code;
    row_text(visit_row(visit, 0), COLUMN_NAME, "prompt");
    row_text(visit_row(visit, 1), COLUMN_NAME, "decode");
    return APP_OK;
}

static int sweep_run(struct visit *visit) {
    visit->config.peaks = true;
    visit->config.n_prompt.count = 0;
    visit->config.n_depth = list_of(0);
    const int code = rounds_run(visit, steps_round);
    for (int i = 0; !code && i < visit_rows(visit); i++) {
        struct row *row = visit_row(visit, i);
        char name[64];
        row_text(row, COLUMN_NAME, streams_name(row_whole_at(row, COLUMN_N_SEQS), name));
    }
    return code;
}

// The longest context of the tour, less the tokens that a test decodes.
static int depth_largest(const struct visit *visit) {
    const int n_ctx = visit->place->info->n_ctx_train;
    const int depth =
        (n_ctx < CONTEXT_MAX ? n_ctx : CONTEXT_MAX) - bench_list_at(&visit->tour->n_gen, 0);
    return visit->tour->n_depth.count ? bench_list_largest(&visit->tour->n_depth)
                                      : (depth > 0 ? depth : 0);
}

static int types_round(struct visit *visit) {
    const char *types[MAX_KV_TYPES];
    const int n = kv_types_of(visit->tour, types);
    int code = APP_OK;
    for (int t = 0; !code && t < n; t++) {
        visit->config.kv_type = types[t];
        code = visit_measure(visit, &measure_steps);
    }
    return code;
}

static int contexts_run(struct visit *visit) {
    const int depth = depth_largest(visit);
    visit->config.n_prompt.count = 0;
    visit->config.streams = list_of(1);
    if (!visit->config.n_depth.count) {
        visit->config.n_depth = (struct bench_list){{0, depth / 4, depth}, 3};
        if (depth < 4) visit->config.n_depth = list_of(0); // a context without room for three
    }
    const int code = rounds_run(visit, types_round);
    for (int i = 0; !code && i < visit_rows(visit); i++) {
        struct row *row = visit_row(visit, i);
        char name[64];
        snprintf(name, sizeof name, "%s at %d", row_text_at(row, COLUMN_TYPE_K),
                 row_whole_at(row, COLUMN_N_DEPTH));
        row_text(row, COLUMN_NAME, name);
    }
    return code;
}

// The row without drafts, from the figures of the pairs.
static void none_row(const struct row *with, struct row *out) {
    static const enum column_id texts[] = {COLUMN_BUILD_COMMIT, COLUMN_MODEL_FILENAME,
                                           COLUMN_MODEL_TYPE,   COLUMN_BACKENDS,
                                           COLUMN_ISA,          COLUMN_TYPE_KV,
                                           COLUMN_DEVICE,       COLUMN_TEST,
                                           COLUMN_TEST_TIME};
    static const enum column_id wholes[] = {COLUMN_N_THREADS, COLUMN_N_STREAMS, COLUMN_N_GEN};
    *out = (struct row){.table = with->table};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*row_text_at(with, texts[i])) row_text(out, texts[i], row_text_at(with, texts[i]));
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++)
        row_whole(out, wholes[i], row_whole_at(with, wholes[i]));
    row_text(out, COLUMN_DRAFTER, "none");
    row_text(out, COLUMN_NAME, "without drafts");
    row_real(out, COLUMN_GEN_TS, row_number_at(with, COLUMN_NONE_TS));
    row_real(out, COLUMN_BYTES_PER_TOKEN, row_number_at(with, COLUMN_NONE_BYTES_PER_TOKEN));
    row_real(out, COLUMN_TOKENS_PER_STEP, 1);
    row_real(out, COLUMN_MS_PER_TOKEN, 1e3 / row_number_at(with, COLUMN_NONE_TS));
}

static int saved_run(struct visit *visit) {
    struct bench *bench = visit->place->bench;
    const bool has_draft = bench_has_draft(visit->tour, visit->place->source);
    struct row none;
    visit->config.n_prompt.count = 0;
    const int n_gen = bench_list_at(&visit->tour->n_gen, 0);
    const int room = visit->place->info->n_ctx_train - DRAFT_PROMPT;
    if (DRAFT_GEN * n_gen <= room) visit->config.n_gen.value[0] *= DRAFT_GEN;
    visit->config.streams = list_of(1);
    visit->config.drafters = list_of(has_draft ? DRAFTER_MODEL : DRAFTER_AUTO);
    visit->config.lengths = list_of(0);
    visit->config.temperatures = list_of(0);
    int code = visit_measure(visit, &measure_drafts);
    if (code) return code;
    none_row(visit_row(visit, 0), &none);
    code = bench_row_add(bench, &none);
    if (code) return code;
    struct row *rows = visit_row(visit, 0);
    const struct row with = rows[0];
    rows[0] = rows[1]; // without drafts first
    rows[1] = with;
    row_text(&rows[1], COLUMN_NAME, "with drafts");
    row_real(&rows[1], COLUMN_MS_PER_TOKEN, 1e3 / row_number_at(&rows[1], COLUMN_GEN_TS));
    return APP_OK;
}

// ---------------------------------------------------------------- heads, computed

// KV heads of a group when every layer has n; 0: the model's own.
static int group_heads(const struct plan_kv_group *group, int n) {
    return n ? n : group->n_head_kv;
}

// The bytes of a decoded token, were the model's KV heads n: pages grow with their heads, weights
// stay as they are.
static int heads_add(struct visit *visit, const struct kv_bytes *kv, int n, const char *name) {
    struct bench *bench = visit->place->bench;
    const struct plan *plan = tools_plan(visit->place->model);
    const int depth = depth_largest(visit);
    struct kv_bytes scaled = *kv;
    struct batch_shape shape;
    struct row row;
    for (int g = 0; g < plan->n_group; g++)
        if (plan->group[g].kind != KV_RECURRENT)
            scaled.page[g] = kv->page[g] / (uint64_t)plan->group[g].n_head_kv *
                             (uint64_t)group_heads(&plan->group[g], n);
    batch_shape_decode(plan, depth, &shape);
    const struct cost cost = plan_cost(plan, &scaled, &shape);
    bench_row_init(visit->place, TABLE_HEADS, &row);
    row_text(&row, COLUMN_NAME, name);
    row_whole(&row, COLUMN_N_DEPTH, depth);
    row_whole(&row, COLUMN_N_HEAD_KV, n ? n : visit->place->info->n_head_kv);
    row_real(&row, COLUMN_KV_TOKEN_BYTES, (double)plan_kv_token_bytes(plan, &scaled));
    row_real(&row, COLUMN_KV_BYTES_PER_TOKEN, (double)cost.kv_read_bytes);
    row_real(&row, COLUMN_BYTES_PER_TOKEN, (double)(cost.weight_bytes + cost.kv_read_bytes));
    return bench_row_add(bench, &row);
}

// One KV head, the model's own number, and one for each query head; a model at an end of this range
// has no row between.
static int heads_run(struct visit *visit) {
    const rn_model_info *info = visit->place->info;
    struct kv_bytes kv;
    rn_error err = {0};
    if (tools_kv_bytes(visit->place->model, &visit->tour->place, visit->tour->kv_type, &kv, &err))
        return app_fail_error(&err);
    const bool is_one = info->n_head_kv == 1, is_all = info->n_head_kv == info->n_head;
    int code = heads_add(visit, &kv, is_one ? 0 : 1, is_one ? "MQA, this model" : "MQA");
    if (!code && !is_one && !is_all) code = heads_add(visit, &kv, 0, "GQA, this model");
    if (!code && info->n_head > 1)
        code = heads_add(visit, &kv, is_all ? 0 : info->n_head, is_all ? "MHA, this model" : "MHA");
    return code;
}

static const struct section sections[] = {
    {TABLE_INTENSITY,
     "intensity",
     "Prompts compute, decoding reads",
     intensity_run,
     {COLUMN_BANDWIDTH_SHARE, COLUMN_PEAK_SHARE}},
    {TABLE_HEADS,
     "heads",
     "KV heads: the bytes of a token with MQA, GQA and MHA",
     heads_run,
     {COLUMN_BYTES_PER_TOKEN}},
    {TABLE_SWEEP,
     "streams",
     "Streams share the reads of the weights, up to the knee",
     sweep_run,
     {COLUMN_TOTAL_TS}},
    {TABLE_CONTEXTS, "contexts", "KV types over the context", contexts_run, {COLUMN_MS_PER_TOKEN}},
    {TABLE_SAVED,
     "drafts",
     "Drafts: several tokens for one read",
     saved_run,
     {COLUMN_MS_PER_TOKEN}},
};
enum { N_SECTIONS = sizeof sections / sizeof *sections };

// ---------------------------------------------------------------- the page

static bool is_share(enum column_id id) {
    return column_at(id)->format == FORMAT_PERCENT || column_at(id)->format == FORMAT_SHARE;
}

// A bar for each row and column. Shares are of the whole, other values of the largest.
static void bars_print(const struct bench *bench, const struct section *section,
                       const struct row *rows, int n) {
    for (int c = 0; c < BARS_MAX && section->bars[c] != COLUMN_BUILD_COMMIT; c++) {
        const enum column_id id = section->bars[c];
        double largest = is_share(id) ? 1 : 0;
        bool is_measured = false; // not every device measures its peaks
        for (int i = 0; i < n; i++) {
            largest = fmax(largest, row_number_at(&rows[i], id));
            is_measured |= isfinite(row_number_at(&rows[i], id));
        }
        if (!is_measured) continue;
        printf("\n    %s%s%s\n", term_dim(bench->term->out_color), column_at(id)->heading,
               term_reset(bench->term->out_color));
        for (int i = 0; i < n; i++) {
            char bar[3 * BAR_WIDTH + 1], text[64];
            const double share = row_number_at(&rows[i], id) / largest;
            printf("    %-16s %s %s\n", row_text_at(&rows[i], COLUMN_NAME),
                   term_bar(bench->term, isfinite(share) ? share : 0, BAR_WIDTH, bar),
                   cell_text(&rows[i], id, text));
        }
    }
}

// Words are kept whole; lines are as wide as the terminal, at most 100 columns.
static void wrapped_print(const char *text) {
    const int columns = term_columns(STDOUT_FILENO), width = columns < 100 ? columns : 100;
    int used = 0;
    while (*text) {
        const int len = (int)strcspn(text, " ");
        if (used && used + 1 + len > width) {
            putchar('\n');
            used = 0;
        }
        used += printf("%s%.*s", used ? " " : "", len, text);
        text += len + (text[len] == ' ');
    }
    putchar('\n');
}

static int section_print(const struct bench *bench, const struct section *section, int first) {
    struct bench view = {.config = bench->config, .term = bench->term, .rows = bench->rows + first};
    const int n = bench->n_rows - first;
    const bool color = bench->term->out_color;
    struct tour_says says;
    if (strcmp(bench->config->output, "md") != 0) return APP_OK;
    tour_says(view.rows, n, &says);
    if (first) putchar('\n');
    if (section == sections) table_title_print(bench, view.rows);
    printf("%s%s%s\n\n", term_bold(color), section->title, term_reset(color));
    for (int i = 0; i < 2; i++) wrapped_print(says.sentence[i]);
    putchar('\n');
    for (int i = 1; i <= n; i++) {
        view.n_rows = i;
        table_row_print(&view);
    }
    bars_print(bench, section, view.rows, n);
    return app_flush_output();
}

// ---------------------------------------------------------------- the run

static int section_run(struct bench_place *place, const struct section *section) {
    struct bench *bench = place->bench;
    struct visit visit = {.place = place,
                          .tour = bench->config,
                          .config = *bench->config,
                          .first = bench->n_rows};
    const int code = interrupt_seen() ? APP_INTERRUPTED : section->run(&visit);
    if (code) {
        rows_drop(bench, visit.first);
        return code;
    }
    for (int i = visit.first; i < bench->n_rows; i++) {
        bench->rows[i].table = section->table;
        row_text(&bench->rows[i], COLUMN_SECTION, section->name);
        if (!row_ok(&bench->rows[i])) return app_fail(APP_FAILED, "out of memory");
    }
    return section_print(bench, section, visit.first);
}

// Said before the first section is measured.
static int lengths_check(const struct bench_place *place) {
    const struct bench_config *config = place->bench->config;
    const int n_gen = bench_list_at(&config->n_gen, 0), most = place->info->n_ctx_train;
    const int depth = config->n_depth.count ? bench_list_largest(&config->n_depth) : DRAFT_PROMPT;
    if (depth + n_gen <= most) return APP_OK;
    return app_fail(APP_USAGE, "%s: %d positions and %d more are beyond the model's context, %d",
                    config->n_depth.count ? "--n-depth" : "--n-gen", depth, n_gen, most);
}

static int tour_run(struct bench_place *place) {
    int code = lengths_check(place);
    for (int i = 0; !code && i < N_SECTIONS; i++) code = section_run(place, &sections[i]);
    return code;
}

// The measurements of all sections; heads are computed.
static uint64_t tour_count(const struct bench_config *config) {
    const char *types[MAX_KV_TYPES];
    const int n_depths = config->n_depth.count ? config->n_depth.count : 3;
    const int tests = 2 + config->streams.count + kv_types_of(config, types) * n_depths + 1;
    return (uint64_t)config->n_models * (uint64_t)tests * (uint64_t)config->repetitions;
}

const struct measure measure_tour = {.count = tour_count, .run = tour_run};

// ---------------------------------------------------------------- JSON and plots

static const struct section *section_of(const struct row *row) {
    for (int i = 0; i < N_SECTIONS; i++)
        if (sections[i].table == row->table) return &sections[i];
    return NULL;
}

// Rows of the section that starts there; another model's section has other rows between.
static int section_rows(const struct bench *bench, int first) {
    int end = first + 1;
    while (end < bench->n_rows && bench->rows[end].table == bench->rows[first].table) end++;
    return end - first;
}

static json_t *section_json(const struct bench *bench, int first, int n) {
    const struct section *section = section_of(&bench->rows[first]);
    struct tour_says says;
    tour_says(&bench->rows[first], n, &says);
    return json_pack("{s:s, s:s, s:[s, s], s:o}", "section", section->name, "title", section->title,
                     "says", says.sentence[0], says.sentence[1], "rows",
                     rows_json(&bench->rows[first], n, false));
}

int tour_print(const struct bench *bench) {
    if (strcmp(bench->config->output, "json") != 0) return APP_OK;
    json_t *list = json_array();
    for (int i = 0, n = 0; i < bench->n_rows; i += n) {
        n = section_rows(bench, i);
        list = json_append(list, section_json(bench, i, n), true);
    }
    return json_print(list, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
}

int tour_plot(const struct bench *bench, const char *path) {
    struct bench view = {.config = bench->config, .term = bench->term};
    struct row *rows = calloc((size_t)bench->n_rows, sizeof *rows);
    if (!rows) return app_fail(APP_FAILED, "out of memory");
    for (int i = 0; i < bench->n_rows; i++) { // borrowed: the values stay the bench's
        if (bench->rows[i].table != TABLE_SWEEP) continue;
        rows[view.n_rows] = bench->rows[i];
        rows[view.n_rows++].table = TABLE_STEPS;
    }
    view.rows = rows;
    const int code = view.n_rows ? chart_write(&view, path) : APP_OK;
    free(rows);
    return code;
}
