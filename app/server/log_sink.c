// The sink's two buffers. Callers fill one under the mutex; the thread owns the other one and
// writes it without the mutex. When it is written they are exchanged. A buffer holds lines, each
// after its length. Exactly one side frees the sink: sink_close after the thread's end, or the
// thread where sink_close had to leave it.
#include "log_sink.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helpers.h"

enum { HALF_BYTES = SINK_BYTES / 2, RETRY_MS = 50 };

struct half {
    char *data; // [HALF_BYTES]
    size_t len;
};

struct log_sink {
    pthread_mutex_t mutex;
    pthread_cond_t more; // for the thread: a line, a new file, the end
    pthread_cond_t less; // for flush and close: nothing is queued any more, the thread has ended
    // under the mutex
    struct half filled;
    uint64_t submitted, written, lost;
    uint64_t queued;    // lines in both buffers
    uint64_t taken;     // lines that ever were queued
    bool reopen;        // the file is to be opened again ...
    uint64_t reopen_at; // ... before the line with this number, of all lines ever queued
    bool closing;       // no more lines will come
    bool ended;         // the thread has done all
    bool left;          // the thread is on its own, and frees the sink
    // the thread's
    struct half out;
    uint64_t n_out; // lines that it has dealt with
    int fd;
    // constant
    int wake_fd; // readable once `left` is set
    char *path;  // NULL: none
    sink_told *told;
    void *ctx;
    pthread_t thread;
};

// ---------------------------------------------------------------- the thread

// Until the descriptor takes bytes (fd -1: only the time). False: the thread is to leave.
static bool wait_for(const struct log_sink *sink, int fd, int wait_ms) {
    struct pollfd wait[] = {{.fd = sink->wake_fd, .events = POLLIN}, {.fd = fd, .events = POLLOUT}};
    while (poll(wait, 2, wait_ms) < 0 && errno == EINTR) continue;
    return !wait[0].revents;
}

// Does not wait for the reader of a FIFO. A FIFO that is opened for reading too needs none: lines
// wait in it for the first reader, or the next one.
static int file_open(const char *path) {
    const int flags = O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    struct stat at;
    if (!stat(path, &at) && S_ISFIFO(at.st_mode)) {
        const int fd = open(path, O_RDWR | flags, 0666);
        if (fd >= 0) return fd;
    }
    return open(path, O_WRONLY | flags, 0666);
}

// The callback is told under the mutex, so that sink_close can promise that none comes later.
static bool reopen(struct log_sink *sink) {
    const int fd = file_open(sink->path);
    const int why = fd < 0 ? errno : 0;
    if (fd >= 0) {
        close(sink->fd);
        sink->fd = fd;
    }
    pthread_mutex_lock(&sink->mutex);
    if (sink->told && !sink->left) sink->told(sink->ctx, sink->path, why);
    pthread_mutex_unlock(&sink->mutex);
    return fd >= 0;
}

// Whether the file is to be opened again now. A line that is held up does not wait for its turn.
static bool reopen_take(struct log_sink *sink, bool held_up) {
    pthread_mutex_lock(&sink->mutex);
    const bool now = sink->reopen && (held_up || sink->n_out >= sink->reopen_at);
    if (now) sink->reopen = false;
    pthread_mutex_unlock(&sink->mutex);
    return now;
}

enum line_end { LINE_WRITTEN, LINE_LOST, LINE_LEFT };

// A descriptor that refuses a line's first byte has refused the line. If it refuses a later byte,
// it is tried until it takes the rest; a new file gets the whole line.
static enum line_end line_write(struct log_sink *sink, const char *line, size_t len) {
    for (size_t done = 0; done < len;) {
        const size_t piece = len - done < PIPE_BUF ? len - done : PIPE_BUF;
        if (!wait_for(sink, sink->fd, -1)) return LINE_LEFT;
        const ssize_t n = write(sink->fd, line + done, piece);
        if (n >= 0) {
            done += (size_t)n;
        } else if (errno != EINTR) {
            if (errno != EAGAIN && !done) return LINE_LOST;
            if (!wait_for(sink, -1, RETRY_MS)) return LINE_LEFT;
            if (reopen_take(sink, true) && reopen(sink)) done = 0;
        }
    }
    return LINE_WRITTEN;
}

static void line_count(struct log_sink *sink, enum line_end end) {
    sink->n_out++;
    pthread_mutex_lock(&sink->mutex);
    if (!sink->left) { // otherwise sink_close has counted it
        sink->queued--;
        sink->written += end == LINE_WRITTEN;
        sink->lost += end == LINE_LOST;
        if (!sink->queued) pthread_cond_broadcast(&sink->less);
    }
    pthread_mutex_unlock(&sink->mutex);
}

// False: the thread is to leave.
static bool lines_write(struct log_sink *sink) {
    for (size_t at = 0; at < sink->out.len;) {
        uint32_t len;
        if (reopen_take(sink, false)) reopen(sink);
        memcpy(&len, sink->out.data + at, sizeof len);
        const enum line_end end = line_write(sink, sink->out.data + at + sizeof len, len);
        if (end == LINE_LEFT) return false;
        line_count(sink, end);
        at += sizeof len + len;
    }
    sink->out.len = 0;
    if (reopen_take(sink, false)) reopen(sink);
    return true;
}

// Waits for something to do. False: nothing is left to do, or the thread is to leave.
static bool lines_take(struct log_sink *sink) {
    pthread_mutex_lock(&sink->mutex);
    while (!sink->filled.len && !sink->reopen && !sink->closing)
        pthread_cond_wait(&sink->more, &sink->mutex);
    const bool some = !sink->left && (sink->filled.len || sink->reopen);
    const struct half out = sink->out;
    sink->out = sink->filled;
    sink->filled = out;
    pthread_mutex_unlock(&sink->mutex);
    return some;
}

static void sink_free(struct log_sink *sink) {
    if (sink->fd >= 0) close(sink->fd);
    if (sink->wake_fd >= 0) close(sink->wake_fd);
    pthread_mutex_destroy(&sink->mutex);
    pthread_cond_destroy(&sink->more);
    pthread_cond_destroy(&sink->less);
    free(sink->filled.data);
    free(sink->out.data);
    free(sink->path);
    free(sink);
}

static void *thread_run(void *ctx) {
    struct log_sink *sink = ctx;
    while (lines_take(sink) && lines_write(sink)) continue;
    pthread_mutex_lock(&sink->mutex);
    sink->ended = true;
    const bool left = sink->left;
    pthread_cond_broadcast(&sink->less);
    pthread_mutex_unlock(&sink->mutex);
    if (left) sink_free(sink);
    return NULL;
}

// ---------------------------------------------------------------- callers

// The process's signals are for other threads; SIGPIPE would be this one's, and becomes EPIPE.
static int thread_start(struct log_sink *sink) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int why = pthread_create(&sink->thread, NULL, thread_run, sink);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return why;
}

static void locks_init(struct log_sink *sink) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&sink->mutex, NULL);
    pthread_cond_init(&sink->more, NULL);
    pthread_cond_init(&sink->less, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

// Takes the descriptor over, also on failure.
static struct log_sink *sink_start(int fd, const char *path, sink_told *told, void *ctx) {
    struct log_sink *sink = fd < 0 ? NULL : calloc(1, sizeof *sink);
    if (!sink) {
        const int why = errno;
        if (fd >= 0) close(fd);
        errno = why;
        return NULL;
    }
    locks_init(sink);
    sink->fd = fd;
    sink->told = told;
    sink->ctx = ctx;
    sink->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sink->path = path ? strdup(path) : NULL;
    sink->filled.data = malloc(HALF_BYTES);
    sink->out.data = malloc(HALF_BYTES);
    int why = sink->wake_fd < 0 ? errno : 0;
    if ((path && !sink->path) || !sink->filled.data || !sink->out.data) why = ENOMEM;
    if (!why) why = thread_start(sink);
    if (!why) return sink;
    sink_free(sink);
    errno = why;
    return NULL;
}

struct log_sink *sink_create(int fd) {
    return sink_start(fcntl(fd, F_DUPFD_CLOEXEC, 0), NULL, NULL, NULL);
}

struct log_sink *sink_open(const char *path, sink_told *told, void *ctx) {
    return sink_start(file_open(path), path, told, ctx);
}

bool sink_write(struct log_sink *sink, const char *line, size_t len) {
    const uint32_t head = (uint32_t)len;
    pthread_mutex_lock(&sink->mutex);
    struct half *half = &sink->filled;
    assert(!sink->closing);
    const bool fits = len < HALF_BYTES && sizeof head + len <= HALF_BYTES - half->len;
    sink->submitted++;
    if (fits) {
        memcpy(half->data + half->len, &head, sizeof head);
        memcpy(half->data + half->len + sizeof head, line, len);
        half->len += sizeof head + len;
        sink->queued++;
        sink->taken++;
        pthread_cond_signal(&sink->more);
    } else {
        sink->lost++;
    }
    pthread_mutex_unlock(&sink->mutex);
    return fits;
}

bool sink_reopen(struct log_sink *sink) {
    if (!sink->path) return false;
    pthread_mutex_lock(&sink->mutex);
    sink->reopen = true;
    sink->reopen_at = sink->taken;
    pthread_cond_signal(&sink->more);
    pthread_mutex_unlock(&sink->mutex);
    return true;
}

uint64_t sink_lost(struct log_sink *sink) {
    pthread_mutex_lock(&sink->mutex);
    const uint64_t lost = sink->lost;
    pthread_mutex_unlock(&sink->mutex);
    return lost;
}

uint64_t sink_written(struct log_sink *sink) {
    pthread_mutex_lock(&sink->mutex);
    const uint64_t written = sink->written;
    pthread_mutex_unlock(&sink->mutex);
    return written;
}

static struct timespec time_after(int wait_ms) {
    const uint64_t at = clock_ns() + (uint64_t)wait_ms * 1000000u;
    return (struct timespec){.tv_sec = (time_t)(at / 1000000000u),
                             .tv_nsec = (long)(at % 1000000000u)};
}

bool sink_flush(struct log_sink *sink, int wait_ms) {
    const struct timespec until = time_after(wait_ms);
    pthread_mutex_lock(&sink->mutex);
    while (sink->queued && !pthread_cond_timedwait(&sink->less, &sink->mutex, &until)) continue;
    const bool all = !sink->queued;
    pthread_mutex_unlock(&sink->mutex);
    return all;
}

// Wakes a thread that waits for its descriptor; one inside write(2) notices when it returns.
static void thread_leave(struct log_sink *sink) {
    const uint64_t one = 1;
    sink->left = true;
    sink->lost += sink->queued;
    sink->queued = 0;
    pthread_detach(sink->thread);
    const ssize_t n = write(sink->wake_fd, &one, sizeof one);
    (void)n; // the counter was 0
}

uint64_t sink_close(struct log_sink *sink, int wait_ms) {
    if (!sink) return 0;
    const struct timespec until = time_after(wait_ms);
    pthread_mutex_lock(&sink->mutex);
    sink->closing = true;
    pthread_cond_signal(&sink->more);
    while (!sink->ended && !pthread_cond_timedwait(&sink->less, &sink->mutex, &until)) continue;
    const bool ended = sink->ended;
    if (!ended) thread_leave(sink);
    assert(sink->submitted == sink->written + sink->lost + sink->queued);
    const uint64_t lost = sink->lost;
    pthread_mutex_unlock(&sink->mutex);
    if (ended) {
        pthread_join(sink->thread, NULL);
        sink_free(sink);
    }
    return lost;
}
