// The program's own server as a child process: `runnel serve --port 0`. It dies with this process,
// and Ctrl-C is for this process alone, which stops the server when it has printed its figures.
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "load/target.h"

enum { ARGS_MAX = 64, ARGS_SIZE = 4096, POLL_MS = 10, PATIENCE_MS = 5000 };

static void pause_ms(int ms) {
    const struct timespec pause = {.tv_nsec = ms * 1000000l};
    nanosleep(&pause, NULL);
}

// Behind the fork: only calls that are safe there.
static void child_run(char **argv, int err_fd, pid_t parent) {
    const int null = open("/dev/null", O_RDWR);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1); // it ended meanwhile
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(err_fd, STDERR_FILENO);
    execv("/proc/self/exe", argv);
    _exit(127);
}

static int argv_make(const char *model, char *words, char *argv[ARGS_MAX + 1]) {
    static const char *const first[] = {"runnel", "serve", "--host", "127.0.0.1",
                                        "--port", "0",     "-q"};
    int argc = 0;
    char *rest = NULL;
    for (; argc < (int)(sizeof first / sizeof *first); argc++)
        argv[argc] = (char *)(uintptr_t)first[argc];
    if (model) {
        argv[argc++] = (char *)(uintptr_t) "-m";
        argv[argc++] = (char *)(uintptr_t)model;
    }
    for (char *word = strtok_r(words, " \t\n", &rest); word;
         word = strtok_r(NULL, " \t\n", &rest)) {
        if (argc == ARGS_MAX)
            return app_fail(APP_USAGE, "the own server: more than %d options", ARGS_MAX);
        argv[argc++] = word;
    }
    argv[argc] = NULL;
    return APP_OK;
}

// The last of its messages without the program's name, else its last line. Lines of advice may
// follow a message.
static void message_find(FILE *err, char *out, size_t size) {
    char line[512];
    bool has_message = false;
    snprintf(out, size, "no message");
    rewind(err);
    while (fgets(line, sizeof line, err)) {
        line[strcspn(line, "\n")] = '\0';
        const bool is_message = !strncmp(line, "runnel: ", 8);
        const char *text = is_message ? line + 8 : line;
        if (!*text || (has_message && !is_message)) continue;
        has_message = is_message;
        snprintf(out, size, "%.*s", (int)size - 1, text);
    }
}

// Whether a complete line says where it is ready.
static bool ready_find(FILE *err, char *url, size_t url_size) {
    static const char mark[] = " is ready at ";
    char line[512];
    rewind(err);
    while (fgets(line, sizeof line, err)) {
        const char *at = strstr(line, mark);
        if (!at || !strchr(line, '\n')) continue;
        at += sizeof mark - 1;
        snprintf(url, url_size, "%.*s", (int)strcspn(at, " \n"), at);
        return true;
    }
    return false;
}

// Loading may take long, so the only ends are a server that is ready, and one that has ended.
// Ctrl-C ends this process, and the child with it.
static int ready_wait(pid_t pid, FILE *err, char *url, size_t url_size) {
    for (;;) {
        int status;
        if (ready_find(err, url, url_size)) return APP_OK;
        if (waitpid(pid, &status, WNOHANG) == pid) {
            char line[400];
            message_find(err, line, sizeof line);
            const bool usage = WIFEXITED(status) && WEXITSTATUS(status) == APP_USAGE;
            return app_fail(usage ? APP_USAGE : APP_FAILED, "the own server: %s", line);
        }
        pause_ms(POLL_MS);
    }
}

int child_start(const char *model, const char *args, const char *more, pid_t *pid, char *url,
                size_t url_size) {
    char words[ARGS_SIZE], *argv[ARGS_MAX + 1];
    *pid = 0;
    if (snprintf(words, sizeof words, "%s %s", args ? args : "", more ? more : "") >=
        (int)sizeof words)
        return app_fail(APP_USAGE, "the own server: its options have more than %d bytes",
                        ARGS_SIZE);
    const int code = argv_make(model, words, argv);
    if (code) return code;
    // they are this command's: a trace that is read here would be written there
    unsetenv("RUNNEL_TRACE");
    unsetenv("RUNNEL_CONFIG");
    FILE *err = tmpfile();
    if (!err) return app_fail(APP_FAILED, "a temporary file: %s", strerror(errno));
    const pid_t parent = getpid(), child = fork();
    if (child == 0) child_run(argv, fileno(err), parent);
    const int result = child < 0 ? app_fail(APP_FAILED, "the own server: %s", strerror(errno))
                                 : ready_wait(child, err, url, url_size);
    if (result == APP_OK) *pid = child;
    fclose(err);
    return result;
}

void child_stop(pid_t pid) {
    kill(pid, SIGTERM);
    for (int waited = 0; waitpid(pid, NULL, WNOHANG) == 0; waited += POLL_MS) {
        if (waited >= PATIENCE_MS) kill(pid, SIGKILL);
        pause_ms(POLL_MS);
    }
}
