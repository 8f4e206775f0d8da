// Slots as llama.cpp's clients know them, on top of the page store. A slot is a number that a
// request names (id_slot); it remembers the tokens of its last text. Saving it stores them under a
// name; restoring brings their pages back to memory. Each owner has slots and names of its own.
// Pages are found by their tokens in any case, so a slot is never needed for speed. The I/O thread
// and workers share the table, under its lock.
#ifndef RN_SERVER_SLOTS_H
#define RN_SERVER_SLOTS_H

#include "generation.h"

struct slots;

// NULL: no memory.
struct slots *slots_create(int n_slots);
void slots_destroy(struct slots *slots); // NULL is fine

// A number beyond the slots wraps around. Lets the generation keep its tokens where a slot wants
// them.
void slots_want(const struct call *call, struct generation *generation);
// The first choice of a generation has ended: its text is the slot's from now on.
void slots_take(struct call *call, const struct generation_choice *choice);

#endif
