// Folders in 8-bit floats on the CUDA backend: their bits are those of folders in BF16.
#include "fp8_folder.h"

CASE(codes_and_scales_are_their_products_in_bf16) {
    fp8_check_model("qwen3", 4);
    fp8_check_model("qwen3moe", 2);
}

TEST_PROGRAM(fp8) { return cases_run(NULL, NULL); }
