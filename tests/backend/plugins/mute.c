// A shared object that is no plug-in: it lacks the symbol.
#include "class.h"

const struct backend_class *some_other_symbol(void);
const struct backend_class *some_other_symbol(void) { return NULL; }
