// Folders in 8-bit floats: the reference models with their matrices as codes and scales give the
// same bits as folders that have the products of both in BF16. So do experts, one by one and fused,
// and the matrices of a latent, which are cut at open.
#include "fp8_folder.h"

CASE(codes_and_scales_are_their_products_in_bf16) {
    static const char *const names[] = {
        "qwen3",
        "deepseek_v3", // a latent, and experts one by one
        "minimax_m2",
        "qwen3_5_moe", // fused experts
        "glm4_moe",
        "llama4",     // fused experts that are transposed at open
        "granitemoe", // fused experts under a name that tells the order
        "phi3",       // products with rows of one tensor
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) fp8_check_model(names[i], 30);
}

TEST_PROGRAM(fp8) { return cases_run(NULL, NULL); }
