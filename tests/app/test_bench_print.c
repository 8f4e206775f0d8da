// The table of columns, and the printers over it: cells, a terminal's table at any width, JSON and
// CSV. Rows are made by hand.
#include "bench/figures.h"

#include "bench_world.h"

static const struct term plain = {0}, coloured = {.out_color = true};

// ---------------------------------------------------------------- the table of columns

static void keys_are(enum table_id table, const char *wanted) {
    static char keys[4096];
    size_t at = 0;
    for (unsigned i = 0; i < COLUMN_COUNT; i++)
        if (column_at(i)->tables & 1u << table)
            at += (size_t)snprintf(keys + at, sizeof keys - at, "%s ", column_at(i)->key);
    check(!strcmp(keys, wanted), "table %d has the keys\n%s instead of\n%s", (int)table, keys,
          wanted);
}

// Programs read these names; llama-bench has most of the first list's.
CASE(test_the_keys_are_those_that_programs_read) {
    keys_are(TABLE_STEPS,
             "build_commit build_number cpu_info gpu_info model_filename model_type model_size "
             "model_n_params backends device isa n_batch n_ubatch n_threads type_k type_v "
             "test_time busy_share "
             "n_prompt n_gen n_depth n_seqs n_verify avg_ns stddev_ns avg_ts stddev_ts stream_ts "
             "ms_per_token samples_ns samples_ts idle_us bytes_per_token kv_bytes_per_token "
             "flops_per_token flop_per_byte read_gbs bandwidth_gbs bandwidth_share "
             "samples_bandwidth_gbs in_cache tflops peak_share peak_int8_gmacs peak_f32_gmacs cost "
             "samples_share peer_name peer_ts peer_samples_ts peer_ratio ");
    static const char streams[] =
        "build_commit test model_filename model_type backends device isa n_batch n_threads type_kv "
        "test_time busy_share n_streams n_prompt n_gen n_shared n_arrive itl_ms sampled wall_ms "
        "serial_ms "
        "prompt_ts gen_ts decode_only gain_stream gain_serial gap_ms_p50 gap_ms_p99 gap_ms_max "
        "over_bound ttft_ms_p50 ttft_ms_p99 ttft_ms_max steps host_us sample_us idle_us late_share "
        "read_gbs "
        "bandwidth_gbs bandwidth_share pages_held pages_shared prompt_tokens cached_tokens "
        "output_tokens preemptions ";
    keys_are(TABLE_STREAMS, streams);
    keys_are(TABLE_ARRIVE, streams);
    keys_are(
        TABLE_DRAFTS,
        "build_commit test model_filename model_type draft_filename backends device isa n_threads "
        "type_kv test_time busy_share drafter draft_length acceptance temperature n_streams n_gen "
        "forced "
        "none_ts gen_ts ratio samples_ratio said_ratio decode_tokens decode_steps draft_steps "
        "draft_tokens accepted_tokens accepted_share tokens_per_step drafted_per_step "
        "bytes_per_token none_bytes_per_token same_text ");
    keys_are(TABLE_KERNELS, "format isa here one few many panel file_bits packed_bits way ");
}

CASE(test_headings_fit_their_columns) {
    for (unsigned i = 0; i < COLUMN_COUNT; i++) {
        const struct column *column = column_at(i);
        check((int)strlen(column->heading) <= column->width, "column %u", i);
        check(!column->key == !column->tables, "column %u: a key without a table, or none", i);
        check(column->key || *column->heading, "column %u is never seen", i);
    }
}

// ---------------------------------------------------------------- cells

static void cell_is(const struct row *row, enum column_id id, const char *wanted) {
    char text[64];
    check(!strcmp(cell_text(row, id, text), wanted), "'%s' instead of '%s'", text, wanted);
}

CASE(test_cells) {
    struct row row = {0};
    row_whole(&row, COLUMN_MODEL_SIZE, 21758000);
    cell_is(&row, COLUMN_MODEL_SIZE, "20.75 MiB");
    row_whole(&row, COLUMN_MODEL_SIZE, 3ll << 30);
    cell_is(&row, COLUMN_MODEL_SIZE, "3.00 GiB");
    row_whole(&row, COLUMN_MODEL_N_PARAMS, 20450000);
    cell_is(&row, COLUMN_MODEL_N_PARAMS, "20.45 M");
    row_whole(&row, COLUMN_MODEL_N_PARAMS, 1240000000);
    cell_is(&row, COLUMN_MODEL_N_PARAMS, "1.24 B");
    row_real(&row, COLUMN_AVG_TS, 336.144);
    row_real(&row, COLUMN_STDDEV_TS, 2.726);
    cell_is(&row, COLUMN_AVG_TS, "336.14 ± 2.73");
    row_real(&row, COLUMN_BYTES_PER_TOKEN, 21.9e6);
    cell_is(&row, COLUMN_BYTES_PER_TOKEN, "21.9 MB");
    row_real(&row, COLUMN_BANDWIDTH_SHARE, 0.967);
    cell_is(&row, COLUMN_BANDWIDTH_SHARE, "96.7%");
    row_bool(&row, COLUMN_IN_CACHE, true);
    cell_is(&row, COLUMN_BANDWIDTH_SHARE, "96.7% (cache)");
    cell_is(&row, COLUMN_PEER_RATIO, ""); // not measured
    cell_is(&row, COLUMN_GAP_MS_P50, "");
    row_real(&row, COLUMN_GAP_MS_P50, 1.234);
    row_real(&row, COLUMN_GAP_MS_P99, 12.34);
    row_real(&row, COLUMN_GAP_MS_MAX, 123.4);
    cell_is(&row, COLUMN_GAP_MS_P50, "1.23/12.3/123");
    row_real(&row, COLUMN_TTFT_MS_P50, 9.996);
    row_real(&row, COLUMN_TTFT_MS_P99, 99.96);
    cell_is(&row, COLUMN_TTFT_MS_P50, "10.0/100");
    row_whole(&row, COLUMN_PAGES_HELD, 12);
    row_whole(&row, COLUMN_PAGES_SHARED, 3);
    cell_is(&row, COLUMN_PAGES_HELD, "12 / 3");
    row_text(&row, COLUMN_DRAFTER, "synthetic");
    row_real(&row, COLUMN_ACCEPTANCE, 0.8);
    cell_is(&row, COLUMN_DRAFTER, "synthetic 0.8");
    cell_is(&row, COLUMN_DRAFT_LENGTH, "auto");
    row_whole(&row, COLUMN_DRAFT_LENGTH, 4);
    cell_is(&row, COLUMN_DRAFT_LENGTH, "4");
    row_text(&row, COLUMN_DRAFTER, "none");
    row_real(&row, COLUMN_ACCEPTANCE, (double)NAN);
    row_text(&row, COLUMN_DRAFT_LENGTH, NULL);
    cell_is(&row, COLUMN_DRAFTER, "none");
    cell_is(&row, COLUMN_DRAFT_LENGTH, "");
    row_bool(&row, COLUMN_SAME_TEXT, false);
    cell_is(&row, COLUMN_SAME_TEXT, "DIFFERS");
    row_deinit(&row);
}

// ---------------------------------------------------------------- tables

static struct row steps_row(const char *label) {
    static const struct sample sample = {.ns = 1000000, .bytes = 1e6, .bandwidth = 2e9};
    const struct samples samples = {.sample = &sample, .n = 1, .cost = {.tokens = 4}};
    struct row row = {.table = TABLE_STEPS};
    row_text(&row, COLUMN_MODEL_TYPE, "llama 20M Q8_0");
    row_text(&row, COLUMN_MODEL_FILENAME, "a \"b\",c.gguf");
    row_text(&row, COLUMN_BACKENDS, "cpu");
    row_text(&row, COLUMN_ISA, "avx2");
    row_text(&row, COLUMN_TYPE_KV, "f16");
    row_whole(&row, COLUMN_N_THREADS, 2);
    row_whole(&row, COLUMN_MODEL_SIZE, 21758000);
    row_whole(&row, COLUMN_MODEL_N_PARAMS, 20450000);
    row_text(&row, COLUMN_LABEL, label);
    row_whole(&row, COLUMN_N_GEN, 4);
    figures_steps(&samples, &row);
    return row;
}

static struct row drafts_row(bool same) {
    struct row row = steps_row("");
    row.table = TABLE_DRAFTS;
    row_text(&row, COLUMN_DRAFTER, "lookup");
    row_bool(&row, COLUMN_SAME_TEXT, same);
    row_bool(&row, COLUMN_FORCED, true);
    row_real(&row, COLUMN_TEMPERATURE, 0);
    return row;
}

// Prints the rows as they would come; releases them.
static void rows_caught(const struct bench_config *config, const struct term *term,
                        struct row *rows, int n, struct caught *caught) {
    struct bench bench = {.config = config, .term = term};
    caught_begin(caught);
    for (int i = 0; i < n; i++) assert_int_equal(bench_row_add(&bench, &rows[i]), APP_OK);
    assert_int_equal(rows_print(&bench), APP_OK);
    caught_end(caught);
    for (int i = 0; i < bench.n_rows; i++) row_deinit(&bench.rows[i]);
    free(bench.rows);
}

static const struct bench_config config_md = {.output = "md",
                                              .kv_type = "f16",
                                              .n_prompt = {{512}, 1},
                                              .n_gen = {{4}, 1}};

CASE(test_a_table_is_markdown_with_aligned_columns) {
    static struct caught caught;
    struct row rows[] = {steps_row("tg4"), steps_row("tg4 x16 @ d512")};
    rows_caught(&config_md, &plain, rows, 2, &caught);
    assert_string_equal(
        caught.out,
        "| model                |       size |    params | backend | threads |            test |"
        "               t/s | bytes/token |    GB/s | B, GB/s |          of B | of peak |\n"
        "| -------------------- | ---------: | --------: | ------- | ------: | --------------: |"
        " ----------------: | ----------: | ------: | ------: | ------------: | ------: |\n"
        "| llama 20M Q8_0       |  20.75 MiB |   20.45 M | cpu     |       2 |             tg4 |"
        "    4000.00 ± 0.00 |      250 kB |    1.00 |     2.0 |         50.0% |         |\n"
        "| llama 20M Q8_0       |  20.75 MiB |   20.45 M | cpu     |       2 |  tg4 x16 @ d512 |"
        "    4000.00 ± 0.00 |      250 kB |    1.00 |     2.0 |         50.0% |         |\n");
}

CASE(test_columns_that_no_test_fills_are_left_out) {
    bool shown[COLUMN_COUNT];
    struct bench_config config = config_md;
    table_fit(&config, TABLE_STEPS, 0, 1000, shown);
    assert_true(shown[COLUMN_PEAK_SHARE]);
    assert_false(shown[COLUMN_TYPE_K] || shown[COLUMN_COST] || shown[COLUMN_PEER_TS]);
    config.kv_type = "int8";
    config.verify = (struct bench_list){{2}, 1};
    config.peer = "llama-bench";
    config.n_prompt.value[0] = 0;
    table_fit(&config, TABLE_STEPS, 0, 1000, shown);
    assert_false(shown[COLUMN_PEAK_SHARE]);
    assert_true(shown[COLUMN_TYPE_K] && shown[COLUMN_COST] && shown[COLUMN_PEER_TS] &&
                shown[COLUMN_PEER_RATIO]);
}

static int shown_width(const bool shown[COLUMN_COUNT], int label_width) {
    int width = 1;
    for (unsigned i = 0; i < COLUMN_COUNT; i++)
        if (shown[i])
            width += 3 + (i == COLUMN_LABEL && label_width ? label_width : column_at(i)->width);
    return width;
}

CASE(test_a_narrow_terminal_has_what_matters) {
    bool shown[COLUMN_COUNT];
    for (int room = 70; room < 200; room++) {
        table_fit(&config_md, TABLE_STEPS, 0, room, shown);
        check(room < 80 || shown_width(shown, 0) <= room, "%d columns", room);
        assert_true(shown[COLUMN_MODEL_TYPE] && shown[COLUMN_LABEL] && shown[COLUMN_AVG_TS] &&
                    shown[COLUMN_BANDWIDTH_SHARE]);
        table_fit(&config_md, TABLE_STREAMS, 19, room, shown);
        check(shown_width(shown, 19) <= room, "streams, %d columns", room);
        assert_true(shown[COLUMN_LABEL] && shown[COLUMN_N_STREAMS] && shown[COLUMN_GEN_TS]);
        table_fit(&config_md, TABLE_ARRIVE, 18, room, shown);
        check(shown_width(shown, 18) <= room, "arrive, %d columns", room);
        assert_true(shown[COLUMN_LABEL] && shown[COLUMN_N_STREAMS] && shown[COLUMN_GAP_MS_P50]);
        table_fit(&config_md, TABLE_DRAFTS, 0, room, shown);
        check(shown_width(shown, 0) <= room, "drafts, %d columns", room);
        assert_true(shown[COLUMN_RATIO] && shown[COLUMN_SAME_TEXT]);
    }
    struct bench_config several = config_md;
    several.threads.count = 2;
    table_fit(&several, TABLE_STEPS, 0, 80, shown);
    assert_true(shown[COLUMN_N_THREADS]); // or the rows could not be told apart
}

CASE(test_each_model_and_thread_count_has_a_titled_table) {
    static struct caught caught;
    struct row rows[] = {drafts_row(true), drafts_row(true), drafts_row(true), drafts_row(true)};
    row_whole(&rows[2], COLUMN_N_THREADS, 1);
    row_whole(&rows[3], COLUMN_N_THREADS, 1);
    row_text(&rows[3], COLUMN_MODEL_FILENAME, "other.gguf");
    rows_caught(&config_md, &plain, rows, 4, &caught);
    assert_int_equal(occurrences(caught.out,
                                 "|        drafter | length | temp | streams | none t/s |"
                                 "      t/s | ratio |  says | drafted | accepted |"
                                 " tokens/step | drafted/step | bytes/token | none bytes |"
                                 "    text |\n"),
                     3);
    assert_int_equal(occurrences(caught.out, "avx2, 2 threads, kv f16, tg4, forced text\n\n|"), 1);
    assert_int_equal(occurrences(caught.out, "\n\nllama 20M Q8_0, cpu avx2, 1 thread, kv"), 2);
    assert_int_equal(occurrences(caught.out, "|         lookup |   auto |"), 4);
}

// A device with a name is in a line above its table, without the host's threads.
CASE(test_a_device_is_named_above_its_rows) {
    static struct caught caught;
    struct bench_config config = config_md;
    bool shown[COLUMN_COUNT];
    strcpy(config.device.name, "Abacus 9000");
    struct row rows[] = {steps_row("tg4"), steps_row("tg8")};
    for (int i = 0; i < 2; i++) row_text(&rows[i], COLUMN_BACKENDS, "abacus");
    for (int i = 0; i < 2; i++) row_text(&rows[i], COLUMN_DEVICE, "Abacus 9000");
    rows_caught(&config, &plain, rows, 2, &caught);
    assert_int_equal(occurrences(caught.out, "abacus Abacus 9000, kv f16\n\n| model"), 1);
    assert_null(strstr(caught.out, "thread"));
    struct row drafts = drafts_row(true);
    row_text(&drafts, COLUMN_DEVICE, "Abacus 9000");
    rows_caught(&config, &plain, &drafts, 1, &caught);
    assert_non_null(strstr(caught.out, "llama 20M Q8_0, cpu Abacus 9000, kv f16, tg4"));
    config.threads.count = 2; // they were asked for, so they are shown
    table_fit(&config, TABLE_STEPS, 0, 1000, shown);
    assert_true(shown[COLUMN_N_THREADS] && shown[COLUMN_TFLOPS]);
    config.n_prompt.value[0] = 0;
    table_fit(&config, TABLE_STEPS, 0, 1000, shown);
    assert_false(shown[COLUMN_TFLOPS]);
}

CASE(test_colour_is_for_titles_heads_rates_and_texts_that_differ) {
    static struct caught caught;
    struct row rows[] = {drafts_row(true), drafts_row(false)};
    rows_caught(&config_md, &plain, rows, 2, &caught);
    assert_null(strchr(caught.out, '\033'));
    struct row again[] = {drafts_row(true), drafts_row(false)};
    rows_caught(&config_md, &coloured, again, 2, &caught);
    assert_int_equal(occurrences(caught.out, term_red(true)), 1);
    const char *differs = strstr(caught.out, "DIFFERS"), *red = strstr(caught.out, term_red(true));
    assert_true(differs && red && red < differs);
    assert_null(memchr(red, '\n', (size_t)(differs - red)));       // of that line alone
    assert_int_equal(occurrences(caught.out, term_bold(true)), 1); // the title
    struct row row = steps_row("tg4");
    rows_caught(&config_md, &coloured, &row, 1, &caught);
    assert_int_equal(occurrences(caught.out, term_bold(true)), 12 + 1); // the heads and the rate
}

// ---------------------------------------------------------------- JSON, CSV and SQL

CASE(test_json_has_every_key_of_its_table) {
    static struct caught caught;
    struct bench_config config = config_md;
    config.output = "json";
    struct row rows[] = {steps_row("tg4"), steps_row("tg8")};
    rows_caught(&config, &plain, rows, 2, &caught);
    json_t *list = json_loads(caught.out, 0, NULL);
    assert_int_equal(json_array_size(list), 2);
    size_t n_keys = 0;
    for (unsigned i = 0; i < COLUMN_COUNT; i++) {
        const struct column *column = column_at(i);
        if (!(column->tables & 1u << TABLE_STEPS)) continue;
        n_keys++;
        for (size_t j = 0; j < 2; j++) row_value(list, j, column->key);
    }
    assert_int_equal(json_object_size(json_array_get(list, 0)), n_keys);
    assert_true(json_is_integer(row_value(list, 0, "avg_ns")));
    assert_true(json_is_integer(json_array_get(row_value(list, 0, "samples_ns"), 0)));
    assert_true(json_is_real(row_value(list, 0, "avg_ts")));
    assert_true(json_is_null(row_value(list, 0, "peer_ts")));
    assert_string_equal(row_string(list, 0, "model_filename"), "a \"b\",c.gguf");
    json_decref(list);
}

CASE(test_stages_are_one_more_key_and_a_table) {
    static struct caught caught;
    for (int json = 0; json < 2; json++) {
        struct bench_config config = config_md;
        config.stages = true;
        if (json) config.output = "json";
        struct row row = steps_row("tg4");
        row.stages = calloc(1, sizeof *row.stages);
        assert_non_null(row.stages);
        *row.stages = (struct tools_stage){.name = "matmul ffn_down", .ns = 300000, .runs = 12};
        row.n_stages = 1;
        row.stages_ns = 1200000;
        row.n_steps = 4;
        rows_caught(&config, &plain, &row, 1, &caught);
        if (json) {
            json_t *list = json_loads(caught.out, 0, NULL);
            const json_t *stage = json_array_get(row_value(list, 0, "stages"), 0);
            assert_int_equal(json_integer_value(json_object_get(stage, "runs")), 12);
            near("share", json_real_value(json_object_get(stage, "share")), 0.25);
            json_decref(list);
            continue;
        }
        assert_non_null(
            strstr(caught.out, "\nllama 20M Q8_0, 2 threads, tg4: 0.300 ms per step\n"));
        assert_non_null(strstr(caught.out, "| matmul ffn_down                          |       "
                                           "3.0 |        75.00 |   25.0% |\n"));
        assert_non_null(strstr(caught.out, "| between stages                           |       "
                                           "1.0 |       225.00 |   75.0% |\n"));
    }
}

// Fields of a line; text between quotes may have commas.
static int fields(const char *line) {
    int n = 1;
    bool quoted = false;
    for (; *line && *line != '\n'; line++) {
        if (*line == '"') quoted = !quoted;
        if (*line == ',' && !quoted) n++;
    }
    return n;
}

CASE(test_csv_has_a_line_of_names_and_as_many_fields) {
    static struct caught caught;
    struct bench_config config = config_md;
    config.output = "csv";
    struct row rows[] = {steps_row("tg4"), steps_row("tg8")};
    rows_caught(&config, &plain, rows, 2, &caught);
    const char *second = strchr(caught.out, '\n') + 1, *third = strchr(second, '\n') + 1;
    assert_int_equal(occurrences(caught.out, "\n"), 3);
    assert_int_equal(strncmp(caught.out, "build_commit,build_number,", 26), 0);
    assert_int_equal(fields(second), fields(caught.out));
    assert_int_equal(fields(third), fields(caught.out));
    assert_non_null(strstr(second, ",\"a \"\"b\"\",c.gguf\","));
    assert_non_null(strstr(second, ",\"[1000000]\","));
}

CASE(test_json_lines_are_objects) {
    static struct caught caught;
    struct bench_config config = config_md;
    config.output = "jsonl";
    struct row rows[] = {steps_row("tg4"), steps_row("tg8")};
    rows_caught(&config, &plain, rows, 2, &caught);
    assert_int_equal(occurrences(caught.out, "\n"), 2);
    json_t *second = json_loads(strchr(caught.out, '\n') + 1, 0, NULL);
    assert_non_null(json_object_get(second, "avg_ts"));
    json_decref(second);
}

CASE(test_sql_quotes_text_and_types_columns) {
    static struct caught caught;
    struct bench_config config = config_md;
    config.output = "sql";
    struct row rows[] = {steps_row("tg4"), steps_row("tg8")};
    row_text(&rows[1], COLUMN_MODEL_FILENAME, "it's.gguf");
    rows_caught(&config, &plain, rows, 2, &caught);
    assert_int_equal(occurrences(caught.out, "\n"), 3);
    assert_int_equal(strncmp(caught.out, "CREATE TABLE IF NOT EXISTS runnel_bench (", 41), 0);
    assert_non_null(strstr(caught.out, ", avg_ns INTEGER, "));
    assert_non_null(strstr(caught.out, ", avg_ts REAL, "));
    assert_non_null(strstr(caught.out, "\nINSERT INTO runnel_bench VALUES ("));
    assert_non_null(strstr(caught.out, ", 'a \"b\",c.gguf', "));
    assert_non_null(strstr(caught.out, ", 'it''s.gguf', "));
    assert_non_null(strstr(caught.out, ", '[1000000]', "));
}

TEST_PROGRAM(bench_print) { return cases_run(NULL, NULL); }
