// Writes generation settings. The sampling table gives names and values, so a new sampler shows up
// by itself; a setting that runnel lacks has the value that switches it off.
#include "native_settings.h"

#include <stdio.h>
#include <stdlib.h>

#include "samplers.h"

enum sampling_id {
#define SAMPLING_NUMBER(kind, id, ...) SAMPLING_##id,
#include "plan/sampling.def"
    SAMPLING_COUNT
};

// The fewest digits that give the float back: 0.8, not 0.800000012.
static void number_write(struct jbuf *out, const char *key, double value) {
    char text[32];
    int digits = 6;
    do {
        snprintf(text, sizeof text, "%.*g", digits, value);
    } while (strtof(text, NULL) != (float)value && digits++ < 9);
    jbuf_key(out, key);
    jbuf_text(out, text);
}

void native_numbers_write(struct jbuf *out, const rn_sampling *sampling) {
    const double values[SAMPLING_COUNT] = {
#define SAMPLING_NUMBER(kind, id, field, ...) [SAMPLING_##id] = (double)sampling->field,
#include "plan/sampling.def"
    };
    static const char *const names[SAMPLING_COUNT] = {
#define SAMPLING_NUMBER(kind, id, field, neutral, min, max, json, ...) [SAMPLING_##id] = json,
#include "plan/sampling.def"
    };
    static const struct {
        enum sampling_id id;
        const char *name;
    } aliases[] = {
#define SAMPLING_JSON_ALIAS(id, json) {SAMPLING_##id, json},
#include "plan/sampling.def"
    };
    for (int i = 0; i < SAMPLING_COUNT; i++) number_write(out, names[i], values[i]);
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        number_write(out, aliases[i].name, values[aliases[i].id]);
}

static void strings_write(struct jbuf *out, const char *const *list, size_t n) {
    jbuf_text(out, "[");
    for (size_t i = 0; i < n; i++) {
        if (i) jbuf_text(out, ",");
        jbuf_cstring(out, list[i]);
    }
    jbuf_text(out, "]");
}

static void lists_write(struct jbuf *out, const struct params *params) {
    static const char *const breakers[] = {"\n", ":", "\"", "*"}; // rn_sampling's own
    const rn_sampling *sampling = &params->sampling;
    const bool own = sampling->dry_sequence_breakers != NULL;
    jbuf_key(out, "dry_sequence_breakers");
    strings_write(out, own ? sampling->dry_sequence_breakers : breakers,
                  own ? sampling->n_dry_sequence_breakers : sizeof breakers / sizeof *breakers);
    jbuf_key(out, "logit_bias");
    for (size_t i = 0; i < sampling->n_logit_bias; i++) {
        jbuf_text(out, i ? ",{" : "[{");
        number_write(out, "bias", (double)sampling->logit_bias[i].bias);
        jbuf_key(out, "token");
        jbuf_int(out, sampling->logit_bias[i].token);
        jbuf_text(out, "}");
    }
    jbuf_text(out, sampling->n_logit_bias ? "]" : "[]");
    jbuf_key(out, "stop");
    strings_write(out, params->stop, params->n_stop);
    jbuf_key(out, "samplers");
    samplers_write(out, params->samplers_off);
}

static void bool_write(struct jbuf *out, const char *key, bool value) {
    jbuf_key(out, key);
    jbuf_bool(out, value);
}

static void int_write(struct jbuf *out, const char *key, int64_t value) {
    jbuf_key(out, key);
    jbuf_int(out, value);
}

int native_draft_max(const struct served *served, const struct params *params) {
    const int most = served->engine_info.draft_max;
    if (!served_drafts(served) || params->draft_max < 0) return 0;
    return params->draft_max && params->draft_max < most ? params->draft_max : most;
}

void native_settings_write(struct jbuf *out, const struct served *served,
                           const struct params *params, const struct shape *shape,
                           const uint64_t *seed) {
    const bool has_grammar = shape && shape->kind == SHAPE_GRAMMAR;
    jbuf_text(out, "{");
    int_write(out, "n_ctx", served->engine_info.n_ctx);
    jbuf_key(out, "model");
    jbuf_cstring(out, served->name);
    jbuf_key(out, "seed");
    jbuf_uint(out, seed ? *seed : UINT32_MAX); // llama.cpp's value for a seed to be drawn
    native_numbers_write(out, &params->sampling);
    lists_write(out, params);
    int_write(out, "n_predict", params->max_tokens);
    int_write(out, "max_tokens", params->max_tokens);
    int_write(out, "n_cmpl", params->n);
    bool_write(out, "ignore_eos", params->ignore_eos);
    bool_write(out, "stream", params->stream);
    int_write(out, "n_probs", params->logprobs ? params->top_logprobs : 0);
    int_write(out, "speculative.n_max", native_draft_max(served, params));
    int_write(out, "speculative.n_min", 0);
    jbuf_key(out, "grammar");
    jbuf_string(out, has_grammar ? shape->text.data : "", has_grammar ? shape->text.len : 0);
    jbuf_text(out, ",\"dynatemp_range\":0.0,\"dynatemp_exponent\":1.0,\"mirostat\":0,"
                   "\"mirostat_tau\":5.0,\"mirostat_eta\":0.1,\"n_keep\":0,\"n_discard\":0,"
                   "\"min_keep\":0,\"chat_format\":\"Content-only\","
                   "\"reasoning_format\":\"none\",\"post_sampling_probs\":false,\"lora\":[]}");
}
