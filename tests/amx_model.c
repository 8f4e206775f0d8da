#include "amx_model.h"

#include <stddef.h>
#include <string.h>

#include "backend/cpu/amx.h"

static _Thread_local struct {
    bool is_configured;
    struct amx_config config;
    int8_t tile[AMX_TILES][AMX_ROWS][AMX_ROW_BYTES];
    const char *fault;
    int64_t n_dots;
} amx;

static void fault(const char *what) {
    if (!amx.fault) amx.fault = what;
}

const char *amx_model_fault(void) {
    if (amx.is_configured) fault("tiles are not released");
    const char *what = amx.fault;
    amx.fault = NULL;
    return what;
}

int64_t amx_model_dots(void) {
    const int64_t n = amx.n_dots;
    amx.n_dots = 0;
    return n;
}

void amx_model_configure(const struct amx_config *config) {
    static const uint8_t zeros[sizeof config->reserved];
    if (amx.is_configured) fault("tiles are configured twice");
    if (config->palette != 1) fault("the palette is not 1");
    if (config->start_row != 0) fault("the start row is not 0");
    if (memcmp(config->reserved, zeros, sizeof zeros)) fault("reserved bytes are not 0");
    for (int i = 0; i < 16; i++) {
        const int rows = config->rows[i], bytes = config->row_bytes[i];
        if (i >= AMX_TILES && (rows || bytes)) fault("a tile past 7 is configured");
        if (rows > AMX_ROWS || bytes > AMX_ROW_BYTES) fault("a tile is too large");
        if (!rows != !bytes) fault("a tile has rows or columns alone");
    }
    amx.config = *config;
    amx.is_configured = true;
    memset(amx.tile, 0, sizeof amx.tile);
}

void amx_model_release(void) {
    amx.is_configured = false;
    memset(&amx.config, 0, sizeof amx.config);
    memset(amx.tile, 0x55, sizeof amx.tile);
}

// Whether it may be used.
static bool is_usable(int tile) {
    const bool usable = amx.is_configured && tile >= 0 && tile < AMX_TILES && amx.config.rows[tile];
    if (!usable) fault("a tile is not configured");
    return usable;
}

void amx_model_zero(int tile) {
    if (is_usable(tile)) memset(amx.tile[tile], 0, sizeof amx.tile[tile]);
}

void amx_model_load(int tile, const void *from, int64_t stride) {
    if (!is_usable(tile)) return;
    memset(amx.tile[tile], 0, sizeof amx.tile[tile]);
    for (int i = 0; i < amx.config.rows[tile]; i++)
        memcpy(amx.tile[tile][i], (const int8_t *)from + i * stride, amx.config.row_bytes[tile]);
}

void amx_model_store(int tile, void *to, int64_t stride) {
    if (!is_usable(tile)) return;
    for (int i = 0; i < amx.config.rows[tile]; i++)
        memcpy((int8_t *)to + i * stride, amx.tile[tile][i], amx.config.row_bytes[tile]);
}

void amx_model_dot(int sum, int a, int b) {
    const uint8_t *rows = amx.config.rows;
    const uint16_t *bytes = amx.config.row_bytes;
    if (!is_usable(sum) || !is_usable(a) || !is_usable(b)) return;
    if (sum == a || sum == b || a == b) fault("a product's tiles are not three");
    if (bytes[sum] % 4 || bytes[a] % 4 || bytes[b] % 4) fault("a row is not whole quads");
    if (rows[sum] != rows[a] || bytes[a] != 4 * rows[b] || bytes[sum] != bytes[b])
        fault("a product's tiles do not fit each other");
    if (amx.fault) return;
    amx.n_dots++;
    for (int m = 0; m < rows[sum]; m++) {
        int32_t row[AMX_ROW_BYTES / 4];
        memcpy(row, amx.tile[sum][m], sizeof row);
        for (int k = 0; k < rows[b]; k++)
            for (int n = 0; n < bytes[sum] / 4; n++)
                for (int i = 0; i < 4; i++)
                    row[n] += amx.tile[a][m][4 * k + i] * amx.tile[b][k][4 * n + i];
        memcpy(amx.tile[sum][m], row, sizeof row);
    }
}
