// The word that a user probably meant, by edit distance. For unknown options and commands.
#include <string.h>

#include "options/options.h"

static int smaller(int a, int b) { return a < b ? a : b; }

// Edits that turn a into b, two neighbours that change places being one; both at most 63 bytes.
static int edit_distance(const char *a, const char *b) {
    const int n = (int)strnlen(a, 63), m = (int)strnlen(b, 63);
    int rows_of[3][64]; // of the last three characters of a
    for (int j = 0; j <= m; j++) rows_of[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *row = rows_of[i % 3];
        const int *above = rows_of[(i + 2) % 3], *before = rows_of[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            row[j] =
                smaller(above[j - 1] + (a[i - 1] != b[j - 1]), 1 + smaller(above[j], row[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = smaller(row[j], before[j - 2] + 1);
        }
    }
    return rows_of[n % 3][m];
}

// Whether the word switches something off. A guess that means the opposite is no help.
static bool is_negative(const char *word) {
    return !strncmp(word, "no-", 3) || !strncmp(word, "disable-", 8) ||
           !strncmp(word, "without-", 8);
}

const char *nearest_word(const char *typed, const char *const *names, int count) {
    const size_t len = strlen(typed);
    const char *best = NULL,
               *begun = NULL; // begun: the shortest name that starts with the typed text
    // beyond this it is another word; short words are near to many
    int best_distance = len < 6 ? 1 : 1 + (int)len / 3;
    for (int i = 0; i < count; i++) {
        if (is_negative(typed) != is_negative(names[i])) continue;
        if (len && !strncmp(typed, names[i], len) && (!begun || strlen(names[i]) < strlen(begun))) {
            begun = names[i];
        }
        const int distance = edit_distance(typed, names[i]);
        if (distance <= best_distance && (!best || distance < best_distance)) {
            best = names[i];
            best_distance = distance;
        }
    }
    return begun ? begun : best;
}
