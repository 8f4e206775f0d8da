// Writes a model with recurrent layers and a block that drafts: `mtp_make FILE`. In it nothing but
// the last token decides the next one, so drafts of the block are right.
#include "../mtp_model.h"

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: mtp_make FILE\n");
        return 2;
    }
    struct mtp_file file = mtp_file_make(true);
    const int failed = rename(file.path, argv[1]);
    if (failed) perror(argv[1]);
    mtp_file_remove(&file);
    return failed != 0;
}
