// The generation fields that all APIs have in common, read from fields.def and the sampling table:
// adding a field is a row. Names differ by family, ranges do not.
#ifndef RN_SERVER_PARAMS_H
#define RN_SERVER_PARAMS_H

#include "fields.h"

enum family { // bits, for the rows of fields.def
    FAMILY_CHAT = 1,
    FAMILY_COMPLETIONS = 2,
    FAMILY_NATIVE = 4,
    FAMILY_RESPONSES = 8,
    FAMILY_MESSAGES = 16,
    FAMILY_OLLAMA = 32, // its sampling fields are members of `options`
    FAMILY_ANY = 63,
};

enum { PROMPTS_MAX = 64, TOP_LOGPROBS_MAX = RN_MAX_TOP_LOGPROBS, USER_BYTES_MAX = 1024 };

// reasoning_effort. The words of the APIs, in their order.
enum effort {
    EFFORT_NONE,
    EFFORT_MINIMAL,
    EFFORT_LOW,
    EFFORT_MEDIUM,
    EFFORT_HIGH,
    EFFORT_XHIGH,
    EFFORT_MAX,
    EFFORT_ABSENT
};

// Strings and lists point into the call's JSON or into this struct, which must not be moved.
struct params {
    rn_sampling sampling;
    rn_logit_bias bias[RN_MAX_LOGIT_BIAS];
    const char *breakers[RN_MAX_DRY_BREAKERS];
    int n;
    int max_tokens; // -1: up to the context
    const char *stop[RN_MAX_STOPS];
    size_t n_stop;
    int min_tokens;
    int32_t stop_token[RN_MAX_STOP_TOKENS];
    size_t n_stop_token;
    const char *bad_words[RN_MAX_BAD_WORDS];
    size_t n_bad_words;
    const json_t *allowed; // ids of the only tokens that may be written; NULL: any
    int keep_prompt; // tokens at the end of a prompt that are kept; 0: all; -1: as many as fit
    bool keep_start; // they are at its start
    bool stream, include_usage, ignore_eos, include_stop;
    bool continuous_usage;                   // each chunk has the usage so far
    bool return_progress, timings_per_token; // of streams: how far the prompt is; times so far
    bool return_token_ids, tokens_as_ids;    // ids beside texts; ids as the texts of logprobs
    bool include_reasoning;                  // a chat's answer has its reasoning
    bool logprobs;
    int top_logprobs;
    bool prompt_logprobs;          // vLLM's form of them is asked for
    int top_prompt_logprobs;       // with them
    enum effort effort;            // of the reasoning
    int thinking_budget;           // tokens of reasoning; -1: `effort` says
    bool summary;                  // of the reasoning, is asked for
    int draft_max;                 // of rn_request: 0: the engine's; -1: none
    int priority;                  // as vLLM's: lower ones go first
    const char *user, *cache_salt; // NULL: none
    int id_slot;                   // that remembers the text (slots.h); -1: none
    unsigned samplers_off;         // steps that the request's list lacks (samplers.h)
    int indent_min;                // bounds on lines, as rn_request has them;
    double line_ms_max;            // none if 0 or less
    double timeout_ms;             // 0: the server's
    double ttft_ms, tpot_ms;       // bounds of the request's headers; 0: none
    double cache_share;            // cache_hit_threshold
};

// A number of tops as the engine has it: more than TOP_LOGPROBS_MAX are the whole vocabulary.
static inline int params_tops(int n) { return n > TOP_LOGPROBS_MAX ? RN_ALL_LOGPROBS : n; }
// The number of tokens that an id may name.
static inline int params_vocab(const struct call *call) {
    const rn_model_info *info = call->served->info;
    return info ? info->n_vocab : INT32_MAX;
}

// Everything of the family that is not messages, prompt, tools. Starts from the server's defaults.
// Also checks `model` as params_model does, and refuses fields that are not supported. False:
// refused.
bool params_read(struct call *call, const json_t *body, enum family family, struct params *out);
// The tokens of reasoning that an effort stands for, where the model's template does not know
// efforts; -1: any number.
int params_effort_budget(enum effort effort);
// `model` alone, for routes that generate nothing: absent, empty or a name of the call's model. A
// server of one model takes any name, unless it is strict about names.
bool params_model(struct call *call, const json_t *body);
// Refuses with 404: there is no model of this name. Always false.
bool params_no_model(struct call *call, const char *name);

#endif
