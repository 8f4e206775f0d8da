// The trace of a run is written with its end behind every piece, and the next piece overwrites that
// end. So the file is valid however the program ends.
#include "run/observe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "explain/picture.h"
#include "inspect/logits.h"

enum { STEPS_NS = 20000000 };

// ---------------------------------------------------------------- the trace

// A full disk: the file ends behind its last whole piece, whose room is enough for the end.
static void file_mend(const struct observe *observe) {
    const int fd = fileno(observe->file);
    const size_t tail = sizeof TRACE_TAIL - 1;
    if (observe->good > 0 && ftruncate(fd, observe->good) == 0)
        (void)!pwrite(fd, TRACE_TAIL, tail, observe->good);
}

static bool piece_write(void *ctx, const char *data, size_t len) {
    struct observe *observe = ctx;
    FILE *file = observe->file;
    const size_t tail = sizeof TRACE_TAIL - 1;
    if (observe->error_number) return false;
    errno = 0;
    bool ok = fwrite(data, 1, len, file) == len;
    if (ok && observe->seekable) {
        ok = fwrite(TRACE_TAIL, 1, tail, file) == tail && fflush(file) == 0 &&
             fseek(file, -(long)tail, SEEK_CUR) == 0;
    }
    if (!ok) observe->error_number = errno ? errno : EIO;
    if (ok)
        observe->good = observe->seekable ? ftell(file) : 0;
    else if (observe->seekable)
        file_mend(observe);
    return ok;
}

static void on_full(void *ctx) {
    const struct observe *observe = ctx;
    app_fail(APP_OK, "warning: %s: the trace stops at its limit of %llu MB", observe->path,
             (unsigned long long)(observe->trace.limit >> 20));
}

static int trace_file_open(struct observe *observe, const struct options *options,
                           const rn_model *model) {
    const char *path = option_text(options, OPT_TRACE);
    struct stat info;
    if (!path) return APP_OK;
    const int code = output_check(options, model, OPT_TRACE, path);
    if (code) return code;
    observe->path = path;
    observe->file = fopen(path, "we");
    if (!observe->file) return app_fail_output(options, OPT_TRACE, path, errno);
    setvbuf(observe->file, NULL, _IONBF, 0); // pieces are whole; nothing is left after a failure
    observe->seekable = fstat(fileno(observe->file), &info) == 0 && S_ISREG(info.st_mode);
    const uint64_t limit = (uint64_t)option_int(options, OPT_TRACE_LIMIT) << 20;
    if (trace_open(&observe->trace, piece_write, observe, limit)) {
        observe->trace.on_full = on_full;
        return APP_OK;
    }
    return observe->error_number ? app_fail_write(path, observe->error_number)
                                 : app_fail(APP_FAILED, "out of memory");
}

int observe_open(struct observe *observe, const struct options *options, const rn_model *model) {
    *observe = (struct observe){0};
    if (option_flag(options, OPT_EXPLAIN)) {
        observe->choice = calloc(1, sizeof *observe->choice);
        if (!observe->choice) return app_fail(APP_FAILED, "out of memory");
    }
    return trace_file_open(observe, options, model);
}

void observe_event(struct observe *observe, const rn_event *event) {
    trace_event(&observe->trace, "", event);
    if (!observe->choice || event->finish == RN_FINISH_NONE || !event->account) return;
    observe->request = event->request;
    *observe->choice = (struct record_choice){.index = event->choice,
                                              .finish = event->finish,
                                              .timings = *event->timings,
                                              .account = *event->account};
}

void observe_step(struct observe *observe, const rn_engine *engine) {
    trace_steps(&observe->trace, engine, STEPS_NS);
}

// ---------------------------------------------------------------- the explanation

static void record_get(const struct observe *observe, const struct report *report,
                       rn_engine *engine, struct record *out) {
    record_init(out, "", observe->request, report->model->path, &report->engine, report->bandwidth,
                rn_engine_peak(engine));
    out->n = out->n_choices = 1;
    out->choice = observe->choice;
}

json_t *observe_json(const struct observe *observe, const struct report *report,
                     rn_engine *engine) {
    struct record record;
    struct jbuf text = {0};
    record_get(observe, report, engine, &record);
    record_write(&text, &record);
    json_t *json = text.failed ? NULL : json_loadb(text.data, text.len, 0, NULL);
    jbuf_deinit(&text);
    return json;
}

void observe_print(const struct observe *observe, const struct report *report, rn_engine *engine,
                   const struct term *term) {
    struct record record;
    if (!observe->choice || !observe->request) return;
    record_get(observe, report, engine, &record);
    const struct picture picture = picture_on(stderr, term);
    fputc('\n', stderr);
    if (!picture_print(&picture, &record)) app_fail(APP_FAILED, "out of memory");
}

int observe_close(struct observe *observe) {
    free(observe->choice);
    observe->choice = NULL;
    if (!observe->file) return APP_OK;
    observe->seekable = false; // the end comes once more, and stays
    trace_close(&observe->trace);
    if (fclose(observe->file) != 0 && !observe->error_number) observe->error_number = errno;
    observe->file = NULL;
    return observe->error_number ? app_fail_write(observe->path, observe->error_number) : APP_OK;
}
