// Runs a command under a stand-in for the service manager. It prints the messages that it gets,
// lets the command reload once it is ready and end once it is ready again, and takes over its exit
// status.
//   notified SOCKET COMMAND...   SOCKET: a path, or an abstract name after '@'
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int socket_open(const char *name) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const size_t len = strlen(name);
    if (len >= sizeof at.sun_path) return -1;
    memcpy(at.sun_path, name, len);
    if (*name == '@') at.sun_path[0] = '\0';
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const struct timeval limit = {.tv_sec = 60};
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit)) return -1;
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    return bind(fd, (const struct sockaddr *)&at, size) ? -1 : fd;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const int fd = socket_open(argv[1]);
    if (fd < 0) return 2;
    const pid_t child = fork();
    if (child == 0) {
        setenv("NOTIFY_SOCKET", argv[1], 1);
        execv(argv[2], argv + 2);
        _exit(127);
    }
    char state[256];
    ssize_t n;
    int ready = 0;
    while ((n = recv(fd, state, sizeof state - 1, 0)) > 0) {
        state[n] = '\0';
        puts(state);
        if (!strcmp(state, "READY=1")) kill(child, ready++ ? SIGTERM : SIGHUP);
        if (!strcmp(state, "STOPPING=1")) break;
    }
    if (n <= 0) kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
