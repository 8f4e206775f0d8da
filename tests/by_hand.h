// For the programs that measure and are run by hand: they open a model by name and end at the first
// failure, with a message that starts with BY_HAND, their own name.
#ifndef RN_TESTS_BY_HAND_H
#define RN_TESTS_BY_HAND_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools.h"

static inline _Noreturn void fail(const rn_error *err) {
    fprintf(stderr, BY_HAND ": %s\n", err->message);
    exit(1);
}

// A GGUF file, or the shape of a synthetic model such as 1b:Q4_0.
static inline rn_model *open_model(const char *name) {
    rn_error err = {0};
    rn_model *model;
    const rn_status status = strchr(name, ':') ? tools_model_open_synthetic(name, &model, &err)
                                               : rn_model_open(name, &model, &err);
    if (status) fail(&err);
    return model;
}

static inline int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Rates of all formats of the plan and of its first group's attention.
static inline void rates_measure(const struct plan *plan, struct predict_rates *out) {
    const struct tools_rates_options options = {0};
    rn_error err = {0};
    int n_head = 0;
    if (tools_rates_base(&options, out, &err)) fail(&err);
    for (int i = 0; i < plan->n_op; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind == OP_ATTENTION) n_head = op->kv.n_head;
        if (!op_is_product(op->kind)) continue;
        const enum format_id format = plan->weight[op->weight].format;
        if (out->product[format].is_known) continue;
        if (tools_rates_product(&options, out, format, &out->product[format], &err)) fail(&err);
    }
    if (tools_rates_attention(&options, &plan->group[0], n_head, out->cache_bytes, &out->attention,
                              &err))
        fail(&err);
}

#endif
