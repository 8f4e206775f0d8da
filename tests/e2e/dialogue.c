// Runs a command on a pseudo-terminal and holds a dialogue with it, for the scripts:
// `dialogue COMMAND [ARGUMENT...] <STEPS`. A step is a line: `send TEXT`, `expect TEXT` (waits
// until TEXT comes after what was expected before), `resize COLUMNS`, `signal NUMBER` or `hang up`,
// after which there is no terminal. It has 100 columns, or DIALOGUE_COLUMNS. In TEXT \r, \e, \\ and
// \xNN are escapes. At the end of the steps it waits for the command to end. Prints all that the
// terminal showed; exits with the command's status, or with 99 when a step waited in vain or the
// command left the terminal's modes changed.
#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <utmp.h>

enum { STEP_SECONDS = 30, EXIT_IN_VAIN = 99 };

struct dialogue {
    int fd;
    pid_t child;
    char *seen;
    size_t n_seen, matched; // bytes; those before `matched` were expected already
};

static int die(const char *what) {
    perror(what);
    exit(EXIT_IN_VAIN);
}

static size_t text_unescape(char *text) {
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (*from != '\\') {
            *to++ = *from;
            continue;
        }
        from++;
        if (*from == 'x') {
            const char digits[3] = {from[1], from[2], '\0'};
            *to++ = (char)strtol(digits, NULL, 16);
            from += 2;
        } else {
            *to++ = *from == 'r' ? '\r' : *from == 'e' ? '\033' : *from;
        }
    }
    return (size_t)(to - text);
}

// Takes what the terminal shows; false: the time is up or the command has ended.
static int output_take(struct dialogue *d, time_t deadline) {
    struct pollfd output = {.fd = d->fd, .events = POLLIN};
    const time_t left = deadline - time(NULL);
    if (left <= 0 || poll(&output, 1, (int)left * 1000) <= 0) return 0;
    d->seen = realloc(d->seen, d->n_seen + 4096);
    if (!d->seen) die("memory");
    const ssize_t n = read(d->fd, d->seen + d->n_seen, 4096);
    if (n <= 0) return 0;
    d->n_seen += (size_t)n;
    return 1;
}

static int text_expect(struct dialogue *d, const char *text, size_t len) {
    const time_t deadline = time(NULL) + STEP_SECONDS;
    do {
        for (size_t i = d->matched; i + len <= d->n_seen; i++) {
            if (memcmp(d->seen + i, text, len) != 0) continue;
            d->matched = i + len;
            return 1;
        }
    } while (output_take(d, deadline));
    return 0;
}

// The command reads while it writes, so that neither waits for the other.
static void text_send(struct dialogue *d, const char *text, size_t len) {
    for (size_t sent = 0; sent < len;) {
        const ssize_t n = write(d->fd, text + sent, len - sent);
        if (n < 0 && errno != EINTR) die("write");
        if (n > 0) sent += (size_t)n;
    }
}

static int step_run(struct dialogue *d, char *line) {
    line[strcspn(line, "\n")] = '\0';
    char *text = strchr(line, ' ');
    if (!text) return !*line;
    *text++ = '\0';
    if (!strcmp(line, "resize")) {
        const struct winsize size = {.ws_col = (unsigned short)atoi(text), .ws_row = 24};
        return ioctl(d->fd, TIOCSWINSZ, &size) == 0;
    }
    if (!strcmp(line, "hang")) {
        close(d->fd);
        d->fd = -1;
        return 1;
    }
    if (!strcmp(line, "signal")) return kill(d->child, atoi(text)) == 0;
    const size_t len = text_unescape(text);
    if (!strcmp(line, "expect")) return text_expect(d, text, len);
    if (strcmp(line, "send") != 0) return 0;
    text_send(d, text, len);
    return 1;
}

static int command_end(struct dialogue *d) {
    int status = 0;
    while (d->fd >= 0 && output_take(d, time(NULL) + STEP_SECONDS)) continue;
    for (int i = 0; waitpid(d->child, &status, WNOHANG) == 0; i++) {
        if (i == STEP_SECONDS * 100) {
            fprintf(stderr, "dialogue: the command does not end\n");
            kill(d->child, SIGKILL);
            return EXIT_IN_VAIN;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int modes_equal(int fd, const struct termios *before) {
    struct termios now;
    if (tcgetattr(fd, &now) != 0) die("tcgetattr");
    return now.c_iflag == before->c_iflag && now.c_oflag == before->c_oflag &&
           now.c_cflag == before->c_cflag && now.c_lflag == before->c_lflag;
}

int main(int argc, char **argv) {
    struct dialogue d = {0};
    const char *columns = getenv("DIALOGUE_COLUMNS");
    const struct winsize size = {.ws_col = (unsigned short)(columns ? atoi(columns) : 100),
                                 .ws_row = 24};
    struct termios before;
    if (argc < 2) return EXIT_IN_VAIN;
    int terminal;
    if (openpty(&d.fd, &terminal, NULL, NULL, &size) != 0) die("openpty");
    if (tcgetattr(terminal, &before) != 0) die("tcgetattr");
    if ((d.child = fork()) < 0) die("fork");
    if (d.child == 0) {
        close(d.fd);
        if (login_tty(terminal) != 0) die("login_tty");
        execvp(argv[1], argv + 1);
        die(argv[1]);
    }
    close(terminal);
    char line[4096], whole[4096];
    int ok = 1;
    while (ok && fgets(line, sizeof line, stdin)) {
        strcpy(whole, line);
        ok = step_run(&d, line);
    }
    if (!ok) {
        fprintf(stderr, "dialogue: in vain: %s", whole);
        kill(d.child, SIGKILL);
    }
    int code = ok ? command_end(&d) : EXIT_IN_VAIN;
    if (ok && d.fd >= 0 && !modes_equal(d.fd, &before)) {
        fprintf(stderr, "dialogue: the terminal's modes are not those from before\n");
        code = EXIT_IN_VAIN;
    }
    fwrite(d.seen, 1, d.n_seen, stdout);
    free(d.seen);
    return code;
}
