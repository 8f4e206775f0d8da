// `runnel bench` on small models: the rows that its lists ask for, their bytes and products,
// stages, kernels, warnings, and models that cannot be measured. No check looks at how long
// anything took.
#include "bench_world.h"

// The tests' names, in the order of the rows, from the table.
static void labels_of(const char *table, char *out, size_t size) {
    size_t at = 0;
    for (const char *line = table; *line; line = strchr(line, '\n') + 1) {
        const char *cell = line;
        for (int i = 0; i < 7; i++) cell = strchr(cell, '|') + 1; // type_kv is shown
        at += (size_t)snprintf(out + at, size - at, "%.*s,",
                               (int)strcspn(cell + strspn(cell, " "), "|") - 1,
                               cell + strspn(cell, " "));
    }
}

CASE(test_tests_are_in_the_order_of_the_lists) {
    static struct caught caught;
    char labels[1024];
    bench_ran("-m " SMALL " -p 4 -n 3 -d 0,64 --streams 4 --verify 2 -r 1 -t 1 --kv-type f32",
              &caught);
    busy_drop(caught.err);
    assert_string_equal(caught.err, "");
    labels_of(caught.out, labels, sizeof labels);
    assert_string_equal(strchr(strchr(labels, ',') + 1, ',') + 1, // after head and rule
                        "pp4,tg3 x4,verify2,pp4 @ d64,tg3 x4 @ d64,verify2 @ d64,");
}

CASE(test_models_and_thread_counts_follow_each_other) {
    json_t *rows = bench_rows("-m " SMALL "," BLOCKS " -p 0 -n 2 -t 1,2 -r 1");
    assert_int_equal(json_array_size(rows), 4);
    assert_string_equal(row_string(rows, 2, "model_filename"), BLOCKS);
    near("the second thread count", row_number(rows, 3, "n_threads"), 2);
    json_decref(rows);
}

// A prompt and the tokens behind it are one row: the work of both, as when each is measured alone.
CASE(test_a_prompt_and_decoding_together) {
    json_t *rows = bench_rows("-m " SMALL " -p 8 -n 0 -r 1 -t 1 -pg 8,4");
    json_t *decode = bench_rows("-m " SMALL " -p 0 -n 4 -d 8 -r 1 -t 1");
    assert_int_equal(json_array_size(rows), 2);
    near("prompt", row_number(rows, 1, "n_prompt"), 8);
    near("output", row_number(rows, 1, "n_gen"), 4);
    near("bytes", 12 * row_number(rows, 1, "bytes_per_token"),
         8 * row_number(rows, 0, "bytes_per_token") + 4 * row_number(decode, 0, "bytes_per_token"));
    near("operations", 12 * row_number(rows, 1, "flops_per_token"),
         8 * row_number(rows, 0, "flops_per_token") + 4 * row_number(decode, 0, "flops_per_token"));
    near("12 tokens over the time",
         json_number_value(json_array_get(row_value(rows, 1, "samples_ts"), 0)),
         12e9 / json_number_value(json_array_get(row_value(rows, 1, "samples_ns"), 0)));
    json_decref(rows);
    json_decref(decode);
}

// The prompt's multiply-adds, from the model's shapes. Products have 8 tokens, but the head and all
// products after the last attention have 1. Attention at depth 32 has 8 tokens, in the last layer
// 1.
CASE(test_figures_of_a_model) {
    if (TEST_IS_SLOW) skip(); // figures of a model of 20M; others run the same code
    json_t *rows =
        bench_rows("-m " BLOCKS " -p 8 -n 4 -d 32 -r 2 --streams 2 --verify 2 -t 2 -b 4");
    assert_int_equal(json_array_size(rows), 3);
    const double ns = row_number(rows, 0, "avg_ns");
    check(fabs(row_number(rows, 0, "peak_share") * ns /
                   (133300224 / row_number(rows, 0, "peak_int8_gmacs") +
                    1835008 / row_number(rows, 0, "peak_f32_gmacs")) -
               1) < 1e-5,
          "the share of the peak is %g", row_number(rows, 0, "peak_share"));
    const double flops = row_number(rows, 0, "tflops") * ns * 1e3; // ns is rounded
    check(fabs(flops / (2.0 * (133300224 + 1835008)) - 1) < 1e-5, "%g operations", flops);
    near("batch", row_number(rows, 0, "n_batch"), 4);
    near("streams", row_number(rows, 1, "n_seqs"), 2);
    near("drafts", row_number(rows, 2, "n_verify"), 2);
    assert_string_equal(row_string(rows, 0, "build_commit"), RN_VERSION);
    assert_string_equal(row_string(rows, 0, "type_v"), "f16");
    assert_int_equal(strlen(row_string(rows, 0, "test_time")), strlen("2024-01-01T00:00:00Z"));
    assert_true(isnan(row_number(rows, 0, "cost")) && isfinite(row_number(rows, 2, "cost")));
    for (size_t i = 0; i < 3; i++) {
        const double share = row_number(rows, i, "bandwidth_share");
        check(share > 0 && share <= 1.0000001, "row %zu: a share of %g", i, share);
        assert_int_equal(json_array_size(row_value(rows, i, "samples_ns")), 2);
        const double ts = json_number_value(json_array_get(row_value(rows, i, "samples_ts"), 0));
        const double of = json_number_value(json_array_get(row_value(rows, i, "samples_ns"), 0));
        near("8 tokens over the time", ts, 8e9 / of);
    }
    rn_model *model;
    rn_error err = {0};
    assert_int_equal(rn_model_open(BLOCKS, &model, &err), RN_OK);
    near("parameters", row_number(rows, 0, "model_n_params"),
         (double)rn_model_get_info(model)->n_params);
    near("bytes", row_number(rows, 0, "model_size"),
         (double)rn_model_get_info(model)->weight_bytes);
    rn_model_close(model);
    json_decref(rows);
}

CASE(test_stages_of_a_step) {
    static struct caught caught;
    bench_ran("-m " SMALL " -p 4 -n 2 -r 1 --stages", &caught);
    assert_int_equal(occurrences(caught.out, "\n| stage "), 2);
    assert_int_equal(occurrences(caught.out,
                                 "| matmul ffn_down                          |       3.0 | "),
                     2);
    json_t *rows = bench_rows("-m " SMALL " -p 0 -n 2 -r 1 --stages");
    const json_t *first = json_array_get(row_value(rows, 0, "stages"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "embed token_embd");
    assert_int_equal(json_integer_value(json_object_get(first, "runs")), 2);
    json_decref(rows);
}

CASE(test_kernels_are_the_same_in_every_format) {
    static struct caught caught;
    json_t *rows = bench_rows("--kernels");
    const int n = (int)json_array_size(rows);
    assert_string_equal(row_string(rows, 0, "format"), "F32");
    assert_string_equal(row_string(rows, 0, "isa"), "scalar");
    assert_true(json_is_true(row_value(rows, 0, "here")));
    near("bits", row_number(rows, 0, "file_bits"), 32);
    near("packed", row_number(rows, 0, "packed_bits"), 32);
    json_decref(rows);
    bench_ran("--kernels -o csv", &caught);
    assert_int_equal(occurrences(caught.out, "\n"), n + 1);
    bench_ran("--kernels", &caught);
    assert_int_equal(occurrences(caught.out, "\n"), n + 2);
    assert_non_null(strstr(caught.out, "\n| Q4_0   | scalar   | yes  | reference, slow | "));
    const size_t width = strcspn(caught.out, "\n");
    for (const char *line = caught.out; *line; line += width + 1)
        check(strcspn(line, "\n") == width, "not aligned: %.80s", line);
}

CASE(test_formats_without_a_kernel_are_said_once) {
    static struct caught caught;
    bench_ran("--synthetic tiny:Q4_0,tiny:Q8_0 -t 1,2 -p 0 -n 1 -r 1 --isa scalar --no-pin",
              &caught);
    assert_int_equal(occurrences(caught.err, "no kernel for "), 2);
    assert_int_equal(occurrences(caught.err, "no kernel for Q8_0 "), 1);
    assert_int_equal(occurrences(caught.out, "\n"), 6);
    bench_ran("--synthetic tiny:Q4_0 -p 0 -n 1 -r 1 --isa scalar -q", &caught);
    assert_string_equal(caught.err, "");
}

CASE(test_bad_models_are_refused_before_anything_is_measured) {
    bench_failed("-m " SMALL ",/nonexistent.gguf", APP_USAGE, "/nonexistent.gguf: ");
    bench_failed("-p 1025", APP_USAGE,
                 "1025 positions after 0 are more than the model's context, 1024");
    bench_failed("-p 0 -d 1000", APP_USAGE, "128 positions after 1000 ");
    bench_failed("--plot /nonexistent/x.svg", APP_USAGE, "--plot: '/nonexistent/x.svg': No such");
    bench_failed("--synthetic nonsense", APP_USAGE, "shape 'nonsense' is unknown (known: 135m, ");
    bench_failed("--synthetic 1b", APP_USAGE, "'1b' has no format");
    bench_failed("--synthetic 70b:F32", APP_FAILED, "70b:F32: takes twice 282");
    bench_failed("-m " SMALL " --synthetic tiny:Q9 -p 0 -n 2 -r 1", APP_USAGE, "Q9");
    bench_failed("-m " SMALL " --synthetic 70b:F32 -p 0 -n 2 -r 1", APP_FAILED, "70b:F32");
    bench_failed("-m " SMALL " -m " TINY " -p 0 -n 2 -d 600 -r 1", APP_USAGE,
                 "positions after 600");
}

TEST_PROGRAM(bench_steps) { return cases_run(environment_clean, NULL); }
