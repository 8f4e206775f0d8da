// Opens a server: finds its model, then measures how many tokens the words of prompts have.
// /tokenize of llama.cpp, vLLM and runnel picks the words that are one token each; two short
// requests give the tokens of the template.
#include "load/target.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"
#include "load/event.h"

enum { FETCH_LIMIT = 16 << 20, CONNECT_MS = 10000, SETUP_MS = 120000, COPIES = 8, EXACT_LEAST = 8 };

// Common words, so that most vocabularies have a token for each.
static const char *const candidates[] = {
    "the",   "and",  "was",   "that",  "with",   "they",  "had",  "his",    "her",  "for",
    "day",   "one",  "big",   "it",    "to",     "in",    "on",   "said",   "of",   "were",
    "play",  "but",  "not",   "have",  "tree",   "home",  "from", "so",     "very", "happy",
    "there", "all",  "out",   "time",  "then",   "like",  "up",   "little", "old",  "new",
    "good",  "long", "water", "house", "people", "world", "made", "some",
};
enum { CANDIDATES = sizeof candidates / sizeof *candidates };
_Static_assert(sizeof candidates / sizeof *candidates <= LOAD_WORDS_MAX,
               "all candidates have room");

// ---------------------------------------------------------------- words

int words_for(const struct load_words *words, int tokens, bool whole) {
    const double each = words->tokens_per_word > 0 ? words->tokens_per_word : 1;
    const double n = (tokens - (whole ? words->overhead : 0)) / each;
    return n > 1 ? (int)lround(n) : 1;
}

void target_words_write(const struct load_words *words, uint64_t seed, int n, bool ids,
                        struct jbuf *out) {
    for (int i = 0; i < n; i++) {
        int at = (int)(draw_next(&seed) % (uint64_t)words->n);
        // A first word has no blank before it, which may cost tokens: all prompts have the same.
        if (!out->len && !ids) at = 0;
        if (out->len) jbuf_text(out, ids ? "," : " ");
        if (ids)
            jbuf_int(out, words->id[at]);
        else
            jbuf_text(out, words->word[at]);
    }
}

void body_write(const struct load_config *config, const struct load_target *target,
                const struct jbuf *input, int max_tokens, bool stream, struct jbuf *out) {
    jbuf_text(out, "{\"model\":");
    jbuf_cstring(out, target->model);
    jbuf_text(out, config->chat ? ",\"messages\":" : ",\"prompt\":");
    jbuf_bytes(out, input->data, input->len);
    jbuf_printf(out, ",\"max_tokens\":%d", max_tokens);
    if (stream) jbuf_text(out, ",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    if (target->ignore_eos) jbuf_text(out, ",\"ignore_eos\":true");
    if (config->extra) jbuf_text(out, config->extra);
    jbuf_text(out, "}");
}

// ---------------------------------------------------------------- asking

// A JSON answer with status 200. *out is NULL where the server has another; only what went wrong
// with the connection is a failure (printed).
static int ask(const struct load_target *target, const char *path, const char *body,
               size_t body_len, json_t **out, char *fault, size_t fault_size) {
    struct client_url url;
    struct client_reply reply;
    rn_error err = {0};
    *out = NULL;
    if (!client_url_join(&target->base, path, &url))
        return app_fail(APP_USAGE, "--url: the path is too long");
    if (client_fetch_url(&url, body ? "POST" : "GET", target->headers, body, body_len, SETUP_MS,
                         FETCH_LIMIT, &reply, &err))
        return app_fail(APP_FAILED, "%s", err.message);
    json_error_t problem;
    if (reply.status == 200)
        *out = json_loadb(reply.body, reply.body_len, JSON_ALLOW_NUL, &problem);
    char text[200] = "";
    load_fault_text(reply.body, reply.body_len, text, sizeof text);
    snprintf(fault, fault_size, "status %d: %s", reply.status, text);
    client_reply_free(&reply);
    return APP_OK;
}

// The ids of a text, from either kind of /tokenize; 0: the server has none.
static int tokens_ask(const struct load_target *target, const char *field, const char *text,
                      int64_t *ids, int most, int *n) {
    struct jbuf body = {0};
    json_t *answer;
    char fault[256];
    *n = 0;
    jbuf_text(&body, "{\"model\":");
    jbuf_cstring(&body, target->model);
    jbuf_printf(&body, ",\"%s\":", field);
    jbuf_cstring(&body, text);
    jbuf_text(&body, "}");
    const int code =
        body.failed ? app_fail(APP_FAILED, "out of memory")
                    : ask(target, "/tokenize", body.data, body.len, &answer, fault, sizeof fault);
    jbuf_deinit(&body);
    if (code) return code;
    const json_t *tokens = json_object_get(answer, "tokens");
    const size_t count = json_array_size(tokens);
    for (size_t i = count > (size_t)most ? count - (size_t)most : 0; i < count; i++)
        if (json_is_integer(json_array_get(tokens, i)))
            ids[(*n)++] = json_integer_value(json_array_get(tokens, i));
    json_decref(answer);
    return APP_OK;
}

// Keeps the words of which several in a row end in as many equal tokens.
static int words_pick(struct load_target *target) {
    static const char *const fields[] = {"content", "prompt"};
    struct load_words *words = &target->words;
    const char *field = NULL;
    int kept = 0;
    for (int i = 0; i < CANDIDATES; i++) {
        char text[256] = "";
        int64_t ids[COPIES];
        int n = 0, code = APP_OK;
        for (int j = 0, at = 0; j <= COPIES; j++)
            at +=
                snprintf(text + at, sizeof text - (size_t)at, "%s%s", j ? " " : "", candidates[i]);
        for (int j = 0; j < 2 && !code && n == 0; j++) {
            if (field && field != fields[j]) continue;
            code = tokens_ask(target, fields[j], text, ids, COPIES, &n);
            if (n) field = fields[j];
        }
        if (code) return code;
        if (!field) return APP_OK; // no /tokenize
        bool single = n == COPIES;
        for (int j = 1; j < n; j++) single &= ids[j] == ids[0];
        if (!single) continue;
        words->word[kept] = candidates[i];
        words->id[kept++] = ids[0];
    }
    words->exact = kept >= EXACT_LEAST;
    if (words->exact) words->n = kept;
    for (int i = 0; i < CANDIDATES && !words->exact; i++) words->word[i] = candidates[i];
    return APP_OK;
}

// ---------------------------------------------------------------- short requests

static void input_write(const struct load_config *config, const struct load_words *words,
                        uint64_t seed, int n, struct jbuf *out) {
    struct jbuf text = {0};
    target_words_write(words, seed, n, config->prompt_ids, &text);
    if (config->prompt_ids) {
        jbuf_text(out, "[");
        jbuf_bytes(out, text.data, text.len);
        jbuf_text(out, "]");
    } else {
        if (config->chat) jbuf_text(out, "[{\"role\":\"user\",\"content\":");
        jbuf_string(out, text.data, text.len);
        if (config->chat) jbuf_text(out, "}]");
    }
    out->failed |= text.failed;
    jbuf_deinit(&text);
}

// The usage's prompt tokens of a prompt of n words; -1: it does not say.
static int short_ask(const struct load_config *config, const struct load_target *target, int n,
                     int *tokens) {
    struct jbuf input = {0}, body = {0};
    json_t *answer;
    char fault[256];
    input_write(config, &target->words, draw_seed(config->seed, UINT64_MAX, (uint64_t)n), n,
                &input);
    body_write(config, target, &input, 1, false, &body);
    int code = input.failed || body.failed
                   ? app_fail(APP_FAILED, "out of memory")
                   : ask(target, config->chat ? "/v1/chat/completions" : "/v1/completions",
                         body.data, body.len, &answer, fault, sizeof fault);
    jbuf_deinit(&input);
    jbuf_deinit(&body);
    if (code) return code;
    if (!json_is_object(answer)) code = app_fail(APP_FAILED, "%s: %s", target->name, fault);
    const json_t *count = json_object_get(json_object_get(answer, "usage"), "prompt_tokens");
    *tokens = json_is_integer(count) ? (int)json_integer_value(count) : -1;
    json_decref(answer);
    return code;
}

int target_calibrate(const struct load_config *config, struct load_target *target) {
    enum { FEW = 8, MANY = 40 };
    struct load_words *words = &target->words;
    int few, many;
    int code = words_pick(target);
    if (code) return code;
    if (config->prompt_ids && !words->exact)
        return app_fail(APP_FAILED, "%s: --prompt-ids needs /tokenize, which it does not have",
                        target->name);
    if ((code = short_ask(config, target, FEW, &few))) return code;
    if ((code = short_ask(config, target, MANY, &many))) return code;
    if (few < 0 || many <= few) return APP_OK;
    words->tokens_per_word = words->exact ? 1 : (double)(many - few) / (MANY - FEW);
    words->overhead = few - FEW * words->tokens_per_word;
    return APP_OK;
}

// ---------------------------------------------------------------- opening

static int model_find(const struct load_config *config, struct load_target *target) {
    json_t *answer;
    char fault[256];
    if (config->model_name) {
        snprintf(target->model, sizeof target->model, "%s", config->model_name);
        return APP_OK;
    }
    int code = ask(target, "/v1/models", NULL, 0, &answer, fault, sizeof fault);
    if (code) return code;
    const json_t *first = json_array_get(json_object_get(answer, "data"), 0);
    const char *id = json_string_value(json_object_get(first, "id"));
    if (id)
        snprintf(target->model, sizeof target->model, "%s", id);
    else
        code =
            app_fail(APP_FAILED, "%s: /v1/models: %s%s", target->name,
                     answer ? "it names no model" : fault,
                     answer || !strncmp(fault, "status 404", 10) ? "; --model-name gives the name"
                                                                 : "");
    json_decref(answer);
    return code;
}

static int url_use(const struct load_config *config, const char *url, const char *option,
                   struct load_target *target) {
    rn_error err = {0};
    if (client_url_parse(url, &target->base, &err))
        return app_fail(APP_USAGE, "%s: %s", option, err.message);
    size_t len = strlen(target->base.path); // ".../v1" is how other clients want it
    while (len > 0 && target->base.path[len - 1] == '/') target->base.path[--len] = '\0';
    if (len >= 3 && !strcmp(target->base.path + len - 3, "/v1")) target->base.path[len - 3] = '\0';
    if (!client_url_join(&target->base, config->chat ? "/v1/chat/completions" : "/v1/completions",
                         &target->endpoint))
        return app_fail(APP_USAGE, "%s: the path is too long", option);
    if (config->api_key && client_bearer_add(target->headers, config->api_key, &err))
        return app_fail(APP_USAGE, "--api-key: %s", err.message);
    if (client_header_add(target->headers, "Content-Type", "application/json", &err))
        return app_fail(APP_FAILED, "%s", err.message);
    if (client_host_open(&target->base, &target->host, &err) ||
        client_host_probe(&target->host, CONNECT_MS, &err))
        return app_fail(APP_FAILED, "%s", err.message);
    return APP_OK;
}

static bool is_url(const char *text) {
    return !strncmp(text, "http://", 7) || !strncmp(text, "https://", 8);
}

static int target_find(const struct load_config *config, const char *spec,
                       struct load_target *target) {
    const char *url = spec && is_url(spec) ? spec : spec ? NULL : config->url;
    char own[128];
    target->ignore_eos = config->ignore_eos || !url;
    if (url) {
        snprintf(target->name, sizeof target->name, "%s", url);
        return url_use(config, url, spec ? "--compare" : "--url", target);
    }
    snprintf(target->name, sizeof target->name, "runnel serve%s%s", spec && *spec ? " " : "",
             spec ? spec : "");
    const int code =
        child_start(config->model_path, config->server_args, spec, &target->child, own, sizeof own);
    return code ? code : url_use(config, own, "--url", target);
}

int target_open(const struct load_config *config, const char *spec, struct load_target **out) {
    struct load_target *target = calloc(1, sizeof *target);
    *out = target;
    if (!target) return app_fail(APP_FAILED, "out of memory");
    for (int i = 0; i < CANDIDATES; i++) target->words.word[i] = candidates[i];
    target->words.n = CANDIDATES;
    int code = target_find(config, spec, target);
    if (!code) code = model_find(config, target);
    if (!code) code = target_calibrate(config, target);
    return code;
}

void target_close(struct load_target *target) {
    if (!target) return;
    if (target->child) child_stop(target->child);
    client_host_close(&target->host);
    free(target);
}
