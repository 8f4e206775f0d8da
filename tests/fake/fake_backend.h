// A backend for tests that works as a device does: a thread of its own runs the submitted steps,
// one after the other, while the engine continues. It wraps the CPU's backend. It reads a batch
// whole when it is submitted, lets two steps be in flight, has fixed page memory, and gives only
// the requested results. It has two devices, which are alike. fake_control orders delays and
// faults.
#ifndef TESTS_FAKE_BACKEND_H
#define TESTS_FAKE_BACKEND_H

#include <stdatomic.h>

#include "backend/backend.h"

extern const struct backend_class backend_fake;

enum { FAKE_DEVICES = 2 };

enum fake_fault {
    FAKE_NONE,
    FAKE_SEQ,         // the first sequence of the step failed
    FAKE_STEP,        // the step failed, which wait says
    FAKE_SUBMIT,      // the step failed, which submit says
    FAKE_LOST,        // the device is lost, which wait says
    FAKE_LOST_SUBMIT, // which submit says
    FAKE_FILE_SUBMIT, // a file that the step reads was written to, which submit says
};

// Of all fake backends. Numbers are of submits with rows, from 1 on.
struct fake_control {
    _Atomic long n_submit;
    _Atomic long n_overlap; // submits that came while an earlier step was running
    _Atomic long n_of_row;  // tokens that the step before chose
    _Atomic long n_fault;
    _Atomic int fault;                   // enum fake_fault
    _Atomic long fault_at;               // the submit that fails; 0: none
    _Atomic int delay_us;                // of every step
    _Atomic long n_create[FAKE_DEVICES]; // backends that were created, of each device
};
extern struct fake_control fake_control;

void fake_reset(void); // all zero
void fake_fail_at(enum fake_fault fault, long submits_from_now);

#endif
