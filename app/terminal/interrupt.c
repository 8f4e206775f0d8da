// Ctrl-C, and the signals that end a conversation. The program's only mutable statics are here,
// because a signal handler can use nothing else. It calls only functions that are safe in a
// handler.
#define _GNU_SOURCE 1 // ppoll
#include "terminal/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "app.h"

enum { ECHO_COLUMNS = 2 }; // the terminal's own "^C"

static volatile sig_atomic_t seen;
static volatile sig_atomic_t resized, continued; // the terminal, the program after Ctrl-Z
static volatile sig_atomic_t line_columns;
static volatile sig_atomic_t child;  // its process id; 0: none
static volatile sig_atomic_t ending; // a signal that came while the child was started; 0: none
static _Atomic(const char *) doomed_file;
static struct termios found_modes; // the terminal's, before the program changed them
static const char *found_bytes;

static const int endings[] = {SIGHUP, SIGQUIT, SIGTERM};
enum { ENDINGS = sizeof endings / sizeof *endings };

static void error_write(const char *bytes, size_t len) {
    const ssize_t written = write(STDERR_FILENO, bytes, len);
    (void)written; // an error cannot be reported any more
}

// Blanks instead of an escape sequence: dumb terminals are served too.
static void line_erase(int columns) {
    char blanks[1 + 256 + 1];
    const size_t count = columns < 256 ? (size_t)columns : 256;
    memset(blanks, ' ', sizeof blanks);
    blanks[0] = blanks[count + 1] = '\r';
    error_write(blanks, count + 2);
}

static void on_early_interrupt(int signal_number) {
    (void)signal_number;
    const char *file = atomic_load(&doomed_file);
    if (file) unlink(file);
    if (line_columns > 0) {
        line_erase(line_columns + ECHO_COLUMNS);
    } else if (isatty(STDERR_FILENO)) {
        error_write("\n", 1);
    }
    _exit(APP_INTERRUPTED);
}

static void on_interrupt(int signal_number) {
    (void)signal_number;
    seen = 1;
}

static void on_terminal(int signal_number) {
    if (signal_number == SIGWINCH) {
        resized = 1;
    } else {
        continued = 1;
    }
}

void interrupt_ends(void) {
    struct sigaction action = {.sa_handler = on_early_interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

void interrupt_watch(void) {
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    action.sa_flags = (int)SA_RESETHAND | SA_RESTART;
    sigaction(SIGINT, &action, NULL);
}

bool interrupt_seen(void) { return seen != 0; }
void interrupt_forget(void) { seen = resized = continued = 0; }

void interrupt_notes(void) {
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    action.sa_flags = (int)SA_RESTART;
    sigaction(SIGINT, &action, NULL);
    action.sa_handler = on_terminal;
    sigaction(SIGWINCH, &action, NULL);
    sigaction(SIGCONT, &action, NULL);
}

// One note, if there is any.
static bool note_take(enum interrupt_wait *out) {
    volatile sig_atomic_t *const notes[] = {
        [WAIT_INTERRUPT] = &seen, [WAIT_RESIZED] = &resized, [WAIT_CONTINUED] = &continued};
    for (int i = WAIT_INTERRUPT; i <= WAIT_CONTINUED; i++) {
        if (!*notes[i]) continue;
        *notes[i] = 0;
        *out = (enum interrupt_wait)i;
        return true;
    }
    return false;
}

// The signals come during ppoll only, so that none slips in between looking and waiting. The
// engine's threads take no signals.
enum interrupt_wait interrupt_wait(int fd) {
    sigset_t notes, before;
    sigemptyset(&notes);
    sigaddset(&notes, SIGINT);
    sigaddset(&notes, SIGWINCH);
    sigaddset(&notes, SIGCONT);
    sigprocmask(SIG_BLOCK, &notes, &before);
    struct pollfd input = {.fd = fd, .events = POLLIN};
    enum interrupt_wait result = WAIT_INPUT;
    while (!note_take(&result) && ppoll(&input, 1, NULL, &before) < 0 && errno == EINTR) continue;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return result;
}

// A terminal that is another program's by now is left alone. The signal comes again when the
// handler returns, and ends the program.
static void on_ending(int signal_number) {
    if (tcgetpgrp(STDIN_FILENO) == getpgrp()) {
        tcsetattr(STDIN_FILENO, TCSANOW, &found_modes);
        const ssize_t written = write(STDOUT_FILENO, found_bytes, strlen(found_bytes));
        (void)written;
    }
    raise(signal_number);
}

static void endings_set(sigset_t *out) {
    sigemptyset(out);
    for (int i = 0; i < ENDINGS; i++) sigaddset(out, endings[i]);
}

static void endings_handle(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = (int)SA_RESETHAND}, now;
    endings_set(&action.sa_mask);
    for (int i = 0; i < ENDINGS; i++) {
        const bool ignored = sigaction(endings[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN;
        if (!ignored) sigaction(endings[i], &action, NULL); // as under nohup
    }
}

// They are blocked while the handler's values change.
void interrupt_restores(const struct termios *modes, const char *bytes) {
    sigset_t all, before;
    endings_set(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    if (modes) {
        found_modes = *modes;
        found_bytes = bytes;
    }
    endings_handle(modes ? on_ending : SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static void on_ending_child(int signal_number) {
    if (child) kill(child, SIGTERM);
    raise(signal_number);
}

static void on_ending_early(int signal_number) { ending = signal_number; }

void interrupt_child_starts(void) {
    ending = 0;
    endings_handle(on_ending_early);
}

void interrupt_child(pid_t pid) {
    child = pid;
    endings_handle(pid ? on_ending_child : SIG_DFL);
    if (ending) raise(ending);
}

void interrupt_line(int columns) { line_columns = columns; }

void interrupt_removes(const char *path) { atomic_store(&doomed_file, path); }
