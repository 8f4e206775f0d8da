// See slots.h. A text that cannot be kept, for want of memory, leaves its slot empty.
#include "slots.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "helpers.h"
#include "openai.h"
#include "routes.h"

enum { NAME_MOST = 255 };

struct slot {
    int32_t *token; // [n]
    size_t n;
    char salt[RN_MAX_SALT_BYTES + 1];
};

struct shelf {
    struct owner owner;
    struct shelf *next;
    struct slot slot[]; // [slots->n]
};

struct slots {
    pthread_mutex_t lock;
    int n;
    struct shelf *shelves; // one for each owner that gave a slot a text
};

struct slots *slots_create(int n_slots) {
    struct slots *slots = calloc(1, sizeof *slots);
    if (!slots) return NULL;
    slots->n = n_slots;
    pthread_mutex_init(&slots->lock, NULL);
    return slots;
}

void slots_destroy(struct slots *slots) {
    if (!slots) return;
    for (struct shelf *shelf = slots->shelves, *next; shelf; shelf = next) {
        next = shelf->next;
        for (int i = 0; i < slots->n; i++) free(shelf->slot[i].token);
        free(shelf);
    }
    pthread_mutex_destroy(&slots->lock);
    free(slots);
}

static bool has_store(const struct served *served) {
    rn_store_stats stats;
    return served->engine && rn_engine_get_store_stats(served->engine, &stats) &&
           stats.max_bytes > 0; // in files
}

void slots_want(const struct call *call, struct generation *generation) {
    const struct served *served = call->served;
    int *id = &generation->params.id_slot;
    if (*id < 0) return;
    *id %= served->slots->n; // as llama.cpp: clients count up without end
    if (has_store(served)) generation->keep_tokens = true;
}

// With the lock held. NULL: the owner has none.
static struct shelf *shelf_find(const struct slots *slots, struct owner owner) {
    struct shelf *shelf = slots->shelves;
    while (shelf && !owner_is(shelf->owner, owner)) shelf = shelf->next;
    return shelf;
}

// The same, and makes it. NULL: no memory.
static struct shelf *shelf_obtain(struct slots *slots, struct owner owner) {
    struct shelf *shelf = shelf_find(slots, owner);
    if (shelf) return shelf;
    shelf = calloc(1, sizeof *shelf + (size_t)slots->n * sizeof *shelf->slot);
    if (!shelf) return NULL;
    shelf->owner = owner;
    shelf->next = slots->shelves;
    return slots->shelves = shelf;
}

// Takes the tokens over; NULL: the slot is empty then.
static void slot_set(const struct call *call, int id, int32_t *token, size_t n, const char *salt) {
    struct slots *slots = call->served->slots;
    pthread_mutex_lock(&slots->lock);
    struct shelf *shelf = token ? shelf_obtain(slots, call->owner) : shelf_find(slots, call->owner);
    if (shelf) {
        struct slot *slot = &shelf->slot[id];
        free(slot->token);
        *slot = (struct slot){.token = token, .n = token ? n : 0};
        if (salt) snprintf(slot->salt, sizeof slot->salt, "%s", salt);
    } else {
        free(token);
    }
    pthread_mutex_unlock(&slots->lock);
}

// A copy of the slot's text; n 0: it has none, or there is no memory.
static struct slot slot_get(const struct call *call, int id) {
    struct slots *slots = call->served->slots;
    struct slot copy = {0};
    pthread_mutex_lock(&slots->lock);
    const struct shelf *shelf = shelf_find(slots, call->owner);
    if (shelf) copy = shelf->slot[id];
    const int32_t *token = copy.token;
    copy.token = copy.n ? malloc(copy.n * sizeof *copy.token) : NULL;
    if (!copy.token) copy.n = 0;
    if (copy.token) memcpy(copy.token, token, copy.n * sizeof *copy.token);
    pthread_mutex_unlock(&slots->lock);
    return copy;
}

void slots_take(struct call *call, const struct generation_choice *choice) {
    const struct generation *generation = call->generation;
    const int id = generation->params.id_slot;
    if (id < 0 || choice->index > 0 || generation->pooling || !generation->keep_tokens) return;
    const struct generation_prompt *prompt = &generation->prompt[0];
    const size_t n = prompt->n_ids + (size_t)choice->n_tokens;
    int32_t *token = malloc(n * sizeof *token);
    if (token) memcpy(token, prompt->ids, prompt->n_ids * sizeof *token);
    if (token && choice->n_tokens)
        memcpy(token + prompt->n_ids, choice->token, (size_t)choice->n_tokens * sizeof *token);
    slot_set(call, id, token, n, generation->params.cache_salt);
}

// ---------------------------------------------------------------- answers

static void number_write(struct jbuf *out, const char *name, int64_t value) {
    jbuf_key(out, name);
    jbuf_int(out, value);
}

static void end_write(const struct call *call, struct jbuf *out, const char *name) {
    jbuf_printf(out, ",\"timings\":{\"%s\":%.3f}}", name,
                (double)(clock_ns() - call->start_ns) * 1e-6);
}

static void head_write(struct jbuf *out, int id, const char *name) {
    jbuf_printf(out, "{\"id_slot\":%d", id);
    if (!name) return;
    jbuf_key(out, "filename");
    jbuf_cstring(out, name);
}

static bool refuse_error(struct call *call, const rn_error *err) {
    if (err->status == RN_ERR_FULL)
        return call_refuse(call, 503, NULL, "store_not_ready", "%s", err->message);
    return call_refuse_error(call, "filename", err);
}

static void save(struct call *call, int id, const char *name) {
    struct slot slot = slot_get(call, id);
    char owner[OWNER_NAME];
    size_t n_stored = 0;
    rn_error err = {0};
    if (slot.n == 0)
        call_refuse(call, 400, NULL, "slot_empty",
                    "slot %d has no text: a request with \"id_slot\": %d gives it one", id, id);
    else if (rn_engine_save_text(call->served->engine, owner_name(call->owner, owner), name,
                                 slot.salt, slot.token, slot.n, &n_stored, &err))
        refuse_error(call, &err);
    free(slot.token);
    if (call_refused(call)) return;
    struct jbuf *out = &call->out;
    head_write(out, id, name);
    number_write(out, "n_saved", (int64_t)slot.n);
    number_write(out, "n_stored", (int64_t)n_stored);
    number_write(out, "n_written",
                 (int64_t)(n_stored * call->served->engine_info.kv_token_bytes +
                           (n_stored ? call->served->engine_info.state_bytes : 0)));
    end_write(call, out, "save_ms");
    call_answer(call);
}

static void erase(struct call *call, int id, const char *name) {
    struct slot slot = slot_get(call, id);
    char owner[OWNER_NAME];
    slot_set(call, id, NULL, 0, NULL);
    free(slot.token);
    if (name) rn_engine_erase_text(call->served->engine, owner_name(call->owner, owner), name);
    head_write(&call->out, id, name);
    number_write(&call->out, "n_erased", (int64_t)slot.n);
    jbuf_text(&call->out, "}");
    call_answer(call);
}

// ---------------------------------------------------------------- restoring

// The text becomes a prompt without output: its pages come to memory, from the store or computed.
struct restore {
    int id;
    const char *name; // of the call's JSON
    char salt[RN_MAX_SALT_BYTES + 1];
};

static void restored_write(struct call *call, int i) {
    const struct generation *generation = call->generation;
    const struct restore *own = generation->own;
    const rn_timings *timings = &generation->choice[i].timings;
    const struct generation_prompt *prompt = &generation->prompt[0];
    int32_t *token = malloc(prompt->n_ids * sizeof *token);
    if (token) memcpy(token, prompt->ids, prompt->n_ids * sizeof *token);
    slot_set(call, own->id, token, prompt->n_ids, own->salt);
    struct jbuf *out = &call->out;
    head_write(out, own->id, own->name);
    number_write(out, "n_restored", timings->prompt_tokens);
    number_write(out, "n_cached", timings->cached_tokens);
    number_write(out, "n_read",
                 (int64_t)timings->stored_tokens *
                     (int64_t)call->served->engine_info.kv_token_bytes);
    end_write(call, out, "restore_ms");
}

static const struct writer restore_writer = {.whole = restored_write, .error = openai_error};

static void restore(struct call *call, int id, const char *name) {
    struct generation *generation = generation_create(call, &restore_writer);
    if (!generation) return;
    struct restore *own = calloc(1, sizeof *own);
    if (!own) {
        call_refuse_memory(call);
        return;
    }
    generation->own = own;
    generation->own_free = free;
    own->id = id;
    own->name = name;
    int32_t *token;
    size_t n;
    char owner[OWNER_NAME];
    rn_error err = {0};
    if (rn_engine_load_text(call->served->engine, owner_name(call->owner, owner), name, own->salt,
                            &token, &n, &err)) {
        refuse_error(call, &err);
        return;
    }
    generation->params.max_tokens = 0;
    if (*own->salt) generation->params.cache_salt = own->salt;
    if (generation_add(call, generation, token, n)) generation_check(call, generation, "filename");
}

// ---------------------------------------------------------------- the handler

// The number at the end of the path.
static bool id_read(struct call *call, int *out) {
    const char *text = strrchr(call_path(call), '/') + 1;
    char *end;
    const long id = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end)
        return call_refuse(call, 400, NULL, "invalid_slot", "slot '%.32s', expected a number",
                           text);
    *out = (int)(id % call->served->slots->n);
    return true;
}

// The name in the body; NULL: there is none, which only erase allows. False: refused.
static bool name_read(struct call *call, bool is_erase, const char **out) {
    size_t len = 0;
    *out = NULL;
    if (is_erase && call->body_len == 0) return true;
    const json_t *body = call_json(call);
    if (!body) return false;
    const struct fields fields = fields_of(call, body, "");
    if (!field_string(&fields, "filename", NAME_MOST, out, &len)) return false;
    if (len == 0) *out = NULL;
    return *out || is_erase ||
           call_refuse(call, 400, "filename", "invalid_value",
                       "filename: expected the name of the text");
}

void slots_prepare(struct call *call) {
    static const struct {
        const char *name;
        void (*run)(struct call *call, int id, const char *name);
    } actions[] = {{"save", save}, {"restore", restore}, {"erase", erase}};
    enum { N_ACTIONS = sizeof actions / sizeof *actions };
    char text[64], shown[64];
    const char *name, *wanted = call_query(call, "action", text, sizeof text);
    int id = 0, at = 0;
    if (!id_read(call, &id)) return;
    unicode_quote(wanted ? wanted : "", wanted ? strlen(wanted) : 0, shown, sizeof shown);
    while (at < N_ACTIONS && (!wanted || strcmp(wanted, actions[at].name) != 0)) at++;
    if (at == N_ACTIONS)
        call_refuse(call, 400, "action", "invalid_value",
                    "action: expected save, restore or erase%s%s%s", wanted ? ", got '" : "", shown,
                    wanted ? "'" : "");
    else if (!name_read(call, actions[at].run == erase, &name))
        return;
    else if (!has_store(call->served))
        call_refuse(call, 501, NULL, "not_supported",
                    "slots are not saved: the server runs without --page-store DIR");
    else
        actions[at].run(call, id, name);
}
