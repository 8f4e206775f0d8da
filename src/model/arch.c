// The table of architectures, made from arch.def. Adding one is a file and a row there.
#include "model/arch.h"

#include <string.h>

static const struct arch *const archs[ARCH_COUNT] = {
#define ARCH(name) &arch_##name,
#include "model/arch.def"
#undef ARCH
};

const struct arch *arch_find(const char *name, size_t len) {
    for (int i = 0; i < ARCH_COUNT; i++)
        if (strlen(archs[i]->name) == len && memcmp(archs[i]->name, name, len) == 0)
            return archs[i];
    return NULL;
}

void arch_folders(struct hf_arch out[ARCH_COUNT + 1]) {
    for (int i = 0; i < ARCH_COUNT; i++)
        out[i] = (struct hf_arch){archs[i]->name, archs[i]->classes};
    out[ARCH_COUNT] = (struct hf_arch){0};
}
