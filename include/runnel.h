// runnel: a decode engine for language models. The public interface: open a model, turn text into
// tokens, submit requests to an engine, receive their tokens.
//
// Calls return a status. Calls with an rn_error, which may be NULL, fill it with one line that
// names the offending value. If a create or open fails there is nothing to free and *out is NULL.
//
// Threads: a model is immutable once it has an engine, and may be shared. An engine takes
// rn_engine_submit, _cancel, _pause, _forget_prefixes and _get_stats from any thread at any moment.
// Its steps are run either by a thread of its own (rn_engine_start, rn_engine_wait) or by the
// caller (rn_engine_step, rn_engine_next_event), one thread at a time.
//
// The tokens of a request depend on the model, its prompt, its sampling settings, its shape, its
// constraint and its seed, and on the engine's backend, kv_type and state_type. They never depend
// on other requests, how the prompt was cut, the cache, drafts or threads.
//
// Structs: zeros are the defaults, so `= {0}` and the members that matter are enough. New members
// are added at the end, and calls with such a struct know the size that the program was compiled
// with: the inline functions below pass it to functions whose names end in _sized. A library that
// is newer than the program takes absent members as 0 and does not write them. A library that is
// older refuses members that it does not know (RN_ERR_ARG), unless they are 0. Structs inside
// others and elements of arrays keep their size; some have room for new members. Programs set that
// to 0. Bindings of other languages call the _sized functions.
#ifndef RUNNEL_H
#define RUNNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runnel_status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RN_VERSION "0.1.0"    // of this header
const char *rn_version(void); // of the library

// ---------------------------------------------------------------- model

typedef struct rn_model rn_model;

typedef struct rn_model_info {
    const char *path;         // as opened
    const char *name;         // general.name, or ""
    const char *architecture; // "llama"
    const char *container;    // "GGUF v3", "safetensors"
    const char *format;       // the format that most weight bytes have: "Q8_0"
    int n_ctx_train;
    int n_vocab, n_embd, n_layer, n_head, n_head_kv;
    uint64_t n_params;
    uint64_t file_bytes;
    uint64_t weight_bytes; // of all tensors
    // generation settings of the file; where it has none: temperature 0.8, top-p 0.95, the rest off
    float temperature, top_p, min_p, repeat_penalty;
    int top_k;
    const char *block_path; // of the file that rn_model_attach added; NULL: none
    // how the files want embeddings to be made: "mean", "last", "cls" or another name, which
    // rn_model_pooling may refuse, such as "damaged" for a file that cannot be read; NULL if they
    // do not say
    const char *pooling;
    int normalizes; // embeddings have length 1: 1 or 0, as the files say; -1 if they do not
} rn_model_info;

// A GGUF file, any part of a split one, or a Hugging Face folder.
rn_status rn_model_open(const char *path, rn_model **out, rn_error *err);
// From memory that outlives the model, such as a file embedded in the program.
rn_status rn_model_open_memory(const char *name, const void *data, size_t size, rn_model **out,
                               rn_error *err);
// The vocabulary alone: for files without tensors, or to save time.
rn_status rn_model_open_vocab(const char *path, rn_model **out, rn_error *err);
// Adds a draft block that is in a file of its own, such as an assistant of Gemma 4: the drafter
// "mtp" of the model's engines, all of which are created afterwards. It reads the model's keys and
// values and has none itself. RN_ERR_ARG: the file is a model, for rn_engine_options.draft, or the
// model has a block. After an error the model is as it was.
rn_status rn_model_attach(rn_model *model, const char *path, rn_error *err);
// Whether a file is such a block; false where it cannot be read.
bool rn_model_is_block(const char *path);
void rn_model_close(rn_model *model);
const rn_model_info *rn_model_get_info(const rn_model *model);
// Whether the model's files are as they were when they were opened, by size and time of the last
// write. RN_ERR_IO: one is not; the message says which. Engines go on with the weights that they
// have loaded. Asks the file system, which may take a while; any thread.
rn_status rn_model_check_files(const rn_model *model, rn_error *err);

// ---------------------------------------------------------------- tokens

enum {
    RN_TOKENIZE_BOS = 1,     // add the tokens that the model wants around a text
    RN_TOKENIZE_SPECIAL = 2, // "<|end|>" becomes that token
    RN_TOKENIZE_GUARDED = 4, // with SPECIAL: RN_GUARD is dropped from the text, and a control token
                             // whose text it stood in is taken as plain text
};

// The guard, U+FDD0, a noncharacter of Unicode: rn_chat_render writes it into control tokens' texts
// that come from input. So a plain string tells rn_tokenize which parts are input.
#define RN_GUARD "\xEF\xB7\x90"

// *ids is to be freed with rn_free.
rn_status rn_tokenize(const rn_model *model, const char *text, size_t len, int flags, int32_t **ids,
                      size_t *n_ids, rn_error *err);
// *text is to be freed with rn_free; NUL-terminated, its length in *len. Special tokens give their
// text when asked for.
rn_status rn_detokenize(const rn_model *model, const int32_t *ids, size_t n_ids, bool special,
                        char **text, size_t *len, rn_error *err);
// The bytes that a token stands for, which may be half a character; of special tokens their text.
// An id outside the vocabulary has none. Borrowed from the model; *len is their number.
const char *rn_token_bytes(const rn_model *model, int32_t id, size_t *len);
int32_t rn_token_bos(const rn_model *model); // the token that starts a text; -1: none
int32_t rn_token_eos(const rn_model *model); // the token that ends a text; -1: none
int32_t
rn_token_eot(const rn_model *model); // the token that ends a turn; -1: none but rn_token_eos
int32_t rn_token_pad(const rn_model *model); // the token that fills rows; -1: none
// The parts of a prompt for the text between two others (fill in the middle).
typedef enum rn_fim {
    RN_FIM_PREFIX,     // stands before the text that precedes the gap
    RN_FIM_SUFFIX,     // stands before the text that follows the gap
    RN_FIM_MIDDLE,     // the model writes after it
    RN_FIM_PAD,        // fills rows
    RN_FIM_REPOSITORY, // stands before the name of a project
    RN_FIM_FILE,       // stands before the name of a file
} rn_fim;
// The token that a model's file names for the part; -1 if it names none.
int32_t rn_token_fim(const rn_model *model, rn_fim part);
// Control tokens and the unknown token, which are no text. An id outside the vocabulary is none.
bool rn_token_is_special(const rn_model *model, int32_t id);
// Tokens that end a text: of texts, turns and messages.
bool rn_token_is_end(const rn_model *model, int32_t id);
void rn_free(void *memory);

// ---------------------------------------------------------------- chat

// The template that the model's files bring, or NULL. Borrowed.
const char *rn_model_chat_template(const rn_model *model);

typedef struct rn_chat_template rn_chat_template;

// Parses a template (Jinja as chat templates use it). NULL source: the model's own; RN_ERR_ARG when
// it has none. The model outlives it. Immutable, so threads may share it.
rn_status rn_chat_template_create(const rn_model *model, const char *source, rn_chat_template **out,
                                  rn_error *err);
void rn_chat_template_destroy(rn_chat_template *tmpl);

typedef struct rn_chat {
    const char *messages;       // JSON: [{"role": "user", "content": "..."}, ...]
    const char *tools;          // JSON array, or NULL
    const char *variables;      // JSON object of further template variables, or NULL
    bool add_generation_prompt; // end with the opening of the assistant's turn
    // the last message is the start of an answer, and the text ends where it does
    bool continue_final;
    // texts of messages, tools and variables cannot become control tokens, in any form that the
    // template writes them: RN_GUARD stands in their markup, for RN_TOKENIZE_GUARDED
    bool guard;
    int64_t now; // seconds since 1970, for strftime_now
} rn_chat;

// The conversation as text, to be tokenized with RN_TOKENIZE_SPECIAL | RN_TOKENIZE_BOS (which
// writes BOS once, whether or not the template did). *text is to be freed with rn_free. RN_ERR_ARG:
// the messages are not such JSON, or the template refuses them; RN_ERR_MODEL: the template is
// wrong, or goes past its limits of steps, nesting, output and memory.
rn_status rn_chat_render_sized(const rn_chat_template *tmpl, const rn_chat *chat, size_t chat_size,
                               char **text, size_t *len, rn_error *err);
static inline rn_status rn_chat_render(const rn_chat_template *tmpl, const rn_chat *chat,
                                       char **text, size_t *len, rn_error *err) {
    return rn_chat_render_sized(tmpl, chat, sizeof *chat, text, len, err);
}

// ---------------------------------------------------------------- engine

typedef struct rn_engine rn_engine;

// Reports loading progress: done of total bytes.
typedef void (*rn_progress_fn)(void *ctx, uint64_t done, uint64_t total);

// A drafter proposes tokens, and a step verifies several together. An accepted token is the token
// that would have been chosen without drafts.
typedef enum rn_drafter {
    RN_DRAFTER_MODEL,  // a small model with the same vocabulary
    RN_DRAFTER_LOOKUP, // tokens that followed the last ones earlier in the same sequence
    RN_DRAFTER_SHARED, // tokens that followed them in recent requests with the same salt
    RN_DRAFTER_MTP,    // the block for it that the model itself has
    RN_DRAFTER_SHAPE,  // text that the request's shape leaves no choice about
    RN_DRAFTER_CUSTOM, // the program's own
} rn_drafter;
enum { RN_DRAFTER_COUNT = RN_DRAFTER_CUSTOM + 1, RN_DRAFTER_ROOM = 8, RN_MAX_DRAFT = 31 };
// Positions of a KV page, and defaults of rn_engine_options.
enum { RN_PAGE_TOKENS = 32, RN_DEFAULT_BATCH_TOKENS = 256, RN_DEFAULT_DRAFT = 15 };
const char *rn_drafter_text(rn_drafter drafter); // "model", "lookup", "shared", ...

// A drafter of the program's own, called by the step's thread; rarely where no draft can pay.
// Writes up to `most` tokens that may follow token[n_token] to out and returns their number. `data`
// and `choice` are the request's. Invalid ids end the draft.
typedef int (*rn_draft_fn)(void *ctx, void *data, int choice, const int32_t *token, int n_token,
                           int32_t *out, int most);

// A line for people, without its end. It may come from any thread.
typedef void (*rn_note_fn)(void *ctx, const char *line);
#define RN_DEFAULT_STORE_BYTES (UINT64_C(16) << 30)

typedef struct rn_engine_options {
    const char *backend; // NULL or "auto": the best available one; "cpu"; the name of a plug-in, or
                         // its path
    int device;          // which device of that backend, from 0 on
    const char *isa;     // NULL: the best here; "scalar", "avx2", "avxvnni", "avx512bw",
                         // "avx512", "amx", "neon"
    const char *kv_type; // NULL: the backend's default; "f16", "f32", "int8", "int4", or others
                         // that a backend has; also llama.cpp's "q8_0" (int8) and "q4_0" (int4)
    const char *state_type; // of recurrent layers: NULL or "f32"; "bf16" takes half, and is less
                            // exact
    int n_threads;          // 0: one per core that this process may use
    bool no_pin;            // threads are never bound to a cache or memory node
    int n_ctx;              // positions of a sequence, at most the model's (RN_ERR_ARG); 0: the
                            // model's, or as many as the memory holds
    int max_seqs;           // sequences at a time; 0: 1
    int max_waiting;   // requests' choices that wait for their first step, or to continue; 0: 1024
    int batch_tokens;  // most tokens in a step, at least max_seqs; 0: RN_DEFAULT_BATCH_TOKENS, or
                       // the device's own number, or max_seqs, whichever is the largest
    int logit_rows;    // most logit rows in a step; 0: max_seqs, and some for drafts; -1: as many
                       // as fit 256 MiB
    uint64_t kv_bytes; // memory of the KV pages; 0: kv_pages says
    uint32_t kv_pages; // the same in pages of RN_PAGE_TOKENS, all layers together; 0: the memory
                       // that the weights leave free, at most twice the need of max_seqs full
                       // contexts
    double itl_ms;     // prompts are cut so that a step, and so the gap between a running stream's
                       // tokens, is expected to take no longer; 0: no bound
    bool no_prefix_cache; // equal prefixes are computed again by each request
    // a store of KV pages and states: in files, which survive the engine, and in the host's memory
    // (docs/STORE.md)
    const char *page_store;     // its folder, which is made if need be; NULL: none
    uint64_t page_store_bytes;  // of all pages in it; 0: RN_DEFAULT_STORE_BYTES
    uint64_t page_store_memory; // of pages in memory, in front of the folder or alone; 0: none
    rn_note_fn store_note;      // told of its troubles, by its threads; NULL: nobody is
    void *store_note_ctx;
    // speculation: the text does not depend on it
    const char *speculate; // NULL or "auto": every available drafter; "off"; or some of them by
                           // name, "lookup,model". "mtp" needs a model with such a block
    const rn_model *draft; // for the drafter "model": its vocabulary is the model's (RN_ERR_MODEL);
                           // outlives the engine; NULL: none
    const char *draft_backend; // where that model runs; NULL: where the target does; "auto": the
                               // best available one
    int draft_device;          // which device of draft_backend; without that it is not used
    rn_draft_fn draft_fn;      // for the drafter "custom"; NULL: none
    void *draft_ctx;
    int draft_max;   // most tokens of a draft, up to RN_MAX_DRAFT; 0: RN_DEFAULT_DRAFT
    int draft_min;   // for measurements: the fewest tokens of a draft, where a drafter has
                     // them; 0: as many as are expected to be fastest, none included
    bool self_check; // invariants are tested after every step, and a broken one ends the process:
                     // slow; for tests and for reports of bugs
    rn_progress_fn progress;
    void *progress_ctx;
} rn_engine_options;

enum { RN_DEVICE_NAME = 64 };

// How memory would be divided, for programs that report it before they create the engine.
typedef struct rn_memory_plan {
    uint64_t total;            // memory of the device, or of the process's cgroup; 0: unknown
    uint64_t available;        // memory that the process can take there now; 0: unknown
    uint64_t weight_bytes;     // memory that loading takes
    uint64_t step_bytes;       // of the buffers of a step
    uint64_t free_bytes;       // the available memory, less these and a reserve
    uint64_t kv_bytes;         // all KV pages: the engine's budget
    uint64_t kv_tokens;        // tokens that kv_bytes hold in whole pages, where no window ends,
                               // with the states that long texts leave behind
    uint64_t kv_token_bytes;   // bytes of such a token
    uint64_t kv_context_bytes; // bytes that a lone sequence of n_ctx positions needs
    uint64_t n_contexts;       // such sequences that the KV memory holds together
    int n_ctx;                 // positions of a sequence: as asked for, or as many as fit
    const char *kv_type;
    char device[RN_DEVICE_NAME]; // whose memory it is, "NVIDIA H200"; "": this machine's own
    // recurrent layers; both 0: there are none
    uint64_t state_bytes; // all states of a sequence, whatever its length. kv_context_bytes has two
    int state_interval;   // tokens from one state that is kept for prefixes to the next
    // the draft model's, beside all this; 0: there is no draft model
    uint64_t draft_weight_bytes, draft_step_bytes, draft_kv_bytes;
    uint64_t mtp_kv_bytes; // of the model's own draft block, beside kv_bytes; 0: it is not used
} rn_memory_plan;

// The memory as rn_engine_create would divide it right now, with the errors that it would give.
rn_status rn_engine_plan_memory_sized(const rn_model *model, const rn_engine_options *options,
                                      size_t options_size, rn_memory_plan *out, size_t out_size,
                                      rn_error *err);
static inline rn_status rn_engine_plan_memory(const rn_model *model,
                                              const rn_engine_options *options, rn_memory_plan *out,
                                              rn_error *err) {
    return rn_engine_plan_memory_sized(model, options, sizeof *options, out, sizeof *out, err);
}

// NULL options: the defaults.
rn_status rn_engine_create_sized(const rn_model *model, const rn_engine_options *options,
                                 size_t options_size, rn_engine **out, rn_error *err);
static inline rn_status rn_engine_create(const rn_model *model, const rn_engine_options *options,
                                         rn_engine **out, rn_error *err) {
    return rn_engine_create_sized(model, options, sizeof *options, out, err);
}
void rn_engine_destroy(rn_engine *engine);

enum { RN_MAX_LOGIT_BIAS = 1024, RN_MAX_DRY_BREAKERS = 16, RN_MAX_DRY_BREAKER_BYTES = 64 };

typedef struct rn_logit_bias {
    int32_t token;
    float bias; // -100 to 100; -100 bans the token. Entries of one token add up
} rn_logit_bias;

// How a token is chosen, in the order of the fields. First edits change the logits of single
// tokens, then filters drop candidates, then a seeded draw takes one of the rest. "off" names the
// value that leaves a step out; it is also the value of rn_sampling_neutral unless another one is
// given. A struct of zeros is greedy, with everything else off.
typedef struct rn_sampling {
    // --- edits ---
    const rn_logit_bias *logit_bias; // added to the logits of these tokens; copied at submit
    size_t n_logit_bias;             // 0 to RN_MAX_LOGIT_BIAS; off: 0
    // positive logits of tokens in the prompt and the output are divided by it, negative ones
    // multiplied
    float repetition_penalty; // 0 to 100; off: 1 (neutral) or 0
    int repeat_last_n; // tokens that repetition_penalty looks back on; off: 0; all: -1 (neutral)
    float presence_penalty;  // -2 to 2, subtracted once from tokens of the output; off: 0
    float frequency_penalty; // -2 to 2, subtracted for each time a token is in the output; off: 0
    // DRY: a token that would continue a repetition of n >= dry_allowed_length tokens loses
    // dry_multiplier * dry_base^(n - dry_allowed_length)
    float dry_multiplier;   // 0 to 100; off: 0
    float dry_base;         // 0 to 100; neutral: 1.75
    int dry_allowed_length; // 0 or more; neutral: 2
    int dry_penalty_last_n; // tokens that DRY looks back on; off: 0; all: -1 (neutral)
    // a repetition ends at a token whose text contains one of these: 1 to RN_MAX_DRY_BREAKER_BYTES
    // bytes of UTF-8 each, copied at submit. NULL (neutral): "\n", ":", "\"" and "*". Not NULL with
    // n_dry_sequence_breakers 0: none
    const char *const *dry_sequence_breakers;
    size_t n_dry_sequence_breakers; // 0 to RN_MAX_DRY_BREAKERS
    // --- filters ---
    float temperature; // 0 to 100, divides the logits; 0: the largest logit wins; off: 1
    float top_n_sigma; // -1 to 100: keeps logits within this many standard deviations of the best;
                       // off: 0 (neutral) or less
    int top_k;         // -1 or more: keeps the k best; off: 0 (neutral) or -1
    float typical_p;   // 0 to 1: keeps the most typical tokens of this probability; off: 1
                       // (neutral) or 0
    float top_p;       // 0 to 1: keeps the best tokens of this probability, at least one; off: 1
    float min_p;       // 0 to 1: keeps tokens with this share of the best one's probability;
                       // off: 0
    float xtc_probability; // 0 to 1: how often XTC drops every token that reaches xtc_threshold but
                           // the least likely of them; off: 0
    float xtc_threshold;   // 0 to 1; neutral: 0.1
    // --- the draw ---
    bool has_seed;
    uint64_t seed;    // used when has_seed; otherwise one is drawn and reported
    uint64_t room[8]; // 0
} rn_sampling;

// Draws from the model's distribution as it is: every field at its neutral value, no seed.
rn_sampling rn_sampling_neutral(void);
// The model's own settings (rn_model_info), the rest neutral.
rn_sampling rn_sampling_defaults(const rn_model *model);

enum { RN_MAX_STOPS = 16, RN_MAX_STOP_BYTES = 4096, RN_MAX_STOP_TOKENS = 128 };
enum { RN_MAX_BAD_WORDS = 256, RN_MAX_BAD_WORD_BYTES = 256 };
enum { RN_MAX_MARK_BYTES = 256, RN_MAX_ANSWER_MARKS = 4 };

// The reasoning of a model that thinks before it answers. It starts where the prompt ends, or with
// the mark `open`, if that is the first text of the output but blanks. It ends with the mark
// `close`, or before one of the marks `answer`, such as that of a tool call: models forget `close`
// there. After `budget` tokens of it, `last` is written, and the text continues behind that. A
// request's shape starts behind the reasoning. Marks are found in the text of tokens, special ones
// included.
typedef struct rn_reasoning {
    bool has_budget; // false: there is no bound, and only a shape uses the marks
    int budget;      // 0 or more tokens; 0: it is closed at once
    // 1 to RN_MAX_MARK_BYTES bytes each; copied
    const char *open;  // NULL: the prompt has opened the reasoning
    const char *close; // NULL, without a budget: there is no reasoning
    const char *last;  // it starts with `close`; NULL: `close` itself. A shape starts behind it
    // at most RN_MAX_ANSWER_MARKS, NULL behind the last; NULL: none. A shape starts with the mark
    const char *const *answer;
    uint64_t room[1]; // 0
} rn_reasoning;

// The shape of a text: JSON by a schema, an expression, a grammar. docs/CONSTRAINTS.md says what
// each kind means. A text that is not cut off by its length, a stop string or a stop token always
// has its shape.
typedef enum rn_shape_kind {
    RN_SHAPE_SCHEMA,    // JSON Schema
    RN_SHAPE_OBJECT,    // any JSON object; the source is not read
    RN_SHAPE_REGEX,     // the whole text matches a regular expression
    RN_SHAPE_GRAMMAR,   // GBNF, or Lark: its rules are defined by ":" and not by "::="
    RN_SHAPE_CHOICES,   // a JSON array of strings; the text is one of them
    RN_SHAPE_STRUCTURE, // a structural tag: text with shaped parts in it
} rn_shape_kind;
typedef struct rn_shape rn_shape;

// Any thread. Work and memory are bounded by counts, so that a source is refused on every machine
// or on none. Equal sources are found again instead of compiled. RN_ERR_ARG: the message starts
// with the place that is wrong or not supported: "/properties/a/not: ...", "offset 12: ...". The
// first call for a model reads its vocabulary. The model outlives its shapes.
rn_status rn_shape_compile(const rn_model *model, rn_shape_kind kind, const char *source,
                           size_t len, rn_shape **out, rn_error *err);
// The shape of an equal source, if it is kept; never takes long. NULL if it has to be compiled.
rn_shape *rn_shape_find(const rn_model *model, rn_shape_kind kind, const char *source, size_t len);
// NULL is fine. Requests that were submitted with it keep what they need.
void rn_shape_release(rn_shape *shape);

// A constraint on the next token of a text, such as a grammar. The functions are called by threads
// of the step, for one choice of the request never two at a time; ctx outlives the request. A
// constraint follows the tokens of each choice by itself. It starts at the end of the prompt.
// advance moves it over a token, which may be only tried, and rollback moves it back.
typedef struct rn_constraint {
    void *ctx; // NULL functions: no constraint
    // Clears the bits of tokens that cannot come next; all n_vocab bits are set before. When none
    // is left the choice ends with RN_ERR_NUMERIC.
    void (*mask)(void *ctx, int choice, uint64_t *allowed, int n_vocab);
    void (*advance)(void *ctx, int choice, int32_t token); // a token that the mask allowed
    void (*rollback)(void *ctx, int choice, int n_tokens); // over the last n_tokens
} rn_constraint;

typedef void (*rn_logits_fn)(void *ctx, int position, const float *logits, int n_vocab);

// The result of a request instead of text: one vector for its whole prompt.
typedef enum rn_pooling {
    RN_POOLING_NONE, // text
    RN_POOLING_MEAN, // of the last hidden states of all tokens
    RN_POOLING_LAST, // the last token's
    RN_POOLING_CLS,  // the first token's
} rn_pooling;
// The pooling of that name: "mean", "last" or "cls"; the model may be NULL then. Without a name it
// is the pooling that the model's files declare, or the mean if they declare none.
// RN_ERR_UNSUPPORTED if they declare any other, or the file that should declare it is damaged.
rn_status rn_model_pooling(const rn_model *model, const char *name, rn_pooling *out, rn_error *err);

// A token and the natural logarithm of its probability, from the raw logits.
typedef struct rn_logprob {
    int32_t token;
    float logprob;
} rn_logprob;

enum { RN_MAX_TOP_LOGPROBS = 20, RN_ALL_LOGPROBS = -1 }; // all: of the whole vocabulary

enum { RN_MAX_CHOICES = 128, RN_MAX_PRIORITY = 100, RN_MAX_SALT_BYTES = 128 };

typedef struct rn_request {
    const int32_t *prompt; // copied
    size_t n_prompt;       // at least 1
    int n;      // choices, completions of the same prompt; 0: 1. Choice 0 is the text that n
                // = 1 gives
    void *data; // handed back with every event
    rn_sampling sampling;
    int max_tokens;   // 0 or -1: until the text ends or the context is full
    bool prompt_only; // the prompt is evaluated, and no token is written; max_tokens is not used
    // before this many tokens no token can be chosen that ends the text, and no stop string ends
    // it; at most max_tokens if that is more than 0; 0 with prompt_only
    int min_tokens;
    const char *const *stop;    // strings that end the text and are not part of it; copied
    size_t n_stop;              // at most RN_MAX_STOPS
    const int32_t *stop_tokens; // ids that end the text and are not part of it; copied
    size_t n_stop_tokens;       // at most RN_MAX_STOP_TOKENS
    bool include_stop; // the stop string that matched, or the stop token, is part of the text
    bool ignore_eos;   // no end token ends the text; with a shape it changes nothing
    // texts that are not written, as the tokens that they have alone or behind a space: the last of
    // them cannot follow the others. Blanks before them are dropped; copied
    const char *const *bad_words;
    size_t n_bad_words; // at most RN_MAX_BAD_WORDS, of RN_MAX_BAD_WORD_BYTES each
    rn_reasoning reasoning;
    bool special_text; // special tokens are text too, except for tokens that end it
    bool logprobs;     // events carry the logprobs of the token and of the likeliest ones:
    int top_logprobs;  // how many of these, at most RN_MAX_TOP_LOGPROBS, or RN_ALL_LOGPROBS
    // an event carries the logprobs of the prompt's tokens, and for each of the likeliest ones:
    bool prompt_logprobs;
    int top_prompt_logprobs; // the same
    int draft_max;           // most tokens of a draft; 0: the engine's; -1: none is drafted
    // the shape of the text, which starts behind the reasoning; NULL: any text. Where it leaves no
    // other token, neither min_tokens nor bad_words nor a bias of -100 bans one
    const rn_shape *shape;
    rn_constraint constraint; // beside a shape: both apply
    // the order of requests: a higher priority before a lower one, then the least served user, then
    // the older request
    int priority;     // -RN_MAX_PRIORITY to RN_MAX_PRIORITY
    const char *user; // NULL: requests without a user share one
    // ended with RN_ERR_DEADLINE this long after submit, waiting or running; 0: never
    double timeout_ms;
    // prefixes are reused among requests with equal salts only, at most RN_MAX_SALT_BYTES; NULL: ""
    const char *cache_salt;
    rn_pooling pooling; // not NONE: max_tokens, stop and sampling change nothing; n must be 0 or 1
    bool normalize;     // with pooling: to length 1
    // called by the step's thread for every position that it evaluates, from the prompt's start on:
    // such a request takes nothing from the prefix cache. NULL if there is none. n must be 0 or 1.
    rn_logits_fn on_logits;
    void *on_logits_ctx;
    // Bounds on time: the first token this long after submit, then a token every so many ms on
    // average. 0: none. A request whose bound is not expected to be kept ends at once with
    // RN_ERR_BOUND, and the event's reason has the numbers.
    double ttft_ms, tpot_ms;
    // the share of the prompt that has to be cached when it is its turn, 0 to 1. If less is, the
    // request ends with RN_FINISH_CACHE, so that a caller can have the prompt evaluated elsewhere
    double cache_share;
    // Bounds on lines, for editors that complete code. A line after the first that starts with
    // fewer blanks and tabs ends the text at its first other character, which may be its end.
    // 0: any line may come
    int indent_min;
    // the text ends with the first token that ends a line this long after the first token; 0: no
    // such token. The only bound by which the time changes a text
    double line_ms_max;
    // events without a token tell how much of the prompt is evaluated (rn_event.progress)
    bool prompt_progress;
} rn_request;

// Any thread. RN_ERR_FULL: too many are waiting already; RN_ERR_CANCELLED: the engine was stopped;
// RN_ERR_DEVICE, RN_ERR_IO: the engine has ended, see rn_engine_health.
rn_status rn_engine_submit_sized(rn_engine *engine, const rn_request *request, size_t request_size,
                                 uint64_t *id, rn_error *err);
static inline rn_status rn_engine_submit(rn_engine *engine, const rn_request *request, uint64_t *id,
                                         rn_error *err) {
    return rn_engine_submit_sized(engine, request, sizeof *request, id, err);
}
// Any thread. Ends a request: the next step gives its memory back and its last event says
// "cancelled". Unknown ids are ignored.
void rn_engine_cancel(rn_engine *engine, uint64_t id);
// Any thread. A paused request gets no tokens, for readers that cannot follow. It keeps its place
// and its pages until others want them: then it is the first to lose them, and resumes like a
// waiting request. Its timeout keeps running. Unknown ids are ignored.
void rn_engine_pause(rn_engine *engine, uint64_t id, bool pause);

typedef enum rn_finish {
    RN_FINISH_NONE,
    RN_FINISH_STOP,
    RN_FINISH_LENGTH,
    RN_FINISH_CANCELLED,
    RN_FINISH_ERROR,
    RN_FINISH_CACHE // less of its prompt was cached than it asked for; nothing was evaluated
} rn_finish;
enum { RN_FINISH_COUNT = RN_FINISH_CACHE + 1 };
const char *rn_finish_text(rn_finish finish); // "stop", "length", ...

typedef struct rn_timings {
    int prompt_tokens, output_tokens;
    int cached_tokens; // of the prompt's: found in the prefix cache, or shared by another choice
    int stored_tokens; // of these: read from the page store
    int preemptions;   // times that it gave its pages to others and continued later
    double queue_ms;   // submit to first step
    double prompt_ms;  // first step to first token, or to the prompt's end; 0: not evaluated whole
    double ttft_ms;    // submit to first token; 0: there was none
    double decode_ms;  // first token to last
    double gap_ms_max; // the longest time between two tokens
    uint64_t decode_bytes; // weights and KV that the steps after the first token had to read, this
                           // request's share
    uint64_t decode_steps; // those steps
    int draft_tokens, accepted_tokens; // drafted and verified; accepted, so part of the text
    int draft_steps;                   // steps that verified a draft
    double undrafted_ms; // an estimate of decode_ms without drafts, from the steps' measured costs
} rn_timings;

// ---------------------------------------------------------------- where the time went

// Causes of time that a choice takes. The engine divides every nanosecond from submit to the last
// token among them: the parts of a gap add up to the gap.
typedef enum rn_cause {
    RN_CAUSE_NONE,       // of the first token: no token was before it
    RN_CAUSE_WEIGHTS,    // steps read the weights and computed its own tokens
    RN_CAUSE_KV,         // its own KV cache was read
    RN_CAUSE_STREAMS,    // other streams ran in the same steps, or in a step that it waited for
    RN_CAUSE_OWN_PROMPT, // its own prompt was evaluated
    RN_CAUSE_PROMPTS,    // others' prompts were evaluated, in the same steps or before its own
    RN_CAUSE_QUEUE,      // it waited for a place
    RN_CAUSE_PAGES,      // it waited for KV pages
    RN_CAUSE_PREEMPTED,  // it gave its pages to others, waited, and computed them again
    RN_CAUSE_DRAFTS,     // drafts that were refused: their making and their verification
    RN_CAUSE_CHOICE,     // tokens were chosen: sampling, logprobs, constraints, with their masks
    RN_CAUSE_HOST,       // the engine's work around the steps, and time between steps
    RN_CAUSE_READER,     // its reader did not follow, so it was paused
    RN_CAUSE_SLOWER,     // steps took longer than the same work usually takes on this machine
    RN_CAUSE_STORE,      // it waited for pages of the page store
} rn_cause;
enum { RN_CAUSE_COUNT = RN_CAUSE_STORE + 1, RN_CAUSE_ROOM = 24 };
const char *rn_cause_name(rn_cause cause); // for labels: "weights", "own_prompt", ...
const char *rn_cause_text(rn_cause cause); // for people: "reading weights", "its own prompt", ...

// A stretch of time, divided.
typedef struct rn_share {
    uint64_t ns; // the sum of cause_ns
    uint64_t cause_ns[RN_CAUSE_ROOM];
    uint64_t steps; // that it had tokens in
    int streams;    // the most streams in one of these steps, itself included
    // other requests behind a cause; 0: none
    uint64_t prompt_request;  // the one with the most prompt tokens in a step beside it,
    int prompt_tokens;        // this many
    uint64_t pages_request;   // held the most pages while it waited for some
    uint64_t preempt_request; // was given its pages
} rn_share;

// Work of the steps that had tokens of a choice. All members but `tokens` are of the whole steps.
typedef struct rn_work {
    uint64_t steps, tokens; // evaluated tokens of the choice itself
    uint64_t bytes, flops;  // weights and KV that had to be read; operations
    uint64_t run_ns;        // time of the backend
} rn_work;

// A gap between two tokens.
typedef struct rn_slow_gap {
    int token;       // of the output: the token that ended it; the second token is 1
    uint64_t end_ns; // CLOCK_MONOTONIC
    rn_share share;
} rn_slow_gap;

// A stretch of output tokens, for pictures.
typedef struct rn_span {
    uint64_t end_ns; // of its last token, CLOCK_MONOTONIC
    uint64_t ns;     // since the span before
    uint64_t max_ns; // its longest gap
    uint32_t n_tokens;
    uint8_t cause; // rn_cause: the largest of the span
} rn_span;

enum { RN_SLOW_GAPS = 8, RN_SPANS = 128 };

// The account of a choice.
typedef struct rn_account {
    uint64_t submit_ns, start_ns, first_ns, last_ns, end_ns; // CLOCK_MONOTONIC; 0: never happened
    rn_share first;                   // submit to the first token; without one to the end
    rn_share decode;                  // first token to the last
    rn_share rest;                    // last token to the end, where it ended without a token
    rn_work prompt_work, decode_work; // steps up to the first token, and after it
    int n_slow, n_spans;
    rn_slow_gap slow[RN_SLOW_GAPS]; // the longest gaps, the longest first
    rn_span span[RN_SPANS]; // all output tokens in order; long outputs have more tokens to a span
} rn_account;

// Kinds of operations of a model.
typedef enum rn_op_class {
    RN_OPS_WEIGHTS,   // products with weights
    RN_OPS_EXPERTS,   // products with weights of chosen experts
    RN_OPS_ATTENTION, // with the KV cache, read and written
    RN_OPS_RECURRENT, // with a recurrent state
    RN_OPS_OTHER,     // norms, rotations, gates
} rn_op_class;
enum { RN_OPS_COUNT = RN_OPS_OTHER + 1, RN_OPS_ROOM = 8 };
const char *rn_op_class_name(rn_op_class ops); // "weights", "attention", ...

// One step of the engine.
typedef struct rn_step {
    uint64_t index;            // 1, 2, ...
    uint64_t begin_ns, end_ns; // CLOCK_MONOTONIC; it ends when its tokens are known
    // the parts of that time: they add up to end_ns - begin_ns. host_ns is the rest
    uint64_t run_ns, choice_ns, draft_ns, host_ns;
    uint64_t idle_ns;  // of the device before it, with something to do; 0: the backend does not say
    uint64_t usual_ns; // run_ns of such a step by experience; 0: not known yet
    // of run_ns; all 0: the backend does not say
    uint64_t ops_ns[RN_OPS_ROOM];
    uint64_t ops_bytes[RN_OPS_ROOM]; // of weights and KV, read and written
    uint64_t ops_flops[RN_OPS_ROOM];
    // tokens by kind
    uint32_t prompt_tokens, stream_tokens, draft_tokens, again_tokens; // again: after preemptions
    uint32_t accepted_tokens;                                          // of draft_tokens
    uint32_t n_streams, n_prompts;
    uint64_t prompt_request; // with the most prompt tokens; 0: none
} rn_step;

// The pointers of an event are valid until the next step, or the next rn_engine_wait.
typedef struct rn_event {
    uint64_t request;
    void *data;       // the request's
    int choice;       // of the request's n
    int32_t token;    // -1: none with this event
    const char *text; // text that became certain, never half a character, not NUL-terminated
    size_t text_len;
    rn_finish finish;   // not NONE: the last event of this choice
    bool last;          // the last event of the request
    rn_status status;   // why, with RN_FINISH_ERROR; RN_ERR_CANCELLED with RN_FINISH_CANCELLED
    const char *reason; // with RN_FINISH_ERROR: why a shape has no token left, or why a bound
                        // cannot be kept; NULL: the status says
    const char *stop;   // the stop string that matched, or NULL
    int32_t stop_token; // the request's stop token that ended the text; -1: none did
    uint64_t seed;
    uint64_t time_ns; // of the step's end, CLOCK_MONOTONIC
    double gap_ms;    // with a token: since the choice's last one; 0: it is the first, or came with
                      // the token before
    rn_cause cause;   // the largest of the gap's causes
    bool drafted;     // the token was proposed by a drafter
    // where asked for: the token's own first, then the likeliest, descending; NULL: none
    const rn_logprob *logprob; // [n_logprobs]
    int n_logprobs;
    // Where asked for: once for choice 0, in an event without a token, before any token of the
    // request. [n_prompt_logprobs][1 + top_prompt_logprobs]: those of the second token of the
    // prompt, of the third and so on; each row as above, and behind the last finite logit token -1.
    // No such event comes for a prompt of one token.
    const rn_logprob *prompt_logprob;
    const int32_t *prompt_rank; // [n_prompt_logprobs] 1: the prompt's token is the likeliest
    int n_prompt_logprobs;
    const rn_timings *timings; // with a finish
    const rn_account *account; // with a finish
    const float *embedding;    // with the finish of a request with pooling, [n_embd]
    // Where asked for: an event without a token, of choice 0, after each step that evaluated more
    // of the prompt than any before it. The first one has the cached tokens alone.
    bool progress;
    int prompt_done, prompt_cached; // tokens that are evaluated or cached; of these, cached ones
    double prompt_ms;               // since the first step of the prompt could start
} rn_event;

// --- a thread of the engine's own ---

// Starts the thread that runs the steps; rn_engine_step and rn_engine_next_event are refused from
// then on. Also after a stop: then requests are taken again.
rn_status rn_engine_start(rn_engine *engine, rn_error *err);
// The next events, at most max, in order; waits for the first up to timeout_ms (-1: as long as it
// takes; 0: does not wait). Returns how many; 0: none came, or the engine was never started, or it
// was stopped and all were collected. One thread at a time. When the queue is full no step is run
// until events are collected.
int rn_engine_wait_sized(rn_engine *engine, rn_event *out, size_t event_size, int max,
                         int timeout_ms);
static inline int rn_engine_wait(rn_engine *engine, rn_event *out, int max, int timeout_ms) {
    return rn_engine_wait_sized(engine, out, sizeof *out, max, timeout_ms);
}
// Readable while events wait, and once when the device was lost or the thread ends, for poll loops;
// collect until rn_engine_wait returns 0. -1: never started. The engine's: not to be read or
// closed.
int rn_engine_event_fd(const rn_engine *engine);
// Ends the thread and takes no more requests. Drain: when every request has ended (the caller keeps
// collecting from another thread; a paused request has to be resumed). Otherwise at once, and all
// requests are cancelled. Events can still be collected. Without a thread nothing happens.
void rn_engine_stop(rn_engine *engine, bool drain);

// --- the caller's thread ---

// Runs one step over all sequences; *busy is false when there was nothing to do. Collect the events
// afterwards. RN_ERR_DEVICE: the engine has ended, see rn_engine_health. RN_ERR_ARG: events of the
// last step are left, or the engine has had a thread of its own.
rn_status rn_engine_step(rn_engine *engine, bool *busy);
// The next event of the last step; false: no more. All are to be collected before the next step.
bool rn_engine_next_event_sized(rn_engine *engine, rn_event *out, size_t event_size);
static inline bool rn_engine_next_event(rn_engine *engine, rn_event *out) {
    return rn_engine_next_event_sized(engine, out, sizeof *out);
}

// One call for a whole text: tokenizes the prompt with RN_TOKENIZE_BOS, steps until its request has
// ended, and returns the text that follows the prompt; NUL-terminated, to be freed with rn_free.
// Other members of the request apply as they are, but n has to be 0 or 1, without pooling, and the
// prompt's ids are not used. NULL request: the model's sampling settings, until the text ends or
// the context is full. RN_ERR_ARG: the engine has other requests, events to collect, or a thread of
// its own.
rn_status rn_complete_sized(rn_engine *engine, const char *prompt, const rn_request *request,
                            size_t request_size, char **text, size_t *len, rn_error *err);
static inline rn_status rn_complete(rn_engine *engine, const char *prompt,
                                    const rn_request *request, char **text, size_t *len,
                                    rn_error *err) {
    return rn_complete_sized(engine, prompt, request, sizeof *request, text, len, err);
}

// Any thread. RN_OK, or RN_ERR_DEVICE: the backend has lost its device. RN_ERR_IO: a file that
// steps read was written to, so that the model is no longer the one that was opened; only tables of
// Gemma 4 are read in steps. Every request has ended with an error, and the engine takes no more.
rn_status rn_engine_health(const rn_engine *engine, rn_error *err);

typedef struct rn_engine_info {
    const char *backend, *isa, *kv_type;
    const char *device; // its name, "NVIDIA H200"; "": the processor of this machine
    int n_threads, n_ctx, max_seqs, batch_tokens;
    int max_waiting;
    double itl_ms;
    uint64_t kv_token_bytes;  // KV memory of a token, where no window ends
    uint64_t kv_bytes;        // KV memory of the engine: its budget
    uint64_t state_bytes;     // all states of a sequence; 0: there are no recurrent layers
    int state_interval;       // as in rn_memory_plan
    uint64_t weight_bytes;    // weight bytes that a decode step reads
    uint64_t cache_bytes;     // last-level cache; 0: unknown
    const char *slow_formats; // weights without a tuned kernel, "Q4_K, Q6_K"; "": none
    const char *drafters;     // the drafters that are on, "model, lookup"; "": none
    int draft_max;
    const char *note; // a better backend that is not here was passed over, one line; "": none
} rn_engine_info;
void rn_engine_get_info_sized(const rn_engine *engine, rn_engine_info *out, size_t out_size);
static inline void rn_engine_get_info(const rn_engine *engine, rn_engine_info *out) {
    rn_engine_get_info_sized(engine, out, sizeof *out);
}

// Of one drafter, since the engine was created.
typedef struct rn_draft_stats {
    uint64_t drafts; // of one or more tokens that were verified
    uint64_t tokens, accepted;
} rn_draft_stats;

enum { RN_STEP_SIZES = 14 };

// Counters since the engine was created, and its present state. Any thread.
typedef struct rn_engine_stats {
    uint64_t steps;
    uint64_t step_tokens; // tokens that steps evaluated, refused drafts included
    // steps of at most 1, 8, 16, 32, ... 16384 tokens, and of more
    uint64_t steps_of[RN_STEP_SIZES];
    // requests' choices, by how they ended; cancelled: also by RN_FINISH_CACHE
    uint64_t submitted, stopped, lengthy, cancelled, failed;
    uint64_t preemptions;
    int running, waiting;                                   // choices now
    uint64_t prompt_tokens, cached_tokens, computed_tokens; // prompts' tokens that were asked for;
                                                            // found in the cache; evaluated, of
                                                            // prompts and outputs
    uint64_t output_tokens;
    uint64_t lookups, hits;   // requests' choices that began, and how many of them found a prefix
    uint64_t evictions;       // of cached pages, for others
    uint64_t state_evictions; // the same of cached states
    uint32_t pages_total, pages_held, pages_shared,
        pages_cached; // now; shared: held more than once
    // pages of states now: a state of each layer of a recurrent group. pages_* does not count them
    uint32_t states_total, states_held, states_cached;
    uint64_t kv_held_bytes, kv_cached_bytes;       // of pages and states
    uint64_t state_held_bytes, state_cached_bytes; // of them, those of states
    double step_ms; // how long the step that runs now has taken; 0: none does
    // where the steps' time went
    uint64_t schedule_ns, draft_ns, batch_ns, run_ns, sample_ns, publish_ns;
    // the device's time between steps that followed each other; 0: the backend does not say
    uint64_t idle_ns;
    uint64_t late_steps;             // handed over when the step before had ended
    uint64_t weight_bytes, kv_bytes; // that the steps had to read
    rn_draft_stats draft[RN_DRAFTER_ROOM];
    uint64_t accepted_at[RN_MAX_DRAFT]; // drafts whose token of that place was accepted
    // time of streams between their tokens, added up over the streams, and an estimate of it
    // without drafts
    uint64_t stream_ns, undrafted_ns;
    uint64_t cause_ns[RN_CAUSE_ROOM];                     // stream_ns by its causes
    uint64_t first_ns[RN_CAUSE_ROOM];                     // the same of the times to first tokens
    uint64_t ops_ns[RN_OPS_ROOM], ops_bytes[RN_OPS_ROOM]; // of the steps
    double ops_flops[RN_OPS_ROOM];
} rn_engine_stats;
void rn_engine_get_stats_sized(const rn_engine *engine, rn_engine_stats *out, size_t out_size);
static inline void rn_engine_get_stats(const rn_engine *engine, rn_engine_stats *out) {
    rn_engine_get_stats_sized(engine, out, sizeof *out);
}

// The page store. Counters are sums since the engine was created.
typedef struct rn_store_stats {
    bool is_ready;       // the model's hash is known, so pages are stored and found
    bool is_stopped;     // the disk is full or fails: nothing is written for a while
    uint64_t max_bytes;  // as configured; 0: memory alone
    uint64_t bytes;      // of all pages in the folder, those of other models included
    uint64_t pages;      // their number
    uint64_t hits;       // pages that were read and used
    uint64_t misses;     // prompts of which the store had nothing that was not in memory
    uint64_t refused;    // prompts that computing was faster for
    uint64_t read_bytes; // of pages
    uint64_t written, written_bytes; // pages, and their bytes
    uint64_t evictions;              // pages that made room
    uint64_t dropped;                // pages that were not written, because the writer was behind
    uint64_t removed;                // files with wrong bytes
    uint64_t errors;                 // of the system
    uint64_t memory_max_bytes, memory_bytes, memory_pages; // of the pages in the host's memory
    uint64_t memory_hits;                                  // of hits: pages that came from there
    uint64_t memory_evictions;
    uint64_t token_bytes; // that a token takes: its KV, and its share of the states that are kept
} rn_store_stats;
// Any thread. False: the engine has no store.
bool rn_engine_get_store_stats_sized(const rn_engine *engine, rn_store_stats *out, size_t out_size);
static inline bool rn_engine_get_store_stats(const rn_engine *engine, rn_store_stats *out) {
    return rn_engine_get_store_stats_sized(engine, out, sizeof *out);
}

// Texts by name in the page store; any thread. A text is its tokens, the salt of its requests, and
// the name that its user chose: 1 to 1,024 bytes, never a path. The same name of another owner
// (any string of the program; NULL: none) is another text. An owner has up to 1,024 texts, and all
// owners up to 4,096: the text that was saved or loaded least recently makes room for a new one.
// RN_ERR_UNSUPPORTED: there is no store, or none in files; RN_ERR_FULL: the model's hash is not
// known yet.
// Saves a text whose requests have ended. Waits, for seconds at most, for the pages that are being
// written. *n_stored: tokens from its start on whose pages are in the store then. Other texts of
// the owner and name are replaced.
rn_status rn_engine_save_text(rn_engine *engine, const char *owner, const char *name,
                              const char *salt, const int32_t *token, size_t n_token,
                              size_t *n_stored, rn_error *err);
// *token is to be freed with rn_free. RN_ERR_ARG: there is none of this name. A request with these
// tokens as its prompt, this salt and prompt_only brings its pages to memory.
rn_status rn_engine_load_text(rn_engine *engine, const char *owner, const char *name,
                              char salt[RN_MAX_SALT_BYTES + 1], int32_t **token, size_t *n_token,
                              rn_error *err);
// False: there was none.
bool rn_engine_erase_text(rn_engine *engine, const char *owner, const char *name);

enum { RN_STEPS_KEPT = 4096 };

// Any thread. The steps after the one with that index (0: from the oldest kept one on), at most
// max, in order; returns how many. The last RN_STEPS_KEPT are kept.
size_t rn_engine_steps_sized(const rn_engine *engine, uint64_t after, rn_step *out,
                             size_t step_size, size_t max);
static inline size_t rn_engine_steps(const rn_engine *engine, uint64_t after, rn_step *out,
                                     size_t max) {
    return rn_engine_steps_sized(engine, after, out, sizeof *out, max);
}
// Any thread. Forgets the prefixes that no request uses, and the texts of requests that are over,
// which drafts are taken from.
void rn_engine_forget_prefixes(rn_engine *engine);

// --- blocks of the prefix cache, for routers that look for the longest prefix ---

typedef enum rn_block_change {
    RN_BLOCK_NAMED,    // the block has this number until it is named again
    RN_BLOCK_STORED,   // a group of layers has it
    RN_BLOCK_REMOVED,  // the group no longer has it
    RN_BLOCKS_CLEARED, // everything that was told is void: the listener could not follow
    RN_BLOCKS_SETTLED, // the changes so far are those of whole steps
} rn_block_change;

typedef struct rn_block_event {
    rn_block_change change;
    int group;            // STORED, REMOVED
    uint32_t block;       // NAMED, STORED, REMOVED
    uint32_t parent;      // the block before it, which was named earlier; 0: it starts a text
    const int32_t *token; // [RN_PAGE_TOKENS]
    const char *salt;     // of a block that starts a text: the request's cache_salt,
    size_t n_salt;        // not NUL-terminated; 0: none
    uint64_t room[4];     // 0
} rn_block_event;

// Called by the step's thread, which it must not stop. The event is valid during the call. False:
// the listener has no room. Then all is void, and the next step that it can follow begins with
// RN_BLOCKS_CLEARED; the blocks that are there follow with the steps after it. A thread of the
// engine's own makes these steps also while there are no requests.
typedef bool (*rn_block_fn)(void *ctx, const rn_block_event *event);
// Before the first step. RN_ERR_ARG: a step was made, or the engine's thread runs.
rn_status rn_engine_on_blocks(rn_engine *engine, rn_block_fn fn, void *ctx);

enum { RN_MAX_BLOCK_GROUPS = 8 };

typedef struct rn_block_group {
    const char *kind; // "full_attention", "sliding_window", "chunked_local_attention", "mamba"
    int window;       // positions; 0: none
} rn_block_group;
size_t rn_engine_block_groups(const rn_engine *engine, rn_block_group out[RN_MAX_BLOCK_GROUPS]);

// --- a picture of the engine, for a live view ---

typedef enum rn_stream_state {
    RN_STREAM_WAITING, // for its first step, or to continue after a preemption
    RN_STREAM_PROMPT,
    RN_STREAM_DECODE,
    RN_STREAM_PAUSED,
} rn_stream_state;

typedef struct rn_stream_view {
    uint64_t request;
    void *data; // the request's
    int choice;
    rn_stream_state state;
    int priority;
    int prompt_tokens, cached_tokens;
    int done_tokens; // positions that are evaluated
    int output_tokens;
    int draft_tokens, accepted_tokens;
    uint32_t pages;   // that it holds
    uint64_t room[2]; // 0
} rn_stream_view;

typedef enum rn_page_state { RN_PAGE_FREE, RN_PAGE_HELD, RN_PAGE_CACHED } rn_page_state;

typedef struct rn_page_view {
    uint64_t owner; // the oldest request that holds it, which may have just ended; 0: none
    uint16_t holders;
    uint8_t group; // of layers, with pages of their own
    uint8_t state; // rn_page_state; cached: kept for others, held by no request
    bool is_state; // a state of each layer of a recurrent group, not 32 positions
} rn_page_view;

typedef struct rn_view {
    uint64_t time_ns; // CLOCK_MONOTONIC
    const rn_engine_stats *stats;
    const rn_stream_view *stream;
    size_t n_streams;
    const rn_page_view *page;
    size_t n_pages;
    const rn_account *account; // of the request that is followed; NULL: its first choice is not
                               // with the engine yet, or is over
    uint64_t account_request;
} rn_view;

typedef struct rn_watcher rn_watcher;

// A watcher has room for one picture. It is to be destroyed before the engine, and not while the
// engine runs.
rn_status rn_watcher_create(rn_engine *engine, rn_watcher **out, rn_error *err);
void rn_watcher_destroy(rn_watcher *watcher);
// Asks for a picture: the step's thread takes it after its current step, at once where it sleeps.
// One thread at a time. Nothing happens while one is asked for already.
void rn_watcher_ask(rn_watcher *watcher);
// The watcher's thread. Pictures have the account of that request's first choice from the next ask
// on; 0: no request is followed.
void rn_watcher_follow(rn_watcher *watcher, uint64_t request);
// The picture that was asked for last, valid until the next ask; NULL: it is not taken yet.
const rn_view *rn_watcher_view(rn_watcher *watcher);

// The machine's read bandwidth in bytes/s for a working set of that size, sustained over
// budget_ms; 0: not measurable, or the engine's thread is running.
double rn_engine_bandwidth(rn_engine *engine, uint64_t working_set, int budget_ms);
// The machine's peak in operations/s (a multiply-add is two) for products of the model's main
// format; takes about 20 ms. 0: not measurable, or the engine's thread is running.
double rn_engine_peak(rn_engine *engine);

#ifdef __cplusplus
}
#endif

#endif
