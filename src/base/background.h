// Threads whose work may wait for the step's: they make masks of shapes and compile sources.
#ifndef RN_BASE_BACKGROUND_H
#define RN_BASE_BACKGROUND_H

// Lowers the priority of the calling thread for the rest of its life. The thread still gets a small
// share of a busy core, so its work always ends.
void background_begin(void);

#endif
