// Several streams at once: the engine runs its steps on a thread of its own, two threads submit
// prompts, and this one prints the text of each as it comes. One stream is cancelled on the way.
//
//   cc streams.c $(pkg-config --cflags --libs runnel) -pthread -o streams
//   ./streams model.gguf
//
// The text of a stream is the same in every run: it depends on the prompt, the settings and the
// seed, not on what else is running. Only the order of the lines varies.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel.h>

enum { N_STREAMS = 4, N_SUBMITTERS = 2, CANCELLED = 3, CANCEL_AFTER = 5 };

// One request of ours. The engine hands `data` back with every event, so nobody looks up ids.
struct stream {
    int number;
    int max_tokens; // 0: until the context is full
    const char *prompt;
    // the reader's alone
    int n_tokens; // that came
    char line[100];
    size_t n_line;
};

struct submitter {
    const rn_model *model;
    rn_engine *engine;
    struct stream *first; // it submits every N_SUBMITTERS-th from there
    int n;
};

static void fail(const rn_error *err) {
    fprintf(stderr, "streams: %s\n", err->message); // it names the file or the value
    exit(1);
}

static void submit(const struct submitter *self, struct stream *stream) {
    rn_error err;
    int32_t *prompt;
    size_t n_prompt;
    if (rn_tokenize(self->model, stream->prompt, strlen(stream->prompt), RN_TOKENIZE_BOS, &prompt,
                    &n_prompt, &err))
        fail(&err);
    rn_request request = {.prompt = prompt,
                          .n_prompt = n_prompt,
                          .max_tokens = stream->max_tokens,
                          .ignore_eos = stream->max_tokens == 0,
                          .data = stream,
                          .sampling = rn_sampling_neutral()};
    request.sampling.temperature = 0.8f;
    request.sampling.has_seed = true;
    request.sampling.seed = (uint64_t)stream->number;
    uint64_t id;
    if (rn_engine_submit(self->engine, &request, &id, &err)) fail(&err);
    rn_free(prompt); // the engine has its own copy of everything
}

static void *submit_all(void *arg) {
    const struct submitter *self = arg;
    for (int i = 0; i < self->n; i++) submit(self, self->first + i * N_SUBMITTERS);
    return NULL;
}

// Prints the stream's text line by line, for streams that come together.
static void print_line(struct stream *stream) {
    printf("[%d] %.*s\n", stream->number, (int)stream->n_line, stream->line);
    stream->n_line = 0;
}

static void add_text(struct stream *stream, const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n') {
            print_line(stream);
            continue;
        }
        if (stream->n_line == sizeof stream->line || (stream->n_line > 70 && text[i] == ' '))
            print_line(stream);
        stream->line[stream->n_line++] = text[i];
    }
}

// Prints one event; true when it was the last of its request.
static bool show(rn_engine *engine, const rn_event *event) {
    struct stream *stream = event->data;
    if (event->token >= 0) stream->n_tokens++;
    add_text(stream, event->text, event->text_len);
    if (stream->number == CANCELLED && stream->n_tokens == CANCEL_AFTER && !event->finish)
        rn_engine_cancel(engine, event->request);
    if (!event->finish) return false;
    if (stream->n_line > 0) print_line(stream);
    const rn_timings *t = event->timings;
    printf("[%d] %s: %d + %d tokens, first after %.1f ms, then %.1f ms\n", stream->number,
           rn_finish_text(event->finish), t->prompt_tokens, t->output_tokens, t->ttft_ms,
           t->decode_ms);
    return event->last;
}

int main(int argc, char **argv) {
    struct stream stream[N_STREAMS] = {
        {.number = 1, .max_tokens = 24, .prompt = "Once upon a time"},
        {.number = 2, .max_tokens = 24, .prompt = "The fox and the lantern"},
        {.number = CANCELLED, .prompt = "One morning"}, // has no end
        {.number = 4, .max_tokens = 24, .prompt = "A little boat"}};
    if (argc != 2) {
        fprintf(stderr, "usage: streams MODEL\n");
        return 2;
    }
    rn_error err;
    rn_model *model;
    rn_engine *engine;
    if (rn_model_open(argv[1], &model, &err)) fail(&err);
    const rn_engine_options options = {.max_seqs = N_STREAMS, .n_ctx = 1024};
    if (rn_engine_create(model, &options, &engine, &err)) fail(&err);
    if (rn_engine_start(engine, &err)) fail(&err);

    struct submitter submitter[N_SUBMITTERS];
    pthread_t thread[N_SUBMITTERS];
    for (int i = 0; i < N_SUBMITTERS; i++) {
        submitter[i] = (struct submitter){model, engine, &stream[i], N_STREAMS / N_SUBMITTERS};
        if (pthread_create(&thread[i], NULL, submit_all, &submitter[i])) return 1;
    }
    rn_event event[16];
    for (int over = 0; over < N_STREAMS;) { // what events point to is valid until the next wait
        const int n = rn_engine_wait(engine, event, 16, -1);
        for (int i = 0; i < n; i++) over += show(engine, &event[i]);
    }
    for (int i = 0; i < N_SUBMITTERS; i++) pthread_join(thread[i], NULL);
    rn_engine_stop(engine, true);

    rn_engine_stats stats;
    rn_engine_get_stats(engine, &stats);
    printf("%llu steps, %llu tokens, %llu cancelled, %u of %u pages held\n",
           (unsigned long long)stats.steps, (unsigned long long)stats.output_tokens,
           (unsigned long long)stats.cancelled, stats.pages_held, stats.pages_total);
    rn_engine_destroy(engine);
    rn_model_close(model);
    return 0;
}
