// Lines for a descriptor that another process may leave unread: a pipe, a terminal, a socket, a
// disk. The caller hands a line over and continues; a thread of the sink's own does the writing.
//
//   1. sink_write copies or drops. It waits for no write, only for a mutex that is held for a copy.
//   2. A line is written whole or not at all. A line that was started is finished before any other
//      one, also when the disk is full in the middle of it.
//   3. submitted == written + lost + queued. Lost are lines that found no room, that the descriptor
//      refused (EPIPE, ENOSPC), and that were left at the end. The next line is tried again.
//   4. sink_close ends in time. The thread asks poll(2) first and writes pieces that a pipe takes
//      whole, yet a terminal or a second writer can hold it inside write(2). Then sink_close leaves
//      the thread alone, and the thread frees the sink. A signal could break the write off instead,
//      but it would need a handler for the whole process, and it can come just before the write.
#ifndef RN_SERVER_LOG_SINK_H
#define RN_SERVER_LOG_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SINK_BYTES = 1 << 20 }; // most bytes that wait, lengths of the lines included

struct log_sink;

// On the sink's thread: its file was opened again, or, with an error number, could not be opened
// and the old one stays. Never after sink_close. It must not call the sink or wait for anything.
typedef void sink_told(void *ctx, const char *path, int error_number);

// For a copy of this descriptor. NULL: errno says why.
struct log_sink *sink_create(int fd);
// For a file that is appended to, and made if there is none. Does not wait for the reader of a
// FIFO: lines wait in the FIFO, and then in the sink. told may be NULL. NULL: errno says why.
struct log_sink *sink_open(const char *path, sink_told *told, void *ctx);

// One line with its end, or any bytes that belong together. False: it was dropped and counted.
bool sink_write(struct log_sink *sink, const char *line, size_t len);
// Lines until now go to the open file, later lines to the file that has its path then. Does not
// wait. False: the sink has no path.
bool sink_reopen(struct log_sink *sink);
// Lines that were dropped or could not be written.
uint64_t sink_lost(struct log_sink *sink);
uint64_t sink_written(struct log_sink *sink);
// Waits until no line is queued, at most this time. False: some are.
bool sink_flush(struct log_sink *sink, int wait_ms);
// Writes queued lines for at most this time, then drops the rest. Returns sink_lost. NULL is fine.
uint64_t sink_close(struct log_sink *sink, int wait_ms);

#endif
