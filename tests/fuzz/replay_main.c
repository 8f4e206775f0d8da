// Replays a fuzz corpus without libFuzzer: calls the harness once for every file of the folders
// given. A folder that is missing or empty is a failure, so that a lost corpus is noticed.
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The whole file in memory of exactly its size, so that an overrun is seen by the sanitizers.
static uint8_t *file_read(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    uint8_t *data = NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        const long end = ftell(file);
        rewind(file);
        data = end >= 0 ? malloc(end > 0 ? (size_t)end : 1) : NULL;
        if (data) *size = fread(data, 1, (size_t)end, file);
        if (data && *size != (size_t)end) {
            free(data);
            data = NULL;
        }
    }
    fclose(file);
    return data;
}

static int folder_replay(const char *folder) {
    DIR *dir = opendir(folder);
    if (!dir) {
        fprintf(stderr, "%s: %s\n", folder, strerror(errno));
        return -1;
    }
    int count = 0;
    for (const struct dirent *entry; count >= 0 && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        size_t size = 0;
        uint8_t *data = file_read(path, &size);
        if (!data) {
            fprintf(stderr, "%s: cannot be read\n", path);
            count = -1;
            break;
        }
        LLVMFuzzerTestOneInput(data, size);
        free(data);
        count++;
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv) {
    int failures = argc < 2;
    for (int i = 1; i < argc; i++) {
        const int count = folder_replay(argv[i]);
        printf("%s: %d inputs\n", argv[i], count);
        if (count <= 0) failures++;
    }
    return failures ? 1 : 0;
}
