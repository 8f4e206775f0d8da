// The backends that backend.c's table names, each defined by its own folder; and the search among
// these and plug-ins, with its order and folders given, for backend.c and its tests.
#ifndef RN_BACKEND_TABLE_H
#define RN_BACKEND_TABLE_H

#include "backend/plugin.h"

extern const struct backend_class backend_cpu;
extern const struct backend_class backend_cuda_planned; // cuda/sizes/planned.c

// The class of a backend for plans of a machine that is not here: its name, KV types, device, need,
// stored and block_check alone. No plug-in is loaded. NULL if there is no such backend.
const struct backend_class *backend_planned(const char *name);

// backend_find of a name or path.
rn_status table_find(const char *name, int device, const struct plugin_folders *folders,
                     const struct backend_class **out, struct backend_device *out_device,
                     rn_error *err);
// backend_best among these names, best first; NULL ends them. A backend that refuses the plan
// (RN_ERR_UNSUPPORTED of its `need`) is passed over with a note, unless another device than the
// first is asked for. plan NULL: no plan is asked about.
rn_status table_best(const char *const *names, int device, const struct plugin_folders *folders,
                     const struct plan *plan, const struct backend_class **out,
                     struct backend_device *out_device, char note[BACKEND_NOTE], rn_error *err);
// backend_best for a plan.
rn_status backend_best_for(const struct plan *plan, int device, const struct backend_class **out,
                           struct backend_device *out_device, char note[BACKEND_NOTE],
                           rn_error *err);

#endif
