// The loop over engine steps, and Ctrl-C. The signal flag is the program's one mutable static: a
// handler has nothing else to write to.
#include "drive.h"

#include <signal.h>
#include <string.h>

enum { DEFAULT_BATCH_TOKENS = 512, LOGIT_BUFFER_BYTES = 256 << 20 };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

void interrupt_watch(void) {
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    action.sa_flags = (int)SA_RESETHAND | SA_RESTART;
    sigaction(SIGINT, &action, NULL);
}

bool interrupt_seen(void) { return interrupted != 0; }

void drive_engine_options(const struct options *options, rn_engine_options *out) {
    const char *isa = option_text(options, OPT_ISA);
    *out = (rn_engine_options){
        .isa = isa && strcmp(isa, "auto") ? isa : NULL,
        .kv_type = option_text(options, OPT_KV_TYPE),
        .n_threads = option_int(options, OPT_THREADS, 0),
        .n_ctx = option_int(options, OPT_CTX, 0),
        .batch_tokens = option_int(options, OPT_BATCH_TOKENS, 0),
    };
}

int drive_logit_rows(const rn_engine_options *options, int n_vocab) {
    const int wanted = options->batch_tokens ? options->batch_tokens : DEFAULT_BATCH_TOKENS;
    const int fitting = LOGIT_BUFFER_BYTES / 4 / (n_vocab > 0 ? n_vocab : 1);
    const int rows = wanted < fitting ? wanted : fitting;
    return rows > 0 ? rows : 1;
}

struct drive {
    rn_engine *engine;
    uint64_t id;
    drive_event_fn on_event;
    void *ctx;
    bool finished;
    rn_status failure; // of a request that ended with an error
};

// Hands out the events of the last step; cancels when the receiver or the user has had enough. The
// last event then comes with the cancel or with the next step.
static void events_take(struct drive *drive) {
    bool wanted = !interrupt_seen();
    for (rn_event event; !drive->finished && rn_engine_next_event(drive->engine, &event);) {
        if (event.request != drive->id) continue;
        if (event.finish != RN_FINISH_NONE) drive->finished = true;
        if (event.finish == RN_FINISH_ERROR) drive->failure = event.status;
        if (!drive->on_event(drive->ctx, &event)) wanted = false;
    }
    if (!drive->finished && !wanted) rn_engine_cancel(drive->engine, drive->id);
}

int drive_request(rn_engine *engine, const rn_request *request, drive_event_fn on_event,
                  void *ctx) {
    struct drive drive = {.engine = engine, .on_event = on_event, .ctx = ctx};
    rn_error err = {0};
    if (rn_engine_submit(engine, request, &drive.id, &err) != RN_OK) return app_fail_error(&err);
    while (!drive.finished) {
        bool busy = false;
        const rn_status status = rn_engine_step(engine, &busy);
        if (status != RN_OK) return app_fail(APP_FAILED, "%s", rn_status_text(status));
        events_take(&drive);
        if (!busy && !drive.finished) return app_fail(APP_FAILED, "the engine lost the request");
    }
    if (drive.failure) return app_fail(APP_FAILED, "%s", rn_status_text(drive.failure));
    return APP_OK;
}
