// Tells the service manager how the server is (sd_notify's protocol).
#ifndef RN_APP_NOTIFY_H
#define RN_APP_NOTIFY_H

void notify_send(const char *state); // "READY=1"; nothing where there is no such manager

#endif
