// The file of --logits.
#include "inspect/logits.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "terminal/interrupt.h"
#include "tools.h"

static bool same_file(const struct stat *a, const struct stat *b) {
    return S_ISREG(a->st_mode) && a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

// A model may have several files, all of them open.
static bool is_model_file(const struct weights *weights, const struct stat *target) {
    const char *path = weights_path(weights), *folder = weights_folder(weights);
    const char *slash = strrchr(path, '/');
    for (int i = 0; i < weights_file_count(weights); i++) {
        char file[4096];
        struct stat info;
        const char *name = weights_file_at(weights, i);
        if (folder) {
            snprintf(file, sizeof file, "%s/%s", folder, name);
        } else {
            snprintf(file, sizeof file, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, name);
        }
        if (stat(file, &info) == 0 && same_file(target, &info)) return true;
    }
    return false;
}

int output_check(const struct options *options, const rn_model *model, enum option_id option,
                 const char *path) {
    static const enum option_id inputs[] = {OPT_MODEL, OPT_FILE, OPT_MESSAGES, OPT_TOOLS,
                                            OPT_CHAT_TEMPLATE};
    struct stat target, input;
    char name[64], other[64];
    if (stat(path, &target) != 0) return APP_OK;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        const char *input_path = option_text(options, inputs[i]);
        if (input_path && stat(input_path, &input) == 0 && same_file(&target, &input)) {
            return app_fail(APP_USAGE, "%s: '%s' is the file that %s reads",
                            option_name(options, option, name), app_short(path).text,
                            option_name(options, inputs[i], other));
        }
    }
    if (is_model_file(tools_weights(model), &target)) {
        return app_fail(APP_USAGE, "%s: '%s' is a file of the model",
                        option_name(options, option, name), app_short(path).text);
    }
    if (fstat(STDIN_FILENO, &input) == 0 && same_file(&target, &input)) {
        return app_fail(APP_USAGE, "%s: '%s' is the file that standard input reads",
                        option_name(options, option, name), app_short(path).text);
    }
    return APP_OK;
}

// An existing file is opened as it is; only a file with a new name is regarded as created.
static int descriptor_open(const char *path, bool *created) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT) return fd;
    fd = open(path, O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, 0666);
    *created = fd >= 0;
    // O_EXCL fails on a dangling symbolic link
    return fd < 0 && errno == EEXIST ? open(path, O_WRONLY | O_CLOEXEC | O_CREAT, 0666) : fd;
}

int logits_open(struct logits_file *logits, const struct options *options, const rn_model *model) {
    const char *path = option_text(options, OPT_LOGITS);
    *logits = (struct logits_file){.path = path};
    if (!path) return APP_OK;
    const int code = output_check(options, model, OPT_LOGITS, path);
    if (code) return code;
    // Ctrl-C between the two would leave the file
    sigset_t interrupt, before;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt, &before);
    const int fd = descriptor_open(path, &logits->created);
    const int open_errno = errno;
    if (fd >= 0 && logits->created) interrupt_removes(path);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = open_errno;
    logits->file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (logits->file) return APP_OK;
    const int error_number = errno;
    if (fd >= 0) close(fd);
    if (logits->created) unlink(path);
    return app_fail_output(options, OPT_LOGITS, path, error_number);
}

static bool begin(struct logits_file *logits) {
    struct stat info;
    logits->started = true;
    interrupt_removes(NULL);
    if (fstat(fileno(logits->file), &info) != 0) return false;
    return !S_ISREG(info.st_mode) || ftruncate(fileno(logits->file), 0) == 0;
}

bool logits_write(struct logits_file *logits, const float *row, int n_vocab) {
    errno = 0;
    if (!logits->started && !begin(logits)) return false;
    return fwrite(row, sizeof *row, (size_t)n_vocab, logits->file) == (size_t)n_vocab;
}

int logits_close(struct logits_file *logits) {
    if (!logits->file) return APP_OK;
    FILE *file = logits->file;
    logits->file = NULL;
    interrupt_removes(NULL);
    errno = 0;
    const bool failed = fclose(file) != 0;
    const int error_number = errno;
    if (logits->created && !logits->started) unlink(logits->path);
    return failed ? app_fail_write(logits->path, error_number) : APP_OK;
}
