// An answer, event by event. Invariant: after the first failure nothing more is written, and the
// request is cancelled.
#include "run/answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "run/drive.h"

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

static void finish_keep(struct report *report, const rn_event *event) {
    report->finish = event->finish;
    report->seed = event->seed;
    if (event->timings) report->timings = *event->timings;
    if (event->stop) report->stop = strdup(event->stop);
}

static bool on_event(void *ctx, const rn_event *event) {
    struct answer *answer = ctx;
    if (event->token >= 0 && !ids_add(&answer->ids, event->token)) {
        answer->no_memory = true;
        return false;
    }
    if (event->finish != RN_FINISH_NONE) finish_keep(&answer->report, event);
    if (answer->write_error) return false;
    if (event->text_len == 0) return true;
    if (answer->kept && !text_keep(answer, event->text, event->text_len)) return false;
    if (!answer->shown) return true;
    answer->last = event->text[event->text_len - 1];
    return term_write(answer->term, event->text, event->text_len) ||
           write_failed(answer, "standard output");
}

static void on_logits(void *ctx, int position, const float *logits, int n_vocab) {
    struct answer *answer = ctx;
    (void)position; // rows come in order
    if (answer->write_error) return;
    if (!logits_write(answer->logits, logits, n_vocab)) {
        write_failed(answer, answer->logits->path);
    }
}

int answer_run(struct answer *answer, rn_engine *engine, const rn_model *model,
               rn_request *request) {
    if (answer->logits) {
        request->on_logits = on_logits;
        request->on_logits_ctx = answer;
    }
    const int code = drive_request(engine, model, request, on_event, answer);
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
