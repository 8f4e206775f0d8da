// Spellings of other programs (llama.cpp, vLLM, Ollama) that are no options here: peers.def.
#ifndef RN_APP_PEERS_H
#define RN_APP_PEERS_H

#include "options/options.h"

enum peer_kind {
    PEER_SETS,     // gives an option a value
    PEER_ALWAYS,   // asks for the behaviour that there always is
    PEER_WORD,     // the same, with on, off or auto after it if the user wants
    PEER_LAYERS,   // layers on a GPU
    PEER_HARMLESS, // no answer depends on it: taken with a note
    PEER_INSTEAD,  // refused with advice
};

struct peer {
    const char *spellings; // "-cnv|--conversation"
    unsigned commands;     // bit 1 << command_id
    enum peer_kind kind;
    enum option_id id;
    const char *text;   // the value, the behaviour, the note or the advice
    const char *values; // of PEER_HARMLESS: PEER_NO_VALUE, PEER_ANY_VALUE, or "a|b" that it takes
};

#define PEER_NO_VALUE  ""
#define PEER_ANY_VALUE "*"

const struct peer *peer_at(int index); // NULL: there are no more
// The row of an argument such as "-ub" or "--threads-batch=4"; NULL: none.
const struct peer *peer_find(enum command_id command, const char *given);
// Does what the row says about argv[*at]; moves *at to the last argument used. False: refused
// (printed).
bool peer_take(struct options *options, const struct peer *peer, int argc, char **argv, int *at);
// Says on a line for each harmless flag of the command line why it is not needed.
void peer_notes_print(const struct options *options);

#endif
