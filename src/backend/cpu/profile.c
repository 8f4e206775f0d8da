// Where a step's time goes: while profiling is on, program.c writes the time of every stage, and
// the result carries them. Off, a run pays one branch per stage. The memory is taken when profiling
// is first switched on.
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"

enum { NAME_LENGTH = 96 };

// "blk.3.ffn_gate.weight" is "ffn_gate".
static int short_name(const char *name, const char **out) {
    const char *dot;
    if (strncmp(name, "blk.", 4) == 0 && (dot = strchr(name + 4, '.'))) name = dot + 1;
    *out = name;
    return (int)strcspn(name, ".");
}

// The kinds of the stage's ops, each once, and the weights that they read.
static void name_make(const struct plan *plan, const struct cpu_stage *stage, char *out) {
    int at = 0, kind = -1;
    bool named = false;
    for (int i = stage->first; i < stage->first + stage->n && at < NAME_LENGTH; i++) {
        const struct op *op = &plan->op[i];
        if ((int)op->kind != kind) {
            at += snprintf(out + at, (size_t)(NAME_LENGTH - at), "%s%s", at ? " " : "",
                           op_name(op->kind));
            named = false;
        }
        kind = (int)op->kind;
        if (op->weight == PLAN_NONE || at >= NAME_LENGTH) continue;
        const char *text;
        const int len = short_name(plan->weight[op->weight].name, &text);
        at +=
            snprintf(out + at, (size_t)(NAME_LENGTH - at), "%s%.*s", named ? "+" : " ", len, text);
        named = true;
    }
}

static bool make_names(struct cpu_backend *b) {
    char(*name)[NAME_LENGTH] = arena_array(&b->arena, (size_t)b->n_stage, sizeof *name);
    b->profile = name ? arena_array(&b->arena, (size_t)b->n_stage, sizeof *b->profile) : NULL;
    for (int i = 0; b->profile && i < b->n_stage; i++) {
        name_make(b->plan, &b->stage[i], name[i]);
        b->profile[i].name = name[i];
    }
    return b->profile;
}

void cpu_profile_switch(struct backend *backend, bool on) {
    struct cpu_backend *b = (struct cpu_backend *)backend;
    b->profiling = on && (b->profile || make_names(b));
    for (int i = 0; b->profiling && i < b->n_stage; i++) b->profile[i].ns = 0;
}
