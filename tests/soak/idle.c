// The cost of /health while many connections are idle and some streams run: a table.
//   idle RUNNEL [CONNECTIONS [STREAMS [REQUESTS]]]     by default 10,000, 32 and 1,000
// Exit status 1 when a request for /health failed. Times are not judged.
#include <pthread.h>
#include <stdatomic.h>

#include "process.h"

enum { STREAMS_MAX = 256, REQUESTS_MAX = 100000 };

// Streams that start again when they end, read by a thread of their own until it is told to stop.
struct streams {
    const struct process *process;
    int n;
    atomic_bool stop;
    atomic_long bytes, ended;
};

static int stream_open(const struct process *process) {
    static const char body[] =
        "{\"prompt\":\"Once upon a time\",\"stream\":true,\"ignore_eos\":true,\"max_tokens\":900}";
    char request[512];
    snprintf(request, sizeof request,
             "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             sizeof body - 1, body);
    const int fd = connection_open(process);
    if (fd < 0 || !connection_send(fd, request)) die("a stream");
    return fd;
}

static void *streams_read(void *argument) {
    struct streams *streams = argument;
    struct pollfd wait[STREAMS_MAX];
    char bytes[65536];
    for (int i = 0; i < streams->n; i++) {
        wait[i] = (struct pollfd){.fd = stream_open(streams->process), .events = POLLIN};
    }
    while (!streams->stop) {
        poll(wait, (nfds_t)streams->n, 100);
        for (int i = 0; i < streams->n; i++) {
            if (!wait[i].revents) continue;
            const ssize_t n = recv(wait[i].fd, bytes, sizeof bytes, 0);
            if (n > 0) {
                streams->bytes += n;
                continue;
            }
            close(wait[i].fd);
            streams->ended++;
            wait[i].fd = stream_open(streams->process);
        }
    }
    for (int i = 0; i < streams->n; i++) close(wait[i].fd);
    return NULL;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Asks for /health, on one connection or each time on a new one; prints a row. How many failed.
static int measure(const struct process *process, const char *when, bool kept, int n) {
    double *ms = calloc((size_t)n, sizeof *ms);
    char text[4096];
    int fd = kept ? connection_open(process) : -1, failed = 0;
    if (!ms) die("memory");
    for (int i = 0; i < n; i++) {
        const double sent = now_s();
        if (!kept) fd = connection_open(process);
        const bool ok = connection_get(fd, "/health", text, sizeof text);
        ms[i] = (now_s() - sent) * 1e3;
        failed += !ok;
        if (!kept && fd >= 0) close(fd);
        if (failed > 3) n = i + 1; // each costs all of the patience
        sleep_ms(1);               // so that the requests meet the streams in all states
    }
    if (kept && fd >= 0) close(fd);
    qsort(ms, (size_t)n, sizeof *ms, compare);
    printf("%-26s %-5s %8d %7d %8.2f %8.2f %8.2f\n", when, kept ? "kept" : "new", n, failed,
           ms[n / 2], ms[n * 99L / 100], ms[n - 1]);
    fflush(stdout);
    free(ms);
    return failed;
}

// Each has asked once and is kept. How many could not be opened.
static int idle_open(const struct process *process, int *fd, int n) {
    char text[4096];
    int failed = 0;
    for (int i = 0; i < n && failed < 3; i++) {
        fd[i] = connection_open(process);
        failed += !connection_get(fd[i], "/health", text, sizeof text);
    }
    return failed;
}

int main(int argc, char **argv) {
    static const char *const options[] = {"--max-connections", "12000", "--idle-timeout", "3600",
                                          NULL};
    if (argc < 2 || argc > 5) {
        fprintf(stderr, "usage: idle RUNNEL [CONNECTIONS [STREAMS [REQUESTS]]]\n");
        return 2;
    }
    const int n = argc > 2 ? atoi(argv[2]) : 10000;
    const int n_streams = argc > 3 ? atoi(argv[3]) : 32, requests = argc > 4 ? atoi(argv[4]) : 1000;
    if (n < 1 || n > 11900 || n_streams < 1 || n_streams > STREAMS_MAX) return 2;
    if (requests < 1 || requests > REQUESTS_MAX) return 2;
    descriptors_raise(16384);
    const struct process process = process_start(argv[1], options);
    int *fd = calloc((size_t)n, sizeof *fd), failed = 0;
    if (!fd) die("memory");

    printf("%-26s %-5s %8s %7s %8s %8s %8s\n", "/health", "conn.", "requests", "failed", "p50 ms",
           "p99 ms", "max ms");
    failed += measure(&process, "alone", true, requests);
    failed += measure(&process, "alone", false, requests);
    const double before_mb = process_rss_mb(&process), start = now_s();
    failed += idle_open(&process, fd, n);
    const double opened_s = now_s() - start, after_mb = process_rss_mb(&process);
    char when[64];
    snprintf(when, sizeof when, "%d idle", n);
    failed += measure(&process, when, true, requests);
    failed += measure(&process, when, false, requests);
    struct streams streams = {.process = &process, .n = n_streams};
    pthread_t reader;
    if (pthread_create(&reader, NULL, streams_read, &streams)) die("a thread");
    sleep_ms(1000);
    snprintf(when, sizeof when, "%d idle, %d streams", n, n_streams);
    failed += measure(&process, when, true, requests);
    failed += measure(&process, when, false, requests);
    const double running_mb = process_rss_mb(&process);
    const int descriptors = process_descriptors(&process);
    streams.stop = true;
    pthread_join(reader, NULL);
    printf("%d connections opened in %.1f s; %d descriptors\n", n, opened_s, descriptors);
    printf("RSS %.1f MB before, %.1f MB with them (%.2f KB each), %.1f MB with streams\n",
           before_mb, after_mb, (after_mb - before_mb) * 1024 / n, running_mb);
    printf("streams: %.1f MB read, %ld ended whole\n", (double)streams.bytes / 1e6,
           (long)streams.ended);
    for (int i = 0; i < n; i++) {
        if (fd[i] > 0) close(fd[i]);
    }
    const int status = process_stop(&process);
    if (failed) printf("FAILED: %d requests got no 200 in %d s\n", failed, PATIENCE_MS / 1000);
    if (status) printf("FAILED: the server ended with %d\n", status);
    free(fd);
    return failed || status ? 1 : 0;
}
