// The arithmetic of `runnel bench`: numbers go in by hand, and come out as the columns of a row.
#include "bench/figures.h"

#include "bench_world.h"

static void column_near(const struct row *row, enum column_id id, double wanted) {
    near(column_at(id)->key ? column_at(id)->key : column_at(id)->heading, row_number_at(row, id),
         wanted);
}

static void column_null(const struct row *row, enum column_id id) {
    check(row->value[id].kind == VALUE_NULL, "%s is not null", column_at(id)->heading);
}

static double list_at(const struct row *row, enum column_id id, int i) {
    assert_true(i < row->value[id].n);
    return row->value[id].list[i];
}

CASE(test_a_ratio_over_nothing_is_not_a_number) {
    near("3 over 4", figure_ratio(3, 4), 0.75);
    assert_true(isnan(figure_ratio(1, 0)));
    assert_true(isnan(figure_ratio(1, (double)NAN)));
}

CASE(test_medians_means_and_deviations) {
    double odd[] = {9, 1, 4}, even[] = {8, 1, 2, 4}, deviation;
    near("odd", figure_median(odd, 3), 4);
    near("even", figure_median(even, 4), 3);
    near("mean", figure_mean((const double[]){1, 2, 6}, 3, &deviation), 3);
    near("deviation of a sample", deviation, sqrt(7));
    near("one value", figure_mean((const double[]){5}, 1, &deviation), 5);
    near("deviates by nothing", deviation, 0);
}

CASE(test_a_percentile_is_a_value_that_was_measured) {
    double values[200];
    for (int i = 0; i < 200; i++) values[i] = 200 - i;
    struct row row = {.table = TABLE_STREAMS};
    figures_ttft(values, 200, &row);
    column_near(&row, COLUMN_TTFT_MS_P50, 100);
    column_near(&row, COLUMN_TTFT_MS_P99, 198);
    column_near(&row, COLUMN_TTFT_MS_MAX, 200);
    figures_ttft(values, 1, &row); // one value is all of them
    column_near(&row, COLUMN_TTFT_MS_P50, 1);
    column_near(&row, COLUMN_TTFT_MS_P99, 1);
    column_near(&row, COLUMN_TTFT_MS_MAX, 1);
    figures_ttft(values, 0, &row);
    column_null(&row, COLUMN_TTFT_MS_P50);
    column_null(&row, COLUMN_TTFT_MS_MAX);
    row_deinit(&row);
}

CASE(test_names_of_models_and_tests) {
    char text[96];
    rn_model_info info = {.architecture = "llama", .format = "Q4_0", .n_params = 1236000000};
    assert_string_equal(figure_type(&info, text), "llama 1.2B Q4_0");
    info.n_params = 20450000;
    assert_string_equal(figure_type(&info, text), "llama 20M Q4_0");
    struct row row = {.table = TABLE_STEPS};
    row_whole(&row, COLUMN_N_GEN, 128);
    assert_string_equal(figure_test(&row, 1, 0, text), "tg128");
    assert_string_equal(figure_test(&row, 4, 512, text), "tg128 x4 @ d512");
    row_whole(&row, COLUMN_N_VERIFY, 8);
    assert_string_equal(figure_test(&row, 1, 0, text), "verify8");
    row_whole(&row, COLUMN_N_VERIFY, 0);
    row_whole(&row, COLUMN_N_PROMPT, 64);
    row_whole(&row, COLUMN_N_GEN, 0);
    assert_string_equal(figure_test(&row, 1, 32, text), "pp64 @ d32");
    row_whole(&row, COLUMN_N_GEN, 128);
    assert_string_equal(figure_test(&row, 1, 32, text), "pp64+tg128 @ d32");
    row_deinit(&row);
}

// 8 tokens in 2, 1 and 4 ms; 1 MB each; a bandwidth of 1, 2 and 0.5 GB/s.
static const struct sample three[] = {
    {.ns = 2000000, .bytes = 1e6, .bandwidth = 1e9, .cost = 1.5, .idle_ns = 3000, .peer_ts = 9.5},
    {.ns = 1000000, .bytes = 1e6, .bandwidth = 2e9, .cost = 1.2, .idle_ns = 1000, .peer_ts = 1.5},
    {.ns = 4000000, .bytes = 1e6, .bandwidth = 5e8, .cost = 1.9, .idle_ns = 2000, .peer_ts = 4.5},
};

static struct samples samples_of(const struct sample *sample, int n) {
    return (struct samples){.sample = sample,
                            .n = n,
                            .cost = {.tokens = 8, .int_macs = 3000000, .float_macs = 1000000},
                            .int_peak = 6e9,
                            .float_peak = 2e9};
}

CASE(test_rates_and_shares_of_steps) {
    struct samples samples = samples_of(three, 3);
    struct row row = {.table = TABLE_STEPS};
    samples.int_peak = samples.float_peak = 0; // decoding is not compared with them
    samples.cost.kv_bytes = 40000;
    row_whole(&row, COLUMN_N_GEN, 8);
    row_whole(&row, COLUMN_N_SEQS, 2);
    figures_steps(&samples, &row);
    column_near(&row, COLUMN_AVG_NS, 2333333); // whole nanoseconds
    column_near(&row, COLUMN_IDLE_US, 2);
    column_near(&row, COLUMN_STDDEV_NS, 1527525);
    column_near(&row, COLUMN_AVG_TS, 14000.0 / 3); // the mean of the rates, not of the times
    column_near(&row, COLUMN_STDDEV_TS,
                sqrt((pow(4000 - 14000.0 / 3, 2) + pow(8000 - 14000.0 / 3, 2) +
                      pow(2000 - 14000.0 / 3, 2)) /
                     2));
    column_near(&row, COLUMN_BYTES_PER_TOKEN, 125000);
    column_near(&row, COLUMN_READ_GBS, 1e6 / (7e6 / 3));
    column_near(&row, COLUMN_BANDWIDTH_GBS, 3.5 / 3);
    column_near(&row, COLUMN_BANDWIDTH_SHARE, 0.5); // each against the bandwidth of its own second
    near("the second share", list_at(&row, COLUMN_SAMPLES_SHARE, 1), 0.5);
    near("the second bandwidth", list_at(&row, COLUMN_SAMPLES_BANDWIDTH_GBS, 1), 2);
    near("the third rate", list_at(&row, COLUMN_SAMPLES_TS, 2), 2000);
    near("the third time", list_at(&row, COLUMN_SAMPLES_NS, 2), 4000000);
    column_near(&row, COLUMN_STREAM_TS, 7000.0 / 3);
    column_near(&row, COLUMN_MS_PER_TOKEN, 7.0 / 3 * 2 / 8); // 4 tokens of each of 2 sequences
    column_near(&row, COLUMN_KV_BYTES_PER_TOKEN, 5000);
    column_near(&row, COLUMN_FLOPS_PER_TOKEN, 1000000);
    column_near(&row, COLUMN_FLOP_PER_BYTE, 8);
    column_null(&row, COLUMN_PEAK_SHARE);
    column_null(&row, COLUMN_PEAK_INT8_GMACS);
    column_null(&row, COLUMN_COST);
    column_null(&row, COLUMN_PEER_TS);
    column_null(&row, COLUMN_PEER_RATIO);
    assert_true(row_ok(&row));
    row_deinit(&row);
}

CASE(test_a_prompt_is_compared_with_the_peaks_of_its_products) {
    struct samples samples = samples_of(three, 1);
    struct row row = {.table = TABLE_STEPS};
    row_whole(&row, COLUMN_N_PROMPT, 8);
    figures_steps(&samples, &row);
    column_near(&row, COLUMN_PEAK_SHARE, 0.5); // 0.5 ms of bytes and 0.5 ms of floats in 2 ms
    assert_string_equal(row_text_at(&row, COLUMN_BOUND), "memory"); // half of each
    column_near(&row, COLUMN_PEAK_INT8_GMACS, 6);
    column_near(&row, COLUMN_PEAK_F32_GMACS, 2);
    samples.int_peak = 0; // not measured
    figures_steps(&samples, &row);
    column_null(&row, COLUMN_PEAK_SHARE);
    column_null(&row, COLUMN_PEAK_INT8_GMACS);
    row_deinit(&row);
}

CASE(test_a_bandwidth_that_was_not_measured_gives_no_share) {
    const struct sample sample = {.ns = 1000, .bytes = 5};
    const struct samples samples = samples_of(&sample, 1);
    struct row row = {.table = TABLE_STEPS};
    figures_steps(&samples, &row);
    column_null(&row, COLUMN_BANDWIDTH_GBS);
    column_null(&row, COLUMN_BANDWIDTH_SHARE);
    column_near(&row, COLUMN_READ_GBS, 0.005);
    row_deinit(&row);
}

CASE(test_costs_and_peers_are_medians) {
    const struct samples samples = samples_of(three, 3);
    struct row row = {.table = TABLE_STEPS};
    row_whole(&row, COLUMN_N_VERIFY, 2);
    row_text(&row, COLUMN_PEER_NAME, "peer abc");
    figures_steps(&samples, &row);
    column_near(&row, COLUMN_COST, 1.5);
    column_near(&row, COLUMN_PEER_TS, 4.5);
    column_near(&row, COLUMN_PEER_RATIO, 4000 / 4.5); // our median over it
    near("in the order of the runs", list_at(&row, COLUMN_PEER_SAMPLES_TS, 1), 1.5);
    row_deinit(&row);
}

CASE(test_streams_between_two_moments) {
    const struct crowd_mark from = {.ns = 1000, .n_out = 10, .stats = {.steps = 5, .run_ns = 100}};
    const struct crowd_mark to = {.ns = 1000 + 2000000,
                                  .n_out = 50,
                                  .stats = {.steps = 15,
                                            .run_ns = 100 + 1000000,
                                            .schedule_ns = 10000,
                                            .batch_ns = 20000,
                                            .publish_ns = 30000,
                                            .sample_ns = 5000,
                                            .idle_ns = 15000,
                                            .late_steps = 1,
                                            .weight_bytes = 1500000,
                                            .kv_bytes = 500000,
                                            .prompt_tokens = 256,
                                            .cached_tokens = 96,
                                            .output_tokens = 40,
                                            .preemptions = 2}};
    struct row row = {.table = TABLE_STREAMS};
    figures_moments(&from, &to, &row);
    column_near(&row, COLUMN_GEN_TS, 20000);
    column_near(&row, COLUMN_STEPS, 10);
    column_near(&row, COLUMN_HOST_US, 6);
    column_near(&row, COLUMN_SAMPLE_US, 0.5);
    column_near(&row, COLUMN_IDLE_US, 1.5);
    column_near(&row, COLUMN_LATE_SHARE, 0.1);
    column_near(&row, COLUMN_READ_GBS, 2);
    figures_totals(&from.stats, &to.stats, &row);
    column_near(&row, COLUMN_PROMPT_TOKENS, 256);
    column_near(&row, COLUMN_CACHED_TOKENS, 96);
    column_near(&row, COLUMN_SAVED, 0.375);
    column_near(&row, COLUMN_OUTPUT_TOKENS, 40);
    column_near(&row, COLUMN_PREEMPTIONS, 2);
    figures_moments(&from, &from, &row); // nothing happened
    column_null(&row, COLUMN_GEN_TS);
    column_null(&row, COLUMN_HOST_US);
    column_null(&row, COLUMN_IDLE_US);
    column_null(&row, COLUMN_LATE_SHARE);
    row_deinit(&row);
}

CASE(test_the_bandwidth_is_at_least_what_was_read) {
    struct row row = {.table = TABLE_STREAMS};
    row_real(&row, COLUMN_READ_GBS, 2);
    row_bool(&row, COLUMN_DECODE_ONLY, true);
    figures_bandwidth(4e9, &row);
    column_near(&row, COLUMN_BANDWIDTH_SHARE, 0.5);
    column_near(&row, COLUMN_DECODE_SHARE, 0.5);
    figures_bandwidth(1e9, &row);
    column_near(&row, COLUMN_BANDWIDTH_GBS, 2);
    column_near(&row, COLUMN_BANDWIDTH_SHARE, 1);
    row_bool(&row, COLUMN_DECODE_ONLY, false); // prompts took part
    figures_bandwidth(4e9, &row);
    column_null(&row, COLUMN_DECODE_SHARE);
    figures_bandwidth(0, &row); // not measured
    column_null(&row, COLUMN_BANDWIDTH_GBS);
    column_null(&row, COLUMN_BANDWIDTH_SHARE);
    row_deinit(&row);
}

CASE(test_gaps_are_counted_above_the_bound) {
    double ms[] = {5.5, 1, 2, 5}, first[] = {7, 3};
    struct row row = {.table = TABLE_STREAMS};
    figures_gaps(ms, 4, &row);
    column_near(&row, COLUMN_GAP_MS_P50, 2);
    column_near(&row, COLUMN_GAP_MS_P99, 5.5);
    column_near(&row, COLUMN_GAP_MS_MAX, 5.5);
    column_null(&row, COLUMN_OVER_BOUND);
    row_whole(&row, COLUMN_ITL_MS, 5);
    figures_gaps(ms, 4, &row);
    column_near(&row, COLUMN_OVER_BOUND, 0.25); // 5 ms is not above 5 ms
    figures_ttft(first, 2, &row);
    column_near(&row, COLUMN_TTFT_MS_P50, 3);
    column_near(&row, COLUMN_TTFT_MS_MAX, 7);
    row_deinit(&row);
}

CASE(test_the_gain_over_one_by_one) {
    struct row row = {.table = TABLE_STREAMS};
    row_whole(&row, COLUMN_N_STREAMS, 4);
    row_real(&row, COLUMN_WALL_MS, 20);
    figures_serial(10, 8, &row); // the first, and three that found its prefix
    column_near(&row, COLUMN_SERIAL_MS, 34);
    column_near(&row, COLUMN_GAIN_SERIAL, 1.7);
    row_deinit(&row);
}

CASE(test_drafts_are_compared_in_pairs) {
    static const struct pairs pairs = {.none_ts = {100, 50, 200},
                                       .gen_ts = {150, 100, 500},
                                       .n = 3,
                                       .none = {.tokens = 69, .steps = 69, .bytes = 690},
                                       .sums = {.tokens = 69,
                                                .steps = 15,
                                                .bytes = 138,
                                                .drafted = 60,
                                                .accepted = 54,
                                                .draft_steps = 15,
                                                .decode_ms = 10,
                                                .undrafted_ms = 16}};
    struct row row = {.table = TABLE_DRAFTS};
    figures_drafts(&pairs, &row);
    column_near(&row, COLUMN_RATIO, 2); // the median of the pairs', not the medians' ratio
    column_near(&row, COLUMN_NONE_TS, 100);
    column_near(&row, COLUMN_GEN_TS, 150);
    near("the pairs in their order", list_at(&row, COLUMN_SAMPLES_RATIO, 1), 2);
    column_near(&row, COLUMN_SAID_RATIO, 1.6);
    column_near(&row, COLUMN_DECODE_TOKENS, 69);
    column_near(&row, COLUMN_DECODE_STEPS, 15);
    column_near(&row, COLUMN_DRAFT_STEPS, 15);
    column_near(&row, COLUMN_ACCEPTED_SHARE, 0.9);
    column_near(&row, COLUMN_TOKENS_PER_STEP, 4.6);
    column_near(&row, COLUMN_DRAFTED_PER_STEP, 4);
    column_near(&row, COLUMN_BYTES_PER_TOKEN, 2);
    column_near(&row, COLUMN_NONE_BYTES_PER_TOKEN, 10);
    row_deinit(&row);
}

CASE(test_a_share_of_no_drafts_is_null) {
    static const struct pairs pairs = {.none_ts = {1},
                                       .gen_ts = {1},
                                       .n = 1,
                                       .sums = {.tokens = 4, .steps = 4, .decode_ms = 1}};
    struct row row = {.table = TABLE_DRAFTS};
    figures_drafts(&pairs, &row);
    column_near(&row, COLUMN_DRAFT_TOKENS, 0);
    column_null(&row, COLUMN_ACCEPTED_SHARE);
    column_null(&row, COLUMN_SAID_RATIO);
    column_near(&row, COLUMN_TOKENS_PER_STEP, 1);
    row_deinit(&row);
}

static void mark_at(struct crowd_mark *mark, uint64_t ns, uint64_t n_out) {
    *mark = (struct crowd_mark){.ns = ns, .n_out = n_out};
}

CASE(test_a_window_is_the_steps_in_which_all_streams_decode) {
    static struct crowd_window window;
    const struct crowd_mark *from, *to;
    mark_at(&window.first, 10, 1);
    mark_at(&window.all, 20, 4);
    mark_at(&window.ended, 40, 12);
    mark_at(&window.end, 50, 14);
    assert_true(crowd_window_ends(&window, &from, &to));
    near("tokens of 20 ns", crowd_rate(from, to), 4e8);
    window.ended.ns = 20; // the first ended in the step in which the last began
    assert_false(crowd_window_ends(&window, &from, &to));
    near("from the first token to the end", crowd_rate(from, to), 13e9 / 40);
}

// A device may have no peak for a kind of product that the model does not have.
CASE(test_a_peak_is_needed_only_for_products_that_there_are) {
    const struct sample sample = {.ns = 1000000, .bytes = 1e6, .bandwidth = 2e9};
    struct samples samples = {.sample = &sample,
                              .n = 1,
                              .cost = {.tokens = 1, .float_macs = 500000},
                              .float_peak = 1e9};
    struct row row = {.table = TABLE_STEPS};
    figures_steps(&samples, &row);
    near("floats alone", row_number_at(&row, COLUMN_PEAK_SHARE), 0.5);
    samples.cost.int_macs = 1;
    figures_steps(&samples, &row);
    assert_true(isnan(row_number_at(&row, COLUMN_PEAK_SHARE)));
    row_deinit(&row);
}

TEST_PROGRAM(bench_figures) { return cases_run(NULL, NULL); }
