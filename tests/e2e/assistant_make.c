// Writes a Gemma 4 and its assistant: `assistant_make FOLDER` makes model.gguf and assistant.gguf
// there. In the model nothing but the last token decides the next one, so drafts are right.
#include "../assistant_model.h"

static int move(const char *from, const char *folder, const char *name) {
    char to[4096];
    snprintf(to, sizeof to, "%s/%s", folder, name);
    if (rename(from, to) == 0) return 0;
    perror(to);
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: assistant_make FOLDER\n");
        return 2;
    }
    struct assistant a = assistant_make("gemma4-31b", true);
    const int failed =
        move(a.model_path, argv[1], "model.gguf") | move(a.path, argv[1], "assistant.gguf");
    assistant_remove(&a);
    return failed;
}
