// `runnel run`: prompt in, text out as it becomes certain, a summary on stderr. With --json one
// object on stdout instead of the text. ids are all sampled tokens, an end token included.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "drive.h"
#include "interrupt.h"
#include "logits.h"
#include "report.h"
#include "term.h"
#include "tools.h"

struct id_list {
    int32_t *id;
    size_t count, cap;
};

struct run {
    const struct options *options;
    struct term term;
    bool json, quiet;
    rn_model *model;
    rn_engine *engine;
    enum option_id source; // where the prompt came from; OPT_COUNT: standard input
    struct text prompt;
    struct id_list prompt_ids, ids;
    struct text output; // --json
    size_t output_cap;
    char last; // last byte written to stdout
    struct logits_file logits;
    int write_error;      // errno of a failed write, 0: none
    const char *write_to; // what it was
    bool no_memory;
    struct report report;
};

static bool ids_add(struct id_list *list, int32_t id) {
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

// ---------------------------------------------------------------- prompt

static int ids_parse(const struct run *run, struct id_list *out) {
    char buffer[64];
    const char *name = option_name(run->options, OPT_PROMPT_IDS, buffer);
    const char *text = option_text(run->options, OPT_PROMPT_IDS);
    const int n_vocab = rn_model_get_info(run->model)->n_vocab;
    for (const char *at = text;; at++) {
        while (*at == ' ') at++;
        char *end;
        errno = 0;
        const long id = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : -1;
        if (!*at && at > text) {
            return app_fail(APP_USAGE, "%s: an id is missing after the last comma", name);
        }
        if (id < 0 || id >= n_vocab || errno) {
            return app_fail(APP_USAGE, "%s: '%.20s' does not start with a token id from 0 to %d",
                            name, at, n_vocab - 1);
        }
        while (*end == ' ') end++;
        if (*end && *end != ',') {
            return app_fail(APP_USAGE, "%s: '%.20s' where a comma should be", name, end);
        }
        if (!ids_add(out, (int32_t)id)) return app_fail(APP_FAILED, "out of memory");
        if (!*end) return APP_OK;
        at = end;
    }
}

static int prompt_get(struct run *run) {
    const struct options *options = run->options;
    const bool from_stdin = !option_given(options, OPT_PROMPT) &&
                            !option_given(options, OPT_FILE) &&
                            !option_given(options, OPT_PROMPT_IDS);
    if (from_stdin && isatty(STDIN_FILENO)) {
        fputs("type a prompt, end with Ctrl-D\n", stderr);
    }
    int code = text_from_options(options, &run->source, &run->prompt);
    if (code) return code;
    if (run->source == OPT_PROMPT_IDS) return ids_parse(run, &run->prompt_ids);
    const int flags = (option_flag(options, OPT_NO_BOS) ? 0 : RN_TOKENIZE_BOS) |
                      (option_flag(options, OPT_NO_SPECIAL) ? 0 : RN_TOKENIZE_SPECIAL);
    rn_error err = {0};
    if (rn_tokenize(run->model, run->prompt.data, run->prompt.len, flags, &run->prompt_ids.id,
                    &run->prompt_ids.count, &err) != RN_OK) {
        return app_fail_error(&err);
    }
    if (run->prompt_ids.count == 0) return app_fail(APP_USAGE, "the prompt is empty");
    return APP_OK;
}

// ---------------------------------------------------------------- events

static bool write_failed(struct run *run, const char *what) {
    run->write_error = errno ? errno : EIO;
    run->write_to = what;
    return false;
}

static bool output_keep(struct run *run, const char *text, size_t len) {
    struct text *output = &run->output;
    if (output->len + len + 1 > run->output_cap) {
        const size_t cap = 2 * (output->len + len) + 256;
        char *grown = realloc(output->data, cap);
        if (!grown) {
            run->no_memory = true;
            return false;
        }
        output->data = grown;
        run->output_cap = cap;
    }
    memcpy(output->data + output->len, text, len);
    output->len += len;
    return true;
}

static bool on_event(void *ctx, const rn_event *event) {
    struct run *run = ctx;
    if (event->token >= 0 && !ids_add(&run->ids, event->token)) {
        run->no_memory = true;
        return false;
    }
    if (event->finish != RN_FINISH_NONE) {
        run->report.finish = event->finish;
        run->report.seed = event->seed;
        if (event->timings) run->report.timings = *event->timings;
        if (event->stop) run->report.stop = strdup(event->stop);
    }
    if (run->write_error) return false;
    if (event->text_len == 0) return true;
    if (run->json) return output_keep(run, event->text, event->text_len);
    run->last = event->text[event->text_len - 1];
    if (!term_write(&run->term, event->text, event->text_len)) {
        return write_failed(run, "standard output");
    }
    return true;
}

static void on_logits(void *ctx, int position, const float *logits, int n_vocab) {
    struct run *run = ctx;
    (void)position; // rows come in order
    if (run->write_error) return;
    if (!logits_write(&run->logits, logits, n_vocab)) write_failed(run, run->logits.path);
}

// ---------------------------------------------------------------- the run

static void sampling_get(const struct run *run, rn_sampling *out) {
    const struct options *options = run->options;
    const rn_model_info *info = rn_model_get_info(run->model);
    *out = (rn_sampling){
        .temperature = option_float(options, OPT_TEMPERATURE, info->temperature),
        .top_k = option_int(options, OPT_TOP_K, info->top_k),
        .top_p = option_float(options, OPT_TOP_P, info->top_p),
        .min_p = option_float(options, OPT_MIN_P, info->min_p),
        .has_seed = option_given(options, OPT_SEED),
        .seed = (uint64_t)options->value[OPT_SEED].integer,
    };
}

// On a terminal the story begins with what was asked for, dimmed. What came by standard input is on
// the screen already, or in a pipe.
static void prompt_echo(const struct run *run) {
    if (run->json || !run->term.out_tty || run->source == OPT_COUNT) return;
    fputs(term_dim(run->term.out_color), stdout);
    if (run->prompt.len) term_write(&run->term, run->prompt.data, run->prompt.len);
    fputs(term_reset(run->term.out_color), stdout);
    fflush(stdout);
}

static int generate(struct run *run) {
    rn_request request = {
        .prompt = run->prompt_ids.id,
        .n_prompt = run->prompt_ids.count,
        .max_tokens = option_int(run->options, OPT_MAX_TOKENS, -1),
        .stop = run->options->value[OPT_STOP].list,
        .n_stop = (size_t)run->options->value[OPT_STOP].n_list,
        .ignore_eos = option_flag(run->options, OPT_IGNORE_EOS),
    };
    sampling_get(run, &request.sampling);
    if (run->logits.file) {
        request.on_logits = on_logits;
        request.on_logits_ctx = run;
    }
    prompt_echo(run);
    interrupt_watch();
    const int code = drive_request(run->engine, run->model, &request, on_event, run);
    if (run->term.out_tty && !run->json && run->last && run->last != '\n') fputc('\n', stdout);
    if (run->write_error) return app_fail_write(run->write_to, run->write_error);
    if (run->no_memory) return app_fail(APP_FAILED, "out of memory");
    return code;
}

// NULL: out of memory.
static json_t *ids_json(const struct id_list *list) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < list->count; i++) {
        if (json_array_append_new(array, json_integer(list->id[i]))) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static int object_print(const struct run *run) {
    const char *path = run->report.model->path;
    const struct text *output = &run->output;
    json_t *object = json_object();
    if (!json_put(object, "model", json_text(path, strlen(path))) ||
        !json_put(object, "text", json_text(output->data ? output->data : "", output->len)) ||
        !json_put(object, "prompt_ids", ids_json(&run->prompt_ids)) ||
        !json_put(object, "ids", ids_json(&run->ids)) || !report_json(&run->report, object)) {
        json_decref(object);
        object = NULL;
    }
    return json_print(object, JSON_COMPACT | JSON_REAL_PRECISION(6));
}

static int run_steps(struct run *run) {
    const uint64_t start = clock_ns();
    int code = app_open_model(run->options, false, &run->model);
    if (code) return code;
    const double open_ms = (double)(clock_ns() - start) / 1e6;
    if ((code = logits_open(&run->logits, run->options))) return code;
    if ((code = prompt_get(run))) return code;
    const uint64_t engine_start_ns = clock_ns();
    code = drive_engine_create(run->options, run->model, &run->term, run->quiet,
                               run->logits.file != NULL, &run->engine);
    if (code) return code;
    run->report.load_ms = open_ms + (double)(clock_ns() - engine_start_ns) / 1e6;
    run->report.model = rn_model_get_info(run->model);
    rn_engine_get_info(run->engine, &run->report.engine);
    if ((code = generate(run))) return code;
    if ((code = logits_close(&run->logits))) return code;
    if (!run->quiet) report_measure(&run->report, run->engine);
    if (run->json) {
        code = object_print(run);
    } else if (!run->quiet) {
        report_print(&run->report, &run->term);
    }
    if (code) return code;
    return interrupt_seen() ? APP_INTERRUPTED : APP_OK;
}

int command_run(const struct options *options) {
    struct run run = {
        .options = options,
        .json = option_flag(options, OPT_JSON),
        .quiet = option_flag(options, OPT_QUIET),
    };
    term_init(&run.term, options);
    interrupt_ends();
    const int code = run_steps(&run);
    logits_close(&run.logits);
    rn_engine_destroy(run.engine);
    rn_model_close(run.model);
    text_free(&run.prompt);
    text_free(&run.output);
    free(run.report.stop);
    if (run.source == OPT_PROMPT_IDS) {
        free(run.prompt_ids.id);
    } else {
        rn_free(run.prompt_ids.id);
    }
    free(run.ids.id);
    return code;
}
