// Where a step's time goes: while profiling is on, program.c writes the time of every stage, and
// the result carries them. Off, a run pays one branch per stage. The memory is taken when profiling
// is first switched on.
#include "backend/cpu/cpu.h"

static bool make_names(struct cpu_backend *b) {
    char(*name)[PLAN_NAME] = arena_array(&b->arena, (size_t)b->n_stage, sizeof *name);
    b->profile = name ? arena_array(&b->arena, (size_t)b->n_stage, sizeof *b->profile) : NULL;
    for (int i = 0; b->profile && i < b->n_stage; i++) {
        plan_ops_name(b->plan, b->stage[i].first, b->stage[i].n, name[i]);
        b->profile[i].name = name[i];
    }
    return b->profile;
}

void cpu_profile_switch(struct backend *backend, bool on) {
    struct cpu_backend *b = (struct cpu_backend *)backend;
    b->profiling = on && (b->profile || make_names(b));
    for (int i = 0; b->profiling && i < b->n_stage; i++) b->profile[i].ns = 0;
}
