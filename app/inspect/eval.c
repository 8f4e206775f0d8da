// `runnel eval FILE`: the loss of a text. The whole text is tokenized (markup parsed, no
// BOS) and cut into chunks; the rest is dropped. Each chunk runs on its own from position 0. The
// loss is the mean of -log p over tokens 1 .. chunk - 1 of all chunks, in double.
#include <math.h>
#include <string.h>

#include "app.h"
#include "helpers.h"
#include "run/answer.h"
#include "run/engine.h"
#include "terminal/interrupt.h"
#include "terminal/json.h"

enum { LOSS_TEXT_LIMIT = 1 << 30 };

struct eval {
    const struct options *options;
    struct term term;
    bool quiet;
    struct progress progress;
    rn_model *model;
    rn_engine *engine;
    int32_t *ids;
    size_t n_ids;
    size_t chunk, n_chunks;
    const int32_t *at; // the chunk that runs
    double sum;        // of -log p
    int bad_position;  // of the chunk, where -log p is not finite; -1: none
    uint64_t counted;
    double seconds;
};

// -log of the probability that the row gives to token.
static double surprise(const float *logits, int n_vocab, int32_t token) {
    float max = logits[0];
    for (int i = 1; i < n_vocab; i++) max = logits[i] > max ? logits[i] : max;
    double sum = 0;
    for (int i = 0; i < n_vocab; i++) sum += exp((double)(logits[i] - max));
    return log(sum) - (double)(logits[token] - max);
}

static void on_logits(void *ctx, int position, const float *logits, int n_vocab) {
    struct eval *eval = ctx;
    if ((size_t)position + 1 >= eval->chunk) return; // the last row predicts another chunk
    const double loss = surprise(logits, n_vocab, eval->at[position + 1]);
    if (!isfinite(loss) && eval->bad_position < 0) eval->bad_position = position;
    eval->sum += loss;
    eval->counted++;
}

static int text_load(struct eval *eval, const char *path) {
    struct text text;
    const int code = text_read(path, LOSS_TEXT_LIMIT, &text);
    if (code) return code;
    rn_error err = {0};
    const rn_status status = rn_tokenize(eval->model, text.data, text.len, RN_TOKENIZE_SPECIAL,
                                         &eval->ids, &eval->n_ids, &err);
    text_free(&text);
    return status == RN_OK ? APP_OK : app_fail_error(&err);
}

static int chunks_cut(struct eval *eval, const char *path, int n_ctx) {
    int chunk = option_int(eval->options, OPT_CHUNK);
    if (chunk > n_ctx && !option_given(eval->options, OPT_CHUNK)) chunk = n_ctx;
    char name[64];
    if (chunk > n_ctx) {
        return app_fail(APP_USAGE, "%s: %d tokens do not fit the context of %d",
                        option_name(eval->options, OPT_CHUNK, name), chunk, n_ctx);
    }
    if (chunk < 2) return app_fail(APP_USAGE, "a context of %d holds no chunk of 2 tokens", n_ctx);
    eval->chunk = (size_t)chunk;
    eval->n_chunks = eval->n_ids / eval->chunk;
    if (eval->n_chunks == 0) {
        return app_fail(APP_USAGE, "%s: %zu tokens are less than one chunk of %d", path,
                        eval->n_ids, chunk);
    }
    const size_t wanted = (size_t)option_int(eval->options, OPT_CHUNKS);
    if (eval->n_chunks > wanted) eval->n_chunks = wanted;
    return APP_OK;
}

static int chunks_run(struct eval *eval) {
    const uint64_t start = clock_ns();
    progress_begin(&eval->progress, &eval->term, eval->quiet, "evaluating");
    interrupt_watch();
    int code = APP_OK;
    for (size_t i = 0; !code && !interrupt_seen() && i < eval->n_chunks; i++) {
        eval->at = eval->ids + i * eval->chunk;
        struct answer answer = {.term = &eval->term, .progress = &eval->progress};
        rn_request request = {.prompt = eval->at,
                              .n_prompt = eval->chunk,
                              .prompt_only = true,
                              .on_logits = on_logits,
                              .on_logits_ctx = eval};
        code = answer_run(&answer, eval->engine, eval->model, &request);
        answer_deinit(&answer);
        progress_update(&eval->progress, i + 1, eval->n_chunks);
        if (eval->bad_position >= 0) break;
    }
    progress_end(&eval->progress);
    if (!code && eval->bad_position >= 0) {
        return app_fail(APP_FAILED, "%s: the loss is not finite at position %d of chunk %zu",
                        err_path(rn_model_get_info(eval->model)->path), eval->bad_position,
                        (size_t)(eval->at - eval->ids) / eval->chunk + 1);
    }
    eval->seconds = (double)(clock_ns() - start) / 1e9;
    if (!code && interrupt_seen()) return APP_INTERRUPTED;
    return code;
}

static int result_print(const struct eval *eval) {
    const double loss = eval->sum / (double)eval->counted;
    const double rate = (double)(eval->n_chunks * eval->chunk) / eval->seconds;
    if (!option_flag(eval->options, OPT_JSON)) {
        char counted[32];
        printf("loss        %.5f\nperplexity  %.4f\ntokens      %s in %zu chunk%s of %zu\n"
               "time        %.1f s, %.0f tokens/s\n",
               loss, exp(loss), human_count(eval->counted, counted), eval->n_chunks,
               eval->n_chunks == 1 ? "" : "s", eval->chunk, eval->seconds, rate);
        return APP_OK;
    }
    rn_engine_info engine;
    rn_engine_get_info(eval->engine, &engine);
    json_t *object =
        json_pack("{s:o, s:o, s:I, s:I, s:I, s:f, s:o, s:i, s:s, s:s, s:s, s:s?}", "loss",
                  json_number(loss), "perplexity", json_number(exp(loss)), "tokens",
                  (json_int_t)eval->counted, "chunks", (json_int_t)eval->n_chunks, "chunk",
                  (json_int_t)eval->chunk, "seconds", eval->seconds, "tokens_per_second",
                  json_number(rate), "threads", engine.n_threads, "isa", engine.isa, "kv_type",
                  engine.kv_type, "backend", engine.backend, "device",
                  *engine.device ? engine.device : NULL);
    return json_print(object, JSON_COMPACT | JSON_REAL_PRECISION(10));
}

static int eval_steps(struct eval *eval) {
    const char *path = option_text(eval->options, OPT_LOSS);
    if (!path) return app_fail(APP_USAGE, "the text is missing: runnel eval [MODEL] FILE");
    int code = app_open_model(eval->options, false, &eval->model);
    if (code) return code;
    if ((code = text_load(eval, path))) return code;
    rn_engine_options wanted;
    app_engine_options(eval->options, &wanted);
    wanted.logit_rows = -1;   // of every position
    wanted.speculate = "off"; // it writes nothing
    code = app_engine_create(eval->options, eval->model, &wanted, &eval->term, eval->quiet,
                             &eval->engine);
    if (code) return code;
    rn_engine_info info;
    rn_engine_get_info(eval->engine, &info);
    if ((code = chunks_cut(eval, path, info.n_ctx))) return code;
    if ((code = chunks_run(eval))) return code;
    return result_print(eval);
}

int command_eval(const struct options *options) {
    struct eval eval = {.options = options,
                        .quiet = option_flag(options, OPT_QUIET),
                        .bad_position = -1};
    term_init(&eval.term, options);
    interrupt_ends();
    const int code = eval_steps(&eval);
    rn_engine_destroy(eval.engine);
    rn_model_close(eval.model);
    rn_free(eval.ids);
    return code;
}
