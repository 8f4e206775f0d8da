// Reads a SentencePiece model (tokenizer.model, a protocol buffer) into a vocab_source. The first
// pass finds the number of pieces, the second reads them. Fields that nothing here needs are
// skipped, and every length is checked. Strings are borrowed from the file. Called by
// load/vocab_folder.c.
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "text/vocab_fields.h"

// --- protocol buffers ---

enum wire { WIRE_VARINT = 0, WIRE_8 = 1, WIRE_BYTES = 2, WIRE_4 = 5 };

struct message {
    const uint8_t *at, *end;
};

struct field {
    uint32_t number;
    enum wire wire;
    uint64_t value; // varint, or the bits of a fixed one
    struct message bytes;
};

struct spm_reader {
    const uint8_t *begin;
    struct vocab_file file;
    struct vocab_source *out;
    struct text_span *token;
    int32_t *type;
    float *score;
    int32_t n_token, n_added;
    // of the trainer and of the normalizer
    int64_t model_type, bos, eos;
    bool has_bos, has_eos, space_is_suffix;
    bool add_prefix, remove_extra, escape;
    struct text_span normalizer;
    bool has_map;
};

static rn_status bad_file(const struct spm_reader *c, const uint8_t *at, const char *what) {
    return err_set(c->file.err, RN_ERR_MODEL, "%s: offset %zu: %s", c->file.name,
                   (size_t)(at - c->begin), what);
}

static bool varint_next(struct message *m, uint64_t *out) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (m->at == m->end) return false;
        const uint8_t byte = *m->at++;
        if (shift == 63 && byte > 1) return false;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool fixed_next(struct message *m, size_t n, uint64_t *out) {
    if ((size_t)(m->end - m->at) < n) return false;
    *out = 0;
    for (size_t i = 0; i < n; i++) *out |= (uint64_t)m->at[i] << (8 * i);
    m->at += n;
    return true;
}

static bool value_next(struct message *m, struct field *out) {
    switch (out->wire) {
    case WIRE_VARINT:
        return varint_next(m, &out->value);
    case WIRE_8:
        return fixed_next(m, 8, &out->value);
    case WIRE_4:
        return fixed_next(m, 4, &out->value);
    case WIRE_BYTES:
        if (!varint_next(m, &out->value) || out->value > (size_t)(m->end - m->at)) return false;
        out->bytes = (struct message){m->at, m->at + out->value};
        m->at += out->value;
        return true;
    }
    return false; // groups, and numbers that are no wire type
}

// The next field; *has_field is false at the end of the message.
static rn_status field_next(const struct spm_reader *c, struct message *m, struct field *out,
                            bool *has_field) {
    const uint8_t *const first = m->at;
    uint64_t tag;
    *has_field = m->at < m->end;
    if (!*has_field) return RN_OK;
    if (!varint_next(m, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
        return bad_file(c, first, "no field of a SentencePiece model");
    *out = (struct field){.number = (uint32_t)(tag >> 3), .wire = (enum wire)(tag & 7)};
    if (!value_next(m, out))
        return bad_file(c, first, "a field that is damaged or runs past its end");
    return RN_OK;
}

static rn_status check_wire(const struct spm_reader *c, const struct message *m,
                            const struct field *field, enum wire wire) {
    return field->wire == wire ? RN_OK
                               : bad_file(c, m->at, "the field before here is of another type");
}

static rn_status take_bytes(const struct spm_reader *c, const struct message *m,
                            const struct field *field, struct text_span *out) {
    const rn_status s = check_wire(c, m, field, WIRE_BYTES);
    if (s) return s;
    *out = (struct text_span){(const char *)field->bytes.at,
                              (size_t)(field->bytes.end - field->bytes.at)};
    return RN_OK;
}

static rn_status take_i64(const struct spm_reader *c, const struct message *m,
                          const struct field *field, int64_t *out) {
    const rn_status s = check_wire(c, m, field, WIRE_VARINT);
    if (!s) *out = (int64_t)field->value;
    return s;
}

static rn_status take_bool(const struct spm_reader *c, const struct message *m,
                           const struct field *field, bool *out) {
    const rn_status s = check_wire(c, m, field, WIRE_VARINT);
    if (!s) *out = field->value != 0;
    return s;
}

// --- the messages ---

// SentencePiece numbers its types as GGUF does.
_Static_assert(TOKEN_NORMAL == 1 && TOKEN_UNKNOWN == 2 && TOKEN_CONTROL == 3 &&
                   TOKEN_USER_DEFINED == 4 && TOKEN_UNUSED == 5 && TOKEN_BYTE == 6,
               "types of pieces");

static rn_status piece_read(struct spm_reader *c, struct message m, int32_t index) {
    struct field field;
    bool has_field;
    struct text_span text = {"", 0};
    int64_t type = TOKEN_NORMAL;
    float score = 0;
    rn_status s;
    const uint8_t *const first = m.at;
    while (!(s = field_next(c, &m, &field, &has_field)) && has_field) {
        if (field.number == 1) s = take_bytes(c, &m, &field, &text);
        if (field.number == 2 && !(s = check_wire(c, &m, &field, WIRE_4)))
            score = f32_from_bits((uint32_t)field.value);
        if (field.number == 3) s = take_i64(c, &m, &field, &type);
        if (s) return s;
    }
    if (s) return s;
    if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
        return bad_file(c, first, "a piece of a type that is not 1 to 6");
    if (!isfinite(score)) return bad_file(c, first, "a piece whose score is not finite");
    c->token[index] = text;
    c->type[index] = (int32_t)type;
    c->score[index] = score;
    if (type == TOKEN_UNKNOWN && c->out->unk < 0) c->out->unk = index;
    if (type == TOKEN_USER_DEFINED) c->n_added++;
    return RN_OK;
}

static rn_status trainer_read(struct spm_reader *c, struct message m) {
    enum { MODEL_TYPE = 3, SPACE_IS_SUFFIX = 24, BYTE_FALLBACK = 35, BOS_ID = 41, EOS_ID = 42 };
    struct field field;
    bool has_field;
    rn_status s;
    while (!(s = field_next(c, &m, &field, &has_field)) && has_field) {
        switch (field.number) {
        case MODEL_TYPE:
            s = take_i64(c, &m, &field, &c->model_type);
            break;
        case SPACE_IS_SUFFIX:
            s = take_bool(c, &m, &field, &c->space_is_suffix);
            break;
        case BYTE_FALLBACK:
            s = take_bool(c, &m, &field, &c->out->byte_fallback);
            break;
        case BOS_ID:
            s = take_i64(c, &m, &field, &c->bos);
            c->has_bos = true;
            break;
        case EOS_ID:
            s = take_i64(c, &m, &field, &c->eos);
            c->has_eos = true;
            break;
        default:
            break;
        }
        if (s) return s;
    }
    return s;
}

static rn_status normalizer_read(struct spm_reader *c, struct message m) {
    enum { NAME = 1, MAP = 2, ADD_PREFIX = 3, REMOVE_EXTRA = 4, ESCAPE = 5 };
    struct field field;
    struct text_span map = {0};
    bool has_field;
    rn_status s;
    while (!(s = field_next(c, &m, &field, &has_field)) && has_field) {
        if (field.number == NAME) s = take_bytes(c, &m, &field, &c->normalizer);
        if (field.number == MAP) s = take_bytes(c, &m, &field, &map);
        if (field.number == ADD_PREFIX) s = take_bool(c, &m, &field, &c->add_prefix);
        if (field.number == REMOVE_EXTRA) s = take_bool(c, &m, &field, &c->remove_extra);
        if (field.number == ESCAPE) s = take_bool(c, &m, &field, &c->escape);
        if (s) return s;
    }
    if (map.len) c->has_map = true;
    return s;
}

enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };

static rn_status pieces_count(struct spm_reader *c, struct message m) {
    struct field field;
    bool has_field;
    rn_status s;
    while (!(s = field_next(c, &m, &field, &has_field)) && has_field) {
        if (field.number != MODEL_PIECE) continue;
        if (++c->n_token > VOCAB_MAX_TOKENS) return bad_file(c, m.at, "more than 524288 pieces");
    }
    if (!s && !c->n_token) return bad_file(c, c->begin, "no SentencePiece model: it has no pieces");
    return s;
}

static rn_status model_read(struct spm_reader *c, struct message m) {
    struct field field;
    bool has_field;
    int32_t index = 0;
    rn_status s;
    while (!(s = field_next(c, &m, &field, &has_field)) && has_field) {
        if (field.number < MODEL_PIECE || field.number > MODEL_NORMALIZER) continue;
        if ((s = check_wire(c, &m, &field, WIRE_BYTES))) return s;
        if (field.number == MODEL_PIECE) s = piece_read(c, field.bytes, index++);
        if (field.number == MODEL_TRAINER) s = trainer_read(c, field.bytes);
        if (field.number == MODEL_NORMALIZER) s = normalizer_read(c, field.bytes);
        if (s) return s;
    }
    return s;
}

// --- from the messages to a vocabulary ---

static rn_status check_model(const struct spm_reader *c) {
    static const char *const names[] = {"", "unigram", "BPE", "word", "char"};
    if (c->model_type == 2) return RN_OK;
    const char *const name = c->model_type > 0 && c->model_type < 5 ? names[c->model_type] : "";
    return err_set(c->file.err, RN_ERR_UNSUPPORTED,
                   "%s: a SentencePiece model of type %lld%s%s is not supported, only BPE",
                   c->file.name, (long long)c->model_type, *name ? ", " : "", name);
}

// -1 is "none"; the default applies where the vocabulary has it.
static rn_status id_take(const struct spm_reader *c, const char *name, int64_t id, bool is_said,
                         int32_t *out) {
    *out = -1;
    if (id == -1 || (!is_said && id >= c->n_token)) return RN_OK;
    if (id < 0 || id >= c->n_token)
        return err_set(c->file.err, RN_ERR_MODEL, "%s: %s is %lld, expected -1 to %d", c->file.name,
                       name, (long long)id, c->n_token - 1);
    *out = (int32_t)id;
    return RN_OK;
}

static struct text_span span_of(const char *text) { return (struct text_span){text, strlen(text)}; }

// User-defined pieces are sought in the normalized text, with U+2581 for spaces; as tokens they are
// plain text.
static rn_status added_put(struct spm_reader *c) {
    struct vocab_added *const added = arena_array(c->file.arena, (size_t)c->n_added, sizeof *added);
    if (!added) return vocab_no_memory(&c->file);
    int32_t n = 0;
    for (int32_t i = 0; i < c->n_token; i++) {
        if (c->type[i] != TOKEN_USER_DEFINED) continue;
        added[n++] = (struct vocab_added){.id = i, .text = c->token[i], .normalized = true};
        const rn_status s = vocab_span_unmark(&c->file, &c->token[i]);
        if (s) return s;
    }
    c->out->added = added;
    c->out->n_added = n;
    return RN_OK;
}

// In SentencePiece's order: the map, blanks, the prefix, U+2581.
static rn_status steps_put(struct spm_reader *c) {
    struct vocab_normal *const step = arena_array(c->file.arena, 8, sizeof *step);
    if (!step) return vocab_no_memory(&c->file);
    int32_t n = 0;
    if (c->has_map)
        step[n++] =
            (struct vocab_normal){.kind = NORMAL_UNSUPPORTED,
                                  .from = c->normalizer.len ? c->normalizer
                                                            : span_of("precompiled_charsmap")};
    if (c->space_is_suffix)
        step[n++] = (struct vocab_normal){.kind = NORMAL_UNSUPPORTED,
                                          .from = span_of("treat_whitespace_as_suffix")};
    if (c->remove_extra) {
        step[n++] =
            (struct vocab_normal){NORMAL_REPLACE_REGEX, span_of("\\A +| +\\z"), span_of("")};
        step[n++] = (struct vocab_normal){NORMAL_REPLACE_REGEX, span_of(" {2,}"), span_of(" ")};
    }
    const struct text_span space = span_of(" "), marker = span_of(VOCAB_MARKER);
    if (c->add_prefix)
        step[n++] = (struct vocab_normal){NORMAL_PREPEND, .to = c->escape ? marker : space};
    if (c->escape) step[n++] = (struct vocab_normal){NORMAL_REPLACE, .from = space, .to = marker};
    c->out->normal = step;
    c->out->n_normal = n;
    c->out->strip_space = c->add_prefix;
    return RN_OK;
}

static rn_status reader_run(struct spm_reader *c, struct message file) {
    rn_status s = pieces_count(c, file);
    if (s) return s;
    c->token = arena_array(c->file.arena, (size_t)c->n_token, sizeof *c->token);
    c->type = arena_array(c->file.arena, (size_t)c->n_token, sizeof *c->type);
    c->score = arena_array(c->file.arena, (size_t)c->n_token, sizeof *c->score);
    if (!c->token || !c->type || !c->score) return vocab_no_memory(&c->file);
    if ((s = model_read(c, file))) return s;
    if ((s = check_model(c))) return s;
    if ((s = id_take(c, "bos_id", c->bos, c->has_bos, &c->out->bos))) return s;
    if ((s = id_take(c, "eos_id", c->eos, c->has_eos, &c->out->eos))) return s;
    c->out->add_bos = c->out->bos >= 0;
    c->out->token = c->token;
    c->out->type = c->type;
    c->out->score = c->score;
    c->out->n_token = c->n_token;
    if ((s = added_put(c))) return s;
    return steps_put(c);
}

rn_status vocab_spm_read(const void *data, size_t len, struct arena *arena,
                         struct vocab_source *out, rn_error *err) {
    *out = (struct vocab_source){.name = "tokenizer.model",
                                 .model = VOCAB_SPM_SCORE,
                                 .bos = -1,
                                 .eos = -1,
                                 .unk = -1,
                                 .eot = -1,
                                 .pad = -1,
                                 .fuse_unk = true};
    struct spm_reader c = {
        .begin = data,
        .file = {out->name, arena, err},
        .out = out,
        .model_type = 1, // the defaults of the format
        .bos = 1,
        .eos = 2,
        .add_prefix = true,
        .remove_extra = true,
        .escape = true,
    };
    return reader_run(&c, (struct message){c.begin, c.begin + len});
}
