// A server under load: its addresses, the model that it names, the words that prompts are made of,
// and, where it is this program's own, its process.
#ifndef RN_APP_LOAD_TARGET_H
#define RN_APP_LOAD_TARGET_H

#include <sys/types.h>

#include "client/client.h"
#include "client/connection.h"
#include "load/load.h"

enum { LOAD_WORDS_MAX = 64 };

// Prompts are words from this list. A prompt of n words has about n * tokens_per_word + overhead
// tokens; exactly, where every word is one token.
struct load_words {
    const char *word[LOAD_WORDS_MAX];
    int64_t id[LOAD_WORDS_MAX]; // where `exact`
    int n;
    bool exact;             // /tokenize says that every word is one token
    double tokens_per_word; // 0: the server does not say how many tokens a prompt has
    double overhead;        // tokens of the template
};

struct load_target {
    struct client_url base; // without /v1
    struct client_url endpoint;
    struct client_host host;
    char headers[CLIENT_HEADERS_SIZE];
    char model[256];
    char name[300]; // in messages: the URL, or the options of the own server
    struct load_words words;
    pid_t child;     // 0: none
    bool ignore_eos; // requests ask for it
};

// spec: a URL, or further options of the own server; NULL: as the configuration says.
int target_open(const struct load_config *config, const char *spec, struct load_target **out);
void target_close(struct load_target *target); // ends the own server; NULL: nothing
// Measures the words with a few requests. Before any load.
int target_calibrate(const struct load_config *config, struct load_target *target);

// The number of words for a prompt of `tokens`, at least 1; whole: the template's tokens are a
// part.
int words_for(const struct load_words *words, int tokens, bool whole);
// n words of the sequence `seed`, or their ids with commas, behind out's bytes.
void target_words_write(const struct load_words *words, uint64_t seed, int n, bool ids,
                        struct jbuf *out);
// A request's body: `input` is a JSON array of messages, of ids, or a JSON string.
void body_write(const struct load_config *config, const struct load_target *target,
                const struct jbuf *input, int max_tokens, bool stream, struct jbuf *out);

// child.c: the program itself as a server on a free port. model NULL: the embedded one; args and
// more: options with blanks between, or NULL.
int child_start(const char *model, const char *args, const char *more, pid_t *pid, char *url,
                size_t url_size);
void child_stop(pid_t pid);

#endif
