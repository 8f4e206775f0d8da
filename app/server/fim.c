// The order is that of the models' papers: prefix, suffix, then the middle that the model writes.
// The texts are taken as text: marks that they spell out stay letters.
#include "fim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"

// The marks of a family of models, for files that do not name them by id. Without a middle the
// suffix comes first, and the prefix is what the model continues.
static const struct {
    const char *prefix, *suffix, *middle;
} families[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},    // Qwen, CodeGemma
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},          // StarCoder, Granite
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},          // SantaCoder
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},    // DeepSeek
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"}, // GLM
    {"▁<PRE>", "▁<SUF>", "▁<MID>"},                            // CodeLlama
    {"<PRE>", "<SUF>", "<MID>"},                               // its conversions
    {"<|prefix|>", "<|suffix|>", "<|middle|>"},                // Falcon-H1 for code
    {"[PREFIX]", "[SUFFIX]", NULL},                            // Codestral
};
static const char *const repositories[] = {"<|repo_name|>", "<repo_name>", "<reponame>"};
static const char *const separators[] = {"<|file_sep|>", "<file_sep>", "<filename>"};
// Marks behind which another file or text would start.
static const char *const ends[] = {"<|endoftext|>", "<|fim_pad|>", "<fim_pad>",
                                   "<|repo_name|>", "<repo_name>", "<|file_sep|>",
                                   "<file_sep>",    "<|cursor|>",  "▁<EOT>"};
static const rn_fim named_ends[] = {RN_FIM_PAD, RN_FIM_REPOSITORY, RN_FIM_FILE};

// The id of a mark; -1: the vocabulary has none.
static int32_t mark_find(const rn_model *model, const char *text) {
    int32_t *ids = NULL, id = -1;
    size_t n = 0;
    if (!text || rn_tokenize(model, text, strlen(text), RN_TOKENIZE_SPECIAL, &ids, &n, NULL))
        return -1;
    if (n == 1) id = ids[0];
    rn_free(ids);
    return id;
}

// The id that the model's file names for the part, else the id of the first text that is a token.
static int32_t part_find(const rn_model *model, rn_fim part, const char *const *texts, size_t n) {
    int32_t id = rn_token_fim(model, part);
    for (size_t i = 0; id < 0 && i < n; i++) id = mark_find(model, texts[i]);
    return id;
}

struct marks {
    int32_t prefix, suffix, middle; // -1: the family has no middle
};

static bool marks_find(const rn_model *model, struct marks *out) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        *out = (struct marks){part_find(model, RN_FIM_PREFIX, &families[i].prefix, 1),
                              part_find(model, RN_FIM_SUFFIX, &families[i].suffix, 1),
                              part_find(model, RN_FIM_MIDDLE, &families[i].middle, 1)};
        if (out->prefix >= 0 && out->suffix >= 0 && (!families[i].middle || out->middle >= 0))
            return true;
    }
    return false;
}

// ---------------------------------------------------------------- the prompt

struct ids {
    struct call *call;
    const char *field;
    int32_t *id;
    size_t n;
};

static bool ids_append(struct ids *ids, const int32_t *more, size_t n) {
    int32_t *grown = realloc(ids->id, (ids->n + n + 1) * sizeof *grown);
    if (!grown) return call_refuse_memory(ids->call);
    ids->id = grown;
    if (n > 0) memcpy(grown + ids->n, more, n * sizeof *more);
    ids->n += n;
    return true;
}

static bool text_add(struct ids *ids, struct fim_text text, int flags) {
    int32_t *more = NULL;
    size_t n = 0;
    rn_error err = {0};
    if (rn_tokenize(ids->call->served->model, text.data ? text.data : "", text.len, flags, &more,
                    &n, &err))
        return call_refuse_error(ids->call, ids->field, &err);
    const bool ok = ids_append(ids, more, n);
    rn_free(more);
    return ok;
}

static bool mark_add(struct ids *ids, int32_t mark) {
    return mark < 0 || ids_append(ids, &mark, 1);
}

static bool words_add(struct ids *ids, const char *words) {
    return text_add(ids, (struct fim_text){words, strlen(words)}, 0);
}

static bool member_add(struct ids *ids, const json_t *object, const char *name, size_t index) {
    const json_t *value = json_object_get(object, name);
    if (!value && !strcmp(name, "filename")) return words_add(ids, "file");
    if (!json_is_string(value)) {
        char path[64];
        snprintf(path, sizeof path, "input_extra[%zu].%s", index, name);
        return call_refuse(ids->call, 400, path, "invalid_type", "%s: expected a string", path);
    }
    return text_add(ids, (struct fim_text){json_string_value(value), json_string_length(value)}, 0);
}

// Other files of the project, before the one at hand.
static bool extra_add(struct ids *ids, const json_t *extra) {
    const rn_model *model = ids->call->served->model;
    const int32_t repository = part_find(model, RN_FIM_REPOSITORY, repositories,
                                         sizeof repositories / sizeof *repositories);
    const int32_t separator =
        part_find(model, RN_FIM_FILE, separators, sizeof separators / sizeof *separators);
    if (!json_array_size(extra)) return true;
    bool ok = repository < 0 || (mark_add(ids, repository) && words_add(ids, "project\n"));
    for (size_t i = 0; ok && i < json_array_size(extra); i++) {
        const json_t *file = json_array_get(extra, i);
        ok = mark_add(ids, separator) && member_add(ids, file, "filename", i) &&
             words_add(ids, "\n") && member_add(ids, file, "text", i) && words_add(ids, "\n");
    }
    return ok && mark_add(ids, separator);
}

static bool parts_add(struct ids *ids, const struct marks *marks, const struct fim *fim) {
    if (marks->middle < 0)
        return mark_add(ids, marks->suffix) && text_add(ids, fim->suffix, 0) &&
               mark_add(ids, marks->prefix) && text_add(ids, fim->prefix, 0);
    return mark_add(ids, marks->prefix) && text_add(ids, fim->prefix, 0) &&
           mark_add(ids, marks->suffix) && text_add(ids, fim->suffix, 0) &&
           mark_add(ids, marks->middle);
}

static void end_add(struct params *params, int32_t id) {
    bool is_known = id < 0;
    for (size_t k = 0; k < params->n_stop_token; k++) is_known |= params->stop_token[k] == id;
    if (!is_known && params->n_stop_token < RN_MAX_STOP_TOKENS)
        params->stop_token[params->n_stop_token++] = id;
}

static void ends_add(const rn_model *model, struct params *params) {
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        end_add(params, mark_find(model, ends[i]));
    for (size_t i = 0; i < sizeof named_ends / sizeof *named_ends; i++)
        end_add(params, rn_token_fim(model, named_ends[i]));
}

bool fim_add(struct call *call, struct generation *generation, const struct fim *fim,
             const char *field) {
    const rn_model *model = call->served->model;
    struct marks marks;
    struct ids ids = {.call = call, .field = field};
    if (!marks_find(model, &marks))
        return call_refuse(call, 400, field, "unsupported_parameter",
                           "%s: the model's vocabulary has no marks for a text between two others; "
                           "code models such as Qwen Coder, StarCoder and DeepSeek Coder have them",
                           field);
    if (!text_add(&ids, (struct fim_text){0}, RN_TOKENIZE_BOS) || !extra_add(&ids, fim->extra) ||
        !parts_add(&ids, &marks, fim) || !text_add(&ids, fim->start, 0)) {
        free(ids.id);
        return false;
    }
    ends_add(model, &generation->params);
    return generation_add(call, generation, ids.id, ids.n);
}
