// `runnel run`: prompt in, text out as it becomes certain, a summary on stderr. With --json one
// object on stdout instead of the text. With --chat the prompt is a message of a chat. Without a
// prompt, on a terminal, a conversation (converse.c).
#include "run/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "helpers.h"
#include "run/converse.h"
#include "run/draft.h"
#include "run/engine.h"
#include "run/shape.h"
#include "run/speech.h"
#include "terminal/interrupt.h"

struct prompt {
    enum option_id source; // OPT_COUNT: standard input
    bool chat;             // it is a message
    struct text text;      // empty for ids and messages
    struct id_list ids;
    struct chat said;       // of a chat: its template and messages
    rn_reasoning reasoning; // of a chat, without a budget
};

// ---------------------------------------------------------------- prompt

// "1,2,3", or in brackets, as tokenize prints them.
static int ids_parse(const struct run *run, enum option_id option, struct id_list *out) {
    char buffer[64];
    const char *name = option_name(run->options, option, buffer);
    const char *text = option_text(run->options, option);
    const int n_vocab = rn_model_get_info(run->model)->n_vocab;
    const bool has_brackets = *text == '[';
    for (const char *at = text + has_brackets;; at++) {
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
        const bool is_last = has_brackets ? *end == ']' && !end[1] : !*end;
        if (!is_last && *end != ',') {
            return app_fail(APP_USAGE, "%s: '%.20s' where a comma%s should be", name, end,
                            has_brackets ? " or ]" : "");
        }
        if (!ids_add(out, (int32_t)id)) return app_fail(APP_FAILED, "out of memory");
        if (is_last) return APP_OK;
        at = end;
    }
}

// The message of a chat, or all of them. Line feeds at the end of a file or a pipe are not part of
// a message.
static int message_get(const struct run *run, struct prompt *prompt) {
    struct chat *chat = &prompt->said;
    int code = chat_open(chat, run->options, run->model);
    if (code) return code;
    struct text *text = &prompt->text;
    if (prompt->source == OPT_MESSAGES) {
        code = chat_load(chat, option_text(run->options, OPT_MESSAGES));
    } else {
        if (prompt->source != OPT_PROMPT) {
            while (text->len && text->data[text->len - 1] == '\n') text->len--;
        }
        if (!chat_add(chat, "user", text->data, text->len)) {
            code = app_fail(APP_FAILED, "out of memory");
        }
    }
    if (!code)
        code = chat_tokens(chat, true, &prompt->ids.id, &prompt->ids.count, &prompt->reasoning);
    return code;
}

static int text_tokens(const struct run *run, struct prompt *prompt) {
    const struct options *options = run->options;
    const int flags = (option_flag(options, OPT_NO_BOS) ? 0 : RN_TOKENIZE_BOS) |
                      (option_flag(options, OPT_NO_SPECIAL) ? 0 : RN_TOKENIZE_SPECIAL);
    rn_error err = {0};
    const rn_status status = rn_tokenize(run->model, prompt->text.data, prompt->text.len, flags,
                                         &prompt->ids.id, &prompt->ids.count, &err);
    return status ? app_fail_error(&err) : APP_OK;
}

static int prompt_get(const struct run *run, struct prompt *prompt) {
    if (prompt->source == OPT_COUNT && isatty(STDIN_FILENO)) {
        fprintf(stderr, "%stype a prompt, end with Ctrl-D\n",
                rn_model_chat_template(run->model)
                    ? ""
                    : "no conversation: the model has no chat template; ");
    }
    int code = text_from_options(run->options, &prompt->source, &prompt->text);
    if (code) return code;
    if (prompt->source == OPT_PROMPT_IDS) return ids_parse(run, OPT_PROMPT_IDS, &prompt->ids);
    code = prompt->chat ? message_get(run, prompt) : text_tokens(run, prompt);
    if (code) return code;
    return prompt->ids.count ? APP_OK : app_fail(APP_USAGE, "the prompt is empty");
}

// --chat, or an option that only a chat has. The latter do so on the command line alone: in the
// environment they would turn every run into a chat.
static bool chat_wanted(const struct options *options, enum option_id source) {
    static const enum option_id implying[] = {OPT_SYSTEM, OPT_TOOLS, OPT_CHAT_TEMPLATE,
                                              OPT_CHAT_TEMPLATE_KWARGS};
    if (option_given(options, OPT_CHAT)) return option_flag(options, OPT_CHAT);
    for (size_t i = 0; i < sizeof implying / sizeof *implying; i++) {
        if (options->value[implying[i]].origin == ORIGIN_COMMAND_LINE) return true;
    }
    return source == OPT_MESSAGES;
}

static int prompt_check(const struct options *options, struct prompt *prompt) {
    const int code = text_source(options, &prompt->source);
    if (code) return code;
    char name[64];
    prompt->chat = chat_wanted(options, prompt->source);
    if (prompt->source == OPT_MESSAGES && !prompt->chat) {
        return app_fail(APP_USAGE, "%s is for a chat, and --chat is off",
                        option_name(options, OPT_MESSAGES, name));
    }
    if (prompt->source == OPT_PROMPT_IDS && prompt->chat) {
        return app_fail(APP_USAGE, "%s: token ids are no message of a chat",
                        option_name(options, OPT_PROMPT_IDS, name));
    }
    return APP_OK;
}

// A conversation needs someone who types and sees the answer. Without --chat, a model that cannot
// chat reads a prompt instead.
static bool converse_wanted(const struct run *run, const struct prompt *prompt) {
    if (prompt->source != OPT_COUNT || !isatty(STDIN_FILENO) || !run->term.out_tty) return false;
    if (run->json || run->logits.file) return false;
    if (option_given(run->options, OPT_CHAT)) return prompt->chat;
    return prompt->chat || rn_model_chat_template(run->model);
}

// ---------------------------------------------------------------- the run

// Of a model whose marks are known. Without a budget they say where a shape starts.
static rn_reasoning reasoning_bound(const struct options *options, const rn_reasoning *reasoning) {
    const int budget = option_int(options, OPT_REASONING_BUDGET);
    if (!reasoning || !reasoning->close) return (rn_reasoning){0};
    rn_reasoning bound = *reasoning;
    bound.has_budget = budget >= 0;
    bound.budget = budget;
    return bound;
}

int run_answer(const struct run *run, const int32_t *ids, size_t n_ids,
               const rn_reasoning *reasoning, struct answer *answer) {
    const struct options *options = run->options;
    rn_request request = {
        .prompt = ids,
        .n_prompt = n_ids,
        .max_tokens = option_int(options, OPT_MAX_TOKENS),
        .prompt_only = option_int(options, OPT_MAX_TOKENS) == 0,
        .stop = options->value[OPT_STOP].list,
        .n_stop = (size_t)options->value[OPT_STOP].n_list,
        .stop_tokens = run->stop_ids.id,
        .n_stop_tokens = run->stop_ids.count,
        .include_stop = option_flag(options, OPT_INCLUDE_STOP),
        .min_tokens = option_int(options, OPT_MIN_TOKENS),
        .bad_words = options->value[OPT_BAD_WORD].list,
        .n_bad_words = (size_t)options->value[OPT_BAD_WORD].n_list,
        .reasoning = reasoning_bound(options, reasoning),
        .special_text = answer->special_text,
        .shape = run->shape,
        .ignore_eos = option_flag(options, OPT_IGNORE_EOS),
        .sampling = run->sampling.value,
    };
    answer->term = &run->term;
    answer->observe = run->observe;
    answer->report = (struct report){.model = rn_model_get_info(run->model),
                                     .name = run->name.text,
                                     .load_ms = run->load_ms};
    rn_engine_get_info(run->engine, &answer->report.engine);
    return answer_run(answer, run->engine, run->model, &request);
}

// On a terminal the story starts with its prompt, dimmed. A prompt from standard input is on
// the screen already, or in a pipe.
static void prompt_echo(const struct run *run, const struct prompt *prompt, struct wrap *wrap) {
    if (run->json || !run->term.out_tty || prompt->source == OPT_COUNT || !prompt->text.data)
        return;
    fputs(term_dim(run->term.out_color), stdout);
    if (prompt->chat) wrap_write(wrap, &run->term, "> ", 2);
    wrap_write(wrap, &run->term, prompt->text.data, prompt->text.len);
    fputs(term_reset(run->term.out_color), stdout);
    if (prompt->chat) wrap_write(wrap, &run->term, "\n", 1);
    fflush(stdout);
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

// jansson has no integers beyond int64_t: such a seed is a negative one in the object, and written
// here. The search cannot hit a text that contains the member's name: there the quote has a
// backslash before it.
static int object_write(json_t *object, uint64_t seed) {
    static const char member[] = "\"seed\":";
    const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(6);
    if (!object || seed <= INT64_MAX) return json_print(object, flags);
    char *text = json_dumps(object, flags);
    json_decref(object);
    char *at = text ? strstr(text, member) : NULL;
    if (!at) {
        free(text);
        return app_fail(APP_FAILED, "out of memory");
    }
    at += strlen(member);
    fwrite(text, 1, (size_t)(at - text), stdout);
    printf("%" PRIu64 "%s\n", seed, at + strspn(at, "-0123456789"));
    free(text);
    return APP_OK;
}

static int object_print(const struct run *run, const struct prompt *prompt,
                        const struct answer *answer) {
    const char *path = answer->report.model->path;
    const struct text *text = &answer->text;
    json_t *object = json_object();
    if (!json_put(object, "model", json_text(path, strlen(path))) ||
        !json_put(object, "text", json_text(text->data ? text->data : "", text->len)) ||
        !json_put(object, "prompt_ids", ids_json(&prompt->ids)) ||
        !json_put(object, "ids", ids_json(&answer->ids)) || !report_json(&answer->report, object) ||
        (run->observe->choice &&
         !json_put(object, "explain", observe_json(run->observe, &answer->report, run->engine)))) {
        json_decref(object);
        object = NULL;
    }
    return object_write(object, answer->report.seed);
}

// Before a file is loaded, a user at a terminal is told where memory goes. A plan that fails says
// nothing: creating the engine will.
static void memory_print(const struct run *run, const rn_engine_options *wanted) {
    rn_memory_plan plan;
    if (!option_given(run->options, OPT_MODEL) || !run->term.err_tty || run->json) return;
    if (rn_engine_plan_memory(run->model, wanted, &plan, NULL) == RN_OK)
        report_print_plan(&plan, &run->term);
}

static int engine_create(struct run *run) {
    const uint64_t start = clock_ns();
    rn_engine_options wanted;
    app_engine_options(run->options, &wanted);
    draft_engine_options(run->options, run->draft, &wanted);
    wanted.logit_rows = run->logits.file ? -1 : 0; // of every position
    if (!run->quiet) {
        draft_warn_large(run->draft, run->model);
        memory_print(run, &wanted);
    }
    const int code =
        app_engine_create(run->options, run->model, &wanted, &run->term, run->quiet, &run->engine);
    run->load_ms += (double)(clock_ns() - start) / 1e6;
    return code;
}

static int answer_once(struct run *run, const struct prompt *prompt, struct answer *answer) {
    int code = engine_create(run);
    if (code) return code;
    prompt_echo(run, prompt, &answer->wrap);
    // behind a typed prompt the cursor may be anywhere
    answer->is_waited = !run->quiet && (prompt->source != OPT_COUNT || !isatty(STDIN_FILENO));
    interrupt_watch();
    if ((code = run_answer(run, prompt->ids.id, prompt->ids.count, &prompt->reasoning, answer)))
        return code;
    if ((code = logits_close(&run->logits))) return code;
    if (!run->quiet || run->observe->choice) report_measure(&answer->report, run->engine);
    if (run->json) {
        code = object_print(run, prompt, answer);
    } else if (!run->quiet) {
        report_print(&answer->report, &run->term);
    }
    if (code) return code;
    if (!run->json) observe_print(run->observe, &answer->report, run->engine, &run->term);
    if ((code = observe_close(run->observe))) return code;
    return interrupt_seen() ? APP_INTERRUPTED : APP_OK;
}

// On a terminal the parts of an answer are told apart; elsewhere its text is as the model wrote it,
// and special tokens are in it where a call cannot be read without them.
static void speech_begin(const struct run *run, const struct prompt *prompt, struct speech *speech,
                         struct answer *answer) {
    const struct chat *chat = &prompt->said;
    const rn_reasoning *reasoning = &prompt->reasoning;
    if (!prompt->chat) return;
    if (!run->json && run->term.out_tty && speech_is_for(chat))
        speech_init(speech, chat, reasoning->close && !reasoning->open, answer);
    else
        answer->special_text = chat->tools && answer_marks_special(&chat->marks, true);
}

static int run_once(struct run *run, struct prompt *prompt) {
    struct answer answer = {.term = &run->term, .shown = !run->json, .kept = run->json};
    struct speech speech = {0};
    if (run->logits.file) answer.logits = &run->logits;
    int code = prompt_get(run, prompt);
    if (!code) {
        speech_begin(run, prompt, &speech, &answer);
        code = answer_once(run, prompt, &answer);
    }
    speech_deinit(&speech);
    answer_deinit(&answer);
    chat_close(&prompt->said);
    return code;
}

static int run_conversation(struct run *run) {
    struct chat chat;
    int code = chat_open(&chat, run->options, run->model);
    if (code) return code;
    code = engine_create(run);
    if (!code) code = converse(run, &chat);
    chat_close(&chat);
    return code;
}

static int run_steps(struct run *run, struct prompt *prompt) {
    int code = app_belongs(run->options, OPT_TRACE_LIMIT, OPT_TRACE);
    if (!code) code = prompt_check(run->options, prompt);
    if (code) return code;
    const uint64_t start = clock_ns();
    if ((code = app_open_model(run->options, false, &run->model))) return code;
    run->name =
        model_name_short(option_text(run->options, OPT_MODEL), rn_model_get_info(run->model));
    if ((code = draft_open(run->options, run->model, &run->draft))) return code;
    run->load_ms = (double)(clock_ns() - start) / 1e6;
    code = sampling_get(run->options, rn_model_get_info(run->model), &run->sampling);
    if (code) return code;
    if (option_text(run->options, OPT_STOP_IDS)) {
        if ((code = ids_parse(run, OPT_STOP_IDS, &run->stop_ids))) return code;
    }
    if ((code = shape_open(run->options, run->model, &run->shape))) return code;
    if ((code = logits_open(&run->logits, run->options, run->model))) return code;
    if ((code = observe_open(run->observe, run->options, run->model))) return code;
    return converse_wanted(run, prompt) ? run_conversation(run) : run_once(run, prompt);
}

int command_run(const struct options *options) {
    struct observe observe = {0};
    struct run run = {
        .options = options,
        .observe = &observe,
        .json = option_flag(options, OPT_JSON),
        .quiet = option_flag(options, OPT_QUIET),
    };
    struct prompt prompt = {0};
    term_init(&run.term, options);
    interrupt_ends();
    int code = run_steps(&run, &prompt);
    const int closed = observe_close(&observe);
    code = code ? code : closed;
    logits_close(&run.logits);
    rn_engine_destroy(run.engine);
    rn_shape_release(run.shape);
    rn_model_close(run.draft);
    rn_model_close(run.model);
    text_free(&prompt.text);
    free(run.stop_ids.id);
    if (prompt.source == OPT_PROMPT_IDS) {
        free(prompt.ids.id);
    } else {
        rn_free(prompt.ids.id);
    }
    return code;
}
