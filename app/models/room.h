// Whether models fit this machine's memory, by the arithmetic of `runnel plan`.
#ifndef RN_APP_MODELS_ROOM_H
#define RN_APP_MODELS_ROOM_H

#include <stdio.h>

#include "tools.h"

enum { ROOM_CONTEXT = 4096 }; // positions that a model is sized with, unless its own are fewer

struct room {
    struct tools_place place;
    struct tools_device device;
};
rn_status room_get(struct room *out, rn_error *err);
// The memory of a model with one user; n_ctx is the positions of it.
rn_status room_need(const struct room *room, const rn_model *model, int *n_ctx,
                    struct tools_memory *out, rn_error *err);
// Parameters that a name states, as "Qwen3-8B" or "smollm:135m" do; 0: none.
double room_parameters(const char *name);
// Whether that many bytes fit, with the part of the memory that an engine leaves free.
bool room_fits(const struct room *room, double bytes);
// What a model of a shape needs besides its weights, in bytes; 0: unknown.
double room_besides_bytes(const struct room *room, const char *shape, const char *format);
// Says on a line what a model of that many parameters needs in several formats and which of them
// fit, or with 0 which sizes fit. The free memory is known. Returns the best format that fits, NULL
// if none does; *least is what the smallest format needs, 0 if that is unknown.
const char *room_say(FILE *out, const struct room *room, double parameters, double *least);

#endif
