// How busy the machine is: the ticks of /proc/stat, the rule, and the time that other programs
// take.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/busy.h"
#include "check.h"

static bool has_even(int cpu) { return cpu % 2 == 0; }
static bool has_none(int cpu) { return cpu > 99; }

CASE(ticks_are_those_of_the_processors) {
    static const char stat[] = "cpu  999 999 999 999 999 999 999 999 0 0\n"
                               "cpu0 100 10 5 1000 20 1 2 3 50 0\n"
                               "cpu1 7 7 7 7 7 7 7 7 7 7\n"
                               "cpu2 200 0 0 500 0 0 0 0 0 0\n"
                               "intr 12345 cpu0 9\n"
                               "ctxt 5\n";
    struct busy_ticks ticks;
    assert_true(busy_ticks_read(stat, has_even, &ticks));
    assert_int_equal(ticks.used, 100 + 10 + 5 + 1 + 2 + 3 + 200); // guests are in the first number
    assert_int_equal(ticks.all, ticks.used + 1000 + 20 + 500);
    assert_false(busy_ticks_read(stat, has_none, &ticks));
    assert_false(busy_ticks_read("", has_even, &ticks));
}

CASE(a_tenth_of_the_cores_is_busy) {
    assert_false(busy_is(-1)); // unknown
    assert_false(busy_is(0));
    assert_false(busy_is(0.09));
    assert_true(busy_is(0.1));
    assert_true(busy_is(1));
}

// A child that spins takes time that is not ours until it is waited for. Others may take more.
CASE(another_program_is_noticed) {
    struct busy busy;
    const pid_t child = fork();
    if (child == 0)
        for (volatile int i = 0;; i++) continue;
    assert_true(child > 0);
    busy_begin(&busy);
    const double share = busy_share(&busy);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (share >= 0) // the system says
        check(share > 0.2 / (double)sysconf(_SC_NPROCESSORS_ONLN), "%f", share);
}

TEST_PROGRAM(busy) { return cases_run(NULL, NULL); }
