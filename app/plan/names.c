// See names.h.
#include "plan/names.h"

#include "plan/machine.h"

void plan_shapes_put(FILE *out) {
    char list[8192];
    tools_shapes_list(list, sizeof list);
    for (const char *at = list; *at; at++)
        if (*at != ',') fputc(*at, out);
}

void plan_devices_put(FILE *out) {
    const struct device *device;
    for (int i = 0; (device = device_at(i)); i++) fprintf(out, "%s%s", i ? " " : "", device->name);
}
