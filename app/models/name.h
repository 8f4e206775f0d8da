// The short name of a model in lines for people: the file's or folder's, never a whole path.
#ifndef RN_APP_MODELS_NAME_H
#define RN_APP_MODELS_NAME_H

#include "runnel.h"

struct model_name {
    char text[256];
};
// given: the text of -m, or NULL. A model that was asked for by its name has that name. A file or
// folder that a store names by a digest has the name of its repository, or general.name; a
// config.json has its folder's. What could drive a terminal is escaped.
struct model_name model_name_short(const char *given, const rn_model_info *info);

#endif
