// Calls of a server of several models, from the name of a model to a model that is loaded; and the
// models' way there, as lineup.c decides it. I/O thread only, but for waiting_find. A server of one
// model uses none of this.
//
// Invariant: served->users is the number of calls that are bound to the model and have not ended. A
// call that is LOADING is in the list of its model.
#ifndef RN_SERVER_WAITING_H
#define RN_SERVER_WAITING_H

#include "call.h"

void waiting_begin(struct server *server); // models that are loaded at the start
// On a worker: the model that the body names. False: refused.
bool waiting_find(struct call *call);
// For routes that answer at once: the model that the query names, else the one that was used last.
// False: refused.
bool waiting_pick(struct call *call);
// Refuses where the model is not loaded. False: refused.
bool waiting_needs(struct call *call);
bool waiting_refuse(struct call *call); // because of that; false
// The model was found: a worker gets the call when the model is there. Refusals end the call.
void waiting_take(struct call *call);
void waiting_end(struct call *call); // the call ends, whatever it was doing
// Takes the loader's results and gives it work. Calls that have waited too long are refused, and
// waiting streams get a comment. Returns when it wants to be called again (ns; 0: no need).
uint64_t waiting_turn(struct server *server, uint64_t now_ns);
// The device of a model was lost: the model fails.
void waiting_lost(struct served *served);
void waiting_drain(struct server *server); // calls that wait for a model are refused

#endif
