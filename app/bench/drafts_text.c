// The requests of `runnel bench --speculate`: stories for trained models, random ids for random
// weights. Also texts that the requests are forced to write, and a drafter that knows the coming
// text. Everything is the same in every run.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/drafts.h"
#include "run/chat.h"

enum { RANDOM_PROMPT = 32, FORCED_MAX = 4096, FORCED_REQUEST = -2 };

// ---------------------------------------------------------------- prompts

// "Tell me a story about a fox and a lantern.", another for each of 256.
static void story_text(int index, char *out, size_t size) {
    static const char *const who[] = {"a fox",    "a robot",  "an owl",   "a baker",
                                      "a dragon", "a whale",  "a knight", "a girl",
                                      "a mouse",  "a sailor", "a bear",   "a witch",
                                      "a cat",    "a farmer", "a ghost",  "a rabbit"};
    static const char *const what[] = {"a lantern", "a kite",   "a river",   "a clock",
                                       "a garden",  "a map",    "a storm",   "a drum",
                                       "a bridge",  "a mirror", "a boat",    "an apple",
                                       "a key",     "a hat",    "a feather", "a mountain"};
    const int n = (int)(sizeof who / sizeof *who);
    snprintf(out, size, "Tell me a story about %s and %s.", who[index % n],
             what[(index + index / n) % n]);
}

static int story_tokens(const rn_model *model, const char *story, int32_t **ids, size_t *n_ids) {
    rn_error err = {0};
    if (!rn_model_chat_template(model)) {
        const rn_status status =
            rn_tokenize(model, story, strlen(story), RN_TOKENIZE_BOS, ids, n_ids, &err);
        return status ? app_fail_error(&err) : APP_OK;
    }
    struct chat chat = {.model = model,
                        .messages = json_array(),
                        .flags = RN_TOKENIZE_BOS | RN_TOKENIZE_SPECIAL};
    int code = chat.messages && chat_add(&chat, "user", story, strlen(story))
                   ? chat_template_open(model, NULL, &chat.tmpl, NULL)
                   : app_fail(APP_FAILED, "out of memory");
    if (!code) code = chat_tokens(&chat, true, ids, n_ids, NULL);
    chat_close(&chat);
    return code;
}

static void random_ids(int request, int n, int n_vocab, int32_t *out) {
    for (int i = 0; i < n; i++) out[i] = crowd_prompt_id(request, i, n_vocab);
}

// n_random: N random ids; 0: a story.
static int prompt_make(struct drafts_text *text, int index, int n_random) {
    int32_t *story_ids = NULL;
    size_t n_story = 0;
    if (!n_random) {
        char story[96];
        story_text(index, story, sizeof story);
        const int code = story_tokens(text->model, story, &story_ids, &n_story);
        if (code) return code;
    }
    const int n_vocab = rn_model_get_info(text->model)->n_vocab;
    const size_t n = n_random ? (size_t)n_random : n_story;
    int32_t *ids = malloc((n + (size_t)text->n_forced) * sizeof *ids);
    if (ids && n_random) random_ids(index, n_random, n_vocab, ids);
    if (ids && n_story) memcpy(ids, story_ids, n_story * sizeof *ids);
    if (ids && text->n_forced) memcpy(ids + n, text->forced, (size_t)text->n_forced * sizeof *ids);
    rn_free(story_ids);
    text->prompt[index] = ids;
    text->n_prompt[index] = (int)n + text->n_forced;
    return ids ? APP_OK : app_fail(APP_FAILED, "out of memory");
}

// ---------------------------------------------------------------- forced texts

static int forced_random(struct drafts_text *text, int n) {
    text->forced = malloc((size_t)n * sizeof *text->forced);
    if (!text->forced) return app_fail(APP_FAILED, "out of memory");
    random_ids(FORCED_REQUEST, n, rn_model_get_info(text->model)->n_vocab, text->forced);
    text->n_forced = n;
    return APP_OK;
}

static int forced_words(struct drafts_text *text, const char *words) {
    int32_t *ids = NULL;
    size_t n = 0;
    rn_error err = {0};
    if (rn_tokenize(text->model, words, strlen(words), 0, &ids, &n, &err))
        return app_fail_error(&err);
    const bool fits = n > 0 && n <= FORCED_MAX;
    text->forced = fits ? malloc(n * sizeof *ids) : NULL;
    if (text->forced) memcpy(text->forced, ids, n * sizeof *ids);
    text->n_forced = (int)n;
    rn_free(ids);
    if (!fits)
        return app_fail(APP_USAGE, "--forced: the text has %zu tokens instead of 1 to %d", n,
                        FORCED_MAX);
    return text->forced ? APP_OK : app_fail(APP_FAILED, "out of memory");
}

static int forced_make(struct drafts_text *text, const char *forced, bool has_words) {
    if (!forced) return APP_OK;
    char *end = NULL;
    errno = 0;
    const long n = strtol(forced, &end, 10);
    const bool is_number = strspn(forced, "0123456789") == strlen(forced);
    if (is_number && (n < 1 || n > FORCED_MAX || errno))
        return app_fail(APP_USAGE, "--forced: '%s' is not a number of tokens from 1 to %d",
                        app_short(forced).text, FORCED_MAX);
    if (is_number) return forced_random(text, (int)n);
    if (has_words) return forced_words(text, forced);
    return app_fail(APP_USAGE, "--forced: a model of random weights has no words: give a number of "
                               "tokens, such as 40");
}

static void forced_mask(void *ctx, int choice, uint64_t *allowed, int n_vocab) {
    const struct drafts_forced *forced = ctx;
    const uint32_t id = (uint32_t)forced->token[forced->at % forced->n];
    (void)choice;
    memset(allowed, 0, ((size_t)n_vocab + 63) / 64 * sizeof *allowed);
    allowed[id / 64] |= 1ull << id % 64;
}

static void forced_advance(void *ctx, int choice, int32_t token) {
    struct drafts_forced *forced = ctx;
    (void)choice;
    (void)token;
    forced->at++;
}

static void forced_rollback(void *ctx, int choice, int n_tokens) {
    struct drafts_forced *forced = ctx;
    (void)choice;
    forced->at -= n_tokens;
}

rn_constraint drafts_forced_constraint(struct drafts_forced *forced) {
    return (rn_constraint){.ctx = forced,
                           .mask = forced_mask,
                           .advance = forced_advance,
                           .rollback = forced_rollback};
}

// ---------------------------------------------------------------- all of it

int drafts_text_init(struct drafts_text *text, const struct bench_place *place) {
    const struct bench_config *config = place->bench->config;
    const bool has_words = place->source->source != SOURCE_SYNTHETIC;
    const int n_streams = bench_list_largest(&config->streams);
    const int n_temperatures = config->temperatures.count;
    const int n_gen = bench_list_at(&config->n_gen, 0);
    const int n_random = config->has_prompt ? bench_list_at(&config->n_prompt, 0)
                         : has_words        ? 0
                                            : RANDOM_PROMPT;
    *text =
        (struct drafts_text){.model = place->model,
                             .n_streams = n_streams,
                             .prompt = calloc(2 * (size_t)n_streams, sizeof *text->prompt),
                             .n_prompt = calloc(2 * (size_t)n_streams, sizeof *text->n_prompt),
                             .n_gen = n_gen,
                             .n_temperatures = n_temperatures,
                             .known =
                                 calloc((size_t)n_temperatures * (size_t)n_streams * (size_t)n_gen,
                                        sizeof *text->known),
                             .is_known = calloc((size_t)n_temperatures, sizeof *text->is_known)};
    int code = text->prompt && text->n_prompt && text->known && text->is_known
                   ? forced_make(text, config->forced, has_words)
                   : app_fail(APP_FAILED, "out of memory");
    for (int i = 0; !code && i < 2 * n_streams; i++) code = prompt_make(text, i, n_random);
    if (code) drafts_text_deinit(text);
    return code;
}

void drafts_text_deinit(struct drafts_text *text) {
    for (int i = 0; text->prompt && i < 2 * text->n_streams; i++) free(text->prompt[i]);
    free(text->prompt);
    free(text->n_prompt);
    free(text->forced);
    free(text->known);
    free(text->is_known);
    *text = (struct drafts_text){0};
}

int drafts_text_positions(const struct drafts_text *text) {
    int most = 0;
    for (int i = 0; i < 2 * text->n_streams; i++)
        if (text->n_prompt[i] > most) most = text->n_prompt[i];
    return most + text->n_gen;
}

int32_t *drafts_text_known(const struct drafts_text *text, int temperature, int stream) {
    const size_t at = (size_t)temperature * (size_t)text->n_streams + (size_t)stream;
    return text->known + at * (size_t)text->n_gen;
}

// ---------------------------------------------------------------- the drafter that knows

// A number from 0 to 1 for a stream, a position and a round; all are equally likely.
static double chance(uint64_t round, int stream, int position) {
    const uint64_t place = round << 40 ^ (uint64_t)(uint32_t)stream << 24 ^ (uint32_t)position;
    return (double)(crowd_hash(place) >> 11) * 0x1p-53;
}

int drafts_oracle_draft(void *ctx, void *data, int choice, const int32_t *token, int n_token,
                        int32_t *out, int most) {
    const struct drafts_oracle *oracle = ctx;
    const struct drafts_text *text = oracle->text;
    const int stream = (int)((const struct crowd_stream *)data - oracle->first);
    const int32_t *known = drafts_text_known(text, oracle->temperature, stream);
    const int32_t n_vocab = rn_model_get_info(text->model)->n_vocab;
    const int at = n_token - text->n_prompt[stream];
    const int n = most < text->n_gen - at ? most : text->n_gen - at;
    (void)choice;
    (void)token;
    for (int i = 0; i < n; i++) {
        const bool right = chance(oracle->round, stream, at + i) < oracle->acceptance;
        out[i] = right ? known[at + i] : (known[at + i] + 1) % n_vocab;
    }
    return n > 0 ? n : 0;
}
