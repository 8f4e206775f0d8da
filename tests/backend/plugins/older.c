// A plug-in that was built for the contract before this one.
#include "class.h"

static const struct backend_class older = {CLASS_OF_TEST("older", class_device)};

#undef BACKEND_CONTRACT
#define BACKEND_CONTRACT 1u
BACKEND_PLUGIN(older);
