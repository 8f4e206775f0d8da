// One datagram to the socket that $NOTIFY_SOCKET names: a path, or an abstract name after '@'.
#include "notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_send(const char *state) {
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (!name || (*name != '/' && *name != '@') || strlen(name) >= sizeof to.sun_path) return;
    const size_t len = strlen(name);
    memcpy(to.sun_path, name, len);
    if (*name == '@') to.sun_path[0] = '\0';
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&to, size);
    close(fd);
}
