// See synthetic.h: the one call of tools.h that the other commands may make.
#include "bench/synthetic.h"

#include "tools.h"

rn_status synthetic_open(const char *spec, rn_model **out, rn_error *err) {
    return tools_model_open_synthetic(spec, out, err);
}
