// A model's tokenizer and chat template. The two readers only collect the files' values. This file
// fills the vocabulary up to the model's size and makes the tokenizer, which checks ids, merges and
// strings. Owns the files' images and the arena that the source points into, until the tokenizer
// exists.
#include "load/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "load/vocab_files.h"
#include "unicode/unicode.h"

static rn_status no_memory(const struct vocab_files *files) {
    return err_set(files->err, RN_ERR_NOMEM, "%s: no memory for the vocabulary",
                   weights_name(files->weights));
}

// Unused tokens up to n.
static rn_status source_pad(struct vocab_files *files, int32_t n) {
    struct vocab_source *const source = &files->source;
    const size_t count = (size_t)n, n_old = (size_t)source->n_token;
    struct text_span *token = arena_array(&files->arena, count, sizeof *token);
    int32_t *type = arena_array(&files->arena, count, sizeof *type);
    float *score = source->score ? arena_array(&files->arena, count, sizeof *score) : NULL;
    if (!token || !type || (source->score && !score)) return no_memory(files);
    for (size_t i = 0; i < count; i++) {
        token[i] = i < n_old ? source->token[i] : (struct text_span){"", 0};
        type[i] = i >= n_old ? TOKEN_UNUSED : source->type ? source->type[i] : TOKEN_NORMAL;
        if (score && i < n_old) score[i] = source->score[i];
    }
    source->token = token;
    source->type = type;
    source->score = score;
    source->n_token = n;
    return RN_OK;
}

// Whether the tokens from n on are added ones, named nowhere else: some folders have a token for
// another modality, for which the text model has no row.
static bool can_cut(const struct vocab_source *source, int32_t n) {
    if (!source->type || source->bos >= n || source->eos >= n || source->unk >= n) return false;
    for (int32_t i = 0; i < source->n_end; i++)
        if (source->end[i] >= n) return false;
    for (int32_t i = n; i < source->n_token; i++)
        if (source->type[i] != TOKEN_CONTROL && source->type[i] != TOKEN_USER_DEFINED &&
            source->type[i] != TOKEN_UNUSED)
            return false;
    return true;
}

static rn_status source_cut(struct vocab_files *files, int32_t n) {
    struct vocab_source *const source = &files->source;
    struct vocab_added *added = arena_array(&files->arena, (size_t)source->n_added, sizeof *added);
    if (!added) return no_memory(files);
    int32_t n_added = 0;
    for (int32_t i = 0; i < source->n_added; i++)
        if (source->added[i].id < n) added[n_added++] = source->added[i];
    source->added = added;
    source->n_added = n_added;
    source->n_token = n;
    return RN_OK;
}

static rn_status source_fit(struct vocab_files *files, int32_t n_vocab) {
    if (n_vocab == 0 || n_vocab == files->source.n_token) return RN_OK;
    if (n_vocab > files->source.n_token) return source_pad(files, n_vocab);
    if (weights_folder(files->weights) && can_cut(&files->source, n_vocab))
        return source_cut(files, n_vocab);
    return err_set(files->err, RN_ERR_MODEL,
                   "%s: the vocabulary of %s has %d tokens, but the model has rows for %d",
                   weights_name(files->weights), files->source.name, files->source.n_token,
                   n_vocab);
}

static rn_status template_dup(const struct vocab_files *files, char **out) {
    const struct text_span text = files->chat_template;
    if (!out || !text.data) return RN_OK;
    if (text.len > VOCAB_MAX_TEMPLATE)
        return err_set(files->err, RN_ERR_MODEL,
                       "%s: the chat template has %zu bytes, expected at most %d",
                       weights_name(files->weights), text.len, VOCAB_MAX_TEMPLATE);
    if (memchr(text.data, 0, text.len) || !unicode_is_valid(text.data, text.len))
        return err_set(files->err, RN_ERR_MODEL,
                       "%s: the chat template is not UTF-8, or has a NUL in it",
                       weights_name(files->weights));
    *out = malloc(text.len + 1);
    if (!*out) return no_memory(files);
    memcpy(*out, text.data, text.len);
    (*out)[text.len] = 0;
    return RN_OK;
}

static rn_status load(struct vocab_files *files, int32_t n_vocab, struct tokenizer **out,
                      char **chat_template) {
    const char *const folder = weights_folder(files->weights);
    rn_status s = folder ? vocab_read_folder(files, folder) : vocab_read_gguf(files);
    if (s) return s;
    if ((s = source_fit(files, n_vocab))) return s;
    if (folder && (s = vocab_read_folder_ends(files, folder))) return s;
    if ((s = template_dup(files, chat_template))) return s;
    if ((s = tokenizer_create(&files->source, out, files->err))) {
        err_prefix(files->err, weights_name(files->weights));
        if (chat_template) {
            free(*chat_template);
            *chat_template = NULL;
        }
    }
    return s;
}

rn_status vocab_load(const struct weights *weights, int32_t n_vocab, struct tokenizer **out,
                     char **chat_template, rn_error *err) {
    struct vocab_files files = {.weights = weights, .err = err};
    *out = NULL;
    if (chat_template) *chat_template = NULL;
    const rn_status status = load(&files, n_vocab, out, chat_template);
    for (int i = 0; i < files.n_image; i++) file_image_close(&files.image[i]);
    arena_deinit(&files.arena);
    return status;
}
