// The tile instructions of AMX that kernels use. A tile is written as its number, 0 to 7, because
// the number is part of the instruction. A kernel sets the configuration when it begins and
// releases the tiles when it ends, so a thread keeps no tile state.
//
// Tests define RUNNEL_AMX_MODEL and bring functions that do the same in plain C
// (tests/amx_model.c), for machines without the instructions.
#ifndef RN_BACKEND_CPU_AMX_H
#define RN_BACKEND_CPU_AMX_H

#include <stdint.h>

enum { AMX_TILES = 8, AMX_ROWS = 16, AMX_ROW_BYTES = 64 }; // of palette 1

// As the processor reads it.
struct amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
_Static_assert(sizeof(struct amx_config) == 64, "the processor's");

#if defined(RUNNEL_AMX_MODEL)

void amx_model_configure(const struct amx_config *config);
void amx_model_release(void);
void amx_model_zero(int tile);
void amx_model_load(int tile, const void *from, int64_t stride);
void amx_model_store(int tile, void *to, int64_t stride);
void amx_model_dot(int sum, int a, int b);

#define tile_configure(config)        amx_model_configure(config)
#define tile_release()                amx_model_release()
#define tile_zero(tile)               amx_model_zero(tile)
#define tile_load(tile, from, stride) amx_model_load(tile, from, stride)
#define tile_store(tile, to, stride)  amx_model_store(tile, to, stride)
#define tile_dot(sum, a, b)           amx_model_dot(sum, a, b)

#else

// The compiler does not know what a tile reads and writes: hence "memory".
#define tile_configure(config) __asm__ volatile("ldtilecfg %0" ::"m"(*(config)))
#define tile_release()         __asm__ volatile("tilerelease")
#define tile_zero(tile)        __asm__ volatile("tilezero %%tmm" #tile ::)
#define tile_load(tile, from, stride)                                                              \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"((int64_t)(stride))        \
                     : "memory")
#define tile_store(tile, to, stride)                                                               \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"((int64_t)(stride))      \
                     : "memory")
// sum[i][j] += the dot products of row i of a with column j of b, signed bytes by signed bytes. A
// row of b has four bytes of each column.
#define tile_dot(sum, a, b) __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::)

#endif

#endif
