// Which instruction set the program chooses on this CPU. The argument names the one it must be; the
// other tests compare what is there, and would pass where NEON is wrongly found absent.
#include "check.h"

#include <string.h>

#include "backend/cpu/ops.h"

static const char *expected; // the program's argument

static void the_best_isa_is_the_expected_one(void **state) {
    const struct cpu_ops *ops;
    assert_int_equal(ops_find(NULL, &ops, NULL), RN_OK);
    check(strcmp(ops->name, expected) == 0, "%s instead of %s", ops->name, expected);
}

static void neon_is_refused_where_the_cpu_lacks_the_dot_product(void **state) {
    if (strcmp(expected, "scalar") != 0) skip();
    const struct cpu_ops *ops;
    rn_error err;
    assert_int_equal(ops_find("neon", &ops, &err), RN_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "this machine has no neon"));
    assert_null(ops_at(ISA_NEON));
}

static void neon_has_a_kernel_for_every_format(void **state) {
    for (int format = 0; format < FORMAT_COUNT; format++) {
        const struct matmul_kernel *kernel = matmul_kernel_find((enum format_id)format, ISA_NEON);
        check(kernel != NULL, "%s", format_at((enum format_id)format)->name);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    expected = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_isa_is_the_expected_one),
        cmocka_unit_test(neon_is_refused_where_the_cpu_lacks_the_dot_product),
        cmocka_unit_test(neon_has_a_kernel_for_every_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
