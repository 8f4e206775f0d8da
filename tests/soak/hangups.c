// Streams whose clients hang up after the first bytes, while other clients keep a few connections
// open. Afterwards descriptors, connections and memory of the server must be as before.
//   hangups RUNNEL [HANGUPS [CLIENTS]]     by default 100,000 by 16 clients
// A table; exit status 1 when something is not given back, or the server stops answering.
#include <sys/epoll.h>

#include "process.h"

enum {
    CLIENTS_MAX = 256,
    KEPT = 3,           // connections that live on
    SCRAPE_EVERY = 500, // hang-ups
    WARM = 1000, // hang-ups after which memory is first read; judged where twice as many come
    GROWTH_MB_MAX = 24, // from then on; drafts remember texts up to a bound of their own
    REFUSED_MAX = 1000, // more than hang-ups: the server takes no connection
    QUIET_S = 10,       // in which all must be given back
};

// How a client leaves. A close with unread bytes sends RST, one without sends FIN.
enum way { WAY_CLOSE, WAY_RESET, WAY_HALF, WAYS };

struct client {
    int fd;
    enum way way;
    bool half; // it has said that it sends no more, and reads on until the next bytes
    double since;
};

struct run {
    struct process process;
    int kept[KEPT]; // the first asks for /metrics now and then, the others do nothing more
    int epoll, n_clients;
    long hangups, hangups_max, started, refused;
    struct client client[CLIENTS_MAX];
    char text[1 << 18];
};

struct sample {
    int descriptors;
    double connections, active, rss_mb;
};

static struct sample sample(struct run *run) {
    struct sample now = {.connections = -1, .active = -1};
    if (connection_get(run->kept[0], "/metrics", run->text, sizeof run->text)) {
        now.connections = metric_in(run->text, "runnel:http_connections");
        now.active = metric_in(run->text, "runnel:http_active");
    }
    now.descriptors = process_descriptors(&run->process);
    now.rss_mb = process_rss_mb(&run->process);
    return now;
}

// Of nine, seven ask for a completion and two watch the engine.
static void client_start(struct run *run, struct client *client) {
    static const char watch[] = "GET /engine/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const char body[] =
        "{\"prompt\":\"a\",\"stream\":true,\"ignore_eos\":true,\"max_tokens\":900}";
    char request[256];
    snprintf(request, sizeof request,
             "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
             sizeof body - 1, body);
    const long i = run->started++;
    *client = (struct client){.fd = connection_open(&run->process),
                              .way = (enum way)(i % WAYS),
                              .since = now_s()};
    if (client->fd < 0) die("connect");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    epoll_ctl(run->epoll, EPOLL_CTL_ADD, client->fd, &event);
    if (!connection_send(client->fd, i % 9 == 0 || i % 9 == 4 ? watch : request)) die("send");
}

static void client_leave(struct run *run, struct client *client) {
    if (client->way == WAY_RESET) {
        const struct linger now = {.l_onoff = 1};
        setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    close(client->fd);
    client->fd = -1;
    run->hangups++;
}

// Bytes came: it leaves, or says that it sends no more and leaves with the next ones.
static void client_read(struct run *run, struct client *client) {
    char bytes[16384];
    const ssize_t n = recv(client->fd, bytes, sizeof bytes - 1, 0);
    bytes[n > 0 ? n : 0] = '\0';
    if (!client->half &&
        !strncmp(bytes, "HTTP/1.1 429 ", 13)) { // ended connections are still counted
        close(client->fd);
        client->fd = -1;
        run->started--;
        run->refused++;
        sleep_ms(1);
        return;
    }
    if (!client->half && strncmp(bytes, "HTTP/1.1 200 ", 13)) {
        fprintf(stderr, "hangups: no stream, but: %.300s\n", n > 0 ? bytes : "the end");
        exit(1);
    }
    if (client->way == WAY_HALF && !client->half) {
        client->half = true;
        shutdown(client->fd, SHUT_WR);
        return;
    }
    client_leave(run, client);
}

// False: a client has waited for too long, or most are refused.
static bool hang_up(struct run *run) {
    struct epoll_event event[64];
    if (run->refused > REFUSED_MAX + run->hangups) return false;
    for (int i = 0; i < run->n_clients; i++) {
        struct client *client = &run->client[i];
        if (client->fd < 0 && run->started < run->hangups_max) client_start(run, client);
        if (client->fd < 0 || now_s() - client->since < PATIENCE_MS / 1e3) continue;
        if (!client->half) return false;
        client_leave(run, client); // a half-closed client that is told nothing more
    }
    const int n = epoll_wait(run->epoll, event, 64, 1000);
    for (int i = 0; i < n; i++) client_read(run, event[i].data.ptr);
    return true;
}

static void row(const char *when, long hangups, const struct sample *now) {
    printf("%-10s %9ld %12d %12.0f %8.0f %9.1f\n", when, hangups, now->descriptors,
           now->connections, now->active, now->rss_mb);
    fflush(stdout);
}

static bool is_back(const struct sample *now, const struct sample *before) {
    return now->descriptors <= before->descriptors && now->connections >= 0 &&
           now->connections <= before->connections && now->active == 0;
}

static bool judge(const struct run *run, bool stalled, const struct sample *before,
                  const struct sample *warm, const struct sample *after, int status) {
    const double grown = after->rss_mb - warm->rss_mb;
    bool ok = true;
    if (stalled) ok = false, printf("FAILED: no stream for %d s\n", PATIENCE_MS / 1000);
    if (!is_back(after, before)) ok = false, printf("FAILED: not given back in %d s\n", QUIET_S);
    if (run->hangups_max >= 2 * WARM && grown > GROWTH_MB_MAX) {
        ok = false, printf("FAILED: memory grew by %.1f MB, more than %d\n", grown, GROWTH_MB_MAX);
    }
    if (status) ok = false, printf("FAILED: the server ended with %d\n", status);
    if (ok) {
        printf("%ld hang-ups: descriptors and connections as before, memory %+.1f MB\n",
               run->hangups, grown);
    }
    return ok;
}

int main(int argc, char **argv) {
    static struct run run;
    static const char *const options[] = {"--idle-timeout", "3600", NULL};
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: hangups RUNNEL [HANGUPS [CLIENTS]]\n");
        return 2;
    }
    run.hangups_max = argc > 2 ? atol(argv[2]) : 100000;
    run.n_clients = argc > 3 ? atoi(argv[3]) : 16;
    if (run.n_clients < 1 || run.n_clients > CLIENTS_MAX) return 2;
    run.process = process_start(argv[1], options);
    run.epoll = epoll_create1(EPOLL_CLOEXEC);
    static const char *const path[KEPT] = {"/metrics", "/v1/models", "/health"};
    for (int i = 0; i < KEPT; i++) {
        run.kept[i] = connection_open(&run.process);
        if (!connection_get(run.kept[i], path[i], run.text, sizeof run.text)) die(path[i]);
    }
    for (int i = 0; i < run.n_clients; i++) run.client[i].fd = -1;

    printf("           hang-ups  descriptors  connections   active    RSS MB\n");
    const struct sample before = sample(&run);
    struct sample warm = before, after;
    row("before", 0, &before);
    const double start = now_s();
    double told = start;
    bool stalled = false;
    for (long next = SCRAPE_EVERY; run.hangups < run.hangups_max && !stalled;) {
        stalled = !hang_up(&run);
        if (run.hangups < next) continue;
        after = sample(&run);
        if (next <= WARM) warm = after;
        next += SCRAPE_EVERY;
        if (now_s() - told > 10) row("", run.hangups, &after), told = now_s();
    }
    const double took = now_s() - start;
    for (int i = 0; i < run.n_clients; i++) {
        if (run.client[i].fd >= 0) close(run.client[i].fd);
    }
    after = sample(&run);
    row(stalled ? "stalled" : "last", run.hangups, &after);
    for (const double end = now_s() + QUIET_S; !is_back(&after, &before) && now_s() < end;) {
        sleep_ms(50);
        after = sample(&run);
    }
    row("after", run.hangups, &after);
    printf("%.1f s, %.0f hang-ups/s, %ld refused with 429\n", took, (double)run.hangups / took,
           run.refused);
    for (int i = 0; i < KEPT; i++) close(run.kept[i]);
    return judge(&run, stalled, &before, &warm, &after, process_stop(&run.process)) ? 0 : 1;
}
