// Folders that are no model in safetensors: adapters, and models whose weights are in another form.
// A message says what the folder is and what to do. Called by hf_folder.c when a file is missing.
#define _GNU_SOURCE 1
#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "weights/hf.h"

enum { NAME_SHOWN = 96, BASE_SIZE = 160 };

// The first row with a file wins.
static const struct foreign {
    const char *pattern; // of a file's name
    const char *what;    // after that name
} foreign[] = {
    {"adapter_config.json", NULL}, // adapter_fail
    {"*.gguf", "is a GGUF file: give its path instead of the folder's"},
    {"consolidated*.safetensors",
     "has the weights in Mistral's own form: take the model's files in the form of transformers "
     "(model*.safetensors), or a GGUF file"},
#define PICKLE                                                                                     \
    "has the weights as a pickle, which may run code: convert the model to safetensors "           \
    "(save_pretrained of transformers), or take a GGUF file"
    {"pytorch_model*.bin", PICKLE},
    {"*.pth", PICKLE},
#define FRAMEWORK                                                                                  \
    "has the weights for another framework: take the model as safetensors or as a GGUF file"
    {"*.h5", FRAMEWORK},
    {"*.msgpack", FRAMEWORK},
    {"*.onnx", FRAMEWORK},
#undef FRAMEWORK
    {"*.pt", PICKLE}, // settings of a training may be in one, too
    {"*.ckpt", PICKLE},
#undef PICKLE
};
enum { N_FOREIGN = sizeof foreign / sizeof *foreign };

// The row of the folder's files, with the name of one of them; N_FOREIGN if there is none.
static int foreign_find(const char *folder, char name[static NAME_SHOWN]) {
    int best = N_FOREIGN;
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        for (int i = 0; i <= best && i < N_FOREIGN; i++) {
            if (fnmatch(foreign[i].pattern, entry->d_name, 0) != 0) continue;
            // of several files, such as shards, the first by name
            if (i == best && strncmp(entry->d_name, name, NAME_SHOWN - 1) >= 0) continue;
            best = i;
            snprintf(name, NAME_SHOWN, "%.*s", NAME_SHOWN - 1, entry->d_name);
        }
    }
    if (dir) closedir(dir);
    return best;
}

// The name of the model that the adapter was made for; "" where the file does not say it.
static void base_read(const struct weights *weights, char out[static BASE_SIZE]) {
    struct hf_part part;
    rn_error ignored;
    out[0] = 0;
    if (hf_part_open(weights, "adapter_config.json", HF_JSON_MAX, &part, &ignored) == RN_OK &&
        part.image.data) {
        struct hf_config c = hf_part_config((struct weights *)(uintptr_t)weights, &part, &ignored);
        struct hf_object object;
        hf_object_read(&c, (struct hf_value){c.text, part.image.size}, &object);
        if (c.status == RN_OK) hf_string(&c, &object, "base_model_name_or_path", out, BASE_SIZE);
    }
    hf_part_close(&part);
}

static rn_status adapter_fail(const struct weights *weights, rn_error *err) {
    char base[BASE_SIZE];
    base_read(weights, base);
    return err_set(err, RN_ERR_UNSUPPORTED,
                   "%s: is an adapter (LoRA) of %s%s%s, not a model: merge it into that model "
                   "first, as by merge_and_unload of PEFT, and give the result",
                   weights->name, *base ? "'" : "", *base ? base : "another model",
                   *base ? "'" : "");
}

rn_status hf_foreign_check(const struct weights *weights, rn_error *err) {
    char name[NAME_SHOWN] = "";
    const int at = foreign_find(weights->folder, name);
    if (at == N_FOREIGN) return RN_OK;
    if (!foreign[at].what) return adapter_fail(weights, err);
    return err_set(err, RN_ERR_UNSUPPORTED, "%s: %s %s", weights->name, name, foreign[at].what);
}
