// The list is a set here: steps have one fixed order (docs/NUMERICS.md), however it names them.
#include "samplers.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "json_edit.h"

enum step {
#define SAMPLING_STEP(phase, name) STEP_##name,
#include "plan/sampling.def"
};

static const struct peer {
    enum step step;
    char letter;
    const char *name;
} peers[] = {
#define SAMPLING_PEER(step, letter, name) {STEP_##step, letter, name},
#include "plan/sampling.def"
};
enum { N_PEERS = sizeof peers / sizeof *peers };

// "Top-K", "topk" and "top_k" are one name.
static bool is_name(const char *given, size_t len, const char *name) {
    size_t at = 0;
    for (; *name; name++) {
        const bool is_same = at < len && tolower((unsigned char)given[at]) == *name;
        if (is_same || (*name == '_' && at < len && given[at] == '-'))
            at++;
        else if (*name != '_')
            return false;
    }
    return at == len;
}

static unsigned bit_of_name(const json_t *item) {
    for (int i = 0; i < N_PEERS; i++)
        if (is_name(json_string_value(item), json_string_length(item), peers[i].name))
            return 1u << peers[i].step;
    return 0;
}

static unsigned bit_of_letter(char letter) {
    for (int i = 0; i < N_PEERS; i++)
        if (peers[i].letter == letter) return 1u << peers[i].step;
    return 0;
}

bool samplers_read(const struct fields *fields, const char *name, unsigned *off) {
    const json_t *value = json_object_get(fields->object, name);
    char shown[JSON_SHOWN_BYTES];
    unsigned on = 0;
    if (!json_is_given(fields->object, name)) return true;
    if (!json_is_array(value) && !json_is_string(value))
        return field_refuse(fields, name, "expected a list of names or a string of letters, got %s",
                            json_shown(value, shown));
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_string(item))
            return field_refuse(fields, name, "item %zu, %s, is not a name", i,
                                json_shown(item, shown));
        on |= bit_of_name(item);
    }
    for (size_t i = 0; i < json_string_length(value); i++)
        on |= bit_of_letter(json_string_value(value)[i]);
    *off = 0;
    for (int i = 0; i < N_PEERS; i++) *off |= 1u << peers[i].step;
    *off &= ~on;
    return true;
}

void samplers_apply(unsigned off, rn_sampling *sampling) {
    static const struct {
        enum { ROW_STEP, ROW_FLOAT, ROW_INT } kind;
        size_t offset;
        double neutral;
    } rows[] = {
#define SAMPLING_STEP(...) {ROW_STEP, 0, 0},
#define SAMPLING_NUMBER(kind, id, field, neutral, ...)                                             \
    {ROW_##kind, offsetof(rn_sampling, field), neutral},
#include "plan/sampling.def"
    };
    int step = -1; // of the numbers that come
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *member = (char *)sampling + rows[i].offset;
        step += rows[i].kind == ROW_STEP;
        if (rows[i].kind == ROW_STEP || !(off >> step & 1)) continue;
        if (rows[i].kind == ROW_INT)
            *(int *)member = (int)rows[i].neutral;
        else
            *(float *)member = (float)rows[i].neutral;
    }
}

void samplers_write(struct jbuf *out, unsigned off) {
    int last = -1;
    jbuf_text(out, "[");
    for (int i = 0; i < N_PEERS; i++) {
        const int step = (int)peers[i].step;
        if (step == last || (off >> step & 1)) continue;
        if (last >= 0) jbuf_text(out, ",");
        jbuf_cstring(out, peers[i].name);
        last = step;
    }
    jbuf_text(out, "]");
}
