// A generation: the requests of a call to the engine, and their results. A worker makes it; then it
// belongs to the I/O thread. Prompts become engine requests (`stream`), each with n choices;
// choices are numbered through all of them, as in the APIs.
#ifndef RN_SERVER_GENERATION_H
#define RN_SERVER_GENERATION_H

#include "answer_parts.h"
#include "call.h"
#include "custom_tools.h"
#include "gaps.h"
#include "otlp_gaps.h"
#include "params.h"
#include "shapes.h"
#include "tool_choice.h"

struct tool_call {
    char id[32]; // "call_..."
    struct jbuf name;
    struct jbuf arguments; // of a stream: empty
    bool is_complete;      // they are whole
    bool is_custom;        // its arguments are the text that a custom tool takes
    struct custom_input input;
};

// A token with its logprobs, as it came.
struct token_logprob {
    int32_t token;
    float logprob;
    int first_top, n_top; // in choice->top[]
    bool is_apart;        // of the reasoning, of a call or of a mark: not of the content
};

struct generation_choice {
    int index;        // among all of the call's
    int prompt;       // of the call's prompts
    struct jbuf text; // content; of a stream: empty, unless the writer asked to keep it
    struct jbuf reasoning;
    struct tool_call *tool; // [n_tools]
    int n_tools;
    bool in_reasoning; // where its text is now
    int n_reasoning;   // tokens that were part of the reasoning, its closing mark included
    int n_undecided;   // tokens behind these that may become a call
    int32_t *token;    // [n_tokens], kept when generation->keep_tokens
    int n_tokens, token_capacity;
    // logprobs not yet written: a stream's writer takes them and sets n_logprob = n_top = 0
    struct token_logprob *logprob;
    int n_logprob, logprob_capacity;
    int n_placed; // logprobs whose is_apart is known
    rn_logprob *top;
    int n_top, top_capacity;
    bool ended;
    rn_finish finish;
    rn_status status;
    char *stop;         // the stop string that matched, or NULL; owned
    bool is_token_stop; // one of the request's stop tokens ended it:
    int32_t stop_token;
    uint64_t seed;
    rn_timings timings; // valid when ended
    struct gaps gaps;   // times between its tokens, except tokens of one step
    float *embedding;   // [n_embd], owned; with pooling
    size_t counted;     // its share of counts.answer_bytes
    struct answer_parts parts;
    // for metrics and traces
    uint64_t start_ns;             // the call's
    uint64_t first_ns, last_ns;    // its first and its last token; 0: none
    int n_output;                  // tokens so far
    double gap_ms[RN_CAUSE_COUNT]; // times between them, by their causes; of a
                                   // running choice each gap by its largest
    struct otlp_gaps slow;         // the longest of them
};

// A piece of a choice, for a stream's writer. One event gives none, one or several; tokens whose
// text is held back come with a later one.
struct delta {
    struct generation_choice *choice;
    enum answer_part part;
    int tool; // its index, for the tool parts
    const char *text;
    size_t len;
};

// Why an answer ends before it is whole.
struct failure {
    int status;        // of HTTP, where nothing was sent yet
    const char *param; // the field of the request that is to blame; NULL: none
    const char *code;  // for programs; NULL: none
    const char *message;
};

// How an API writes an answer. All run on the I/O thread and write to call->out. A stream has
// complete SSE events ("data: ...\n\n"), or complete lines where the type says so.
struct writer {
    // Choice i of an answer that is no stream, with the text before the first and after the
    // last. Each is written once, in order, when all have ended; its text is forgotten then.
    void (*whole)(struct call *call, int i);
    // of a stream:
    void (*begin)(struct call *call); // all prompts were accepted; NULL: nothing to say
    void (*delta)(struct call *call, const struct delta *delta);
    // A token came, and all of its text that is certain; NULL: deltas say all.
    void (*token)(struct call *call, struct generation_choice *choice);
    // More of the prompt was evaluated; NULL if the API cannot tell it.
    void (*progress)(struct call *call, const struct generation_choice *choice,
                     const rn_event *event);
    void (*choice_end)(struct call *call, struct generation_choice *choice);
    void (*end)(struct call *call);                                  // the last part; NULL: none
    void (*error)(struct call *call, const struct failure *failure); // after its first byte
    const char *type; // of a stream; NULL: text/event-stream
    const char *ping; // keeps a silent stream alive; NULL: ": keep-alive\n\n"
};

struct generation_prompt {
    int32_t *ids; // from rn_tokenize (rn_free), or NULL
    size_t n_ids;
    char *text; // to be echoed, owned (free); NULL: none
    size_t text_len;
    // logprobs of its tokens from the second on, as rn_event has them; NULL: none yet, or one token
    rn_logprob *logprob; // [n_ids - 1][1 + top_prompt]
    int32_t *rank;       // [n_ids - 1]
    // its evaluation so far, where the request asks for it
    int done, cached; // tokens that are evaluated or cached; of these, cached ones
    double prompt_ms;
};

struct generation {
    const struct writer *writer;
    struct params params;
    struct generation_prompt *prompt; // [n_prompts]
    int n_prompts;
    rn_pooling pooling; // embeddings
    bool normalize;
    bool keep_tokens; // choices collect their token ids
    bool special_text;
    bool scores; // logprobs of prompts are wanted, and this many of the likeliest tokens:
    int top_prompt;
    const json_t *given_ids; // chat: of the prompt, instead of the messages; NULL if there are none
    // chat: how answers are taken apart; NULL: all of it is content
    const struct answer_marks *marks;
    bool tools, in_reasoning;
    bool has_reasoned; // the prompt has closed the reasoning
    json_t *types;     // of the tools' parameters (answer_types.h), where the marks need them
    // the shape of its texts (generation_shape.h)
    enum family family;
    struct shape shape;
    struct tool_choice tool_choice;
    bool shapes_calls, may_compile;
    size_t shape_due;                       // bytes of its source; 0: nothing is to be compiled
    json_t *shape_tools;                    // for the compilation; NULL if there are none
    void (*on_compiled)(struct call *call); // what the handler does after it; NULL if nothing
    rn_shape *compiled;                     // NULL: any text
    json_t *echoed;                         // the text that chats start with; NULL if there is none
    json_t *custom;                         // the names of custom tools; NULL: none
    void *own;                              // the writer's own state, freed with own_free
    void (*own_free)(void *own);

    // --- from here on the I/O thread's ---
    struct stream **stream;           // [n_prompts], engine requests
    struct generation_choice *choice; // [n_choices], of all prompts
    int n_choices, n_live;            // n_live: that have not ended
    int n_written;                    // of a whole answer
    uint64_t submit_ns;               // when the engine got its requests; 0: never
    uint64_t first_ns;                // first token of any choice; 0: none
    bool began;                       // all of it was submitted
    bool paused;                      // its reader has too many bytes to take
};

// For prepare handlers. NULL: refused (out of memory).
struct generation *generation_create(struct call *call, const struct writer *writer);
void generation_destroy(struct generation *generation); // nothing runs for it any more; NULL: none
// Checks every prompt against the context (the sentence that clients match) and the vocabulary, and
// sets max_tokens. `what`: "messages" or "prompt". False: refused.
bool generation_check(struct call *call, struct generation *generation, const char *what);
// Adds a prompt; takes ids over. False: refused.
bool generation_add(struct call *call, struct generation *generation, int32_t *ids, size_t n_ids);
// Messages (as OpenAI has them) through the template into one prompt. variables NULL: none.
// continue_final: the last message is the beginning of the answer.
bool generation_chat(struct call *call, struct generation *generation, const json_t *messages,
                     const json_t *tools, const json_t *variables, bool add_generation_prompt,
                     bool continue_final);

// The bytes that keep a silent stream alive.
static inline const char *generation_ping(const struct generation *generation) {
    return generation->writer->ping ? generation->writer->ping : ": keep-alive\n\n";
}
// All choices have ended: the end of a stream; or the whole answer, which call->more writes
// choice by choice, so that it never takes its memory twice.
void generation_write_end(struct call *call);
// Bytes that a choice keeps for a whole answer.
size_t choice_bytes(const struct generation_choice *choice);

// --- sums over choices, for writers ---

struct usage {
    int prompt_tokens, completion_tokens, cached_tokens;
    int reasoning_tokens; // of the completion
};
struct usage generation_usage(const struct generation *generation);
// Why a call failed, in a word for machines: of the engine's statuses or of HTTP's, or that its
// client has gone. NULL: it did not fail, or was refused with a status below 500.
enum { GENERATION_ERROR_SIZE = 16 };
const char *generation_error(const struct call *call, bool gone, char out[GENERATION_ERROR_SIZE]);
// How the failure of a choice is told.
struct failure generation_failure(rn_status status);
// "timings":{...} of the contract, without a comma before it.
void generation_timings(const struct call *call, struct jbuf *out);
// ,"timings":{...} of a choice that is still running, in chunks of requests that ask for them.
void generation_timings_now(const struct call *call, const struct generation_choice *choice,
                            struct jbuf *out);
// ,"prompt_progress":{...} as llama.cpp has it.
void generation_progress(const struct call *call, const struct generation_choice *choice,
                         const rn_event *event, struct jbuf *out);

#endif
