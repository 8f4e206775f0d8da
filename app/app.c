// Messages, model opening and text reading for all commands. Messages are one line on stderr and
// start with the program's name.
#include "app.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/synthetic.h"
#include "helpers.h"
#include "models/find.h"

// Values in messages come from users and files: they must not break the line or drive the terminal.
static void line_sanitize(char *line) {
    size_t len = strlen(line);
    char *to = line;
    for (const char *from = line; len > 0;) {
        const int n = utf8_char_len(from, len);
        const unsigned char c = (unsigned char)*from;
        const bool c1 = n == 2 && c == 0xc2 && (unsigned char)from[1] < 0xa0;
        if (n == 0 || c1 || (n == 1 && (c < 0x20 || c == 0x7f))) {
            *to++ = '?';
        } else {
            memmove(to, from, (size_t)n);
            to += n;
        }
        from += n ? n : 1;
        len -= n ? (size_t)n : 1;
    }
    *to = '\0';
}

static _Thread_local struct {
    char *buffer;
    size_t size;
} listener;

void app_fail_listen(char *buffer, size_t size) {
    listener.buffer = buffer;
    listener.size = size;
}

int app_fail(int code, const char *fmt, ...) {
    char line[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    line_sanitize(line);
    if (listener.buffer) {
        snprintf(listener.buffer, listener.size, "%s", line);
        return code;
    }
    fflush(stdout);
    fprintf(stderr, "runnel: %s\n", line);
    return code;
}

struct app_short app_short(const char *text) {
    struct app_short out;
    const size_t len = strlen(text), room = sizeof out.text - 4;
    size_t kept = 0;
    while (kept < len) {
        const int n = utf8_char_len(text + kept, len - kept);
        if (kept + (n ? (size_t)n : 1) > room) break;
        kept += n ? (size_t)n : 1;
    }
    memcpy(out.text, text, kept);
    memcpy(out.text + kept, kept < len ? "..." : "", kept < len ? 4 : 1);
    return out;
}

int app_fail_error(const rn_error *err) {
    switch (err->status) {
    case RN_ERR_MODEL:
    case RN_ERR_UNSUPPORTED:
    case RN_ERR_ARG:
    case RN_ERR_CONTEXT:
        return app_fail(APP_USAGE, "%s", err->message);
    default:
        return app_fail(APP_FAILED, "%s", err->message);
    }
}

int app_fail_write(const char *what, int error_number) {
    if (error_number == EPIPE) return APP_FAILED;
    return app_fail(APP_FAILED, "%s: %s", what, strerror(error_number));
}

int app_fail_output(const struct options *options, enum option_id option, const char *path,
                    int error_number) {
    char name[OPTION_NAME_SIZE];
    return app_fail(APP_USAGE, "%s: %s: %s", option_name(options, option, name), err_path(path),
                    strerror(error_number));
}

// stdio remembers that an earlier write failed, but not why. The text is incomplete by then, so one
// more byte is written: it fails for the same reason.
static int output_error(void) {
    errno = 0;
    return write(STDOUT_FILENO, "\n", 1) < 0 && errno ? errno : EIO;
}

int app_belongs(const struct options *options, enum option_id option, enum option_id owner) {
    char a[OPTION_NAME_SIZE], b[OPTION_NAME_SIZE];
    if (options->value[option].origin != ORIGIN_COMMAND_LINE || option_given(options, owner))
        return APP_OK;
    return app_fail(APP_USAGE, "%s belongs to %s, which is missing",
                    option_name(options, option, a), option_name(options, owner, b));
}

int app_flush_output(void) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return APP_OK;
    return app_fail_write("standard output", errno ? errno : output_error());
}

int app_open_model(const struct options *options, bool vocab_only, rn_model **out) {
    const char *given = option_text(options, OPT_MODEL),
               *shape = option_text(options, OPT_SYNTHETIC);
    char name[64], *path = NULL;
    rn_error err = {0};
    rn_status status;
    if (given && shape)
        return app_fail(APP_USAGE, "%s: --model names another model",
                        option_name(options, OPT_SYNTHETIC, name));
    const int found = given ? model_path_find(given, false, &path) : APP_OK;
    if (found) return found;
    if (shape) {
        status = synthetic_open(shape, out, &err);
    } else if (!path) {
        status = rn_model_open_memory(EMBEDDED_NAME, embedded_model,
                                      (size_t)(embedded_model_end - embedded_model), out, &err);
    } else {
        status = vocab_only ? rn_model_open_vocab(path, out, &err) : rn_model_open(path, out, &err);
    }
    free(path);
    if (status == RN_OK) return APP_OK;
    const int code = app_fail_error(&err);
    return status == RN_ERR_IO ? APP_USAGE : code; // a model that cannot be read is a bad -m
}

// ---------------------------------------------------------------- text

static int too_long(const char *name, size_t limit) {
    return app_fail(APP_USAGE, "%s: is longer than the limit of %zu MiB", name, limit >> 20);
}

// Reads to the end, but never more than one byte beyond the limit.
static int stream_read(FILE *file, const char *name, size_t limit, struct text *out) {
    struct stat info;
    if (fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode) &&
        (uint64_t)info.st_size > limit) {
        return too_long(name, limit);
    }
    size_t cap = 1 << 16;
    *out = (struct text){.data = malloc(cap)};
    while (out->data) {
        out->len += fread(out->data + out->len, 1, cap - out->len - 1, file);
        if (out->len < cap - 1 || out->len > limit) break;
        cap = 2 * cap < limit + 2 ? 2 * cap : limit + 2;
        char *bigger = realloc(out->data, cap);
        if (!bigger) text_free(out);
        out->data = bigger;
    }
    if (!out->data) return app_fail(APP_FAILED, "%s: out of memory", name);
    if (ferror(file)) {
        const int error_number = errno;
        text_free(out);
        return app_fail(APP_USAGE, "%s: %s", name, strerror(error_number));
    }
    if (out->len > limit) {
        text_free(out);
        return too_long(name, limit);
    }
    out->data[out->len] = '\0';
    return APP_OK;
}

int text_read(const char *path, size_t limit, struct text *out) {
    *out = (struct text){0};
    if (!path) return stream_read(stdin, "standard input", limit, out);
    FILE *file = fopen(path, "rb");
    if (!file) return app_fail(APP_USAGE, "%s: %s", err_path(path), strerror(errno));
    const int code = stream_read(file, err_path(path), limit, out);
    fclose(file);
    return code;
}

void text_skip_mark(struct text *text) {
    static const char mark[] = "\xEF\xBB\xBF";
    const size_t len = sizeof mark - 1;
    if (text->len < len || memcmp(text->data, mark, len) != 0) return;
    text->len -= len;
    memmove(text->data, text->data + len, text->len);
    text->data[text->len] = '\0';
}

int source_read(const char *path, size_t limit, struct text *out) {
    const int code = text_read(path, limit, out);
    if (!code) text_skip_mark(out);
    return code;
}

void text_free(struct text *text) {
    free(text->data);
    *text = (struct text){0};
}

int text_source(const struct options *options, enum option_id *out) {
    static const enum option_id sources[] = {OPT_PROMPT, OPT_FILE, OPT_PROMPT_IDS, OPT_MESSAGES};
    *out = OPT_COUNT;
    for (enum option_origin origin = ORIGIN_COMMAND_LINE; origin > ORIGIN_NONE; origin--) {
        for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
            if (options->value[sources[i]].origin != origin) continue;
            if (*out != OPT_COUNT) {
                char a[64], b[64];
                return app_fail(APP_USAGE, "%s and %s exclude each other",
                                option_name(options, *out, a), option_name(options, sources[i], b));
            }
            *out = sources[i];
        }
        if (*out != OPT_COUNT) break;
    }
    return APP_OK;
}

int text_from_options(const struct options *options, enum option_id *source, struct text *out) {
    *out = (struct text){0};
    const int code = text_source(options, source);
    if (code || *source == OPT_PROMPT_IDS || *source == OPT_MESSAGES) return code;
    if (*source == OPT_PROMPT) {
        const char *text = option_text(options, OPT_PROMPT);
        *out = (struct text){.data = strdup(text), .len = strlen(text)};
        return out->data ? APP_OK : app_fail(APP_FAILED, "out of memory");
    }
    return text_read(*source == OPT_FILE ? option_text(options, OPT_FILE) : NULL, TEXT_LIMIT, out);
}

int utf8_char_len(const char *data, size_t len) {
    size_t n = 0;
    if (len == 0 || unicode_scan((const uint8_t *)data, len, &n) != UNICODE_WELL) return 0;
    return (int)n;
}

bool text_sound(const char *data, size_t len, struct text *out) {
    *out = (struct text){.data = malloc(3 * len + 1)};
    if (!out->data) return false;
    for (size_t i = 0; i < len;) {
        const int n = utf8_char_len(data + i, len - i);
        memcpy(out->data + out->len, n ? data + i : "\xef\xbf\xbd", n ? (size_t)n : 3);
        out->len += n ? (size_t)n : 3;
        i += n ? (size_t)n : 1;
    }
    out->data[out->len] = '\0';
    return true;
}

void app_cpu_name(char *out, size_t size) {
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");
    *out = '\0';
    while (file && !*out && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
    }
    if (file) fclose(file);
}

void app_warn_slow(bool quiet, const char *formats, const char *isa) {
    if (quiet || !*formats) return;
    fprintf(stderr, "runnel: warning: no kernel for %s on %s: the plain reference runs, slowly\n",
            formats, isa);
}

void app_warn_threads(int n_threads) {
    const int n_cores = cores_usable();
    if (n_threads <= n_cores) return;
    fprintf(stderr,
            "runnel: warning: %d threads on %d core%s: they wait for each other; without --threads "
            "there is one for each core\n",
            n_threads, n_cores, n_cores == 1 ? "" : "s");
}

struct app_place app_place(const char *backend, const char *isa, const char *device, int n_threads,
                           const char *kv_type) {
    struct app_place out;
    char threads[32] = "";
    if (n_threads && !*device)
        snprintf(threads, sizeof threads, ", %d thread%s", n_threads, n_threads == 1 ? "" : "s");
    snprintf(out.text, sizeof out.text, "%.40s %.64s%s, kv %.16s", backend, *device ? device : isa,
             threads, kv_type);
    return out;
}
