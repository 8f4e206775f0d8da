// Plots of rows: well-formed XML with the marks, axes and names that the rows ask for.
#include "bench_world.h"

enum { MAX_ROWS = 12, MAX_DEPTH = 16 };

static struct row rows[MAX_ROWS];
static int n_rows;
static char svg[1 << 17];

// Tags are closed in their order, text has no bare markup, attributes are quoted.
static void well_formed(const char *at) {
    char open[MAX_DEPTH][32];
    int depth = 0;
    while ((at = strpbrk(at, "<&"))) {
        if (*at == '&') {
            check(!strncmp(at, "&amp;", 5) || !strncmp(at, "&lt;", 4) || !strncmp(at, "&gt;", 4) ||
                      !strncmp(at, "&quot;", 6),
                  "bare: %.20s", at);
            at++;
            continue;
        }
        const char *end = strchr(at, '>');
        assert_non_null(end);
        const char *name = at + 1 + (at[1] == '/');
        const int len = (int)strcspn(name, " />");
        int quotes = 0;
        for (const char *c = at; c < end; c++) quotes += *c == '"';
        check(quotes % 2 == 0, "an open quote: %.40s", at);
        if (at[1] == '/') {
            check(depth > 0 && !strncmp(open[depth - 1], name, (size_t)len) &&
                      !open[depth - 1][len],
                  "closes another: %.40s", at);
            depth--;
        } else if (end[-1] != '/') {
            assert_true(depth < MAX_DEPTH);
            snprintf(open[depth++], sizeof open[0], "%.*s", len, name);
        }
        at = end + 1;
    }
    assert_int_equal(depth, 0);
}

static struct row *row_new(enum table_id table, const char *file, int n_threads, double rate) {
    struct row *row = &rows[n_rows++];
    *row = (struct row){.table = table};
    row_text(row, COLUMN_MODEL_FILENAME, file);
    row_text(row, COLUMN_MODEL_TYPE, "llama 1M F16");
    row_text(row, COLUMN_BACKENDS, "cpu");
    row_text(row, COLUMN_ISA, "avx2");
    row_text(row, COLUMN_TYPE_KV, "f16");
    row_whole(row, COLUMN_N_THREADS, n_threads);
    row_whole(row, COLUMN_N_GEN, 32);
    row_whole(row, COLUMN_N_SEQS, 1);
    row_whole(row, COLUMN_N_STREAMS, 1);
    row_real(row, COLUMN_AVG_TS, rate);
    row_real(row, COLUMN_GEN_TS, rate);
    row_real(row, COLUMN_RATIO, rate);
    row_real(row, COLUMN_BANDWIDTH_GBS, 10);
    row_real(row, COLUMN_BANDWIDTH_SHARE, 0.5);
    return row;
}

// Draws the rows into svg, and releases them.
static void drawn(void) {
    char path[] = "/tmp/rn-bench-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    const struct bench bench = {.rows = rows, .n_rows = n_rows};
    assert_int_equal(chart_write(&bench, path), APP_OK);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    svg[fread(svg, 1, sizeof svg - 1, in)] = '\0';
    fclose(in);
    unlink(path);
    while (n_rows > 0) row_deinit(&rows[--n_rows]);
    if (*svg) well_formed(svg);
}

static void has(const char *part, int n) {
    check(occurrences(svg, part) == n, "%d of '%s' instead of %d", occurrences(svg, part), part, n);
}

CASE(test_decoding_is_bars_of_the_bandwidth) {
    row_whole(row_new(TABLE_STEPS, "a", 1, 400), COLUMN_N_PROMPT, 8); // prompts are left out
    row_new(TABLE_STEPS, "a", 1, 100);
    row_real(row_new(TABLE_STEPS, "a", 1, 200), COLUMN_BANDWIDTH_GBS, 12);
    drawn();
    has("class=\"track\"", 2);
    has("share of the read bandwidth B, %", 1);
    has(">50.0%, 100.0 tokens/s<", 1);
    has("cpu avx2, 1 thread, kv f16; B, measured in the same run, 10.0 to 12.0 GB/s", 1);
    has("prefers-color-scheme: dark", 1);
    has(">runnel<", 1);
    has("<polyline", 0);
}

CASE(test_prompts_alone_are_bars_of_the_peak) {
    struct row *row = row_new(TABLE_STEPS, "a", 1, 400);
    row_whole(row, COLUMN_N_PROMPT, 8);
    row_whole(row, COLUMN_N_GEN, 0);
    row_real(row, COLUMN_PEAK_SHARE, 0.25);
    drawn();
    has("share of the arithmetic peak", 1);
    has(">25.0%, 400.0 tokens/s<", 1);
    has(">llama 1M F16, pp8<", 1);
    has("measured in the same run", 0);
}

CASE(test_a_peer_has_a_bar_below) {
    struct row *row = row_new(TABLE_STEPS, "a", 1, 9);
    row_text(row, COLUMN_PEER_NAME, "p<&\"r abc");
    row_real(row, COLUMN_PEER_TS, 4.5);
    row_real(row, COLUMN_PEER_RATIO, 2);
    drawn();
    has("class=\"peer\"", 2); // and in the legend
    has("height=\"7\"", 1);
    has(">4.5 tokens/s<", 1);
    has("p&lt;&amp;&quot;r abc<", 1);
}

// Over the first of depth, streams and threads that varies; the others that vary are in the labels.
CASE(test_lists_are_lines_over_the_first_that_varies) {
    static const struct {
        enum column_id id;
        const char *axis;
    } axes[] = {{COLUMN_N_DEPTH, "tokens in the context"},
                {COLUMN_N_SEQS, "sequences decoded together"},
                {COLUMN_N_THREADS, "threads"}};
    for (size_t a = 0; a < 3; a++) {
        for (int i = 0; i < 6; i++) {
            struct row *row = row_new(TABLE_STEPS, i < 3 ? "x/a.gguf" : "x/b.gguf", 1, 10 + i);
            row_whole(row, axes[a].id, 1 << i % 3);
        }
        drawn();
        char axis[64];
        snprintf(axis, sizeof axis, ">%s<", axes[a].axis);
        has(axis, 1);
        has("<polyline", 2);
        has("<circle", 6);
        has(">b.gguf, tg32<", 1); // models of one type are told apart
    }
    for (int i = 0; i < 4; i++)
        row_whole(row_new(TABLE_STEPS, "a", 1 + i % 2, 10), COLUMN_N_SEQS, 1 + i / 2);
    drawn();
    has(">sequences decoded together<", 1);
    has("<polyline", 2);
    has(">llama 1M F16, tg32, 2 threads<", 1);
    has("; tokens of all sequences together", 1);
}

CASE(test_points_are_in_the_order_of_the_axis) {
    static const int depths[] = {64, 0, 32};
    for (int i = 0; i < 3; i++)
        row_whole(row_new(TABLE_STEPS, "a", 1, 100), COLUMN_N_DEPTH, depths[i]);
    drawn();
    const char *points = strstr(svg, "points=\"");
    double x[3], y;
    assert_non_null(points);
    assert_int_equal(sscanf(points, "points=\"%lf,%lf %lf,%lf %lf,", &x[0], &y, &x[1], &y, &x[2]),
                     5);
    assert_true(x[0] < x[1] && x[1] < x[2]);
}

CASE(test_streams_have_lines_for_prefixes_and_bounds) {
    for (int i = 0; i < 8; i++) {
        struct row *row = row_new(TABLE_STREAMS, "a", 1, 10 + i);
        row_whole(row, COLUMN_N_STREAMS, 1 + i % 2);
        row_whole(row, COLUMN_N_PROMPT, 16);
        row_text(row, COLUMN_TEST, i / 2 % 2 ? "shared" : "batch");
        row_whole(row, COLUMN_ITL_MS, i < 4 ? 0 : 5);
    }
    drawn();
    has("<polyline", 4);
    has(">sequences decoded together<", 1);
    has(">llama 1M F16, shared prefix, 5 ms, tg32 @ d16<", 1);
}

CASE(test_drafts_are_drawn_over_their_lengths) {
    for (int i = 0; i < 6; i++) {
        struct row *row = row_new(TABLE_DRAFTS, "a", 1, 1.1 + i);
        row_text(row, COLUMN_DRAFTER, i < 3 ? "lookup" : "synthetic");
        if (i >= 3) row_real(row, COLUMN_ACCEPTANCE, 0.8);
        row_real(row, COLUMN_TEMPERATURE, 0.5);
        if (i != 0 && i != 5) row_whole(row, COLUMN_DRAFT_LENGTH, i);
    }
    row_new(TABLE_DRAFTS, "a", 1, 1);
    row_text(&rows[6], COLUMN_DRAFTER, "model"); // no length: not drawn
    drawn();
    has(">tokens of a draft<", 1);
    has("<polyline class=\"line line0\"", 1);
    has("<polyline class=\"line line0 dash\"", 1); // the engine's choice
    has("<polyline class=\"line line1 dash\"", 1);
    has("<circle", 8);
    has(">llama 1M F16, lookup, temperature 0.5, 1 stream<", 1);
    has(">llama 1M F16, synthetic 0.8, temperature 0.5, 1 stream: auto<", 1);
    has("1: 2.10 times the speed without drafts", 1);
    has("1: 1.10 times the speed without drafts", 1);
}

CASE(test_the_engines_choice_alone_is_no_plot) {
    row_text(row_new(TABLE_DRAFTS, "a", 1, 1), COLUMN_DRAFTER, "lookup");
    drawn();
    assert_string_equal(svg, "");
}

TEST_PROGRAM(bench_plot) { return cases_run(NULL, NULL); }
