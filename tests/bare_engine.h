// Engines of the public interface whose inside the test can see (struct rn_engine). They may have
// the test's own clock and backend, and models that do not come from a file. rn_model_close closes
// those too. Every engine tests its invariants after each step (self_check).
#ifndef RN_TESTS_BARE_ENGINE_H
#define RN_TESTS_BARE_ENGINE_H

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "load/vocab.h"
#include "runnel_model.h"

#define MIX_NO_THREAD 1 // steps are the caller's

// Of engines that are created from now on.
extern struct engine_clock bare_clock;
extern const struct backend_class *bare_class, *bare_draft_class; // NULL: as options say

// The units of work that all masks of a step share; 0: the usual ones.
extern int64_t bare_mask_units;

// Of their page stores: the calls to the system, NULL: its own; and whether stored pages are read
// even where computing is faster.
extern const struct page_io *bare_store_io;
extern bool bare_store_always;

// A file's model.
rn_model *bare_open(const char *path);

// The model of recurrent_model.h with the tokens of a small vocabulary, padded to n_vocab.
rn_model *bare_open_recurrent(int n_vocab, int n_ctx);
// The same with pages of states of n_state layers: with f16, BARE_STATES(n) puts n blocks between
// checkpoints.
rn_model *bare_open_states(int n_vocab, int n_ctx, int n_state);
#define BARE_STATES(n_block) ((n_block)*8192 / 1068) // bytes of a block's KV, of a layer's state

// The parts of such a model: its vocabulary, and the rest once `model` is set.
rn_model *bare_open_vocab(int n_vocab);
void bare_fill_info(rn_model *model, int n_ctx);

#endif
