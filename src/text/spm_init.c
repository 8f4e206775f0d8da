// Builds the tables of an spm: single characters, joined bytes, and the order of scores.
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/spm.h"
#include "unicode/unicode.h"

enum { PAGES = 0x1100 };

// The character that a token consists of, or -1.
static int32_t only_character(struct text_span text) {
    if (text.len == 0 || text.len > 4) return -1;
    size_t n;
    const int32_t cp = unicode_decode((const uint8_t *)text.data, text.len, &n);
    return n == text.len ? cp : -1;
}

static rn_status singles_init(struct spm *spm, const struct vocab_source *source,
                              const uint8_t *ordinary, struct arena *arena, rn_error *err) {
    spm->page = arena_array(arena, PAGES, sizeof *spm->page);
    if (!spm->page) return err_set(err, RN_ERR_NOMEM, "out of memory for characters");
    uint16_t n_page = 1;
    for (int32_t id = 0; id < source->n_token; id++) {
        const int32_t cp = ordinary[id] ? only_character(source->token[id]) : -1;
        if (cp >= 0 && spm->page[cp >> 8] == 0) spm->page[cp >> 8] = n_page++;
    }
    spm->single = arena_array(arena, n_page, sizeof *spm->single);
    if (!spm->single) return err_set(err, RN_ERR_NOMEM, "out of memory for characters");
    memset(spm->single, 0xFF, n_page * sizeof *spm->single); // -1
    for (int32_t id = 0; id < source->n_token; id++) {
        const int32_t cp = ordinary[id] ? only_character(source->token[id]) : -1;
        if (cp < 0) continue;
        int32_t *const single = &spm->single[spm->page[cp >> 8]][cp & 0xFF];
        if (*single < 0) *single = id;
    }
    return RN_OK;
}

static void joined_init(struct spm *spm, const struct vocab_source *source,
                        const uint8_t *ordinary) {
    for (int32_t id = 0; id < source->n_token; id++) {
        const struct text_span text = source->token[id];
        for (size_t at = 1; ordinary[id] && at < text.len; at++) {
            const uint8_t byte = (uint8_t)text.data[at];
            spm->joined[(uint8_t)text.data[at - 1]][byte / 8] |= (uint8_t)(1u << byte % 8);
        }
    }
}

// Scores as numbers that order the other way round: the best is the least.
static uint32_t rank_of(float score) {
    const float value = score + 0.0f; // -0 is 0
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t rising = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return ~rising;
}

static rn_status ranks_init(struct spm *spm, const struct vocab_source *source,
                            const uint8_t *ordinary, struct arena *arena, rn_error *err) {
    enum { LONGEST = 1 << 16 };
    if (!source->score) return err_set(err, RN_ERR_MODEL, "the vocabulary has no scores");
    spm->rank = arena_array(arena, (size_t)source->n_token, sizeof *spm->rank);
    if (!spm->rank) return err_set(err, RN_ERR_NOMEM, "out of memory for scores");
    for (int32_t id = 0; id < source->n_token; id++) {
        if (isnan(source->score[id]))
            return err_set(err, RN_ERR_MODEL, "the score of token %d is not a number", id);
        spm->rank[id] = rank_of(source->score[id]);
        if (!ordinary[id]) continue;
        if (source->token[id].len > LONGEST)
            return err_set(err, RN_ERR_MODEL, "token %d has %zu bytes, expected at most %d", id,
                           source->token[id].len, LONGEST);
        if (source->token[id].len > spm->longest) spm->longest = source->token[id].len;
    }
    spm->power = arena_array(arena, spm->longest + 1, sizeof *spm->power);
    if (!spm->power) return err_set(err, RN_ERR_NOMEM, "out of memory for scores");
    spm->power[0] = 1;
    for (size_t i = 1; i <= spm->longest; i++)
        spm->power[i] = token_map_multiply(spm->power[i - 1], spm->map->base);
    return RN_OK;
}

rn_status spm_init(struct spm *spm, const struct vocab_source *source, const struct token_map *map,
                   const uint8_t *ordinary, struct arena *arena, rn_error *err) {
    spm->map = map;
    const rn_status status = singles_init(spm, source, ordinary, arena, err);
    if (status != RN_OK) return status;
    joined_init(spm, source, ordinary);
    if (source->model != VOCAB_SPM_SCORE) return RN_OK;
    return ranks_init(spm, source, ordinary, arena, err);
}
