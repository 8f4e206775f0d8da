// A listening socket of a test, on a free port of the loopback address.
#ifndef RN_TESTS_SERVER_LOOPBACK_H
#define RN_TESTS_SERVER_LOOPBACK_H

#include <arpa/inet.h>
#include <sys/socket.h>

#include "check.h"

static inline int loopback_listen(int backlog, int *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(fd, backlog), 0);
    getsockname(fd, (struct sockaddr *)&at, &size);
    *port = ntohs(at.sin_port);
    return fd;
}

#endif
