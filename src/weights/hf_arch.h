// An architecture's description of its Hugging Face folders: rows that hf_config.c, hf_rope.c and
// hf_tensors.c run, and calls for its own functions where rows are not enough. The rows themselves
// are in src/model/: the code here knows how to read a folder, and no model.
#ifndef RN_WEIGHTS_HF_ARCH_H
#define RN_WEIGHTS_HF_ARCH_H

#include <stddef.h>

#include "weights/weights.h"

struct hf_config;
struct hf_mapper;

// --- rows. Tables end with a row of zeros. ---

enum hf_type { HF_INT, HF_FLOAT, HF_BOOL };

#define HF_REQUIRED     -1.0
#define HF_ABSENT       -2.0 // no metadata then
#define HF_NUMBER(name) offsetof(struct hf_config, name)
#define HF_POSITIVE     1e-30, 1e30
enum { HF_MAX_LAYER = 4096, HF_MAX_ACTIVATIONS = 4, HF_MAX_TABLES = 7 };

// A value of config.json that becomes metadata.
struct hf_key {
    const char *name, *other; // the first of the two that exists is used; other NULL: none
    const char *gguf;         // "<arch>.<gguf>"
    enum hf_type type;
    double min, max;
    double fallback; // the class's default, HF_REQUIRED or HF_ABSENT
    size_t number;   // HF_NUMBER(...) that keeps an integer; 0: none
    size_t like;     // the fallback is that number; 0: it is `fallback`
};

// A setting of which one value alone is supported: a number, a bool as 0 or 1, the length of an
// array.
struct hf_setting {
    const char *name;
    double fallback, value;
    const char *expected; // for the message
};

struct hf_activation {
    const char *key;
    const char *names[HF_MAX_ACTIVATIONS]; // any of these, or none at all
    const char *expected;                  // for the message
};

// Which layers see a window only. If layer_types exists, it decides.
struct hf_window {
    // Marks them as the class does; NULL: the class has no window.
    void (*mark)(struct hf_config *c, uint8_t *is_local);
    const char *flag; // a bool without which no layer has one; NULL: none is needed
    bool is_always;   // 0 is written where no layer has one: GGUF's own default is another
    int size;         // the window of a config without the key sliding_window; 0: none
    int period;       // of hf_window_period, where the config tells none
};

struct hf_scaling {
    const char *type;
    void (*read)(struct hf_config *c, double theta);
};

struct hf_rope {
    double theta;                      // default; 0: the class has no rope
    double theta_local;                // default for layers with a window; 0: as the others
    const struct hf_scaling *scalings; // that the class knows; NULL: hf_scalings
    bool is_partial;                   // partial_rotary_factor may be other than 1
    double part;                       // its default; 0: 1
    bool is_permuted;                  // GGUF permutes q and k, a folder does not
    // The base, of rope_theta, where that is another number; NULL: it is the same.
    double (*base)(struct hf_config *c, double theta);
    void (*more)(struct hf_config *c); // keys between the base and the scaling; NULL: none
};

// A tensor of the files. Names are without "model.", "language_model.", "transformer." and
// "backbone.".
typedef void hf_map(struct hf_mapper *m);
struct hf_tensor {
    const char *pattern; // # is a number: the layer, then the expert; * at the end: any rest
    const char *name;    // GGUF's; # is the layer, @ gate or up; NULL: there is none
    hf_map *map;
};

struct hf_class {
    const char *name;                         // in architectures
    const char *model_type;                   // where there are no architectures
    bool (*is_for)(struct hf_config *c);      // of classes of one name: whose config this is
    const struct hf_key *keys[HF_MAX_TABLES]; // in the order of the metadata
    const struct hf_setting *settings;        // NULL: none
    const struct hf_activation *activation;   // the supported one
    const char *quant_method;                 // the supported one; NULL: none
    struct hf_window window;
    struct hf_rope rope;
    int head_dim; // default; 0: width / heads
    // Sets head_dim and writes the keys of heads instead; NULL: head_dim is read.
    void (*heads)(struct hf_config *c);
    bool is_tied;                      // default of tie_word_embeddings
    void (*read)(struct hf_config *c); // called where rows are not enough; NULL: they are
    const struct hf_tensor *tensors[HF_MAX_TABLES];
};

// An architecture's classes, under GGUF's name of it. Tables of these end with a row of zeros.
struct hf_arch {
    const char *name;
    const struct hf_class *classes;
};

// --- while a config is read ---

// The JSON text of a value; text is NULL where there is none.
struct hf_value {
    const char *text;
    size_t len;
};

struct hf_member;
struct hf_object {
    const struct hf_member *member; // [n]
    int n;
    const struct hf_object *under; // has the keys that this one has not; NULL: none
};

// What quantization_config says.
enum hf_integers {
    HF_INTEGERS_NONE,
    HF_INTEGERS_GPTQ,   // qweight packed by inputs, qzeros, scales, g_idx
    HF_INTEGERS_AWQ,    // qweight packed by outputs in an order of its own, qzeros, scales
    HF_INTEGERS_PACKED, // weight_packed or 8-bit integers, weight_scale, weight_zero_point
};
struct hf_quant {
    bool has_fp8;               // tensors may be in F8_E4M3, with scales
    int64_t fp8_rows, fp8_cols; // of a block of them
    enum hf_integers integers;  // how tensors of integers are stored
    int64_t group;              // inputs that have a scale; 0: the tensors' shapes say it
    int bits;                   // of packed codes, where all have the same; 0: the shapes say it
    bool is_less_one;           // stored zero points are
    bool needs_order;           // tensors of several groups must say which inputs are theirs
};

// The first error is kept in status and stops the rest: every call below returns at once then, with
// a harmless value.
struct hf_config {
    struct weights *weights;
    rn_error *err;
    rn_status status;
    const char *path;            // of the file, for messages
    const char *text;            // its first byte, for offsets in messages
    const struct hf_arch *archs; // the known ones
    struct hf_object root, outer, rope, rope_local;
    const struct hf_class *class;
    const char *arch; // GGUF's name
    // Numbers that the tensors need.
    int64_t n_layer, n_embd, n_head, n_head_kv, n_ff, n_ctx, head_dim, n_rot;
    int64_t n_expert, n_expert_used, n_ff_expert; // n_expert is 0: there are none
    int64_t n_latent, dim_nope, dim_value;        // of kv_b: its columns, and a head's two parts
    int64_t n_nextn; // layers behind these that may be in the files, and predict further tokens
    bool is_tied;
    bool is_alone;          // no tensors are read, so their quantization is not checked
    struct hf_quant quant;  // of the tensors
    const float *tap_scale; // [n_tap_scale] factors of a convolution's channels; NULL: none
    int64_t n_tap_scale;
};

// Takes the members of the object at value. The index is in the weights' arena.
void hf_object_read(struct hf_config *c, struct hf_value value, struct hf_object *out);

// A value of a wrong kind or out of its range is an error. An absent or null value gives the
// fallback, without range check.
int64_t hf_int(struct hf_config *c, const struct hf_object *object, const char *key, int64_t min,
               int64_t max, int64_t fallback);
double hf_number(struct hf_config *c, const struct hf_object *object, const char *key, double min,
                 double max, double fallback);
bool hf_bool(struct hf_config *c, const struct hf_object *object, const char *key, bool fallback);
// "" where it is absent; of longer strings the beginning.
void hf_string(struct hf_config *c, const struct hf_object *object, const char *key, char *out,
               size_t size);
// The n numbers of an array. False: there is none, or it is wrong.
bool hf_numbers(struct hf_config *c, const char *key, double min, double max, double *out, int n);
// The items of an array; 0 where it is absent.
int64_t hf_count(struct hf_config *c, const char *key);
// Any of: the number, 0 or 1 of a bool, the number of items of an array.
double hf_measure(struct hf_config *c, const struct hf_object *object, const char *key,
                  double fallback);
// There, and not null.
bool hf_has(struct hf_config *c, const struct hf_object *object, const char *key);
// The value's text. A key that occurs twice is an error.
struct hf_value hf_find(struct hf_config *c, const struct hf_object *object, const char *key);

void hf_fail(struct hf_config *c, rn_status status, const char *fmt, ...) RN_PRINTF(3, 4);
// "config.json: offset 31: hidden_size is -1, expected 1 to 131072"
void hf_fail_value(struct hf_config *c, rn_status status, const struct hf_object *object,
                   const char *key, const char *expected);

// Metadata under "<arch>.<suffix>".
void hf_put_u32(struct hf_config *c, const char *suffix, int64_t value);
void hf_put_f32(struct hf_config *c, const char *suffix, double value);
void hf_put_bool(struct hf_config *c, const char *suffix, bool value);
void hf_put_u32s(struct hf_config *c, const char *suffix, const uint32_t *values, int64_t count);
void hf_put_bools(struct hf_config *c, const char *suffix, const uint8_t *values, int64_t count);

// hf_config.c: of each layer the index of its type in names, [n_layer]; names end with NULL. False:
// there is no layer_types, or it is wrong.
bool hf_layer_types(struct hf_config *c, const char *const *names, uint8_t *out);
// The same under another key than layer_types.
bool hf_layer_names(struct hf_config *c, const char *key, const char *const *names, uint8_t *out);
// The integers of an array, at most `max` of them, each from 0 to `most`; returns their number.
int64_t hf_ints(struct hf_config *c, const char *key, int64_t most, int64_t *out, int64_t max);
// An integer, or an array of one for each layer that are all equal.
int64_t hf_int_each(struct hf_config *c, const char *key, int64_t min, int64_t max,
                    int64_t fallback);
// Of each layer whether it has rope: no_rope_layers, which may be longer, else all but every
// no_rope_layer_interval-th.
void hf_rotated_layers(struct hf_config *c, uint8_t *rotated);
// An array of hf_config's n_layer items, in the weights' arena; NULL: no memory, or an error came.
uint32_t *hf_layers_new(struct hf_config *c);
// Sets tap_scale: count[i] channels have the factor scale[i], for n parts.
void hf_taps_scale(struct hf_config *c, const double *scale, const int64_t *count, int n);

// hf_config.c: windows of every layer, of layers 0, 2, 4 and on, of those from max_window_layers
// on, of all but each n-th: n is sliding_window_pattern, or else the class's period. EXAONE writes
// the pattern as a word, such as LLLG.
void hf_window_all(struct hf_config *c, uint8_t *is_local);
void hf_window_alternate(struct hf_config *c, uint8_t *is_local);
void hf_window_upper(struct hf_config *c, uint8_t *is_local);
void hf_window_period(struct hf_config *c, uint8_t *is_local);

// hf_rope.c: linear, yarn and llama3, and each alone.
extern const struct hf_scaling hf_scalings[];
void hf_scaling_linear(struct hf_config *c, double theta);
void hf_scaling_yarn(struct hf_config *c, double theta);
void hf_scaling_llama3(struct hf_config *c, double theta);
void hf_scaling_longrope(struct hf_config *c, double theta);
// The first frequencies of the whole head, partial_rotary_factor of them; the others are 0.
void hf_scaling_proportional(struct hf_config *c, double theta);
// original_max_position_embeddings, else the context.
int64_t hf_original_context(struct hf_config *c);

// --- hf_maps.c: maps of tensors. Those of experts are for classes that require expert_count. ---
hf_map hf_map_view;            // the file's bytes
hf_map hf_map_head;            // a view, unless the head is tied to the embedding
hf_map hf_map_ignore;          // nothing: buffers that are computed here
hf_map hf_map_left_out;        // noted: parts that text does not need, such as those of images
hf_map hf_map_number;          // a tensor of one number, of any number of dimensions
hf_map hf_map_add_one;         // a vector with 1 added
hf_map hf_map_minus_exp;       // a vector x as -exp(x): the decay of a state
hf_map hf_map_taps;            // [channels, 1, taps] of a convolution, as [channels, taps]
hf_map hf_map_shared_gate_up;  // [2 ff, in] of the expert of all tokens, the gate's rows first.
hf_map hf_map_shared_down;     // [out, ff] of it. In a model without experts: the feed-forward
hf_map hf_map_kv_b;            // [heads (nope + value), latent]: keys' part transposed by head
hf_map hf_map_transposed;      // of [in, out], as Conv1D has it
hf_map hf_map_expert;          // one expert's matrix: a slice of the GGUF tensor
hf_map hf_map_experts_gate_up; // [experts, 2 ff, in], the gate's rows first
hf_map hf_map_experts_down;    // [experts, out, ff]
hf_map hf_map_linears_gate_up; // as gate_up, under a name that tells the order of the axes
hf_map hf_map_turns_gate_up;   // [experts, in, 2 ff], gate and up by turns
hf_map hf_map_columns_gate_up; // [experts, in, 2 ff], the gate's columns first
hf_map hf_map_turns_bias;      // [experts, 2 ff], by turns
hf_map hf_map_turns_down;      // [experts, ff, out]
hf_map hf_map_mxfp4_gate_up;   // nibbles [experts, 2 ff, in / 32, 16], rows of gate and up by turns
hf_map hf_map_mxfp4_down;      // nibbles [experts, out, ff / 32, 16]
hf_map hf_map_mxfp4_scales;    // read with the nibbles

#endif
