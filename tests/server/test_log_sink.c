// The sink against descriptors that misbehave: no reader, a slow reader, a reader that has gone, a
// full disk, a terminal that holds the writer inside write(2). The caller never waits, lines arrive
// whole and in order, and each is either written or counted as lost.
// label: threads
#define _GNU_SOURCE 1 // posix_openpt
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "log_sink.h"

enum { PATIENCE_MS = 60000, LINE_MAX_BYTES = 3 * PIPE_BUF };

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

// Line `number` has a length of its own and says what it is at both ends.
static size_t line_make(char *line, unsigned number) {
    const size_t len = 40 + number * 7919u % (number % 50 ? 400 : LINE_MAX_BYTES - 40);
    memset(line, 'a' + (int)(number % 26), len);
    const int head = snprintf(line, 24, "%u ", number);
    line[head] = '.';
    snprintf(line + len - 16, 16, " %u", number);
    memset(line + strlen(line), ' ', len - strlen(line));
    line[len - 1] = '\n';
    return len;
}

static bool submit(struct log_sink *sink, unsigned number) {
    char line[LINE_MAX_BYTES];
    return sink_write(sink, line, line_make(line, number));
}

// ---------------------------------------------------------------- a reader

struct reader {
    pthread_t thread;
    int fd, pause_ms;
    unsigned lines, next; // next: a number that is at least that of the next line
    bool whole;           // each line was submitted, in this order
};

static void reader_line(struct reader *reader, const char *line, size_t len) {
    char want[LINE_MAX_BYTES];
    const unsigned number = (unsigned)strtoul(line, NULL, 10);
    if (number < reader->next || line_make(want, number) != len || memcmp(line, want, len)) {
        reader->whole = false;
    }
    reader->next = number + 1;
    reader->lines++;
}

// Until the end of the file.
static void *reader_run(void *ctx) {
    struct reader *reader = ctx;
    static _Thread_local char data[1 << 16];
    size_t len = 0;
    reader->whole = true;
    for (ssize_t n; (n = read(reader->fd, data + len, sizeof data - len)) > 0;) {
        len += (size_t)n;
        for (char *end; (end = memchr(data, '\n', len));) {
            const size_t line = (size_t)(end + 1 - data);
            reader_line(reader, data, line);
            memmove(data, end + 1, len -= line);
        }
        if (reader->pause_ms) sleep_ms(reader->pause_ms);
    }
    if (len) reader->whole = false;
    return NULL;
}

static void reader_start(struct reader *reader, int fd, int pause_ms) {
    *reader = (struct reader){.fd = fd, .pause_ms = pause_ms};
    assert_int_equal(pthread_create(&reader->thread, NULL, reader_run, reader), 0);
}

static unsigned reader_end(struct reader *reader) {
    pthread_join(reader->thread, NULL);
    check(reader->whole, "a line was cut, changed or out of order near %u", reader->next);
    close(reader->fd);
    return reader->lines;
}

static unsigned file_lines(const char *path) {
    struct reader reader = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
    check(reader.fd >= 0, "%s: %s", path, strerror(errno));
    reader_run(&reader);
    check(reader.whole, "%s: a line was cut, changed or out of order", path);
    close(reader.fd);
    return reader.lines;
}

static struct log_sink *pipe_sink(int end[2], int flags) {
    assert_int_equal(pipe(end), 0);
    assert_int_equal(fcntl(end[1], F_SETFL, flags), 0);
    struct log_sink *sink = sink_create(end[1]);
    assert_non_null(sink);
    close(end[1]);
    return sink;
}

// ---------------------------------------------------------------- pipes

CASE(test_an_unread_pipe_holds_up_nobody_and_every_drop_is_counted) {
    enum { LINES = 20000 };
    int end[2];
    struct log_sink *sink = pipe_sink(end, 0);
    unsigned taken = 0;
    double longest = 0;
    for (unsigned i = 0; i < LINES; i++) {
        const double start = now_s();
        taken += submit(sink, i);
        if (now_s() - start > longest) longest = now_s() - start;
    }
    check(longest < 1, "a line took %g s", longest); // a machine may be busy
    check(taken > 1000 && taken < LINES, "%u lines were taken", taken);
    assert_int_equal(sink_lost(sink), LINES - taken);
    const double start = now_s();
    const uint64_t lost = sink_close(sink, 300);
    check(now_s() - start >= 0.2 && now_s() - start < 10, "it ended after %g s", now_s() - start);
    struct reader reader;
    reader_start(&reader, end[0], 0);
    const unsigned read = reader_end(&reader);
    assert_int_equal(read + lost, LINES);
    assert_true(read > 100);
}

static void slow_reader(int flags) {
    enum { LINES = 6000 };
    int end[2];
    struct log_sink *sink = pipe_sink(end, flags);
    struct reader reader;
    reader_start(&reader, end[0], 1);
    for (unsigned i = 0; i < LINES; i++) submit(sink, i);
    assert_true(sink_lost(sink) > 0);
    assert_true(sink_flush(sink, PATIENCE_MS));
    const uint64_t written = sink_written(sink), lost = sink_close(sink, PATIENCE_MS);
    assert_int_equal(written + lost, LINES);
    assert_int_equal(reader_end(&reader), written);
}

CASE(test_a_slow_reader_gets_whole_lines_and_all_but_the_dropped) {
    slow_reader(0);
    slow_reader(O_NONBLOCK);
}

CASE(test_closing_writes_what_is_queued) {
    enum { LINES = 1000 };
    int end[2];
    struct log_sink *sink = pipe_sink(end, 0);
    for (unsigned i = 0; i < LINES; i++) assert_true(submit(sink, i));
    struct reader reader;
    reader_start(&reader, end[0], 0);
    assert_int_equal(sink_close(sink, PATIENCE_MS), 0);
    assert_int_equal(reader_end(&reader), LINES);
}

CASE(test_a_line_longer_than_the_buffer_is_dropped) {
    int end[2];
    struct log_sink *sink = pipe_sink(end, 0);
    char *line = calloc(1, SINK_BYTES);
    assert_non_null(line);
    assert_false(sink_write(sink, line, SINK_BYTES));
    assert_true(submit(sink, 1));
    free(line);
    assert_int_equal(sink_close(sink, PATIENCE_MS), 1);
    struct reader reader;
    reader_start(&reader, end[0], 0);
    assert_int_equal(reader_end(&reader), 1);
}

CASE(test_lines_for_a_reader_that_has_gone_are_lost_and_counted) {
    enum { LINES = 100 };
    int end[2];
    struct log_sink *sink = pipe_sink(end, 0);
    close(end[0]);
    for (unsigned i = 0; i < LINES; i++) submit(sink, i);
    assert_true(sink_flush(sink, PATIENCE_MS));
    assert_int_equal(sink_written(sink), 0);
    assert_int_equal(sink_close(sink, PATIENCE_MS), LINES);
}

CASE(test_a_closed_descriptor_is_refused_at_once) {
    errno = 0;
    assert_null(sink_create(-1));
    assert_int_equal(errno, EBADF);
    assert_null(sink_open("no/such/folder/log", NULL, NULL));
    assert_int_equal(errno, ENOENT);
}

// poll(2) says that a terminal takes bytes when it takes a few; a write of many then blocks.
CASE(test_closing_ends_though_the_writer_is_inside_a_write) {
    enum { LINES = 10 };
    const int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (master < 0 || grantpt(master) || unlockpt(master)) skip();
    const int slave = open(ptsname(master), O_WRONLY | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    struct termios raw;
    assert_int_equal(tcgetattr(slave, &raw), 0);
    cfmakeraw(&raw);
    assert_int_equal(tcsetattr(slave, TCSANOW, &raw), 0);
    const int filler = open(ptsname(master), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    while (write(filler, "0123456789abcdef", 16) > 0) continue;
    char some[2000];
    assert_true(read(master, some, sizeof some) > 0);
    struct log_sink *sink = sink_create(slave);
    assert_non_null(sink);
    char line[PIPE_BUF];
    memset(line, 'x', sizeof line);
    for (int i = 0; i < LINES; i++) assert_true(sink_write(sink, line, sizeof line));
    sleep_ms(100);
    const double start = now_s();
    const uint64_t lost = sink_close(sink, 200);
    check(now_s() - start < 10, "it ended after %g s", now_s() - start);
    assert_true(lost >= LINES - 1 && lost <= LINES);
    close(filler);
    close(slave);
    close(master); // frees the thread, and that the sink
    sleep_ms(100);
}

// ---------------------------------------------------------------- files

struct folder {
    char path[64], log[96], old[96];
};

static void folder_make(struct folder *folder) {
    snprintf(folder->path, sizeof folder->path, "/tmp/test_log_sink.XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    snprintf(folder->log, sizeof folder->log, "%s/log", folder->path);
    snprintf(folder->old, sizeof folder->old, "%s/log.1", folder->path);
}

static void folder_remove(const struct folder *folder) {
    unlink(folder->log);
    unlink(folder->old);
    rmdir(folder->path);
}

struct told {
    _Atomic int times, error_number;
};

static void told(void *ctx, const char *path, int error_number) {
    struct told *told = ctx;
    assert_non_null(path);
    atomic_store(&told->error_number, error_number);
    atomic_fetch_add(&told->times, 1);
}

static void told_await(struct told *told, int times) {
    for (int ms = 0; atomic_load(&told->times) < times; ms += 5) {
        check(ms < PATIENCE_MS, "not told %d times", times);
        sleep_ms(5);
    }
}

CASE(test_a_file_opened_again_splits_the_lines_where_it_was_asked_for) {
    enum { FIRST = 700, SECOND = 300 };
    struct folder folder;
    struct told seen = {0};
    folder_make(&folder);
    struct log_sink *sink = sink_open(folder.log, told, &seen);
    assert_non_null(sink);
    for (unsigned i = 0; i < FIRST; i++) assert_true(submit(sink, i));
    assert_int_equal(rename(folder.log, folder.old), 0);
    assert_true(sink_reopen(sink));
    for (unsigned i = 0; i < SECOND; i++) assert_true(submit(sink, FIRST + i));
    told_await(&seen, 1);
    assert_int_equal(atomic_load(&seen.error_number), 0);
    assert_int_equal(sink_close(sink, PATIENCE_MS), 0);
    assert_int_equal(file_lines(folder.old), FIRST);
    assert_int_equal(file_lines(folder.log), SECOND);
    folder_remove(&folder);
}

CASE(test_a_file_that_cannot_be_opened_leaves_the_old_one) {
    struct folder folder;
    struct told seen = {0};
    folder_make(&folder);
    struct log_sink *sink = sink_open(folder.log, told, &seen);
    assert_non_null(sink);
    assert_true(submit(sink, 1));
    assert_true(sink_flush(sink, PATIENCE_MS));
    assert_int_equal(rename(folder.log, folder.old), 0);
    assert_int_equal(mkdir(folder.log, 0777), 0);
    assert_true(sink_reopen(sink));
    told_await(&seen, 1); // also while no line comes
    assert_int_equal(atomic_load(&seen.error_number), EISDIR);
    assert_true(submit(sink, 2));
    assert_int_equal(sink_close(sink, PATIENCE_MS), 0);
    assert_int_equal(file_lines(folder.old), 2);
    rmdir(folder.log);
    folder_remove(&folder);
}

// Its readers come late, go, and come again; nobody waits for them.
CASE(test_a_fifo_needs_no_reader_and_keeps_lines_for_the_next_one) {
    struct folder folder;
    char line[64];
    folder_make(&folder);
    assert_int_equal(mkfifo(folder.log, 0600), 0);
    alarm(PATIENCE_MS / 1000); // an open that waits would wait for ever
    struct log_sink *sink = sink_open(folder.log, NULL, NULL);
    alarm(0);
    assert_non_null(sink);
    for (int round = 0; round < 2; round++) {
        assert_true(sink_write(sink, "a line\n", 7));
        assert_true(sink_flush(sink, PATIENCE_MS));
        const int fd = open(folder.log, O_RDONLY);
        assert_int_equal(read(fd, line, sizeof line), 7);
        close(fd);
    }
    assert_int_equal(sink_close(sink, PATIENCE_MS), 0);
    folder_remove(&folder);
}

CASE(test_only_a_file_is_opened_again) {
    int end[2];
    struct log_sink *sink = pipe_sink(end, 0);
    assert_false(sink_reopen(sink));
    assert_int_equal(sink_close(sink, PATIENCE_MS), 0);
    close(end[0]);
}

// A limit on the size of files stands for a disk that is full: the write that reaches it is cut
// short, the next one fails. Room comes back, and no line was cut.
CASE(test_a_full_disk_costs_lines_but_cuts_none_and_writing_resumes) {
    enum { LINES = 400, LIMIT = 20000 };
    struct folder folder;
    struct rlimit before;
    folder_make(&folder);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    struct log_sink *sink = sink_open(folder.log, NULL, NULL);
    assert_non_null(sink);
    const struct rlimit full = {.rlim_cur = LIMIT, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    for (unsigned i = 0; i < LINES; i++) submit(sink, i);
    assert_false(sink_flush(sink, 300)); // a line was begun
    struct stat info;
    assert_int_equal(stat(folder.log, &info), 0);
    assert_int_equal(info.st_size, LIMIT);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(submit(sink, LINES));
    assert_true(sink_flush(sink, PATIENCE_MS));
    const uint64_t written = sink_written(sink), lost = sink_close(sink, PATIENCE_MS);
    assert_int_equal(written + lost, LINES + 1);
    assert_int_equal(file_lines(folder.log), written);
    folder_remove(&folder);
}

CASE(test_lines_for_a_full_device_are_lost_and_counted) {
    struct log_sink *sink = sink_open("/dev/full", NULL, NULL);
    if (!sink) skip();
    for (unsigned i = 0; i < 10; i++) submit(sink, i);
    assert_true(sink_flush(sink, PATIENCE_MS));
    assert_int_equal(sink_lost(sink), 10);
    assert_int_equal(sink_close(sink, PATIENCE_MS), 10);
}

TEST_PROGRAM(log_sink) { return cases_run(NULL, NULL); }
