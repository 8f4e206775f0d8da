// Walks everything that a reader of vocabularies made, so that a sanitizer sees bad pointers, and
// checks it against the promises of vocab.h. Then makes a tokenizer of it, which must hold too.
#ifndef RN_TESTS_VOCAB_TOUCH_H
#define RN_TESTS_VOCAB_TOUCH_H

#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"

static inline void require(bool holds) {
    if (!holds) abort();
}

static inline unsigned touch(struct text_span span) {
    unsigned sum = 0;
    for (size_t i = 0; i < span.len; i++) sum += (unsigned char)span.data[i];
    return sum;
}

static inline bool is_id(const struct vocab_source *source, int32_t id) {
    return id >= 0 && id < source->n_token;
}

static inline unsigned touch_source(const struct vocab_source *s) {
    unsigned sum = 0;
    require(s->name && s->n_token >= 0 && s->n_token <= 1 << 19);
    for (int32_t i = 0; i < s->n_token; i++) {
        sum += touch(s->token[i]);
        require(!s->type || (s->type[i] >= TOKEN_NORMAL && s->type[i] <= TOKEN_BYTE));
        require(!s->score || s->score[i] - s->score[i] == 0);
    }
    require(s->model != VOCAB_SPM_SCORE || s->score);
    for (int32_t i = 0; i < s->n_merge; i++)
        sum += touch(s->merge[i].left) + touch(s->merge[i].right);
    for (int32_t i = 0; i < s->n_normal; i++)
        sum += touch(s->normal[i].from) + touch(s->normal[i].to);
    for (int32_t i = 0; i < s->n_split; i++) sum += touch(s->split[i].pattern);
    for (int32_t i = 0; i < s->n_added; i++) {
        sum += touch(s->added[i].text);
        require(is_id(s, s->added[i].id));
    }
    require(s->bos == -1 || is_id(s, s->bos));
    require(s->eos == -1 || is_id(s, s->eos));
    require(s->unk == -1 || is_id(s, s->unk));
    require((!s->add_bos || s->bos >= 0) && (!s->add_eos || s->eos >= 0));
    for (int32_t i = 0; i < s->n_end; i++) require(is_id(s, s->end[i]));
    return sum;
}

static inline void touch_tokenizer(const struct vocab_source *source) {
    static const char text[] = "Hi  \xc3\xa9\xf0\x9f\x98\x80 <x> 12\n";
    struct tokenizer *tokenizer = NULL;
    struct token_list list = {0};
    rn_error err = {0};
    if (tokenizer_create(source, &tokenizer, &err) != RN_OK) {
        require(!tokenizer && err.message[0]);
        return;
    }
    require(tokenizer_size(tokenizer) == source->n_token);
    const rn_status status = tokenizer_encode(tokenizer, text, sizeof text - 1,
                                              ENCODE_BOS | ENCODE_SPECIAL, &list, &err);
    require(!status == !err.message[0]);
    for (size_t i = 0; i < list.count; i++) {
        require(is_id(source, list.id[i]));
        touch(tokenizer_bytes(tokenizer, list.id[i]));
    }
    token_list_deinit(&list);
    tokenizer_destroy(tokenizer);
}

#endif
