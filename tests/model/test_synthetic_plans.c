// Every architecture can bind its synthetic shapes: all tensors are used, and the plan's numbers
// are the shape's.
#include "check.h"
#include "model/model.h"
#include "weights/synthetic.h"

CASE(every_shape_becomes_a_plan) {
    static const struct {
        const char *spec;
        int n_layer, n_vocab, n_head_kv;
    } cases[] = {
        {"135m:Q4_K_M", 30, 49152, 3},
        {"360m:Q8_0", 32, 49152, 5},
        {"1b:Q4_0", 16, 128256, 8},
        {"3b:Q5_K_M", 28, 128256, 8},
        {"8b:F16", 32, 128256, 8},
        {"14b:Q3_K_M", 40, 151936, 8},
        {"32b:IQ4_XS", 64, 151936, 8},
        {"70b:Q2_K_S", 80, 128256, 8},
        {"qwen3-30b-a3b:Q6_K", 48, 151936, 4},
        {"qwen3.5-4b:Q4_K_M", 32, 248320, 0}, // layer 0 keeps a state
        {"qwen3.5-27b:Q8_0", 64, 248320, 0},
        {"qwen3.6-35b-a3b:Q4_0", 40, 248320, 0},
        {"lfm2-1.2b:Q4_K_M", 16, 65536, 0},
        {"nemotron-nano-9b:Q4_K_M", 56, 131072, 0},
        {"granite4-h-tiny:Q8_0", 40, 100352, 0},
        {"gemma4-e2b:BF16", 35, 262144, 1},
        {"gemma4-e4b:Q4_K_M", 42, 262144, 2},
        {"gemma4-26b-a4b:Q4_0", 30, 262144, 8},
        {"gemma4-31b:Q8_0", 60, 262144, 16},
        {"gpt-oss-20b:MXFP4_MOE", 24, 201088, 8},
        {"deepseek-v3:Q4_K_M", 61, 129280, 1},
        {"kimi-k2:Q4_K_M", 61, 163840, 1},
        {"glm-4.6:Q4_K_M", 92, 151552, 8},
        {"minimax-m2:Q8_0", 62, 200064, 8},
        {"tiny-glm:Q4_0", 3, 384, 2},
        {"tiny-minimax:Q4_0", 2, 384, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weights *weights;
        struct model model;
        rn_error err = {0};
        assert_int_equal(weights_describe_synthetic(cases[i].spec, &weights, NULL), RN_OK);
        check(model_init(&model, weights, &err) == RN_OK, "%s: %s", cases[i].spec, err.message);
        assert_int_equal(model.hp.n_layer, cases[i].n_layer);
        assert_int_equal(model.hp.n_vocab, cases[i].n_vocab);
        assert_int_equal(model.hp.layer[0].n_head_kv, cases[i].n_head_kv);
        assert_int_equal(model.hp.n_ctx, 131072);
        model_deinit(&model);
        weights_close(weights);
    }
}

TEST_PROGRAM(synthetic_plans) { return cases_run(NULL, NULL); }
