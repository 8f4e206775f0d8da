// The model that a name means: a path, or a model of a store (store.h).
#ifndef RN_APP_MODELS_FIND_H
#define RN_APP_MODELS_FIND_H

#include <stdbool.h>

// *path, to be freed, opens the model. A name that is a path is copied, and so is one that looks
// like a path: opening it has the better message. Several models of the name: refused, with a list.
// None: refused, with the command that would fetch it, or copied where is_optional. On failure the
// error has been printed and the exit code is returned.
int model_path_find(const char *name, bool is_optional, char **path);

#endif
