// Tells the service manager the state of the server (sd_notify's protocol). Messages go through a
// sink of their own: they arrive in order, and no thread waits for a busy manager.
#ifndef RN_APP_NOTIFY_H
#define RN_APP_NOTIFY_H

struct log_sink;

struct log_sink *notify_open(void); // NULL: there is no such manager; the caller closes it
void notify_send(struct log_sink *manager, const char *state); // "READY=1"; NULL is fine

#endif
