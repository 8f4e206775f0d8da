// The peer of `runnel bench`: its arguments, its figures, and peers that fail. The peers
// are scripts in a folder of their own.
#include <sys/stat.h>

#include "bench_world.h"

static char folder[] = "/tmp/rn-peer-XXXXXX";

static void script_write(const char *name, const char *text) {
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s", text);
    fclose(file);
    assert_int_equal(chmod(name, 0700), 0);
}

static int folder_enter(void **state) {
    if (!mkdtemp(folder) || chdir(folder)) return 1;
    script_write("peer",
                 "echo \"$@\" >>calls\n"
                 "n=$(wc -l <calls)\n"
                 "echo 'a line for people' >&2\n"
                 "echo '[{\"build_commit\": \"abc\", \"n_prompt\": 0, \"avg_ts\": '$((n * n))'.5, "
                 "\"samples_ts\": [1]}]'\n");
    script_write("failing", "echo 'no such model' >&2\nexit 3\n");
    script_write("talking", "echo 'not json'\n");
    script_write("silent", "echo '[{}]'\n");
    return environment_clean(state);
}

static int folder_leave(void **state) {
    static const char *const names[] = {"peer", "failing", "talking", "silent", "calls"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(names[i]);
    return chdir("/") || rmdir(folder);
}

// Reads and removes the file of calls.
static void calls_read(char *out, size_t size) {
    FILE *file = fopen("calls", "r");
    assert_non_null(file);
    out[fread(out, 1, size - 1, file)] = '\0';
    fclose(file);
    unlink("calls");
}

CASE(test_a_peer_runs_after_each_repetition) {
    static const char call[] = "-m " SMALL " -t 1 -p 0 -n 2 -r 1 -o json -rtr 1\n";
    char calls[2048], wanted[2048];
    json_t *rows =
        bench_rows("-m " SMALL " -p 0 -n 2 -r 3 -t 1 --peer ./peer --peer-args '-rtr 1'");
    calls_read(calls, sizeof calls);
    snprintf(wanted, sizeof wanted, "%s%s%s", call, call, call);
    assert_string_equal(calls, wanted);
    const json_t *samples = row_value(rows, 0, "peer_samples_ts");
    for (int i = 0; i < 3; i++)
        near("its samples", json_number_value(json_array_get(samples, (size_t)i)),
             (i + 1) * (i + 1) + 0.5);
    near("its median", row_number(rows, 0, "peer_ts"), 4.5);
    assert_string_equal(row_string(rows, 0, "peer_name"), "peer abc");
    json_decref(rows);
}

CASE(test_a_peer_gets_the_same_depth_and_type) {
    static struct caught caught;
    char calls[2048];
    bench_ran("-m " SMALL " -p 4 -n 2 -d 16 -r 1 --streams 1,2 --verify 2 --peer ./peer "
              "--kv-type int8",
              &caught);
    calls_read(calls, sizeof calls);
    assert_int_equal(occurrences(calls, "\n"), 2); // neither streams nor drafts
    assert_non_null(strstr(calls, " -p 4 -n 0 -d 16 -ctk q8_0 -ctv q8_0 -r 1 "));
    assert_non_null(strstr(caught.out, "|  peer t/s |  ratio |\n"));
    const char *streams = strstr(caught.out, "|    tg2 x2 @ d16 |");
    assert_non_null(streams);
    const char *end = strchr(streams, '\n');
    assert_int_equal(strncmp(end - 22, "|           |        |", 22), 0);
}

CASE(test_a_peer_gets_a_prompt_and_decoding_together) {
    char calls[2048];
    json_decref(bench_rows("-m " SMALL " -p 0 -n 0 -pg 4,2 -r 1 -t 1 --peer ./peer"));
    calls_read(calls, sizeof calls);
    assert_string_equal(calls, "-m " SMALL " -t 1 -p 0 -n 0 -pg 4,2 -r 1 -o json\n");
}

CASE(test_peers_that_fail) {
#define ON_SMALL "-m " SMALL " -p 0 -n 1 -r 1 --peer "
    bench_failed(ON_SMALL "/nonexistent/peer", APP_USAGE, "--peer: '/nonexistent/peer': No such");
    bench_failed(ON_SMALL "./failing", APP_FAILED, "failing: ended with status 3: no such model");
    bench_failed(ON_SMALL "./talking", APP_FAILED, "talking: its output is not JSON");
    bench_failed(ON_SMALL "./silent", APP_FAILED, "silent: its output has no avg_ts");
}

TEST_PROGRAM(bench_peer) { return cases_run(folder_enter, folder_leave); }
