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

CASE(a_machine_without_kernels_is_told_so) {
    struct data_folder folder[2];
    rn_model *model;
    rn_engine *engine;
    rn_error err = {0};
    fp8_folders_make("qwen3", folder);
    check(rn_model_open(folder[0].path, &model, &err) == RN_OK, "%s", err.message);
    assert_int_equal(rn_engine_create(model, &(rn_engine_options){.isa = "scalar"}, &engine, &err),
                     RN_ERR_UNSUPPORTED);
    check(strstr(err.message, "a quantized folder needs the kernels of AVX2"), "%s", err.message);
    rn_model_close(model);
    for (int i = 0; i < 2; i++) data_folder_remove(&folder[i]);
}

TEST_PROGRAM(fp8) { return cases_run(NULL, NULL); }
