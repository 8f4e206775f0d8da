// Where a model will run, and how the memory there is divided: found before anything is created. A
// program can report it first (rn_engine_plan_memory), and the engine then does the same.
#ifndef RN_ENGINE_PAGES_PLACE_H
#define RN_ENGINE_PAGES_PLACE_H

#include "engine/pages/budget.h"
#include "model/model.h"

struct backend_place {
    const struct backend_class *cls;
    int index; // of the device
    struct backend_device device;
    const char *kv_type;     // one of the class's
    bool bf16_states;        // as in backend_sizes
    char note[BACKEND_NOTE]; // why a better backend was passed over; "": none was
};

struct place_wanted {
    const char *name;                // of the backend; NULL or "auto": the best available one
    int device;                      // its number
    bool is_absent;                  // the machine is not here: `name` is planned for
    const struct backend_class *cls; // instead of a name; NULL: by the name
    const char *kv_type;             // NULL: the backend's default
    bool bf16_states;                // as in backend_sizes
    const struct plan *plan;         // "auto" passes over a backend that refuses it; NULL: any
};

rn_status place_find(const struct place_wanted *wanted, struct backend_place *out, rn_error *err);
// The draft model's: the target's own place, unless a backend is named, or given by its class. A KV
// type that this one lacks becomes its default.
rn_status place_find_draft(const struct place_wanted *wanted, const struct backend_place *target,
                           struct backend_place *out, rn_error *err);

struct place_sizes {
    struct budget_sizes sizes; // 0: defaults
    uint64_t kv_bytes;         // both 0: the free memory
    uint32_t kv_pages;
    uint64_t store_bytes; // of the host's memory, for stored pages
    int draft_rows;       // logit rows of drafts
    int n_threads;        // of the host; 0: the default
    bool no_block;        // the model's draft block is not run
};

// Whether both compute on the same device, and so share its memory.
bool place_is_same(const struct backend_place *a, const struct backend_place *b);
// The name of its device for people; "": the host itself. Borrowed.
const char *place_device_name(const struct backend_place *place);

// How the memory of the place, and of the draft's, is divided. draft NULL: there is none.
rn_status place_budget(const struct backend_place *place, const struct model *model,
                       const struct backend_place *draft_place, const struct model *draft,
                       const struct place_sizes *wanted, struct budget *out, rn_error *err);

#endif
