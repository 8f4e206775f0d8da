// Models without weights (tools_model_describe) and their memory (tools_memory), against the models
// and the engines that they stand for.
#include "check.h"

#include <string.h>

#include "data_file.h"
#include "streams.h"
#include "tools.h"

static rn_model *describe(const char *name, const char *format) {
    rn_model *model;
    rn_error err = {0};
    const rn_status status = tools_model_describe(name, format, &model, &err);
    check(status == RN_OK, "%s: %s", name, err.message);
    return model;
}

static struct tools_memory memory_of(const rn_model *model, struct tools_memory_wanted wanted) {
    struct tools_memory memory;
    rn_error err = {0};
    if (!wanted.users) wanted.users = 1;
    if (!wanted.n_ctx) wanted.n_ctx = 64;
    if (!wanted.batch_tokens) wanted.batch_tokens = RN_DEFAULT_BATCH_TOKENS;
    const rn_status status = tools_memory(model, &wanted, &memory, &err);
    check(status == RN_OK, "%s", err.message);
    return memory;
}

// The weights and the KV of a config alone are those of its model's file.
CASE(a_config_alone_has_the_sizes_of_its_model) {
    static const char *const names[] = {"gemma2",      "gemma3",       "granite", "llama",
                                        "llama3-rope", "mistral-full", "mixtral", "olmo2",
                                        "phi3",        "qwen2",        "qwen3",   "qwen3moe",
                                        "smollm3",     "gpt2",         "gptoss"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char config[DATA_PATH_BYTES], file[DATA_PATH_BYTES];
        snprintf(config, sizeof config, TEST_DATA "/golden/%s/config.json", names[i]);
        snprintf(file, sizeof file, TEST_DATA "/golden/%s/model.gguf", names[i]);
        rn_model *alone = describe(config, "F32"), *whole = describe(file, "F32");
        const struct tools_memory a = memory_of(alone, (struct tools_memory_wanted){0}),
                                  b = memory_of(whole, (struct tools_memory_wanted){0});
        // biases are left out; in these tiny models they are up to 1.2% of the weights
        check(a.weight_bytes <= b.weight_bytes &&
                  (double)a.weight_bytes >= 0.985 * (double)b.weight_bytes,
              "%s: %llu of %llu bytes", names[i], (unsigned long long)a.weight_bytes,
              (unsigned long long)b.weight_bytes);
        check(a.kv_token_bytes == b.kv_token_bytes, "%s", names[i]);
        check(a.step_bytes == b.step_bytes, "%s", names[i]);
        check(tools_plan(alone)->n_op == tools_plan(whole)->n_op, "%s", names[i]);
        rn_model_close(alone);
        rn_model_close(whole);
    }
}

CASE(a_format_changes_the_matrices_and_nothing_else) {
    static const char path[] = MODELS_DIR "/tale-1m-f16.gguf";
    rn_model *own = describe(path, NULL), *f16 = describe(path, "F16"),
             *q8 = describe(path, "Q8_0");
    assert_int_equal(rn_model_get_info(f16)->weight_bytes, rn_model_get_info(own)->weight_bytes);
    const double ratio =
        (double)rn_model_get_info(q8)->weight_bytes / (double)rn_model_get_info(f16)->weight_bytes;
    check(ratio > 34.0 / 64 && ratio < 34.0 / 64 + 0.02, "%f", ratio); // vectors stay
    assert_int_equal(tools_plan(q8)->n_op, tools_plan(own)->n_op);
    rn_model_close(own);
    rn_model_close(f16);
    rn_model_close(q8);
    // a mix gives a shape and its config the same bytes
    rn_model *shape = describe("tiny:Q4_K_M", NULL), *named = describe("tiny", "Q4_K_M");
    assert_int_equal(rn_model_get_info(shape)->weight_bytes,
                     rn_model_get_info(named)->weight_bytes);
    rn_model_close(shape);
    rn_model_close(named);
}

CASE(names_that_are_no_model_are_refused) {
    static const struct {
        const char *name, *format, *part;
    } cases[] = {
        {"9b", NULL, "'9b' is neither a file nor a known shape"},
        {"tiny", "Q9", "'Q9' is unknown"},
        {"tiny:Q4_0", "Q8_0", "has a format of its own"},
        {"/nowhere/model.gguf", NULL, "/nowhere/model.gguf"},
        {"/nowhere/config.json", NULL, "/nowhere/config.json"},
        {TEST_DATA "/golden/models.json", NULL, "models.json"},
        {TEST_DATA "/golden/llama/config.json", "Q9", "'Q9' is unknown"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rn_model *model;
        rn_error err = {0};
        const rn_status status = tools_model_describe(cases[i].name, cases[i].format, &model, &err);
        check(status != RN_OK && !model, "%s: accepted", cases[i].name);
        check(strstr(err.message, cases[i].part), "%s: %s", cases[i].name, err.message);
    }
}

// The same arithmetic as the engine's, so the same bytes.
CASE(memory_is_what_an_engine_takes) {
    rn_error err = {0};
    rn_model *whole, *described = describe(TEST_DATA "/golden/gemma3/model.gguf", NULL);
    assert_int_equal(rn_model_open(TEST_DATA "/golden/gemma3/model.gguf", &whole, &err), RN_OK);
    for (int users = 1; users <= 8; users *= 2) {
        const int n_ctx = 64;
        const struct tools_memory memory =
            memory_of(described, (struct tools_memory_wanted){.users = users, .n_ctx = n_ctx});
        const rn_engine_options options = {.n_ctx = n_ctx,
                                           .max_seqs = users,
                                           .n_threads = 1,
                                           .speculate = "off",
                                           .kv_bytes = memory.kv_bytes};
        rn_memory_plan plan;
        const rn_status status = rn_engine_plan_memory(whole, &options, &plan, &err);
        check(status == RN_OK, "%s", err.message);
        assert_int_equal(memory.weight_bytes, plan.weight_bytes);
        assert_int_equal(memory.step_bytes, plan.step_bytes);
        assert_int_equal(memory.kv_token_bytes, plan.kv_token_bytes);
        assert_int_equal(memory.user_bytes, plan.kv_context_bytes);
        assert_int_equal(plan.n_contexts, users);
        rn_engine *engine = streams_engine(whole, &options);
        rn_engine_info info;
        rn_engine_get_info(engine, &info);
        assert_int_equal(info.kv_bytes, memory.kv_bytes);
        rn_engine_destroy(engine);
    }
    rn_model_close(whole);
    rn_model_close(described);
}

CASE(the_most_users_fit_and_one_more_does_not) {
    rn_model *model = describe("8b:Q4_K_M", NULL);
    struct tools_memory_wanted wanted = {.n_ctx = 8192, .memory = (uint64_t)24 << 30};
    const int most = memory_of(model, wanted).most_users;
    assert_in_range(most, 2, 100);
    wanted.users = most;
    const struct tools_memory fits = memory_of(model, wanted);
    assert_true(fits.fits && fits.total_bytes + fits.reserve_bytes <= wanted.memory);
    wanted.users = most + 1;
    assert_false(memory_of(model, wanted).fits);
    wanted.shared_tokens = 4096; // kept once
    assert_true(memory_of(model, wanted).fits);
    rn_model_close(model);
}

// Worked examples: 8b has 32 layers, 8 KV heads of 128 and 32 query heads.
CASE(kv_bytes_of_types_and_groups) {
    rn_model *model = describe("8b:F16", NULL), *without = describe("13b:F16", NULL);
    const uint64_t f16 =
        memory_of(model, (struct tools_memory_wanted){.kv_type = "f16"}).kv_token_bytes;
    const uint64_t int8 =
        memory_of(model, (struct tools_memory_wanted){.kv_type = "int8"}).kv_token_bytes;
    assert_int_equal(f16, 2 * 2 * 32 * 8 * 128); // keys and values of 2 bytes
    // half of it, and a scale of 2 bytes for each key and value of a head
    assert_int_equal(int8, f16 / 2 + 2 * 2 * 32 * 8);
    // grouped queries: 4 query heads share a KV head, so 13b (40 of 40 heads, 40 layers) keeps
    // 40 * 40 / (32 * 8) times as many bytes
    const uint64_t all =
        memory_of(without, (struct tools_memory_wanted){.kv_type = "f16"}).kv_token_bytes;
    assert_int_equal(all * 32 * 8, f16 * 40 * 40);
    rn_model_close(model);
    rn_model_close(without);
}

// States by hand, in floats of 4 bytes. A convolution keeps taps - 1 inputs of each channel.
//   qwen3.5   heads x 128 x 128, and 3 x (2 x 16 key heads x 128 + heads x 128)
//   nemotron  128 heads x 128 x 80, and 3 x (128 x 80 + 2 x 8 groups x 128)
//   lfm2      2 x 2048
// KV is f16: 4 bytes for a key's element and a value's.
CASE(states_of_hybrids_are_counted_apart) {
    static const struct {
        const char *shape;
        int n_recurrent;
        uint64_t layer_floats, token_bytes;
        int interval;
    } cases[] = {
        {"qwen3.5-27b", 48, 48 * 128 * 128 + 3 * (2 * 16 + 48) * 128, 4 * 16 * 4 * 256, 1024},
        {"qwen3.6-35b-a3b", 30, 32 * 128 * 128 + 3 * (2 * 16 + 32) * 128, 4 * 10 * 2 * 256, 1024},
        {"nemotron-nano-9b", 27, 128 * 128 * 80 + 3 * (128 * 80 + 2 * 8 * 128), 4 * 4 * 8 * 128,
         1024},
        {"lfm2-1.2b", 10, 2 * 2048, 4 * 6 * 8 * 64, RN_PAGE_TOKENS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rn_model *model = describe(cases[i].shape, NULL);
        const uint64_t bytes = 4 * cases[i].layer_floats * (uint64_t)cases[i].n_recurrent;
        for (int users = 1; users <= 64; users *= 8) {
            struct tools_memory_wanted wanted = {.users = users, .n_ctx = 8192};
            const struct tools_memory m = memory_of(model, wanted);
            check(m.state_bytes == bytes, "%s: %llu bytes", cases[i].shape,
                  (unsigned long long)m.state_bytes);
            check(m.kv_token_bytes == cases[i].token_bytes, "%s", cases[i].shape);
            check(m.state_interval == cases[i].interval, "%s: %d", cases[i].shape,
                  m.state_interval);
            // the running state, and a checkpoint
            assert_int_equal(m.state_user_bytes, 2 * bytes);
            assert_int_equal(m.user_bytes, 2 * bytes + 8192 * cases[i].token_bytes);
            assert_int_equal(m.kv_bytes, (uint64_t)users * m.user_bytes);
            assert_int_equal(m.total_bytes,
                             m.weight_bytes + m.step_bytes + m.kv_bytes + m.mtp_bytes);
            assert_true((m.mtp_bytes > 0) == (strncmp(cases[i].shape, "qwen", 4) == 0));
            // a prefix that all share has its pages once; each user has states
            wanted.shared_tokens = 4096;
            const struct tools_memory shared = memory_of(model, wanted);
            assert_int_equal(shared.state_user_bytes, 2 * bytes);
            assert_int_equal(m.kv_bytes - shared.kv_bytes,
                             (uint64_t)(users - 1) * 4096 * cases[i].token_bytes);
        }
        if (i == 0) assert_int_equal(bytes >> 20, 149); // MiB
        rn_model_close(model);
    }
    rn_model *plain = describe("1b", NULL);
    const struct tools_memory m = memory_of(plain, (struct tools_memory_wanted){0});
    assert_int_equal(m.state_bytes + m.state_user_bytes + m.mtp_bytes, 0);
    assert_int_equal(m.state_interval, 0);
    rn_model_close(plain);
}

// 262,144 rows of 42 layers x 256 numbers in Q4_K, which has 144 bytes for 256. 24 of the layers
// keep keys and values: 4 x 2 x 1,024 and 20 x 2 x 512 numbers of a token.
CASE(a_table_that_stays_in_its_file_is_no_memory) {
    rn_model *model = describe("gemma4-e4b", NULL);
    const struct tools_memory_wanted wanted = {.users = 2, .n_ctx = 1024};
    const struct tools_memory m = memory_of(model, wanted);
    const uint64_t table = UINT64_C(262144) * 42 * 144;
    assert_int_equal(m.table_bytes, table);
    assert_int_equal(m.total_bytes, m.weight_bytes + m.step_bytes + m.kv_bytes);
    // the embedding is the head, too, so it is there twice
    const uint64_t embedding =
        weights_tensor_find(tools_weights(model), "token_embd.weight")->bytes;
    const uint64_t want = rn_model_get_info(model)->weight_bytes + embedding - table;
    check(m.weight_bytes < want + 4096 && m.weight_bytes + 4096 > want, "%llu, expected %llu",
          (unsigned long long)m.weight_bytes, (unsigned long long)want);
    assert_int_equal(m.kv_token_bytes, 2 * (4 * 2 * 1024 + 20 * 2 * 512));
    rn_model_close(model);
}

TEST_PROGRAM(plan_sizes) { return cases_run(NULL, NULL); }
