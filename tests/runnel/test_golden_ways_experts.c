// Models with experts: the same bits in every way to run them.
#include "golden_ways.h"

int main(void) { return golden_run_ways(golden_has_experts); }
