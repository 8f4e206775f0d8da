// One request of the replay, and the hash of all its results. A recipe and a name make a request:
// prompt, seed and lists are drawn from the name alone. The recipes are part of the record. A
// change of one changes the recorded hashes.
#ifndef RN_TESTS_REPLAY_ASK_H
#define RN_TESTS_REPLAY_ASK_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runnel.h"

enum {
    ASK_CONTEXT = 256, // positions of every engine
    ASK_MAX_PROMPT = 200,
    ASK_MAX_CHOICES = 3,
    ASK_MAX_TRIED = ASK_CONTEXT + RN_MAX_DRAFT + 1, // tokens of a constraint with its drafts
    ASK_MAX_BIAS = 64,
    ASK_PREFIX = 70, // tokens that prompts of one model share: two pages, and some
    ASK_LIST = 12,   // tokens of each text that RULE_LIST allows
    ASK_LISTS = 3,
};

__attribute__((format(printf, 1, 2), noreturn)) static inline void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}

// ---------------------------------------------------------------- numbers

// Folds a number into a hash.
static inline uint64_t fold(uint64_t hash, uint64_t value) {
    uint64_t x = hash * 31 + value + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t fold_bytes(uint64_t hash, const void *data, size_t size) {
    const unsigned char *bytes = data;
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) sum = (sum ^ bytes[i]) * 0x100000001b3u;
    return fold(fold(hash, size), sum);
}

static inline uint64_t fold_floats(uint64_t hash, const float *values, int n) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        sum = (sum ^ bits) * 0x100000001b3u;
        sum ^= sum >> 29;
    }
    return fold(hash, sum);
}

static inline uint64_t hash_text(const char *text) { return fold_bytes(0, text, strlen(text)); }

static inline int draw(uint64_t *random, int below) {
    *random = fold(*random, 1);
    return (int)((*random >> 20) % (uint64_t)below);
}

// ---------------------------------------------------------------- recipes

enum limit { LIMIT_SOME, LIMIT_PROMPT, LIMIT_CONTEXT };
enum bias { BIAS_NONE, BIAS_SOME, BIAS_BANS, BIAS_SAME }; // same: several entries for one token
enum breakers { BREAKERS_DEFAULT, BREAKERS_NONE, BREAKERS_OWN };
enum rule {
    RULE_NONE,
    RULE_PARITY, // ids are odd and even by turns
    RULE_CHAIN,  // the sum of two neighbours can be divided by 3
    RULE_LIST,   // one of a few texts; behind its end nothing is allowed
};

struct recipe {
    const char *name;
    const char *sampling; // "field=value ..." over the neutral values
    enum bias bias;
    enum breakers breakers;
    enum limit limit;
    enum rule rule;
    const char *stop; // strings, '|' between them
    int n;
    int logprobs; // 1 and how many of the likeliest; 0: none
    bool loops;   // the prompt repeats itself
    bool ignore_eos, special_text, logits;
    rn_pooling pooling;
    bool normalize;
};

#define LETTERS "e|a|st"
#define WORDS   "little|was very|the dog|ing to|\n\n|. She"
#define FILTERS "temperature=1.3 top_n_sigma=3 top_k=60 typical_p=0.95 top_p=0.9 min_p=0.01 "
#define DRY     "dry_multiplier=0.8 dry_base=1.5 dry_allowed_length=1 "
#define ALL                                                                                        \
    FILTERS DRY "repetition_penalty=1.15 repeat_last_n=40 presence_penalty=0.3 "                   \
                "frequency_penalty=0.2 xtc_probability=0.5 xtc_threshold=0.05"

static const struct recipe recipes[] = {
    {"greedy", .sampling = "temperature=0"},
    {"greedy-free", .sampling = "temperature=0", .ignore_eos = true},
    {"cool", .sampling = "temperature=0.3"},
    {"mild", .sampling = "temperature=0.7"},
    {"plain", .sampling = ""},
    {"hot", .sampling = "temperature=1.6"},
    {"boiling", .sampling = "temperature=5"},
    {"top-k", .sampling = "temperature=1.2 top_k=7"},
    {"top-k-1", .sampling = "top_k=1"},
    {"top-p", .sampling = "top_p=0.7"},
    {"top-p-0", .sampling = "top_p=0"},
    {"min-p", .sampling = "temperature=1.1 min_p=0.2"},
    {"typical", .sampling = "typical_p=0.6"},
    {"sigma", .sampling = "temperature=2 top_n_sigma=1.5"},
    {"xtc", .sampling = "xtc_probability=1 xtc_threshold=0.01"},
    {"xtc-half", .sampling = "temperature=0.8 xtc_probability=0.5 xtc_threshold=0.1"},
    {"bias", .sampling = "", .bias = BIAS_SOME},
    {"ban", .sampling = "temperature=0.9", .bias = BIAS_BANS},
    {"bias-same", .sampling = "temperature=0.6", .bias = BIAS_SAME},
    {"bias-greedy", .sampling = "temperature=0", .bias = BIAS_SAME},
    {"repetition", .sampling = "repetition_penalty=1.3", .loops = true},
    {"repetition-window", .sampling = "temperature=0 repetition_penalty=1.8 repeat_last_n=9",
     .loops = true},
    {"repetition-greedy", .sampling = "temperature=0 repetition_penalty=1.2", .loops = true},
    {"presence", .sampling = "temperature=0.7 presence_penalty=1.5"},
    {"presence-less", .sampling = "presence_penalty=-1.2"},
    {"frequency", .sampling = "temperature=0.5 frequency_penalty=1.1", .loops = true},
    {"penalties", .sampling = "repetition_penalty=0.8 repeat_last_n=30 presence_penalty=0.5 "
                              "frequency_penalty=-0.4"},
    {"dry", .sampling = DRY "temperature=0.2", .loops = true},
    {"dry-unbroken", .sampling = DRY "temperature=0.2", .loops = true, .breakers = BREAKERS_NONE},
    {"dry-broken", .sampling = DRY "temperature=0 dry_multiplier=3", .loops = true,
     .breakers = BREAKERS_OWN},
    {"dry-window", .sampling = DRY "temperature=0.2 dry_penalty_last_n=25", .loops = true,
     .breakers = BREAKERS_NONE},
    {"dry-greedy", .sampling = DRY "temperature=0 dry_multiplier=3", .loops = true},
    {"filters", .sampling = FILTERS},
    {"everything", .sampling = ALL, .bias = BIAS_SOME, .stop = WORDS, .breakers = BREAKERS_OWN},
    {"choices", .sampling = "temperature=0.9", .n = 3},
    {"choices-greedy", .sampling = "temperature=0", .n = 2},
    {"choices-all", .sampling = ALL, .n = 3, .logprobs = 1 + 3, .stop = LETTERS, .bias = BIAS_BANS},
    {"stop-letters", .sampling = "", .stop = LETTERS},
    {"stop-words", .sampling = "temperature=0.5", .stop = WORDS, .ignore_eos = true},
    {"stop-greedy", .sampling = "temperature=0", .stop = LETTERS "|" WORDS},
    {"stop-bytes", .sampling = "temperature=3", .stop = "\xc3\xa9|\xf0\x9f\x99\x82|\xe6\x97\xa5|q"},
    {"ignore-eos", .sampling = "temperature=1.5", .ignore_eos = true},
    {"special-text", .sampling = "temperature=4", .special_text = true, .ignore_eos = true},
    {"prompt", .sampling = "", .limit = LIMIT_PROMPT},
    {"prompt-logits", .sampling = "", .limit = LIMIT_PROMPT, .logits = true},
    {"logprobs-0", .sampling = "", .logprobs = 1},
    {"logprobs-1", .sampling = "temperature=0", .logprobs = 1 + 1},
    {"logprobs-5", .sampling = "temperature=0.8 top_k=3", .logprobs = 1 + 5, .bias = BIAS_BANS},
    {"logprobs-20", .sampling = ALL, .logprobs = 1 + 20, .n = 2},
    {"logits", .sampling = "temperature=0", .logits = true},
    {"logits-all", .sampling = ALL, .logits = true, .logprobs = 1 + 2, .breakers = BREAKERS_OWN},
    {"mean", .sampling = "", .pooling = RN_POOLING_MEAN},
    {"mean-normal", .sampling = "", .pooling = RN_POOLING_MEAN, .normalize = true},
    {"last", .sampling = "", .pooling = RN_POOLING_LAST},
    {"last-normal", .sampling = "", .pooling = RN_POOLING_LAST, .normalize = true},
    {"parity", .sampling = "temperature=0.8", .rule = RULE_PARITY},
    {"chain", .sampling = "temperature=0 dry_multiplier=1", .rule = RULE_CHAIN, .n = 2},
    {"list", .sampling = "", .rule = RULE_LIST, .logprobs = 1 + 4, .ignore_eos = true},
    {"context", .sampling = "temperature=0.7", .limit = LIMIT_CONTEXT, .ignore_eos = true},
};
enum { RECIPES = sizeof recipes / sizeof recipes[0] };

// ---------------------------------------------------------------- a request

// The results of one choice so far.
struct choice {
    uint64_t hash;
    int32_t ids[ASK_CONTEXT], truth[ASK_CONTEXT]; // truth: of the run before, for drafts
    int n_ids, n_truth;
    int32_t tried[ASK_MAX_TRIED]; // where the constraint is
    int n_tried;
};

struct ask {
    char name[96];
    const struct recipe *recipe;
    uint64_t random; // of the draws that make it
    int n_vocab, n_embd;
    int32_t prompt[ASK_MAX_PROMPT];
    rn_logit_bias bias[ASK_MAX_BIAS];
    const char *stop[RN_MAX_STOPS];
    char stop_text[64];
    int32_t list[ASK_LISTS][ASK_LIST];
    rn_request request;
    uint64_t id;
    bool ended;
    struct choice choice[ASK_MAX_CHOICES];
    uint64_t rows[ASK_CONTEXT]; // hashes of the logits by position; 0: none
};

static inline int ask_choices(const struct ask *ask) { return ask->request.n ? ask->request.n : 1; }

// ---------------------------------------------------------------- constraint

static inline bool ask_allows(const struct ask *ask, const struct choice *choice, int32_t token) {
    const int at = choice->n_tried;
    bool listed = false;
    switch (ask->recipe->rule) {
    case RULE_PARITY:
        return ((token + at) & 1) == 0;
    case RULE_CHAIN:
        return at == 0 || (token + choice->tried[at - 1]) % 3 == 0;
    case RULE_LIST:
        for (int i = 0; i < ASK_LISTS && at < ASK_LIST; i++)
            listed |= ask->list[i][at] == token &&
                      memcmp(ask->list[i], choice->tried, (size_t)at * sizeof token) == 0;
        return listed;
    default:
        return true;
    }
}

static inline void ask_mask(void *ctx, int choice, uint64_t *allowed, int n_vocab) {
    const struct ask *ask = ctx;
    for (int32_t token = 0; token < n_vocab; token++)
        if (!ask_allows(ask, &ask->choice[choice], token))
            allowed[token / 64] &= ~(UINT64_C(1) << (token % 64));
}

static inline void ask_advance(void *ctx, int choice, int32_t token) {
    struct ask *ask = ctx;
    struct choice *c = &ask->choice[choice];
    if (c->n_tried == ASK_MAX_TRIED) die("%s: more tokens than the context has", ask->name);
    c->tried[c->n_tried++] = token;
}

static inline void ask_rollback(void *ctx, int choice, int n_tokens) {
    struct ask *ask = ctx;
    struct choice *c = &ask->choice[choice];
    if (n_tokens < 0 || n_tokens > c->n_tried) die("%s: rolled back too far", ask->name);
    c->n_tried -= n_tokens;
}

// ---------------------------------------------------------------- making one

static inline void sampling_set(rn_sampling *sampling, const char *name, size_t length,
                                const char *value) {
#define SAMPLING_VALUE_FLOAT(text) strtof(text, NULL)
#define SAMPLING_VALUE_INT(text)   (int)strtol(text, NULL, 10)
#define SAMPLING_NUMBER(kind, id, field, ...)                                                      \
    if (strlen(#field) == length && memcmp(#field, name, length) == 0) {                           \
        sampling->field = SAMPLING_VALUE_##kind(value);                                            \
        return;                                                                                    \
    }
#include "plan/sampling.def"
    die("no sampling field: %s", name);
}

static inline rn_sampling sampling_read(const char *text) {
    rn_sampling sampling = rn_sampling_neutral();
    while (*(text += strspn(text, " "))) {
        const size_t length = strcspn(text, "=");
        sampling_set(&sampling, text, length, text + length + 1);
        text += strcspn(text, " ");
    }
    return sampling;
}

// Every second token is one of the prompt's.
static inline void ask_set_bias(struct ask *ask) {
    rn_sampling *sampling = &ask->request.sampling;
    const enum bias kind = ask->recipe->bias;
    const int n_prompt = (int)ask->request.n_prompt;
    const int32_t same = ask->prompt[draw(&ask->random, n_prompt)];
    if (kind == BIAS_NONE) return;
    for (int i = 0; i < ASK_MAX_BIAS; i++) {
        const int32_t token =
            i % 2 ? draw(&ask->random, ask->n_vocab) : ask->prompt[draw(&ask->random, n_prompt)];
        const float bias = (float)(draw(&ask->random, 81) - 40) / 8;
        ask->bias[i] = (rn_logit_bias){.token = token, .bias = bias};
        if (kind == BIAS_BANS && i % 4 < 2) ask->bias[i].bias = i % 8 < 4 ? -100 : -60;
        if (kind == BIAS_SAME && i % 16 == 5)
            ask->bias[i] = (rn_logit_bias){.token = same, .bias = bias / 4 + 1};
    }
    sampling->logit_bias = ask->bias;
    sampling->n_logit_bias = ASK_MAX_BIAS;
}

static inline void ask_set_sampling(struct ask *ask) {
    static const char *const breakers[] = {" ", "e", "a", "\n"};
    rn_sampling *sampling = &ask->request.sampling;
    *sampling = sampling_read(ask->recipe->sampling);
    sampling->has_seed = true;
    sampling->seed = fold(ask->random, 2);
    ask_set_bias(ask);
    if (ask->recipe->breakers == BREAKERS_DEFAULT) return;
    sampling->dry_sequence_breakers = breakers;
    sampling->n_dry_sequence_breakers = ask->recipe->breakers == BREAKERS_OWN ? 4 : 0;
}

static inline void ask_set_stops(struct ask *ask) {
    if (!ask->recipe->stop) return;
    snprintf(ask->stop_text, sizeof ask->stop_text, "%s", ask->recipe->stop);
    for (char *rest = ask->stop_text, *stop; (stop = strsep(&rest, "|"));)
        ask->stop[ask->request.n_stop++] = stop;
    ask->request.stop = ask->stop;
}

// A text of words, as the model's tokens; at most as many as there is room for.
static inline size_t ask_write_words(struct ask *ask, const rn_model *model, int32_t *out,
                                     size_t room) {
    static const char *const words[] = {"Once upon a time",
                                        " there was",
                                        " a little girl",
                                        " named Lily",
                                        ". She",
                                        " loved to play",
                                        " with the dog",
                                        ".\n",
                                        "\"Hello,\" he said",
                                        " na\xc3\xafve",
                                        " \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e",
                                        " \xf0\x9f\x99\x82",
                                        " 1234",
                                        " it's",
                                        ": ",
                                        " * and then"};
    char text[512] = "";
    size_t length = 0, n;
    int32_t *ids;
    rn_error err;
    for (int i = 4 + draw(&ask->random, 14); i > 0; i--)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s",
                                   words[draw(&ask->random, (int)(sizeof words / sizeof *words))]);
    if (rn_tokenize(model, text, length, RN_TOKENIZE_BOS | RN_TOKENIZE_SPECIAL, &ids, &n, &err))
        die("%s: %s", ask->name, err.message);
    if (n > room) n = room;
    memcpy(out, ids, n * sizeof *out);
    rn_free(ids);
    return n;
}

static inline size_t ask_write_ids(struct ask *ask, int32_t *out, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = draw(&ask->random, ask->n_vocab);
    return n;
}

// A few words or ids, again and again.
static inline size_t ask_write_loop(struct ask *ask, const rn_model *model, int32_t *out,
                                    size_t n) {
    const size_t few = (size_t)(3 + draw(&ask->random, 6));
    const size_t period = draw(&ask->random, 3) ? ask_write_words(ask, model, out, 3 * few)
                                                : ask_write_ids(ask, out, few);
    for (size_t i = period; i < n; i++) out[i] = out[i - period];
    return n;
}

// Ids that every prompt of the model may begin with, then words, ids, or what repeats itself.
static inline void ask_set_prompt(struct ask *ask, const rn_model *model, uint64_t prefix,
                                  bool shared) {
    int32_t *out = ask->prompt;
    size_t n = 0;
    if (shared || draw(&ask->random, 3) == 0)
        for (; n < ASK_PREFIX; n++) out[n] = draw(&prefix, ask->n_vocab);
    const size_t length = (size_t)(1 + draw(&ask->random, 70));
    if (ask->recipe->limit == LIMIT_CONTEXT)
        n = ask_write_ids(ask, out, ASK_MAX_PROMPT);
    else if (ask->recipe->loops)
        n += ask_write_loop(ask, model, out + n, length + 24);
    else if (draw(&ask->random, 2))
        n += ask_write_words(ask, model, out + n, ASK_MAX_PROMPT - n);
    else
        n += ask_write_ids(ask, out + n, length);
    ask->request.prompt = out;
    ask->request.n_prompt = n;
}

static inline void ask_keep_row(void *ctx, int position, const float *logits, int n_vocab) {
    uint64_t *row = &((struct ask *)ctx)->rows[position];
    const uint64_t hash = fold_floats(3, logits, n_vocab) | 2;
    *row = *row && *row != hash ? 1 : hash; // 1: a position had two values
}

static inline void ask_set_rest(struct ask *ask, bool longer) {
    const struct recipe *recipe = ask->recipe;
    rn_request *request = &ask->request;
    request->data = ask;
    request->n = recipe->n;
    request->max_tokens = (longer ? 40 : 12) + draw(&ask->random, 24);
    if (recipe->limit != LIMIT_SOME) request->max_tokens = -1;
    request->prompt_only = recipe->limit == LIMIT_PROMPT;
    request->ignore_eos = recipe->ignore_eos;
    request->special_text = recipe->special_text;
    request->logprobs = recipe->logprobs > 0;
    request->top_logprobs = recipe->logprobs ? recipe->logprobs - 1 : 0;
    request->pooling = recipe->pooling;
    request->normalize = recipe->normalize;
    if (recipe->logits) request->on_logits = ask_keep_row;
    request->on_logits_ctx = ask;
    if (recipe->rule == RULE_NONE) return;
    request->constraint = (rn_constraint){ask, ask_mask, ask_advance, ask_rollback};
    for (int i = 0; i < ASK_LISTS; i++) // the first two begin alike
        for (int j = 0; j < ASK_LIST; j++)
            ask->list[i][j] = i == 1 && j < 3 ? ask->list[0][j] : draw(&ask->random, ask->n_vocab);
}

// How a company bends its requests.
struct bend {
    bool shared; // every prompt begins with the model's prefix
    bool longer; // texts
};

// name and recipe are set.
static inline void ask_make(struct ask *ask, const rn_model *model, uint64_t prefix,
                            struct bend bend) {
    const rn_model_info *info = rn_model_get_info(model);
    ask->random = hash_text(ask->name);
    ask->n_vocab = info->n_vocab;
    ask->n_embd = info->n_embd;
    ask_set_prompt(ask, model, prefix, bend.shared);
    ask_set_sampling(ask);
    ask_set_stops(ask);
    ask_set_rest(ask, bend.longer);
}

// ---------------------------------------------------------------- what came back

static inline void ask_take(struct ask *ask, const rn_event *event) {
    if (event->choice < 0 || event->choice >= ask_choices(ask) || ask->ended)
        die("%s: an event that nobody expects", ask->name);
    struct choice *c = &ask->choice[event->choice];
    uint64_t hash = fold(c->hash, (uint64_t)event->token);
    hash = fold_bytes(hash, event->text, event->text_len);
    for (int i = 0; i < event->n_logprobs; i++) {
        hash = fold(hash, (uint64_t)event->logprob[i].token);
        hash = fold_floats(hash, &event->logprob[i].logprob, 1);
    }
    hash = fold(fold(hash, (uint64_t)event->finish), (uint64_t)event->status);
    if (event->stop) hash = fold_bytes(hash, event->stop, strlen(event->stop));
    hash = fold(hash, event->seed);
    if (event->embedding) hash = fold_floats(hash, event->embedding, ask->n_embd);
    c->hash = hash;
    if (event->token >= 0) {
        if (c->n_ids == ASK_CONTEXT) die("%s: more tokens than the context has", ask->name);
        c->ids[c->n_ids++] = event->token;
    }
    ask->ended = event->last;
}

static inline uint64_t ask_hash(const struct ask *ask) {
    uint64_t hash = 4;
    for (int i = 0; i < ask_choices(ask); i++) hash = fold(hash, ask->choice[i].hash);
    for (int i = 0; i < ASK_CONTEXT; i++) hash = fold(hash, ask->rows[i]);
    return hash;
}

// Ready to be run once more; the tokens that it had are kept as the truth.
static inline void ask_again(struct ask *ask) {
    for (int i = 0; i < ask_choices(ask); i++) {
        struct choice *c = &ask->choice[i];
        memcpy(c->truth, c->ids, sizeof c->truth);
        c->n_truth = c->n_ids;
        c->n_ids = c->n_tried = 0;
        c->hash = 0;
    }
    memset(ask->rows, 0, sizeof ask->rows);
    ask->ended = false;
}

#endif
