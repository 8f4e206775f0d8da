// tokenizer.model becomes a vocab_source: real files, each field by itself, and refusals.
// label: memory
#include "base/half.h"
#include "text/vocab_read.h"

// --- a writer of protocol buffers ---

struct writer {
    uint8_t data[4096];
    size_t n;
};

static void put_varint(struct writer *w, uint64_t value) {
    for (; value >= 0x80; value >>= 7) w->data[w->n++] = (uint8_t)(value | 0x80);
    w->data[w->n++] = (uint8_t)value;
}

static void put_int(struct writer *w, uint32_t field, int64_t value) {
    put_varint(w, (uint64_t)field << 3);
    put_varint(w, (uint64_t)value);
}

static void put_bytes(struct writer *w, uint32_t field, const void *data, size_t len) {
    put_varint(w, (uint64_t)field << 3 | 2);
    put_varint(w, len);
    memcpy(w->data + w->n, data, len);
    w->n += len;
}

static void put_float(struct writer *w, uint32_t field, float value) {
    put_varint(w, (uint64_t)field << 3 | 5);
    const uint32_t bits = f32_to_bits(value);
    for (int i = 0; i < 4; i++) w->data[w->n++] = (uint8_t)(bits >> (8 * i));
}

static void put_message(struct writer *w, uint32_t field, const struct writer *inner) {
    put_bytes(w, field, inner->data, inner->n);
}

static void put_piece(struct writer *w, const char *text, float score, int type) {
    struct writer piece = {.n = 0};
    put_bytes(&piece, 1, text, strlen(text));
    put_float(&piece, 2, score);
    if (type) put_int(&piece, 3, type);
    put_message(w, 1, &piece);
}

// Four pieces, and a trainer that says BPE.
static struct writer small_model(void) {
    struct writer w = {.n = 0}, trainer = {.n = 0};
    put_piece(&w, "<unk>", 0, TOKEN_UNKNOWN);
    put_piece(&w, "<s>", 0, TOKEN_CONTROL);
    put_piece(&w, "</s>", 0, TOKEN_CONTROL);
    put_piece(&w, MARKER "a", -1.5f, 0);
    put_int(&trainer, 3, 2);
    put_message(&w, 2, &trainer);
    return w;
}

static rn_status read_it(const struct writer *w, struct vocab_source *out, rn_error *err) {
    *err = (rn_error){0};
    // memory that ends with the file, and stays for the source
    uint8_t *const copy = arena_alloc(&arena, w->n);
    memcpy(copy, w->data, w->n);
    return vocab_spm_read(copy, w->n, &arena, out, err);
}

static struct vocab_source source_read(const struct writer *w) {
    struct vocab_source source;
    rn_error err;
    check(read_it(w, &source, &err) == RN_OK, "%s", err.message);
    return source;
}

static void check_refused(const struct writer *w, rn_status want, const char *words) {
    struct vocab_source source;
    rn_error err;
    const rn_status status = read_it(w, &source, &err);
    check(status == want && strstr(err.message, words), "%s: status %d, %s", words, status,
          err.message);
    check(!strncmp(err.message, "tokenizer.model: ", 17), "%s", err.message);
}

// --- real files ---

static struct vocab_source file_source(const char *path) {
    size_t len;
    char *const data = file_read(path, &len);
    struct vocab_source source;
    rn_error err = {0};
    check(vocab_spm_read(data, len, &arena, &source, &err) == RN_OK, "%s: %s", path, err.message);
    return source;
}

static int count_type(const struct vocab_source *s, int32_t type) {
    int n = 0;
    for (int32_t i = 0; i < s->n_token; i++) n += s->type[i] == type;
    return n;
}

// The same vocabulary as tokenizer.json has it.
static void check_against_json(const struct vocab_source *s, const char *path) {
    json_t *const root = data_json_read(path);
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(json_object_get(root, "model"), "vocab"), key, value) {
        const json_int_t id = json_integer_value(value);
        check(id < s->n_token && is(s->token[id], key), "token %lld: %s", id, key);
    }
    json_decref(root);
}

CASE_WITH(real_files_are_read_whole, NULL, vocab_teardown) {
    struct vocab_source s = file_source(TEST_DATA "/golden/tokenizers/spm/tokenizer.model");
    check_against_json(&s, TEST_DATA "/golden/tokenizers/spm/tokenizer.json");
    assert_true(s.n_token == 512 && s.model == VOCAB_SPM_SCORE && s.byte_fallback);
    assert_true(s.unk == 0 && s.bos == 1 && s.eos == 2 && s.add_bos && !s.add_eos);
    assert_true(count_type(&s, TOKEN_BYTE) == 256 && count_type(&s, TOKEN_CONTROL) == 2);
    assert_true(s.n_normal == 2 && s.strip_space && s.n_split == 0 && s.n_merge == 0);

    s = file_source(TEST_DATA "/golden/tokenizers/gemma/tokenizer.model");
    check_against_json(&s, TEST_DATA "/golden/tokenizers/gemma/tokenizer.json");
    assert_true(s.unk == 3 && s.bos == 2 && s.eos == 1 && s.n_normal == 1 && !s.strip_space);
    assert_true(s.n_added == 2 && s.added[0].id == 4 && is(s.added[0].text, "<start_of_turn>"));

    s = file_source(TEST_DATA "/tokenizers/spm-bpe/tokenizer.model");
    assert_true(s.n_token == 2400 && s.n_normal == 2 && s.byte_fallback);
}

// --- fields ---

CASE_WITH(defaults_hold_where_the_file_is_silent, NULL, vocab_teardown) {
    const struct writer w = small_model();
    const struct vocab_source s = source_read(&w);
    assert_true(s.n_token == 4 && s.unk == 0 && s.bos == 1 && s.eos == 2 && !s.byte_fallback);
    assert_true(is(s.token[3], MARKER "a") && s.score[3] == -1.5f && s.type[3] == TOKEN_NORMAL);
    // no extra blanks, a prefix, markers
    assert_int_equal(s.n_normal, 4);
    assert_true(s.normal[0].kind == NORMAL_REPLACE_REGEX && is(s.normal[0].to, ""));
    assert_true(s.normal[1].kind == NORMAL_REPLACE_REGEX && is(s.normal[1].to, " "));
    assert_true(s.normal[2].kind == NORMAL_PREPEND && is(s.normal[2].to, MARKER));
    assert_true(s.normal[3].kind == NORMAL_REPLACE && is(s.normal[3].from, " "));
    assert_true(is(s.normal[3].to, MARKER) && s.strip_space && s.fuse_unk);
}

CASE_WITH(normalizer_fields_choose_the_steps, NULL, vocab_teardown) {
    struct writer w = small_model(), spec = {.n = 0};
    put_bytes(&spec, 1, "identity", 8);
    put_int(&spec, 3, 0);
    put_int(&spec, 4, 0);
    put_message(&w, 3, &spec);
    struct vocab_source s = source_read(&w);
    assert_true(s.n_normal == 1 && s.normal[0].kind == NORMAL_REPLACE && !s.strip_space);

    w = small_model();
    put_int(&spec, 3, 1);
    put_int(&spec, 5, 0);
    put_message(&w, 3, &spec);
    s = source_read(&w);
    assert_true(s.n_normal == 1 && s.normal[0].kind == NORMAL_PREPEND && is(s.normal[0].to, " "));

    w = small_model();
    spec.n = 0;
    put_bytes(&spec, 1, "nmt_nfkc", 8);
    put_bytes(&spec, 2, "\1\2\3", 3);
    put_message(&w, 3, &spec);
    s = source_read(&w);
    assert_true(s.normal[0].kind == NORMAL_UNSUPPORTED && is(s.normal[0].from, "nmt_nfkc"));
}

CASE_WITH(trainer_fields_choose_ids_and_fallback, NULL, vocab_teardown) {
    struct writer w = small_model(), trainer = {.n = 0};
    put_int(&trainer, 35, 1);
    put_int(&trainer, 41, -1);
    put_int(&trainer, 42, 3);
    put_int(&trainer, 24, 1);
    put_message(&w, 2, &trainer);
    struct vocab_source s = source_read(&w);
    assert_true(s.byte_fallback && s.bos == -1 && s.eos == 3 && !s.add_bos);
    assert_true(s.normal[0].kind == NORMAL_UNSUPPORTED &&
                is(s.normal[0].from, "treat_whitespace_as_suffix"));

    struct writer two = {.n = 0};
    trainer.n = 0;
    put_piece(&two, "a", 0, 1);
    put_piece(&two, "b", 0, 1);
    put_int(&trainer, 3, 2);
    put_message(&two, 2, &trainer);
    s = source_read(&two); // the default eos is no token here
    assert_true(s.bos == 1 && s.eos == -1 && s.unk == -1);
}

CASE_WITH(user_defined_pieces_are_added_tokens_with_spaces, NULL, vocab_teardown) {
    struct writer w = small_model();
    put_piece(&w, MARKER MARKER "x" MARKER, 0, TOKEN_USER_DEFINED);
    put_piece(&w, "<y>", 0, TOKEN_USER_DEFINED);
    const struct vocab_source s = source_read(&w);
    assert_int_equal(s.n_added, 2);
    assert_true(s.added[0].id == 4 && is(s.added[0].text, MARKER MARKER "x" MARKER));
    assert_true(s.added[0].normalized && !s.added[0].special && is(s.token[4], "  x "));
    assert_true(s.added[1].id == 5 && is(s.added[1].text, "<y>") && is(s.token[5], "<y>"));
}

CASE_WITH(unknown_fields_are_skipped, NULL, vocab_teardown) {
    struct writer w = small_model(), piece = {.n = 0};
    put_int(&w, 4, 12345);
    put_bytes(&w, 5, "abc", 3);
    put_float(&w, 200, 1);
    put_varint(&w, 77 << 3 | 1);
    memcpy(w.data + w.n, "12345678", 8);
    w.n += 8;
    put_bytes(&piece, 1, "z", 1);
    put_bytes(&piece, 9, "???", 3);
    put_message(&w, 1, &piece);
    const struct vocab_source s = source_read(&w);
    assert_true(s.n_token == 5 && is(s.token[4], "z"));
}

CASE_WITH(other_models_are_refused_by_name, NULL, vocab_teardown) {
    struct writer w = {.n = 0}, trainer = {.n = 0};
    put_piece(&w, "a", 0, 1);
    check_refused(&w, RN_ERR_UNSUPPORTED, "unigram"); // the format's default
    put_int(&trainer, 3, 3);
    put_message(&w, 2, &trainer);
    check_refused(&w, RN_ERR_UNSUPPORTED, "word");
    trainer.n = 0;
    put_int(&trainer, 3, -7);
    put_message(&w, 2, &trainer);
    check_refused(&w, RN_ERR_UNSUPPORTED, "-7");
}

CASE_WITH(bad_fields_are_refused_with_the_place, NULL, vocab_teardown) {
    struct writer w = {.n = 0}, inner = {.n = 0};
    check_refused(&w, RN_ERR_MODEL, "no pieces");
    w = small_model();
    put_piece(&w, "x", 0, 7);
    check_refused(&w, RN_ERR_MODEL, "not 1 to 6");
    w = small_model();
    put_piece(&w, "x", 1.0f / 0.0f, 1);
    check_refused(&w, RN_ERR_MODEL, "not finite");
    w = small_model();
    put_int(&w, 1, 5);
    check_refused(&w, RN_ERR_MODEL, "of another type");
    w = small_model();
    put_int(&inner, 1, 5);
    put_message(&w, 1, &inner);
    check_refused(&w, RN_ERR_MODEL, "of another type");
    w = small_model();
    inner.n = 0;
    put_int(&inner, 42, 4);
    put_message(&w, 2, &inner);
    check_refused(&w, RN_ERR_MODEL, "eos_id is 4, expected -1 to 3");
    w = small_model();
    put_varint(&w, 9 << 3 | 3); // a group
    check_refused(&w, RN_ERR_MODEL, "damaged");
    w = small_model();
    put_varint(&w, 0 << 3 | 0); // field 0
    check_refused(&w, RN_ERR_MODEL, "no field");
    w = small_model();
    put_varint(&w, UINT64_C(1) << 35);
    check_refused(&w, RN_ERR_MODEL, "no field");
    w = small_model();
    put_varint(&w, 9 << 3); // a varint of eleven bytes
    for (int i = 0; i < 10; i++) w.data[w.n++] = 0x80;
    w.data[w.n++] = 1;
    check_refused(&w, RN_ERR_MODEL, "damaged");
    w = small_model();
    put_varint(&w, 9 << 3); // one of ten bytes that is above 2^64
    for (int i = 0; i < 9; i++) w.data[w.n++] = 0x80;
    w.data[w.n++] = 2;
    check_refused(&w, RN_ERR_MODEL, "damaged");
    w = small_model();
    put_varint(&w, 9 << 3 | 2);
    put_varint(&w, 1); // a length, and nothing behind it
    check_refused(&w, RN_ERR_MODEL, "past its end");
    w = small_model();
    put_varint(&w, 9 << 3 | 2);
    put_varint(&w, UINT64_MAX);
    check_refused(&w, RN_ERR_MODEL, "past its end");
}

CASE_WITH(files_cut_anywhere_lack_something_or_are_refused, NULL, vocab_teardown) {
    const struct writer whole = small_model();
    for (size_t n = 0; n < whole.n; n++) {
        struct writer cut = whole;
        cut.n = n;
        struct vocab_source source;
        rn_error err;
        const rn_status status = read_it(&cut, &source, &err);
        check(status && err.message[0], "%zu bytes", n); // the trainer comes last
    }
    for (size_t i = 0; i < whole.n * 8; i++) {
        struct writer flipped = whole;
        flipped.data[i / 8] ^= (uint8_t)(1 << i % 8);
        struct vocab_source source;
        rn_error err;
        const rn_status status = read_it(&flipped, &source, &err);
        check(!status == !err.message[0], "bit %zu", i);
    }
}

CASE_WITH(more_pieces_than_ids_are_refused, NULL, vocab_teardown) {
    const size_t n = (1 << 19) + 1;
    uint8_t *const data = malloc(2 * n);
    for (size_t i = 0; i < n; i++) {
        data[2 * i] = 1 << 3 | 2;
        data[2 * i + 1] = 0;
    }
    struct vocab_source source;
    rn_error err = {0};
    assert_int_equal(vocab_spm_read(data, 2 * n, &arena, &source, &err), RN_ERR_MODEL);
    assert_non_null(strstr(err.message, "more than 524288"));
    free(data);
}

TEST_PROGRAM(vocab_spm) { return cases_run(NULL, NULL); }
