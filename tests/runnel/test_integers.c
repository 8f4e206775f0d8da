// Folders of packed integers: a reference model in blocks gives the same bits as a GGUF file of
// these blocks, in numbers the same as a folder that has the numbers.
#include "integers_twin.h"

CASE(blocks_are_those_of_a_file) {
    static const struct {
        struct integers_way way;
        enum format_id format;
    } ways[] = {
        {{.kind = KIND_GPTQ, .bits = 4, .group = 32}, FORMAT_Q4_0},
        {{.kind = KIND_AWQ, .bits = 4, .group = 32, .has_zeros = true}, FORMAT_Q5_0},
        {{.kind = KIND_PACKED, .bits = 4, .group = 32, .is_bf16 = true}, FORMAT_Q4_0},
        {{.kind = KIND_GPTQ, .bits = 8}, FORMAT_Q8_0},
        {{.kind = KIND_BYTES, .bits = 8, .is_bf16 = true}, FORMAT_Q8_0},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        integers_check_blocks("qwen3", &ways[i].way, ways[i].format, true);
        integers_check_blocks("qwen3moe", &ways[i].way, ways[i].format, true);
    }
}

// Families that publish such folders: each opens and is near its numbers.
CASE(families_run_in_blocks) {
    static const char *const names[] = {
        "llama",       "llama3-rope", "mistral",  "mixtral", "qwen2",        "qwen2_moe",
        "gemma2",      "gemma3",      "phi3",     "glm4",    "glm4_moe",     "deepseek_v2",
        "deepseek_v3", "minimax_m2",  "seed_oss", "olmoe",   "ernie4_5_moe",
    };
    const struct integers_way way = {.kind = KIND_GPTQ, .bits = 8};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        integers_check_blocks(names[i], &way, FORMAT_Q8_0, false);
}

CASE(other_matrices_are_their_numbers) {
    static const struct integers_way order = {
        .kind = KIND_GPTQ, .bits = 4, .group = 32, .has_zeros = true, .has_order = true};
    static const struct integers_way ways[] = {
        {.kind = KIND_GPTQ, .bits = 8, .group = 32, .has_zeros = true, .has_order = true},
        {.kind = KIND_PACKED, .bits = 8, .group = 32, .has_zeros = true, .is_bf16 = true},
    };
    integers_check_numbers("qwen3", &order); // each matrix has two groups at least
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        integers_check_numbers("qwen3moe", &ways[i]);
        integers_check_numbers("deepseek_v3", &ways[i]); // a latent, which is cut at open
        integers_check_numbers("phi3", &ways[i]);        // products with rows of one tensor
    }
}

TEST_PROGRAM(integers) { return cases_run(NULL, NULL); }
