// The peer: a llama-bench that runs once per repetition on the same file. Its JSON goes to a
// temporary file, so that this process sleeps while the peer computes.
#define _GNU_SOURCE 1
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"
#include "terminal/interrupt.h"

enum { MAX_ARGS = 64, MAX_WORDS = 4096, POLL_MS = 20, PATIENCE_MS = 1000, PEER_NAME = 96 };

extern char **environ;

// The arguments of a run. Old builds have no -d, so it is given only where there is a depth.
static void words_make(const struct bench_config *config, const struct row *row, char *out,
                       size_t size) {
    const char *const kv = row_text_at(row, COLUMN_TYPE_K),
                      *args = config->peer_args ? config->peer_args : "";
    const char *const type = !strcmp(kv, "int8") ? "q8_0" : !strcmp(kv, "int4") ? "q4_0" : kv;
    const int n_depth = row_whole_at(row, COLUMN_N_DEPTH);
    char depth[32] = "", types[64] = "";
    if (n_depth) snprintf(depth, sizeof depth, " -d %d", n_depth);
    if (strcmp(kv, "f16") != 0) snprintf(types, sizeof types, " -ctk %.16s -ctv %.16s", type, type);
    const int n_prompt = row_whole_at(row, COLUMN_N_PROMPT),
              n_gen = row_whole_at(row, COLUMN_N_GEN);
    char tests[64];
    snprintf(tests, sizeof tests, n_prompt && n_gen ? "-p 0 -n 0 -pg %d,%d" : "-p %d -n %d",
             n_prompt, n_gen);
    snprintf(out, size, "-t %d %s%s%s -r 1 -o json %s", row_whole_at(row, COLUMN_N_THREADS), tests,
             depth, types, args);
}

// The program, its file, and the words, which are cut up.
static void argv_make(const char *peer, const char *file, char *words, char *argv[MAX_ARGS + 1]) {
    const char *const first[] = {peer, "-m", file};
    char *rest = NULL, *word = strtok_r(words, " \t\n", &rest);
    int argc = 0;
    for (; argc < 3; argc++) argv[argc] = (char *)(uintptr_t)first[argc];
    for (; word && argc < MAX_ARGS; word = strtok_r(NULL, " \t\n", &rest)) argv[argc++] = word;
    argv[argc] = NULL;
}

_Static_assert(sizeof(cpu_set_t) == BENCH_MAX_CPUS / 8, "bench_config.cpus is a cpu_set_t");

void peer_prepare(struct bench_config *config) {
    cpu_set_t set;
    config->cpus_known = sched_getaffinity(0, sizeof set, &set) == 0;
    if (config->cpus_known) memcpy(config->cpus, &set, sizeof set);
}

// Its streams go into the two files; standard input is empty. errno's value, or 0.
static int spawn(char **argv, FILE *out, FILE *err, pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE); // ignored here
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0);
    posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(err), STDERR_FILENO);
    const int problem = posix_spawnp(pid, argv[0], &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return problem;
}

// Ctrl-C on a terminal reaches the peer by itself; a signal to this process alone is passed on. A
// peer that ignores it is killed.
static int status_wait(pid_t pid) {
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000l};
    int status = 0, waited_ms = 0; // since the signal was passed on
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (interrupt_seen()) {
            if (waited_ms == 0) kill(pid, SIGTERM);
            if (waited_ms >= PATIENCE_MS) kill(pid, SIGKILL);
            waited_ms += POLL_MS;
        }
        nanosleep(&pause, NULL);
    }
    interrupt_child(0);
    return status;
}

// The last line of its standard error, for a message.
static void last_line(FILE *err, char *out, size_t size) {
    char line[256];
    *out = '\0';
    rewind(err);
    while (fgets(line, sizeof line, err)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0]) snprintf(out, size, "%.*s", (int)size - 1, line);
    }
}

static int fail_status(const char *peer, int status, FILE *err) {
    char line[160];
    if (interrupt_seen()) return APP_INTERRUPTED;
    last_line(err, line, sizeof line);
    const bool killed = WIFSIGNALED(status);
    return app_fail(APP_FAILED, "%s: ended with %s %d%s%s", err_path(peer),
                    killed ? "signal" : "status", killed ? WTERMSIG(status) : WEXITSTATUS(status),
                    line[0] ? ": " : "", line);
}

// "llama-bench b21e4de745".
static void name_set(const char *peer, const json_t *first, struct row *row) {
    char name[PEER_NAME];
    const char *slash = strrchr(peer, '/');
    const char *build = json_string_value(json_object_get(first, "build_commit"));
    snprintf(name, sizeof name, "%s%s%s", slash ? slash + 1 : peer, build ? " " : "",
             build ? build : "");
    row_text(row, COLUMN_PEER_NAME, name);
}

static int output_read(const char *peer, FILE *out, struct row *row, double *ts) {
    json_error_t problem;
    rewind(out);
    json_t *rows = json_loadf(out, 0, &problem);
    const json_t *first = json_is_array(rows) ? json_array_get(rows, 0) : NULL;
    const json_t *rate = json_object_get(first, "avg_ts");
    int code = APP_OK;
    if (!rows) {
        code = app_fail(APP_FAILED, "%s: its output is not JSON: %s", err_path(peer), problem.text);
    } else if (!json_is_number(rate) || !(json_number_value(rate) > 0)) {
        code = app_fail(APP_FAILED, "%s: its output has no avg_ts", err_path(peer));
    } else {
        *ts = json_number_value(rate);
        name_set(peer, first, row);
    }
    json_decref(rows);
    return code;
}

// A child inherits the cores of the thread that starts it, so this one takes all of them meanwhile.
static int spawn_free(const struct bench_config *config, char **argv, FILE *out, FILE *err,
                      pid_t *pid) {
    cpu_set_t all, own;
    memcpy(&all, config->cpus, sizeof all);
    const bool moved = config->cpus_known && sched_getaffinity(0, sizeof own, &own) == 0 &&
                       sched_setaffinity(0, sizeof all, &all) == 0;
    const int problem = spawn(argv, out, err, pid);
    if (moved) sched_setaffinity(0, sizeof own, &own);
    return problem;
}

static int peer_start(const struct bench_config *config, char **argv, FILE *out, FILE *err,
                      struct row *row, double *ts) {
    pid_t pid;
    interrupt_child_starts();
    const int problem = spawn_free(config, argv, out, err, &pid);
    interrupt_child(problem ? 0 : pid);
    if (problem)
        return app_fail(APP_USAGE, "--peer: '%s': %s", app_short(argv[0]).text, strerror(problem));
    const int status = status_wait(pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return fail_status(argv[0], status, err);
    return output_read(argv[0], out, row, ts);
}

int peer_run(const struct bench_config *config, const char *file, struct row *row, double *ts) {
    char words[MAX_WORDS], *argv[MAX_ARGS + 1];
    words_make(config, row, words, sizeof words);
    argv_make(config->peer, file, words, argv);
    FILE *out = tmpfile(), *err = tmpfile();
    const int code = out && err ? peer_start(config, argv, out, err, row, ts)
                                : app_fail(APP_FAILED, "a temporary file: %s", strerror(errno));
    if (out) fclose(out);
    if (err) fclose(err);
    return code;
}
