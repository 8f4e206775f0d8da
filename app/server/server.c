// The I/O thread's loop, and the server's life around it.
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "call.h"
#include "helpers.h"
#include "http.h"
#include "kept.h"
#include "live.h"
#include "loader.h"
#include "metrics.h"
#include "record/trace.h"
#include "requests.h"
#include "served.h"
#include "server_state.h"
#include "streams.h"
#include "turns.h"
#include "waiting.h"

enum { EVENTS = 256, GRACE_MS = 1000, LOST_MS = 5000, BACKLOG = 1024, UNSENT_BYTES = 128 << 10 };

// ---------------------------------------------------------------- the loop

static void drain(struct server *server, int signal_number) {
    server->end_signal = signal_number;
    if (server->config.drain_s > 0) {
        server->drain_until = clock_ns() + (uint64_t)(server->config.drain_s * 1e9);
    }
    atomic_store(&server->phase, PHASE_DRAINING);
    if (server->config.on_drain)
        server->config.on_drain(server->config.signal_ctx, signal_number, server->counts.active);
    waiting_drain(server);
    http_drain(server->http, false);
}

// The engine has ended, with all requests: it lost its device, or a file of the model was written
// to. Only a new engine helps. Their answers get some time to be sent, even to slow readers. A
// server of several models loses only this one.
static void watch_engine(struct server *server, struct served *served) {
    if (server->end_signal == SERVER_LOST || rn_engine_health(served->engine, NULL) == RN_OK)
        return;
    if (served->source) {
        waiting_lost(served);
        return;
    }
    server->end_signal = SERVER_LOST;
    server->drain_until = clock_ns() + LOST_MS * 1000000ull;
    server->drain_late = false;
    atomic_store(&server->phase, PHASE_DRAINING);
    http_drain(server->http, false);
}

static void cut_short(struct server *server) {
    server->cut_short = true;
    http_drain(server->http, true);
}

static bool has_terminal(void) {
    const int fd = open("/dev/tty", O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return false;
    close(fd);
    return true;
}

// A hang-up comes from the kernel, or from a shell that passes its own on.
static bool is_hang_up(const struct server *server, const struct signalfd_siginfo *info) {
    if (info->ssi_signo != SIGHUP || !server->hangs_up) return false;
    return info->ssi_code == SI_KERNEL || !has_terminal();
}

// A reload never ends anything. Neither does a hang-up that finds the server draining.
static bool is_reload(const struct server *server, const struct signalfd_siginfo *info) {
    if (info->ssi_signo != SIGHUP && info->ssi_signo != SIGUSR1) return false;
    return server->end_signal || !is_hang_up(server, info);
}

static void on_signal(struct server *server) {
    const struct server_config *config = &server->config;
    struct signalfd_siginfo info;
    if (read(server->signal_fd, &info, sizeof info) != (ssize_t)sizeof info) return;
    const int number = (int)info.ssi_signo;
    if (is_reload(server, &info)) {
        const bool ready = atomic_load(&server->phase) == PHASE_READY;
        if (config->on_reload) config->on_reload(config->signal_ctx, ready);
    } else if (atomic_load(&server->phase) == PHASE_LOADING) {
        if (config->on_early_signal) config->on_early_signal(config->signal_ctx, number);
    } else if (!server->end_signal) {
        drain(server, number);
    } else {
        cut_short(server);
    }
}

static void on_wake(struct server *server) {
    uint64_t count;
    const ssize_t n = read(server->wake_fd, &count, sizeof count);
    (void)n;
    http_prepared(server->http);
}

// Until the next thing that no event announces; -1: there is none.
static int wait_ms(const struct server *server, uint64_t now, uint64_t due) {
    const int http = http_wait_ms(server->http, now);
    if (!due) return http;
    const uint64_t left_ms = due > now ? (due - now + 999999) / 1000000 : 0;
    const int own = left_ms < INT_MAX ? (int)left_ms : INT_MAX; // a drain may take months
    return http >= 0 && http < own ? http : own;
}

// The model whose engine's events these are; NULL: they are another thing's.
static struct served *served_of(const struct server *server, const void *from) {
    for (int i = 0; i < server->n_served; i++)
        if (from == &server->served[i]) return &server->served[i];
    return NULL;
}

static void handle(struct server *server, const struct epoll_event *event, int n) {
    for (int i = 0; i < n; i++) {
        void *from = event[i].data.ptr;
        struct served *served = served_of(server, from);
        if (from == &server->wake_fd) {
            on_wake(server);
        } else if (served) {
            if (!served->engine) continue; // it was unloaded in this turn
            streams_collect(served);
            watch_engine(server, served);
        } else if (from == &server->signal_fd) {
            on_signal(server);
        } else {
            http_event(server->http, from, event[i].events);
        }
    }
}

// Requests that have not finished in time end with an error; a client that does not read it soon is
// disconnected.
static void drain_over(struct server *server, uint64_t now) {
    if (server->drain_late) {
        server->drain_until = 0;
        http_drain(server->http, true);
    } else {
        server->drain_until = now + GRACE_MS * 1000000ull;
        server->drain_late = true;
        http_cancel(server->http);
    }
}

// Handles deadlines. Returns the time of the next one; 0: there is none.
static uint64_t tick(struct server *server, uint64_t now) {
    const enum server_phase phase = (enum server_phase)atomic_load(&server->phase);
    uint64_t due = 0;
    for (int i = 0; phase != PHASE_LOADING && i < server->n_served; i++) {
        struct served *served = &server->served[i];
        due = server_sooner(due, live_tick(served->live, now));
        due = server_sooner(due, requests_tick(served->requests, now));
    }
    due = server_sooner(due, waiting_turn(server, now));
    if (server->drain_until && now > server->drain_until) drain_over(server, now);
    return server_sooner(due, server->drain_until);
}

// A peer that went away in the middle of a write is told by its error.
static void sigpipe_block(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

// Deadlines are handled last: a turn may add some, and handling the last one may end the loop.
static void *loop(void *ctx) {
    struct server *server = ctx;
    uint64_t due = 0;
    sigpipe_block();
    while (!atomic_load(&server->stopping) && (!server->end_signal || http_is_busy(server->http))) {
        struct epoll_event event[EVENTS];
        const int wait = wait_ms(server, clock_ns(), due);
        const int n = epoll_wait(server->epoll_fd, event, EVENTS, wait);
        handle(server, event, n > 0 ? n : 0);
        const uint64_t now = clock_ns();
        http_turn(server->http, now);
        due = tick(server, now);
    }
    return NULL;
}

// ---------------------------------------------------------------- sockets

static int socket_bind(const struct addrinfo *at) {
    const int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    const int on = 1, unsent_bytes = UNSENT_BYTES;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    // connections inherit these: a token is not held back, and the system does not take megabytes
    // for a reader that takes none
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_bytes, sizeof unsent_bytes);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static int port_of(int fd) {
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    char port[16];
    if (getsockname(fd, (struct sockaddr *)&address, &len) ||
        getnameinfo((struct sockaddr *)&address, len, NULL, 0, port, sizeof port, NI_NUMERICSERV))
        return 0;
    return atoi(port);
}

static rn_status socket_listen(struct server *server, int *out, rn_error *err) {
    const struct server_config *config = &server->config;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    char port[16];
    snprintf(port, sizeof port, "%d", config->port);
    const int problem = getaddrinfo(config->host, port, &hints, &found);
    if (problem) {
        return err_set(err, RN_ERR_ARG, "--host %s: %s", config->host, gai_strerror(problem));
    }
    int fd = -1;
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) fd = socket_bind(at);
    const int why = errno;
    freeaddrinfo(found);
    if (fd < 0) {
        return err_set(err, RN_ERR_IO, "cannot listen on %s port %d: %s", config->host,
                       config->port, strerror(why));
    }
    server->port = port_of(fd);
    *out = fd;
    return RN_OK;
}

// ---------------------------------------------------------------- life

static bool watch(const struct server *server, int fd, void *from) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = from};
    return fd >= 0 && epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

// The signals are the I/O thread's; the caller's threads leave them alone from here on.
static int signals_open(struct server *server) {
    struct sigaction hang_up;
    sigset_t set;
    server->hangs_up =
        !sigaction(SIGHUP, NULL, &hang_up) && hang_up.sa_handler != SIG_IGN && has_terminal();
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

// The loop makes a turn.
static void wake(const struct server *server) {
    const uint64_t one = 1;
    const ssize_t n = write(server->wake_fd, &one, sizeof one);
    (void)n; // a full counter is readable all the same
}

// False: out of memory.
static bool models_open(struct server *server) {
    const struct server_config *config = &server->config;
    const int n_sources = config->loading.n_sources, n = n_sources ? n_sources : 1;
    server->metrics = metrics_create(server);
    server->kept = kept_create(config->keep_requests);
    server->served = calloc((size_t)n, sizeof *server->served);
    server->turns = turns_create(config->keep_responses, config->response_bytes_max);
    if (!server->metrics || !server->kept || !server->turns || !server->served) return false;
    const struct server_source only = {.name = config->model_name,
                                       .aliases = config->aliases,
                                       .n_aliases = config->n_aliases};
    for (int i = 0; i < n; i++) {
        const struct server_source *source = n_sources ? &config->loading.source[i] : NULL;
        const struct server_source *names = source ? source : &only;
        server->n_served++;
        if (!served_init(&server->served[i], server, names->name, names->aliases, names->n_aliases,
                         source))
            return false;
    }
    return true;
}

// Models come when they are asked for, so requests are taken at once.
static rn_status loader_open(struct server *server, rn_error *err) {
    const struct server_loading *loading = &server->config.loading;
    if (!loading->n_sources) return RN_OK;
    const rn_status status = loader_create(loading, server->wake_fd, &server->loader, err);
    if (status) return status;
    waiting_begin(server);
    atomic_store(&server->phase, PHASE_READY);
    wake(server); // for models that are loaded at the start
    return RN_OK;
}

static rn_status server_open(struct server *server, rn_error *err) {
    int listen_fd = -1;
    rn_status status = socket_listen(server, &listen_fd, err);
    if (status) return status;
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    server->signal_fd = signals_open(server);
    if (server->epoll_fd < 0 || server->wake_fd < 0 || server->signal_fd < 0 ||
        !models_open(server)) {
        close(listen_fd);
        return err_set(err, RN_ERR_NOMEM, "out of memory or descriptors");
    }
    status = http_create(server, listen_fd, &server->http, err);
    if (!status) status = loader_open(server, err);
    if (status) return status;
    if (!watch(server, server->wake_fd, &server->wake_fd) ||
        !watch(server, server->signal_fd, &server->signal_fd))
        return err_set(err, RN_ERR_IO, "epoll: %s", strerror(errno));
    if (pthread_create(&server->thread, NULL, loop, server)) {
        return err_set(err, RN_ERR_NOMEM, "no thread can be started");
    }
    server->has_thread = true;
    return RN_OK;
}

rn_status server_create(const struct server_config *config, struct server **out, rn_error *err) {
    struct server *server = calloc(1, sizeof *server);
    *out = NULL;
    if (!server) return err_set(err, RN_ERR_NOMEM, "out of memory");
    server->config = *config;
    call_json_init();
    server->created = (int64_t)time(NULL);
    server->epoll_fd = server->wake_fd = server->signal_fd = -1;
    const rn_status status = server_open(server, err);
    if (status) {
        server_destroy(server);
        return status;
    }
    *out = server;
    return RN_OK;
}

int server_port(const struct server *server) { return server->port; }

rn_status server_renew_tls(struct server *server, const char *cert, const char *key,
                           rn_error *err) {
    return http_renew_tls(server->http, cert, key, err);
}

rn_status server_ready(struct server *server, const struct server_model *model, rn_error *err) {
    struct served *served = &server->served[0];
    rn_status status = served_attach(served, model, err);
    if (!status) status = rn_engine_start(served->engine, err);
    if (status) return status;
    if (!watch(server, rn_engine_event_fd(served->engine), served)) {
        return err_set(err, RN_ERR_IO, "epoll: %s", strerror(errno));
    }
    atomic_store(&server->phase, PHASE_READY);
    return RN_OK;
}

int server_wait(struct server *server) {
    pthread_join(server->thread, NULL);
    server->has_thread = false;
    return server->cut_short ? -server->end_signal : server->end_signal;
}

bool server_is_loading(const struct server *server) {
    return server->loader && loader_is_busy(server->loader);
}

static void thread_end(struct server *server) {
    if (!server->has_thread) return;
    atomic_store(&server->stopping, true);
    wake(server);
    pthread_join(server->thread, NULL);
}

static void fd_close(int fd) {
    if (fd >= 0) close(fd);
}

static void served_end(struct served *served) {
    struct trace *trace = served->server->config.trace;
    if (served->engine) {
        rn_engine_stop(served->engine, false);
        streams_collect(served);
        if (trace) trace_steps(trace, served->engine, 0);
        assert(!served->load);
    }
    served_deinit(served);
}

// Connections first; requests on the engine are cancelled, and its last events free the
// streams.
void server_destroy(struct server *server) {
    if (!server) return;
    thread_end(server);
    http_destroy(server->http);
    server->http = NULL;
    loader_destroy(server->loader);
    for (int i = 0; i < server->n_served; i++) served_end(&server->served[i]);
    free(server->served);
    kept_destroy(server->kept);
    turns_destroy(server->turns);
    metrics_destroy(server->metrics);
    fd_close(server->epoll_fd);
    fd_close(server->wake_fd);
    fd_close(server->signal_fd);
    free(server);
}
