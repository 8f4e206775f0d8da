// Takes or refuses the spellings of other programs by the rows of peers.def. Called by
// command_line.c for words that are no options of the command.
#include "options/peers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"

enum {
#define COMMAND(id, ...) id = 1u << COMMAND_##id,
#include "commands.def"
#undef COMMAND
    LOADS = RUN | SERVE | EVAL | BENCH | BENCH_SERVE | PLAN | INSPECT | TOKENIZE | DETOKENIZE,
};

#define NO_VALUE  PEER_NO_VALUE
#define ANY_VALUE PEER_ANY_VALUE

static const struct peer peers[] = {
#define SETS(spellings, commands, id, value)                                                       \
    {spellings, commands, PEER_SETS, OPT_##id, value, NULL},
#define ALWAYS(spellings, commands, text) {spellings, commands, PEER_ALWAYS, OPT_COUNT, text, NULL},
#define WORD(spellings, commands, text)   {spellings, commands, PEER_WORD, OPT_COUNT, text, NULL},
#define LAYERS(spellings, commands, id)   {spellings, commands, PEER_LAYERS, OPT_##id, NULL, NULL},
#define HARMLESS(spellings, commands, values, text)                                                \
    {spellings, commands, PEER_HARMLESS, OPT_COUNT, text, values},
#define INSTEAD(spellings, commands, text)                                                         \
    {spellings, commands, PEER_INSTEAD, OPT_COUNT, text, NULL},
#include "options/peers.def"
};

const struct peer *peer_at(int index) {
    return index < (int)(sizeof peers / sizeof *peers) ? &peers[index] : NULL;
}

// Whether one of "a|b|c" is the word.
static bool is_among(const char *words, const char *word, size_t len) {
    for (; words; words = strchr(words, '|')) {
        words += *words == '|';
        if (strcspn(words, "|") == len && !memcmp(words, word, len)) return true;
    }
    return false;
}

const struct peer *peer_find(enum command_id command, const char *given) {
    const size_t len = strcspn(given, "=");
    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++)
        if ((peers[i].commands >> command & 1u) && is_among(peers[i].spellings, given, len))
            return &peers[i];
    return NULL;
}

// ---------------------------------------------------------------- taking

struct given {
    char name[OPTION_NAME_SIZE];
    const char *value; // behind a '=', or NULL
    const char *next;  // the next argument, or NULL
};

static bool refuse(const struct given *given, const char *text) {
    app_fail(APP_USAGE, "%s: %s", given->name, text);
    return false;
}

// A word behind the flag is its value only if it is one of these.
static bool word_take(const struct given *given, const char *text, int *at) {
    static const char on[] = "on|auto|1|true|yes|enabled", off[] = "off|0|false|no|disabled";
    const char *word = given->value ? given->value : given->next;
    const size_t len = word ? strlen(word) : 0;
    const bool is_off = word && is_among(off, word, len);
    if (is_off || (given->value && !is_among(on, word, len))) {
        app_fail(APP_USAGE, "%s %s: %s", given->name, app_short(word).text, text);
        return false;
    }
    if (!given->value && word && is_among(on, word, len)) ++*at;
    return true;
}

// No layers: the CPU. More than models have: the backend that is best, with all layers.
static bool layers_take(struct options *options, enum option_id id, const struct given *given,
                        int *at) {
    enum { ALL = 99 };
    const char *value = given->value ? given->value : given->next;
    char *end = NULL;
    if (!value) {
        app_fail(APP_USAGE, "%s needs a value: N", given->name);
        return false;
    }
    const long layers = strtol(value, &end, 10);
    const bool is_number = *value && !*end;
    const bool all =
        is_among("all|auto", value, strlen(value)) || (is_number && (layers < 0 || layers >= ALL));
    if (!all && !(is_number && layers == 0)) {
        app_fail(
            APP_USAGE,
            "%s %s: a model runs as a whole on one backend: --%s cpu, or auto for the best one",
            given->name, app_short(value).text, option_flag_name(id));
        return false;
    }
    if (!given->value) ++*at;
    if (all) return true;
    return option_set(options, id, ORIGIN_COMMAND_LINE, given->name, "cpu");
}

// The argument stays in the options for its note.
static void harmless_keep(struct options *options, const char *arg) {
    const size_t len = strcspn(arg, "=");
    for (int i = 0; i < options->n_harmless; i++) {
        const char *other = options->harmless[i];
        if (strcspn(other, "=") == len && !memcmp(other, arg, len)) return;
    }
    assert(options->n_harmless < OPTIONS_HARMLESS); // each is a spelling of the table
    options->harmless[options->n_harmless++] = arg;
}

// A row without values takes no argument; the others take one.
static bool harmless_take(const struct peer *peer, const struct given *given, int *at) {
    const char *value = given->value ? given->value : given->next;
    if (!strcmp(peer->values, PEER_NO_VALUE))
        return !given->value || refuse(given, "takes no value");
    const bool is_any = !strcmp(peer->values, PEER_ANY_VALUE);
    if (!value) {
        app_fail(APP_USAGE, "%s needs a value: %s", given->name, is_any ? "VALUE" : peer->values);
        return false;
    }
    if (!is_any && !is_among(peer->values, value, strlen(value))) {
        app_fail(APP_USAGE, "%s %s: %s", given->name, app_short(value).text, peer->text);
        return false;
    }
    if (!given->value) ++*at;
    return true;
}

void peer_notes_print(const struct options *options) {
    for (int i = 0; i < options->n_harmless; i++) {
        const char *flag = options->harmless[i];
        const struct peer *peer = peer_find(options->command, flag);
        if (peer)
            fprintf(stderr, "runnel: %.*s: not needed here: %s\n", (int)strcspn(flag, "="), flag,
                    peer->text);
    }
}

bool peer_take(struct options *options, const struct peer *peer, int argc, char **argv, int *at) {
    const char *arg = argv[*at], *equals = strchr(arg, '=');
    struct given given = {.value = equals ? equals + 1 : NULL,
                          .next = *at + 1 < argc ? argv[*at + 1] : NULL};
    snprintf(given.name, sizeof given.name, "%.*s", (int)strcspn(arg, "="), arg);
    switch (peer->kind) {
    case PEER_SETS:
        if (given.value) return refuse(&given, "takes no value");
        return option_set(options, peer->id, ORIGIN_COMMAND_LINE, given.name, peer->text);
    case PEER_ALWAYS:
        return true;
    case PEER_WORD:
        return word_take(&given, peer->text, at);
    case PEER_LAYERS:
        return layers_take(options, peer->id, &given, at);
    case PEER_HARMLESS:
        harmless_keep(options, arg);
        return harmless_take(peer, &given, at);
    case PEER_INSTEAD:
        return refuse(&given, peer->text);
    }
    return false;
}
