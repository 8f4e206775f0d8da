// Makes a reference model's file from its head (the bytes before the tensors) and its recipe, which
// says where in PyTorch's random numbers each tensor came from. README.md explains a recipe's
// lines.
//   draw_weights RECIPE HEAD OUT
// The build runs it once for each model. The file's checksum is in the recipe, and a file with
// another one is not written: OUT is the file that was recorded with the reference logits, or is
// not there.
#include <inttypes.h>

#define PROGRAM "draw_weights"
#include "die.h"
#include "torch_normal.h"

enum { LINE_BYTES = 4096, NAME_BYTES = 128, MAX_DIMS = 4 };

struct drawing {
    const char *recipe; // its path, for messages
    int line;
    uint8_t *file; // the whole result
    uint64_t bytes, checksum;
    float *uniform; // the stream from its first number on
    int64_t n_uniform;
    struct twister twister;
};

// One tensor: element [i][j]... is number first + i * stride[0] + j * stride[1] + ... of the
// stream.
struct draw {
    char name[NAME_BYTES];
    uint64_t offset; // in the file
    int64_t first;
    int phase; // blocks of the stream begin at phase, phase + 16, ...
    float scale, plus;
    int n_dims;
    int64_t count[MAX_DIMS], stride[MAX_DIMS];
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

// The place in the stream of the tensor's element `index`, behind its first.
static int64_t element_place(const struct draw *draw, int64_t index) {
    int64_t place = 0;
    for (int i = draw->n_dims; i-- > 0; index /= draw->count[i])
        place += index % draw->count[i] * draw->stride[i];
    return place;
}

static void tensor_put(struct drawing *d, const char *name, uint64_t offset, const void *data,
                       uint64_t bytes) {
    if (offset > d->bytes || bytes > d->bytes - offset)
        die("%s:%d: %s: %" PRIu64 " bytes at %" PRIu64 " are past the end of the file, %" PRIu64,
            d->recipe, d->line, name, bytes, offset, d->bytes);
    memcpy(d->file + offset, data, bytes);
}

static void tensor_draw(struct drawing *d, const struct draw *draw) {
    int64_t n = 1;
    for (int i = 0; i < draw->n_dims; i++) n *= draw->count[i];
    const int64_t from = draw->first - (draw->first - draw->phase) % NORMAL_BLOCK;
    const int64_t last = draw->first + element_place(draw, n - 1);
    float *normals = normals_make(d, from, last + 1 - from);
    float *out = must(malloc((size_t)n * sizeof *out));
    for (int64_t i = 0; i < n; i++) {
        const float x = normals[draw->first - from + element_place(draw, i)] * draw->scale;
        out[i] = draw->plus != 0.0f ? x + draw->plus : x;
    }
    tensor_put(d, draw->name, draw->offset, out, (uint64_t)n * sizeof *out);
    free(out);
    free(normals);
}

// ---------------------------------------------------------------- the recipe

// draw NAME OFFSET FIRST PHASE SCALE PLUS COUNT:STRIDE...
static void line_draw(struct drawing *d, const char *text) {
    struct draw draw = {.n_dims = 0};
    int used = 0;
    if (sscanf(text, "draw %127s %" SCNu64 " %" SCNd64 " %d %f %f%n", draw.name, &draw.offset,
               &draw.first, &draw.phase, &draw.scale, &draw.plus, &used) != 6 ||
        draw.first < draw.phase || draw.phase < 0)
        die("%s:%d: no draw: %s", d->recipe, d->line, text);
    text += used;
    while (draw.n_dims < MAX_DIMS &&
           sscanf(text, " %" SCNd64 ":%" SCNd64 "%n", draw.count + draw.n_dims,
                  draw.stride + draw.n_dims, &used) == 2) {
        if (draw.count[draw.n_dims] < 1 || draw.stride[draw.n_dims] < 1)
            die("%s:%d: no count and stride: %s", d->recipe, d->line, text);
        draw.n_dims++;
        text += used;
    }
    if (!draw.n_dims || *text) die("%s:%d: no shape: %s", d->recipe, d->line, text);
    tensor_draw(d, &draw);
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
        tensor_put(d, name, offset, &word, sizeof word);
        offset += sizeof word;
    }
    if (*text) die("%s:%d: no word: %s", d->recipe, d->line, text);
}

static void line_take(struct drawing *d, const char *text) {
    uint32_t seed;
    if (text[0] == '#' || sscanf(text, "fnv %" SCNx64, &d->checksum) == 1) return;
    if (sscanf(text, "seed %" SCNu32, &seed) == 1)
        twister_seed(&d->twister, seed);
    else if (sscanf(text, "bytes %" SCNu64, &d->bytes) == 1)
        d->file = must(calloc(1, d->bytes));
    else if (!strncmp(text, "draw ", 5))
        line_draw(d, text);
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

// 64-bit FNV-1a.
static uint64_t file_checksum(const struct drawing *d) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint64_t i = 0; i < d->bytes; i++) hash = (hash ^ d->file[i]) * UINT64_C(0x100000001b3);
    return hash;
}

int main(int argc, char **argv) {
    if (argc != 4) die("usage: draw_weights RECIPE HEAD OUT");
    struct drawing drawing = {.recipe = argv[1]};
    recipe_read(&drawing);
    head_read(&drawing, argv[2]);
    const uint64_t checksum = file_checksum(&drawing);
    if (checksum != drawing.checksum)
        die("%s: the checksum is %016" PRIx64 ", not %016" PRIx64, argv[3], checksum,
            drawing.checksum);
    file_write(argv[3], drawing.file, drawing.bytes);
    free(drawing.uniform);
    free(drawing.file);
    return 0;
}
