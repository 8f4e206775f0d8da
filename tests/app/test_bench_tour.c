// `runnel bench --tour`: its sentences say what the figures say, also where something did not help;
// one run of all sections on a tiny model. Rows of the sentences are made by hand.
#include "bench/tour.h"

#include "bench/figures.h"
#include "bench_world.h"

static struct tour_says says;

static void said(int sentence, const char *part) {
    check(strstr(says.sentence[sentence], part), "'%s' is not in: %s", part,
          says.sentence[sentence]);
}

static void rows_free(struct row *rows, int n) {
    for (int i = 0; i < n; i++) row_deinit(&rows[i]);
}

// 1 ms for a step of n tokens: macs and bytes as given; a peak of 1e9 macs/s, 1e9 bytes/s.
static struct row steps_row(enum table_id table, int n_seqs, int n_tokens, double bytes,
                            uint64_t macs, uint64_t ns) {
    const struct sample sample = {.ns = ns, .bytes = bytes, .bandwidth = 1e9};
    const struct samples samples = {.sample = &sample,
                                    .n = 1,
                                    .cost = {.tokens = (uint64_t)n_tokens,
                                             .kv_bytes = (uint64_t)bytes / 4,
                                             .int_macs = macs},
                                    .int_peak = 1e9,
                                    .float_peak = 1e9};
    struct row row = {.table = table};
    row_whole(&row, COLUMN_N_SEQS, n_seqs);
    figures_steps(&samples, &row);
    return row;
}

CASE(test_prompts_and_decoding_are_compared_with_the_machines_balance) {
    struct row rows[] = {steps_row(TABLE_INTENSITY, 1, 10, 1e4, 700000, 1000000),
                         steps_row(TABLE_INTENSITY, 1, 1, 8e5, 50000, 1000000)};
    tour_says(rows, 2, &says);
    said(0, "computes 140 FLOP for each byte that is read, a decoded token 0.125; ");
    said(0, "in balance at 2.");
    said(1, "limit of arithmetic (1% of B and 70% of the peak), decoding to that of memory "
            "(80% of B and 5% of the peak)");
    said(1, "a token takes 0.1 ms in a prompt and 1 ms when it is generated.");
    rows_free(rows, 2);
}

// Not every device measures its peaks, or its bandwidth.
CASE(test_limits_that_are_not_measured_are_not_claimed) {
    for (int has_bandwidth = 0; has_bandwidth < 2; has_bandwidth++) {
        const struct sample sample = {.ns = 1000000,
                                      .bytes = 1e6,
                                      .bandwidth = has_bandwidth ? 2e9 : 0};
        const struct samples samples = {.sample = &sample,
                                        .n = 1,
                                        .cost = {.tokens = 1, .int_macs = 1000}};
        struct row rows[] = {{.table = TABLE_INTENSITY}, {.table = TABLE_INTENSITY}};
        for (int i = 0; i < 2; i++) figures_steps(&samples, &rows[i]);
        tour_says(rows, 2, &says);
        said(0, "for each byte that is read, a decoded token 0.002.");
        said(1, "A token takes 1 ms in a prompt and 1 ms when it is generated.");
        for (int i = 0; i < 2; i++) rows[i].table = TABLE_SWEEP;
        for (int i = 0; i < 2; i++) row_whole(&rows[i], COLUMN_N_SEQS, 1 + i);
        tour_says(rows, 2, &says);
        said(1, "the nearest limit of 2 streams is not known: the device does not measure its");
        assert_null(strstr(says.sentence[0], "nan"));
        rows_free(rows, 2);
    }
}

static struct row heads_row(const char *name, int n, double kv) {
    struct row row = {.table = TABLE_HEADS};
    row_text(&row, COLUMN_NAME, name);
    row_whole(&row, COLUMN_N_DEPTH, 100);
    row_whole(&row, COLUMN_N_HEAD_KV, n);
    row_real(&row, COLUMN_KV_BYTES_PER_TOKEN, kv);
    row_real(&row, COLUMN_BYTES_PER_TOKEN, 2e6 + kv);
    return row;
}

CASE(test_heads_are_compared_with_the_models_own) {
    struct row rows[] = {heads_row("MQA", 1, 1e6), heads_row("GQA, this model", 2, 2e6),
                         heads_row("MHA", 8, 8e6)};
    tour_says(rows, 3, &says);
    said(0, "its 2 KV heads reads 2.0 MB of KV");
    said(0, "(MQA) would read 1.0 MB, one for each of 8 query heads (MHA) 8.0 MB.");
    said(1, "Weights are 2.0 MB of every token's reads, so MHA would read 2.50 times and MQA 0.75");
    rows_free(rows, 3);
}

// tokens/s of 1, 2, 4 and 8 streams.
static void sweep_make(const double ts[4], struct row rows[4]) {
    for (int i = 0; i < 4; i++) {
        char name[32];
        rows[i] = steps_row(TABLE_SWEEP, 1 << i, 1 << i, 8e5, 100000u << i,
                            (uint64_t)((1 << i) * 1e9 / ts[i]));
        snprintf(name, sizeof name, "%d streams", 1 << i);
        row_text(&rows[i], COLUMN_NAME, name);
    }
}

CASE(test_the_knee_is_where_a_doubling_brings_too_little) {
    struct row rows[4];
    sweep_make((const double[]){1000, 1900, 2400, 2500}, rows);
    assert_int_equal(tour_knee(rows, 4), 1);
    tour_says(rows, 4, &says);
    said(0, "1 streams: 1000 tokens/s, with 800 kB read for each token; 8 streams write 2500, 2.50 "
            "times as many, and read 100 kB for each.");
    said(1, "The knee is at 2 streams: the next doubling brings 1.26 times the tokens/s, and the "
            "nearest limit of 4 streams is memory");
    rows_free(rows, 4);
    sweep_make((const double[]){1000, 1900, 3600, 6000}, rows);
    assert_int_equal(tour_knee(rows, 4), 3);
    tour_says(rows, 4, &says);
    said(1, "There is no knee up to 8 streams");
    const struct row apart[] = {rows[0], rows[2]}; // 3.6 times by two doublings
    assert_int_equal(tour_knee(apart, 2), 1);
    rows_free(rows, 4);
    sweep_make((const double[]){1000, 900, 800, 700}, rows);
    assert_int_equal(tour_knee(rows, 4), 0);
    tour_says(rows, 4, &says);
    said(0, "no larger number of streams is faster.");
    said(1, "The knee is at 1 stream: the next doubling brings 0.90 times");
    rows_free(rows, 4);
}

static void contexts_make(double int4_ms, struct row rows[4]) {
    for (int i = 0; i < 4; i++) {
        const bool is_int4 = i >= 2, deep = i % 2;
        rows[i] = steps_row(TABLE_CONTEXTS, 1, 1, is_int4 ? 4e5 : 8e5, 100000,
                            is_int4 ? (uint64_t)(int4_ms * 1e6) : 1000000);
        row_whole(&rows[i], COLUMN_N_DEPTH, deep ? 64 : 0);
        row_text(&rows[i], COLUMN_TYPE_K, is_int4 ? "int4" : "f16");
    }
}

CASE(test_kv_types_are_compared_at_the_longest_context) {
    struct row rows[4];
    contexts_make(0.5, rows);
    tour_says(rows, 4, &says);
    said(0, "At a context of 64 tokens f16 reads 200 kB of KV for a token and takes 1 ms, int4 "
            "reads 100 kB of KV for a token and takes 0.5 ms.");
    said(1, "int4 has 2.00 times the speed of f16 here, which reads 25% of its bytes for KV.");
    rows_free(rows, 4);
    contexts_make(1.02, rows); // within the noise
    tour_says(rows, 4, &says);
    said(1, "int4 is as fast as f16 here: KV is 25% of the bytes");
    rows_free(rows, 4);
}

static void saved_make(double ratio, int drafted, struct row rows[2]) {
    for (int i = 0; i < 2; i++) {
        rows[i] = (struct row){.table = TABLE_SAVED};
        row_real(&rows[i], COLUMN_MS_PER_TOKEN, i ? 1 / ratio : 1);
        row_real(&rows[i], COLUMN_BYTES_PER_TOKEN, i ? 1e6 : 4e6);
    }
    row_text(&rows[1], COLUMN_DRAFTER, "model");
    row_real(&rows[1], COLUMN_RATIO, ratio);
    row_real(&rows[1], COLUMN_TOKENS_PER_STEP, 4);
    row_whole(&rows[1], COLUMN_DRAFT_TOKENS, drafted);
    row_bool(&rows[1], COLUMN_SAME_TEXT, true);
}

CASE(test_drafts_that_did_not_help_are_called_so) {
    struct row rows[2];
    saved_make(2, 10, rows);
    tour_says(rows, 2, &says);
    said(0,
         "takes 1 ms and 4.0 MB of reads; with drafts (model) 0.5 ms and 1.0 MB, at 4.00 tokens");
    said(1, "Drafts saved 75% of the reads and gave 2.00 times the speed; the text is the same.");
    rows_free(rows, 2);
    saved_make(0.8, 10, rows);
    tour_says(rows, 2, &says);
    said(1, "Drafts did not help here: 0.80 times the speed, although they saved 75%");
    rows_free(rows, 2);
    saved_make(1.2, 0, rows); // noise: nothing was drafted
    tour_says(rows, 2, &says);
    said(1, "The engine drafted nothing here");
    rows_free(rows, 2);
}

// ---------------------------------------------------------------- a run

static const char *const names[] = {"intensity", "heads", "streams", "contexts", "drafts"};
static const size_t sizes[] = {2, 3, 1, 3, 2};

#define TOUR "--tour -m " TINY " -t 1 -p 8 -n 2 -d 32 "

CASE(test_every_section_has_its_rows_and_its_point) {
    static struct caught caught;
    char path[] = "/tmp/rn_tour_XXXXXX", line[256];
    const int file = mkstemp(path);
    assert_true(file >= 0);
    snprintf(line, sizeof line, TOUR "--streams 1 -r 2 -o json --plot %s", path);
    bench_ran(line, &caught);
    json_t *list = json_loads(caught.out, 0, NULL);
    check(json_array_size(list) == 5, "%s", caught.out);
    for (size_t i = 0; i < 5; i++) {
        const json_t *section = json_array_get(list, i), *rows = json_object_get(section, "rows");
        assert_string_equal(json_string_value(json_object_get(section, "section")), names[i]);
        check(json_array_size(rows) == sizes[i], "%s has %zu rows", names[i],
              json_array_size(rows));
        assert_int_equal(json_array_size(json_object_get(section, "says")), 2);
        for (size_t j = 0; j < sizes[i]; j++) {
            assert_string_equal(row_string(rows, j, "section"), names[i]);
            assert_true(row_number(rows, j, "bytes_per_token") > 0);
        }
    }
    const json_t *heads = json_object_get(json_array_get(list, 1), "rows");
    near("KV grows with its heads", row_number(heads, 2, "kv_bytes_per_token"),
         row_number(heads, 0, "kv_bytes_per_token") * row_number(heads, 2, "n_head_kv"));
    json_decref(list);
    char first[8] = "";
    assert_true(pread(file, first, 4, 0) == 4 && !strcmp(first, "<svg"));
    close(file);
    unlink(path);
}

CASE(test_the_page_has_a_title_a_table_and_bars_for_each_section) {
    static struct caught caught;
    bench_ran(TOUR "--streams 2 -r 1", &caught);
    assert_int_equal(occurrences(caught.out, "\n| case             |"), 5);
    assert_int_equal(occurrences(caught.out, "computed from its plan, not measured."), 1);
    assert_int_equal(occurrences(caught.out, "\n    2 streams        "), 1);
    assert_int_equal(occurrences(caught.out, "\n    with drafts      "), 1);
    assert_null(strstr(caught.out, "nan"));
}

TEST_PROGRAM(bench_tour) { return cases_run(environment_clean, NULL); }
