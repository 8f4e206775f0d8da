// The cost of serving over the bare engine: the same requests, once through the library in this
// process and once through `runnel serve` by HTTP on loopback, in turn. A table, run by hand:
//   bench_serve RUNNEL MODEL|- STREAMS PROMPT_TOKENS OUTPUT_TOKENS [ROUNDS]
// MODEL -: the model inside the program (and models/tale-20m-q8_0.gguf for the library). MODEL
// port:N: the server that listens there with OpenAI's completions, alone. All streams start at
// once; a round's figure is its whole time over the tokens that it made.
#include <arpa/inet.h>
#include <assert.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runnel.h"

enum { STREAMS_MAX = 1024, GAPS_MAX = 1 << 22, ROUNDS_MAX = 100 };

struct plan {
    const char *program, *model;
    int streams, n_prompt, n_output, rounds;
};

struct result {
    double seconds;
    int tokens, failed;
    int n_gaps;
    double *gap_ms; // [n_gaps]
    double ttft_ms; // the mean
};

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what) {
    fprintf(stderr, "bench_serve: %s\n", what);
    exit(1);
}

static int32_t prompt_id(int stream, int at) { return 300 + (stream * 131 + at * 17) % 3000; }

static void token_note(struct result *result, double *last, double start, double now) {
    result->tokens++;
    if (*last > 0) {
        if (result->n_gaps < GAPS_MAX) result->gap_ms[result->n_gaps++] = (now - *last) * 1e3;
    } else {
        result->ttft_ms += (now - start) * 1e3;
    }
    *last = now;
}

// ---------------------------------------------------------------- the library

static void engine_round(rn_engine *engine, const struct plan *plan, struct result *result) {
    static double last[STREAMS_MAX];
    int32_t *ids = malloc((size_t)plan->n_prompt * sizeof *ids);
    const double start = now_s();
    for (int s = 0; s < plan->streams; s++) {
        for (int i = 0; i < plan->n_prompt; i++) ids[i] = prompt_id(s, i);
        last[s] = 0;
        const rn_request request = {.prompt = ids,
                                    .n_prompt = (size_t)plan->n_prompt,
                                    .data = &last[s],
                                    .max_tokens = plan->n_output,
                                    .ignore_eos = true};
        if (rn_engine_submit(engine, &request, &(uint64_t){0}, NULL)) die("submit failed");
    }
    for (int live = plan->streams; live > 0;) {
        rn_event event[64];
        const int n = rn_engine_wait(engine, event, 64, -1);
        const double now = now_s();
        for (int i = 0; i < n; i++) {
            if (event[i].token >= 0) token_note(result, event[i].data, start, now);
            if (event[i].finish) live--;
        }
    }
    result->seconds = now_s() - start;
    rn_engine_forget_prefixes(engine);
    free(ids);
}

// ---------------------------------------------------------------- the server

static int server_start(const struct plan *plan, pid_t *pid) {
    int out[2];
    if (pipe(out)) die("pipe");
    char streams[16], waiting[16];
    snprintf(streams, sizeof streams, "%d", plan->streams);
    snprintf(waiting, sizeof waiting, "%d", plan->streams);
    *pid = fork();
    if (*pid == 0) {
        dup2(out[1], STDERR_FILENO);
        close(out[0]);
        const bool embedded = !strcmp(plan->model, "-");
        execl(plan->program, "runnel", "serve", "--port", "0", "--max-seqs", streams,
              "--max-waiting", waiting, "--no-prefix-cache", embedded ? NULL : "-m", plan->model,
              NULL);
        _exit(127);
    }
    close(out[1]);
    FILE *lines = fdopen(out[0], "r");
    char line[512];
    while (fgets(line, sizeof line, lines)) {
        const char *port = strstr(line, "ready at http://127.0.0.1:");
        if (port) return atoi(port + strlen("ready at http://127.0.0.1:"));
    }
    die("the server did not start");
    return 0;
}

struct client {
    int fd;
    double last;
    bool done;
    char tail[24]; // of the bytes before, where a mark may be cut
    size_t tail_len;
};

static char *request_text(const struct plan *plan, int stream, size_t *len) {
    const size_t room = 512 + (size_t)plan->n_prompt * 8;
    char *text = malloc(2 * room), *body = text + room;
    size_t at = (size_t)snprintf(body, room, "{\"prompt\":[");
    for (int i = 0; i < plan->n_prompt; i++) {
        at += (size_t)snprintf(body + at, room - at, "%s%d", i ? "," : "", prompt_id(stream, i));
    }
    at += (size_t)
        snprintf(body + at, room - at,
                 "],\"max_tokens\":%d,\"temperature\":0,\"ignore_eos\":true,\"stream\":true}",
                 plan->n_output);
    const int head = snprintf(text, room,
                              "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                              "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                              at);
    memmove(text + head, body, at);
    *len = (size_t)head + at;
    return text;
}

// Tokens are chunks with a text and no finish; the end is [DONE].
static void client_read(struct client *client, struct result *result, double start) {
    static const char text_mark[] = "\"finish_reason\":null", end_mark[] = "[DONE]";
    static char buffer[1 << 16];
    memcpy(buffer, client->tail, client->tail_len);
    const ssize_t n = read(client->fd, buffer + client->tail_len, sizeof buffer - client->tail_len);
    if (n <= 0) {
        client->done = true;
        result->failed++;
        return;
    }
    const double now = now_s();
    const size_t len = client->tail_len + (size_t)n;
    const char *at = buffer, *end = buffer + len, *found;
    while ((found = memmem(at, (size_t)(end - at), text_mark, sizeof text_mark - 1))) {
        token_note(result, &client->last, start, now);
        at = found + sizeof text_mark - 1;
    }
    if (memmem(at, (size_t)(end - at), end_mark, sizeof end_mark - 1)) client->done = true;
    client->tail_len = (size_t)(end - at) < 19 ? (size_t)(end - at) : 19;
    memcpy(client->tail, end - client->tail_len, client->tail_len);
}

static int client_connect(int port) {
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof to)) die("connect failed");
    return fd;
}

static void server_round(int port, const struct plan *plan, struct result *result) {
    static struct client client[STREAMS_MAX];
    const int poll_fd = epoll_create1(0);
    char *text[STREAMS_MAX];
    size_t len[STREAMS_MAX];
    for (int s = 0; s < plan->streams; s++) {
        client[s] = (struct client){.fd = client_connect(port)};
        text[s] = request_text(plan, s, &len[s]);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &client[s]};
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, client[s].fd, &event);
    }
    const double start = now_s();
    for (int s = 0; s < plan->streams; s++) {
        if (write(client[s].fd, text[s], len[s]) != (ssize_t)len[s]) die("write failed");
        free(text[s]);
    }
    for (int live = plan->streams; live > 0;) {
        struct epoll_event event[64];
        const int n = epoll_wait(poll_fd, event, 64, -1);
        for (int i = 0; i < n; i++) {
            struct client *from = event[i].data.ptr;
            if (from->done) continue;
            client_read(from, result, start);
            if (from->done) {
                epoll_ctl(poll_fd, EPOLL_CTL_DEL, from->fd, NULL);
                live--;
            }
        }
    }
    result->seconds = now_s() - start;
    for (int s = 0; s < plan->streams; s++) close(client[s].fd);
    close(poll_fd);
}

// ---------------------------------------------------------------- the table

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(struct result *result, double share) {
    if (!result->n_gaps) return 0;
    qsort(result->gap_ms, (size_t)result->n_gaps, sizeof *result->gap_ms, by_value);
    return result->gap_ms[(size_t)(share * (double)(result->n_gaps - 1))];
}

static double row_print(const char *name, const struct plan *plan, struct result *result) {
    const double us = result->seconds * 1e6 / (result->tokens ? result->tokens : 1);
    printf("| %-6s | %7d | %9.1f | %8.2f | %8.2f | %8.2f | %8.2f | %6d |\n", name, result->tokens,
           1e6 / us, us, result->ttft_ms / plan->streams, percentile(result, 0.5),
           percentile(result, 0.99), result->failed);
    fflush(stdout);
    return us;
}

static void round_clear(struct result *result) {
    double *gaps = result->gap_ms;
    *result = (struct result){.gap_ms = gaps};
}

static double median(double *value, int n) {
    qsort(value, (size_t)n, sizeof *value, by_value);
    return value[n / 2];
}

static void table_begin(void) {
    printf(
        "| way    | tokens  | tokens/s  | us/token | TTFT ms  | gap p50  | gap p99  | failed |\n"
        "| ------ | ------- | --------- | -------- | -------- | -------- | -------- | ------ |\n");
}

static int foreign(const struct plan *plan, struct result *result) {
    table_begin();
    for (int i = 0; i < plan->rounds; i++) {
        round_clear(result);
        server_round(atoi(plan->model + strlen("port:")), plan, result);
        row_print("server", plan, result);
    }
    return 0;
}

static int compare(const struct plan *plan, struct result *result) {
    const char *path = strcmp(plan->model, "-") ? plan->model : MODELS_DIR "/tale-20m-q8_0.gguf";
    rn_model *model;
    rn_engine *engine;
    rn_error err;
    const rn_engine_options options = {.max_seqs = plan->streams, .no_prefix_cache = true};
    if (rn_model_open(path, &model, &err) || rn_engine_create(model, &options, &engine, &err) ||
        rn_engine_start(engine, &err))
        die(err.message);
    pid_t server;
    const int port = server_start(plan, &server);
    double bare[ROUNDS_MAX], served[ROUNDS_MAX];
    table_begin();
    for (int i = 0; i < plan->rounds; i++) {
        round_clear(result);
        engine_round(engine, plan, result);
        bare[i] = row_print("engine", plan, result);
        round_clear(result);
        server_round(port, plan, result);
        served[i] = row_print("server", plan, result);
    }
    const double a = median(bare, plan->rounds), b = median(served, plan->rounds);
    printf("\nmedian: engine %.2f us/token, server %.2f: %+.1f%%\n", a, b, (b / a - 1) * 100);
    kill(server, SIGTERM);
    int status;
    waitpid(server, &status, 0);
    rn_engine_stop(engine, false);
    rn_engine_destroy(engine);
    rn_model_close(model);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc < 6) die("usage: bench_serve RUNNEL MODEL|-|port:N STREAMS PROMPT OUTPUT [ROUNDS]");
    struct plan plan = {argv[1], argv[2], atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), 3};
    if (argc > 6) plan.rounds = atoi(argv[6]);
    if (plan.streams < 1 || plan.streams > STREAMS_MAX || plan.rounds < 1 ||
        plan.rounds > ROUNDS_MAX)
        die("streams are 1 to 1024, rounds 1 to 100");
    struct result result = {.gap_ms = malloc(GAPS_MAX * sizeof(double))};
    const int code =
        strncmp(plan.model, "port:", 5) ? compare(&plan, &result) : foreign(&plan, &result);
    free(result.gap_ms);
    return code;
}
