// Any bytes as tokenizer.model, under a fixed tokenizer_config.json. An accepted vocabulary keeps
// the promises of vocab.h, and a tokenizer made of it works or is refused.
#include "vocab_touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char json[] =
        "{\"added_tokens_decoder\":{\"1\":{\"content\":\"<s>\",\"special\":true},"
        "\"9\":{\"content\":\"\xe2\x96\x81x\",\"rstrip\":true}},\"add_eos_token\":true}";
    struct arena arena = {0};
    struct vocab_source source;
    struct vocab_config config;
    rn_error err = {0};
    const rn_status status = vocab_spm_read(data, size, &arena, &source, &err);
    require(!status == !err.message[0]);
    if (!status) {
        touch_source(&source);
        require(vocab_config_read(json, sizeof json - 1, &arena, &config, &err) == RN_OK);
        require(vocab_config_apply(&config, &arena, &source, &err) == RN_OK);
        touch_source(&source);
        touch_tokenizer(&source);
    }
    arena_deinit(&arena);
    return 0;
}
