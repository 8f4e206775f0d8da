// Models with experts: the same bits in every way to run them.
// label: threads no-address
#include "golden_ways.h"

TEST_PROGRAM(golden_ways_experts) { return golden_run_ways(golden_has_experts); }
