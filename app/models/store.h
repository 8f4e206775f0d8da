// The models that other programs keep on this machine. Each store is read into one list of entries;
// find.c chooses among them by name, models.c shows them. Nothing here opens a model: names, links
// and sizes alone are read. A damaged entry stays in the list with its problem.
#ifndef RN_APP_MODELS_STORE_H
#define RN_APP_MODELS_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// In the order in which they are listed.
enum store_id { STORE_OWN, STORE_HUB, STORE_LLAMA, STORE_OLLAMA, STORE_LMSTUDIO, STORE_COUNT };
const char *store_title(enum store_id id); // "Hugging Face"
const char *store_key(enum store_id id);   // "huggingface", in JSON

struct model_entry {
    enum store_id store;
    char *name;    // "Qwen/Qwen3-0.6B-GGUF"; without the tag
    char *tag;     // a quantization, "Q4_K_M", or Ollama's tag; "": none
    char *file;    // the file's name without ending and part number; "": a folder, or Ollama's
    char *path;    // that opens the model
    char *problem; // why it cannot be opened, or NULL
    uint64_t bytes;
    bool is_folder;
    int n_parts, parts; // of a split file: there are, there should be; 0: it is not split
    dev_t device;       // of the file at path,
    ino_t inode;        // by which the same file in two places is one model
};

struct model_list {
    struct model_entry *entry;
    int n, cap;
    int budget;        // names of folders that may still be read
    bool is_cut;       // the budget was used up
    bool is_no_memory; // entries are missing
};

// Entries of all stores, sorted. False: out of memory. The list is to be freed either way.
bool stores_read(struct model_list *out);
void model_list_free(struct model_list *list);

// Folders that were looked into. Paths are PATH_MAX bytes.
enum { STORE_ROOTS = 16 };
struct store_root {
    enum store_id store;
    char *path;
    bool is_there;
};
struct store_roots {
    struct store_root root[STORE_ROOTS];
    int n;
};
bool store_roots_get(struct store_roots *out); // false: out of memory
void store_roots_free(struct store_roots *roots);

// The name that -m takes for this entry alone within its store: "NAME:TAG", or "NAME/FILE.gguf"
// where the tag does not tell it from others.
void model_entry_spec(const struct model_list *list, const struct model_entry *entry, char *out,
                      size_t size);

// ---------------------------------------------------------------- for the stores

// A new entry at the end, or NULL (is_no_memory is set). The texts are copied, NULL is "".
struct model_entry *model_list_add(struct model_list *list, enum store_id store, const char *name,
                                   const char *tag, const char *file, const char *path);
// The first problem of an entry is kept.
void model_problem(struct model_list *list, struct model_entry *entry, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void model_text_set(struct model_list *list, char **to, const char *text);

// The quantization at the end of a file's name, in capitals: "x-q4_k_m" has "Q4_K_M"; "": none.
enum { MODEL_TAG = 32 };
void model_tag_read(const char *stem, char out[MODEL_TAG]);

// A folder and the folders in it: each GGUF file, and each folder with config.json and safetensors.
struct walk {
    enum store_id store;
    const char *root;
    const char *name;   // of all models in it; NULL: made of the folders' names
    const char *inside; // a real path that links must not leave; NULL: they may
    int depth;          // of folders that are entered
};
void walk_folder(struct model_list *list, const struct walk *walk);

// Whether path, with its links followed, is in the folder `inside`, a real path. *to, PATH_MAX
// bytes, is where it leads; "" where that does not exist.
bool path_is_inside(const char *path, const char *inside, char *to);

void store_hub_read(struct model_list *list, enum store_id store, const char *root);
void store_llama_read(struct model_list *list, const char *root);
void store_ollama_read(struct model_list *list, const char *root);

#endif
