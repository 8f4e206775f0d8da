// The folders of tests/data/tokenizers (its README describes them) and their expected ids. A
// tokenizer.json has the facts of vocab.gguf in five times the bytes. So only the frame around its
// vocabulary and merges is tracked, and the file is rebuilt byte for byte (tokenizers.json holds
// its checksum).
#ifndef RN_TESTS_TOKENIZER_FOLDER_H
#define RN_TESTS_TOKENIZER_FOLDER_H

#include "data_file.h"
#include "gguf_writer.h"
#include "weights/weights.h"

#define TOKENIZER_LIST TEST_DATA "/tokenizers/tokenizers.json"

struct tokenizer_set {
    char name[32], file[32];
    bool special;      // the text of a special token becomes that token
    bool normalized;   // to NFC, so that this is what decoding gives
    uint64_t checksum; // of file
};

static inline struct tokenizer_set tokenizer_set_find(const char *name) {
    struct tokenizer_set set = {0};
    json_t *list = data_json_read(TOKENIZER_LIST);
    size_t index;
    const json_t *entry;
    json_array_foreach(list, index, entry) {
        if (strcmp(json_string_value(json_object_get(entry, "name")), name) != 0) continue;
        snprintf(set.name, sizeof set.name, "%s", name);
        snprintf(set.file, sizeof set.file, "%s",
                 json_string_value(json_object_get(entry, "file")));
        set.special = json_is_true(json_object_get(entry, "special"));
        set.normalized = json_is_true(json_object_get(entry, "normalized"));
        set.checksum = strtoull(json_string_value(json_object_get(entry, "fnv")), NULL, 16);
    }
    json_decref(list);
    check(set.name[0], "%s is not in tokenizers.json", name);
    return set;
}

static inline void tokenizer_put_text(struct writer_buffer *out, const char *text) {
    writer_put(out, text, strlen(text));
}

// A JSON string. Byte-level tokens have no control characters.
static inline void tokenizer_put_string(struct writer_buffer *out, const char *text, size_t len) {
    writer_put(out, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        assert_true((uint8_t)text[i] >= 0x20);
        if (text[i] == '"' || text[i] == '\\') writer_put(out, "\\", 1);
        writer_put(out, text + i, 1);
    }
    writer_put(out, "\"", 1);
}

static inline struct meta_cursor tokenizer_strings(const struct weights *gguf, const char *key) {
    struct meta_cursor cursor;
    const struct meta_view *meta = weights_meta_find(gguf, key);
    assert_true(meta && meta_strings_begin(meta, &cursor));
    return cursor;
}

static inline void tokenizer_put_vocab(struct writer_buffer *out, const struct weights *gguf) {
    struct meta_cursor cursor = tokenizer_strings(gguf, "tokenizer.ggml.tokens");
    const char *text;
    size_t len;
    for (int id = 0; meta_strings_next(&cursor, &text, &len); id++) {
        char number[32];
        snprintf(number, sizeof number, ": %d", id);
        tokenizer_put_text(out, id ? ",\n      " : "      ");
        tokenizer_put_string(out, text, len);
        tokenizer_put_text(out, number);
    }
    tokenizer_put_text(out, "\n");
}

static inline void tokenizer_put_merges(struct writer_buffer *out, const struct weights *gguf) {
    struct meta_cursor cursor = tokenizer_strings(gguf, "tokenizer.ggml.merges");
    const char *text;
    size_t len;
    for (int rank = 0; meta_strings_next(&cursor, &text, &len); rank++) {
        const char *space = memchr(text, ' ', len);
        assert_non_null(space);
        const size_t left = (size_t)(space - text);
        tokenizer_put_text(out, rank ? ",\n      [\n        " : "      [\n        ");
        tokenizer_put_string(out, text, left);
        tokenizer_put_text(out, ",\n        ");
        tokenizer_put_string(out, space + 1, len - left - 1);
        tokenizer_put_text(out, "\n      ]");
    }
    tokenizer_put_text(out, "\n");
}

// The frame with its lines @VOCAB and @MERGES replaced.
static inline struct writer_buffer tokenizer_json_rebuild(const struct tokenizer_set *set) {
    char path[DATA_PATH_BYTES];
    rn_error err;
    struct weights *gguf;
    snprintf(path, sizeof path, TEST_DATA "/tokenizers/%s/vocab.gguf", set->name);
    check(weights_open(path, &gguf, &err) == RN_OK, "%s", err.message);
    snprintf(path, sizeof path, TEST_DATA "/tokenizers/%s/tokenizer.json.frame", set->name);
    const struct data_file frame = data_file_read(path);
    char *vocab = strstr((char *)frame.data, "@VOCAB\n");
    char *merges = strstr((char *)frame.data, "@MERGES\n");
    assert_true(vocab && merges && vocab < merges);
    struct writer_buffer out = {0};
    writer_put(&out, frame.data, (size_t)(vocab - (char *)frame.data));
    tokenizer_put_vocab(&out, gguf);
    vocab += strlen("@VOCAB\n");
    writer_put(&out, vocab, (size_t)(merges - vocab));
    tokenizer_put_merges(&out, gguf);
    tokenizer_put_text(&out, merges + strlen("@MERGES\n"));
    free(frame.data);
    weights_close(gguf);
    return out;
}

// A folder with tokenizer.json or tokenizer.model alone.
static inline struct data_folder tokenizer_folder_make(const struct tokenizer_set *set) {
    const struct data_folder folder = data_folder_make();
    struct writer_buffer file;
    if (strcmp(set->file, "tokenizer.json") == 0) {
        file = tokenizer_json_rebuild(set);
    } else {
        char path[DATA_PATH_BYTES];
        snprintf(path, sizeof path, TEST_DATA "/tokenizers/%s/%s", set->name, set->file);
        const struct data_file carried = data_file_read(path);
        file = (struct writer_buffer){.data = carried.data, .size = carried.size};
    }
    check(data_checksum(file.data, file.size) == set->checksum, "%s: %s is not the original one",
          set->name, set->file);
    data_file_write(folder.path, set->file, file.data, file.size);
    free(file.data);
    return folder;
}

// ---------------------------------------------------------------- expected ids

// The ids of a line of ids.txt, two characters of base 64 each; returns how many. NULL in *line at
// the end; -1 for a text that the set does not have.
static inline int tokenizer_read_ids(const char **line, int32_t *ids, int max) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = *line;
    const char *end = strchr(at, '\n');
    check(end != NULL, "ids.txt ends early");
    *line = end + 1;
    if (*at == '-') return -1;
    int n = 0;
    for (; at < end; at += 2) {
        const char *high = strchr(digits, at[0]), *low = strchr(digits, at[1]);
        assert_true(high && low && n < max);
        ids[n++] = (int32_t)((high - digits) * 64 + (low - digits));
    }
    return n;
}

#endif
