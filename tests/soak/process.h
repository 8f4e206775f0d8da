// A server that a program starts for itself on a free port of the loopback, the kernel's figures of
// its process, and connections to it. Every wait is bounded; a fatal fault ends the program.
#ifndef RN_TESTS_SOAK_PROCESS_H
#define RN_TESTS_SOAK_PROCESS_H

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 10000 };

struct process {
    pid_t pid;
    int port;
};

static inline double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void sleep_ms(int ms) {
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

static inline _Noreturn void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "failed");
    exit(1);
}

// As many descriptors as the machine gives; ends the program when these are fewer than it needs.
static inline void descriptors_raise(unsigned long needed) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < needed) {
        limit.rlim_max = needed; // root may
        limit.rlim_cur = needed;
        if (setrlimit(RLIMIT_NOFILE, &limit)) die("the limit of descriptors is too low");
    }
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

// option: further arguments, at most 16, and NULL. The server ends with the program.
static inline struct process process_start(const char *program, const char *const *option) {
    const char *argument[32] = {"runnel", "serve", "--port", "0", "-q"};
    int n = 5, out[2];
    while (*option && n < 22) argument[n++] = *option++;
    if (pipe(out)) die("pipe");
    struct process process = {.pid = fork()};
    if (process.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], STDERR_FILENO);
        close(out[0]);
        close(out[1]);
        execv(program, (char *const *)(uintptr_t)argument);
        _exit(127);
    }
    close(out[1]);
    FILE *lines = fdopen(out[0], "r");
    char line[512];
    while (lines && fgets(line, sizeof line, lines)) {
        static const char ready[] = "ready at http://127.0.0.1:";
        const char *port = strstr(line, ready);
        if (!port) continue;
        process.port = atoi(port + sizeof ready - 1);
        return process; // the pipe stays open: the server may write to it
    }
    errno = 0;
    die("the start of the server");
}

// Its exit status; -1: it did not end by itself in a minute.
static inline int process_stop(const struct process *process) {
    kill(process->pid, SIGTERM);
    for (int i = 0, status; i < 600; i++, sleep_ms(100)) {
        if (waitpid(process->pid, &status, WNOHANG) == process->pid) {
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        }
    }
    kill(process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
    return -1;
}

static inline double process_rss_mb(const struct process *process) {
    char path[64], line[256];
    long kb = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)process->pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmRSS: %ld", &kb) == 1) break;
    }
    if (file) fclose(file);
    return (double)kb / 1024;
}

static inline int process_descriptors(const struct process *process) {
    char path[64];
    int n = -2; // "." and ".."
    snprintf(path, sizeof path, "/proc/%d/fd", (int)process->pid);
    DIR *folder = opendir(path);
    if (!folder) die(path);
    while (readdir(folder)) n++;
    closedir(folder);
    return n;
}

// ---------------------------------------------------------------- connections

static inline int connection_open(const struct process *process) {
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)process->port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket");
    if (!connect(fd, (const struct sockaddr *)&address, sizeof address)) return fd;
    close(fd);
    return -1;
}

static inline bool connection_send(int fd, const char *text) {
    const size_t len = strlen(text);
    return send(fd, text, len, MSG_NOSIGNAL) == (ssize_t)len;
}

// GET path on a connection that stays open. The whole answer is in text, which is cut at its size.
// False: no 200 came in time.
static inline bool connection_get(int fd, const char *path, char *text, size_t size) {
    char head[256];
    snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    if (fd < 0 || !connection_send(fd, head)) return false;
    size_t len = 0, whole = 0;
    const double end = now_s() + PATIENCE_MS / 1e3;
    for (struct pollfd wait = {.fd = fd, .events = POLLIN}; now_s() < end;) {
        if (poll(&wait, 1, PATIENCE_MS) <= 0) return false;
        const ssize_t n = recv(fd, text + len, size - 1 - len, 0);
        if (n <= 0) return false;
        len += (size_t)n;
        text[len] = '\0';
        const char *body = strstr(text, "\r\n\r\n");
        const char *length = strcasestr(text, "\r\nContent-Length:");
        if (body && length) {
            whole = (size_t)(body + 4 - text) +
                    strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
        }
        if (whole >= size) die("an answer is larger than expected");
        if (whole && len >= whole) return !strncmp(text, "HTTP/1.1 200 ", 13);
    }
    return false;
}

// The value of a metric in the text of /metrics; -1: it is not there.
static inline double metric_in(const char *text, const char *name) {
    for (const char *at = text; (at = strstr(at, name)); at++) {
        if (at[-1] != '\n') continue;
        const char *value = strpbrk(at, " {\n");
        if (value && *value == '{') value = strstr(value, "} ");
        if (value) return strtod(value + 1 + (*value == '}'), NULL);
    }
    return -1;
}

#endif
