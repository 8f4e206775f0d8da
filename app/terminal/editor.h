// Lines from a terminal: editing, history and continued lines. Messages that were entered are kept
// in ${XDG_STATE_HOME:-~/.local/state}/runnel/history; where that cannot be read or written there
// is none.
#ifndef RN_APP_EDITOR_H
#define RN_APP_EDITOR_H

#include "terminal/term.h"

struct editor;

// Possible lines that Tab completes to, for a line that starts with a slash: writes the one of the
// index; false: no more. Lines that do not start so are passed over.
enum { EDITOR_COMPLETION = 128 };
typedef bool (*editor_complete_fn)(void *ctx, const char *line, int index,
                                   char out[EDITOR_COMPLETION]);

// NULL: out of memory. After interrupt_notes().
struct editor *editor_open(const struct term *term, editor_complete_fn complete, void *ctx);
void editor_close(struct editor *editor);

enum editor_result {
    EDITOR_MESSAGE,
    EDITOR_INTERRUPTED, // Ctrl-C; the message is the dropped text
    EDITOR_END,         // Ctrl-D on an empty line, or the terminal has gone
    EDITOR_NO_MEMORY,
};
#define EDITOR_QUOTE "\"\"\"" // a message that starts so continues up to a line that ends so
// A message: a line, continued by the next line where it ends in a backslash, or pasted text.
// UTF-8, without the line feed at its end; valid until the next call.
enum editor_result editor_read(struct editor *editor, const struct text **out);

// While the program writes, typed text is not echoed into its text; the next editor_read gets
// it.
void editor_hush(struct editor *editor, bool on);

#endif
