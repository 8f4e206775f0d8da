// Ctrl-C and the signals that end the program, for the commands that run a model.
#ifndef RN_APP_INTERRUPT_H
#define RN_APP_INTERRUPT_H

#include <stdbool.h>
#include <sys/types.h>

// From now on Ctrl-C ends the program at once with status 130. It first erases a progress line and
// removes the file of interrupt_removes(): nothing is worth keeping before a request runs.
void interrupt_ends(void);
// From now on the first Ctrl-C asks the request to stop; the second kills the program.
void interrupt_watch(void);
bool interrupt_seen(void);
// From now on Ctrl-C is only noted, however often it comes: for a conversation, which has a prompt
// to return to. So is what happens to the terminal.
void interrupt_notes(void);
void interrupt_forget(void); // the noted signals

// Waits for input, after interrupt_notes(). Noted signals come first, each once; Ctrl-C is
// forgotten with it.
enum interrupt_wait { WAIT_INPUT, WAIT_INTERRUPT, WAIT_RESIZED, WAIT_CONTINUED };
enum interrupt_wait interrupt_wait(int fd);

// From now on a signal that ends the program (hangup, quit, terminate) first gives standard input's
// terminal these modes and standard output these bytes, which are borrowed. NULL: no more.
struct termios;
void interrupt_restores(const struct termios *modes, const char *bytes);

// A child process that is not to outlive the program: a signal that ends the program, as above,
// ends it first. 0: none any more.
void interrupt_child(pid_t pid);
// Before the child is started: such a signal waits until interrupt_child knows the child.
void interrupt_child_starts(void);

// A progress line of this many columns is on stderr; 0: none.
void interrupt_line(int columns);
// A file that must not stay behind; path is borrowed. NULL: none.
void interrupt_removes(const char *path);

#endif
