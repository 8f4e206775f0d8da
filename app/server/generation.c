// Making a generation on a worker: prompts, their limits, the chat template. And the sums over its
// choices that writers print.
#include "generation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "answer_types.h"
#include "generation_shape.h"
#include "prompt_ids.h"
#include "slots.h"
#include "template_input.h"

struct generation *generation_create(struct call *call, const struct writer *writer) {
    struct generation *generation = calloc(1, sizeof *generation);
    if (!generation) {
        call_refuse_memory(call);
        return NULL;
    }
    generation->writer = writer;
    generation->params.n = 1;
    generation->params.id_slot = -1;
    generation->params.max_tokens = call->served->max_tokens;
    call->generation = generation;
    return generation;
}

static void choice_deinit(struct generation_choice *choice) {
    jbuf_deinit(&choice->text);
    jbuf_deinit(&choice->reasoning);
    for (int i = 0; i < choice->n_tools; i++) {
        jbuf_deinit(&choice->tool[i].name);
        custom_input_deinit(&choice->tool[i].input);
        jbuf_deinit(&choice->tool[i].arguments);
    }
    free(choice->tool);
    free(choice->token);
    free(choice->logprob);
    free(choice->top);
    free(choice->stop);
    free(choice->embedding);
    gaps_deinit(&choice->gaps);
    parts_deinit(&choice->parts);
}

void generation_destroy(struct generation *generation) {
    if (!generation) return;
    for (int i = 0; i < generation->n_choices; i++) choice_deinit(&generation->choice[i]);
    for (int i = 0; i < generation->n_prompts; i++) {
        rn_free(generation->prompt[i].ids);
        free(generation->prompt[i].text);
        free(generation->prompt[i].logprob);
        free(generation->prompt[i].rank);
    }
    free(generation->prompt);
    free(generation->choice);
    json_decref(generation->types);
    json_decref(generation->echoed);
    json_decref(generation->custom);
    json_decref(generation->shape_tools);
    shape_deinit(&generation->shape);
    tool_choice_deinit(&generation->tool_choice);
    rn_shape_release(generation->compiled);
    free(generation->stream);
    if (generation->own_free) generation->own_free(generation->own);
    free(generation);
}

// ---------------------------------------------------------------- prompts

bool generation_add(struct call *call, struct generation *generation, int32_t *ids, size_t n_ids) {
    const size_t count = (size_t)generation->n_prompts + 1;
    struct generation_prompt *prompt = realloc(generation->prompt, count * sizeof *prompt);
    if (!prompt) {
        rn_free(ids);
        return call_refuse_memory(call);
    }
    generation->prompt = prompt;
    prompt[count - 1] = (struct generation_prompt){.ids = ids, .n_ids = n_ids};
    generation->n_prompts = (int)count;
    return true;
}

// A place is left for the first token that is to be written.
static bool prompt_check(struct call *call, const struct generation *generation, int index,
                         const char *what) {
    const struct generation_prompt *prompt = &generation->prompt[index];
    const int n_ctx = call->served->engine_info.n_ctx;
    const bool writes = generation->params.max_tokens != 0 && !generation->pooling;
    if (prompt->n_ids == 0) return call_refuse(call, 400, what, NULL, "%s: is empty", what);
    if (prompt->n_ids + writes <= (size_t)n_ctx) return true;
    char message[320], theirs[96] = "";
    // the words that Anthropic's clients match; they subtract the numbers
    if (call_api_of(call) == API_ANTHROPIC)
        snprintf(theirs, sizeof theirs, "prompt is too long: %zu tokens > %d maximum. ",
                 prompt->n_ids, n_ctx - writes);
    snprintf(message, sizeof message,
             "%sThis model's maximum context length is %d tokens. However, your messages resulted "
             "in %zu tokens. Please reduce the length of the messages.",
             theirs, n_ctx, prompt->n_ids);
    return call_refuse_length(call, what, prompt->n_ids, n_ctx, message);
}

// vLLM's truncate_prompt_tokens: the end of the prompt is kept, or its start.
static void prompt_cut(const struct call *call, const struct params *params, bool writes,
                       struct generation_prompt *prompt) {
    const int n_ctx = call->served->engine_info.n_ctx;
    const int room = writes ? n_ctx - (params->max_tokens > 0 ? params->max_tokens : 1) : n_ctx;
    const int keep = params->keep_prompt >= 0 ? params->keep_prompt : room > 1 ? room : 1;
    if (!params->keep_prompt || prompt->n_ids <= (size_t)keep) return;
    if (!params->keep_start)
        memmove(prompt->ids, prompt->ids + prompt->n_ids - (size_t)keep,
                (size_t)keep * sizeof *prompt->ids);
    prompt->n_ids = (size_t)keep;
}

bool generation_check(struct call *call, struct generation *generation, const char *what) {
    if (call_refused(call)) return false;
    const int n = generation->params.n;
    for (int i = 0; i < generation->n_prompts; i++)
        prompt_cut(call, &generation->params,
                   generation->params.max_tokens != 0 && !generation->pooling,
                   &generation->prompt[i]);
    for (int i = 0; i < generation->n_prompts; i++) {
        if (!prompt_check(call, generation, i, what)) return false;
    }
    const int places = served_places(call->served);
    if ((long)n * generation->n_prompts > places) {
        return call_refuse(call, 400, n > 1 ? "n" : what, NULL,
                           "%d prompts with %d choices each are more than the %d that the server "
                           "takes",
                           generation->n_prompts, n, places);
    }
    slots_want(call, generation);
    return true;
}

// ---------------------------------------------------------------- chat

struct chat_json {
    char *messages, *tools, *variables;
};

static bool dump(const json_t *value, char **out) {
    struct jbuf text = {0};
    *out = NULL;
    if (!value) return true;
    jbuf_json(&text, value);
    jbuf_bytes(&text, "", 1);
    if (text.failed) {
        jbuf_deinit(&text);
        return false;
    }
    *out = text.data;
    return true;
}

// False: out of memory.
static bool types_read(struct generation *generation, const struct answer_marks *marks,
                       const json_t *tools) {
    if (!tools || !marks->tools.tags) return true;
    generation->types = answer_types_of(tools);
    return generation->types != NULL;
}

// Whether the prompt ends inside a reasoning, or after one.
static void reasoning_find(struct generation *generation, const char *text, size_t len) {
    generation->in_reasoning =
        generation->marks && answer_marks_opened(generation->marks, text, len);
    generation->has_reasoned =
        generation->marks && answer_marks_closed(generation->marks, text, len);
}

// The prompt that another server made of the messages.
static bool chat_given(struct call *call, struct generation *generation) {
    static const char path[] = "kv_transfer_params.prompt_token_ids";
    int32_t *ids;
    size_t n_ids, len;
    char *text;
    if (!prompt_ids_of_list(call, generation->given_ids, path, &ids, &n_ids)) return false;
    if (!generation_add(call, generation, ids, n_ids)) return false;
    if (!prompt_text_of(call, ids, n_ids, path, &text, &len)) return false;
    reasoning_find(generation, text, len);
    rn_free(text);
    return true;
}

static bool chat_tokens(struct call *call, struct generation *generation, const char *text,
                        size_t len) {
    rn_error err = {0};
    int32_t *ids = NULL;
    size_t n_ids = 0;
    reasoning_find(generation, text, len);
    const rn_status status =
        rn_tokenize(call->served->model, text, len,
                    RN_TOKENIZE_BOS | RN_TOKENIZE_SPECIAL | RN_TOKENIZE_GUARDED, &ids, &n_ids,
                    &err);
    if (status) return call_refuse_error(call, "messages", &err);
    return generation_add(call, generation, ids, n_ids);
}

static bool chat_render(struct call *call, struct generation *generation, const rn_chat *chat) {
    rn_error err = {0};
    char *text = NULL;
    size_t len = 0;
    const rn_status status = rn_chat_render(call->served->tmpl, chat, &text, &len, &err);
    if (status) return call_refuse_error(call, "messages", &err);
    const bool ok = chat_tokens(call, generation, text, len);
    rn_free(text);
    return ok;
}

bool generation_chat(struct call *call, struct generation *generation, const json_t *messages,
                     const json_t *tools, const json_t *variables, bool add_generation_prompt,
                     bool continue_final) {
    if (call_refused(call)) return false;
    const struct served *served = call->served;
    if (!served->tmpl) {
        return call_refuse(call, 400, "messages", "no_chat_template",
                           "messages: the model has no chat template; use /v1/completions, or "
                           "start the server with --chat-template");
    }
    if (tools && !(served->tmpl_source && strstr(served->tmpl_source, "tools"))) {
        if (call_api_of(call) == API_OLLAMA) // the sentence that its clients match
            return call_refuse(call, 400, "tools", "unsupported_parameter",
                               "\"%.200s\" does not support tools", served->name);
        return call_refuse(call, 400, "tools", "unsupported_parameter",
                           "tools: the model's chat template knows no tools; tool_choice \"none\" "
                           "leaves them out");
    }
    struct chat_json json = {0};
    bool ok = dump(messages, &json.messages) && dump(tools, &json.tools) &&
              template_variables_text(served->variables, variables, &json.variables) &&
              types_read(generation, &served->marks, tools);
    if (!ok) {
        call_refuse_memory(call);
    } else {
        generation->marks = &served->marks;
        generation->tools = tools != NULL;
        generation->special_text = answer_marks_special(&served->marks, generation->tools);
        const rn_chat chat = {.messages = json.messages,
                              .tools = json.tools,
                              .variables = json.variables,
                              .add_generation_prompt = add_generation_prompt,
                              .continue_final = continue_final,
                              .guard = true,
                              .now = (int64_t)time(NULL)};
        ok = generation->given_ids ? chat_given(call, generation)
                                   : chat_render(call, generation, &chat);
    }
    free(json.messages);
    free(json.tools);
    free(json.variables);
    return ok && generation_shape_want(call, generation, tools);
}

// ---------------------------------------------------------------- whole answers

size_t choice_bytes(const struct generation_choice *choice) {
    size_t tools = 0;
    for (int i = 0; i < choice->n_tools; i++) tools += choice->tool[i].arguments.capacity;
    return choice->text.capacity + choice->reasoning.capacity + tools +
           (size_t)choice->token_capacity * sizeof *choice->token +
           (size_t)choice->logprob_capacity * sizeof *choice->logprob +
           (size_t)choice->top_capacity * sizeof *choice->top;
}

// The written text is not needed again; times and numbers stay.
static void choice_forget(struct call *call, struct generation_choice *choice) {
    jbuf_deinit(&choice->text);
    jbuf_deinit(&choice->reasoning);
    for (int i = 0; i < choice->n_tools; i++) jbuf_deinit(&choice->tool[i].arguments);
    free(choice->token);
    free(choice->logprob);
    free(choice->top);
    free(choice->embedding);
    choice->token = NULL;
    choice->logprob = NULL;
    choice->top = NULL;
    choice->embedding = NULL;
    choice->n_tokens = choice->n_logprob = choice->n_top = 0;
    choice->token_capacity = choice->logprob_capacity = choice->top_capacity = 0;
    call_count(call, choice->counted, 0);
    choice->counted = 0;
}

static bool whole_more(struct call *call) {
    struct generation *generation = call->generation;
    call->out.most = 0; // the limit on kept bytes bounds it
    generation->writer->whole(call, generation->n_written);
    choice_forget(call, &generation->choice[generation->n_written]);
    return ++generation->n_written < generation->n_choices && !call->out.failed;
}

void generation_write_end(struct call *call) {
    const struct writer *writer = call->generation->writer;
    if (!call->generation->params.stream) {
        call->more = whole_more;
    } else if (writer->end) {
        writer->end(call);
    }
}

// ---------------------------------------------------------------- sums

// A prompt's tokens are added once for all its choices.
struct usage generation_usage(const struct generation *generation) {
    struct usage usage = {0};
    int prompt = -1;
    for (int i = 0; i < generation->n_choices; i++) {
        const struct generation_choice *choice = &generation->choice[i];
        usage.completion_tokens += choice->timings.output_tokens;
        usage.reasoning_tokens += choice->n_reasoning;
        if (choice->prompt == prompt) continue;
        prompt = choice->prompt;
        usage.prompt_tokens += (int)generation->prompt[prompt].n_ids;
        usage.cached_tokens += choice->timings.cached_tokens;
    }
    return usage;
}

struct failure generation_failure(rn_status status) {
    switch (status) {
    case RN_ERR_DEADLINE:
        return (struct failure){504, NULL, "timeout",
                                "The request took longer than its timeout_ms, or the server's "
                                "--request-timeout, allows"};
    case RN_ERR_NUMERIC:
        return (struct failure){500, NULL, NULL, "The model produced no finite logits"};
    case RN_ERR_SHAPE: // the request asks for it
        return (struct failure){400, NULL, "shape_failed", "No token continues the text"};
    case RN_ERR_AMBIGUOUS:
        return (struct failure){400, NULL, "shape_too_ambiguous", "The shape is too ambiguous"};
    case RN_ERR_NOMEM:
        return (struct failure){503, NULL, "out_of_memory", "out of memory"};
    case RN_ERR_STEP:
        return (struct failure){500, NULL, "step_failed", "The device failed in a step"};
    case RN_ERR_DEVICE:
        return (struct failure){503, NULL, "device_lost", "The device was lost"};
    case RN_ERR_IO:
        return (struct failure){503, NULL, "model_changed", "A file of the model was written to"};
    case RN_ERR_BOUND:
        return (struct failure){429, NULL, "slo_unmet", "The bound on time cannot be kept"};
    case RN_ERR_CANCELLED:
        return (struct failure){503, NULL, NULL, "The request was ended by the server"};
    default:
        return (struct failure){500, NULL, NULL, "The request was ended by the server"};
    }
}

static const char *status_word(rn_status status) {
    switch (status) {
    case RN_ERR_DEADLINE:
        return "timeout";
    case RN_ERR_CANCELLED:
        return "cancelled";
    case RN_ERR_NUMERIC:
        return "numeric_error";
    case RN_ERR_SHAPE:
        return "shape_failed";
    case RN_ERR_AMBIGUOUS:
        return "shape_too_ambiguous";
    case RN_ERR_NOMEM:
        return "out_of_memory";
    case RN_ERR_STEP:
        return "step_failed";
    case RN_ERR_DEVICE:
        return "device_lost";
    case RN_ERR_IO:
        return "model_changed";
    case RN_ERR_BOUND:
        return "slo_unmet";
    default:
        return "server_error";
    }
}

const char *generation_error(const struct call *call, bool gone, char out[GENERATION_ERROR_SIZE]) {
    const struct generation *generation = call->generation;
    for (int i = 0; generation && i < generation->n_choices; i++) {
        const struct generation_choice *choice = &generation->choice[i];
        if (choice->finish == RN_FINISH_ERROR || choice->finish == RN_FINISH_CANCELLED)
            return status_word(choice->status);
    }
    if (call->status >= 500) {
        snprintf(out, GENERATION_ERROR_SIZE, "%d", call->status);
        return out;
    }
    if (call->failed) return "out_of_memory";
    return gone ? "client_disconnected" : NULL;
}

struct sums {
    double queue_ms, prompt_ms, ttft_ms, decode_ms, bytes;
    int output, decoded; // decoded: tokens after the first of each choice
    int drafted, accepted;
    double stream_ms, undrafted_ms; // of all choices together, with drafts and without
};

static double larger(double a, double b) { return a > b ? a : b; }

static struct sums sums_of(const struct generation *generation) {
    struct sums sums = {0};
    for (int i = 0; i < generation->n_choices; i++) {
        const rn_timings *t = &generation->choice[i].timings;
        sums.queue_ms = larger(sums.queue_ms, t->queue_ms);
        sums.prompt_ms = larger(sums.prompt_ms, t->prompt_ms);
        sums.ttft_ms = larger(sums.ttft_ms, t->ttft_ms);
        sums.decode_ms = larger(sums.decode_ms, t->decode_ms);
        sums.bytes += (double)t->decode_bytes;
        sums.drafted += t->draft_tokens;
        sums.accepted += t->accepted_tokens;
        sums.stream_ms += t->decode_ms;
        sums.undrafted_ms += t->undrafted_ms;
        sums.output += t->output_tokens;
        sums.decoded += t->output_tokens > 0 ? t->output_tokens - 1 : 0;
    }
    return sums;
}

static double over(double value, double by) { return by > 0 ? value / by : 0; }

// Gaps of several choices are not mixed: the first choice's gaps are reported.
static void put_gaps(struct jbuf *out, const struct gaps *gaps) {
    jbuf_put_real(out, "itl_ms_p50", gaps_percentile(gaps, 0.50), 3);
    jbuf_put_real(out, "itl_ms_p99", gaps_percentile(gaps, 0.99), 3);
}

// The speed-up is null where nothing was drafted.
static void put_drafts(struct jbuf *out, const struct sums *sums) {
    const bool known = sums->drafted && sums->undrafted_ms > 0 && sums->stream_ms > 0;
    jbuf_put_int(out, "draft_n", sums->drafted);
    jbuf_put_int(out, "draft_n_accepted", sums->accepted);
    jbuf_put_real(out, "draft_speedup", known ? sums->undrafted_ms / sums->stream_ms : (double)NAN,
                  3);
}

// The members that llama.cpp's clients read.
static void put_speeds(struct jbuf *out, const struct sums *sums, int cached, int prompt_n) {
    jbuf_put_int(out, "cache_n", cached);
    jbuf_put_int(out, "prompt_n", prompt_n);
    jbuf_put_real(out, "prompt_ms", sums->prompt_ms, 3);
    jbuf_put_real(out, "prompt_per_token_ms", over(sums->prompt_ms, prompt_n), 3);
    jbuf_put_real(out, "prompt_per_second", over(prompt_n * 1e3, sums->prompt_ms), 2);
    jbuf_put_int(out, "predicted_n", sums->output);
    jbuf_put_real(out, "predicted_ms", sums->decode_ms, 3);
    jbuf_put_real(out, "predicted_per_token_ms", over(sums->decode_ms, sums->decoded), 3);
    jbuf_put_real(out, "predicted_per_second", over(sums->decoded * 1e3, sums->decode_ms), 2);
}

void generation_timings_now(const struct call *call, const struct generation_choice *choice,
                            struct jbuf *out) {
    const struct generation_prompt *prompt = &call->generation->prompt[choice->prompt];
    const struct sums sums = {.prompt_ms = prompt->prompt_ms,
                              .decode_ms = (double)(choice->last_ns - choice->first_ns) * 1e-6,
                              .output = choice->n_output,
                              .decoded = choice->n_output > 0 ? choice->n_output - 1 : 0};
    const int done = choice->n_output > 0 ? (int)prompt->n_ids : prompt->done;
    if (!call->generation->params.timings_per_token) return;
    jbuf_text(out, ",\"timings\":{");
    put_speeds(out, &sums, prompt->cached, done - prompt->cached);
    jbuf_text(out, "}");
}

void generation_progress(const struct call *call, const struct generation_choice *choice,
                         const rn_event *event, struct jbuf *out) {
    jbuf_text(out, ",\"prompt_progress\":{");
    jbuf_put_int(out, "total", (int64_t)call->generation->prompt[choice->prompt].n_ids);
    jbuf_put_int(out, "cache", event->prompt_cached);
    jbuf_put_int(out, "processed", event->prompt_done);
    jbuf_put_int(out, "time_ms", (int64_t)event->prompt_ms);
    jbuf_text(out, "}");
}

void generation_timings(const struct call *call, struct jbuf *out) {
    const struct generation *generation = call->generation;
    const struct usage usage = generation_usage(generation);
    const struct sums sums = sums_of(generation);
    jbuf_text(out, "\"timings\":{");
    put_speeds(out, &sums, usage.cached_tokens, usage.prompt_tokens - usage.cached_tokens);
    put_drafts(out, &sums);
    jbuf_put_real(out, "ttft_ms", sums.ttft_ms > 0 ? sums.ttft_ms : (double)NAN, 3);
    jbuf_put_real(out, "queue_ms", sums.queue_ms, 3);
    put_gaps(out, &generation->choice[0].gaps);
    jbuf_put_real(out, "bytes_per_token", over(sums.bytes, sums.decoded), 0);
    jbuf_put_real(out, "bandwidth_share",
                  call->served->bandwidth > 0
                      ? over(sums.bytes, sums.decode_ms * 1e-3) / call->served->bandwidth
                      : (double)NAN,
                  4);
    jbuf_text(out, "}");
}
