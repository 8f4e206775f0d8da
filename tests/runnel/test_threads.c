// The engine's own thread under load: submitters, cancellers, a reader and a watcher at once. The
// results are those of single runs, every choice ends exactly once, and nothing is left behind.
// label: threads async
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TALE_ANY
#include "streams.h"
#include "tale.h"

enum { N_KINDS = 12, MAX_CHOICES = 3, MAX_TEXT = 1024, MAX_PROMPT = 256 };

// A kind of request, and the results of a run on its own.
struct kind {
    int32_t prompt[MAX_PROMPT];
    size_t n_prompt;
    int n;
    rn_request request;
    char text[MAX_CHOICES][MAX_TEXT];
    rn_finish finish[MAX_CHOICES];
};

// A request on its way; the reader's, but for id.
struct ticket {
    const struct kind *kind;
    _Atomic uint64_t id; // 0: not accepted yet
    char text[MAX_CHOICES][MAX_TEXT];
    size_t n_text[MAX_CHOICES];
    rn_finish finish[MAX_CHOICES];
    int n_finish, n_last; // events that said so
};

static struct kind kinds[N_KINDS];
static const char *const stops[] = {"the"};

// ---------------------------------------------------------------- requests

static void make_kind(struct kind *kind, int i) {
    static const char *const begin[] = {
        "Once upon a time", "The fox looked at the lantern, and the lantern looked at the fox. ",
        "A boat"};
    char text[600] = "";
    for (int k = 0; k <= i % 4; k++) strcat(text, begin[(i + k) % 3]); // some share a beginning
    int32_t *ids;
    size_t n;
    assert_int_equal(rn_tokenize(model, text, strlen(text), RN_TOKENIZE_BOS, &ids, &n, NULL),
                     RN_OK);
    assert_true(n <= MAX_PROMPT);
    memcpy(kind->prompt, ids, n * sizeof *ids);
    rn_free(ids);
    kind->n = 1 + (i % 5 == 1) + (i % 5 == 2);
    kind->request = (rn_request){.prompt = kind->prompt,
                                 .n_prompt = n,
                                 .n = kind->n,
                                 .max_tokens = 4 + 5 * (i % 6),
                                 .stop = i % 4 == 3 ? stops : NULL,
                                 .n_stop = i % 4 == 3,
                                 .priority = i % 3,
                                 .sampling = rn_sampling_neutral()};
    kind->request.sampling.temperature = i % 2 ? 0.9f : 0;
    kind->request.sampling.has_seed = true;
    kind->request.sampling.seed = (uint64_t)i;
}

static rn_engine *new_engine(const rn_engine_options *options) {
    return streams_engine(model, options);
}

// The same with its thread running.
static rn_engine *started(const rn_engine_options *options) {
    rn_engine *engine = new_engine(options);
    assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
    return engine;
}

static void note(struct ticket *ticket, const rn_event *event) {
    const int c = event->choice;
    check(c >= 0 && c < ticket->kind->n, "choice %d", c);
    check(!ticket->finish[c], "an event after the last one of choice %d", c);
    check(ticket->n_text[c] + event->text_len < MAX_TEXT, "%zu", event->text_len);
    memcpy(ticket->text[c] + ticket->n_text[c], event->text, event->text_len);
    ticket->n_text[c] += event->text_len;
    ticket->finish[c] = event->finish;
    ticket->n_finish += event->finish != RN_FINISH_NONE;
    ticket->n_last += event->last;
    check(event->last == (ticket->n_finish == ticket->kind->n), "%d ended, last is %d",
          ticket->n_finish, event->last);
    check(!event->finish == !event->timings, "timings come with the finish");
}

// Whether a cancelled text is how the other begins. It may end inside of a character, which is
// written as U+FFFD then.
static bool begins(const char *text, size_t n, const char *whole) {
    static const char half[] = "\xef\xbf\xbd";
    const size_t n_half = sizeof half - 1;
    if (strncmp(text, whole, n) == 0) return true;
    const bool ends_half = n >= n_half && memcmp(text + n - n_half, half, n_half) == 0;
    return ends_half && strncmp(text, whole, n - n_half) == 0;
}

// Ended as it should: as the single run did, or cancelled on the way there.
static void check_ticket(const struct ticket *ticket, bool may_be_cancelled) {
    const struct kind *kind = ticket->kind;
    assert_int_equal(ticket->n_finish, kind->n);
    assert_int_equal(ticket->n_last, 1);
    for (int c = 0; c < kind->n; c++) {
        if (ticket->finish[c] == RN_FINISH_CANCELLED && may_be_cancelled) {
            check(begins(ticket->text[c], ticket->n_text[c], kind->text[c]),
                  "'%s' is not how '%s' begins", ticket->text[c], kind->text[c]);
            continue;
        }
        assert_int_equal(ticket->finish[c], kind->finish[c]);
        assert_string_equal(ticket->text[c], kind->text[c]);
    }
}

static void submit(rn_engine *engine, struct ticket *ticket, const struct kind *kind) {
    rn_request request = kind->request;
    rn_error err = {0};
    uint64_t id = 0;
    *ticket = (struct ticket){.kind = kind};
    request.data = ticket;
    const rn_status status = rn_engine_submit(engine, &request, &id, &err);
    check(status == RN_OK, "%s", err.message);
    ticket->id = id;
}

// The same requests one after the other, by the caller's steps, on one thread.
static int run_alone(void **state) {
    if (open_model(state)) return 1;
    rn_engine *engine = new_engine(&(rn_engine_options){.n_threads = 1, .max_seqs = MAX_CHOICES});
    for (int i = 0; i < N_KINDS; i++) {
        struct ticket ticket;
        make_kind(&kinds[i], i);
        submit(engine, &ticket, &kinds[i]);
        bool busy = true;
        while (busy) {
            rn_event event;
            if (rn_engine_step(engine, &busy)) return 1;
            while (rn_engine_next_event(engine, &event)) note(&ticket, &event);
        }
        assert_int_equal(ticket.n_finish, kinds[i].n);
        memcpy(kinds[i].text, ticket.text, sizeof ticket.text);
        memcpy(kinds[i].finish, ticket.finish, sizeof ticket.finish);
    }
    rn_engine_destroy(engine);
    return 0;
}

// Collects until every one of the tickets ended, or the engine has.
static void collect(rn_engine *engine, int n_tickets) {
    rn_event event[7];
    for (int n, over = 0; over < n_tickets && (n = rn_engine_wait(engine, event, 7, -1)) > 0;)
        for (int i = 0; i < n; i++) {
            note(event[i].data, &event[i]);
            over += event[i].last;
        }
}

static void check_at_rest(const rn_engine *engine) {
    rn_engine_stats stats;
    rn_engine_get_stats(engine, &stats);
    check(stats.running == 0 && stats.waiting == 0, "%d run, %d wait", stats.running,
          stats.waiting);
    check(stats.pages_held == 0, "%u pages are held", stats.pages_held);
    check(stats.submitted == stats.stopped + stats.lengthy + stats.cancelled + stats.failed,
          "%llu were submitted", (unsigned long long)stats.submitted);
}

// ---------------------------------------------------------------- load

enum { N_EACH = TEST_IS_SLOW ? 10 : 60 };
enum { N_SUBMITTERS = 4, N_CANCELLERS = 2, N_TICKETS = N_SUBMITTERS * N_EACH };

struct load {
    rn_engine *engine;
    struct ticket ticket[N_TICKETS];
    _Atomic int n_full;    // refused submits
    _Atomic int n_wrong;   // faults seen by threads other than the test's
    _Atomic bool is_over;  // the reader has everything
    _Atomic int next_part; // hands out numbers to the submitters
    _Atomic int n_sent[N_SUBMITTERS];
};

static bool is_for_cancelling(int index) { return index % 6 == 5; }

static void *submit_part(void *arg) {
    struct load *load = arg;
    const int part = load->next_part++;
    for (int i = 0; i < N_EACH; i++) {
        const int index = part * N_EACH + i;
        struct ticket *ticket = &load->ticket[index];
        rn_request request = ticket->kind->request;
        request.data = ticket;
        uint64_t id;
        rn_status status;
        while ((status = rn_engine_submit(load->engine, &request, &id, NULL)) == RN_ERR_FULL) {
            load->n_full++;
            sched_yield();
        }
        load->n_wrong += status != RN_OK;
        ticket->id = id;
        load->n_sent[part]++;
    }
    return NULL;
}

// Cancels some requests, and stops and resumes others, at any moment of their lives.
static void *cancel_some(void *arg) {
    struct load *load = arg;
    for (unsigned random = 1; !load->is_over; random = random * 1664525u + 1013904223u) {
        const int part = (int)(random >> 8) % N_SUBMITTERS;
        const int back = (int)(random >> 16) % 8, sent = load->n_sent[part];
        if (sent <= back) continue;
        const int index = part * N_EACH + sent - 1 - back; // one of the newest
        const uint64_t id = load->ticket[index].id;
        if (is_for_cancelling(index)) {
            rn_engine_cancel(load->engine, id);
        } else {
            rn_engine_pause(load->engine, id, true);
            sched_yield();
            rn_engine_pause(load->engine, id, false);
        }
        rn_engine_cancel(load->engine, random | 1ull << 40); // nobody's
        sched_yield();
    }
    return NULL;
}

static void *watch(void *arg) {
    struct load *load = arg;
    rn_engine_stats last = {0}, stats;
    for (; !load->is_over; last = stats, sched_yield()) {
        rn_engine_get_stats(load->engine, &stats);
        const uint64_t ended = stats.stopped + stats.lengthy + stats.cancelled + stats.failed;
        const uint64_t live = (uint64_t)stats.running + (uint64_t)stats.waiting;
        load->n_wrong += stats.steps < last.steps || stats.submitted < last.submitted ||
                         stats.output_tokens < last.output_tokens ||
                         stats.cancelled < last.cancelled || stats.run_ns < last.run_ns;
        load->n_wrong += stats.submitted != ended + live || stats.pages_held > stats.pages_total;
        if (stats.steps % 16 == 0) rn_engine_forget_prefixes(load->engine);
    }
    return NULL;
}

static void run_load(int n_threads) {
    struct load *load = calloc(1, sizeof *load);
    assert_non_null(load);
    // few pages, so that sequences are preempted, and a short queue
    load->engine = new_engine(&(rn_engine_options){.n_threads = n_threads,
                                                   .max_seqs = 6,
                                                   .n_ctx = 256,
                                                   .batch_tokens = 64,
                                                   .kv_pages = 20,
                                                   .max_waiting = 8});
    for (int i = 0; i < N_TICKETS; i++) load->ticket[i].kind = &kinds[(i * 7 + i / 50) % N_KINDS];
    assert_int_equal(rn_engine_start(load->engine, NULL), RN_OK);
    enum { N_THREADS = N_SUBMITTERS + N_CANCELLERS + 1 };
    pthread_t thread[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        void *(*const fn)(void *) = i < N_SUBMITTERS                  ? submit_part
                                    : i < N_SUBMITTERS + N_CANCELLERS ? cancel_some
                                                                      : watch;
        assert_int_equal(pthread_create(&thread[i], NULL, fn, load), 0);
    }
    collect(load->engine, N_TICKETS);
    load->is_over = true;
    for (int i = 0; i < N_THREADS; i++) pthread_join(thread[i], NULL);
    rn_engine_stop(load->engine, true);
    rn_event event;
    assert_int_equal(rn_engine_wait(load->engine, &event, 1, -1), 0);
    assert_int_equal(load->n_wrong, 0);
    for (int i = 0; i < N_TICKETS; i++) check_ticket(&load->ticket[i], is_for_cancelling(i));
    check_at_rest(load->engine);
    rn_engine_destroy(load->engine);
    free(load);
}

CASE(texts_under_load_are_those_of_single_runs) {
    if (!TEST_IS_SLOW) run_load(1);
    run_load(2);
}

// ---------------------------------------------------------------- one thing at a time

enum { N_FEW = 24 };

static const rn_engine_options small = {.n_threads = 1,
                                        .max_seqs = 4,
                                        .n_ctx = 256,
                                        .speculate = "off"};

static void submit_few(rn_engine *engine, struct ticket *ticket) {
    for (int i = 0; i < N_FEW; i++) submit(engine, &ticket[i], &kinds[i % N_KINDS]);
}

CASE(an_overloaded_engine_refuses_and_loses_nothing) {
    rn_engine_options options = small;
    options.max_waiting = 5;
    rn_engine *engine = new_engine(&options);
    struct ticket ticket[5];
    for (int i = 0; i < 5; i++) submit(engine, &ticket[i], &kinds[0]);
    rn_error err = {0};
    uint64_t id;
    assert_int_equal(rn_engine_submit(engine, &kinds[0].request, &id, &err), RN_ERR_FULL);
    check(strstr(err.message, "5"), "%s", err.message);
    assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
    collect(engine, 5);
    for (int i = 0; i < 5; i++) check_ticket(&ticket[i], false);
    check_at_rest(engine);
    rn_engine_destroy(engine);
}

static void *drain(void *engine) {
    rn_engine_stop(engine, true);
    return NULL;
}

CASE(draining_lets_every_request_end) {
    rn_engine *engine = started(&small);
    struct ticket ticket[N_FEW];
    submit_few(engine, ticket);
    pthread_t stopper;
    assert_int_equal(pthread_create(&stopper, NULL, drain, engine), 0);
    collect(engine, N_FEW + 1); // until the engine has ended
    pthread_join(stopper, NULL);
    for (int i = 0; i < N_FEW; i++) check_ticket(&ticket[i], false);
    rn_error err = {0};
    uint64_t id;
    assert_int_equal(rn_engine_submit(engine, &kinds[0].request, &id, &err), RN_ERR_CANCELLED);
    check_at_rest(engine);
    rn_engine_destroy(engine);
}

CASE(an_engine_stopped_at_once_cancels_and_can_start_again) {
    rn_engine *engine = new_engine(&small);
    struct ticket ticket[N_FEW];
    for (int round = 0; round < 3; round++) {
        assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
        submit_few(engine, ticket);
        if (round > 0) { // into the middle
            rn_event event;
            assert_int_equal(rn_engine_wait(engine, &event, 1, -1), 1);
            note(event.data, &event);
        }
        rn_engine_stop(engine, false);
        rn_engine_stop(engine, true); // there is nothing left to do
        collect(engine, N_FEW + 1);
        for (int i = 0; i < N_FEW; i++) check_ticket(&ticket[i], true);
        check_at_rest(engine);
        assert_int_equal(rn_engine_wait(engine, &(rn_event){0}, 1, -1), 0);
    }
    assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
    submit(engine, &ticket[0], &kinds[2]);
    collect(engine, 1);
    check_ticket(&ticket[0], false);
    rn_engine_destroy(engine);
}

CASE(a_hurried_stop_overtakes_a_drain) {
    rn_engine *engine = started(&small);
    struct ticket ticket;
    submit(engine, &ticket, &kinds[5]);
    rn_engine_pause(engine, ticket.id, true); // it would never end, if it has not
    pthread_t stopper;
    assert_int_equal(pthread_create(&stopper, NULL, drain, engine), 0);
    rn_engine_stop(engine, false);
    pthread_join(stopper, NULL);
    collect(engine, 2);
    check_ticket(&ticket, true);
    check_at_rest(engine);
    rn_engine_destroy(engine);
}

// ---------------------------------------------------------------- a reader that is late

enum { N_MANY = 30, RING_EVENTS = 1024 };

// More events than the queue takes, and no reader: the thread waits.
static void fill_queue(rn_engine *engine, struct kind *chatty, struct ticket *ticket) {
    *chatty = kinds[0];
    chatty->request.prompt = chatty->prompt;
    chatty->request.max_tokens = 40;
    chatty->request.ignore_eos = true;
    assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
    for (int i = 0; i < N_MANY; i++) submit(engine, &ticket[i], chatty);
    rn_engine_stats stats = {0}, later;
    while (stats.output_tokens <= RING_EVENTS) {
        sched_yield();
        rn_engine_get_stats(engine, &stats);
    }
    usleep(20000); // so that it sleeps
    rn_engine_get_stats(engine, &later);
    assert_int_equal(later.steps, stats.steps);
}

CASE(events_wait_for_a_late_reader) {
    rn_engine *engine = new_engine(&small);
    struct kind chatty;
    struct ticket *ticket = calloc(N_MANY, sizeof *ticket);
    fill_queue(engine, &chatty, ticket);
    rn_engine_cancel(engine, ticket[N_MANY - 1].id); // seen when there is room again
    usleep(20000); // so that it sleeps again, and the reader has to wake it
    collect(engine, N_MANY);
    rn_engine_stats stats;
    rn_engine_get_stats(engine, &stats);
    check(stats.output_tokens == 40 * (N_MANY - 1), "%llu",
          (unsigned long long)stats.output_tokens);
    for (int i = 0; i < N_MANY; i++) {
        const bool is_cancelled = i == N_MANY - 1;
        assert_int_equal(ticket[i].n_last, 1);
        assert_int_equal(ticket[i].finish[0],
                         is_cancelled ? RN_FINISH_CANCELLED : RN_FINISH_LENGTH);
        if (!is_cancelled) assert_string_equal(ticket[i].text[0], ticket[0].text[0]);
    }
    check_at_rest(engine);
    rn_engine_destroy(engine);
    free(ticket);
}

CASE(a_stop_does_not_wait_for_a_late_reader) {
    rn_engine *engine = new_engine(&small);
    struct kind chatty;
    struct ticket *ticket = calloc(N_MANY, sizeof *ticket);
    fill_queue(engine, &chatty, ticket);
    rn_engine_stop(engine, false);
    collect(engine, N_MANY + 1);
    for (int i = 0; i < N_MANY; i++) assert_int_equal(ticket[i].n_last, 1);
    assert_int_equal(ticket[N_MANY - 1].finish[0], RN_FINISH_CANCELLED);
    check_at_rest(engine);
    rn_engine_destroy(engine);
    free(ticket);
}

CASE(an_engine_is_destroyed_in_the_middle_of_everything) {
    rn_engine *engine = new_engine(&small);
    struct kind chatty;
    struct ticket *ticket = calloc(N_MANY, sizeof *ticket);
    fill_queue(engine, &chatty, ticket);
    rn_event event[3];
    assert_int_equal(rn_engine_wait(engine, event, 3, -1), 3);
    rn_engine_destroy(engine);
    engine = new_engine(&small);
    submit_few(engine, ticket);
    rn_engine_destroy(engine);
    free(ticket);
}

// ---------------------------------------------------------------- the rest

static bool is_readable(const rn_engine *engine, int timeout_ms) {
    struct pollfd fd = {.fd = rn_engine_event_fd(engine), .events = POLLIN};
    return poll(&fd, 1, timeout_ms) == 1;
}

CASE(the_descriptor_is_readable_while_events_wait) {
    rn_engine *engine = started(&small);
    rn_event event[2];
    assert_false(is_readable(engine, 0));
    for (int round = 0; round < 5; round++) {
        struct ticket ticket;
        submit(engine, &ticket, &kinds[round]);
        while (ticket.n_last == 0) {
            assert_true(is_readable(engine, -1));
            int n;
            while ((n = rn_engine_wait(engine, event, 2, 0)) > 0)
                for (int i = 0; i < n; i++) note(&ticket, &event[i]);
        }
        check_ticket(&ticket, false);
        // all was collected, and nothing more will come, but for a last event's late bell
        if (is_readable(engine, 0)) assert_int_equal(rn_engine_wait(engine, event, 2, 0), 0);
        assert_false(is_readable(engine, 0));
    }
    rn_engine_destroy(engine);
}

CASE(who_runs_the_steps_is_one_or_the_other) {
    rn_engine *engine = new_engine(&small);
    rn_event event;
    rn_error err = {0};
    bool busy;
    assert_int_equal(rn_engine_event_fd(engine), -1);
    assert_int_equal(rn_engine_wait(engine, &event, 1, -1), 0);
    rn_engine_stop(engine, true); // was never started
    // the caller's steps first; the remaining events are collected from the thread
    struct ticket ticket;
    submit(engine, &ticket, &kinds[4]);
    while (!rn_engine_next_event(engine, &event))
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
    note(&ticket, &event);
    assert_int_equal(rn_engine_step(engine, &busy), RN_OK); // leaves an event or more
    assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
    assert_int_equal(rn_engine_start(engine, &err), RN_ERR_ARG);
    check(strstr(err.message, "running"), "%s", err.message);
    assert_int_equal(rn_engine_step(engine, &busy), RN_ERR_ARG);
    assert_false(rn_engine_next_event(engine, &event));
    collect(engine, 1);
    check_ticket(&ticket, false);
    rn_engine_stop(engine, true);
    assert_int_equal(rn_engine_step(engine, &busy), RN_ERR_ARG);
    rn_engine_destroy(engine);
}

CASE(a_deadline_wakes_an_engine_that_sleeps) {
    rn_engine *engine = new_engine(&small);
    struct kind late = kinds[0];
    late.request.prompt = late.prompt;
    late.request.timeout_ms = 30;
    struct ticket ticket;
    submit(engine, &ticket, &late);
    rn_engine_pause(engine, ticket.id, true);
    assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
    rn_event event;
    assert_int_equal(rn_engine_wait(engine, &event, 1, -1), 1);
    assert_int_equal(event.finish, RN_FINISH_ERROR);
    assert_int_equal(event.status, RN_ERR_DEADLINE);
    check_at_rest(engine);
    rn_engine_destroy(engine);
}

static void *stop_soon(void *engine) {
    usleep(20000); // so that the reader sleeps
    rn_engine_stop(engine, false);
    return NULL;
}

CASE(a_reader_that_sleeps_sees_the_end) {
    rn_engine *engine = started(&small);
    pthread_t stopper;
    rn_event event;
    assert_int_equal(pthread_create(&stopper, NULL, stop_soon, engine), 0);
    assert_int_equal(rn_engine_wait(engine, &event, 1, -1), 0);
    pthread_join(stopper, NULL);
    rn_engine_destroy(engine);
}

CASE(a_wait_without_events_ends_with_its_time) {
    rn_engine *engine = started(&small);
    rn_event event;
    assert_int_equal(rn_engine_wait(engine, &event, 1, 0), 0);
    assert_int_equal(rn_engine_wait(engine, &event, 1, 5), 0);
    rn_engine_destroy(engine);
}

CASE(an_idle_engine_forgets_prefixes) {
    rn_engine *engine = started(&small);
    struct ticket ticket;
    submit(engine, &ticket, &kinds[7]);
    collect(engine, 1);
    rn_engine_stats stats;
    do { // a row past the end may be in flight, and hold them
        sched_yield();
        rn_engine_get_stats(engine, &stats);
    } while (stats.pages_cached == 0);
    rn_engine_forget_prefixes(engine);
    while (stats.pages_cached > 0) {
        sched_yield();
        rn_engine_get_stats(engine, &stats);
    }
    rn_engine_destroy(engine);
}

CASE(an_embedding_stays_until_the_next_wait) {
    rn_engine *engine = started(&small);
    const int n_embd = rn_model_get_info(model)->n_embd;
    for (int i = 0; i < 8; i++) {
        const struct kind *kind = &kinds[i];
        const rn_request request = {.prompt = kind->prompt,
                                    .n_prompt = kind->request.n_prompt,
                                    .pooling = i % 2 ? RN_POOLING_MEAN : RN_POOLING_LAST,
                                    .normalize = true};
        uint64_t id;
        assert_int_equal(rn_engine_submit(engine, &request, &id, NULL), RN_OK);
    }
    rn_event event;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(rn_engine_wait(engine, &event, 1, -1), 1);
        assert_true(event.finish && event.embedding);
        double sum = 0;
        for (int k = 0; k < n_embd; k++)
            sum += (double)event.embedding[k] * (double)event.embedding[k];
        check(fabs(sum - 1) < 1e-4, "%g", sum);
    }
    rn_engine_destroy(engine);
}

TEST_PROGRAM(threads) { return cases_run(run_alone, close_model); }
