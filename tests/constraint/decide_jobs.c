// Decides texts by the automata of schemas, for comparisons with other implementations. Lines of
// the input: "S schema" starts a schema and prints "OK" or "ERROR message"; "T text" prints 1 or 0.
// Run by hand: decide_jobs < jobs
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "constraint/constraint.h"

static struct constraint_token token_at(void *ctx, int32_t id) {
    static char byte[256];
    (void)ctx;
    byte[id & 255] = (char)id;
    return (struct constraint_token){.data = &byte[id & 255], .len = 1, .is_end = id == 256};
}

static bool accepts(struct constraint *c, const char *text, size_t len) {
    struct constraint_run *run;
    if (!c || constraint_open(c, 1, &run, NULL)) return false;
    const bool is_accepted = constraint_feed(run, 0, text, len) && constraint_may_end(run, 0);
    constraint_close(run);
    return is_accepted;
}

int main(void) {
    struct constraint_vocab *vocab;
    if (constraint_vocab_create(257, token_at, NULL, &vocab, NULL)) return 1;
    struct constraint *c = NULL;
    char *line = NULL;
    size_t capacity = 0;
    for (ssize_t len; (len = getline(&line, &capacity, stdin)) > 2;) {
        const size_t size = (size_t)len - 2 - (line[len - 1] == '\n');
        if (line[0] == 'T') {
            printf("%d\n", accepts(c, line + 2, size));
            continue;
        }
        rn_error err;
        constraint_release(c);
        if (constraint_compile(vocab, CONSTRAINT_SCHEMA, line + 2, size, NULL, &c, &err))
            printf("ERROR %s\n", err.message);
        else
            puts("OK");
    }
    constraint_release(c);
    constraint_vocab_release(vocab);
    free(line);
    return 0;
}
