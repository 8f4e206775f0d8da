// The loss of a text from the logits of its positions, for the scripts: `logits_loss FILE N_VOCAB
// IDS` prints the mean of -log p over all ids but the first. FILE holds a row of N_VOCAB floats per
// id, as `runnel run --logits` writes it. Shares no code with the program.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// -log p(id), by a sum over the row in double.
static double surprise(const float *row, long n_vocab, long id) {
    double sum = 0;
    for (long i = 0; i < n_vocab; i++) sum += exp((double)row[i] - (double)row[id]);
    return log(sum);
}

int main(int argc, char **argv) {
    const long n_vocab = argc == 4 ? strtol(argv[2], NULL, 10) : 0;
    FILE *file = argc == 4 ? fopen(argv[1], "rb") : NULL;
    float *row = n_vocab > 0 ? malloc((size_t)n_vocab * sizeof *row) : NULL;
    if (!file || !row) {
        fputs("usage: logits_loss FILE N_VOCAB IDS\n", stderr);
        return 2;
    }
    double sum = 0;
    long count = 0;
    char *at = argv[3];
    strtol(at, &at, 10); // nothing predicts the first id
    while (*at == ',') {
        const long id = strtol(at + 1, &at, 10);
        if (id < 0 || id >= n_vocab ||
            fread(row, sizeof *row, (size_t)n_vocab, file) != (size_t)n_vocab) {
            fprintf(stderr, "logits_loss: id %ld, row %ld\n", id, count);
            return 1;
        }
        sum += surprise(row, n_vocab, id);
        count++;
    }
    printf("%.10f\n", count ? sum / (double)count : 0.0);
    free(row);
    fclose(file);
    return count ? 0 : 1;
}
