// The table of backends, the choice among these and plug-ins, and code that users of every backend
// share. "Not here" is told apart from "broken": after an absent plug-in, driver or device, or one
// that finds no memory to be loaded, the next backend is tried. Any other failure ends the choice.
#include "backend/table.h"

#include <stdio.h>
#include <string.h>

static const struct backend_class *const built_in[] = {&backend_cpu};
enum { N_BUILT_IN = sizeof built_in / sizeof *built_in };

static const struct backend_class *const planned[] = {&backend_cpu, &backend_cuda_planned};
enum { N_PLANNED = sizeof planned / sizeof *planned };

// Best first. A name that is not built in is that of a plug-in.
static const char *const order[] = {"cuda", "cpu", NULL};

// Prints as much as fits behind *at, which never passes the end.
static void append(char *out, size_t size, size_t *at, const char *before, const char *text) {
    const int len = snprintf(out + *at, size - *at, "%s%s", before, text);
    *at = len >= 0 && (size_t)len < size - *at ? *at + (size_t)len : size - 1;
}

static rn_status unknown(const char *name, const struct plugin_folders *folders, rn_error *err) {
    char known[128] = "", where[400] = "";
    size_t at = 0;
    for (int i = 0; i < N_BUILT_IN; i++)
        append(known, sizeof known, &at, i ? ", " : "", built_in[i]->name);
    if (strchr(name, '/'))
        return err_set(err, RN_ERR_ARG, "backend: '%s' is not known (known: %s; no such file)",
                       err_path(name), known);
    at = 0;
    append(where, sizeof where, &at, "", folders->n ? "" : "any folder");
    for (int i = 0; i < folders->n; i++)
        append(where, sizeof where, &at, i ? ", " : "", err_path(folders->path[i]));
    return err_set(err, RN_ERR_ARG, "backend: '%s' is not known (known: %s; no runnel_%s.so in %s)",
                   name, known, name, where);
}

// RN_OK and NULL: there is no such backend.
static rn_status class_find(const char *name, const struct plugin_folders *folders,
                            const struct backend_class **out, rn_error *err) {
    for (int i = 0; i < N_BUILT_IN; i++) {
        *out = built_in[i];
        if (strcmp(name, built_in[i]->name) == 0) return RN_OK;
    }
    const rn_status status = plugin_find(name, folders, out, err);
    char prefix[PLUGIN_MAX_NAME + 16] = "backend";
    if (plugin_is_name(name)) snprintf(prefix, sizeof prefix, "backend '%s'", name);
    if (status) err_prefix(err, prefix);
    return status;
}

// Names are printed as they are, so they have no control characters.
static void name_clean(char *name) {
    for (; *name; name++)
        if ((unsigned char)*name < 0x20 || *name == 0x7f) *name = '?';
}

// The class's device of that number. *why is its own word where there is none.
static rn_status device_of(const struct backend_class *cls, int index, struct backend_device *out,
                           rn_error *why, rn_error *err) {
    *out = (struct backend_device){0};
    *why = (rn_error){0};
    if (index < 0)
        return err_set(err, RN_ERR_ARG, "backend '%s': device is %d, expected 0 or more", cls->name,
                       index);
    const rn_status status = cls->device(index, out, why);
    out->name[sizeof out->name - 1] = why->message[sizeof why->message - 1] = '\0';
    name_clean(out->name);
    const char *text = why->message[0] ? why->message : rn_status_text(status);
    if (status == RN_ERR_UNSUPPORTED)
        return err_set(err, status, "backend '%s': no device here (%s)", cls->name, text);
    if (status) return err_set(err, status, "backend '%s': %s", cls->name, text);
    if (out->depth < 1 || out->depth > BACKEND_MAX_DEPTH)
        return err_set(err, RN_ERR_IO, "backend '%s': %d steps in flight, expected 1 to %d",
                       cls->name, out->depth, BACKEND_MAX_DEPTH);
    if (out->pages != PAGES_FIXED && !cls->page_release)
        return err_set(err, RN_ERR_IO, "backend '%s': its class has no page_release", cls->name);
    return RN_OK;
}

rn_status table_find(const char *name, int device, const struct plugin_folders *folders,
                     const struct backend_class **out, struct backend_device *out_device,
                     rn_error *err) {
    rn_error why;
    const rn_status status = class_find(name, folders, out, err);
    if (status) return status;
    return *out ? device_of(*out, device, out_device, &why, err) : unknown(name, folders, err);
}

// "cuda: no device here (no driver)", for a note.
static void note_skipped(char *out, size_t size, size_t *at, const char *name, const char *why) {
    char item[160];
    snprintf(item, sizeof item, "%s: no device here%s%.80s%s", name, why[0] ? " (" : "", why,
             why[0] ? ")" : "");
    append(out, size, at, *at ? "; " : "", item);
}

static void note_unloaded(char *out, size_t size, size_t *at, const char *name, rn_status status) {
    append(out, size, at, *at ? "; " : "", name);
    append(out, size, at, ": ",
           status == RN_ERR_NOMEM ? "there is no memory to load it"
                                  : "its driver cannot be loaded");
}

// Whether the backend refuses the plan; *why has its words.
static bool is_refused(const struct backend_class *cls, const struct plan *plan, rn_error *why) {
    const struct backend_sizes least = {.max_tokens = 1, .max_logits = 1, .max_seqs = 1};
    struct backend_need need;
    *why = (rn_error){0};
    if (!plan || cls->need(plan, &least, cls->kv_default, &need, why) != RN_ERR_UNSUPPORTED)
        return false;
    why->message[sizeof why->message - 1] = '\0';
    return true;
}

// "cuda: the op x, which the model needs, is not there yet": the first part of its words.
static void note_refused(char *out, size_t size, size_t *at, const char *name, const char *why) {
    char item[160];
    const size_t len = strlen(name);
    const bool is_named = strncmp(why, name, len) == 0 && why[len] == ':';
    snprintf(item, sizeof item, "%s%s%.*s", is_named ? "" : name, is_named ? "" : ": ",
             (int)(strcspn(why, ";") < 120 ? strcspn(why, ";") : 120), why);
    append(out, size, at, *at ? "; " : "", item);
}

// The whole note, without control characters.
static void note_end(const char *skipped, const char *name, char note[BACKEND_NOTE]) {
    rn_error line;
    err_set(&line, RN_OK, "%s; running on %s", skipped, name);
    snprintf(note, BACKEND_NOTE, "%.*s", BACKEND_NOTE - 1, line.message);
}

rn_status table_best(const char *const *names, int device, const struct plugin_folders *folders,
                     const struct plan *plan, const struct backend_class **out,
                     struct backend_device *out_device, char note[BACKEND_NOTE], rn_error *err) {
    char skipped[BACKEND_NOTE - 64] = ""; // the rest is for the end of the line
    size_t at = 0;
    rn_error why, fault;
    err_set(&fault, RN_ERR_UNSUPPORTED, "backend: there is none here");
    note[0] = '\0';
    for (; *names; names++) {
        rn_status status = class_find(*names, folders, out, &fault);
        if (status == RN_ERR_NOMEM || status == RN_ERR_DEVICE)
            note_unloaded(skipped, sizeof skipped, &at, *names, status);
        if (status == RN_ERR_NOMEM || status == RN_ERR_DEVICE || status == RN_ERR_UNSUPPORTED)
            continue;
        if (status) {
            if (err) *err = fault;
            return status;
        }
        if (!*out) continue;
        status = device_of(*out, device, out_device, &why, &fault);
        if (!status && is_refused(*out, plan, &why)) {
            fault = why;
            if (device > 0) break;
            note_refused(skipped, sizeof skipped, &at, (*out)->name, why.message);
            continue;
        }
        if (!status) {
            if (at) note_end(skipped, (*out)->name, note);
            return RN_OK;
        }
        if (status != RN_ERR_UNSUPPORTED) {
            if (err) *err = fault;
            return status;
        }
        note_skipped(skipped, sizeof skipped, &at, (*out)->name, why.message);
    }
    *out = NULL;
    if (err) *err = fault; // of the backend that was tried last
    return RN_ERR_UNSUPPORTED;
}

bool backend_is_auto(const char *name) { return !name || strcmp(name, "auto") == 0; }

rn_status backend_find(const char *name, int device, const struct backend_class **out,
                       struct backend_device *out_device, rn_error *err) {
    struct plugin_folders folders;
    char note[BACKEND_NOTE];
    if (backend_is_auto(name)) return backend_best(device, out, out_device, note, err);
    plugin_folders_init(&folders);
    return table_find(name, device, &folders, out, out_device, err);
}

rn_status backend_best(int device, const struct backend_class **out,
                       struct backend_device *out_device, char note[BACKEND_NOTE], rn_error *err) {
    struct plugin_folders folders;
    plugin_folders_init(&folders);
    return table_best(order, device, &folders, NULL, out, out_device, note, err);
}

rn_status backend_best_for(const struct plan *plan, int device, const struct backend_class **out,
                           struct backend_device *out_device, char note[BACKEND_NOTE],
                           rn_error *err) {
    struct plugin_folders folders;
    plugin_folders_init(&folders);
    return table_best(order, device, &folders, plan, out, out_device, note, err);
}

// Our name of a KV type that another program's name means.
static const char *kv_type_own(const char *name) {
#define KV_TYPE_WORD(theirs, ours)                                                                 \
    if (!strcmp(name, theirs)) return ours;
#include "plan/kv_words.def"
    return name;
}

const struct backend_class *backend_planned(const char *name) {
    for (int i = 0; i < N_PLANNED; i++)
        if (strcmp(planned[i]->name, name) == 0) return planned[i];
    return NULL;
}

rn_status backend_kv_type(const struct backend_class *cls, const char *name, const char **out,
                          rn_error *err) {
    char known[128] = "";
    size_t at = 0;
    *out = cls->kv_default;
    if (!name) return RN_OK;
    const char *own = kv_type_own(name);
    for (const char *const *type = cls->kv_types; *type; type++) {
        *out = *type;
        if (strcmp(*type, own) == 0) return RN_OK;
        if (at < sizeof known)
            at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", *type);
    }
    return err_set(err, RN_ERR_ARG, "KV type '%.64s' is unknown to backend '%s' (known: %s)", name,
                   cls->name, known);
}

void backend_destroy(struct backend *backend) {
    if (backend) backend->cls->destroy(backend);
}

rn_status backend_run(struct backend *backend, const struct batch *batch, struct step_result *out,
                      rn_error *err) {
    const rn_status status = backend->cls->submit(backend, batch, err);
    return status ? status : backend->cls->wait(backend, out, err);
}
