// One event of a streamed completion: the text that it brings, the numbers of tokens, or an error.
#ifndef RN_APP_LOAD_EVENT_H
#define RN_APP_LOAD_EVENT_H

#include <stdbool.h>
#include <stddef.h>

#include "server/jbuf.h"

struct load_event {
    bool done;     // "[DONE]"
    bool has_text; // a piece of text, of reasoning or of a tool's call
    bool finished; // it has a finish_reason
    // of usage and timings; -1: it does not say
    int input_tokens, output_tokens, cached_tokens, draft_tokens, draft_accepted;
    char fault[512]; // "": none
};

// text: gets the piece of text behind its bytes; NULL: it is not wanted. False: the event is not
// JSON of this kind; the fault says so.
bool load_event_read(const char *data, size_t len, struct jbuf *text, struct load_event *out);

// The message of an error's body, or its start where it is no JSON; control characters are blanks.
void load_fault_text(const char *body, size_t len, char *out, size_t size);

#endif
