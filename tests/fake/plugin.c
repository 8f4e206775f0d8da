// The fake backend as a file of its own, for the program: RUNNEL_FAKE="lost 20" loses the device in
// the 20th step, "step 20" fails that step. "delay 5000" makes every step 5 ms longer, without work
// for a core: for tests that need a slow stream. "memory 1000000" is a device of so many bytes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/plugin.h"
#include "fake/fake_backend.h"

static rn_status device(int index, struct backend_device *out, rn_error *err) {
    const char *text = getenv("RUNNEL_FAKE");
    char kind[8] = "";
    long at = 0;
    if (text && sscanf(text, "%7s %ld", kind, &at) == 2 && strcmp(kind, "memory") == 0) {
        const rn_status status = backend_fake.device(index, out, err);
        out->memory_total = out->memory_free = (uint64_t)at;
        return status;
    }
    if (text && fake_control.fault_at == 0 && sscanf(text, "%7s %ld", kind, &at) == 2) {
        if (strcmp(kind, "delay") == 0)
            fake_control.delay_us = (int)at;
        else
            fake_fail_at(strcmp(kind, "lost") == 0 ? FAKE_LOST : FAKE_STEP, at);
    }
    return backend_fake.device(index, out, err);
}

static struct backend_class cls;

__attribute__((constructor)) static void fill(void) {
    cls = backend_fake;
    cls.device = device;
}

BACKEND_PLUGIN(cls);
