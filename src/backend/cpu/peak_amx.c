// The arithmetic peak with AMX: a tile product of 16 tokens, 16 rows and 64 columns is 16,384
// multiply-adds. Four sums hide its latency. Floats are AVX-512's. The kernels have 32 columns for
// a product and a scale for each, so half of this peak is their limit. The float work behind it
// lowers that to a third (matmul_amx.c).
#if defined(__x86_64__)

#include "backend/cpu/amx.h"
#include "backend/cpu/peak.h"

enum { SUMS = 4, TILE_MACS = 16 * 16 * 64, TILE_WORDS = 256 };

static uint64_t int8_run(int64_t n_rounds) {
    struct amx_config config = {.palette = 1};
    _Alignas(64) int32_t words[TILE_WORDS];
    uint32_t all = 0;
    for (int i = 0; i < AMX_TILES; i++) config.rows[i] = 16, config.row_bytes[i] = 64;
    for (int i = 0; i < TILE_WORDS; i++) words[i] = 0x01020301 + i;
    tile_configure(&config);
    tile_load(4, words, 64);
    tile_load(5, words, 64);
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
    for (int64_t n = 0; n < n_rounds; n++) {
        tile_dot(0, 4, 5);
        tile_dot(1, 4, 5);
        tile_dot(2, 4, 5);
        tile_dot(3, 4, 5);
    }
    tile_store(0, words, 64);
    for (int i = 0; i < TILE_WORDS; i++) all ^= (uint32_t)words[i];
    tile_release();
    return all;
}

#if defined(RUNNEL_AMX_MODEL)
const struct peak_loop peak_amx_model_int8 = {int8_run, SUMS *TILE_MACS}; // tests only
#else
const struct peak_loop peak_amx_int8 = {int8_run, SUMS *TILE_MACS};
#endif

#else
typedef int peak_amx_unused; // another architecture
#endif
