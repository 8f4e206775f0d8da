// /requests, the list of the owner's running and kept requests, and /requests/ID/trace, the record
// of one of them. I/O thread only.
#ifndef RN_SERVER_REQUESTS_H
#define RN_SERVER_REQUESTS_H

#include "call.h"

struct requests *requests_create(struct served *served); // NULL: out of memory
void requests_destroy(struct requests *requests);
// From the loop, at least when the time that it returned (monotonic ns; 0: no need) has come.
uint64_t requests_tick(struct requests *requests, uint64_t now_ns);

#endif
