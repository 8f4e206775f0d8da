// See synthetic_mixes.h.
#include "weights/synthetic_mixes.h"

#include <strings.h>

static const struct mix mixes[] = {
    {.name = "Q2_K_S",
     .base = FORMAT_Q2_K,
     .head = {EVERYWHERE, FORMAT_Q6_K},
     .attn_v = {{GROUPED, FORMAT_Q4_K}},
     .ffn_down = {{FIRST_8TH, FORMAT_Q4_K}}},
    {.name = "Q3_K_S", .base = FORMAT_Q3_K, .head = {EVERYWHERE, FORMAT_Q6_K}},
    {.name = "Q3_K_M",
     .base = FORMAT_Q3_K,
     .head = {EVERYWHERE, FORMAT_Q6_K},
     .attn_v = {{FIRST_2, FORMAT_Q5_K}, {EVERYWHERE, FORMAT_Q4_K}},
     .attn_output = {EVERYWHERE, FORMAT_Q4_K},
     .ffn_down = {{FIRST_16TH, FORMAT_Q5_K}, {EVERYWHERE, FORMAT_Q4_K}}},
    {.name = "Q3_K_L",
     .base = FORMAT_Q3_K,
     .head = {EVERYWHERE, FORMAT_Q6_K},
     .attn_v = {{EVERYWHERE, FORMAT_Q5_K}},
     .attn_output = {EVERYWHERE, FORMAT_Q5_K},
     .ffn_down = {{EVERYWHERE, FORMAT_Q5_K}}},
    {.name = "Q4_K_S",
     .base = FORMAT_Q4_K,
     .head = {EVERYWHERE, FORMAT_Q6_K},
     .attn_v = {{FIRST_4, FORMAT_Q5_K}},
     .ffn_down = {{FIRST_8TH, FORMAT_Q5_K}}},
    {.name = "Q4_K_M",
     .base = FORMAT_Q4_K,
     .head = {EVERYWHERE, FORMAT_Q6_K},
     .attn_v = {{HALF, FORMAT_Q6_K}},
     .ffn_down = {{HALF, FORMAT_Q6_K}}},
    {.name = "Q5_K_S", .base = FORMAT_Q5_K, .head = {EVERYWHERE, FORMAT_Q6_K}},
    {.name = "Q5_K_M",
     .base = FORMAT_Q5_K,
     .head = {EVERYWHERE, FORMAT_Q6_K},
     .attn_v = {{HALF, FORMAT_Q6_K}},
     .ffn_down = {{HALF, FORMAT_Q6_K}}},
    {.name = "MXFP4_MOE", .base = FORMAT_Q8_0, .experts = {EVERYWHERE, FORMAT_MXFP4}},
};
enum { N_MIXES = sizeof mixes / sizeof *mixes };

const char *mix_name_at(int index) { return index < N_MIXES ? mixes[index].name : NULL; }

static bool rule_applies(enum where where, const struct spot *spot) {
    const int n = spot->n_layer, layer = spot->layer;
    switch (where) {
    case EVERYWHERE:
        return true;
    case FIRST_2:
        return layer < 2;
    case FIRST_4:
        return layer < 4;
    case FIRST_16TH:
        return layer < n / 16;
    case FIRST_8TH:
        return layer < n / 8;
    case HALF:
        return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
    case GROUPED:
        return spot->queries >= 4;
    default:
        return false;
    }
}

enum format_id rules_choose(enum format_id base, const struct rule *rules, int n_rules,
                            const struct spot *spot) {
    enum format_id format = base;
    for (int i = n_rules - 1; i >= 0; i--)
        if (rule_applies(rules[i].where, spot)) format = rules[i].format;
    return format;
}

enum format_id format_fit(enum format_id format, int64_t cols) {
    if (cols % format_at(format)->block == 0) return format;
    if (cols % format_at(FORMAT_Q8_0)->block != 0) return FORMAT_F16;
    switch (format) {
    case FORMAT_Q4_K:
        return FORMAT_Q5_0;
    case FORMAT_Q5_K:
        return FORMAT_Q5_1;
    case FORMAT_Q6_K:
        return FORMAT_Q8_0;
    default:
        return FORMAT_IQ4_NL;
    }
}

bool mix_find(const char *name, struct mix *out) {
    for (int i = 0; i < FORMAT_COUNT; i++) {
        const char *known = format_at((enum format_id)i)->name;
        *out = (struct mix){.name = known, .base = (enum format_id)i};
        if (strcasecmp(name, known) == 0) return true;
    }
    for (int i = 0; i < N_MIXES; i++) {
        *out = mixes[i];
        if (strcasecmp(name, mixes[i].name) == 0) return true;
    }
    return false;
}
