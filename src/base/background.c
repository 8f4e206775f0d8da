// See background.h. Linux keeps a nice value and a slice for each thread.
#define _GNU_SOURCE 1 // syscall
#include "base/background.h"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

// About a quarter of a core that a thread of normal priority keeps busy. With less, a dozen
// requests wait for minutes for their masks; with more, steps of two threads become longer.
enum { BACKGROUND_NICE = 5, NICE_MAX = 19 };

// A thread that wakes takes the core from one with a longer slice at once. Kernels before 6.12
// have one slice for all threads.
enum { SLICE_NS = 100000000 };

void background_begin(void) {
    const int now = getpriority(PRIO_PROCESS, 0);
    const int wanted = now + BACKGROUND_NICE;
    struct sched_attr attr = {.size = sizeof attr,
                              .sched_policy = SCHED_NORMAL,
                              .sched_nice = wanted < NICE_MAX ? wanted : NICE_MAX,
                              .sched_runtime = SLICE_NS};
    if (syscall(SYS_sched_setattr, 0, &attr, 0))
        setpriority(PRIO_PROCESS, 0, attr.sched_nice); // lowering never fails
}
