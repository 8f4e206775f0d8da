// The commands' common parts: exit codes, messages, the model that -m names, whole files as text.
#ifndef RN_APP_APP_H
#define RN_APP_APP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "options/options.h"
#include "runnel.h"

enum app_exit { APP_OK = 0, APP_FAILED = 1, APP_USAGE = 2, APP_INTERRUPTED = 130 };

#define COMMAND(id, name, function, ...) int function(const struct options *options);
#include "commands.def"
#undef COMMAND

const char *command_name(enum command_id command);
const char *command_arguments(enum command_id command);
const char *command_summary(enum command_id command);
struct example {
    enum command_id command;
    const char *line, *what;
};
const struct example *example_at(int index); // NULL: there are no more
void help_program(FILE *out);
void help_command(FILE *out, enum command_id command);
void man_program(FILE *out); // manual pages (man.c)
void man_command(FILE *out, enum command_id command);

// Prints "runnel: ..." as one line on stderr, control characters replaced; returns code.
int app_fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Until it is called with NULL, messages of this thread's app_fail go there instead, the last one
// alone.
void app_fail_listen(char *buffer, size_t size);
// A value for a message: a longer one is cut and ends in "...".
struct app_short {
    char text[64];
};
struct app_short app_short(const char *text);
// Refuses an option of the command line that has an effect only with another one, its owner, where
// that is missing. APP_OK or APP_USAGE.
int app_belongs(const struct options *options, enum option_id option, enum option_id owner);
// app_fail for an error of the library; the exit code follows from its status.
int app_fail_error(const rn_error *err);
// For output that could not be written: quiet when the reader has gone (EPIPE). Returns APP_FAILED.
int app_fail_write(const char *what, int error_number);
// For a file of this option that cannot be opened for writing: the path is wrong, so APP_USAGE.
int app_fail_output(const struct options *options, enum option_id option, const char *path,
                    int error_number);
// Flushes stdout; APP_OK or the result of app_fail_write.
int app_flush_output(void);

// Opens the model that -m names, the random one of --synthetic, or the embedded one. On failure the
// error has been printed and the exit code is returned.
int app_open_model(const struct options *options, bool vocab_only, rn_model **out);

// The model inside the program, and its draft model.
extern const unsigned char embedded_model[], embedded_model_end[];
extern const unsigned char embedded_draft[], embedded_draft_end[];
#define EMBEDDED_NAME       "tale-20m-q8_0 (embedded)"
#define EMBEDDED_DRAFT_NAME "tale-1m-q8_0 (embedded)"

enum { TEXT_LIMIT = 64 << 20 }; // bytes of a prompt, or of a line

struct text {
    char *data; // NUL-terminated, may hold NULs
    size_t len;
};
// A file, or standard input when path is NULL, of at most limit bytes. On failure the error has
// been printed and the exit code is returned.
int text_read(const char *path, size_t limit, struct text *out);
// The same for a text that a parser reads: without the byte order mark that some editors write.
int source_read(const char *path, size_t limit, struct text *out);
void text_skip_mark(struct text *text);
// Which option gives the text: the command line's when it names any, else the environment's;
// OPT_COUNT for standard input. More than one is an error (printed).
int text_source(const struct options *options, enum option_id *out);
// The text that -p, -f or standard input gives, and its source; with --prompt-ids or --messages out
// stays empty.
int text_from_options(const struct options *options, enum option_id *source, struct text *out);
// A copy that is valid UTF-8: each bad byte becomes U+FFFD. False: out of memory.
bool text_sound(const char *data, size_t len, struct text *out);
void text_free(struct text *text);
// Length of the valid UTF-8 character at data, or 0.
int utf8_char_len(const char *data, size_t len);

// The processor's name, or "".
void app_cpu_name(char *out, size_t size);

// Says that these formats run without a tuned kernel; "": says nothing.
void app_warn_slow(bool quiet, const char *formats, const char *isa);

// Says that these are more threads than the process has cores.
void app_warn_threads(int n_threads);

// "cpu avx2, 2 threads, kv f16"; of a device with a name "cuda NVIDIA H200, kv f16": the host's
// threads do not compute there. n_threads 0: they are not said.
struct app_place {
    char text[160];
};
struct app_place app_place(const char *backend, const char *isa, const char *device, int n_threads,
                           const char *kv_type);

#endif
