// Rows about Hugging Face folders that several architectures share. A class lists the tables it
// has, and adds its own rows.
#ifndef RN_MODEL_HF_ROWS_H
#define RN_MODEL_HF_ROWS_H

#include "weights/hf_arch.h"

// Keys: numbers of layers, positions and width; with RMS norms also feed-forward, heads and
// epsilon. KV heads, whose metadata follow all others. The number of experts, and how many a token
// uses.
extern const struct hf_key hf_keys_size[], hf_keys_decoder[], hf_keys_kv[], hf_keys_experts[];

// Tensors: embedding, head, q, k, v and o with biases; the norms before the two blocks and the last
// one; the same behind the two blocks; norms of q and k; feed-forward; its biases; feed-forward
// under the name feed_forward; experts, one by one or stacked; experts as Mixtral names them; the
// shared expert and the bias of the choice; the block behind the layers, for classes that set
// n_nextn; towers for images, which are left out.
extern const struct hf_tensor hf_tensors_decoder[], hf_tensors_norms[], hf_tensors_norms_behind[],
    hf_tensors_qk_norms[], hf_tensors_mlp[], hf_tensors_mlp_bias[], hf_tensors_feed_forward[],
    hf_tensors_experts[], hf_tensors_mixtral[], hf_tensors_shared[], hf_tensors_nextn[],
    hf_tensors_towers[];

extern const struct hf_activation hf_silu; // hidden_act

#endif
