// The llama family: the same bits in every way to run it.
// label: async-long no-address
#include "golden_ways.h"

TEST_PROGRAM(golden_ways_llama) { return golden_run_ways(golden_in_llama_family); }
