// See room.h.
#include "models/room.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "terminal/term.h"

// Dense models of the table of shapes, from small to large.
static const char *const shapes[] = {"135m", "360m", "0.6b", "1.7b", "4b",
                                     "8b",   "14b",  "32b",  "70b",  "405b"};
static const char *const formats[] = {"BF16", "Q8_0", "Q4_K_M"}; // from large to small
enum { SHAPES = sizeof shapes / sizeof *shapes, FORMATS = sizeof formats / sizeof *formats };

rn_status room_get(struct room *out, rn_error *err) {
    *out = (struct room){0};
    rn_status status = tools_device_find(&out->place, &out->device, err);
    if (!status) return RN_OK;
    out->place = TOOLS_PLACE_CPU; // the best backend is broken or busy
    return tools_device_find(&out->place, &out->device, err);
}

rn_status room_need(const struct room *room, const rn_model *model, int *n_ctx,
                    struct tools_memory *out, rn_error *err) {
    const int most = rn_model_get_info(model)->n_ctx_train;
    *n_ctx = most < ROOM_CONTEXT ? most : ROOM_CONTEXT;
    const struct tools_memory_wanted wanted = {.place = room->place,
                                               .n_ctx = *n_ctx,
                                               .users = 1,
                                               .batch_tokens = room->device.step_tokens
                                                                   ? room->device.step_tokens
                                                                   : RN_DEFAULT_BATCH_TOKENS,
                                               .memory = room->device.memory_free};
    return tools_memory(model, &wanted, out, err);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether a number may start there: behind a mark, or behind a letter as in E2B, but neither in the
// middle of a number nor in 8x7B.
static bool number_starts(const char *name, const char *at) {
    if (!is_digit(*at)) return false;
    if (at == name) return true;
    const bool is_behind_digit = at - name > 1 && is_digit(at[-2]);
    const bool is_letter = (at[-1] >= 'A' && at[-1] <= 'Z') || (at[-1] >= 'a' && at[-1] <= 'z');
    return (at[-1] == '.' || is_letter) ? !is_behind_digit : strchr("-_:/ ", at[-1]) != NULL;
}

double room_parameters(const char *name) {
    for (const char *at = name; *at; at++) {
        char *end;
        if (!number_starts(name, at)) continue;
        const double number = strtod(at, &end);
        const char unit = *end, next = unit ? end[1] : '\0';
        const bool is_end = (!next || strchr("-_:/. ", next)) && number <= 1e5;
        if (is_end && (unit == 'b' || unit == 'B')) return number * 1e9;
        if (is_end && (unit == 'm' || unit == 'M')) return number * 1e6;
        at = end - 1;
    }
    return 0;
}

// Bytes that a shape needs in a format, and its parameters; 0: unknown.
static double shape_bytes(const struct room *room, const char *shape, const char *format,
                          double *parameters) {
    rn_model *model = NULL;
    struct tools_memory memory = {0};
    int n_ctx;
    const rn_status status = tools_model_describe(shape, format, &model, NULL);
    if (!status && room_need(room, model, &n_ctx, &memory, NULL) == RN_OK)
        *parameters = (double)rn_model_get_info(model)->n_params;
    rn_model_close(model);
    return (double)memory.total_bytes;
}

// Bytes that parameters need in a format: those of the shape of the nearest size, in proportion.
static double size_bytes(const struct room *room, double parameters, const char *format) {
    const char *nearest = shapes[0];
    double least = HUGE_VAL, of_shape = 0;
    for (int i = 0; i < SHAPES; i++) {
        const double ratio = fabs(log(parameters / room_parameters(shapes[i])));
        if (ratio < least) nearest = shapes[i];
        if (ratio < least) least = ratio;
    }
    const double bytes = shape_bytes(room, nearest, format, &of_shape);
    return of_shape > 0 ? bytes * parameters / of_shape : 0;
}

double room_besides_bytes(const struct room *room, const char *shape, const char *format) {
    rn_model *model = NULL;
    struct tools_memory memory = {0};
    int n_ctx;
    if (!tools_model_describe(shape, format, &model, NULL) &&
        room_need(room, model, &n_ctx, &memory, NULL) != RN_OK)
        memory = (struct tools_memory){0};
    rn_model_close(model);
    return (double)(memory.total_bytes - memory.weight_bytes);
}

bool room_fits(const struct room *room, double bytes) {
    const struct tools_memory parts = {.total_bytes = (uint64_t)bytes};
    return bytes > 0 && tools_memory_fits(&parts, room->device.memory_free);
}

// "8B", "600M".
static const char *size_text(double parameters, char out[32]) {
    if (parameters >= 1e9)
        snprintf(out, 32, "%.3gB", parameters / 1e9);
    else
        snprintf(out, 32, "%.3gM", parameters / 1e6);
    return out;
}

static const char *formats_say(const struct room *room, FILE *out, double parameters,
                               double *least) {
    char text[32];
    const char *best = NULL;
    fprintf(out, "  %s parameters need about", size_text(parameters, text));
    for (int i = 0; i < FORMATS; i++) {
        const double bytes = *least = size_bytes(room, parameters, formats[i]);
        fprintf(out, "%s %s as %s", i ? "," : "", human_bytes(bytes, text), formats[i]);
        if (!best && room_fits(room, bytes)) best = formats[i];
    }
    fprintf(out,
            "; %s of memory are free here: ", human_bytes((double)room->device.memory_free, text));
    if (best)
        fprintf(out, "%s fits\n", best);
    else
        fputs("none of them fits\n", out);
    return best;
}

static void sizes_say(const struct room *room, FILE *out) {
    char text[32];
    int largest = SHAPES - 1; // a larger format has room for smaller models
    fprintf(out, "  %s of memory are free here. Largest models that fit:",
            human_bytes((double)room->device.memory_free, text));
    for (int f = FORMATS - 1; f >= 0; f--) {
        double ignored;
        while (largest >= 0 &&
               !room_fits(room, shape_bytes(room, shapes[largest], formats[f], &ignored)))
            largest--;
        fprintf(out, "%s %s as %s", f < FORMATS - 1 ? "," : "",
                largest >= 0 ? size_text(room_parameters(shapes[largest]), text) : "none",
                formats[f]);
    }
    fputs("\n", out);
}

const char *room_say(FILE *out, const struct room *room, double parameters, double *least) {
    *least = 0;
    if (parameters > 0) return formats_say(room, out, parameters, least);
    sizes_say(room, out);
    return NULL;
}
