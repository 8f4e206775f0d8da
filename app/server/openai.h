// The common parts of OpenAI's endpoints: the head that all chunks of a call start with, usage,
// tokens with their log probabilities, prompts in all their forms. Internal to chat.c,
// completions.c, embeddings.c, models.c, and the files of Ollama's API.
#ifndef RN_SERVER_OPENAI_H
#define RN_SERVER_OPENAI_H

#include "generation.h"

struct openai_choice {
    bool began;         // its first chunk was written
    bool has_prompt;    // completions: the ids of its prompt were written
    int n_shown;        // of its token ids that were written
    size_t text_offset; // characters of the text before the next token, for completions
};

// generation->own. The head is rendered once per call: a chunk is a copy of it and the new text.
struct openai_state {
    struct jbuf head; // {"id":...,"choices":[{"index": and of a stream "data: " before it
    size_t body_len;  // of the head: up to the choices
    bool echo;
    bool is_chat;       // logprobs of the prompt are beside the choices
    bool has_prompt;    // chat: the ids of the prompt were written
    bool is_derendered; // its tokens came with the request, and no engine has times of them
    const json_t *prompt_logprobs, *kv_transfer_params; // that came with them; NULL if none did
    bool has_extras;               // chunks have members that few requests ask for
    int n_ended;                   // of a stream's choices
    struct openai_choice choice[]; // [prompts * n]
};

extern const struct writer chat_writer, completions_writer;
// The settings of a body of /v1/chat/completions, and its prompt. False: refused.
bool chat_prompt(struct call *call, const json_t *body, struct generation *generation);

// After the prompts are there. The id is prefix and the call's. False: refused.
bool openai_state_create(struct call *call, const char *prefix, const char *object);
// The same with an id of its own.
bool openai_state_named(struct call *call, const char *id, const char *object);
struct openai_state *openai_state_of(const struct call *call);

// A chunk up to {"index":N, and its end where the choice continues: of the head of a choice, which
// comes before its tokens, or of a chunk with text. bare: without logprobs, which were not written
// then.
void openai_chunk_open(struct call *call, const struct generation_choice *choice);
void openai_head_close(struct call *call, const struct generation_choice *choice, bool bare);
void openai_chunk_close(struct call *call, const struct generation_choice *choice, bool bare);
// The end of a chunk without text, which tells how far the prompt is.
void openai_chunk_progress(struct call *call, const struct generation_choice *choice,
                           const rn_event *event);
// After choice_end wrote a choice's last fields: closes the chunk, with timings if it is the last.
void openai_choice_close(struct call *call, const struct generation_choice *choice);
void openai_stream_end(struct call *call); // the usage where it was asked for, then [DONE]
// A choice of a whole answer. The opening of the answer comes before the first choice; usage and
// timings come after the last.
void openai_whole_open(struct call *call, const struct generation_choice *choice);
void openai_whole_close(struct call *call, const struct generation_choice *choice);
void openai_error(struct call *call, const struct failure *failure);

// "usage":{...}. has_reasoning: with the number of tokens of the reasoning.
void openai_usage(const struct generation *generation, bool has_reasoning, struct jbuf *out);
// ,"finish_reason":...,"stop_reason":...
void openai_finish(const struct generation_choice *choice, struct jbuf *out);

void openai_logprob(float logprob, struct jbuf *out);
// The choice's logprobs as items of an array that out may have started; they are taken.
// is_content: those of the content alone.
void openai_logprobs_take(const struct call *call, struct generation_choice *choice,
                          bool is_content, struct jbuf *out);

// ,"prompt_logprobs":[null,{...}] of a prompt in vLLM's form, where it is asked for.
void openai_prompt_logprobs(const struct call *call, int index, struct jbuf *out);

// The field as prompts: a string, a list of strings, of ids, of both, or of such lists. Each
// becomes a prompt of the generation; with keep_text also the text that it stands for. False:
// refused.
bool openai_prompts(struct call *call, const json_t *body, const char *name, bool keep_text);
// A vector as a JSON array of numbers.
void openai_vector(const float *value, int n, struct jbuf *out);
// Leaves the fields that a request for vectors has: those of text generation mean nothing there.
void openai_embed_params(const struct served *served, struct params *params);
// What the vector of a text is made of: `pooling` of the request, else of the server, else of the
// model's files. False: refused.
bool openai_pooling(const struct fields *fields, rn_pooling *out);
// `dimensions` must be the model's. False: refused.
bool openai_dimensions(const struct fields *fields);

#endif
