// The experience of clients under overload: N clients at once, each with a stream of its own, far
// more than there are places. A table, run by hand:
//   bench_overload RUNNEL MODEL|- CLIENTS OUTPUT_TOKENS [SEQS WAITING]
// MODEL -: the model inside the program. Times are from the last byte sent to the first received.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct plan {
    const char *program, *model, *output, *seqs, *waiting;
    int clients;
};

struct client {
    int fd, status;
    double sent, first, last; // seconds
    bool whole;               // its last bytes were the end of a stream
    char tail[16];
};

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what) {
    fprintf(stderr, "bench_overload: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int server_start(const struct plan *plan, pid_t *pid) {
    int out[2];
    if (pipe(out)) die("pipe");
    *pid = fork();
    if (*pid == 0) {
        dup2(out[1], STDERR_FILENO);
        const bool embedded = !strcmp(plan->model, "-");
        execl(plan->program, "runnel", "serve", "--port", "0", "--max-seqs", plan->seqs,
              "--max-waiting", plan->waiting, "--max-connections", "16384", embedded ? NULL : "-m",
              plan->model, NULL);
        _exit(127);
    }
    close(out[1]);
    FILE *lines = fdopen(out[0], "r");
    char line[512];
    while (lines && fgets(line, sizeof line, lines)) {
        static const char ready[] = "ready at http://127.0.0.1:";
        const char *port = strstr(line, ready);
        if (port) return atoi(port + sizeof ready - 1);
    }
    die("the server did not start");
    return 0;
}

static long rss_kb(pid_t pid) {
    char path[64], line[256];
    long kb = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld", &kb) == 1) break;
    if (file) fclose(file);
    return kb;
}

static void client_open(struct client *client, int port, int epoll) {
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *client = (struct client){.fd = socket(AF_INET, SOCK_STREAM, 0)};
    if (client->fd < 0) die("socket");
    if (connect(client->fd, (const struct sockaddr *)&address, sizeof address)) die("connect");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    epoll_ctl(epoll, EPOLL_CTL_ADD, client->fd, &event);
}

static void client_send(struct client *client, const char *output) {
    char body[256], text[512];
    const int n = snprintf(body, sizeof body,
                           "{\"prompt\":\"Once upon a time\",\"max_tokens\":%s,\"ignore_eos\":true,"
                           "\"stream\":true}",
                           output);
    const int len = snprintf(text, sizeof text,
                             "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                             "Connection: close\r\nContent-Length: %d\r\n\r\n%s",
                             n, body);
    if (send(client->fd, text, (size_t)len, MSG_NOSIGNAL) != len) die("send");
    client->sent = now_s();
}

// False: it was the end.
static bool client_receive(struct client *client) {
    char data[16384];
    const ssize_t n = recv(client->fd, data, sizeof data - 1, 0);
    if (n <= 0) {
        client->last = now_s();
        client->whole = !memcmp(client->tail + sizeof client->tail - 5, "0\r\n\r\n", 5);
        close(client->fd);
        return false;
    }
    data[n] = '\0';
    if (!client->first) {
        client->first = now_s();
        if (sscanf(data, "HTTP/1.1 %d", &client->status) != 1) client->status = -1;
    }
    const size_t kept = sizeof client->tail, got = (size_t)n;
    if (got >= kept) {
        memcpy(client->tail, data + got - kept, kept);
    } else {
        memmove(client->tail, client->tail + got, kept - got);
        memcpy(client->tail + kept - got, data, got);
    }
    return true;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const struct client *client, int n, long before_kb, long after_kb) {
    double *refusal = calloc((size_t)n, sizeof *refusal);
    int n_refused = 0, n_served = 0, n_whole = 0, n_other = 0;
    for (int i = 0; i < n; i++) {
        if (client[i].status == 429) {
            refusal[n_refused++] = (client[i].first - client[i].sent) * 1e3;
        } else if (client[i].status == 200) {
            n_served++;
            n_whole += client[i].whole;
        } else {
            n_other++;
        }
    }
    qsort(refusal, (size_t)n_refused, sizeof *refusal, compare);
    printf("%d clients: %d served, of these %d whole; %d refused; %d other\n", n, n_served, n_whole,
           n_refused, n_other);
    if (n_refused) {
        printf("time to 429: p50 %.1f ms, p99 %.1f ms, max %.1f ms\n", refusal[n_refused / 2],
               refusal[n_refused * 99 / 100], refusal[n_refused - 1]);
    }
    printf("RSS: %.1f MB before, %.1f MB after\n", (double)before_kb / 1e3, (double)after_kb / 1e3);
    free(refusal);
}

int main(int argc, char **argv) {
    if (argc != 5 && argc != 7) {
        fprintf(stderr, "usage: bench_overload RUNNEL MODEL|- CLIENTS TOKENS [SEQS WAITING]\n");
        return 2;
    }
    const struct plan plan = {.program = argv[1],
                              .model = argv[2],
                              .clients = atoi(argv[3]),
                              .output = argv[4],
                              .seqs = argc > 5 ? argv[5] : "16",
                              .waiting = argc > 5 ? argv[6] : "16"};
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){32768, 32768});
    pid_t pid;
    const int port = server_start(&plan, &pid), epoll = epoll_create1(0);
    struct client *client = calloc((size_t)plan.clients, sizeof *client);
    for (int i = 0; i < plan.clients; i++) client_open(&client[i], port, epoll);
    const long before_kb = rss_kb(pid);
    for (int i = 0; i < plan.clients; i++) client_send(&client[i], plan.output);
    for (int live = plan.clients; live > 0;) {
        struct epoll_event event[64];
        const int n = epoll_wait(epoll, event, 64, 60000);
        if (n <= 0) die("nothing came for a minute");
        for (int i = 0; i < n; i++) live -= !client_receive(event[i].data.ptr);
    }
    report(client, plan.clients, before_kb, rss_kb(pid));
    kill(pid, SIGTERM);
    int status = 0;
    waitpid(pid, &status, 0);
    printf("the server ended with %d\n", WEXITSTATUS(status));
    free(client);
    return 0;
}
