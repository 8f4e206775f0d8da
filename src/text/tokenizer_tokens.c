// The strings of a vocabulary: the bytes that each token stands for, by its model and type, and the
// tokens at which a generation ends. The file is not trusted: types and strings are checked here,
// once.
#include <string.h>

#include "base/checked.h"
#include "text/alphabet.h"
#include "text/tokenizer_data.h"
#include "unicode/unicode.h"

// Files write 0 for tokens of no declared type.
static enum token_type type_of(const struct vocab_source *source, int32_t id) {
    if (!source->type || source->type[id] == 0) return TOKEN_NORMAL;
    return (enum token_type)source->type[id];
}

static int hex_of(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

int tokenizer_byte_of(struct text_span text) {
    if (text.len != 6 || memcmp(text.data, "<0x", 3) != 0 || text.data[5] != '>') return -1;
    const int high = hex_of(text.data[3]), low = hex_of(text.data[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

// In a file that merges characters, bytes that are written as such may have the type of others.
static bool is_byte(const struct vocab_source *source, enum token_type type,
                    struct text_span text) {
    if (source->model == VOCAB_BYTE_LEVEL) return false;
    return type == TOKEN_BYTE ||
           (type == TOKEN_NORMAL && source->byte_fallback && tokenizer_byte_of(text) >= 0);
}

// ---------------------------------------------------------------- the bytes of a token

// The bytes that a string in the alphabet stands for; other characters stand for themselves.
static bool alphabet_decode(struct text_span text, char *out, size_t *out_len) {
    *out_len = 0;
    for (size_t at = 0, n; at < text.len; at += n) {
        const int32_t cp = unicode_decode((const uint8_t *)text.data + at, text.len - at, &n);
        if (cp < 0) return false;
        const int byte = alphabet_byte(cp);
        if (byte >= 0) {
            out[(*out_len)++] = (char)byte;
        } else {
            memcpy(out + *out_len, text.data + at, n);
            *out_len += n;
        }
    }
    return true;
}

// U+2581 is a space.
static bool mark_decode(struct text_span text, char *out, size_t *out_len) {
    *out_len = 0;
    for (size_t at = 0, n; at < text.len; at += n) {
        const int32_t cp = unicode_decode((const uint8_t *)text.data + at, text.len - at, &n);
        if (cp < 0) return false;
        if (cp == 0x2581) {
            out[(*out_len)++] = ' ';
        } else {
            memcpy(out + *out_len, text.data + at, n);
            *out_len += n;
        }
    }
    return true;
}

// Writes the bytes that a token stands for, at most as many as its string has.
static rn_status bytes_put(const struct vocab_source *source, int32_t id, enum token_type type,
                           char *out, size_t *len, rn_error *err) {
    const struct text_span token = source->token[id];
    const bool level = source->model == VOCAB_BYTE_LEVEL;
    if (is_byte(source, type, token)) {
        const int byte = tokenizer_byte_of(token);
        if (byte < 0) {
            char quoted[32];
            unicode_quote(token.data, token.len, quoted, sizeof quoted);
            return err_set(err, RN_ERR_MODEL, "tokens[%d] '%s' is a byte and not '<0xNN>'", id,
                           quoted);
        }
        out[0] = (char)byte;
        *len = 1;
        return RN_OK;
    }
    const bool normal = type == TOKEN_NORMAL || type == TOKEN_BYTE;
    const bool written = normal || (!level && type == TOKEN_USER_DEFINED); // not as plain text
    if (!written) {
        if (token.len > 0) memcpy(out, token.data, token.len);
        *len = token.len;
        return RN_OK;
    }
    if (level ? alphabet_decode(token, out, len) : mark_decode(token, out, len)) return RN_OK;
    return err_set(err, RN_ERR_MODEL, "tokens[%d] is not valid UTF-8", id);
}

static rn_status bytes_init(struct tokenizer *tokenizer, const struct vocab_source *source,
                            rn_error *err) {
    const size_t n_token = (size_t)source->n_token;
    uint64_t total = 0;
    for (size_t id = 0; id < n_token; id++) {
        if (!ck_add(total, source->token[id].len, &total) || total > SIZE_MAX)
            return err_set(err, RN_ERR_MODEL, "the vocabulary's strings are too long");
    }
    char *text = arena_alloc(&tokenizer->arena, (size_t)total);
    tokenizer->bytes = arena_array(&tokenizer->arena, n_token, sizeof *tokenizer->bytes);
    if (!text || !tokenizer->bytes)
        return err_set(err, RN_ERR_NOMEM, "out of memory for %zu tokens", n_token);
    for (size_t id = 0; id < n_token; id++) {
        size_t len = 0;
        const rn_status status =
            bytes_put(source, (int32_t)id, (enum token_type)tokenizer->type[id], text, &len, err);
        if (status != RN_OK) return status;
        tokenizer->bytes[id] = (struct text_span){text, len};
        text += len;
    }
    return RN_OK;
}

static rn_status types_init(struct tokenizer *tokenizer, const struct vocab_source *source,
                            rn_error *err) {
    tokenizer->type = arena_array(&tokenizer->arena, (size_t)source->n_token, 1);
    if (!tokenizer->type)
        return err_set(err, RN_ERR_NOMEM, "out of memory for %d tokens", source->n_token);
    for (int32_t id = 0; id < source->n_token; id++) {
        if (source->type && (source->type[id] < 0 || source->type[id] > TOKEN_BYTE))
            return err_set(err, RN_ERR_MODEL, "token_type[%d] is %d; 0 to %d are known", id,
                           source->type[id], TOKEN_BYTE);
        tokenizer->type[id] = (uint8_t)type_of(source, id);
    }
    for (int32_t i = 0; i < source->n_added; i++) {
        const struct vocab_added *const added = &source->added[i];
        if (added->id < 0 || added->id >= source->n_token)
            return err_set(err, RN_ERR_MODEL,
                           "the added token %d is not below the vocabulary's size, %d", added->id,
                           source->n_token);
        if (added->special && tokenizer->type[added->id] != TOKEN_UNKNOWN)
            tokenizer->type[added->id] = TOKEN_CONTROL;
    }
    return RN_OK;
}

// ---------------------------------------------------------------- ordinary tokens

// A user-defined token may be made by merges where its plain text reads the same in the alphabet.
static bool reads_alike(struct text_span text) {
    for (size_t i = 0; i < text.len; i++) {
        const uint8_t byte = (uint8_t)text.data[i];
        if (byte > 126 || alphabet_char(byte) != byte) return false;
    }
    return true;
}

void tokenizer_tokens_ordinary(const struct tokenizer *tokenizer, const struct vocab_source *source,
                               uint8_t *ordinary) {
    const bool level = source->model == VOCAB_BYTE_LEVEL;
    for (int32_t id = 0; id < source->n_token; id++) {
        const enum token_type type = (enum token_type)tokenizer->type[id];
        const bool plain = type == TOKEN_NORMAL || (level && type == TOKEN_BYTE);
        ordinary[id] = (plain && !is_byte(source, type, source->token[id])) ||
                       (type == TOKEN_USER_DEFINED && (!level || reads_alike(source->token[id])));
    }
}

// ---------------------------------------------------------------- ends

// Texts of control and user-defined tokens that end a text, a turn or a message in published
// models.
static const char *const end_texts[] = {
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|eom|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end_of_turn|>",
    "<|endofturn|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|EOT|>",
    "<|eos|>",
    "<|end_of_sentence|>",
    "<|end\u2581of\u2581sentence|>",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<turn|>",
    "<|tool_response>",
    "[|endofturn|]",
    "<seed:eos>",
    "<EOT>",
    "\u2581<EOT>",
    "_<EOT>",
    "<eos>",
    "[EOT]",
    "[EOS]",
    "[e~[",
};

static bool text_is(struct text_span span, const char *text) {
    return span.len == strlen(text) && memcmp(span.data, text, span.len) == 0;
}

static bool ends_by_text(struct text_span token, enum token_type type) {
    if (type != TOKEN_CONTROL && type != TOKEN_USER_DEFINED) return false;
    if (text_is(token, "</s>")) return type == TOKEN_CONTROL; // elsewhere it is a tag of HTML
    for (size_t i = 0; i < sizeof end_texts / sizeof end_texts[0]; i++)
        if (text_is(token, end_texts[i])) return true;
    return false;
}

// Where a vocabulary tells the end of an answer from the end of one of its messages, the latter
// does not end the answer.
static bool has_answer_ends(const struct tokenizer *tokenizer, const struct vocab_source *source) {
    bool returns = false, calls = false;
    for (int32_t id = 0; id < source->n_token; id++) {
        if (!tokenizer->is_end[id]) continue;
        const struct text_span token = source->token[id];
        returns |= text_is(token, "<|return|>") || text_is(token, "<|flush|>");
        calls |= text_is(token, "<|call|>") || text_is(token, "<|calls|>");
    }
    return returns && calls;
}

// The token that ends a turn, by its text, where the files do not name one; -1: there is none.
static int32_t turn_end(const struct tokenizer *tokenizer, const struct vocab_source *source) {
    static const char *const texts[] = {
        "<|im_end|>",    "<|eot_id|>",      "<|eot|>",       "<end_of_turn>",
        "<turn|>",       "<|end_of_turn|>", "<|endofturn|>", "<|END_OF_TURN_TOKEN|>",
        "[|endofturn|]", "<|end|>",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int32_t id = 0; id < source->n_token; id++)
            if (tokenizer->is_end[id] && text_is(source->token[id], texts[i])) return id;
    return -1;
}

static rn_status ends_init(struct tokenizer *tokenizer, const struct vocab_source *source,
                           rn_error *err) {
    tokenizer->is_end = arena_array(&tokenizer->arena, (size_t)source->n_token, sizeof(bool));
    if (!tokenizer->is_end)
        return err_set(err, RN_ERR_NOMEM, "out of memory for %d tokens", source->n_token);
    for (int32_t id = 0; id < source->n_token; id++)
        tokenizer->is_end[id] =
            ends_by_text(source->token[id], (enum token_type)tokenizer->type[id]);
    if (has_answer_ends(tokenizer, source)) {
        for (int32_t id = 0; id < source->n_token; id++)
            if (text_is(source->token[id], "<|end|>")) tokenizer->is_end[id] = false;
    }
    for (int32_t i = 0; i < source->n_end; i++) tokenizer->is_end[source->end[i]] = true;
    if (source->eos >= 0) tokenizer->is_end[source->eos] = true;
    tokenizer->eot = source->eot >= 0 ? source->eot : turn_end(tokenizer, source);
    return RN_OK;
}

rn_status tokenizer_tokens_init(struct tokenizer *tokenizer, const struct vocab_source *source,
                                rn_error *err) {
    rn_status status = types_init(tokenizer, source, err);
    if (status == RN_OK) status = bytes_init(tokenizer, source, err);
    if (status == RN_OK) status = ends_init(tokenizer, source, err);
    return status;
}
