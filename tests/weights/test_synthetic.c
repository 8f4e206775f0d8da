// Synthetic models: sizes are those of the models they are named after, and mixes give the formats
// they promise. Values are plausible and the same each time, and unknown names are reported.
#include "weights/synthetic.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static struct weights *open_spec(const char *spec) {
    struct weights *weights;
    rn_error err = {0};
    check(weights_open_synthetic(spec, &weights, &err) == RN_OK, "%s: %s", spec, err.message);
    return weights;
}

static struct weights *describe(const char *spec) {
    struct weights *weights;
    rn_error err = {0};
    check(weights_describe_synthetic(spec, &weights, &err) == RN_OK, "%s: %s", spec, err.message);
    return weights;
}

static uint64_t count_params(const struct weights *weights) {
    uint64_t n = 0;
    for (int i = 0; i < weights_tensor_count(weights); i++) {
        const struct tensor_view *t = weights_tensor_at(weights, i);
        n += (uint64_t)(t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3]);
    }
    return n;
}

// The published models' own numbers.
CASE(shapes_have_the_parameters_of_the_models_they_are_named_after) {
    static const struct {
        const char *spec;
        uint64_t n_params;
    } cases[] = {
        {"135m:F16", 134515008},
        {"360m:F16", 361821120},
        {"0.6b:F16", 596049920},
        {"1b:F16", 1235814400},
        {"1.7b:F16", 1720574976},
        {"3b:F16", 3212749824},
        {"4b:F16", 4022468096},
        {"7b:F16", 7248023552},
        {"8b:F16", 8030261248},
        {"13b:F16", 13015864320},
        {"14b:F16", 14768307200},
        {"32b:F16", 32762123264},
        {"70b:F16", 70553706496},
        {"405b:F16", 405853388800},
        {"mixtral-8x7b:F16", 46702792704},
        {"qwen3-30b-a3b:F16", 30532122624},
        {"qwen3-235b-a22b:F16", 235093634560},
        {"gpt-oss-20b:BF16", 20914757184},
        {"gpt-oss-120b:BF16", 116829156672},
        {"deepseek-v3:BF16", 671026419200},
        {"deepseek-r1:BF16", 671026419200},
        {"kimi-k2:BF16", 1026408232448},
        {"glm-4.6:BF16", 356785898816},
        {"minimax-m2:BF16", 228689764864},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weights *weights = describe(cases[i].spec);
        check(count_params(weights) == cases[i].n_params, "%s: %llu parameters, expected %llu",
              cases[i].spec, (unsigned long long)count_params(weights),
              (unsigned long long)cases[i].n_params);
        weights_close(weights);
    }
}

static const char *format_of(const struct weights *weights, const char *name) {
    const struct tensor_view *tensor = weights_tensor_find(weights, name);
    check(tensor != NULL, "no tensor %s", name);
    return format_at(tensor->format)->name;
}

CASE(a_plain_format_is_that_of_every_matrix) {
    for (int id = 0; id < FORMAT_COUNT; id++) {
        char spec[32];
        snprintf(spec, sizeof spec, "8b:%s", format_at((enum format_id)id)->name);
        struct weights *weights = describe(spec);
        for (int i = 0; i < weights_tensor_count(weights); i++) {
            const struct tensor_view *t = weights_tensor_at(weights, i);
            const enum format_id want = t->n_dims == 1 ? FORMAT_F32 : (enum format_id)id;
            check(t->format == want, "%s: %s is %s", spec, t->name, format_at(t->format)->name);
        }
        weights_close(weights);
    }
}

CASE(mixes_give_more_bits_where_they_promise) {
    static const struct {
        const char *spec, *tensor, *format;
    } cases[] = {
        {"8b:Q4_K_M", "token_embd.weight", "Q4_K"},
        {"8b:Q4_K_M", "output.weight", "Q6_K"},
        {"1b:Q4_K_M", "token_embd.weight", "Q6_K"}, // tied: it is the head
        {"8b:Q4_K_M", "blk.3.attn_v.weight", "Q6_K"},
        {"8b:Q4_K_M", "blk.4.attn_v.weight", "Q4_K"},
        {"8b:Q4_K_M", "blk.5.ffn_down.weight", "Q4_K"},
        {"8b:Q4_K_M", "blk.6.ffn_down.weight", "Q6_K"},
        {"8b:Q4_K_M", "blk.27.ffn_down.weight", "Q6_K"},
        {"8b:Q4_K_M", "blk.28.ffn_down.weight", "Q6_K"},
        {"8b:Q4_K_M", "blk.6.attn_q.weight", "Q4_K"},
        {"8b:Q5_K_M", "blk.0.ffn_down.weight", "Q6_K"},
        {"8b:Q5_K_M", "blk.0.ffn_up.weight", "Q5_K"},
        {"8b:Q3_K_M", "blk.1.attn_v.weight", "Q5_K"},
        {"8b:Q3_K_M", "blk.2.attn_v.weight", "Q4_K"},
        {"8b:Q3_K_M", "blk.2.ffn_down.weight", "Q4_K"},
        {"8b:Q3_K_M", "blk.9.attn_output.weight", "Q4_K"},
        {"8b:Q2_K_S", "blk.9.attn_v.weight", "Q4_K"},
        {"3b:Q2_K_S", "blk.9.attn_v.weight", "Q2_K"}, // 3 heads share a KV head
        {"8b:Q4_K_S", "blk.3.ffn_down.weight", "Q5_K"},
        {"8b:Q4_K_S", "blk.4.ffn_down.weight", "Q4_K"},
        {"qwen3-30b-a3b:Q4_K_M", "blk.0.ffn_down_exps.weight", "Q6_K"},
        {"qwen3-30b-a3b:Q4_K_M", "blk.0.ffn_gate_inp.weight", "F32"},
        {"gpt-oss-20b:MXFP4_MOE", "blk.0.ffn_down_exps.weight", "MXFP4"},
        {"gpt-oss-20b:MXFP4_MOE", "blk.0.attn_q.weight", "Q8_0"},
        // rows of 576 are not whole blocks of 256
        {"135m:Q4_K_M", "blk.0.attn_q.weight", "Q5_0"},
        {"135m:Q4_K_M", "blk.0.attn_v.weight", "Q8_0"},
        {"135m:Q4_K_M", "blk.0.ffn_down.weight", "Q6_K"},
        {"135m:Q2_K", "blk.0.attn_q.weight", "IQ4_NL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weights *weights = describe(cases[i].spec);
        const char *got = format_of(weights, cases[i].tensor);
        check(strcmp(got, cases[i].format) == 0, "%s: %s is %s, expected %s", cases[i].spec,
              cases[i].tensor, got, cases[i].format);
        weights_close(weights);
    }
}

// The mean and the spread of a tensor.
static void measure(const struct tensor_view *t, double *mean, double *spread) {
    const int64_t n = t->dim[1] * t->dim[2];
    const uint64_t row_bytes = t->bytes / (uint64_t)n;
    float *row = malloc((size_t)t->dim[0] * sizeof *row);
    double sum = 0, squares = 0;
    for (int64_t r = 0; r < n; r++) {
        format_decode(t->format, (const char *)t->data + (uint64_t)r * row_bytes, row, t->dim[0]);
        for (int64_t i = 0; i < t->dim[0]; i++) {
            check(isfinite(row[i]), "%s: row %lld", t->name, (long long)r);
            sum += (double)row[i];
            squares += (double)row[i] * (double)row[i];
        }
    }
    const double count = (double)(n * t->dim[0]);
    *mean = sum / count;
    *spread = sqrt(squares / count);
    free(row);
}

// Like a model's: small, around 0, norms of 1.
static void check_values(const char *spec, const struct tensor_view *t) {
    double mean, spread;
    measure(t, &mean, &spread);
    if (strstr(t->name, "norm"))
        check(mean == 1 && spread == 1, "%s: %s: %g", spec, t->name, mean);
    else
        check(fabs(mean) < 0.002 && spread > 0.018 && spread < 0.022, "%s: %s: mean %g, spread %g",
              spec, t->name, mean, spread);
}

CASE(every_format_has_plausible_weights_that_differ_by_row_and_layer) {
    for (int id = 0; id < FORMAT_COUNT; id++) {
        // the encoders have tests of their own, and their searches are slow
        if (TEST_IS_SLOW && format_can_encode((enum format_id)id) && id > FORMAT_Q4_0) continue;
        char spec[32];
        snprintf(spec, sizeof spec, "tiny:%s", format_at((enum format_id)id)->name);
        struct weights *weights = open_spec(spec);
        for (int i = 0; i < weights_tensor_count(weights); i++)
            check_values(spec, weights_tensor_at(weights, i));
        const struct tensor_view *embd = weights_tensor_find(weights, "token_embd.weight");
        const uint64_t row_bytes = embd->bytes / (uint64_t)embd->dim[1];
        for (int64_t r = 1; r < embd->dim[1]; r++)
            check(memcmp(embd->data, (const char *)embd->data + (uint64_t)r * row_bytes,
                         row_bytes) != 0,
                  "%s: row %lld is row 0", spec, (long long)r);
        const struct tensor_view *a = weights_tensor_find(weights, "blk.0.attn_q.weight");
        const struct tensor_view *b = weights_tensor_find(weights, "blk.1.attn_q.weight");
        assert_int_equal(a->bytes, b->bytes);
        check(memcmp(a->data, b->data, a->bytes) != 0, "%s: layers are equal", spec);
        weights_close(weights);
    }
}

CASE(the_same_spec_in_any_case_gives_the_same_bytes) {
    struct weights *a = open_spec("tiny-oss:MXFP4_MOE"), *b = open_spec("TINY-OSS:mxfp4_moe");
    assert_int_equal(weights_tensor_count(a), weights_tensor_count(b));
    for (int i = 0; i < weights_tensor_count(a); i++) {
        const struct tensor_view *s = weights_tensor_at(a, i), *t = weights_tensor_at(b, i);
        assert_string_equal(s->name, t->name);
        assert_int_equal(s->bytes, t->bytes);
        assert_memory_equal(s->data, t->data, s->bytes);
    }
    weights_close(a);
    weights_close(b);
}

CASE(tensors_are_apart_and_inside_the_memory) {
    struct weights *weights = describe("gpt-oss-20b:MXFP4_MOE");
    uint64_t end = 0;
    for (int i = 0; i < weights_tensor_count(weights); i++) {
        const struct tensor_view *t = weights_tensor_at(weights, i);
        assert_true(t->offset >= end && t->offset % 64 == 0);
        assert_int_equal((uintptr_t)t->data - (uintptr_t)weights_tensor_at(weights, 0)->data,
                         t->offset);
        end = t->offset + t->bytes;
    }
    assert_true(end <= weights_bytes(weights) && end + 64 > weights_bytes(weights));
    weights_close(weights);
}

CASE(unknown_shapes_and_formats_are_named_with_the_known_ones) {
    static const struct {
        const char *spec, *part[3];
    } cases[] = {
        {"2b:Q4_0", {"'2b'", "0.6b", "70b"}},     {"", {"''", "135m", "gpt-oss-20b"}},
        {"1b8:Q4_0", {"'1b8'", "1b", "8b"}},      {"1b:Q4_9", {"'Q4_9'", "IQ4_XS", "Q5_K_M"}},
        {"1b:", {"''", "F32", "MXFP4_MOE"}},      {"1b:Q4_0:", {"'Q4_0:'", "Q4_0", "Q2_K_S"}},
        {"1b", {"'1b'", "no format", "1b:Q4_0"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weights *weights;
        rn_error err = {0};
        const rn_status status = weights_open_synthetic(cases[i].spec, &weights, &err);
        check(status == RN_ERR_ARG && !weights, "%s: %d", cases[i].spec, status);
        for (int p = 0; p < 3; p++)
            check(strstr(err.message, cases[i].part[p]) != NULL, "%s: no %s in: %s", cases[i].spec,
                  cases[i].part[p], err.message);
        assert_int_equal(weights_open_synthetic(cases[i].spec, &weights, NULL), RN_ERR_ARG);
    }
}

CASE(a_check_opens_nothing_and_refuses_what_opening_would) {
    const long page = sysconf(_SC_PAGESIZE);
    const uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)page;
    rn_error err = {0};
    struct weights *big;
    assert_int_equal(weights_check_synthetic("tiny:Q4_0", &err), RN_OK);
    assert_int_equal(weights_check_synthetic("tiny:Q9", &err), RN_ERR_ARG);
    static const char *const specs[] = {"1b:F32",  "3b:F16",  "8b:Q8_0", "3b:F32", "8b:F16",
                                        "14b:F16", "32b:F16", "70b:F16", "70b:F32"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) { // twice: as made, and as packed
        struct weights *weights = describe(specs[i]);
        const bool fits = weights_bytes(weights) <= memory / 2;
        weights_close(weights);
        const rn_status status = weights_check_synthetic(specs[i], &err);
        check(status == (fits ? RN_OK : RN_ERR_NOMEM), "%s: status %d", specs[i], (int)status);
        if (fits) continue;
        assert_int_equal(weights_open_synthetic(specs[i], &big, &err), RN_ERR_NOMEM);
        assert_null(big);
    }
}

TEST_PROGRAM(synthetic) { return cases_run(NULL, NULL); }
