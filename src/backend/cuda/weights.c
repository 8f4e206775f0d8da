// Packs the weights into units and brings them to the device, at create. All matrices are cut into
// pieces of whole tiles. The host's threads fetch and pack a piece into pinned memory while the
// device copies the piece before it. So reading, packing and the bus work side by side, and the
// host never holds more than two pieces beside the file's own pages.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"

enum {
    PIECE_BYTES = 64 << 20,  // of pinned memory, two of them
    FETCH_BYTES = 512 << 10, // that a thread fetches at a time, about
};

struct loading {
    struct cuda_backend *b;
    const struct backend_config *config;
    uint8_t *piece[2]; // pinned
    uint64_t piece_bytes;
    cudaEvent_t copied[2];
    int now;              // the piece that is being packed
    uint64_t done, total; // bytes of the file
    uint8_t *fetched;     // [threads, fetched_bytes]
    uint64_t fetched_bytes;
    _Atomic bool failed;
    rn_status status;
    rn_error err;
};

// Tiles of one matrix, or of a gated pair, that go into a piece.
struct tiles {
    struct loading *load;
    enum format_id format;
    const uint8_t *data, *second; // rows of the file; second: of a pair
    int64_t rows, cols;
    uint64_t row_bytes, tile_bytes;
    int64_t first; // tile of the matrix
    uint8_t *out;
    int64_t step; // tiles that a thread fetches at once
};

static void fail(struct loading *load, rn_status status, const rn_error *err) {
    if (atomic_exchange(&load->failed, true)) return;
    load->status = status;
    load->err = *err;
}

static bool rows_fetch(const struct tiles *t, const uint8_t *data, int64_t first, int64_t n,
                       uint8_t *buffer, const uint8_t **at) {
    const struct plan *plan = t->load->b->plan;
    *at = data + (uint64_t)first * t->row_bytes;
    if (!plan->fetch || n <= 0) return true;
    rn_error err = {0};
    const void *there;
    const rn_status status =
        plan->fetch(plan->fetch_ctx, *at, (uint64_t)n * t->row_bytes, buffer, &there, &err);
    if (status) fail(t->load, status, &err);
    *at = there;
    return !status;
}

// Tiles [begin, begin + n) of the piece.
static void tiles_pack(const struct tiles *t, int64_t begin, int64_t n, uint8_t *buffer) {
    const int of_one = t->second ? UNIT_ROWS / 2 : UNIT_ROWS;
    const int64_t first = (t->first + begin) * of_one;
    const int64_t rows = t->rows - first < n * of_one ? t->rows - first : n * of_one;
    const uint8_t *a, *b = NULL;
    if (!rows_fetch(t, t->data, first, rows, buffer, &a)) return;
    if (t->second &&
        !rows_fetch(t, t->second, first, rows, buffer + (uint64_t)rows * t->row_bytes, &b))
        return;
    for (int64_t i = 0; i < n; i++) {
        const void *row[UNIT_ROWS];
        for (int r = 0; r < UNIT_ROWS; r++) {
            const int64_t index = i * of_one + r % of_one;
            const uint8_t *from = r < of_one ? a : b;
            row[r] = index < rows ? from + (uint64_t)index * t->row_bytes : NULL;
        }
        codec_pack_tile(t->format, row, t->cols, t->out + (uint64_t)(begin + i) * t->tile_bytes);
    }
}

static void tiles_run(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct tiles *t = ctx;
    uint8_t *buffer = t->load->fetched + (uint64_t)worker * t->load->fetched_bytes;
    for (int64_t i = begin; i < end && !atomic_load(&t->load->failed); i += t->step)
        tiles_pack(t, i, end - i < t->step ? end - i : t->step, buffer);
}

static rn_status piece_send(struct loading *load, uint8_t *to, uint64_t bytes, rn_error *err) {
    cudaError_t code =
        cudaMemcpyAsync(to, load->piece[load->now], bytes, cudaMemcpyHostToDevice, load->b->stream);
    if (!code) code = cudaEventRecord(load->copied[load->now], load->b->stream);
    load->now ^= 1;
    return code ? cuda_fault(code, RN_ERR_IO, "copying weights to the device", err) : RN_OK;
}

static void report(struct loading *load, uint64_t bytes) {
    load->done += bytes;
    if (load->config->progress)
        load->config->progress(load->config->progress_ctx, load->done, load->total);
}

static rn_status matrix_load(struct loading *load, struct tiles *t, int64_t n_tiles, uint8_t *to,
                             uint64_t file_bytes, rn_error *err) {
    const int64_t at_once = (int64_t)(load->piece_bytes / t->tile_bytes);
    for (int64_t first = 0; first < n_tiles; first += at_once) {
        const int64_t n = n_tiles - first < at_once ? n_tiles - first : at_once;
        const cudaError_t code = cudaEventSynchronize(load->copied[load->now]);
        if (code) return cuda_fault(code, RN_ERR_IO, "copying weights to the device", err);
        t->first = first;
        t->out = load->piece[load->now];
        pool_run(load->config->pool, tiles_run, t, n, t->step);
        if (atomic_load(&load->failed)) {
            if (err) *err = load->err;
            return load->status;
        }
        const rn_status status = piece_send(load, to + (uint64_t)first * t->tile_bytes,
                                            (uint64_t)n * t->tile_bytes, err);
        if (status) return status;
        report(load, file_bytes * (uint64_t)n / (uint64_t)n_tiles);
    }
    return RN_OK;
}

static rn_status weight_load(struct loading *load, int index, rn_error *err) {
    struct cuda_backend *b = load->b;
    const struct plan_weight *weight = &b->plan->weight[index];
    const struct cuda_weight *w = &b->layout.weight[index];
    const struct plan_weight *second = w->use == USE_FIRST ? &b->plan->weight[w->pair] : NULL;
    const int n = weight->n_expert > 0 ? weight->n_expert : 1;
    const uint64_t bytes = (weight->bytes + (second ? second->bytes : 0)) / (uint64_t)n;
    for (int e = 0; e < n; e++) {
        struct tiles t = {.load = load,
                          .format = weight->format,
                          .data = weight->n_expert ? weight->expert_data[e] : weight->data,
                          .rows = weight->rows,
                          .cols = weight->cols,
                          .row_bytes = format_row_bytes(weight->format, weight->cols),
                          .tile_bytes = codec_tile_bytes(w->codec, weight->cols)};
        if (second) t.second = second->n_expert ? second->expert_data[e] : second->data;
        const int64_t step = (int64_t)(FETCH_BYTES / (t.row_bytes * UNIT_ROWS));
        t.step = step > 0 ? step : 1;
        const rn_status status =
            matrix_load(load, &t, w->n_tiles, b->weights + w->at + (uint64_t)e * w->bytes, bytes,
                        err);
        if (status) return status;
    }
    if (!weight->n_expert) return RN_OK;
    const void **table = malloc((size_t)n * sizeof *table);
    if (!table) return err_set(err, RN_ERR_NOMEM, "no memory for %d experts", n);
    for (int e = 0; e < n; e++) table[e] = b->weights + w->at + (uint64_t)e * w->bytes;
    const cudaError_t code = cudaMemcpy(b->weights + w->table_at, table, (size_t)n * sizeof *table,
                                        cudaMemcpyHostToDevice);
    free(table);
    return code ? cuda_fault(code, RN_ERR_IO, "uploading the table of experts", err) : RN_OK;
}

static rn_status vector_load(struct loading *load, int index, rn_error *err) {
    const struct plan_weight *weight = &load->b->plan->weight[index];
    const struct cuda_weight *w = &load->b->layout.weight[index];
    const uint64_t row_bytes = format_row_bytes(weight->format, weight->cols);
    float *values = malloc(w->bytes ? w->bytes : 1);
    uint8_t *buffer = malloc(weight->bytes ? weight->bytes : 1);
    const void *at = weight->data;
    rn_status status =
        values && buffer ? RN_OK : err_set(err, RN_ERR_NOMEM, "no memory for %s", weight->name);
    if (!status && load->b->plan->fetch)
        status = load->b->plan->fetch(load->b->plan->fetch_ctx, weight->data, weight->bytes, buffer,
                                      &at, err);
    for (int64_t r = 0; r < weight->rows && !status; r++)
        format_decode(weight->format, (const uint8_t *)at + (uint64_t)r * row_bytes,
                      values + r * weight->cols, weight->cols);
    if (!status) {
        const cudaError_t code =
            cudaMemcpy(load->b->weights + w->at, values, w->bytes, cudaMemcpyHostToDevice);
        if (code) status = cuda_fault(code, RN_ERR_IO, "uploading a vector", err);
    }
    free(values);
    free(buffer);
    report(load, weight->bytes);
    return status;
}

// Pieces hold at least a tile; a thread's buffer holds what it fetches at once.
static rn_status loading_init(struct loading *load, rn_error *err) {
    const struct plan *plan = load->b->plan;
    load->piece_bytes = 0;
    for (int i = 0; i < plan->n_weight; i++) {
        const struct plan_weight *weight = &plan->weight[i];
        const struct cuda_weight *w = &load->b->layout.weight[i];
        if (w->use == USE_NONE) continue;
        load->total += weight->bytes;
        if (w->use == USE_VECTOR) continue;
        const uint64_t tile = codec_tile_bytes(w->codec, weight->cols);
        const uint64_t rows = format_row_bytes(weight->format, weight->cols) * UNIT_ROWS;
        const uint64_t all = tile * (uint64_t)w->n_tiles,
                       most = all < PIECE_BYTES ? all : PIECE_BYTES;
        if (tile > load->piece_bytes) load->piece_bytes = tile;
        if (most > load->piece_bytes) load->piece_bytes = most;
        if (2 * rows > load->fetched_bytes) load->fetched_bytes = 2 * rows;
    }
    if (load->fetched_bytes < 2 * FETCH_BYTES) load->fetched_bytes = 2 * FETCH_BYTES;
    cudaError_t code = cudaSuccess;
    for (int i = 0; i < 2 && !code; i++) {
        code = cudaMallocHost((void **)&load->piece[i], load->piece_bytes + 16);
        if (!code) code = cudaEventCreateWithFlags(&load->copied[i], cudaEventDisableTiming);
    }
    if (code) return cuda_fault(code, RN_ERR_NOMEM, "pinned memory of the host", err);
    load->fetched = malloc(load->fetched_bytes * (uint64_t)pool_size(load->config->pool));
    if (!load->fetched) return err_set(err, RN_ERR_NOMEM, "no memory to read weights into");
    return RN_OK;
}

rn_status cuda_weights_load(struct cuda_backend *b, const struct backend_config *config,
                            rn_error *err) {
    struct loading load = {.b = b, .config = config};
    rn_status status = loading_init(&load, err);
    for (int i = 0; i < b->plan->n_weight && !status; i++) {
        const enum weight_use use = b->layout.weight[i].use;
        if (use == USE_VECTOR)
            status = vector_load(&load, i, err);
        else if (use == USE_MATRIX || use == USE_FIRST)
            status = weight_load(&load, i, err);
    }
    const cudaError_t code = cudaStreamSynchronize(b->stream);
    if (code && !status) status = cuda_fault(code, RN_ERR_IO, "copying weights to the device", err);
    for (int i = 0; i < 2; i++) {
        cudaFreeHost(load.piece[i]);
        if (load.copied[i]) cudaEventDestroy(load.copied[i]);
    }
    free(load.fetched);
    return status;
}
