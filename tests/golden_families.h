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

static inline int golden_run_families(const char *property, CMUnitTestFunction test,
                                      data_filter filter) {
    return golden_families[0] ? data_run_tests(GOLDEN_FAMILIES, property, test, filter) : 0;
}

#endif
