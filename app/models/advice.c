// See advice.h. The recommended models are rows of advice.def; the size of any other model is read
// from its name. Called by find.c, models.c and the help of `runnel models`.
#include "models/advice.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "plan/machine.h"
#include "terminal/term.h"

static const struct advice {
    const char *title, *shape, *format;
    double megabytes; // of its files
    const char *repository, *pattern, *file, *ollama, *others;
    bool is_native; // it has no other format
} table[] = {
#define ADVICE(...) {__VA_ARGS__, .is_native = false},
#define NATIVE(...) {__VA_ARGS__, .is_native = true},
#include "models/advice.def"
};
enum { ROWS = sizeof table / sizeof *table, NAME = 512 };

static const char hub[] = "https://huggingface.co";

// ---------------------------------------------------------------- sizes

// Its files, and what a step and the context take besides.
static double bytes_of(const struct room *room, const struct advice *row) {
    return row->megabytes * 1e6 + room_besides_bytes(room, row->shape, row->format);
}

// The largest that fits; NULL if none does, or if the free memory is unknown.
static const struct advice *best_find(const struct room *room) {
    for (int i = ROWS - 1; i >= 0 && room->device.memory_free; i--)
        if (room_fits(room, table[i].megabytes * 1e6) && room_fits(room, bytes_of(room, &table[i])))
            return &table[i];
    return NULL;
}

// The smallest GPU that holds that many bytes and that a backend has kernels for; NULL if there is
// none.
static const struct device *gpu_find(double bytes) {
    const struct tools_memory parts = {.total_bytes = (uint64_t)bytes};
    const struct device *device, *best = NULL;
    for (int i = 0; (device = device_at(i)); i++) {
        const bool is_gpu = device->backend && strcmp(device->backend, "cpu") != 0;
        const bool fits =
            is_gpu && tools_memory_fits(&parts, (uint64_t)(device->memory_gib * 0x1p30));
        if (fits && (!best || device->memory_gib < best->memory_gib)) best = device;
    }
    return best;
}

// ---------------------------------------------------------------- sentences

static void hf_say(FILE *out) {
    fputs(
        "  hf is a program of Hugging Face:  uv tool install huggingface_hub  (or pipx install, or "
        "pip install)\n",
        out);
}

// Which GPU would hold a model that does not fit here, and what does fit. spec: of `runnel plan`,
// "" if it has none.
static void elsewhere_say(FILE *out, const struct room *room, double bytes, const char *spec) {
    char text[32];
    const struct device *gpu = gpu_find(bytes);
    const struct advice *best = best_find(room);
    fprintf(out, "  it needs a machine with more than %s of memory", human_bytes(bytes, text));
    if (gpu) fprintf(out, ", or a GPU such as %s", gpu->title);
    if (gpu && *spec) fprintf(out, " (runnel plan %s --device %s)", spec, gpu->name);
    fputs("\n", out);
    if (best)
        fprintf(out, "  %s as %s fits here: 'runnel models --help' says how to get it\n",
                best->title, best->format);
}

static void row_say(FILE *out, const struct advice *row) {
    fprintf(out, "  hf download %s --include '%s'\n    then  runnel run -m %s\n", row->repository,
            row->pattern, row->repository);
    if (*row->file)
        fprintf(out, "  curl -L -o %s %s/%s/resolve/main/%s\n    then  runnel run -m %s\n",
                row->file, hub, row->repository, row->file, row->file);
    fprintf(out, "  ollama pull %s\n    then  runnel run -m %s\n", row->ollama, row->ollama);
}

static void smaller_say(FILE *out, const struct room *room, const struct advice *than) {
    char text[32];
    if (than > table) fputs("Smaller ones are faster; hf gets them in the same way:\n", out);
    for (ptrdiff_t i = than - table; i-- > 0;) {
        const struct advice *row = &table[i];
        fprintf(out, "  %-26s  --include '%s'%*s  %8s\n", row->repository, row->pattern,
                (int)(8 - strlen(row->pattern)), "", human_bytes(bytes_of(room, row), text));
    }
}

void advice_models(FILE *out, const struct room *room) {
    char free_text[32], text[32];
    const struct advice *best = best_find(room), *shown = best ? best : table;
    if (room->device.memory_free)
        fprintf(out, "%s of memory are free here. ",
                human_bytes((double)room->device.memory_free, free_text));
    if (room->device.memory_free && !best) {
        fprintf(out, "The smallest of the usual models, %s as %s, needs %s.\n", shown->title,
                shown->format, human_bytes(bytes_of(room, shown), text));
        return;
    }
    fprintf(out, "To get %s as %s, which needs %s with %d positions:\n", shown->title,
            shown->format, human_bytes(bytes_of(room, shown), text), ROOM_CONTEXT);
    row_say(out, shown);
    hf_say(out);
    smaller_say(out, room, shown);
}

void advice_help(FILE *out) {
    struct room room;
    if (room_get(&room, NULL)) return;
    fputs("\ngetting a model:\n", out);
    advice_models(out, &room);
}

// ---------------------------------------------------------------- a model that is not here

// Whether a shell takes the text as it is.
static bool is_plain(const char *text) {
    return *text && *text != '-' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:") ==
               strlen(text);
}

static bool is_among(const char *words, const char *word) {
    const size_t len = strlen(word);
    for (; *words; words += *words == '|') {
        const size_t n = strcspn(words, "|");
        if (n == len && !strncasecmp(words, word, n)) return true;
        words += n;
    }
    return false;
}

static bool ends_in_gguf(const char *name) {
    static const char ending[] = "-GGUF";
    const size_t len = strlen(name), end = strlen(ending);
    return len > end && !strcasecmp(name + len - end, ending);
}

// "OWNER/NAME-GGUF" as "NAME".
static void base_name(const char *name, char out[NAME]) {
    const char *slash = strrchr(name, '/');
    snprintf(out, NAME, "%s", slash ? slash + 1 : name);
    if (ends_in_gguf(out)) out[strlen(out) - strlen("-GGUF")] = '\0';
}

static const struct advice *row_find(const struct advice_wanted *wanted) {
    char base[NAME];
    base_name(wanted->name, base);
    for (int i = 0; i < ROWS; i++)
        if (!strcasecmp(base, table[i].title) || !strcasecmp(wanted->whole, table[i].ollama) ||
            is_among(table[i].others, wanted->whole))
            return &table[i];
    return NULL;
}

static void native_say(FILE *out, const struct room *room, const struct advice *row) {
    char need[32], text[32];
    const double bytes = bytes_of(room, row);
    const bool is_here = room_fits(room, bytes);
    fprintf(out, "  %s is published in %s, which needs about %s", row->title, row->format,
            human_bytes(bytes, need));
    if (room->device.memory_free)
        fprintf(out, "; %s of memory are free here: it %s",
                human_bytes((double)room->device.memory_free, text),
                is_here ? "fits" : "does not fit");
    fputs("\n", out);
    if (!is_here && room->device.memory_free) {
        elsewhere_say(out, room, bytes, row->shape); // the shape has the published format
        return;
    }
    fprintf(out, "  fetch it from Hugging Face:  hf download %s --include '%s'\n", row->repository,
            row->pattern);
    fprintf(out, "  then -m %s\n", row->repository);
    hf_say(out);
    fprintf(out, "  or from Ollama's library:  ollama pull %s, then -m %s\n", row->ollama,
            row->ollama);
}

// A file of a repository. If nobody names a repository, the row's is used, or one of an owner who
// converts most models.
static void gguf_say(FILE *out, const struct advice_wanted *wanted, const struct advice *row,
                     const char *format, bool is_named) {
    char base[NAME], repository[NAME + 16];
    base_name(wanted->name, base);
    if (is_named)
        snprintf(repository, sizeof repository, "%.500s", wanted->name);
    else if (row)
        snprintf(repository, sizeof repository, "%s", row->repository);
    else
        snprintf(repository, sizeof repository, "unsloth/%s-GGUF", base);
    fprintf(out, "  fetch a file in %s from Hugging Face:  hf download %s --include '*%s*'\n",
            format, repository, format);
    if (!is_named && !row)
        fprintf(out, "  then -m %s; if it is not there: %s/models?search=%s-GGUF\n", repository,
                hub, base);
    else
        fprintf(out, "  then -m %s\n", repository);
    hf_say(out);
}

// Whether a format that was asked for is no larger than the best one that fits. Formats whose size
// is not computed are taken.
static bool tag_fits(const char *tag, const char *best) {
    if (!best || !strcmp(best, "BF16")) return true;
    if (is_among("BF16|F16|F32", tag)) return false;
    return strcasecmp(tag, "Q8_0") != 0 || !strcmp(best, "Q8_0");
}

// best: the format that fits; NULL if none is known to.
static void repository_say(FILE *out, const struct advice_wanted *wanted, double parameters,
                           const char *best) {
    const struct advice *row = row_find(wanted);
    const bool is_gguf = ends_in_gguf(wanted->name);
    char text[32];
    if (*wanted->tag) {
        gguf_say(out, wanted, row, tag_fits(wanted->tag, best) ? wanted->tag : best, is_gguf);
    } else if (is_gguf) {
        // small models are mostly published as Q8_0
        const bool is_small =
            parameters > 0 && parameters < 3e9 && (!best || strcmp(best, "Q4_K_M"));
        gguf_say(out, wanted, NULL, row ? row->format : is_small ? "Q8_0" : "Q4_K_M", true);
    } else if (best && strcmp(best, "BF16") != 0) {
        gguf_say(out, wanted, row, best, false);
    } else {
        fputs("  fetch its folder", out);
        if (parameters > 0) fprintf(out, ", about %s,", human_bytes(2 * parameters, text));
        fprintf(out, " from Hugging Face:  hf download %s\n", wanted->name);
        hf_say(out);
    }
}

void advice_missing(FILE *out, const struct room *room, const struct advice_wanted *wanted) {
    const struct advice *row = row_find(wanted);
    const char *slash = strchr(wanted->name, '/'), *best = NULL;
    const bool is_repository =
        slash && slash != wanted->name && slash[1] && !strchr(slash + 1, '/');
    if (row && row->is_native) {
        native_say(out, room, row);
        return;
    }
    double parameters = room_parameters(wanted->name), least = 0;
    if (parameters == 0) parameters = room_parameters(wanted->whole);
    if (room->device.memory_free) best = room_say(out, room, parameters, &least);
    if (parameters > 0 && room->device.memory_free && !best) {
        elsewhere_say(out, room, least, "");
        return;
    }
    if (!is_plain(wanted->whole)) return;
    if (is_repository) {
        repository_say(out, wanted, parameters, best);
    } else if (!slash) {
        fprintf(out, "  fetch it from Ollama's library:  ollama pull %s\n", wanted->whole);
        fputs("  or from Hugging Face:  hf download OWNER/NAME, then -m OWNER/NAME\n", out);
        if (parameters == 0) fputs("  If it is meant as a prompt, -p TEXT gives one.\n", out);
    }
}
