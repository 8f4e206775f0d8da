// Mixes of weight formats, as files of published models have them. Read by synthetic.c and
// synthetic_tensors.c.
#ifndef RN_WEIGHTS_SYNTHETIC_MIXES_H
#define RN_WEIGHTS_SYNTHETIC_MIXES_H

#include <stdbool.h>

#include "quant/format.h"

// Which layers of a model a rule of a mix is for.
enum where {
    NOWHERE,
    EVERYWHERE,
    FIRST_2,
    FIRST_4,
    FIRST_16TH, // of the layers
    FIRST_8TH,
    HALF,    // the first and the last eighth, and every third between them
    GROUPED, // everywhere, where 4 query heads and more share a KV head
};

struct rule {
    enum where where;
    enum format_id format;
};
enum { MAX_RULES = 2 };

// A mix is a format for most matrices, and rules for the matrices that lose most by few bits; the
// first rule that fits applies. These are llama.cpp's mixes, without its exceptions for single
// models (8 experts, 70B).
struct mix {
    const char *name;
    enum format_id base;
    struct rule head; // a tied one is the embedding
    struct rule attn_v[MAX_RULES], attn_output, ffn_down[MAX_RULES];
    struct rule experts;
};

// A format's own name is a mix without rules: every matrix has it.
bool mix_find(const char *name, struct mix *out);
const char *mix_name_at(int index); // NULL: no more

// Where a matrix is: its layer, -1 outside of them, and the facts of the model that rules ask for.
struct spot {
    int layer, n_layer;
    int queries; // heads that share a KV head
};

// The format of the first rule that applies, or the base.
enum format_id rules_choose(enum format_id base, const struct rule *rules, int n_rules,
                            const struct spot *spot);
// What llama.cpp takes for rows that are not whole blocks of the format.
enum format_id format_fit(enum format_id format, int64_t cols);

#endif
