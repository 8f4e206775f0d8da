// See names.h.
#include "plan/names.h"

#include "plan/machine.h"

void plan_shapes_put(FILE *out) {
    const char *name;
    for (int i = 0; (name = tools_shape_at(i)); i++) fprintf(out, "%s%s", i ? " " : "", name);
}

void plan_devices_put(FILE *out) {
    const struct device *device;
    for (int i = 0; (device = device_at(i)); i++) fprintf(out, "%s%s", i ? " " : "", device->name);
}
