// The bytes behind tokens, and the tokens around a text, by the public interface alone.
#include <string.h>

#include "check.h"
#include "tale.h"

CASE(tokens_of_a_text_have_its_bytes) {
    static const char text[] = "A fox, 3 lanterns and a \xE2\x98\x83!";
    rn_error err = {0};
    int32_t *ids;
    size_t n_ids, at = 0;
    assert_int_equal(rn_tokenize(model, text, strlen(text), 0, &ids, &n_ids, &err), RN_OK);
    for (size_t i = 0; i < n_ids; i++) {
        size_t len;
        const char *bytes = rn_token_bytes(model, ids[i], &len);
        assert_true(len > 0 && len <= strlen(text) - at);
        assert_memory_equal(bytes, text + at, len);
        at += len;
    }
    assert_int_equal(at, strlen(text));
    rn_free(ids);
}

CASE(ids_outside_the_vocabulary_have_no_bytes) {
    const int n_vocab = rn_model_get_info(model)->n_vocab;
    const int32_t ids[] = {-1, INT32_MIN, n_vocab, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        size_t len = 7;
        assert_non_null(rn_token_bytes(model, ids[i], &len));
        assert_int_equal(len, 0);
    }
}

CASE(a_text_starts_with_bos_where_the_model_has_one) {
    const int n_vocab = rn_model_get_info(model)->n_vocab;
    const int32_t bos = rn_token_bos(model), eos = rn_token_eos(model);
    rn_error err = {0};
    int32_t *ids;
    size_t n_ids, len;
    assert_in_range(bos, 0, n_vocab - 1);
    assert_in_range(eos, 0, n_vocab - 1);
    rn_token_bytes(model, eos, &len);
    assert_true(len > 0); // special tokens have their text
    assert_int_equal(rn_tokenize(model, "a", 1, RN_TOKENIZE_BOS, &ids, &n_ids, &err), RN_OK);
    assert_true(n_ids >= 2);
    assert_int_equal(ids[0], bos);
    rn_free(ids);
}

TEST_PROGRAM(token_bytes) { return cases_run(open_model, close_model); }
