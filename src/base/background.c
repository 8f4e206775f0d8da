// See background.h. Linux keeps a nice value for each thread.
#include "base/background.h"

#include <sys/resource.h>

// About a quarter of a core that a thread of normal priority keeps busy. With less, a dozen
// requests wait for minutes for their masks; with more, steps of two threads become longer.
enum { BACKGROUND_NICE = 5, NICE_MAX = 19 };

void background_begin(void) {
    const int now = getpriority(PRIO_PROCESS, 0);
    const int wanted = now + BACKGROUND_NICE;
    setpriority(PRIO_PROCESS, 0, wanted < NICE_MAX ? wanted : NICE_MAX); // lowering never fails
}
