// Arena: zeroed, aligned, disjoint, and valid after a refusal.
#include "check.h"

#include <string.h>

#include "base/arena.h"

CASE(memory_is_zeroed_aligned_and_disjoint) {
    struct arena arena = {0};
    enum { COUNT = 3000 };
    static unsigned char *at[COUNT];
    static size_t size[COUNT];
    for (int i = 0; i < COUNT; i++) {
        size[i] = (size_t)(i * 37 % 301);
        if (i % 500 == 0) size[i] = 300000; // larger than a chunk
        at[i] = arena_alloc(&arena, size[i]);
        assert_non_null(at[i]);
        assert_int_equal((uintptr_t)at[i] % 16, 0);
        for (size_t k = 0; k < size[i]; k++) assert_int_equal(at[i][k], 0);
        memset(at[i], i % 251 + 1, size[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        for (size_t k = 0; k < size[i]; k++) assert_int_equal(at[i][k], i % 251 + 1);
    }
    arena_deinit(&arena);
    assert_null(arena.head);
}

CASE(zero_bytes_give_distinct_addresses) {
    struct arena arena = {0};
    void *first = arena_alloc(&arena, 0), *second = arena_alloc(&arena, 0);
    assert_non_null(first);
    assert_ptr_not_equal(first, second);
    arena_deinit(&arena);
}

CASE(overflowing_array_is_refused_and_the_arena_stays_valid) {
    struct arena arena = {0};
    assert_null(arena_array(&arena, SIZE_MAX / 2, 3));
    assert_null(arena_array(&arena, SIZE_MAX, 1));
    assert_null(arena_alloc(&arena, SIZE_MAX - 8));
    int *numbers = arena_array(&arena, 10, sizeof *numbers);
    assert_non_null(numbers);
    assert_null(arena_alloc(&arena, SIZE_MAX));
    assert_non_null(arena_alloc(&arena, 10));
    arena_deinit(&arena);
}

CASE(strdup_copies_exactly_and_ends_with_nul) {
    struct arena arena = {0};
    const char text[] = {'a', 0, 'b', 'c'};
    const char *copy = arena_strdup(&arena, text, 3);
    assert_memory_equal(copy, "a\0b", 4);
    assert_string_equal(arena_strdup(&arena, NULL, 0), "");
    arena_deinit(&arena);
}

TEST_PROGRAM(arena) { return cases_run(NULL, NULL); }
