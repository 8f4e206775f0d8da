// The table of architectures: what a row is, and the helpers that every architecture's file builds
// its plan with.
#ifndef RN_MODEL_ARCH_H
#define RN_MODEL_ARCH_H

#include "model/model.h"

// While a plan is built: the file, the plan, and the first error. Helpers do nothing after an
// error, so builders read as the architecture does, and check once at the end.
struct builder {
    const struct weights *weights;
    struct model *model;
    struct plan *plan;
    rn_status status;
    rn_error *err;
    int layer; // for names and ops; -1 outside the layers
};

struct arch {
    const char *name; // general.architecture
    // Reads what is particular to the architecture into hp (the common part is read), and refuses
    // what it cannot run.
    rn_status (*read)(struct hparams *hp, const struct weights *weights, rn_error *err);
    void (*build)(struct builder *b);
};

const struct arch *arch_find(const char *name, size_t len);
// The names that arch_find knows, separated by commas, for messages.
void arch_known(char *out, size_t size);

extern const struct arch arch_llama;

// --- hyper-parameters: "<arch>.<key>"; a missing optional key leaves *out as it is ---
rn_status hparams_int(const struct weights *weights, const char *key, int min, int max,
                      bool required, int *out, rn_error *err);
rn_status hparams_float(const struct weights *weights, const char *key, double min, double max,
                        bool required, float *out, rn_error *err);

// --- binding: name is a pattern with %d for the layer ---
int bind_matrix(struct builder *b, const char *pattern, int64_t rows,
                int64_t cols);                                      // PLAN_NONE after an error
int bind_vector(struct builder *b, const char *pattern, int64_t n); // a float format
int bind_optional_vector(struct builder *b, const char *pattern,
                         int64_t n); // PLAN_NONE when absent
bool bind_present(const struct builder *b, const char *pattern);

// --- ops ---
void build_embed(struct builder *b, int out, int weight, float scale);
void build_gather(struct builder *b, int in, int out);
void build_norm(struct builder *b, int in, int out, int weight, int group);
void build_matmul(struct builder *b, int in, int out, int weight, int bias, bool add);
void build_rope(struct builder *b, int buffer, int rope, int n_head, int dim);
void build_kv_append(struct builder *b, int k, int v, int group, int layer);
void build_attention(struct builder *b, int q, int out, int group, int layer, int n_head,
                     float scale);
void build_gate(struct builder *b, enum gate_kind kind, int gate, int up, int out);

#endif
