// The bytes that KV append writes into a page, by every instruction set. An entry's bytes depend on
// its own token alone, also for unusual numbers. The codes' accuracy is tested by test_ops.c.
#include <math.h>

#include "backend/cpu/reference.h"
#include "parts.h"

static void append_one(const struct cpu_ops *ops, enum kv_type type, int dim, const float *k,
                       const float *v, int slot, uint8_t *page) {
    const struct kv_append_args args = {.k = k,
                                        .v = v,
                                        .layer = page,
                                        .slot = slot,
                                        .n_head_kv = 1,
                                        .dim_k = dim,
                                        .dim_v = dim,
                                        .type = type};
    ops->kv_append(&args);
}

// Whatever the page held, an entry writes the same bytes, and its share of the page's bytes alone.
CASE(an_entry_depends_on_its_own_token_alone) {
    static const int dims[] = {16, 64, 80, 33, 256};
    for (int i = 0; i < 5 * KV_TYPE_COUNT * 3; i++) {
        const enum kv_type type = (enum kv_type)(i % KV_TYPE_COUNT);
        const int dim = dims[i / KV_TYPE_COUNT % 5], slot = (int)(rng() % KV_PAGE_TOKENS);
        const uint32_t bytes = kv_layout_of(type, dim, dim).bytes;
        uint8_t *zeros = calloc(1, bytes), *ones = malloc(bytes);
        assert_true(zeros && ones);
        memset(ones, 0xff, bytes);
        float *k = floats(dim), *v = floats(dim);
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            const struct cpu_ops *ops = ops_at((enum cpu_isa)isa);
            if (!ops) continue;
            append_one(ops, type, dim, k, v, slot, zeros);
            append_one(ops, type, dim, k, v, slot, ones);
            uint32_t same = 0;
            for (uint32_t at = 0; at < bytes; at++) {
                same += zeros[at] == ones[at];
                assert_true(zeros[at] == ones[at] || (zeros[at] == 0 && ones[at] == 0xff));
            }
            assert_int_equal(same, bytes / KV_PAGE_TOKENS);
        }
        free(zeros), free(ones), free(k), free(v);
    }
}

// Zeros, the smallest and largest numbers, NaN and infinities: the reference's bytes, and no finite
// result without finite numbers.
CASE(odd_entries_equal_the_reference) {
    static const float odd[] = {0, -0.0f, 1e-42f, 1e-30f, 3e-8f, 65504, 1e7f, 3e38f, INFINITY};
    enum { DIM = 80, N_ODD = sizeof odd / sizeof *odd };
    for (int i = 0; i < 4 * N_ODD; i++) {
        const enum kv_type type = i % 2 ? KV_INT8 : KV_INT4;
        const uint32_t bytes = kv_layout_of(type, DIM, DIM).bytes;
        uint8_t *want = calloc(1, bytes), *got = malloc(bytes);
        assert_true(want && got);
        float *k = floats(DIM), *v = floats(DIM);
        for (int d = 0; i / 2 % 2 && d < DIM; d++) k[d] = v[d] = 0;
        for (int d = 0; d < DIM; d += 16) k[d] = -odd[i / 4], v[d + 3] = odd[i / 4];
        append_one(&ops_scalar, type, DIM, k, v, 7, want);
        for (int isa = 1; isa < ISA_COUNT; isa++) {
            const struct cpu_ops *ops = ops_at((enum cpu_isa)isa);
            if (!ops) continue;
            memset(got, 0, bytes);
            append_one(ops, type, DIM, k, v, 7, got);
            check(memcmp(got, want, bytes) == 0, "%s %s: %g", ops->name, kv_type_names[type],
                  (double)odd[i / 4]);
        }
        float out[DIM], scratch[2 * DIM];
        const int32_t pos = 7;
        const uint32_t table = 0;
        const struct attention_args args = {.q = k,
                                            .out = out,
                                            .ldq = DIM,
                                            .pos = &pos,
                                            .n_rows = 1,
                                            .n_head = 1,
                                            .n_head_kv = 1,
                                            .dim_k = DIM,
                                            .dim_v = DIM,
                                            .window = 1,
                                            .scale = 1,
                                            .type = type,
                                            .pages = want,
                                            .page_bytes = bytes,
                                            .page_table = &table};
        reference_attention(&args, scratch);
        check(isfinite(out[3]) == (odd[i / 4] < 1e6f || (type == KV_INT8 && odd[i / 4] < 8e6f)),
              "%s: %g becomes %g", kv_type_names[type], (double)odd[i / 4], (double)out[3]);
        free(want), free(got), free(k), free(v);
    }
}

// Of a latent group the key is all that is stored; a lone position's result is its beginning.
CASE(a_value_of_a_latent_is_the_beginning_of_its_key) {
    static const int dims[][2] = {{576, 512}, {40, 32}, {32, 24}, {7, 5}, {96, 64}};
    static const float error[KV_TYPE_COUNT] = {0, 2e-3f, 0.03f, 0.6f};
    for (int i = 0; i < 5 * KV_TYPE_COUNT; i++) {
        const enum kv_type type = (enum kv_type)(i % KV_TYPE_COUNT);
        const int dim_k = dims[i / KV_TYPE_COUNT][0], dim_v = dims[i / KV_TYPE_COUNT][1];
        const uint32_t bytes = kv_layout_latent(type, dim_k).bytes;
        uint8_t *want = calloc(1, bytes), *got = malloc(bytes);
        float *k = floats(dim_k), *out = floats(dim_v), *scratch = floats(2 * dim_k);
        assert_true(want && got);
        struct kv_append_args append = {.k = k,
                                        .layer = want,
                                        .slot = 9,
                                        .n_head_kv = 1,
                                        .dim_k = dim_k,
                                        .dim_v = dim_v,
                                        .is_latent = true,
                                        .type = type};
        reference_kv_append(&append);
        append.layer = got;
        for (int isa = 1; isa < ISA_COUNT; isa++) {
            const struct cpu_ops *ops = ops_at((enum cpu_isa)isa);
            if (!ops) continue;
            memset(got, 0, bytes);
            ops->kv_append(&append);
            check(memcmp(got, want, bytes) == 0, "%s %s", ops->name, kv_type_names[type]);
        }
        // the other slots of the page are zeros: their scores are 0, and the largest is the key's
        const int32_t pos = 9;
        const uint32_t table = 0;
        const struct attention_args args = {.q = k,
                                            .out = out,
                                            .pos = &pos,
                                            .n_rows = 1,
                                            .n_head = 1,
                                            .n_head_kv = 1,
                                            .dim_k = dim_k,
                                            .dim_v = dim_v,
                                            .is_latent = true,
                                            .scale = 1e4f,
                                            .type = type,
                                            .pages = want,
                                            .page_bytes = bytes,
                                            .page_table = &table};
        reference_attention(&args, scratch);
        for (int d = 0; d < dim_v; d++)
            check(fabsf(out[d] - k[d]) <= error[type], "%s, %d of %d: element %d is %g, not %g",
                  kv_type_names[type], dim_v, dim_k, d, (double)out[d], (double)k[d]);
        free(want), free(got), free(k), free(out), free(scratch);
    }
}

// ---------------------------------------------------------------- bytes

// Of a token in one layer.
static uint64_t token_bytes(enum kv_type type, int n_head_kv, int dim) {
    const struct plan_kv_group group = {KV_FULL, 3, n_head_kv, dim, dim, 0, 0, 0, false};
    return kv_page_bytes(&group, type, false) / 3 / KV_PAGE_TOKENS;
}

CASE(a_page_is_its_tokens) {
    const struct plan_kv_group group = {KV_WINDOW, 3, 2, 16, 16, 40, 0, 0, false};
    assert_int_equal(kv_page_bytes(&group, KV_F32, false), 3 * 2 * 2 * 16 * 4 * KV_PAGE_TOKENS);
    // a latent of 512 and 64, once; int8 has a scale for each 64
    const struct plan_kv_group latent = {KV_FULL, 2, 1, 576, 512, 0, 0, 0, true};
    assert_int_equal(kv_page_bytes(&latent, KV_F32, false), 2 * 576 * 4 * KV_PAGE_TOKENS);
    assert_int_equal(kv_page_bytes(&latent, KV_F16, false), 2 * 576 * 2 * KV_PAGE_TOKENS);
    assert_int_equal(kv_page_bytes(&latent, KV_INT8, false), 2 * (576 + 18) * KV_PAGE_TOKENS);
    assert_int_equal(kv_page_bytes(&latent, KV_INT4, false), 2 * (288 + 36) * KV_PAGE_TOKENS);
    assert_int_equal(token_bytes(KV_F16, 2, 16), 2 * 2 * 16 * 2);
    assert_int_equal(token_bytes(KV_INT8, 2, 16), 2 * 2 * (16 + 2));
    assert_int_equal(token_bytes(KV_INT4, 2, 16), 2 * (16 / 2 + 2 + 16 + 2)); // values are padded
    assert_int_equal(token_bytes(KV_INT4, 5, 64), 5 * 2 * (64 / 2 + 2 * 2));
    const struct plan_kv_group states = {.kind = KV_RECURRENT, .n_layer = 2, .state = 48};
    for (int type = 0; type < KV_TYPE_COUNT; type++)
        assert_int_equal(kv_page_bytes(&states, (enum kv_type)type, false), 2 * 48 * 4);
}

CASE(kv_types_are_found_by_their_names) {
    for (int type = 0; type < KV_TYPE_COUNT; type++)
        assert_int_equal(kv_type_find(kv_type_names[type]), type);
    assert_int_equal(kv_type_find("f15"), -1);
    assert_null(kv_type_names[KV_TYPE_COUNT]);
}

TEST_PROGRAM(kv_codes) { return cases_run(NULL, NULL); }
