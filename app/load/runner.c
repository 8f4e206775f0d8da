// The load loop. A stream is a connection with the conversation that it serves:
//   FREE -> BUSY (a request runs) -> THINKING (between turns) -> BUSY ... -> FREE
// Conversations start when a stream is free (closed) or when they arrive (open); an arrival that
// finds no free stream waits. Invariant: a request's record is added exactly once, at its end;
// requests that Ctrl-C cuts off have none.
#define _GNU_SOURCE 1
#include "load/runner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "client/sse.h"
#include "helpers.h"
#include "load/event.h"
#include "terminal/interrupt.h"

enum { EVENTS = 256, WAIT_MS = 100, FAULT_BODY_MAX = 1 << 14, HOPELESS = 200 };

enum stream_state { STREAM_FREE, STREAM_BUSY, STREAM_THINKING };

struct stream {
    struct run *run;
    enum stream_state state;
    struct client_connection connection;
    bool is_open;        // the connection has a socket
    unsigned registered; // events that epoll waits for; 0: it does not know the socket
    bool retried;        // the request was sent again after a connection that had ended
    int conversation, turn;
    uint64_t due_ns; // of the next turn
    struct sse sse;
    struct jbuf history; // chat: messages with commas between; else the text so far
    struct jbuf request, answer;
    struct jbuf gaps;  // floats, ms
    uint64_t piece_ns; // of the last piece
    struct load_record record;
    bool finished; // [DONE] or a finish_reason came
    char fault[LOAD_FAULT_READ];
};

struct run {
    const struct load_job *job;
    const struct load_config *config;
    struct load_records *records;
    struct stream **stream; // [n_streams], made when they are first needed
    int n_streams, n_busy, n_thinking;
    int epoll_fd;
    int started, conversations; // so far; in all
    uint64_t start_ns, last_ns;
    double arrival_s; // of the next conversation
    uint64_t arrival_state;
    int n_silent; // requests without an answer since the last one with an answer
    bool failed;  // out of memory
};

static uint64_t deadline_of(const struct run *run) {
    const double seconds = run->config->duration_s;
    return seconds > 0 ? run->start_ns + (uint64_t)(seconds * 1e9) : UINT64_MAX;
}

// ---------------------------------------------------------------- streams

static void stream_destroy(struct stream *stream) {
    if (!stream) return;
    if (stream->is_open) client_connection_close(&stream->connection);
    sse_deinit(&stream->sse);
    jbuf_deinit(&stream->history);
    jbuf_deinit(&stream->request);
    jbuf_deinit(&stream->answer);
    jbuf_deinit(&stream->gaps);
    free(stream);
}

static struct stream *stream_create(struct run *run) {
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream) return NULL;
    stream->run = run;
    sse_init(&stream->sse);
    return stream;
}

// A free stream, if possible with a connection; NULL: all are busy, or out of memory (failed).
static struct stream *stream_find(struct run *run) {
    struct stream *best = NULL;
    for (int i = 0; i < run->n_streams; i++) {
        struct stream *stream = run->stream[i];
        if (stream->state != STREAM_FREE) continue;
        if (stream->is_open) return stream;
        if (!best) best = stream;
    }
    if (best || run->n_streams == run->job->concurrency) return best;
    best = stream_create(run);
    if (best)
        run->stream[run->n_streams++] = best;
    else
        run->failed = true;
    return best;
}

static void connection_drop(struct stream *stream) {
    if (stream->is_open) client_connection_close(&stream->connection); // epoll forgets it
    stream->is_open = false;
    stream->registered = 0;
}

// Tells epoll what the connection waits for.
static void connection_register(struct stream *stream) {
    const unsigned wanted = stream->connection.events;
    if (!stream->is_open || wanted == stream->registered) return;
    struct epoll_event event = {.events = wanted, .data.ptr = stream};
    const int op = stream->registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(stream->run->epoll_fd, op, stream->connection.fd, &event) == 0)
        stream->registered = wanted;
    else
        stream->run->failed = true;
}

// ---------------------------------------------------------------- what arrives

static void gap_add(struct stream *stream, float ms) {
    jbuf_bytes(&stream->gaps, (const char *)&ms, sizeof ms);
}

static void number_take(int *to, int value) {
    if (value >= 0) *to = value;
}

static void on_event(void *ctx, const char *data, size_t len) {
    struct stream *stream = ctx;
    struct load_record *record = &stream->record;
    const uint64_t now = stream->connection.read_ns;
    struct load_event event;
    const bool keep = stream->run->config->turns > 1;
    load_event_read(data, len, keep ? &stream->answer : NULL, &event);
    if (event.fault[0] && !stream->fault[0])
        snprintf(stream->fault, sizeof stream->fault, "%s", event.fault);
    stream->finished |= event.done || event.finished;
    if (event.done) return;
    if (event.has_text) {
        if (record->n_pieces++)
            gap_add(stream, (float)((double)(now - stream->piece_ns) * 1e-6));
        else
            record->first_ns = now;
        stream->piece_ns = now;
    }
    number_take(&record->input_tokens, event.input_tokens);
    number_take(&record->output_tokens, event.output_tokens);
    number_take(&record->cached_tokens, event.cached_tokens);
    number_take(&record->draft_tokens, event.draft_tokens);
    number_take(&record->draft_accepted, event.draft_accepted);
    record->last_ns = now;
}

static void on_body(void *ctx, const char *data, size_t len) {
    struct stream *stream = ctx;
    const struct response *response = &stream->connection.response;
    if (response->status == 200 && !strcmp(response->type, "text/event-stream")) {
        sse_feed(&stream->sse, data, len, on_event, stream);
    } else if (stream->answer.len < FAULT_BODY_MAX) {
        jbuf_bytes(&stream->answer, data, len);
    }
}

// ---------------------------------------------------------------- a request's start

// The user's text of a turn: the common start, the blocks of a trace, then words of its own.
static void turn_words(struct stream *stream, int input, struct jbuf *out) {
    const struct run *run = stream->run;
    const struct load_config *config = run->config;
    const struct load_words *words = &run->job->target->words;
    const bool ids = config->prompt_ids;
    const uint64_t seed = run->job->seed;
    int left = words_for(words, input, stream->turn == 0);
    if (config->trace.n) {
        const struct arrival *arrival = &config->trace.item[stream->conversation];
        const int block = words_for(words, ARRIVALS_BLOCK, false);
        for (int i = 0; i < arrival->n_blocks && left > 0; i++, left -= block) {
            const uint64_t id = (uint64_t)config->trace.block[arrival->first_block + i];
            target_words_write(words, draw_seed(seed, 1, id), left < block ? left : block, ids,
                               out);
        }
    } else if (config->prefix && stream->turn == 0) {
        const int prefix = words_for(words, config->prefix, false);
        const int shared = prefix < left ? prefix : left - 1;
        const uint64_t group = (uint64_t)(stream->conversation % config->groups);
        target_words_write(words, draw_seed(seed, 2, group), shared, ids, out);
        left -= shared;
    }
    if (left > 0)
        target_words_write(
            words,
            draw_seed(seed, 3, ((uint64_t)stream->conversation << 16) | (uint64_t)stream->turn),
            left, ids, out);
}

// The request's input, from the conversation so far; the new text becomes a part of it.
static void input_make(struct stream *stream, int input, struct jbuf *out) {
    const struct load_config *config = stream->run->config;
    struct jbuf text = {0};
    turn_words(stream, input, &text);
    if (config->prompt_ids) {
        jbuf_text(out, "[");
        jbuf_bytes(out, text.data, text.len);
        jbuf_text(out, "]");
    } else if (config->chat) {
        if (stream->history.len) jbuf_text(&stream->history, ",");
        jbuf_text(&stream->history, "{\"role\":\"user\",\"content\":");
        jbuf_string(&stream->history, text.data, text.len);
        jbuf_text(&stream->history, "}");
        jbuf_text(out, "[");
        jbuf_bytes(out, stream->history.data, stream->history.len);
        jbuf_text(out, "]");
    } else {
        if (stream->history.len) jbuf_text(&stream->history, " ");
        jbuf_bytes(&stream->history, text.data, text.len);
        jbuf_string(out, stream->history.data, stream->history.len);
    }
    out->failed |= text.failed || stream->history.failed;
    jbuf_deinit(&text);
}

static void request_make(struct stream *stream) {
    struct run *run = stream->run;
    const struct load_config *config = run->config;
    struct jbuf input = {0}, body = {0};
    uint64_t state = draw_seed(run->job->seed, 4,
                               ((uint64_t)stream->conversation << 16) | (uint64_t)stream->turn);
    int n_input = dist_draw(&config->input, &state), n_output = dist_draw(&config->output, &state);
    if (config->trace.n) {
        n_input = config->trace.item[stream->conversation].input;
        n_output = config->trace.item[stream->conversation].output;
    }
    stream->record = (struct load_record){.planned_input = n_input,
                                          .input_tokens = -1,
                                          .output_tokens = -1,
                                          .cached_tokens = -1,
                                          .draft_tokens = -1,
                                          .draft_accepted = -1};
    input_make(stream, n_input, &input);
    body_write(config, run->job->target, &input, n_output, true, &body);
    jbuf_clear(&stream->request);
    client_request_write(&stream->request, &run->job->target->endpoint, "POST",
                         run->job->target->headers, body.data, body.len);
    if (input.failed || body.failed || stream->request.failed) run->failed = true;
    jbuf_deinit(&input);
    jbuf_deinit(&body);
}

static void request_send(struct stream *stream) {
    struct client_connection *c = &stream->connection;
    if (!stream->is_open) {
        client_connection_open(c, &stream->run->job->target->host, 0);
        stream->is_open = true;
    }
    client_connection_send(c, stream->request.data, stream->request.len, false, on_body, stream);
}

static void stream_step(struct stream *stream);

static void request_start(struct stream *stream) {
    struct run *run = stream->run;
    request_make(stream);
    if (run->failed) return;
    sse_deinit(&stream->sse);
    sse_init(&stream->sse);
    jbuf_clear(&stream->answer);
    jbuf_clear(&stream->gaps);
    stream->fault[0] = '\0';
    stream->finished = stream->retried = false;
    stream->state = STREAM_BUSY;
    run->n_busy++;
    stream->record.start_ns = clock_ns();
    request_send(stream);
    stream_step(stream);
}

// ---------------------------------------------------------------- a request's end

static void fault_of(struct stream *stream) {
    const struct client_connection *c = &stream->connection;
    const struct response *response = &c->response;
    char text[LOAD_FAULT_READ - 32] = "";
    if (stream->fault[0]) return;
    if (c->state == CONNECTION_FAILED) {
        snprintf(stream->fault, sizeof stream->fault, "%.*s", LOAD_FAULT_READ - 1, c->error);
    } else if (response->status != 200) {
        load_fault_text(stream->answer.data ? stream->answer.data : "", stream->answer.len, text,
                        sizeof text);
        snprintf(stream->fault, sizeof stream->fault, "status %d: %s", response->status, text);
    } else if (strcmp(response->type, "text/event-stream") != 0) {
        snprintf(stream->fault, sizeof stream->fault,
                 "the answer is not an event stream but '%.60s'", response->type);
    } else if (stream->sse.error) {
        snprintf(stream->fault, sizeof stream->fault, "%s", stream->sse.error);
    } else if (!stream->finished) {
        snprintf(stream->fault, sizeof stream->fault, "the stream ended before [DONE]");
    } else if (!stream->record.n_pieces) {
        snprintf(stream->fault, sizeof stream->fault, "the stream brought no text");
    }
}

static void record_add(struct stream *stream) {
    struct run *run = stream->run;
    struct load_record *record = &stream->record;
    fault_of(stream);
    record->ok = !stream->fault[0];
    if (stream->gaps.failed || stream->answer.failed) run->failed = true;
    if (record->ok && record->n_pieces > 1) {
        record->gap_ms = (float *)(void *)stream->gaps.data; // the record takes the bytes over
        stream->gaps = (struct jbuf){0};
    }
    if (!load_records_add(run->records, record)) {
        free(record->gap_ms);
        run->failed = true;
    }
    if (!record->ok) load_records_fault(run->records, stream->fault);
    run->n_silent = stream->connection.response.status ? 0 : run->n_silent + 1;
    run->last_ns = clock_ns();
}

// The answer becomes a part of the conversation, and its next turn is due after the thinking.
static void turn_next(struct stream *stream) {
    struct run *run = stream->run;
    if (run->config->chat) {
        jbuf_text(&stream->history, ",{\"role\":\"assistant\",\"content\":");
        jbuf_string(&stream->history, stream->answer.data, stream->answer.len);
        jbuf_text(&stream->history, "}");
    } else {
        jbuf_bytes(&stream->history, stream->answer.data, stream->answer.len);
    }
    stream->turn++;
    stream->due_ns = clock_ns() + (uint64_t)(run->config->think_s * 1e9);
    stream->state = STREAM_THINKING;
    run->n_thinking++;
}

static void request_end(struct stream *stream) {
    struct run *run = stream->run;
    run->n_busy--;
    record_add(stream);
    if (stream->connection.state != CONNECTION_IDLE) connection_drop(stream);
    stream->state = STREAM_FREE;
    const bool more = stream->turn + 1 < run->config->turns && run->records->n < run->job->requests;
    if (stream->record.ok && more && !run->config->trace.n && clock_ns() < deadline_of(run))
        turn_next(stream);
}

static void stream_step(struct stream *stream) {
    struct client_connection *c = &stream->connection;
    enum connection_state state = client_connection_step(c);
    if (stream->state == STREAM_BUSY && client_connection_was_stale(c) && !stream->retried) {
        stream->retried = true;
        connection_drop(stream);
        request_send(stream);
        state = client_connection_step(c); // it may fail at once
    }
    if (stream->state != STREAM_BUSY) {
        if (state != CONNECTION_IDLE) connection_drop(stream); // the server ended it meanwhile
    } else if (!c->has_request || state == CONNECTION_FAILED || state == CONNECTION_CLOSED ||
               stream->sse.error) {
        request_end(stream);
    }
    connection_register(stream);
}

// ---------------------------------------------------------------- the loop

// Requests that take too long fail; streams whose thinking is over continue. The earliest later
// time.
static uint64_t streams_check(struct run *run) {
    const uint64_t now = clock_ns(), patience = (uint64_t)(run->config->timeout_s * 1e9);
    uint64_t next = UINT64_MAX;
    for (int i = 0; i < run->n_streams && !run->failed; i++) {
        struct stream *stream = run->stream[i];
        if (stream->state == STREAM_BUSY && patience && now - stream->record.start_ns >= patience) {
            snprintf(stream->fault, sizeof stream->fault, "no end within %g s",
                     run->config->timeout_s);
            connection_drop(stream);
            stream->connection.state = CONNECTION_CLOSED;
            request_end(stream);
        } else if (stream->state == STREAM_THINKING) {
            if (stream->due_ns <= now) {
                run->n_thinking--;
                stream->state = STREAM_FREE;
                request_start(stream);
            } else if (stream->due_ns < next) {
                next = stream->due_ns;
            }
        }
    }
    return next;
}

static bool is_open_load(const struct run *run) { return run->job->rate > 0 || run->job->trace; }

// When the next conversation arrives: at once in a closed load.
static uint64_t arrival_ns(const struct run *run) {
    if (!is_open_load(run)) return 0;
    return run->start_ns + (uint64_t)(run->arrival_s * 1e9);
}

static void arrival_advance(struct run *run) {
    const struct load_config *config = run->config;
    if (run->job->trace) {
        const struct arrival *item = config->trace.item;
        if (run->started < run->conversations)
            run->arrival_s = (item[run->started].at_s - item[0].at_s) / config->speedup;
    } else if (run->job->rate > 0) {
        run->arrival_s += draw_gap(run->job->rate, config->poisson, &run->arrival_state);
    }
}

// A server that fails every request, or has gone, is not asked for as long as the load would take.
static bool is_hopeless(const struct run *run) {
    const struct load_records *records = run->records;
    return run->n_silent >= HOPELESS || (records->n >= HOPELESS && records->n_failed == records->n);
}

static bool is_over(const struct run *run) {
    return run->failed || interrupt_seen() || is_hopeless(run);
}

// Conversations that are due. The time of the next one; UINT64_MAX: there is none, or no free
// stream.
static uint64_t conversations_start(struct run *run) {
    // requests may fail at once, so the loop's ends are this one's too
    while (run->started < run->conversations && !is_over(run)) {
        const uint64_t now = clock_ns(), due = arrival_ns(run);
        if (now >= deadline_of(run)) run->conversations = run->started;
        if (due > now || run->started == run->conversations) return due;
        struct stream *stream = stream_find(run);
        if (!stream) break;
        stream->conversation = run->started++;
        stream->turn = 0;
        jbuf_clear(&stream->history);
        arrival_advance(run);
        request_start(stream);
    }
    return UINT64_MAX;
}

static int wait_ms(uint64_t until_ns) {
    const uint64_t now = clock_ns();
    if (until_ns <= now) return 0;
    const uint64_t ms = (until_ns - now) / 1000000 + 1;
    return ms < WAIT_MS ? (int)ms : WAIT_MS;
}

// The nearer of the two ends, in thousandths.
static void progress_tell(const struct run *run) {
    const double elapsed_s = (double)(clock_ns() - run->start_ns) * 1e-9;
    const double requests = (double)run->records->n / run->job->requests;
    const double time = run->config->duration_s > 0 ? elapsed_s / run->config->duration_s : 0;
    const double share = requests > time ? requests : time;
    if (run->job->progress)
        progress_update(run->job->progress, (uint64_t)(1000 * (share < 1 ? share : 1)), 1000);
}

static void loop(struct run *run) {
    struct epoll_event events[EVENTS];
    while (!is_over(run)) {
        progress_tell(run);
        const uint64_t turn = streams_check(run), arrival = conversations_start(run);
        if (run->n_busy + run->n_thinking == 0 && run->started == run->conversations) break;
        const int n =
            epoll_wait(run->epoll_fd, events, EVENTS, wait_ms(turn < arrival ? turn : arrival));
        for (int i = 0; i < n && !run->failed; i++) stream_step(events[i].data.ptr);
    }
}

int load_run(const struct load_job *job, struct load_records *out) {
    const struct load_config *config = job->config;
    struct run run = {.job = job, .config = config, .records = out, .start_ns = clock_ns()};
    run.conversations = (job->requests + config->turns - 1) / config->turns;
    if (job->trace && config->trace.n < run.conversations) run.conversations = config->trace.n;
    run.arrival_state = draw_seed(job->seed, 5, 0);
    run.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (run.epoll_fd < 0) return app_fail(APP_FAILED, "epoll: %s", strerror(errno));
    run.stream = calloc((size_t)job->concurrency, sizeof *run.stream);
    run.failed = !run.stream;
    run.last_ns = run.start_ns;
    loop(&run);
    out->duration_s = (double)(run.last_ns - run.start_ns) * 1e-9;
    for (int i = 0; run.stream && i < run.n_streams; i++) stream_destroy(run.stream[i]);
    free(run.stream);
    close(run.epoll_fd);
    return run.failed ? app_fail(APP_FAILED, "out of memory or of sockets") : APP_OK;
}
