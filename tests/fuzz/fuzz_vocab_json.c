// Any bytes as tokenizer.json, and as the tokenizer_config.json that overrides it. An accepted
// vocabulary keeps the promises of vocab.h, and a tokenizer made of it works or is refused.
#include "vocab_touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Input: tokenizer.json, and behind a NUL tokenizer_config.json; without a NUL it is both.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena arena = {0};
    struct vocab_source source;
    struct vocab_config config;
    rn_error err = {0};
    const char *const json = (const char *)data;
    const char *const cut = size ? memchr(json, 0, size) : NULL;
    const char *const second = cut ? cut + 1 : json;
    const size_t len = cut ? (size_t)(cut - json) : size;

    const rn_status status = vocab_json_read(json, len, &arena, &source, &err);
    require(!status == !err.message[0]);
    if (!status) touch_source(&source);

    err = (rn_error){0};
    const rn_status second_status =
        vocab_config_read(second, size - (size_t)(second - json), &arena, &config, &err);
    require(!second_status == !err.message[0]);
    if (!status && !second_status && vocab_config_apply(&config, &arena, &source, &err) == RN_OK)
        touch_source(&source);
    if (!status) touch_tokenizer(&source);
    arena_deinit(&arena);
    return 0;
}
