// OpenAI's Responses API, /v1/responses: handler and writer. An answer is a row of items
// (reasoning, message, function call); a stream has one open at a time, and a piece of another kind
// closes it. Streams repeat their texts when an item and the response are done, so texts are
// kept. A call has one prompt and one choice.
#include "responses.h"

#include <stdlib.h>
#include <time.h>

#include "generation_shape.h"
#include "openai.h"
#include "routes.h"
#include "turns_read.h"

_Static_assert((int)TURN_ID_BYTES == (int)CALL_ID_BYTES, "the id of an answer");

struct state {
    struct jbuf echo; // the response's members that do not change
    // where it is kept: its items so far, those of the request first
    bool is_kept;
    struct jbuf items;
    size_t input_len;
    struct turns *store;
    struct turn *previous; // referred to; NULL: none
    // the rest is for streams
    int64_t sequence; // events so far
    bool open;
    enum answer_part part; // of the open item: PART_CONTENT, PART_REASONING or PART_TOOL
    int tool;              // of the open item
    int index;             // of the open item, or of the next one
    struct jbuf text;      // of the open item
    struct jbuf logprobs;  // the same
    struct jbuf output;    // items that are done
};

struct form;
struct item {
    enum answer_part part;
    const struct form *form; // of the part
    int index;
    const char *status;
    const struct tool_call *tool; // with PART_TOOL
    const struct jbuf *text;      // of a function call: its arguments; NULL: none yet
    const struct jbuf *logprobs;  // NULL: none
};

static void state_free(void *own) {
    struct state *state = own;
    turns_release(state->store, state->previous);
    jbuf_deinit(&state->items);
    jbuf_deinit(&state->echo);
    jbuf_deinit(&state->text);
    jbuf_deinit(&state->logprobs);
    jbuf_deinit(&state->output);
    free(state);
}

// ---------------------------------------------------------------- items

static bool is_custom(const struct tool_call *tool) { return tool && tool->is_custom; }

// How a kind of item is written.
struct form {
    const char *prefix; // of its id
    const char *key;    // of its text in the event `done`
    const char *delta, *done;
    const char *part;                   // the type of its part; NULL if it has none
    const char *part_added, *part_done; // events about that, and what they call its place:
    const char *place;
};
enum { FORM_MESSAGE, FORM_REASONING, FORM_SUMMARY, FORM_FUNCTION, FORM_CUSTOM };

#define TEXT(name)  .delta = "response." name ".delta", .done = "response." name ".done"
#define PARTS(name) .part_added = "response." name ".added", .part_done = "response." name ".done"
static const struct form forms[] = {
    [FORM_MESSAGE] = {"msg", "text", TEXT("output_text"), "output_text", PARTS("content_part"),
                      "content_index"},
    [FORM_REASONING] = {"rs", "text", TEXT("reasoning_text"), "reasoning_text",
                        PARTS("content_part"), "content_index"},
    [FORM_SUMMARY] = {"rs", "text", TEXT("reasoning_summary_text"), "summary_text",
                      PARTS("reasoning_summary_part"), "summary_index"},
    [FORM_FUNCTION] = {"fc", "arguments", TEXT("function_call_arguments")},
    [FORM_CUSTOM] = {"ctc", "input", TEXT("custom_tool_call_input")},
};
#undef TEXT
#undef PARTS

// tool: with PART_TOOL. The reasoning is its own summary, where one is asked for.
static const struct form *form_of(const struct call *call, enum answer_part part,
                                  const struct tool_call *tool) {
    if (part == PART_CONTENT) return &forms[FORM_MESSAGE];
    if (part == PART_TOOL) return &forms[is_custom(tool) ? FORM_CUSTOM : FORM_FUNCTION];
    return &forms[call->generation->params.summary ? FORM_SUMMARY : FORM_REASONING];
}

static void item_id_put(const struct call *call, const struct form *form, int index,
                        struct jbuf *out) {
    jbuf_printf(out, "\"%s_%s_%d\"", form->prefix, call->id, index);
}

// A text or a list of logprobs that may not be there.
static void text_put(const struct jbuf *text, struct jbuf *out) {
    jbuf_string(out, text ? text->data : NULL, text ? text->len : 0);
}

static void logprobs_put(const struct jbuf *logprobs, struct jbuf *out) {
    jbuf_text(out, ",\"logprobs\":[");
    if (logprobs) jbuf_bytes(out, logprobs->data, logprobs->len);
    jbuf_text(out, "]");
}

// The part of a message or a reasoning item.
static void part_put(const struct item *item, struct jbuf *out) {
    jbuf_text(out, "{\"type\":");
    jbuf_cstring(out, item->form->part);
    if (item->part == PART_CONTENT) {
        jbuf_text(out, ",\"annotations\":[]");
        logprobs_put(item->logprobs, out);
    }
    jbuf_key(out, "text");
    text_put(item->text, out);
    jbuf_text(out, "}");
}

static void function_put(const struct item *item, struct jbuf *out) {
    jbuf_text(out, is_custom(item->tool) ? ",\"type\":\"custom_tool_call\""
                                         : ",\"type\":\"function_call\"");
    jbuf_key(out, "call_id");
    jbuf_cstring(out, item->tool->id);
    jbuf_key(out, "name");
    jbuf_string(out, item->tool->name.data, item->tool->name.len);
    jbuf_key(out, item->form->key);
    text_put(item->text, out);
}

// The list of an item's parts, and the empty list that a reasoning item has besides.
static void parts_put(const struct item *item, struct jbuf *out) {
    const bool is_summary = item->form == &forms[FORM_SUMMARY];
    if (item->form == &forms[FORM_REASONING]) jbuf_text(out, ",\"summary\":[]");
    jbuf_text(out, is_summary ? ",\"summary\":[" : ",\"content\":[");
    if (item->text) part_put(item, out);
    jbuf_text(out, is_summary ? "],\"content\":[]" : "]");
}

static void item_put(const struct call *call, const struct item *item, struct jbuf *out) {
    jbuf_text(out, "{\"id\":");
    item_id_put(call, item->form, item->index, out);
    if (item->part == PART_TOOL) {
        function_put(item, out);
    } else {
        jbuf_text(out, item->part == PART_CONTENT ? ",\"type\":\"message\",\"role\":\"assistant\""
                                                  : ",\"type\":\"reasoning\"");
        parts_put(item, out);
    }
    jbuf_key(out, "status");
    jbuf_cstring(out, item->status);
    jbuf_text(out, "}");
}

// ---------------------------------------------------------------- the response

static bool is_cut(const struct generation_choice *choice) {
    return choice->finish == RN_FINISH_LENGTH;
}

static const char *status_of(bool is_whole) { return is_whole ? "completed" : "incomplete"; }

static void usage_put(const struct call *call, struct jbuf *out) {
    const struct usage usage = generation_usage(call->generation);
    jbuf_printf(out,
                "{\"input_tokens\":%d,\"input_tokens_details\":{\"cached_tokens\":%d,"
                "\"cache_write_tokens\":0},\"output_tokens\":%d,"
                "\"output_tokens_details\":{\"reasoning_tokens\":%d},\"total_tokens\":%d}",
                usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens,
                usage.reasoning_tokens, usage.prompt_tokens + usage.completion_tokens);
}

// A response up to its output. error NULL: none.
static void head_put(const struct call *call, const char *status, const struct failure *error,
                     bool cut, struct jbuf *out) {
    const struct state *state = call->generation->own;
    jbuf_printf(out, "{\"id\":\"resp_%s\",\"object\":\"response\",\"created_at\":%lld", call->id,
                (long long)call->created);
    jbuf_key(out, "status");
    jbuf_cstring(out, status);
    jbuf_key(out, "error");
    if (error) {
        jbuf_text(out, "{\"code\":");
        jbuf_cstring(out, error->code ? error->code : "server_error");
        jbuf_key(out, "message");
        jbuf_cstring(out, error->message);
        jbuf_text(out, "}");
    } else {
        jbuf_text(out, "null");
    }
    jbuf_key(out, "incomplete_details");
    jbuf_text(out, cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    jbuf_key(out, "model");
    jbuf_cstring(out, call->served->name);
    jbuf_text(out, ",");
    jbuf_bytes(out, state->echo.data, state->echo.len);
    jbuf_key(out, "output");
}

// The rest behind its output, for a response that is done.
static void tail_put(const struct call *call, bool cut, struct jbuf *out) {
    jbuf_key(out, "completed_at");
    if (cut) {
        jbuf_text(out, "null");
    } else {
        jbuf_int(out, (int64_t)time(NULL));
    }
    jbuf_key(out, "usage");
    usage_put(call, out);
    jbuf_text(out, ",");
    generation_timings(call, out);
    jbuf_text(out, "}");
}

// ---------------------------------------------------------------- keeping it

// The item that was written from `from` on.
static void item_keep(const struct call *call, const struct jbuf *written, size_t from) {
    struct state *state = call->generation->own;
    if (!state->is_kept || written->failed) return;
    jbuf_bytes(&state->items, written->data + from, written->len - from);
    jbuf_bytes(&state->items, "\n", 1);
}

// The whole response is in call->out: from `head` to its output, and from `tail` on.
static void response_keep(struct call *call, size_t head, size_t output, size_t tail) {
    struct state *state = call->generation->own;
    const struct jbuf *out = &call->out;
    if (!state->is_kept || out->failed) return;
    struct turn response = {.kind = TURN_RESPONSE,
                            .owner = call->owner,
                            .previous = state->previous,
                            .input_len = state->input_len,
                            .output_len = state->items.len - state->input_len,
                            .head_len = output - head};
    call_answer_id(call, response.id);
    jbuf_bytes(&state->items, out->data + head, output - head);
    jbuf_bytes(&state->items, out->data + tail, out->len - tail);
    response.text = state->items;
    state->items = (struct jbuf){0};
    state->is_kept = false;
    turns_keep(state->store, &response);
}

// ---------------------------------------------------------------- whole

static void output_put(const struct call *call, struct generation_choice *choice,
                       struct jbuf *out) {
    const bool has_text = choice->text.len || (!choice->reasoning.len && !choice->n_tools);
    const int n = (choice->reasoning.len > 0) + has_text + choice->n_tools;
    struct jbuf logprobs = {0};
    openai_logprobs_take(call, choice, true, &logprobs);
    jbuf_text(out, "[");
    for (int i = 0; i < n; i++) {
        const int tool = i - (n - choice->n_tools);
        struct item item = {.index = i, .status = status_of(!is_cut(choice) || i + 1 < n)};
        if (tool >= 0) {
            item.part = PART_TOOL;
            item.tool = &choice->tool[tool];
            item.text = &item.tool->arguments;
            item.status = status_of(item.tool->is_complete);
        } else if (i == 0 && choice->reasoning.len) {
            item.part = PART_REASONING;
            item.text = &choice->reasoning;
        } else {
            item.part = PART_CONTENT;
            item.text = &choice->text;
            item.logprobs = &logprobs;
        }
        item.form = form_of(call, item.part, item.tool);
        if (i) jbuf_text(out, ",");
        const size_t from = out->len;
        item_put(call, &item, out);
        item_keep(call, out, from);
    }
    jbuf_text(out, "]");
    if (logprobs.failed) out->failed = true;
    jbuf_deinit(&logprobs);
}

static void whole_write(struct call *call, int i) {
    struct generation_choice *choice = &call->generation->choice[i];
    const bool cut = is_cut(choice);
    struct jbuf *out = &call->out;
    const size_t head = out->len;
    head_put(call, cut ? "incomplete" : "completed", NULL, cut, out);
    const size_t output = out->len;
    output_put(call, choice, out);
    const size_t tail = out->len;
    tail_put(call, cut, out);
    response_keep(call, head, output, tail);
}

// ---------------------------------------------------------------- stream

// An event from its name to its number; the rest of its object follows, and event_end.
static struct jbuf *event_begin(struct call *call, const char *name) {
    struct state *state = call->generation->own;
    struct jbuf *out = &call->out;
    jbuf_text(out, "event: ");
    jbuf_text(out, name);
    jbuf_text(out, "\ndata: {\"type\":\"");
    jbuf_text(out, name);
    jbuf_text(out, "\",\"sequence_number\":");
    jbuf_int(out, state->sequence++);
    return out;
}

static void event_end(struct jbuf *out) { jbuf_text(out, "}\n\n"); }

static void in_progress_put(struct call *call, struct jbuf *out) {
    jbuf_key(out, "response");
    head_put(call, "in_progress", NULL, false, out);
    jbuf_text(out, "[],\"completed_at\":null,\"usage\":null}");
}

// The tool call of the open item; NULL: it is none.
static const struct tool_call *tool_open_of(const struct call *call) {
    const struct state *state = call->generation->own;
    return state->part == PART_TOOL ? &call->generation->choice[0].tool[state->tool] : NULL;
}

// An event about the open item: its id and place.
static struct jbuf *item_event_begin(struct call *call, const char *name, const struct form *form) {
    const struct state *state = call->generation->own;
    struct jbuf *out = event_begin(call, name);
    jbuf_key(out, "item_id");
    item_id_put(call, form, state->index, out);
    jbuf_key(out, "output_index");
    jbuf_int(out, state->index);
    if (form->part) jbuf_put_int(out, form->place, 0);
    return out;
}

static void part_event(struct call *call, const char *name, const struct item *item) {
    if (!item->form->part) return;
    struct jbuf *out = item_event_begin(call, name, item->form);
    jbuf_key(out, "part");
    part_put(item, out);
    event_end(out);
}

static void item_event(struct call *call, const char *name, const struct item *item) {
    struct jbuf *out = event_begin(call, name);
    jbuf_key(out, "output_index");
    jbuf_int(out, item->index);
    jbuf_key(out, "item");
    item_put(call, item, out);
    event_end(out);
}

static void stream_begin(struct call *call) {
    static const char *const names[] = {"response.created", "response.in_progress"};
    for (int i = 0; i < 2; i++) {
        struct jbuf *out = event_begin(call, names[i]);
        in_progress_put(call, out);
        event_end(out);
    }
}

static void stream_progress(struct call *call, const struct generation_choice *choice,
                            const rn_event *event) {
    struct jbuf *out = event_begin(call, "response.in_progress");
    in_progress_put(call, out);
    generation_timings_now(call, choice, out);
    generation_progress(call, choice, event, out);
    event_end(out);
}

static struct item item_open_of(const struct call *call) {
    const struct state *state = call->generation->own;
    return (struct item){
        .part = state->part,
        .index = state->index,
        .status = "in_progress",
        .tool = tool_open_of(call),
        .form = form_of(call, state->part, tool_open_of(call)),
    };
}

// All of the open item has come. A function call is whole where its arguments are.
static void item_close(struct call *call, bool is_whole) {
    struct state *state = call->generation->own;
    if (!state->open) return;
    struct item item = item_open_of(call);
    item.status = status_of(item.tool ? item.tool->is_complete : is_whole);
    item.text = &state->text;
    item.logprobs = &state->logprobs;
    struct jbuf *out = item_event_begin(call, item.form->done, item.form);
    if (item.tool && !item.tool->is_custom) {
        jbuf_key(out, "name");
        jbuf_string(out, item.tool->name.data, item.tool->name.len);
    } else if (item.part == PART_CONTENT) {
        logprobs_put(item.logprobs, out);
    }
    jbuf_key(out, item.form->key);
    text_put(item.text, out);
    event_end(out);
    part_event(call, item.form->part_done, &item);
    item_event(call, "response.output_item.done", &item);
    if (state->output.len) jbuf_text(&state->output, ",");
    const size_t from = state->output.len;
    item_put(call, &item, &state->output);
    item_keep(call, &state->output, from);
    if (state->text.failed || state->logprobs.failed || state->output.failed) out->failed = true;
    jbuf_clear(&state->text);
    jbuf_clear(&state->logprobs);
    state->open = false;
    state->index++;
}

static void item_open(struct call *call, enum answer_part part, int tool) {
    static const struct jbuf empty = {0};
    struct state *state = call->generation->own;
    if (state->open && state->part == part && (part != PART_TOOL || state->tool == tool)) return;
    item_close(call, true);
    state->open = true;
    state->part = part;
    state->tool = tool;
    struct item item = item_open_of(call);
    item_event(call, "response.output_item.added", &item);
    item.text = &empty;
    part_event(call, item.form->part_added, &item);
}

// The logprobs that came since the last piece, for it and for the whole message.
static void delta_logprobs(const struct call *call, struct generation_choice *choice,
                           struct jbuf *out) {
    struct state *state = call->generation->own;
    const size_t before = state->logprobs.len;
    openai_logprobs_take(call, choice, true, &state->logprobs);
    const size_t from = before ? before + 1 : 0; // behind the comma
    jbuf_text(out, ",\"logprobs\":[");
    if (state->logprobs.len > from) {
        jbuf_bytes(out, state->logprobs.data + from, state->logprobs.len - from);
    }
    jbuf_text(out, "]");
}

static void stream_delta(struct call *call, const struct delta *delta) {
    struct state *state = call->generation->own;
    const bool is_tool = delta->part == PART_TOOL || delta->part == PART_TOOL_ARGUMENTS;
    if (delta->part == PART_TOOL_END) item_close(call, true);
    if (delta->part != PART_TOOL && !delta->len) return;
    item_open(call, is_tool ? PART_TOOL : delta->part, delta->tool);
    if (delta->part != PART_CONTENT) delta->choice->n_logprob = delta->choice->n_top = 0;
    if (delta->part == PART_TOOL) return;
    const struct form *form = form_of(call, state->part, tool_open_of(call));
    struct jbuf *out = item_event_begin(call, form->delta, form);
    jbuf_key(out, "delta");
    jbuf_string(out, delta->text, delta->len);
    if (delta->part == PART_CONTENT) delta_logprobs(call, delta->choice, out);
    generation_timings_now(call, delta->choice, out);
    event_end(out);
    jbuf_bytes(&state->text, delta->text, delta->len);
}

static void stream_choice_end(struct call *call, struct generation_choice *choice) {
    struct state *state = call->generation->own;
    if (!state->open && state->index == 0) item_open(call, PART_CONTENT, 0);
    if (state->part == PART_CONTENT) openai_logprobs_take(call, choice, true, &state->logprobs);
    item_close(call, !is_cut(choice));
}

static void stream_end(struct call *call) {
    const struct state *state = call->generation->own;
    const bool cut = is_cut(&call->generation->choice[0]);
    struct jbuf *out = event_begin(call, cut ? "response.incomplete" : "response.completed");
    jbuf_key(out, "response");
    const size_t head = out->len;
    head_put(call, cut ? "incomplete" : "completed", NULL, cut, out);
    const size_t output = out->len;
    jbuf_text(out, "[");
    jbuf_bytes(out, state->output.data, state->output.len);
    jbuf_text(out, "]");
    const size_t tail = out->len;
    tail_put(call, cut, out);
    response_keep(call, head, output, tail);
    if (call->generation->params.timings_per_token) {
        jbuf_text(out, ",");
        generation_timings(call, out);
    }
    event_end(out);
}

static void stream_error(struct call *call, const struct failure *failure) {
    const struct state *state = call->generation->own;
    struct jbuf *out = event_begin(call, "response.failed");
    jbuf_key(out, "response");
    head_put(call, "failed", failure, false, out);
    jbuf_text(out, "[");
    jbuf_bytes(out, state->output.data, state->output.len);
    jbuf_text(out, "],\"completed_at\":null,\"usage\":null}");
    event_end(out);
}

static const struct writer writer = {
    .whole = whole_write,
    .begin = stream_begin,
    .delta = stream_delta,
    .progress = stream_progress,
    .choice_end = stream_choice_end,
    .end = stream_end,
    .error = stream_error,
};

// ---------------------------------------------------------------- handler

static bool prompt_make(struct call *call, const json_t *body, struct generation *generation) {
    const struct state *state = generation->own;
    struct conversation conversation;
    json_t *before =
        state->previous ? turns_items(call, state->previous, "previous_response_id") : NULL;
    if (state->previous && !before) return false;
    bool ok = responses_input(call, body, before, &conversation);
    generation->custom = json_incref(conversation.custom);
    ok = ok && generation_chat(call, generation, conversation.messages, conversation.tools,
                               conversation.variables, true, false);
    conversation_deinit(&conversation);
    json_decref(before);
    return ok;
}

static bool state_make(struct call *call, const json_t *body, struct generation *generation) {
    struct state *state = calloc(1, sizeof *state);
    if (!state) return call_refuse_memory(call);
    generation->own = state;
    generation->own_free = state_free;
    state->store = call->server->turns;
    return responses_previous(call, body, &state->previous);
}

// After the request was read: its items are valid.
static bool state_fill(struct call *call, const json_t *body, struct generation *generation) {
    struct state *state = generation->own;
    state->is_kept = turns_keeps(state->store) && !json_is_false(json_object_get(body, "store"));
    responses_echo(body, &generation->params, state->is_kept, &state->echo);
    if (state->is_kept) responses_items_put(call, body, &state->items);
    state->input_len = state->items.len;
    return !(state->echo.failed || state->items.failed) || call_refuse_memory(call);
}

void responses_prepare(struct call *call) {
    json_t *body = call_json(call);
    struct generation *generation = body ? generation_create(call, &writer) : NULL;
    if (!generation) return;
    if (!params_read(call, body, FAMILY_RESPONSES, &generation->params)) return;
    if (!generation_shape_read(call, generation, body, FAMILY_RESPONSES)) return;
    if (!responses_options(call, body, &generation->params)) return;
    if (!state_make(call, body, generation)) return;
    if (!responses_references(call, body)) return;
    if (!prompt_make(call, body, generation)) return;
    if (!state_fill(call, body, generation)) return;
    generation_check(call, generation, "input");
}

void responses_count(struct call *call) {
    json_t *body = call_json(call);
    struct generation *generation = body ? generation_create(call, &writer) : NULL;
    if (!generation) return;
    if (params_model(call, body) && responses_options(call, body, &generation->params) &&
        state_make(call, body, generation) && responses_references(call, body) &&
        prompt_make(call, body, generation)) {
        jbuf_printf(&call->out, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}",
                    generation->prompt[0].n_ids);
        call_answer(call);
    }
    generation_destroy(generation); // nothing is left for the engine to do
    call->generation = NULL;
}
