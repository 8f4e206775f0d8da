// The draft block of a model with experts on the CUDA backend. Texts with its drafts are those
// without, so steps of the block and of the model do not disturb each other.
#include "glm4_block.h"

static struct stream got[N_TEXTS];

CASE(texts_with_drafts_of_the_block_are_those_without) {
    const rn_draft_stats stats = check_gguf(whole, false, got);
    assert_true(stats.tokens > 60);
}

CASE(right_drafts_of_the_block_are_accepted) {
    const rn_draft_stats stats = check_gguf(whole, true, got);
    check(stats.tokens > 60 && stats.accepted == stats.tokens, "%llu of %llu",
          (unsigned long long)stats.accepted, (unsigned long long)stats.tokens);
}

TEST_PROGRAM(mtp) { return cases_run(NULL, NULL); }
