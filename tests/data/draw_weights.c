// Makes a reference model's file from its head (the bytes before the tensors) and its recipe, which
// says where in PyTorch's random numbers, or in another file, each tensor came from. README.md
// explains a recipe's lines.
//   draw_weights RECIPE HEAD OUT [SOURCE]
// The build runs it once for each model. The file's checksum is in the recipe, and a file with
// another one is not written: OUT is the file that was recorded with the reference logits, or is
// not there.
#include <inttypes.h>

#define PROGRAM "draw_weights"
#include "die.h"
#include "torch_normal.h"

enum { LINE_BYTES = 4096, NAME_BYTES = 128, MAX_DIMS = 4, FLOAT_MANTISSA = 23 };

struct drawing {
    const char *recipe; // its path, for messages
    int line;
    uint8_t *file; // the whole result
    uint64_t bytes, checksum;
    uint8_t *source; // the file that copies are taken from
    uint64_t source_bytes;
    float *uniform; // the stream from its first number on
    int64_t n_uniform;
    struct twister twister;
};

// Element [i][j]... is at i * stride[0] + j * stride[1] + ... behind the first.
struct shape {
    int n_dims;
    int64_t count[MAX_DIMS], stride[MAX_DIMS];
};

// One tensor, or a part of it, as numbers of the stream.
struct draw {
    char name[NAME_BYTES];
    uint64_t offset; // in the file
    int64_t first;
    int phase; // blocks of the stream begin at phase, phase + 16, ...
    float scale, plus;
    struct shape shape;
};

// ---------------------------------------------------------------- numbers

static void uniform_extend(struct drawing *d, int64_t n) {
    if (n <= d->n_uniform) return;
    d->uniform = must(realloc(d->uniform, (size_t)n * sizeof *d->uniform));
    while (d->n_uniform < n) d->uniform[d->n_uniform++] = twister_uniform(&d->twister);
}

// Numbers [from, from + n) of the stream as normal ones; from is where a block begins.
static float *normals_make(struct drawing *d, int64_t from, int64_t n) {
    const int64_t blocks = (n + NORMAL_BLOCK - 1) / NORMAL_BLOCK;
    uniform_extend(d, from + blocks * NORMAL_BLOCK);
    float *out = must(malloc((size_t)(blocks * NORMAL_BLOCK) * sizeof *out));
    for (int64_t i = 0; i < blocks; i++)
        normal_block(d->uniform + from + i * NORMAL_BLOCK, out + i * NORMAL_BLOCK);
    return out;
}

static int64_t shape_size(const struct shape *shape) {
    int64_t n = 1;
    for (int i = 0; i < shape->n_dims; i++) n *= shape->count[i];
    return n;
}

// The place of element `index`, behind the first.
static int64_t shape_place(const struct shape *shape, int64_t index) {
    int64_t place = 0;
    for (int i = shape->n_dims; i-- > 0; index /= shape->count[i])
        place += index % shape->count[i] * shape->stride[i];
    return place;
}

// n floats of the file.
static float *floats_at(const struct drawing *d, const char *name, uint64_t offset, int64_t n) {
    if (offset % sizeof(float) || offset > d->bytes ||
        (uint64_t)n > (d->bytes - offset) / sizeof(float))
        die("%s:%d: %s: %" PRId64 " floats at %" PRIu64 " are not in the file of %" PRIu64 " bytes",
            d->recipe, d->line, name, n, offset, d->bytes);
    return (float *)(void *)(d->file + offset);
}

static void tensor_draw(struct drawing *d, const struct draw *draw) {
    const int64_t n = shape_size(&draw->shape);
    const int64_t from = draw->first - (draw->first - draw->phase) % NORMAL_BLOCK;
    const int64_t last = draw->first + shape_place(&draw->shape, n - 1);
    float *normals = normals_make(d, from, last + 1 - from);
    float *out = floats_at(d, draw->name, draw->offset, n);
    for (int64_t i = 0; i < n; i++) {
        const float x = normals[draw->first - from + shape_place(&draw->shape, i)] * draw->scale;
        out[i] = draw->plus != 0.0f ? x + draw->plus : x;
    }
    free(normals);
}

// To the nearest float whose mantissa has so many bits, ties away from zero.
static float float_round(float x, int bits) {
    const int dropped = FLOAT_MANTISSA - bits;
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    word = (word + (1u << (dropped - 1))) >> dropped << dropped;
    memcpy(&x, &word, sizeof word);
    return x;
}

// ---------------------------------------------------------------- the recipe

// COUNT:STRIDE..., to the end of the line
static struct shape shape_read(const struct drawing *d, const char *text) {
    struct shape shape = {0};
    int used;
    while (shape.n_dims < MAX_DIMS &&
           sscanf(text, " %" SCNd64 ":%" SCNd64 "%n", shape.count + shape.n_dims,
                  shape.stride + shape.n_dims, &used) == 2) {
        if (shape.count[shape.n_dims] < 1 || shape.stride[shape.n_dims] < 1)
            die("%s:%d: no count and stride: %s", d->recipe, d->line, text);
        shape.n_dims++;
        text += used;
    }
    if (!shape.n_dims || *text) die("%s:%d: no shape: %s", d->recipe, d->line, text);
    return shape;
}

// draw NAME OFFSET FIRST PHASE SCALE PLUS COUNT:STRIDE...
static void line_draw(struct drawing *d, const char *text) {
    struct draw draw;
    int used = 0;
    if (sscanf(text, "draw %127s %" SCNu64 " %" SCNd64 " %d %f %f%n", draw.name, &draw.offset,
               &draw.first, &draw.phase, &draw.scale, &draw.plus, &used) != 6 ||
        draw.first < draw.phase || draw.phase < 0)
        die("%s:%d: no draw: %s", d->recipe, d->line, text);
    draw.shape = shape_read(d, text + used);
    tensor_draw(d, &draw);
}

// change NAME OFFSET FACTOR PLUS COUNT:STRIDE...: some floats of the file, in place.
static void line_change(struct drawing *d, const char *text) {
    char name[NAME_BYTES];
    uint64_t offset;
    float factor, plus;
    int used = 0;
    if (sscanf(text, "change %127s %" SCNu64 " %f %f%n", name, &offset, &factor, &plus, &used) != 4)
        die("%s:%d: no change: %s", d->recipe, d->line, text);
    const struct shape shape = shape_read(d, text + used);
    const int64_t n = shape_size(&shape);
    float *x = floats_at(d, name, offset, shape_place(&shape, n - 1) + 1);
    for (int64_t i = 0; i < n; i++) {
        float *at = x + shape_place(&shape, i);
        const float product = *at * factor;
        *at = product + plus;
    }
}

// mix NAME OFFSET OWN FROM OTHER COUNT: the floats at OFFSET times OWN, and those at FROM times
// OTHER.
static void line_mix(struct drawing *d, const char *text) {
    char name[NAME_BYTES];
    uint64_t offset, from;
    float own, other;
    int64_t n;
    if (sscanf(text, "mix %127s %" SCNu64 " %f %" SCNu64 " %f %" SCNd64, name, &offset, &own, &from,
               &other, &n) != 6 ||
        n < 1)
        die("%s:%d: no mix: %s", d->recipe, d->line, text);
    float *x = floats_at(d, name, offset, n);
    const float *y = floats_at(d, name, from, n);
    for (int64_t i = 0; i < n; i++) {
        const float mine = x[i] * own, yours = y[i] * other;
        x[i] = mine + yours;
    }
}

// round BITS: all floats so far.
static void line_round(struct drawing *d, int bits) {
    if (bits < 1 || bits >= FLOAT_MANTISSA)
        die("%s:%d: no mantissa of %d bits", d->recipe, d->line, bits);
    const int64_t n = (int64_t)(d->bytes / sizeof(float));
    float *x = floats_at(d, "round", 0, n);
    for (int64_t i = 0; i < n; i++) x[i] = float_round(x[i], bits);
}

// copy NAME OFFSET FROM COUNT:STRIDE...: floats of the source, from byte FROM on.
static void line_copy(struct drawing *d, const char *text) {
    char name[NAME_BYTES];
    uint64_t offset, from;
    int used = 0;
    if (sscanf(text, "copy %127s %" SCNu64 " %" SCNu64 "%n", name, &offset, &from, &used) != 3)
        die("%s:%d: no copy: %s", d->recipe, d->line, text);
    const struct shape shape = shape_read(d, text + used);
    const int64_t n = shape_size(&shape), last = shape_place(&shape, n - 1);
    if (from > d->source_bytes || (uint64_t)last >= (d->source_bytes - from) / sizeof(float))
        die("%s:%d: %s is not in the source", d->recipe, d->line, name);
    float *out = floats_at(d, name, offset, n);
    for (int64_t i = 0; i < n; i++)
        memcpy(out + i, d->source + from + (size_t)shape_place(&shape, i) * sizeof *out,
               sizeof *out);
}

// raw NAME OFFSET WORD...: floats that were not drawn so, as their bits.
static void line_raw(struct drawing *d, const char *text) {
    char name[NAME_BYTES];
    uint64_t offset;
    uint32_t word;
    int used;
    if (sscanf(text, "raw %127s %" SCNu64 "%n", name, &offset, &used) != 2)
        die("%s:%d: no raw tensor: %s", d->recipe, d->line, text);
    for (text += used; sscanf(text, " %" SCNx32 "%n", &word, &used) == 1; text += used) {
        memcpy(floats_at(d, name, offset, 1), &word, sizeof word);
        offset += sizeof word;
    }
    if (*text) die("%s:%d: no word: %s", d->recipe, d->line, text);
}

static void line_take(struct drawing *d, const char *text) {
    uint32_t seed;
    int bits;
    if (text[0] == '#' || sscanf(text, "fnv %" SCNx64, &d->checksum) == 1) return;
    if (sscanf(text, "seed %" SCNu32, &seed) == 1)
        twister_seed(&d->twister, seed);
    else if (sscanf(text, "bytes %" SCNu64, &d->bytes) == 1)
        d->file = must(calloc(1, d->bytes));
    else if (!strncmp(text, "draw ", 5))
        line_draw(d, text);
    else if (!strncmp(text, "change ", 7))
        line_change(d, text);
    else if (!strncmp(text, "mix ", 4))
        line_mix(d, text);
    else if (sscanf(text, "round %d", &bits) == 1)
        line_round(d, bits);
    else if (!strncmp(text, "copy ", 5))
        line_copy(d, text);
    else if (!strncmp(text, "raw ", 4))
        line_raw(d, text);
    else
        die("%s:%d: unknown line: %s", d->recipe, d->line, text);
}

static void recipe_read(struct drawing *d) {
    char text[LINE_BYTES];
    FILE *file = must_open(d->recipe, "r");
    while (fgets(text, sizeof text, file)) {
        char *end = strchr(text, '\n');
        d->line++;
        if (!end) die("%s:%d: the line is too long", d->recipe, d->line);
        *end = 0;
        line_take(d, text);
    }
    fclose(file);
}

// ---------------------------------------------------------------- files

static void head_read(struct drawing *d, const char *path) {
    FILE *file = must_open(path, "rb");
    const size_t n = fread(d->file, 1, d->bytes, file);
    if (!n || fgetc(file) != EOF) die("%s: no head of a file of %" PRIu64 " bytes", path, d->bytes);
    fclose(file);
}

static void source_read(struct drawing *d, const char *path) {
    FILE *file = must_open(path, "rb");
    const long size = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    if (size < 1) die("%s: no source", path);
    rewind(file);
    d->source_bytes = (uint64_t)size;
    d->source = must(malloc(d->source_bytes));
    if (fread(d->source, 1, d->source_bytes, file) != d->source_bytes)
        die("%s cannot be read", path);
    fclose(file);
}

// 64-bit FNV-1a.
static uint64_t file_checksum(const struct drawing *d) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint64_t i = 0; i < d->bytes; i++) hash = (hash ^ d->file[i]) * UINT64_C(0x100000001b3);
    return hash;
}

int main(int argc, char **argv) {
    if (argc != 4 && argc != 5) die("usage: draw_weights RECIPE HEAD OUT [SOURCE]");
    struct drawing drawing = {.recipe = argv[1]};
    if (argc == 5) source_read(&drawing, argv[4]);
    recipe_read(&drawing);
    head_read(&drawing, argv[2]);
    const uint64_t checksum = file_checksum(&drawing);
    if (checksum != drawing.checksum)
        die("%s: the checksum is %016" PRIx64 ", not %016" PRIx64, argv[3], checksum,
            drawing.checksum);
    file_write(argv[3], drawing.file, drawing.bytes);
    free(drawing.uniform);
    free(drawing.source);
    free(drawing.file);
    return 0;
}
