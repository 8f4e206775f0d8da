// Routers on the emulator: for the same logits a row has the bits of the CPU's reference, experts
// and weights, at every option and with many ties. The table of pairs is compared with a plain one,
// at random numbers of rows, experts and blocks.
#include <math.h>
#include <string.h>

#include "kernel_check.h"
#include "route.h"

#define _Static_assert static_assert
extern "C" {
#include "backend/cpu/reference_route.h"
}

namespace {

bool coin() { return draw.one_in(2); }

struct shape {
    route_args args;
    int n_rows, n_blocks, n_threads;
    std::vector<float> bias, factor;
};

// Few values, so that many are equal.
float random_logit(bool is_coarse) {
    return is_coarse ? (float)draw.below(5) * 0.75f - 1.5f
                     : (float)draw.below(100001) / 12500.0f - 4.0f;
}

shape random_shape(int index) {
    static const int experts[] = {1, 2, 5, 8, 16, 31, 32, 33, 60, 64, 128, 160, 256, 384, 512, 520};
    static const int groups[] = {2, 3, 4, 8, 32};
    shape c = {};
    route_args &a = c.args;
    a.n = experts[draw.below(16)];
    if (index == 0) a.n = 4096;
    a.score = (enum route_score)draw.below(3);
    a.normalize = coin();
    a.scale = coin() ? 0.0f : 2.5f;
    a.least = coin() ? 1e-20f : 0.01f;
    a.jitter = 0.05f;
    for (int i = 0; i < a.n; i++) {
        c.bias.push_back(random_logit(true) * 0.125f);
        c.factor.push_back(random_logit(false));
    }
    if (a.score != ROUTE_SPARSEMIXER && draw.below(3) == 0) a.bias = c.bias.data();
    if (draw.below(3) == 0) a.factor = c.factor.data();
    int n_open = a.n;
    const int n_group = groups[draw.below(5)];
    if (a.score != ROUTE_SPARSEMIXER && a.n % n_group == 0 && coin()) {
        a.n_group = n_group;
        a.n_group_used = 1 + draw.below(n_group);
        a.group_best = 1 + draw.below(2);
        n_open = a.n / n_group * a.n_group_used;
    }
    const int most = n_open < 10 ? n_open : draw.below(8) == 0 && n_open >= 64 ? 64 : 10;
    a.k = most == 64 ? 40 + draw.below(25) : 1 + draw.below(most);
    c.n_threads = coin() ? (int)BLOCK_THREADS : (int)ROUTE_THREADS;
    c.n_rows = 1 + draw.below(coin() ? 8 : 150);
    c.n_blocks = 1 + draw.below(4);
    return c;
}

struct bench {
    shape c;
    device_memory m;
    router_args args = {};
    std::vector<float> logit;
    step batch = {};

    explicit bench(const shape &from) : c(from) {
        if (c.args.bias) c.args.bias = c.bias.data();
        if (c.args.factor) c.args.factor = c.factor.data();
        const route_args &a = c.args;
        const size_t n = (size_t)a.n, pairs = (size_t)(c.n_rows * a.k);
        stage_route &s = args.stage;
        s.ld_in = a.n + draw.below(9), s.ld_out = 2 * a.k + draw.below(9);
        const bool is_coarse = coin();
        for (int i = 0; i < c.n_rows * s.ld_in; i++) logit.push_back(random_logit(is_coarse));
        for (int i = 0; i < c.n_rows; i++)
            if (draw.below(4) == 0) logit[(size_t)(i * s.ld_in)] = -0.0f;
        s.logit = m.put(logit);
        s.out = m.take<float>((size_t)(c.n_rows * s.ld_out));
        s.bias = a.bias ? m.put(c.bias) : nullptr;
        s.factor = a.factor ? m.put(c.factor) : nullptr;
        s.score = a.score, s.normalize = a.normalize;
        s.is_by_scores = a.bias || (a.n_group > 0 && a.group_best > 1);
        s.n_group = a.n_group, s.n_group_used = a.n_group_used, s.group_best = a.group_best;
        s.scale = a.scale, s.least = a.least, s.jitter = a.jitter;
        s.expert_bytes = 1000;
        s.table.n_expert = a.n, s.table.n_used = a.k;
        s.table.first = m.take<int32_t>(n + 1), s.table.active = m.take<int32_t>(n);
        s.table.first_padded = m.take<int32_t>(n + 1);
        s.table.pair = m.take<int32_t>(pairs), s.table.position = m.take<int32_t>(pairs);
        s.table.n_active = m.take<int32_t>(1);
        s.table.arrived = m.put(std::vector<uint32_t>(1, 0));
        batch.n_tokens = c.n_rows;
        batch.touched = m.put(std::vector<uint64_t>(1, 7));
        args.step = m.put(std::vector<step>(1, batch));
        args.n_rows = c.n_rows + draw.below(9); // padding
        args.n_counting = route_counting(a.n, args.n_rows * a.k, c.n_threads);
    }

    void run() {
        launch(route_kernel(c.args.n), c.n_blocks, c.n_threads,
               route_shared_bytes(c.args.n, args.n_counting), &args);
    }
};

// The rows' experts and weights; returns the experts, pair by pair.
std::vector<int> rows_check(const bench &b) {
    const route_args &a = b.c.args;
    const stage_route &s = b.args.stage;
    const std::vector<float> got = device_get(s.out, (size_t)(b.c.n_rows * s.ld_out));
    std::vector<int> ids;
    for (int r = 0; r < b.c.n_rows; r++) {
        std::vector<float> id((size_t)a.k), weight((size_t)a.k);
        reference_route(&a, b.logit.data() + (size_t)r * (size_t)s.ld_in, id.data(), weight.data());
        const float *row = got.data() + (size_t)r * (size_t)s.ld_out;
        for (int k = 0; k < a.k; k++) {
            CHECK(row[k] == id[(size_t)k],
                  "row %d of %d, rank %d of %d: expert %g of %d, not %g (score %d, bias %d, groups "
                  "%d)",
                  r, b.c.n_rows, k, a.k, (double)row[k], a.n, (double)id[(size_t)k], (int)a.score,
                  a.bias != nullptr, a.n_group);
            CHECK(memcmp(row + a.k + k, &weight[(size_t)k], 4) == 0,
                  "row %d, rank %d of %d: weight %.9g, not %.9g; score %d", r, k, a.k,
                  (double)row[a.k + k], (double)weight[(size_t)k], (int)a.score);
            ids.push_back((int)row[k]);
        }
    }
    return ids;
}

void table_check(const bench &b, const std::vector<int> &ids) {
    const route_table &t = b.args.stage.table;
    const size_t n = (size_t)t.n_expert;
    const std::vector<int32_t> first = device_get(t.first, n + 1), active = device_get(t.active, n),
                               padded = device_get(t.first_padded, n + 1),
                               pair = device_get(t.pair, ids.size()),
                               position = device_get(t.position, ids.size());
    int at = 0, place = 0, n_active = 0;
    for (int e = 0; e < t.n_expert; e++) {
        CHECK(first[(size_t)e] == at, "expert %d begins at %d, not %d", e, first[(size_t)e], at);
        CHECK(padded[(size_t)e] == place, "expert %d is padded from %d on, not %d", e,
              padded[(size_t)e], place);
        const int begin = at;
        for (size_t p = 0; p < ids.size(); p++) {
            if (ids[p] != e) continue;
            CHECK(pair[(size_t)at] == (int)p, "pair %d is at %d, not %zu", pair[(size_t)at], at, p);
            CHECK(position[p] == place + at - begin, "pair %zu has position %d, not %d", p,
                  position[p], place + at - begin);
            at++;
        }
        if (at > begin) CHECK(active[(size_t)n_active++] == e, "expert %d is not active", e);
        place += (at - begin + 7) / 8 * 8;
    }
    CHECK(first[n] == at && padded[n] == place, "ends at %d and %d", first[n], padded[n]);
    CHECK(device_get(t.n_active, 1)[0] == n_active, "%d are active", device_get(t.n_active, 1)[0]);
    CHECK(device_get(t.arrived, 1)[0] == 0, "blocks are counted on");
    CHECK(device_get(b.batch.touched, 1)[0] == 7 + 1000 * (uint64_t)n_active, "bytes of experts");
}

} // namespace

int main(int argc, char **argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 120;
    for (int i = 0; i < n; i++) {
        bench b(random_shape(i));
        b.run();
        table_check(b, rows_check(b));
    }
    printf("ok\n");
    return 0;
}
