// The options of speculation become a model and engine options. Called by the commands that write
// text, before their engine is created.
#include "run/draft.h"

#include <stdlib.h>
#include <string.h>

#include "helpers.h"
#include "models/find.h"
#include "terminal/term.h"

// ---------------------------------------------------------------- options

static const char *const drafters[] = {"model", "lookup", "shared", "mtp", "shape"};

enum { DRAFTER_MODEL, DRAFTER_MTP = 3, DRAFTERS = sizeof drafters / sizeof *drafters };

// The drafter whose name starts at text, -1: none.
static int drafter_at(const char *text, size_t len) {
    for (int i = 0; i < DRAFTERS; i++) {
        if (strlen(drafters[i]) == len && !memcmp(drafters[i], text, len)) return i;
    }
    return -1;
}

static bool is_auto(const struct options *options) {
    return !strcmp(option_text(options, OPT_SPECULATE), "auto");
}

// Bits of the drafters that --speculate names; all for auto, 0 for off.
static int wanted_get(const struct options *options, unsigned *out) {
    const char *text = option_text(options, OPT_SPECULATE);
    *out = is_auto(options) ? (1u << DRAFTERS) - 1 : 0;
    if (*out || !strcmp(text, "off")) return APP_OK;
    for (const char *at = text;; at++) {
        const size_t len = strcspn(at, ",");
        const int drafter = drafter_at(at, len);
        if (drafter < 0) {
            char name[64];
            return app_fail(APP_USAGE,
                            "%s: '%s' is not auto, off, or some of model, lookup, shared, mtp, "
                            "shape",
                            option_name(options, OPT_SPECULATE, name), app_short(text).text);
        }
        *out |= 1u << drafter;
        if (!*(at += len)) return APP_OK;
    }
}

static int lengths_check(const struct options *options) {
    const int most = option_int(options, OPT_DRAFT_MAX);
    const int least = option_int(options, OPT_DRAFT_MIN);
    char min_name[64], max_name[64];
    if (least <= most) return APP_OK;
    return app_fail(APP_USAGE, "%s: %d is more than %s, %d",
                    option_name(options, OPT_DRAFT_MIN, min_name), least,
                    option_name(options, OPT_DRAFT_MAX, max_name), most);
}

void draft_engine_options(const struct options *options, const rn_model *draft,
                          rn_engine_options *out) {
    out->draft = draft;
    out->draft_backend = option_text(options, OPT_DRAFT_BACKEND);
    out->draft_device = option_int(options, OPT_DRAFT_DEVICE);
    out->speculate = option_text(options, OPT_SPECULATE);
    out->draft_max = option_int(options, OPT_DRAFT_MAX);
    out->draft_min = option_int(options, OPT_DRAFT_MIN);
}

// ---------------------------------------------------------------- the model

// It runs where the model does, as a part of it.
static int block_attach(const struct options *options, unsigned wanted, const char *path,
                        rn_model *model, rn_error *err) {
    char name[64], other[64];
    if (!(wanted & 1u << DRAFTER_MTP))
        return app_fail(APP_USAGE, "%s: %s is a draft block, and %s leaves 'mtp' out",
                        option_name(options, OPT_DRAFT, name), err_path(path),
                        option_name(options, OPT_SPECULATE, other));
    if (option_text(options, OPT_DRAFT_BACKEND)) return draft_fail_place(options, path);
    rn_model_attach(model, path, err);
    return APP_OK;
}

// A model that no drafter wants is left closed; a file that cannot be read is an error.
static int path_open(const struct options *options, unsigned wanted, const char *path,
                     rn_model *model, rn_model **out, rn_error *err) {
    if (rn_model_is_block(path)) return block_attach(options, wanted, path, model, err);
    if (wanted & 1u << DRAFTER_MODEL)
        rn_model_open(path, out, err);
    else if (rn_model_attach(model, path, err) == RN_ERR_ARG)
        *err = (rn_error){0};
    return APP_OK;
}

static int file_open(const struct options *options, unsigned wanted, const char *path,
                     rn_model *model, rn_model **out) {
    rn_error err = {0};
    char name[64], *found = NULL;
    int code = model_path_find(path, true, &found);
    if (code) return code;
    code = path_open(options, wanted, found, model, out, &err);
    free(found);
    if (code || err.status == RN_OK) return code;
    // other programs call --draft-max by this name
    const bool is_number = path[strspn(path, "0123456789")] == '\0';
    return app_fail(err.status == RN_ERR_NOMEM ? APP_FAILED : APP_USAGE, "%s: %s%s",
                    option_name(options, OPT_DRAFT, name), err.message,
                    is_number ? "; how many tokens a draft has is --draft-max" : "");
}

int draft_open_embedded(rn_model **out) {
    rn_error err = {0};
    if (rn_model_open_memory(EMBEDDED_DRAFT_NAME, embedded_draft,
                             (size_t)(embedded_draft_end - embedded_draft), out, &err) == RN_OK)
        return APP_OK;
    return app_fail_error(&err);
}

int draft_open(const struct options *options, rn_model *model, rn_model **out) {
    const char *path = option_text(options, OPT_DRAFT);
    unsigned wanted;
    *out = NULL;
    int code = wanted_get(options, &wanted);
    if (!code) code = lengths_check(options);
    if (!code) code = app_belongs(options, OPT_DRAFT_DEVICE, OPT_DRAFT_BACKEND);
    const bool none = path && !strcmp(path, "none");
    const bool reads = wanted & (1u << DRAFTER_MODEL | 1u << DRAFTER_MTP);
    if (!code && path && !none && reads) return file_open(options, wanted, path, model, out);
    if (code || !(wanted & 1u << DRAFTER_MODEL)) return code;
    const bool embedded =
        !option_given(options, OPT_MODEL) && !option_given(options, OPT_SYNTHETIC);
    if (!none && embedded) return draft_open_embedded(out);
    if (is_auto(options)) return APP_OK;
    char name[64];
    return app_fail(APP_USAGE, "%s: 'model' drafts with a model, and --draft names none",
                    option_name(options, OPT_SPECULATE, name));
}

void draft_warn_large(const rn_model *draft, const rn_model *model) {
    if (!draft) return;
    const rn_model_info *small = rn_model_get_info(draft), *large = rn_model_get_info(model);
    char small_bytes[32], large_bytes[32];
    if (small->weight_bytes < large->weight_bytes) return;
    app_fail(APP_OK,
             "warning: the draft model %s has %s of weights, and %s has %s: its drafts cost more "
             "than they can save",
             err_path(small->path), human_bytes((double)small->weight_bytes, small_bytes),
             err_path(large->path), human_bytes((double)large->weight_bytes, large_bytes));
}

int draft_fail_place(const struct options *options, const char *block) {
    char name[64];
    return app_fail(APP_USAGE, "%s: %s is a draft block, which runs where the model does",
                    option_name(options, OPT_DRAFT_BACKEND, name), err_path(block));
}

int draft_fail(const rn_model *draft, const rn_model *model, const rn_error *err) {
    const char *small = rn_model_get_info(draft)->path, *large = rn_model_get_info(model)->path;
    return app_fail(APP_USAGE, "%s cannot draft for %s: %s", err_path(small), err_path(large),
                    err->message);
}
