// Folders of packed integers on the CUDA backend: their bits are those of a GGUF file of the same
// blocks, or of a folder of the numbers.
#include "integers_twin.h"

CASE(blocks_are_those_of_a_file) {
    const struct integers_way four = {.kind = KIND_GPTQ, .bits = 4, .group = 32};
    const struct integers_way five = {.kind = KIND_AWQ, .bits = 4, .group = 32, .has_zeros = true};
    integers_check_blocks("qwen3", &four, FORMAT_Q4_0, true);
    integers_check_blocks("qwen3moe", &five, FORMAT_Q5_0, true);
}

CASE(other_matrices_are_their_numbers) {
    const struct integers_way way = {
        .kind = KIND_GPTQ, .bits = 8, .group = 32, .has_zeros = true, .has_order = true};
    integers_check_numbers("qwen3", &way);
}

TEST_PROGRAM(integers) { return cases_run(NULL, NULL); }
