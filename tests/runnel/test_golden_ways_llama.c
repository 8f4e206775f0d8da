// The llama family: the same bits in every way to run it.
#include "golden_ways.h"

int main(void) { return golden_run_ways(golden_in_llama_family); }
