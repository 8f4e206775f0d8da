// The loop over an engine's steps, for one request. Invariant: after the first failure nothing more
// is written, and the request is cancelled.
#include "run/answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"
#include "run/wait.h"
#include "terminal/interrupt.h"

bool ids_add(struct id_list *list, int32_t id) {
    if (list->count == list->cap) {
        const size_t cap = list->cap ? 2 * list->cap : 256;
        int32_t *grown = realloc(list->id, cap * sizeof *grown);
        if (!grown) return false;
        list->id = grown;
        list->cap = cap;
    }
    list->id[list->count++] = id;
    return true;
}

static bool write_failed(struct answer *answer, const char *what) {
    answer->write_error = errno ? errno : EIO;
    answer->write_to = what;
    return false;
}

static bool text_keep(struct answer *answer, const char *data, size_t len) {
    struct text *text = &answer->text;
    if (text->len + len > answer->text_cap) {
        const size_t cap = 2 * (text->len + len) + 256;
        char *grown = realloc(text->data, cap);
        if (!grown) {
            answer->no_memory = true;
            return false;
        }
        text->data = grown;
        answer->text_cap = cap;
    }
    memcpy(text->data + text->len, data, len);
    text->len += len;
    return true;
}

void answer_show(struct answer *answer, const char *text, size_t len) {
    if (answer->write_error || len == 0) return;
    answer->last = text[len - 1];
    if (!wrap_write(&answer->wrap, answer->term, text, len))
        write_failed(answer, "standard output");
}

static void finish_keep(struct report *report, const rn_event *event) {
    report->finish = event->finish;
    report->seed = event->seed;
    if (event->timings) report->timings = *event->timings;
    if (event->stop) report->stop = strdup(event->stop);
}

// Takes one event; false: enough.
static bool event_take(struct answer *answer, const rn_event *event) {
    if (event->token >= 0 && !ids_add(&answer->ids, event->token)) {
        answer->no_memory = true;
        return false;
    }
    if (event->finish != RN_FINISH_NONE) finish_keep(&answer->report, event);
    if (answer->write_error) return false;
    if (answer->kept && event->text_len && !text_keep(answer, event->text, event->text_len))
        return false;
    if (answer->take) {
        const bool final = event->finish != RN_FINISH_NONE;
        if (!answer->take(answer->take_ctx, event->text, event->text_len, final))
            answer->no_memory = true;
    } else if (answer->shown) {
        answer_show(answer, event->text, event->text_len);
    }
    return !answer->write_error && !answer->no_memory;
}

static void on_logits(void *ctx, int position, const float *logits, int n_vocab) {
    struct answer *answer = ctx;
    (void)position; // rows come in order
    if (answer->write_error) return;
    if (!logits_write(answer->logits, logits, n_vocab)) {
        write_failed(answer, answer->logits->path);
    }
}

// ---------------------------------------------------------------- the loop

struct turn {
    rn_engine *engine;
    uint64_t id;
    bool finished;
    rn_status failure;  // of a request that ended with an error
    const char *reason; // of the shape; NULL: none
    int position;       // that it had reached
};

// Takes the events of the last step; cancels when the answer or the user has had enough. The last
// event then comes with the cancel or with the next step.
static void events_take(struct turn *turn, struct answer *answer) {
    bool wanted = !interrupt_seen();
    for (rn_event event; !turn->finished && rn_engine_next_event(turn->engine, &event);) {
        if (event.request != turn->id) continue;
        if (answer->observe) observe_event(answer->observe, &event);
        if (event.finish != RN_FINISH_NONE) turn->finished = true;
        if (event.finish == RN_FINISH_ERROR) {
            turn->failure = event.status;
            turn->reason = event.reason;
            turn->position = event.timings->prompt_tokens + event.timings->output_tokens;
        }
        if (!event_take(answer, &event)) wanted = false;
    }
    if (!turn->finished && !wanted) rn_engine_cancel(turn->engine, turn->id);
}

static int failure_print(const struct turn *turn, const struct answer *answer,
                         const rn_model *model) {
    const char *path = err_path(rn_model_get_info(model)->path);
    if (answer->progress) progress_end(answer->progress);
    if (turn->reason)
        return app_fail(APP_FAILED, "%s at position %d", turn->reason, turn->position);
    if (turn->failure == RN_ERR_NUMERIC) {
        return app_fail(APP_FAILED, "%s: the model gave no finite logit at position %d", path,
                        turn->position);
    }
    return app_fail(APP_FAILED, "%s: %s", path, rn_status_text(turn->failure));
}

static int steps_run(struct answer *answer, rn_engine *engine, const rn_model *model,
                     const rn_request *request, struct wait *wait) {
    struct turn turn = {.engine = engine};
    rn_error err = {0};
    wait_begin(wait, answer->term, !answer->is_waited, engine, request->n_prompt,
               answer->wrap.column);
    if (rn_engine_submit(engine, request, &turn.id, &err) != RN_OK) return app_fail_error(&err);
    while (!turn.finished) {
        bool busy = false;
        const rn_status status = rn_engine_step(engine, &busy);
        const rn_status health = status ? rn_engine_health(engine, &err) : RN_OK;
        if (health)
            return app_fail(APP_FAILED, "%s%s",
                            health == RN_ERR_IO ? "" : "the device was lost: ", err.message);
        if (status != RN_OK) return app_fail(APP_FAILED, "%s", rn_status_text(status));
        wait_step(wait, engine);
        events_take(&turn, answer);
        if (answer->observe) observe_step(answer->observe, engine);
        if (!busy && !turn.finished) return app_fail(APP_FAILED, "the engine lost the request");
    }
    return turn.failure ? failure_print(&turn, answer, model) : APP_OK;
}

int answer_run(struct answer *answer, rn_engine *engine, const rn_model *model,
               rn_request *request) {
    if (answer->logits) {
        request->on_logits = on_logits;
        request->on_logits_ctx = answer;
    }
    struct wait wait;
    const int code = steps_run(answer, engine, model, request, &wait);
    wait_end(&wait); // an interrupted prompt
    if (answer->term->out_tty && answer->last && answer->last != '\n') fputc('\n', stdout);
    if (answer->write_error) return app_fail_write(answer->write_to, answer->write_error);
    if (answer->no_memory) return app_fail(APP_FAILED, "out of memory");
    return code;
}

void answer_deinit(struct answer *answer) {
    free(answer->ids.id);
    text_free(&answer->text);
    free(answer->report.stop);
    *answer = (struct answer){0};
}
