// The models of families.def: the same bits every way.
// label: no-address
#include "golden_families.h"

TEST_PROGRAM(golden_ways_families) {
    return golden_run_families("has_the_same_bits_every_way", golden_has_the_same_bits_every_way);
}
