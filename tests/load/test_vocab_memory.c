// The most memory that any vocabulary file can make us allocate: 64 MB.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "gguf_writer.h"
#include "load/vocab.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEMORY_IS_OURS 0 // their allocators take much more
#else
#define MEMORY_IS_OURS 1
#endif

// Peak resident memory in KB.
static long peak_kb(void) {
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    char line[256];
    long kb = -1;
    while (fgets(line, sizeof line, file)) sscanf(line, "VmHWM: %ld", &kb);
    fclose(file);
    assert_true(kb > 0);
    return kb;
}

enum kind { KIND_NORMAL, KIND_CONTROL, KIND_EMPTY };

// n tokens, then n_merge times the same merge, and a wrong last merge.
static uint8_t *bomb(int n, int n_merge, enum kind kind, size_t *size) {
    struct writer writer = writer_begin(3);
    writer_kv_str(&writer, "tokenizer.ggml.model", "gpt2");
    writer_kv_array(&writer, "tokenizer.ggml.tokens", WRITER_STRING, (uint64_t)n);
    for (int i = 0; i < n; i++) {
        char text[16] = "";
        if (kind != KIND_EMPTY) snprintf(text, sizeof text, "%x", (unsigned)i);
        writer_put_string(&writer.kv, text, strlen(text));
    }
    writer_kv_array(&writer, "tokenizer.ggml.token_type", WRITER_I32, (uint64_t)n);
    for (int i = 0; i < n; i++) writer_put_u32(&writer.kv, kind == KIND_CONTROL ? 3 : 1);
    writer_kv_array(&writer, "tokenizer.ggml.merges", WRITER_STRING, (uint64_t)n_merge);
    for (int i = 0; i < n_merge; i++)
        writer_put_string(&writer.kv, i + 1 < n_merge ? "1 2" : "1 #", 3);
    return writer_finish(&writer, size);
}

static void check_bomb(int n, int n_merge, enum kind kind, const char *names) {
    size_t size;
    uint8_t *image = bomb(n, n_merge, kind, &size);
    struct weights *weights;
    struct tokenizer *tokenizer = NULL;
    rn_error err = {0};
    assert_int_equal(weights_open_memory("v.gguf", image, size, &weights, &err), RN_OK);
    const long before = peak_kb();
    const rn_status status = vocab_load(weights, 0, &tokenizer, NULL, &err);
    const long grown = peak_kb() - before;
    check(status == RN_ERR_MODEL && strstr(err.message, "v.gguf") && strstr(err.message, names),
          "status %d, %s", status, err.message);
    check(!MEMORY_IS_OURS || grown <= 64 * 1024, "%d tokens, %d merges: %ld KB", n, n_merge, grown);
    weights_close(weights);
    free(image);
}

CASE(the_largest_vocabularies_stay_within_64_mb) {
    check_bomb(1 << 19, 1 << 19, KIND_NORMAL, "merges[524287]");
    check_bomb(1 << 19, 1 << 19, KIND_CONTROL, "merges[524287]");
    check_bomb(1 << 19, 1 << 19, KIND_EMPTY, "merges[0]");
}

CASE(larger_ones_are_refused_by_their_size) {
    check_bomb((1 << 19) + 1, 1, KIND_NORMAL, "524289");
    check_bomb(1 << 10, (1 << 19) + 1, KIND_NORMAL, "524289");
}

TEST_PROGRAM(vocab_memory) { return cases_run(NULL, NULL); }
