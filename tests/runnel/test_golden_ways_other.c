// The other architectures: the same bits in every way to run them.
// label: no-address
#include "golden_ways.h"

static bool rest(const json_t *entry) {
    return !golden_in_llama_family(entry) && !golden_has_experts(entry);
}

TEST_PROGRAM(golden_ways_other) { return golden_run_ways(rest); }
