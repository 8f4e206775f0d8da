// `runnel bench --batch`, `--arrive` and `--speculate` on small models: the requests that were run,
// the tokens that were shared and drafted, and that drafts do not change a text. No check looks at
// how long anything took.
#include "bench_world.h"

// ---------------------------------------------------------------- streams

// A prefix of 48 tokens, of which a page of 32 can be shared.
CASE(test_batches_of_requests) {
    json_t *rows = bench_rows("-m " SMALL " --batch 1,2,4 -p 64 -n 8 -r 2");
    assert_int_equal(json_array_size(rows), 6);
    for (size_t i = 0; i < 6; i++) {
        const int n = 1 << i % 3, shared = i >= 3;
        near("streams", row_number(rows, i, "n_streams"), n);
        near("tokens of the prompts", row_number(rows, i, "prompt_tokens"), 64 * n);
        near("tokens written", row_number(rows, i, "output_tokens"), 8 * n);
        near("cached", row_number(rows, i, "cached_tokens"), shared ? 32 * (n - 1) : 0);
        assert_true(row_number(rows, i, "pages_held") >= (shared ? n + 1 : 2 * n));
        near("shared pages", row_number(rows, i, "pages_shared"), i > 3);
        near("over one stream", row_number(rows, i, "gain_stream"),
             row_number(rows, i, "gen_ts") / row_number(rows, i / 3 * 3, "gen_ts"));
        const double gap = row_number(rows, i, "gap_ms_p50"), wall = row_number(rows, i, "wall_ms");
        const double longest = row_number(rows, i, "gap_ms_max");
        const double ttft = row_number(rows, i, "ttft_ms_max");
        check(0 < gap && gap <= longest && longest < wall && 0 < ttft && ttft <= wall,
              "row %zu: gaps of %g to %g ms, a first token after %g ms, in %g ms", i, gap, longest,
              ttft, wall);
        assert_true(isnan(row_number(rows, i, "over_bound")));
        assert_string_equal(row_string(rows, i, "test"), shared ? "shared" : "batch");
    }
    json_decref(rows);
}

CASE(test_lengths_prefixes_and_bounds) {
    json_t *rows = bench_rows("--synthetic tiny:Q4_0 --batch 3 -p 33,70 -n 2,4 --shared-prefix 64 "
                              "--itl-ms 5 --sample");
    assert_int_equal(json_array_size(rows), 8);
    near("a prefix is at most the prompt", row_number(rows, 1, "n_shared"), 33);
    near("or as long as wanted", row_number(rows, 5, "n_shared"), 64);
    assert_true(isnan(row_number(rows, 0, "gain_stream"))); // one stream was not measured
    near("the bound", row_number(rows, 0, "itl_ms"), 5);
    assert_true(row_number(rows, 0, "over_bound") >= 0 && row_number(rows, 0, "over_bound") <= 1);
    assert_true(json_is_true(row_value(rows, 0, "sampled")));
    json_decref(rows);
}

CASE(test_tables_of_streams) {
    static struct caught caught;
    bench_ran("-m " SMALL " --batch 1,2 -p 64 -n 8 --kv-memory 4p", &caught); // they take turns
    assert_int_equal(occurrences(caught.out, "\n"), 8);
    assert_non_null(strstr(caught.out, "|            pp64+tg8 |       2 | "));
    assert_non_null(strstr(caught.out, "| pp64+tg8, 48 shared |       2 | "));
    assert_non_null(strstr(caught.out, "t/s | / 1 stream | / 1 by 1 | gap ms 50/99/max | first ms "
                                       "50/99 | host us | sample us |   of B | pages "
                                       "held/shared |  saved |\n"));
    bench_ran("-m " SMALL " --arrive 300 -p 16 -n 8 --itl-ms 0,5 --batch 2", &caught);
    assert_non_null(strstr(caught.out,
                           "| streams | prompt t/s |      t/s | gap ms 50/99/max | > bound "
                           "| first ms 50/99 | host us | sample us |   of B |\n"));
    assert_non_null(strstr(caught.out, "| pp300 arrives, 5 ms |       2 | "));
    assert_non_null(strstr(caught.out, "|                 tg8 |       2 |            | "));
    assert_int_equal(occurrences(caught.out, "\n"), 8);
}

CASE(test_a_prompt_arrives) {
    json_t *rows = bench_rows("-m " SMALL " --arrive 300 -p 16 -n 8");
    assert_int_equal(json_array_size(rows), 2);
    near("eight streams", row_number(rows, 0, "n_streams"), 8);
    assert_string_equal(row_string(rows, 0, "test"), "before");
    assert_string_equal(row_string(rows, 1, "test"), "arrive");
    near("the streams go on writing", row_number(rows, 0, "output_tokens"), 64);
    near("the rate of its prompt", row_number(rows, 1, "prompt_ts"),
         300000 / row_number(rows, 1, "ttft_ms_max"));
    json_decref(rows);
}

CASE(test_requests_that_do_not_fit) {
    bench_failed("-m " SMALL " --batch 2 -p 64 -n 8 --kv-memory 1p", APP_USAGE,
                 "asked for hold 32 positions");
    bench_failed("--batch 1 -p 1024", APP_USAGE,
                 "requests of 1152 positions are more than the model's context, 1024");
    bench_failed("--speculate -n 1024", APP_USAGE,
                 "positions are more than the model's context, 1024");
}

// ---------------------------------------------------------------- drafts

static void row_is(const json_t *rows, size_t i, const char *drafter, double acceptance,
                   double temperature, int n_streams) {
    assert_string_equal(row_string(rows, i, "drafter"), drafter);
    if (isfinite(acceptance)) near("acceptance", row_number(rows, i, "acceptance"), acceptance);
    near("temperature", row_number(rows, i, "temperature"), temperature);
    near("streams", row_number(rows, i, "n_streams"), n_streams);
}

CASE(test_drafts_change_the_steps_and_not_the_text) {
    json_t *rows = bench_rows("--speculate -m " SMALL " -n 24 -r 2 --drafters synthetic,none "
                              "--acceptance 1,0 --draft-lengths 4 --temperatures 0,0.5 "
                              "--streams 1,3");
    assert_int_equal(json_array_size(rows), 12);
    for (size_t i = 0; i < 12; i++) {
        const int n = i % 2 ? 3 : 1;
        const double drafted = row_number(rows, i, "draft_tokens");
        const double accepted = row_number(rows, i, "accepted_tokens");
        row_is(rows, i, i < 8 ? "synthetic" : "none", i < 8 ? i < 4 : (double)NAN,
               i / 2 % 2 ? 0.5 : 0, n);
        assert_true(json_is_true(row_value(rows, i, "same_text")));
        near("all tokens but the first", row_number(rows, i, "decode_tokens"), 2 * 23 * n);
        if (i < 4) { // right all the time: 5 tokens in a step
            near("steps", row_number(rows, i, "decode_steps"), 2 * 5 * n);
            near("all are accepted", accepted, drafted);
            assert_true(row_number(rows, i, "bytes_per_token") <
                        row_number(rows, i, "none_bytes_per_token"));
        } else if (i < 8) { // never right
            assert_true(accepted == 0 && drafted > 0);
            near("a token in a step", row_number(rows, i, "tokens_per_step"), 1);
        } else {
            near("nothing is drafted", drafted, 0);
            assert_true(isnan(row_number(rows, i, "accepted_share")));
        }
    }
    json_decref(rows);
}

CASE(test_every_drafter_there_is) {
    static const char *const drafters[] = {"model", "lookup",        "shared",
                                           "auto",  "synthetic 0.8", "synthetic 0"};
    static struct caught caught;
    if (TEST_IS_SLOW) { // a model of 20M takes a minute there
        bench_ran("--speculate -m " SMALL " --draft " SMALL " -n 8 -r 1 --draft-lengths auto,2",
                  &caught);
    } else {
        bench_ran("--speculate -m " BLOCKS " --draft " SMALL " -n 8 -r 1 --draft-lengths auto,2",
                  &caught);
        busy_drop(caught.err);
        assert_string_equal(caught.err, "");
    }
    for (size_t i = 0; i < sizeof drafters / sizeof *drafters; i++) {
        char line[64];
        snprintf(line, sizeof line, "\n| %14s |   auto |    0 |       1 |", drafters[i]);
        check(strstr(caught.out, line), "no row for %s", drafters[i]);
        snprintf(line, sizeof line, "\n| %14s |      2 |    0 |       1 |", drafters[i]);
        check(strstr(caught.out, line), "no row for %s of 2", drafters[i]);
    }
    assert_int_equal(occurrences(caught.out, "\n"), 4 + 12);
}

CASE(test_drafts_of_a_model) {
    static struct caught caught;
    json_t *rows = bench_rows("--speculate -m " SMALL " --draft " SMALL " -n 16 -r 1 --drafters "
                              "model --draft-lengths 3 --temperatures 0.8");
    near("a model is its own best drafter", row_number(rows, 0, "accepted_tokens"),
         row_number(rows, 0, "draft_tokens"));
    assert_string_equal(row_string(rows, 0, "draft_filename"), SMALL);
    json_decref(rows);
    if (!TEST_IS_SLOW) {
        rows = bench_rows("--speculate -n 4 -r 1 --drafters model --draft-lengths 2");
        assert_true(row_number(rows, 0, "draft_tokens") > 0); // the embedded model brings one
        assert_true(json_is_true(row_value(rows, 0, "same_text")));
        json_decref(rows);
    }
    bench_failed("--speculate -n 4 -r 1 --drafters model --draft " TINY, APP_USAGE,
                 "cannot draft for");
    bench_failed("--speculate --draft /nonexistent", APP_USAGE, "/nonexistent: ");
    bench_ran("--speculate -m " SMALL " --draft " SMALL " -n 4 -r 1 --drafters model "
              "--draft-lengths 2",
              &caught);
    assert_non_null(strstr(caught.err, "its drafts cost more"));
}

CASE(test_forced_texts_repeat_themselves) {
    static const char *const forced[] = {"5", "'a lantern in the rain'"};
    char line[256];
    for (size_t f = 0; f < 2; f++) {
        snprintf(line, sizeof line,
                 "--speculate -m " SMALL " -n 24 -r 1 --drafters lookup,shared --draft-lengths 4 "
                 "--forced %s",
                 forced[f]);
        json_t *rows = bench_rows(line);
        for (size_t i = 0; i < 2; i++) {
            check(row_number(rows, i, "tokens_per_step") > 3, "%s: %s found %g tokens in a step",
                  forced[f], row_string(rows, i, "drafter"),
                  row_number(rows, i, "tokens_per_step"));
            assert_true(json_is_true(row_value(rows, i, "same_text")));
            assert_true(json_is_true(row_value(rows, i, "forced")));
        }
        json_decref(rows);
    }
    json_t *rows = bench_rows("--speculate --synthetic tiny:Q4_0 -p 40 -n 12 -r 1 --forced 5 "
                              "--drafters lookup --draft-lengths 1,3");
    assert_int_equal(json_array_size(rows), 2); // random weights
    json_decref(rows);
    bench_failed("--speculate -m " SMALL " --forced 0", APP_USAGE,
                 "--forced: '0' is not a number of tokens from 1 to 4096");
    bench_failed("--speculate --synthetic tiny:Q4_0 --forced words", APP_USAGE,
                 "--forced: a model of random weights has no words");
}

TEST_PROGRAM(bench_engine) { return cases_run(environment_clean, NULL); }
