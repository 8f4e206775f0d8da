// The table of architectures. Adding one is a file and a row here.
#include "model/arch.h"

#include <stdio.h>
#include <string.h>

static const struct arch *const archs[] = {
    &arch_llama,  &arch_qwen2,   &arch_qwen3,   &arch_qwen3moe, &arch_gemma,
    &arch_gemma2, &arch_gemma3,  &arch_phi3,    &arch_gpt2,     &arch_granite,
    &arch_olmo2,  &arch_smollm3, &arch_gpt_oss,
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
