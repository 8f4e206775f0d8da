// Asks a server on this machine many times over one connection and reports the result.
//   asks PORT COUNT PATH     prints "ANSWERS LONGEST": how many were 200, and the longest wait (ms)
// It gives up when an answer takes ten seconds.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int server_connect(int port) {
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval limit = {.tv_sec = 10};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit)) return -1;
    return connect(fd, (const struct sockaddr *)&at, sizeof at) ? -1 : fd;
}

// Reads one answer, which says its length. Its status; 0: none came.
static int answer_read(int fd) {
    char data[16384] = "";
    for (size_t len = 0; len < sizeof data - 1;) {
        const ssize_t n = recv(fd, data + len, sizeof data - 1 - len, 0);
        if (n <= 0) return 0;
        data[len += (size_t)n] = '\0';
        const char *body = strstr(data, "\r\n\r\n"), *size = strstr(data, "Content-Length:");
        if (!body || !size) continue;
        if (len < (size_t)(body + 4 - data) + strtoul(size + 15, NULL, 10)) continue;
        return atoi(data + strlen("HTTP/1.1 "));
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    const int fd = server_connect(atoi(argv[1])), count = atoi(argv[2]);
    char request[512];
    const int len =
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", argv[3]);
    int answers = 0;
    double longest = 0;
    for (int i = 0; fd >= 0 && i < count; i++) {
        const double start = now_ms();
        if (send(fd, request, (size_t)len, MSG_NOSIGNAL) != len) break;
        const int status = answer_read(fd);
        if (now_ms() - start > longest) longest = now_ms() - start;
        if (!status) break;
        answers += status == 200;
    }
    printf("%d %.0f\n", answers, longest);
    return 0;
}
