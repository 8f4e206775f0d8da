// The rates of predictions (tools_rates.c): every format and KV type can be measured, and the
// figures are usable. How exact they are is tests/bench_predict.c's question.
// label: no-address
#include "check.h"

#include "tools.h"

static const struct tools_rates_options rough = {.is_rough = true, .n_threads = 1};
static const struct predict_rates base = {.cache_bytes = 1 << 20};

CASE(products_of_formats_have_rates) {
    static const enum format_id formats[] = {FORMAT_F16, FORMAT_Q4_K, FORMAT_MXFP4};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct predict_product product;
        rn_error err = {0};
        const rn_status status = tools_rates_product(&rough, &base, formats[i], &product, &err);
        check(status == RN_OK && product.is_known, "%s", err.message);
        for (int p = 0; p < PREDICT_POINTS; p++)
            check(product.cached[p] > 0 && product.output[p] >= 0 && product.input[p] >= 0,
                  "format %d, %d rows", formats[i], predict_rows[p]);
        check(product.share > 0, "format %d", formats[i]);
        // 256 rows have 256 times the operations: they cannot take the time of one
        check(product.cached[PREDICT_POINTS - 1] > 2 * product.cached[0], "format %d", formats[i]);
    }
}

CASE(ops_over_rows_and_attention_have_rates) {
    struct predict_rates rates;
    rn_error err = {0};
    assert_int_equal(tools_rates_base(&rough, &rates, &err), RN_OK);
    assert_true(rates.bandwidth > 0 && rates.int_flops > 0 && rates.float_flops > 0);
    static const enum op_kind kinds[] = {OP_NORM, OP_ROPE, OP_KV_APPEND, OP_GATE, OP_TEMPER};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        check(rates.op[kinds[i]].float_ns > 0 || rates.op[kinds[i]].fixed_ns > 0, "%s",
              op_name(kinds[i]));
    const struct plan_kv_group group = {.n_head_kv = 2, .dim_k = 64, .dim_v = 64};
    struct tools_device device;
    assert_int_equal(tools_device_find(&rough.place, &device, &err), RN_OK);
    for (const char *const *types = device.kv_types, *type; (type = *types); types++) {
        struct tools_rates_options options = rough;
        struct predict_attention attention;
        options.kv_type = type;
        const rn_status status =
            tools_rates_attention(&options, &group, 8, 1 << 20, &attention, &err);
        check(status == RN_OK, "%s: %s", type, err.message);
        check(attention.memory.byte_ns > 0 && attention.flop_ns > 0, "%s", type);
    }
}

static bool stop_now(void) { return true; }

CASE(measuring_can_be_stopped) {
    struct tools_rates_options options = rough;
    struct predict_product product;
    options.stop = stop_now;
    assert_int_equal(tools_rates_product(&options, &base, FORMAT_F16, &product, NULL),
                     RN_ERR_CANCELLED);
}

TEST_PROGRAM(rates) { return cases_run(NULL, NULL); }
