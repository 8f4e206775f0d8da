// `runnel eval FILE`: the loss of a text. The whole text is tokenized (markup parsed, no
// BOS) and cut into chunks; the rest is dropped. Each chunk runs on its own from position 0. The
// loss is the mean of -log p over tokens 1 .. chunk - 1 of all chunks, in double. With --reference
// each chunk runs on the reference first, whose probabilities are kept for that chunk.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "helpers.h"
#include "inspect/compare.h"
#include "models/find.h"
#include "models/name.h"
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
    rn_model *model, *reference; // reference NULL: none
    rn_engine *engine, *reference_engine;
    struct comparison comparison;
    struct text text;
    int32_t *ids;
    size_t n_ids;
    size_t chunk, n_chunks;
    const int32_t *at;   // the chunk that runs
    struct moments loss; // -log p
    int bad_position;    // of the chunk, where -log p is not finite; -1: none
    double seconds;
};

static void on_logits(void *ctx, int position, const float *logits, int n_vocab) {
    struct eval *eval = ctx;
    if ((size_t)position + 1 >= eval->chunk) return; // the last row predicts another chunk
    const int32_t next = eval->at[position + 1];
    double log_sum;
    logits_top(logits, n_vocab, &log_sum);
    const double loss = log_sum - (double)logits[next];
    if (!isfinite(loss) && eval->bad_position < 0) eval->bad_position = position;
    moments_add(&eval->loss, loss);
    if (eval->reference) comparison_model(&eval->comparison, (size_t)position, logits, next);
}

static void on_reference(void *ctx, int position, const float *logits, int n_vocab) {
    struct eval *eval = ctx;
    (void)n_vocab; // the model's
    if ((size_t)position + 1 >= eval->chunk) return;
    comparison_reference(&eval->comparison, (size_t)position, logits, eval->at[position + 1]);
}

static int text_load(struct eval *eval, const char *path) {
    struct text *text = &eval->text;
    const int code = text_read(path, LOSS_TEXT_LIMIT, text);
    if (code) return code;
    rn_error err = {0};
    const rn_status status = rn_tokenize(eval->model, text->data, text->len, RN_TOKENIZE_SPECIAL,
                                         &eval->ids, &eval->n_ids, &err);
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

static int chunk_run(struct eval *eval, rn_engine *engine, const rn_model *model,
                     rn_logits_fn on_row) {
    struct answer answer = {.term = &eval->term, .progress = &eval->progress};
    rn_request request = {.prompt = eval->at,
                          .n_prompt = eval->chunk,
                          .prompt_only = true,
                          .on_logits = on_row,
                          .on_logits_ctx = eval};
    const int code = answer_run(&answer, engine, model, &request);
    answer_deinit(&answer);
    return code;
}

static int chunks_run(struct eval *eval) {
    const uint64_t start = clock_ns();
    progress_begin(&eval->progress, &eval->term, eval->quiet, "evaluating");
    interrupt_watch();
    int code = APP_OK;
    for (size_t i = 0; !code && !interrupt_seen() && i < eval->n_chunks; i++) {
        eval->at = eval->ids + i * eval->chunk;
        if (eval->reference)
            code = chunk_run(eval, eval->reference_engine, eval->reference, on_reference);
        if (!code && !interrupt_seen())
            code = chunk_run(eval, eval->engine, eval->model, on_logits);
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

// ---------------------------------------------------------------- the reference

// The model's tokens are run on both, so they must mean the same.
static int vocabulary_check(const struct eval *eval) {
    const rn_model_info *model = rn_model_get_info(eval->model),
                        *reference = rn_model_get_info(eval->reference);
    if (model->n_vocab != reference->n_vocab)
        return app_fail(APP_USAGE,
                        "--reference: %s has %d tokens, and %s has %d: they cannot be "
                        "compared",
                        err_path(reference->path), reference->n_vocab, err_path(model->path),
                        model->n_vocab);
    int32_t *ids = NULL;
    size_t n_ids = 0;
    rn_error err = {0};
    if (rn_tokenize(eval->reference, eval->text.data, eval->text.len, RN_TOKENIZE_SPECIAL, &ids,
                    &n_ids, &err))
        return app_fail_error(&err);
    const bool same = n_ids == eval->n_ids && !memcmp(ids, eval->ids, n_ids * sizeof *ids);
    rn_free(ids);
    if (same) return APP_OK;
    return app_fail(APP_USAGE,
                    "--reference: %s has another vocabulary: it cuts the text into other "
                    "tokens",
                    err_path(reference->path));
}

static int reference_open(struct eval *eval, const rn_engine_options *wanted) {
    char *found = NULL;
    rn_error err = {0};
    int code = model_path_find(option_text(eval->options, OPT_REFERENCE), false, &found);
    if (code) return code;
    const rn_status status = rn_model_open(found, &eval->reference, &err);
    free(found);
    if (status) return app_fail(APP_USAGE, "--reference: %s", err.message);
    if ((code = vocabulary_check(eval))) return code;
    code = app_engine_create(eval->options, eval->reference, wanted, &eval->term, eval->quiet,
                             &eval->reference_engine);
    if (code) return code;
    rn_engine_info info;
    rn_engine_get_info(eval->reference_engine, &info);
    if ((size_t)info.n_ctx < eval->chunk)
        return app_fail(APP_USAGE, "--reference: its context of %d holds no chunk of %zu tokens",
                        info.n_ctx, eval->chunk);
    const size_t n_vocab = (size_t)rn_model_get_info(eval->model)->n_vocab;
    if (comparison_init(&eval->comparison, eval->n_chunks, eval->chunk - 1, n_vocab)) return APP_OK;
    return app_fail(APP_FAILED,
                    "out of memory for the logits of a chunk; --chunk N makes it smaller");
}

// ---------------------------------------------------------------- the result

// "X ± Y", or X alone where there is one token.
static const char *with_error(const struct moments *moments, double factor, int digits,
                              char out[64]) {
    const double error = factor * moments_error(moments);
    int at = snprintf(out, 64, "%.*f", digits, factor * moments_mean(moments));
    if (isfinite(error)) snprintf(out + at, 64 - (size_t)at, " ± %.*f", digits, error);
    return out;
}

static void comparison_print(struct eval *eval) {
    struct comparison *c = &eval->comparison;
    char text[64], other[64];
    printf("reference   loss %s, perplexity %.4f; %s\n", with_error(&c->loss, 1, 5, text),
           exp(moments_mean(&c->loss)),
           model_name_short(NULL, rn_model_get_info(eval->reference)).text);
    printf("difference  %s of the loss, %+.3f%% of the perplexity\n",
           with_error(&c->difference, 1, 5, text), 100 * (exp(moments_mean(&c->difference)) - 1));
    printf("KL          %s; median %.6f, 99%% below %.6f, largest %.6f\n",
           with_error(&c->kl_sums, 1, 6, text), comparison_kl_at(c, 0.5), comparison_kl_at(c, 0.99),
           comparison_kl_at(c, 1));
    printf("same top    %s %% of the tokens\n", with_error(&c->same_top, 100, 2, other));
}

static bool comparison_json(struct eval *eval, json_t *object) {
    struct comparison *c = &eval->comparison;
    return json_put(object, "reference",
                    json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "loss",
                              json_number(moments_mean(&c->loss)), "loss_error",
                              json_number(moments_error(&c->loss)), "loss_difference",
                              json_number(moments_mean(&c->difference)), "loss_difference_error",
                              json_number(moments_error(&c->difference)), "kl",
                              json_number(moments_mean(&c->kl_sums)), "kl_error",
                              json_number(moments_error(&c->kl_sums)), "kl_p50",
                              json_number(comparison_kl_at(c, 0.5)), "kl_p99",
                              json_number(comparison_kl_at(c, 0.99)), "kl_max",
                              json_number(comparison_kl_at(c, 1)), "same_top",
                              json_number(moments_mean(&c->same_top)), "same_top_error",
                              json_number(moments_error(&c->same_top))));
}

static int result_print(struct eval *eval) {
    const double loss = moments_mean(&eval->loss), error = moments_error(&eval->loss);
    const double rate = (double)(eval->n_chunks * eval->chunk) / eval->seconds;
    if (!option_flag(eval->options, OPT_JSON)) {
        char counted[32], text[64], spread[32] = "";
        if (isfinite(error)) snprintf(spread, sizeof spread, " ± %.4f", exp(loss) * error);
        printf("loss        %s\nperplexity  %.4f%s\n", with_error(&eval->loss, 1, 5, text),
               exp(loss), spread);
        if (eval->reference) comparison_print(eval);
        printf("tokens      %s in %zu chunk%s of %zu\ntime        %.1f s, %.0f tokens/s\n",
               human_count(eval->loss.n, counted), eval->n_chunks, eval->n_chunks == 1 ? "" : "s",
               eval->chunk, eval->seconds, rate);
        return APP_OK;
    }
    rn_engine_info engine;
    rn_engine_get_info(eval->engine, &engine);
    json_t *object =
        json_pack("{s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:f, s:o, s:i, s:s, s:s, s:s, s:s?}", "loss",
                  json_number(loss), "loss_error", json_number(error), "perplexity",
                  json_number(exp(loss)), "perplexity_error", json_number(exp(loss) * error),
                  "tokens", (json_int_t)eval->loss.n, "chunks", (json_int_t)eval->n_chunks, "chunk",
                  (json_int_t)eval->chunk, "seconds", eval->seconds, "tokens_per_second",
                  json_number(rate), "threads", engine.n_threads, "isa", engine.isa, "kv_type",
                  engine.kv_type, "backend", engine.backend, "device",
                  *engine.device ? engine.device : NULL);
    if (object && eval->reference && !comparison_json(eval, object)) {
        json_decref(object);
        object = NULL;
    }
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
    if (option_text(eval->options, OPT_REFERENCE) && (code = reference_open(eval, &wanted)))
        return code;
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
    comparison_deinit(&eval.comparison);
    rn_engine_destroy(eval.reference_engine);
    rn_model_close(eval.reference);
    rn_engine_destroy(eval.engine);
    rn_model_close(eval.model);
    rn_free(eval.ids);
    text_free(&eval.text);
    return code;
}
