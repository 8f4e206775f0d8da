// One turn of a conversation: the model's template turns messages into a prompt, and the answer is
// printed as it comes.
//
//   cc chat.c $(pkg-config --cflags --libs runnel) -o chat
//   ./chat model.gguf '[{"role": "user", "content": "Tell me a story about a fox."}]'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <runnel.h>

static void fail(const rn_error *err) {
    fprintf(stderr, "chat: %s\n", err->message); // it names the file or the value
    exit(1);
}

// The tokens of the conversation, to be freed with rn_free. Texts of messages cannot become control
// tokens: `guard` marks them, and RN_TOKENIZE_GUARDED reads the marks.
static int32_t *prompt_of(const rn_model *model, const char *messages, size_t *n_prompt) {
    rn_error err;
    rn_chat_template *tmpl;
    char *text;
    size_t len;
    int32_t *prompt;
    if (rn_chat_template_create(model, NULL, &tmpl, &err)) fail(&err);
    const rn_chat chat = {.messages = messages,
                          .add_generation_prompt = true,
                          .guard = true,
                          .now = (int64_t)time(NULL)};
    if (rn_chat_render(tmpl, &chat, &text, &len, &err)) fail(&err);
    const int flags = RN_TOKENIZE_BOS | RN_TOKENIZE_SPECIAL | RN_TOKENIZE_GUARDED;
    if (rn_tokenize(model, text, len, flags, &prompt, n_prompt, &err)) fail(&err);
    rn_free(text);
    rn_chat_template_destroy(tmpl);
    return prompt;
}

// Prints the answer; returns when the request has ended.
static void print_answer(rn_engine *engine) {
    for (bool busy = true; busy;) {
        rn_engine_step(engine, &busy);
        rn_event event;
        while (rn_engine_next_event(engine, &event)) {
            fwrite(event.text, 1, event.text_len, stdout);
            fflush(stdout);
            if (event.finish)
                printf("\n[%s: %d + %d tokens, first after %.1f ms]\n",
                       rn_finish_text(event.finish), event.timings->prompt_tokens,
                       event.timings->output_tokens, event.timings->ttft_ms);
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: chat MODEL MESSAGES\n");
        return 2;
    }
    rn_error err;
    rn_model *model;
    rn_engine *engine;
    if (rn_model_open(argv[1], &model, &err)) fail(&err);
    rn_request request = {.sampling = rn_sampling_defaults(model)};
    int32_t *prompt = prompt_of(model, argv[2], &request.n_prompt);
    request.prompt = prompt;
    if (rn_engine_create(model, NULL, &engine, &err)) fail(&err);
    uint64_t id;
    if (rn_engine_submit(engine, &request, &id, &err)) fail(&err);
    rn_free(prompt); // the engine has its own copy of everything
    print_answer(engine);
    rn_engine_destroy(engine);
    rn_model_close(model);
    return 0;
}
