// A socket that is connected to $NOTIFY_SOCKET: a path, or an abstract name after '@'. Each message
// is one datagram, because a sink writes each message with one write.
#include "serve/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/log_sink.h"

struct log_sink *notify_open(void) {
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (!name || (*name != '/' && *name != '@') || strlen(name) >= sizeof to.sun_path) return NULL;
    const size_t len = strlen(name);
    memcpy(to.sun_path, name, len);
    if (*name == '@') to.sun_path[0] = '\0';
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return NULL;
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    const bool connected = !connect(fd, (const struct sockaddr *)&to, size);
    struct log_sink *manager = connected ? sink_create(fd) : NULL;
    close(fd);
    return manager;
}

void notify_send(struct log_sink *manager, const char *state) {
    if (manager) sink_write(manager, state, strlen(state));
}
