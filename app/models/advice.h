// How to get a model: one that fits this machine's memory, and one that is not here.
#ifndef RN_APP_MODELS_ADVICE_H
#define RN_APP_MODELS_ADVICE_H

#include "models/room.h"

// A model that was asked for and is not here.
struct advice_wanted {
    const char *whole; // as given
    const char *name;  // without the tag
    const char *tag;   // "" if there is none
};

// Says what to download for this machine, and by which commands.
void advice_models(FILE *out, const struct room *room);
// The same for this machine's present memory, as a part of help.
void advice_help(FILE *out);
// Says what the model would need, what of it fits, and the command that fetches that. Commands are
// left out where the name is not safe to be pasted into a shell.
void advice_missing(FILE *out, const struct room *room, const struct advice_wanted *wanted);

#endif
