// The order in which a team goes through the tiles of a step's products. The stream of weights and
// the arithmetic both follow it, the stream some pieces ahead. Tiles of a stage go to blocks in
// turn, beginning where the stage before ended, and in a block to its teams in turn. So the bytes
// of a block are even over stages, though not in each of them.
//
// A run is a team's tiles of one matrix: evenly spaced, so that little is computed for each. Of
// experts a run belongs to one active expert: such a stage can be walked only when the route is
// known. Each tile is multiplied with one group of rows after the other.
#ifndef RN_BACKEND_CUDA_WALK_CUH
#define RN_BACKEND_CUDA_WALK_CUH

#include "device.cuh"
#include "stage.h"

enum {
    STAGE_SLOTS = 8
}; // stages whose descriptions are in shared memory: the current one and 7 more

// The rows of a stage in this step.
DEV int stage_rows_of(const struct stage &stage, const struct step &step) {
    if ((stage.flags & STAGE_IF_HIDDEN) && !step.wants_hidden) return 0;
    if (stage.flags & STAGE_APPENDS) return step.n_tokens;
    const int n = stage.rows == STAGE_TOKENS ? step.n_tokens
                  : stage.rows == STAGE_OUT  ? step.n_out
                                             : step.n_logits;
    if ((stage.flags & STAGE_IF_UNFIT) && STAGE_FITS(stage.row.n_units, n, step.x_bytes)) return 0;
    return n;
}

struct run {
    int product;                     // of the stage
    int tile, step, n;               // the first tile, the distance to the next, their number
    int n_groups;                    // of rows
    int expert, first_pair, n_pairs; // of experts
};

// ceil(a / b) for small numbers without a division of integers.
DEV int ceil_divide(int a, int b) {
    int n = (int)((float)a / (float)b);
    while (n * b < a) n++;
    while ((n - 1) * b >= a) n--;
    return n;
}

// The runs of one stage.
struct run_walk {
    int product, active, n_active; // the next matrix: a product, of an active expert
    int base;                      // tiles of the matrices before
    int place;                     // the team's next tile

    DEV void begin(const struct stage_product &s, int stage, int team, int rot) {
        const int blocks = (int)gridDim.x;
        int first = (int)blockIdx.x - rot;
        if (first < 0) first += blocks;
        product = active = base = 0;
        n_active = s.is_routed ? load_l2(s.route.n_active) : 1;
        place = first + ((team + stage) % N_TEAMS) * blocks;
    }

    // Where the next stage begins: tiles of experts are not part of the turn.
    DEV int rot_after(const struct stage_product &s, int rot) const {
        rot += s.is_routed ? 0 : s.n_tiles_rest;
        return rot < (int)gridDim.x ? rot : rot - (int)gridDim.x;
    }

    // The next run that has tiles; false: there is none.
    DEV bool next(const struct stage_product &s, int n_rows, int group_rows, struct run &r) {
        const int stride = N_TEAMS * (int)gridDim.x;
        while (active < n_active) {
            const int begin = base, end = base + s.product[product].n_tiles;
            const int now = active;
            r.product = product;
            base = end;
            if (++product == s.n_products) {
                product = 0;
                active++;
            }
            if (place >= end) continue;
            r.tile = place - begin;
            r.step = stride;
            r.n = ceil_divide(end - place, stride);
            place += r.n * stride;
            r.expert = r.first_pair = r.n_pairs = 0;
            int n = n_rows;
            if (s.is_routed) {
                r.expert = load_l2(s.route.active + now);
                r.first_pair = load_l2(s.route.first + r.expert);
                n = r.n_pairs = load_l2(s.route.first + r.expert + 1) - r.first_pair;
            }
            r.n_groups = n <= group_rows ? 1 : (n + group_rows - 1) / group_rows;
            return true;
        }
        return false;
    }
};

#endif
