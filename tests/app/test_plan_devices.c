// `runnel plan`: the KV types and bytes of devices, several devices, drafts and what is assumed.
#include "plan_lines.h"

// 2 x 32 layers x 8 heads x 128 values of one byte; int8 has two scales of two bytes besides.
CASE(a_device_has_the_kv_types_of_its_backend) {
    json_t *root = json_of("8b --device h200 --kv-type fp8 --users 100 --ctx 32768");
    assert_true(number_at(root, "memory", "kv_token_bytes") == 65536);
    assert_true(number_at(root, "memory", "kv_bytes") == 65536.0 * 32768 * 100);
    json_decref(root);
    root = json_of("8b --device h200 --kv-type int8 --ctx 32768");
    assert_true(number_at(root, "memory", "kv_token_bytes") == 65536 + 32 * 8 * 4);
    json_decref(root);
    root = json_of("8b --device epyc-9654 --kv-type int4 --ctx 32768");
    assert_true(number_at(root, "memory", "kv_token_bytes") == 32 * 8 * (64 + 8) * 2);
    json_decref(root);
}

CASE(a_device_is_found_as_people_write_it) {
    static const char *const names[][2] = {
        {"rtx4090", "rtx-4090"},         {"NVIDIA GeForce RTX 4090", "rtx-4090"},
        {"NVIDIA H100 SXM", "h100-sxm"}, {"H100_SXM", "h100-sxm"},
        {"Apple M4 Max", "m4-max"},      {"AMD EPYC 9654, 96 cores", "epyc-9654"},
        {"NVIDIA H200, 141 GB", NULL},   {"-", NULL},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct device *device = device_find(names[i][0]);
        check(device ? names[i][1] && !strcmp(device->name, names[i][1]) : !names[i][1], "%s: %s",
              names[i][0], device ? device->name : "none");
    }
}

// 99 KB of a block's memory are too few for a latent of 576 elements.
CASE(a_latent_needs_a_large_block) {
    static const char line[] = "glm-4.7-flash --device %s --kv-type %s";
    static const struct {
        const char *device, *kv_type;
        bool runs;
    } cases[] = {{"h100-sxm", "f16", true},  {"h100-sxm", "fp8", true}, {"a100-80", "f16", true},
                 {"rtx-4090", "f16", false}, {"l40s", "int8", false},   {"epyc-9654", "f16", true},
                 {"m3-ultra", "int8", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text, line, cases[i].device, cases[i].kv_type);
        const int code = line_run_as(COMMAND_PLAN, text, command_plan, &caught);
        check(cases[i].runs == (code == APP_OK), "%s: %d: %s", text, code, caught.err);
        check(cases[i].runs == !strstr(caught.err, "too few for a latent of 576 elements"), "%s",
              caught.err);
        check(!strstr(caught.err, "--backend"), "%s", caught.err); // plan refuses it with --device
    }
    ran("glm-4.7-flash:Q2_K --speed 1");
    check(strstr(caught.out, "NVIDIA H200") && !strstr(caught.out, "RTX"), "%s", caught.out);
}

// A GPU unpacks some formats: Q2_K takes what F16 takes, in memory and in time.
CASE(a_gpu_reads_the_bytes_that_it_stores) {
    json_t *f16 = json_of("8b:F16 --device h200"), *q2 = json_of("8b:Q2_K --device h200"),
           *cpu = json_of("8b:Q2_K --device epyc-9654");
    near("weights", number_at(q2, "memory", "weight_bytes"),
         number_at(f16, "memory", "weight_bytes"));
    check(fabs(plan_number(q2, 0, "step_ms") / plan_number(f16, 0, "step_ms") - 1) < 0.001, "time");
    check(plan_number(cpu, 0, "weight_bytes") < plan_number(q2, 0, "weight_bytes") / 4, "bytes");
    json_decref(f16);
    json_decref(q2);
    json_decref(cpu);
}

// Every KV type that is proposed for a device is one that it takes.
CASE(advice_for_a_gpu_never_names_a_type_of_the_cpu) {
    static const char *const lines[] = {
        "8b:Q8_0 --device h100-sxm --users 150 --ctx 8192 --speed 10",
        "8b:F16 --device rtx-4090 --users 30 --ctx 8192 --speed 20",
        "70b:F16 --users 10 --speed 50 --ctx 32768", "8b --users 3000 --ctx 8192 --speed 10"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        ran(lines[i]);
        check(strstr(caught.out, "each of these changes would suffice"), "%s", caught.out);
        check(!strstr(caught.out, "int4"), "plan %s: %s", lines[i], caught.out);
    }
    ran("8b --device h200 --users 4 --speed 100000");
    check(strstr(caught.out, "\nno change suffices\n"), "%s", caught.out);
    ran("8b:Q8_0 --device h100-sxm --users 140 --ctx 8192 --speed 10");
    check(strstr(caught.out, "KV in fp8 instead of f16") ||
              strstr(caught.out, "KV in int8 instead of f16"),
          "%s", caught.out);
    ran("8b:Q8_0 --device ryzen-9950x --memory 24G --users 100 --ctx 4096 --speed 0.5");
    check(strstr(caught.out, "KV in int4 instead of f16"), "%s", caught.out);
}

// A device has the same step with and without its name.
CASE(a_step_is_that_of_the_device) {
    json_t *one = json_of("8b:Q4_K_M --device h100-sxm --users 40 --speed 20 --ctx 8192"),
           *all = json_of("8b:Q4_K_M --users 40 --speed 20 --ctx 8192");
    const json_t *devices = json_object_get(json_object_get(all, "need"), "devices"), *device;
    double total = 0, ttft = 0;
    size_t i;
    json_array_foreach(devices, i, device) {
        if (strcmp(json_string_value(json_object_get(device, "device")), "h100-sxm") != 0) continue;
        total = json_number_value(json_object_get(device, "total_bytes"));
        ttft = json_number_value(json_object_get(device, "ttft_ms"));
    }
    assert_true(total == number_at(one, "memory", "total_bytes"));
    near("TTFT", ttft, json_number_value(json_object_get(row_of(one, 40), "ttft_ms")));
    assert_true(number_at(one, "memory", "step_tokens") == 2048);
    json_decref(one);
    json_decref(all);
}

static bool is_assumed(const json_t *root, const char *text) {
    size_t i;
    const json_t *line;
    json_array_foreach(json_object_get(root, "assumed"), i, line) {
        if (strstr(json_string_value(line), text)) return true;
    }
    return false;
}

// Whatever is assumed stands beside the result, in both forms.
CASE(assumptions_stand_beside_every_result) {
    static const char *const cases[][2] = {
        {"8b --device h200", "weights in Q4_K_M, as people get this model (--format takes"},
        {"gpt-oss-20b --device h200", "weights in MXFP4_MOE, as people get this model"},
        {"8b --device h200", "decoding reaches 75% of the bandwidth, products 50%"},
        {"8b --bandwidth 1TB/s", "all of the given bandwidth is reached, and arithmetic is no"},
        {"8b --bandwidth 1TB/s --flops 1T", "all of the given bandwidth and arithmetic is reached"},
        {"8b --speed 20", "decoding and products reach shares of each device's"},
        {"8b --device h200 --draft-max 4",
         "80% of the drafted tokens are right (--acceptance); drafting itself takes no time"},
        {"8b --device h200 --draft-max 4 --draft 1b",
         "80% of the drafted tokens are right (--acceptance)"},
        {"gpt-oss-20b --device h200", "tokens choose their experts evenly"},
        {"8b --device mi300x", "a backend for the GPU of AMD Instinct MI300X, which runnel lacks"},
        {"--matrix 64x64:F16 --device h200", "decoding reaches 75% of the bandwidth"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[160];
        snprintf(line, sizeof line, "assumed  %s", cases[i][1]);
        ran(cases[i][0]);
        check(strstr(caught.out, line), "plan %s: '%s': %s", cases[i][0], line, caught.out);
        json_t *root = json_of(cases[i][0]);
        check(is_assumed(root, cases[i][1]), "plan %s --json: %s", cases[i][0], cases[i][1]);
        json_decref(root);
    }
}

// A config.json is BF16 where a shape is not, and each says so.
CASE(a_format_that_is_named_is_not_assumed) {
    const struct data_folder folder = data_folder_make();
    static const char config[] =
        "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", "
        "\"hidden_size\": 256, \"intermediate_size\": 512, \"num_hidden_layers\": 2, "
        "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 64, "
        "\"vocab_size\": 384, \"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-6, "
        "\"rope_theta\": 10000}";
    char line[192];
    data_file_write(folder.path, "config.json", config, strlen(config));
    snprintf(line, sizeof line, "%s --device h200", folder.path);
    json_t *root = json_of(line);
    check(is_assumed(root, "weights in BF16, because a config.json names no format"), "BF16");
    json_decref(root);
    snprintf(line, sizeof line, "%s --format Q8_0 --device h200", folder.path);
    root = json_of(line);
    check(!is_assumed(root, "weights in"), "a format is named");
    json_decref(root);
    root = json_of("8b:Q4_K_M --device h200");
    check(!is_assumed(root, "weights in"), "a format is named");
    json_decref(root);
    data_folder_remove(&folder);
}

CASE(a_second_device_is_no_advice) {
    ran("70b --device rtx-4090");
    assert_non_null(
        strstr(caught.out, "A second device does not help: runnel runs a model on one"));
    ran("8b --device rtx-4090 --users 100 --ctx 4096");
    assert_non_null(strstr(caught.out, "4 replicas hold 100 users, 25 each"));
    json_t *root = json_of("8b --device rtx-4090 --users 100 --ctx 4096");
    assert_true(number_at(root, "memory", "replicas") == 4);
    json_decref(root);
    ran("70b --speed 1000");
    assert_non_null(
        strstr(caught.out, "Several devices are no change: runnel runs a model on one"));
}

// A draft model that is as large as the model drafts in vain; a small one gains less than drafts
// that cost nothing.
CASE(drafting_is_counted) {
    static const char line[] = "8b --bandwidth 1TB/s --draft-max 3";
    char text[128];
    json_t *plain = json_of("8b --bandwidth 1TB/s"), *free_ones = json_of(line);
    snprintf(text, sizeof text, "%s --draft 1b", line);
    json_t *small = json_of(text);
    snprintf(text, sizeof text, "%s --draft 8b", line);
    json_t *large = json_of(text);
    const double gain = plan_number(small, 0, "draft_gain");
    check(plan_number(large, 0, "draft_gain") < 1, "%f", plan_number(large, 0, "draft_gain"));
    check(gain > 1 && gain < plan_number(free_ones, 0, "draft_gain"), "%f", gain);
    near("the gain", gain * plan_number(plain, 0, "tokens_per_s"),
         plan_number(small, 0, "tokens_per_s"));
    check(plan_number(large, 0, "draft_ms") > 2.5 * plan_number(plain, 0, "step_ms"), "3 runs");
    assert_true(plan_number(free_ones, 0, "draft_ms") == 0);
    check(plan_number(large, 0, "ttft_ms") > 1.9 * plan_number(free_ones, 0, "ttft_ms"), "TTFT");
    near("memory", number_at(small, "memory", "total_bytes"),
         number_at(free_ones, "memory", "total_bytes") + number_at(small, "memory", "draft_bytes"));
    check(number_at(large, "memory", "draft_bytes") > number_at(plain, "memory", "weight_bytes"),
          "its weights");
    ran(text);
    assert_non_null(strstr(caught.out, "the draft model: weights 4.9 GB, step"));
    ran(line);
    assert_non_null(strstr(caught.out, "The time of drafting itself is not counted."));
    json_decref(plain);
    json_decref(free_ones);
    json_decref(small);
    json_decref(large);
}

// As their makers say: all parameters in billions, and those of a token. The makers count tables
// and heads in different ways, so the second number is near.
CASE(large_shapes_have_the_published_parameters) {
    static const struct {
        const char *shape;
        double all, active;
    } cases[] = {
        {"deepseek-v3", 671, 37}, {"deepseek-r1", 671, 37},     {"kimi-k2", 1026, 32},
        {"glm-4.6", 357, 32},     {"minimax-m2", 229, 10},      {"gpt-oss-120b", 117, 5.1},
        {"gpt-oss-20b", 21, 3.6}, {"qwen3-235b-a22b", 235, 22}, {"mixtral-8x7b", 46.7, 12.9},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[64];
        snprintf(line, sizeof line, "%s --device h200", cases[i].shape);
        json_t *root = json_of(line);
        const double all = number_at(root, "model", "parameters") * 1e-9,
                     active = number_at(root, "model", "active_parameters") * 1e-9;
        check(fabs(all - cases[i].all) <= 0.5, "%s: %f", cases[i].shape, all);
        check(fabs(active / cases[i].active - 1) < 0.05, "%s: %f", cases[i].shape, active);
        json_decref(root);
    }
    json_t *root = json_of("8b --device h200"); // all but the table of tokens
    assert_true(number_at(root, "model", "parameters") -
                    number_at(root, "model", "active_parameters") ==
                128256.0 * 4096);
    json_decref(root);
}

// People get gpt-oss with experts in 4 bits. Where a format has no blocks for a model's rows, the
// output says which format it is.
CASE(a_shape_has_its_published_format) {
    json_t *root = json_of("gpt-oss-120b --device h100-sxm");
    assert_string_equal(json_string_value(json_object_get(json_object_get(root, "model"), "path")),
                        "gpt-oss-120b:MXFP4_MOE");
    assert_string_equal(json_string_value(
                            json_object_get(json_object_get(root, "model"), "format")),
                        "MXFP4");
    assert_true(json_is_true(json_object_get(json_object_get(root, "memory"), "fits")));
    // 63.4 GB is the file of this format that people download
    const double bytes = number_at(root, "memory", "weight_bytes");
    check(bytes > 60e9 && bytes < 68e9, "%f", bytes);
    json_decref(root);
    ran("8b --device h100-sxm");
    assert_non_null(strstr(caught.out, "model    8b:Q4_K_M, llama 8.0B Q4_K: "));
    assert_null(strstr(caught.out, "format   "));
    ran("gpt-oss-120b:Q4_K_M --device h100-sxm");
    assert_non_null(strstr(caught.out, "gpt-oss 116.8B Q5_0"));
    assert_non_null(strstr(caught.out, "format   rows of 2880 are no whole blocks of Q4_K: most of "
                                       "the weights are Q5_0"));
}

TEST_PROGRAM(plan_devices) { return cases_run(environment_clean, NULL); }
