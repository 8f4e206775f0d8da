// `runnel plan`: its figures, and the message for each value and combination that is refused.
// Nothing is measured: every case names a device or figures. The file of rates is written and read
// back by itself.
#include "plan_lines.h"

CASE(every_bad_value_is_named) {
    static const char *const cases[][2] = {
        {"nosuch --device m1", "'nosuch' is neither a file nor a known shape (known: 135m"},
        {"nosuch --device m1",
         "gpt-oss-20b, gpt-oss-120b)"}, // and no part of a model, no shape for tests
        {"8b:Q9 --device m1", "format 'Q9' is unknown"},
        {"8b --format Q9 --device m1", "format 'Q9' is unknown"},
        {"8b:Q4_0 --format Q8_0 --device m1", "'8b:Q4_0' has a format of its own"},
        {"--format Q8_0 --device m1", "--format: the embedded model has its own"},
        {"a -m b --device m1", "--model and 'a' exclude each other"},
        {"'' --device m1", "'' is not a file name"},
        {"8b --kv-type f8", "--kv-type: 'f8' is not one of"},
        {"8b --device h1000", "--device: 'h1000' is unknown"},
        {"8b --device xyzzyplugh", "'xyzzyplugh' is unknown (known: a100-40, "},
        {"8b --bandwidth fast", "--bandwidth: 'fast' is not a rate such as 900GB/s"},
        {"8b --bandwidth 0", "--bandwidth: '0' is not a rate"},
        {"8b --bandwidth 9e999", "--bandwidth: '9e999' is not a rate"},
        {"8b --bandwidth 900", "--bandwidth: '900' is too few B/s; name a unit, as in 900GB/s"},
        {"8b --bandwidth 1G --flops 120",
         "--flops: '120' is too few FLOP/s; name a unit, as in 120T"},
        {"8b --device m1 --memory 48", "--memory: '48' is too few bytes; name a unit, as in 48G"},
        {"8b --bandwidth 900GB/h", "--bandwidth: '900GB/h' is not a rate"},
        {"8b --bandwidth 1G --flops 12X", "--flops: '12X' is not a rate such as 120T"},
        {"8b --flops 12T", "--flops belongs to --bandwidth, which is missing"},
        {"8b --bandwidth 1G --device m1", "--device and --bandwidth exclude each other"},
        {"8b --measure --device m1", "--measure and --device exclude each other"},
        {"8b --measure --bandwidth 1G", "--measure and --bandwidth exclude each other"},
        {"8b --device m1 --memory 0", "--memory: '0' is not a size"},
        {"8b --device m1 --memory 4p", "--memory: '4p' is not a size"},
        {"8b --users 0", "--users: '0' is not a whole number from 1 to 4096"},
        {"8b --speed 0", "--speed: '0' is not a number"},
        {"8b --ctx 0", "--ctx: '0' is not a whole number"},
        {"8b --device m1 --ctx 200000", "--ctx: 200000 is more than the model's context, 131072"},
        {"8b --device m1 --n-prompt 200000", "is more than the model's context, 131072"},
        {"8b --device m1 --ctx 100 --n-prompt 90 --n-gen 20",
         "--ctx: prompt and output have 110 tokens, the context has 100"},
        {"8b --n-prompt x", "--n-prompt: 'x' is not a whole number"},
        {"8b --n-gen 0", "--n-gen: '0' is not a whole number"},
        {"8b --device m1 --shared-prefix 600",
         "--shared-prefix: 600 is more than the prompt's tokens, 512"},
        {"8b --draft-max 99", "--draft-max: '99' is not a whole number"},
        {"8b --draft-max 4 --acceptance 1.5", "--acceptance: '1.5' is not a number from 0 to 1"},
        {"8b --acceptance 0.5", "--acceptance belongs to --draft-max, which is missing"},
        {"8b --batch-tokens 0", "--batch-tokens: '0' is not a whole number"},
        {"--matrix 4096", "--matrix: '4096' is not a matrix such as 4096x4096:F16"},
        {"--matrix 0x5:F16", "--matrix: '0x5:F16' is not a matrix"},
        {"--matrix 99999999x5:F16", "is not a matrix"},
        {"--matrix 4x4:F17", "--matrix: format 'F17' is unknown (known: F32, F16"},
        {"--matrix 4x33:Q4_0", "Q4_0 has blocks of 32 weights, 33 columns are not whole ones"},
        {"8b --matrix 4x4:F16", "--matrix and '8b' exclude each other"},
        {"--matrix 4x4:F16 --svg a.svg", "--svg belongs to a model, and --matrix plans without"},
        {"--matrix 4x4:F16 --users 2", "--users belongs to a model, and --matrix plans without"},
        {"--matrix 4x4:F16 --speed 2", "--speed belongs to a model, and --matrix plans without"},
        {"--matrix 4x4:F16 --kv-type int8", "--kv-type belongs to a model"},
        {"8b --device m1 --max-seqs 4", "--max-seqs belongs to --replay, which is missing"},
        {"8b --device m1 --threads 4",
         "--threads belongs to the rates of this machine, and --device names another"},
        {"8b --bandwidth 1G --isa avx2", "--isa belongs to the rates of this machine"},
        {"8b --speed 5 --measure", "--measure belongs to the rates of this machine, and --speed"},
        {"8b --device m1 --replay /nowhere/trace", "/nowhere/trace: No such file"},
        {"8b --speed 5 --svg a.svg", "--svg with --speed needs --device or --bandwidth"},
        {"8b --device m1 --svg /nowhere/a.svg", "--svg: '/nowhere/a.svg': No such file"},
        {"8b --device m1 --memory-svg /nowhere/a.svg", "--memory-svg: '/nowhere/a.svg': No such"},
        {"--matrix 4x4:F16 --memory-svg a.svg", "--memory-svg belongs to a model, and --matrix"},
        {"8b --threads 0", "--threads: '0' is not a whole number"},
        {"8b --device m1 --ctx 1 --n-prompt 9", "--ctx: prompt and output have 10 tokens, the con"},
        {"8b --isa sse9", "--isa: 'sse9' is not one of"},
        // a number is a device of this machine
        {"8b --device 7 --backend cpu", "backend 'cpu': device is 7, expected 0"},
        {"8b --device 1024", "--device: '1024' is not a whole number from 0 to 1023"},
        {"8b --device 99999999999999999999", "is not a whole number from 0 to 1023"},
        {"8b --device -1", "--device: '-1' is unknown"},
        {"8b --device 1x", "--device: '1x' is unknown"},
        {"8b --device 4x", "--device: '4x' is unknown"},
        // a model runs on one device
        {"8b --device h200x8", "--device: 'h200x8' is 8 devices, and runnel runs a model on one; "
                               "name one, such as h200 (more of them serve more users"},
        {"8b --device '2x h100'", "'2x h100' is 2 devices, and runnel runs a model on one; name"},
        {"8b --device 8xH200", "'8xH200' is 8 devices"},
        {"8b --device l4:4", "'l4:4' is 4 devices"},
        {"8b --device 'h200 x2'", "'h200 x2' is 2 devices"},
        {"8b --device h200,h100-sxm", "'h200,h100-sxm' is 2 devices"},
        {"8b --device 4090x2",
         "'4090x2' is 2 devices, and runnel runs a model on one; name one, such as rtx-4090"},
        {"8b --device 2x4090",
         "'2x4090' is 2 devices, and runnel runs a model on one; name one, such as rtx-4090"},
        {"8b --device 4xpro", "name one, such as rtx-pro-6000"},
        {"8b --device rtx4080", "'rtx4080' is unknown; did you mean rtx-"},
        {"8b --device a100", "'a100' is unknown; did you mean a100-40 or a100-80?"},
        {"8b --device rtx4090x2", "'rtx4090x2' is 2 devices"},
        {"8b --device 4090", "'4090' is not a whole number from 0 to 1023; did you mean rtx-4090?"},
        {"8b --device 4091", "'4091' is not a whole number from 0 to 1023\n"},
        {"8b --device 2xnosuchdevice", "--device: '2xnosuchdevice' is unknown"},
        // a device has the KV types of its own backend
        {"8b --device h200 --kv-type int4",
         "--kv-type: 'int4' is not a KV type of NVIDIA H200 (it has f16, bf16, int8, fp8)"},
        {"8b --device h200 --kv-type f32", "'f32' is not a KV type of NVIDIA H200"},
        {"8b --device epyc-9654 --kv-type fp8",
         "'fp8' is not a KV type of AMD EPYC 9654, 96 cores (it has f32, f16, int8, int4)"},
        {"8b --bandwidth 1TB/s --kv-type bf16",
         "'bf16' is not a KV type of the CPU, whose pages --bandwidth plans with (it has f32"},
        {"8b --device h200 --draft 1b", "--draft belongs to --draft-max, which is missing"},
        {"8b --device h200 --draft-max 2 --draft 0.6b",
         "--draft: '0.6b' has 151936 tokens, and the model has 128256: it cannot draft"},
        {"8b --device h200 --draft-max 2 --draft nosuch", "'nosuch' is neither a file nor a"},
        {"8b --backend nosuch", "backend: 'nosuch' is not known (known: cpu"},
        {"--matrix 4x4:F16 --backend nosuch", "backend: 'nosuch' is not known"},
        {"8b --device 0 --bandwidth 1G", "--device and --bandwidth exclude each other"},
        {"8b --device 0 --speed 5", "--device belongs to the rates of this machine, and --speed"},
        {"8b --device m1 --backend cpu",
         "--backend belongs to the rates of this machine, and --device names another"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refused(cases[i][0], cases[i][1]);
}

CASE(a_matrix_is_placed_on_the_roofline) {
    ran("--matrix 4096x4096:f16 --device h200");
    check(strstr(caught.out, "4096 x 4096 F16: 33.6 MB, 33.6 MFLOP per token, 1.00 FLOP/byte"),
          "%s", caught.out);
    json_t *root = json_of("--matrix 16384x4096:F16 --bandwidth 1TB/s --flops 100T");
    assert_true(number_at(root, "matrix", "bytes") == 134217728);
    assert_true(number_at(root, "matrix", "flops_per_token") == 134217728);
    const json_t *rows = json_object_get(json_object_get(root, "matrix"), "roofline");
    static const struct {
        double intensity, time_us;
        const char *bound;
    } wanted[] = {{1, 134.217728, "bandwidth"},
                  {8, 134.217728, "bandwidth"},
                  {64, 134.217728, "bandwidth"},
                  {512, 687.194767, "arithmetic"}};
    for (size_t i = 0; i < 4; i++) {
        const json_t *row = json_array_get(rows, i);
        near("intensity", json_number_value(json_object_get(row, "flop_per_byte")),
             wanted[i].intensity);
        near("time", json_number_value(json_object_get(row, "time_us")), wanted[i].time_us);
        assert_string_equal(json_string_value(json_object_get(row, "bound")), wanted[i].bound);
    }
    json_decref(root);
}

CASE(rows_share_weights_and_not_kv) {
    json_t *root = json_of("8b:F16 --bandwidth 1TB/s --ctx 4096 --memory 80G");
    // weights of a step: all but the embedding, of which one row is read for each user
    const double one = plan_number(root, 0, "weight_bytes"), kv = plan_number(root, 0, "kv_bytes");
    near("8 users read the weights once", plan_number(root, 3, "weight_bytes"), one + 7 * 4096 * 2);
    near("and 8 KV caches", plan_number(root, 3, "kv_bytes"), 8 * kv);
    near("8 times the operations", plan_number(root, 3, "flops"),
         8 * plan_number(root, 0, "flops"));
    near("bytes over bandwidth", plan_number(root, 0, "step_ms"),
         (one + kv + 131072) / 1e12 * 1e3); // and the new token's KV
    json_decref(root);
    root = json_of("8b:F16 --bandwidth 1TB/s --ctx 4096 --kv-type int8");
    const double int8 = plan_number(root, 0, "kv_bytes");
    near("int8 halves the KV, and has scales", int8, kv / 2 * (1 + 4.0 / 256));
    json_decref(root);
}

// In F16 a product has a FLOP for each byte and user, so the limit is passed at that many users.
CASE(bound_by_agrees_with_the_limit_that_is_printed) {
    static const char line[] = "8b:F16 --device rtx-4090 --n-prompt 1 --n-gen 1 --users %d";
    char text[128];
    ran("8b:F16 --device rtx-4090");
    assert_non_null(strstr(caught.out, "165 TFLOP/s (164 FLOP/byte at these peaks)"));
    assert_non_null(strstr(caught.out, "above 109 FLOP/byte at these shares"));
    for (int users = 109; users < 111; users++) {
        snprintf(text, sizeof text, line, users);
        json_t *root = json_of(text);
        near("the limit", number_at(root, "machine", "assumed_balance_flop_per_byte"),
             165e12 * 0.5 / (1008e9 * 0.75));
        const json_t *row = row_of(root, users), *parts = json_object_get(row, "parts_ms");
        const char *bound = json_string_value(json_object_get(row, "bound"));
        assert_string_equal(bound, users == 109 ? "bandwidth" : "arithmetic");
        double sum = 0, most = 0;
        const char *name;
        json_t *part;
        json_object_foreach((json_t *)(uintptr_t)parts, name, part) {
            sum += json_number_value(part);
            most = fmax(most, json_number_value(part));
        }
        near("all parts", sum, json_number_value(json_object_get(row, "step_ms")));
        near("the largest", json_number_value(json_object_get(parts, bound)), most);
        json_decref(root);
    }
}

CASE(texts_say_what_is_known) {
    static const struct {
        const char *line, *text;
        bool is_there;
    } cases[] = {
        {"8b --bandwidth 900GB/s", "all of the given bandwidth is reached, and arithmetic is no",
         true},
        {"8b --bandwidth 20TB/s", "20000 GB/s\n", true},
        {"8b --bandwidth 1TB/s --memory 90T", "fits; 4096 or more users fit", true},
        {"8b --device h100-sxm --ctx 8192", "; at most 69 users fit", true},
        {"8b --device ryzen-9950x", "(desktop CPU)", true},
        {"8b --speed 1000000", "1 user at 1000000 tokens/s each", true},
        {"8b --speed 20", "Of B: the share of the bandwidth", true},
        // 10 x 231 > 9 x 256: less than a tenth is left for prompts
        {"8b --device h200 --users 231 --batch-tokens 256", "From 231 users on", true},
        {"8b --device h200 --users 230 --batch-tokens 256", "--batch-tokens", false},
        {"8b --device h200 --draft-max 3 --batch-tokens 256", "From 58 users on", true},
        {"8b --device h200 --batch-tokens 256", "--batch-tokens", false},
        {"8b --speed 1 --users 231 --batch-tokens 256", "(here 256)", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ran(cases[i].line);
        check(!strstr(caught.out, cases[i].text) == !cases[i].is_there, "plan %s: '%s': %s",
              cases[i].line, cases[i].text, caught.out);
    }
    json_t *root = json_of("8b --bandwidth 1TB/s");
    assert_true(json_is_null(json_object_get(json_object_get(root, "memory"), "fits")));
    assert_true(json_is_null(json_object_get(row_of(root, 1), "fits")));
    json_decref(root);
    root = json_of("8b --bandwidth 1TB/s --memory 6G --ctx 8192 --users 8");
    assert_true(json_is_false(json_object_get(json_object_get(root, "memory"), "fits")));
    assert_true(json_is_false(json_object_get(row_of(root, 8), "fits")));
    json_decref(root);
}

CASE(drafts_multiply_the_tokens_of_a_step) {
    json_t *none = json_of("8b --bandwidth 1TB/s"),
           *drafts = json_of("8b --bandwidth 1TB/s --draft-max 3 --acceptance 0.5");
    near("1 + 1/2 + 1/4 + 1/8", number_at(drafts, "workload", "tokens_per_step"), 1.875);
    const double speed =
        plan_number(drafts, 0, "tokens_per_s") / plan_number(none, 0, "tokens_per_s");
    check(speed > 1.8 && speed < 1.875, "%f", speed); // its drafts read a few more rows
    json_decref(none);
    json_decref(drafts);
}

CASE(devices_that_suffice_are_listed_with_their_share) {
    json_t *root = json_of("8b:Q4_K_M --users 40 --speed 20 --ctx 8192");
    const json_t *devices = json_object_get(json_object_get(root, "need"), "devices");
    bool has_h100 = false, has_4090 = false;
    size_t i;
    const json_t *device;
    json_array_foreach(devices, i, device) {
        const char *name = json_string_value(json_object_get(device, "device"));
        has_h100 |= !strcmp(name, "h100-sxm");
        has_4090 |= !strcmp(name, "rtx-4090"); // 24 GB do not hold 40 contexts
        assert_true(json_number_value(json_object_get(device, "tokens_per_s")) >= 20);
        assert_true(json_number_value(json_object_get(device, "bandwidth_share")) == 0.75);
    }
    assert_true(has_h100 && !has_4090);
    assert_int_equal(json_array_size(json_object_get(json_object_get(root, "need"), "changes")), 0);
    json_decref(root);
}

// Each change that is proposed does suffice, when it is made.
CASE(changes_are_computed) {
    json_t *root = json_of("8b:F16 --device rtx-4090 --users 40 --speed 20 --ctx 8192");
    const json_t *changes = json_object_get(json_object_get(root, "need"), "changes");
    assert_int_equal(json_array_size(json_object_get(json_object_get(root, "need"), "devices")), 0);
    int users = 0, context = 0;
    size_t i;
    const json_t *change;
    json_array_foreach(changes, i, change) {
        const char *text = json_string_value(json_object_get(change, "change"));
        sscanf(text, "%d users", &users);
        sscanf(text, "a context of %d", &context);
    }
    assert_in_range(users, 1, 39);
    assert_in_range(context, 2, 8191);
    json_decref(root);
    for (int more = 0; more < 2; more++) { // so many users suffice, and one more does not
        char line[128];
        snprintf(line, sizeof line, "8b:F16 --device rtx-4090 --users %d --speed 20 --ctx 8192",
                 users + more);
        root = json_of(line);
        assert_int_equal(json_array_size(json_object_get(json_object_get(root, "need"), "devices")),
                         1 - more);
        json_decref(root);
    }
}

static size_t devices_that_suffice(const char *line) {
    json_t *root = json_of(line);
    const size_t n = json_array_size(json_object_get(json_object_get(root, "need"), "devices"));
    json_decref(root);
    return n;
}

// Text i of the changes, or "".
static const char *change_text(const json_t *root, size_t i) {
    const json_t *changes = json_object_get(json_object_get(root, "need"), "changes");
    const char *text = json_string_value(json_object_get(json_array_get(changes, i), "change"));
    return text ? text : "";
}

CASE(formats_and_kv_types_are_combined_before_users_are_dropped) {
    json_t *root = json_of("70b:F16 --users 10 --speed 50 --ctx 32768");
    static const char *const kv_types[] = {"int8", "fp8"}; // a little smaller: a larger format
    for (size_t i = 0; i < 2; i++) {
        char format[16] = "", kv[16] = "", line[128];
        const char *text = change_text(root, i);
        check(sscanf(text, "weights in %15s and KV in %15s", format, kv) == 2, "%s", text);
        check(!strstr(text, "users"), "%s", text);
        assert_string_equal(kv, kv_types[i]);
        snprintf(line, sizeof line, "70b:%s --kv-type %s --users 10 --speed 50 --ctx 32768", format,
                 kv);
        assert_true(devices_that_suffice(line) > 0);
    }
    assert_string_equal(change_text(root, 2), "");
    json_decref(root);
}

// No format serves all users: the one that is proposed serves that many, not one more, and no other
// combination serves more.
CASE(the_formats_that_keep_the_most_users_are_chosen) {
    json_t *root = json_of("8b:F16 --device rtx-4090 --users 400 --speed 50 --ctx 8192");
    char format[16], kv[16], line[128];
    int users = 0;
    const char *text = change_text(root, 0);
    check(sscanf(text, "weights in %15[^,], KV in %15s instead of f16 and %d users instead of 400",
                 format, kv, &users) == 3,
          "%s", text);
    for (int more = 0; more < 2; more++) {
        snprintf(line, sizeof line,
                 "8b:%s --device rtx-4090 --kv-type %s --users %d --speed 50 --ctx 8192", format,
                 kv, users + more);
        check((devices_that_suffice(line) > 0) == !more, "%s", line);
    }
    snprintf(line, sizeof line,
             "8b:Q4_K_M --device rtx-4090 --kv-type fp8 --users %d --speed 50 --ctx 8192", users);
    assert_int_equal(devices_that_suffice(line), 0);
    json_decref(root);
}

CASE(a_replay_says_times_and_refuses_bad_lines) {
    static const char *const bad[][2] = {
        {"[]\n", "line 1: is not a JSON object"},
        {"\n{\n", "line 2: is not JSON"},
        {"{\"timestamp\": -1}\n", "line 1: timestamp is not"},
        {"{\"timestamp\": 0, \"input_length\": 0}\n", "line 1: input_length is not"},
        {"{\"timestamp\": 0, \"input_length\": 1}\n", "line 1: output_length is not"},
        {"{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [\"a\"]}\n",
         "line 1: hash_ids is not"},
        {"\n", "holds no request"},
    };
    static const char one[] = "{\"timestamp\": 0, \"input_length\": 9, \"output_length\": 1}\n";
    static const char good[] =
        "{\"timestamp\": 0, \"input_length\": 1024, \"output_length\": 5, \"hash_ids\": [1, 2]}\n"
        "{\"timestamp\": 9000, \"input_length\": 1024, \"output_length\": 5, \"hash_ids\": [1, "
        "3]}\n"
        "{\"timestamp\": 9500, \"input_length\": 999999, \"output_length\": 5}\n";
    const struct data_folder folder = data_folder_make();
    char line[128];
    snprintf(line, sizeof line, "8b --bandwidth 1TB/s --flops 50T --replay %s/trace", folder.path);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        data_file_write(folder.path, "trace", bad[i][0], strlen(bad[i][0]));
        refused(line, bad[i][1]); // before the plan is printed
    }
    data_file_write(folder.path, "trace", one, strlen(one));
    ran(line);
    check(strstr(caught.out, "  1 request in "), "%s", caught.out);
    data_file_write(folder.path, "trace", good, strlen(good));
    json_t *root = json_of(line);
    assert_true(number_at(root, "replay", "requests") == 2);
    assert_true(number_at(root, "replay", "left_out") == 1);
    assert_true(number_at(root, "replay", "output_tokens") == 10);
    assert_true(number_at(root, "replay", "cached_prompt_tokens") == 512); // the block they share
    json_decref(root);
    // no queue before weights that do not fit
    snprintf(line, sizeof line, "70b:F16 --device rtx-4090 --replay %s/trace", folder.path);
    ran(line);
    check(strstr(caught.out, "none: the weights do not fit the memory"), "%s", caught.out);
    root = json_of(line);
    assert_true(json_is_null(json_object_get(root, "replay")));
    json_decref(root);
    data_folder_remove(&folder);
}

// Four requests at once, in a memory for as many users of their length: all run together. gpt-oss
// has windows in half of its layers, which a count of tokens would take for full ones.
CASE(a_replay_has_the_memory_of_windows) {
    const struct data_folder folder = data_folder_make();
    char line[192], text[512] = "";
    for (int i = 0; i < 4; i++)
        strcat(text, "{\"timestamp\": 0, \"input_length\": 30000, \"output_length\": 2000}\n");
    data_file_write(folder.path, "trace", text, strlen(text));
    json_t *root = json_of("gpt-oss-20b --bandwidth 1TB/s --ctx 32000 --users 4");
    const double total = number_at(root, "memory", "total_bytes");
    json_decref(root);
    snprintf(line, sizeof line,
             "gpt-oss-20b --bandwidth 1TB/s --ctx 32000 --users 4 --memory %lldM --replay %s/trace",
             (long long)(total / 0.95 / (1 << 20)) + 1, folder.path);
    root = json_of(line);
    assert_int_equal(number_at(root, "replay", "most_running"), 4);
    json_decref(root);
    data_folder_remove(&folder);
}

CASE(a_prompt_that_is_shared_as_a_whole_has_a_last_token) {
    json_t *root = json_of("8b --device h200 --n-prompt 512 --shared-prefix 512");
    assert_true(plan_number(root, 0, "ttft_ms") > 0);
    json_decref(root);
}

CASE(a_plot_is_written) {
    const struct data_folder folder = data_folder_make();
    char line[256], path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, "%s/roof.svg", folder.path);
    snprintf(line, sizeof line,
             "8b --device h200 --users 100 --ctx 8192 --svg %s/roof.svg --memory-svg %s/memory.svg",
             folder.path, folder.path);
    ran(line);
    struct data_file file = data_file_read(path);
    const char *svg = (const char *)file.data;
    check(strstr(svg, "the machine's roof") && strstr(svg, "a step of a prompt alone"), "%s", svg);
    // H200: 989 TFLOP/s over 4.8 TB/s is the ridge, and its place has the whole arithmetic
    check(strstr(svg, "<title>206.042: 989.00 TFLOP/s</title>"), "%s", svg);
    free(file.data);
    snprintf(path, sizeof path, "%s/memory.svg", folder.path);
    file = data_file_read(path);
    svg = (const char *)file.data;
    // 8192 tokens of 131072 bytes; the line of the device is there, that of f32 is not
    // lines that cover each other are one
    check(strstr(svg, "KV f16 1074 MB, bf16 1074 MB for each user") &&
              strstr(svg, "KV int8 545 MB, fp8 537 MB for each user"),
          "%s", svg);
    check(strstr(svg, "NVIDIA H200") && !strstr(svg, "KV f32"), "%s", svg);
    free(file.data);
    // one user with a short context: the lines reach to users whose KV one sees
    snprintf(line, sizeof line, "8b --device epyc-9654 --memory 16G --memory-svg %s/memory.svg",
             folder.path);
    ran(line);
    file = data_file_read(path);
    svg = (const char *)file.data;
    check(strstr(svg, "KV f16 101 MB for each user") && strstr(svg, "KV int8 51 MB for each user"),
          "%s", svg);
    check(strstr(svg, "<title>64: "), "%s", svg);
    free(file.data);
    data_folder_remove(&folder);
}

CASE(rates_are_kept_by_their_key) {
    const struct data_folder folder = data_folder_make();
    char cache[PATH_MAX], *here = getcwd(NULL, 0);
    assert_non_null(here);
    snprintf(cache, sizeof cache, "%s/%s", here, folder.path);
    setenv("XDG_CACHE_HOME", cache, 1);
    struct predict_rates rates = {.bandwidth = 3e10, .step_ns = 5, .cache_bytes = 1 << 20}, got;
    const struct rates_attention_key heads = {"f16", 8, 2, 64, 64, false},
                                     others = {"f16", 8, 2, 64, 64, true};
    bool has_attention;
    struct rates_busy own = {.base = 0.25, .attention = -1, .product[FORMAT_Q4_0] = 0.5}, busy;
    rates.product[FORMAT_Q4_0].is_known = true;
    for (int i = 0; i < PREDICT_POINTS; i++) rates.product[FORMAT_Q4_0].cached[i] = i + 1;
    rates.product[FORMAT_Q4_0].share = 0.9;
    rates.product[FORMAT_Q4_0].overlap[1] = 0.125;
    rates.attention.memory.byte_ns = 0.25;
    rates.attention.row_ns = 0.5;
    rates.memory_share[5] = 0.75;
    rates.product[FORMAT_Q4_0].input[2] = 9;
    assert_false(rates_load("a", &heads, &got, &busy, &has_attention));
    rates_save("a", &heads, &rates, &own);
    assert_true(rates_load("a", &heads, &got, &busy, &has_attention) && has_attention);
    assert_true(got.bandwidth == 3e10 && got.attention.memory.byte_ns == 0.25);
    assert_true(got.attention.row_ns == 0.5 && got.memory_share[5] == 0.75);
    assert_true(got.product[FORMAT_Q4_0].input[2] == 9 && got.product[FORMAT_Q4_0].output[2] == 0);
    assert_true(got.product[FORMAT_Q4_0].is_known && got.product[FORMAT_Q4_0].cached[7] == 8);
    assert_true(got.product[FORMAT_Q4_0].share == 0.9 &&
                got.product[FORMAT_Q4_0].overlap[1] == 0.125);
    assert_false(got.product[FORMAT_F16].is_known);
    // how busy the machine was is kept with each part; of attention it was not known
    assert_true(busy.base == 0.25 && busy.attention == -1 && busy.product[FORMAT_Q4_0] == 0.5);
    assert_true(rates_load("a", &others, &got, &busy, &has_attention) && !has_attention);
    assert_false(rates_load("b", &heads, &got, &busy, &has_attention));
    // a part that is no object is replaced
    snprintf(cache, sizeof cache,
             "sed -i 's/^ \"attention\": {/ \"attention\": 5, \"old\": {/' %s/runnel/rates-*.json",
             folder.path);
    assert_int_equal(system(cache), 0);
    assert_true(rates_load("a", &heads, &got, &busy, &has_attention) && !has_attention);
    rates_save("a", &heads, &rates, &own);
    assert_true(rates_load("a", &heads, &got, &busy, &has_attention) && has_attention);
    // a second save adds to the first
    rates.product[FORMAT_Q4_0].is_known = false;
    rates.product[FORMAT_F16] = rates.product[FORMAT_Q4_0];
    rates.product[FORMAT_F16].is_known = true;
    rates_save("a", &others, &rates, &own);
    assert_true(rates_load("a", &heads, &got, &busy, &has_attention) && has_attention);
    assert_true(got.product[FORMAT_Q4_0].is_known && got.product[FORMAT_F16].is_known);
    unsetenv("XDG_CACHE_HOME");
    snprintf(cache, sizeof cache, "rm -r %s/runnel", folder.path);
    assert_int_equal(system(cache), 0);
    data_folder_remove(&folder);
    free(here);
}

// Rates belong to a device: another processor's threads and instruction sets have a key of their
// own, and a device with a name has its own.
CASE(rates_have_a_key_for_each_device) {
    const struct tools_device cpu = {.backend = "cpu"};
    const struct tools_device first = {.backend = "abacus", .name = "Abacus 9000"};
    const struct tools_device second = {.backend = "abacus", .name = "Abacus 9001"};
    char a[RATES_KEY], b[RATES_KEY];
    rates_key_make(&cpu, 1, "auto", a);
    rates_key_make(&cpu, 2, "auto", b);
    assert_string_not_equal(a, b);
    rates_key_make(&first, 1, "auto", b);
    assert_string_not_equal(a, b);
    rates_key_make(&first, 2, "avx2", a);
    assert_string_equal(a, b);
    assert_non_null(strstr(a, "abacus Abacus 9000"));
    rates_key_make(&second, 1, "auto", b);
    assert_string_not_equal(a, b);
}

// Rates that are kept for this machine are used, and nothing is measured: the times are theirs.
CASE(a_matrix_without_a_device_is_planned_for_this_machine) {
    const struct data_folder folder = data_folder_make();
    char text[PATH_MAX], *here = getcwd(NULL, 0), key[RATES_KEY];
    assert_non_null(here);
    snprintf(text, sizeof text, "%s/%s", here, folder.path);
    setenv("XDG_CACHE_HOME", text, 1);
    struct predict_rates rates = {.bandwidth = 1e10, .int_flops = 1e12, .float_flops = 1e12};
    rates.product[FORMAT_F16] = (struct predict_product){.is_known = true, .share = 1};
    for (int i = 0; i < PREDICT_POINTS; i++) { // 0.1 ns are the time of a byte
        rates.product[FORMAT_F16].cached[i] = 0.02 * (4 + predict_rows[i]);
        rates.product[FORMAT_F16].overlap[i] = 1;
    }
    rates_key_make(&(struct tools_device){.backend = "cpu"}, 0, "auto", key);
    rates_save(key, &(struct rates_attention_key){.kv_type = "f16"}, &rates,
               &(struct rates_busy){.base = 0.02, .product[FORMAT_F16] = 0.42});
    json_t *root = json_of("--matrix 1000x1000:F16");
    const json_t *rows = json_object_get(json_object_get(root, "matrix"), "roofline");
    static const struct {
        double us;
        const char *bound;
    } wanted[] = {{200, "bandwidth"}, {480, "arithmetic"}};
    for (size_t i = 0; i < 2; i++) { // of 1 and 8 tokens
        const json_t *row = json_array_get(rows, i);
        near("time", json_number_value(json_object_get(row, "time_us")), wanted[i].us);
        assert_string_equal(json_string_value(json_object_get(row, "bound")), wanted[i].bound);
    }
    assert_string_equal(json_string_value(
                            json_object_get(json_object_get(root, "machine"), "kind")),
                        "measured");
    // rates of a busy machine are told every time
    assert_true(number_at(root, "machine", "busy_share") == 0.42);
    assert_non_null(strstr(json_string_value(json_array_get(json_object_get(root, "assumed"), 1)),
                           "other programs took 42% of the cores' time"));
    json_decref(root);
    for (int i = 0; i < 2; i++) {
        ran("--matrix 1000x1000:F16");
        assert_non_null(strstr(caught.out, "other programs took 42% of the cores' time while"));
        assert_non_null(strstr(caught.err, "warning: other programs took 42%"));
        assert_non_null(strstr(caught.err, "repeat with --measure"));
    }
    ran("--matrix 1000x1000:F16 --quiet");
    assert_string_equal(caught.err, "");
    unsetenv("XDG_CACHE_HOME");
    snprintf(text, sizeof text, "rm -r %s/runnel", folder.path);
    assert_int_equal(system(text), 0);
    data_folder_remove(&folder);
    free(here);
}

TEST_PROGRAM(plan) { return cases_run(environment_clean, NULL); }
