// The table of architectures. Adding one is a file and a row here.
#include "model/arch.h"

#include <stdio.h>
#include <string.h>

static const struct arch *const archs[] = {
    &arch_llama,
};

const struct arch *arch_find(const char *name, size_t len) {
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (strlen(archs[i]->name) == len && memcmp(archs[i]->name, name, len) == 0)
            return archs[i];
    return NULL;
}

void arch_known(char *out, size_t size) {
    size_t at = 0;
    for (size_t i = 0; i < sizeof archs / sizeof *archs && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i ? ", " : "", archs[i]->name);
}
