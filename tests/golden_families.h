// The models of families.def, for tests over families.json.
#ifndef RN_TESTS_GOLDEN_FAMILIES_H
#define RN_TESTS_GOLDEN_FAMILIES_H

#include "golden_ways.h"

static const char *const golden_families[] = {
#define FAMILY(name) name,
#include "families.def"
#undef FAMILY
    NULL};

static inline bool golden_is_known_family(const json_t *entry) {
    return golden_is_one_of(entry, golden_families);
}

// Runs the test for each of these models.
static inline int golden_run_families(const char *property, CMUnitTestFunction test) {
    return data_run_tests(GOLDEN_FAMILIES, property, test, golden_is_known_family);
}

#endif
