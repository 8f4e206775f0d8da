// The price of a step against simulated machines: it learns their step times, follows changes of
// their speed, is not misled by interruptions, and cuts prompts to fit. Time is computed, so the
// limits are close to the figures.
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "engine/price/price.h"
#include "engine/step/ledger.h"
#include "model/model.h"
#include "weights/synthetic.h"

enum { STREAMS = 8, MAX_CHUNK = 1024, MS = 1000000 };

struct fixture {
    struct weights *weights;
    struct model model;
    struct cost_rates rates;
    struct kv_bytes kv; // pages
};

// A machine: a step reads the weights or computes its rows, whichever takes longer; attention adds.
struct machine {
    const char *name;
    double weights_ms, row_ms, fixed_ms;
    double ns_per_byte, ns_per_flop;
};

static const struct machine machines[] = {
    {"flat, then linear", 20, 0.4, 0, 0.05, 0.0004},
    {"long flat", 30, 0.08, 0, 0.05, 0.0004},
    {"linear", 0, 0.5, 1, 0.05, 0.0004},
    {"steep with depth", 20, 0.2, 0, 0.1, 0.004},
    {"fast", 0.4, 0.004, 0.02, 0.002, 0.00001},
};
enum { N_MACHINES = sizeof machines / sizeof *machines };

// Keys and values of 2 bytes.
static struct kv_bytes pages_of(const struct plan *plan) {
    struct kv_bytes kv = {{0}};
    for (int g = 0; g < plan->n_group; g++) {
        const struct plan_kv_group *group = &plan->group[g];
        kv.page[g] = (uint64_t)(group->n_layer * group->n_head_kv) *
                     (uint64_t)(group->dim_k + group->dim_v) * 2 * KV_PAGE_TOKENS;
    }
    return kv;
}

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(weights_describe_synthetic("1b:Q4_0", &f->weights, NULL), RN_OK);
    assert_int_equal(model_init(&f->model, f->weights, NULL), RN_OK);
    f->kv = pages_of(&f->model.plan);
    cost_rates_init(&f->rates, &f->model.plan, &f->kv);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    model_deinit(&f->model);
    weights_close(f->weights);
    free(f);
    return 0;
}

static double step_ns(const struct fixture *f, const struct machine *m,
                      const struct batch_shape *shape) {
    double attention = 0;
    for (int g = 0; g < f->rates.n_group; g++)
        for (int rows = 0; rows < 2; rows++)
            attention += (double)shape->kv_read[g][rows] *
                             (double)f->rates.read[g][rows].kv_read_bytes * m->ns_per_byte +
                         (double)shape->kv_pairs[g][rows] * (double)f->rates.pair[g][rows].flops *
                             m->ns_per_flop;
    const struct cost *row = f->rates.row; // the vocabulary's product is a part of a row
    const double all =
        (double)(row[ROWS_TOKENS].flops + row[ROWS_OUT].flops + row[ROWS_LOGITS].flops);
    const double rows = ((double)shape->n_tokens * (double)row[ROWS_TOKENS].flops +
                         (double)shape->n_out * (double)row[ROWS_OUT].flops +
                         (double)shape->n_logits * (double)row[ROWS_LOGITS].flops) /
                        all * m->row_ms;
    return (m->fixed_ms + (rows > m->weights_ms ? rows : m->weights_ms)) * MS + attention;
}

// One run of the machine: streams at a depth, and a prompt that is cut.
struct scene {
    struct fixture *f;
    const struct machine *machine;
    struct price price;
    int depth, pos;
    uint64_t bound_ns;
    uint32_t random;
    double noise; // a step takes up to so much longer
    int outliers; // one in this many steps takes ten times as long; 0: none
};

static double uniform(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) * 0x1p-24;
}

static struct batch_shape streams_shape(const struct scene *s) {
    struct batch_shape shape = {0};
    for (int i = 0; i < STREAMS; i++)
        batch_shape_add(&s->f->model.plan, &shape, s->depth + 10 * i, 1, 1);
    return shape;
}

static void learn(struct scene *s, const struct batch_shape *shape) {
    double ns = step_ns(s->f, s->machine, shape) * (1 + s->noise * uniform(&s->random));
    if (s->outliers && uniform(&s->random) * s->outliers < 1) ns *= 10;
    price_learn(&s->price, shape, (uint64_t)ns);
}

static void decode(struct scene *s, int n_steps) {
    for (int i = 0; i < n_steps; i++, s->depth++) {
        const struct batch_shape shape = streams_shape(s);
        learn(s, &shape);
    }
}

// The most that would fit if one knew; 0: nothing does.
static int best_chunk(const struct scene *s, const struct batch_shape *base, int wanted) {
    for (int n = wanted; n > 0; n--) {
        struct batch_shape shape = *base;
        batch_shape_add(&s->f->model.plan, &shape, s->pos, n, 1);
        if (step_ns(s->f, s->machine, &shape) <= (double)s->bound_ns) return n;
    }
    return 0;
}

// A step with a chunk of the prompt; returns what the step takes on an undisturbed machine.
static double mixed_step(struct scene *s, int wanted, int *chunk, int *best) {
    struct batch_shape shape = streams_shape(s);
    *best = best_chunk(s, &shape, wanted);
    *chunk = price_chunk(&s->price, &s->f->model.plan, &shape, s->pos, wanted, s->bound_ns);
    check(*chunk >= 1 && *chunk <= wanted, "%s: chunk of %d, wanted %d", s->machine->name, *chunk,
          wanted);
    batch_shape_add(&s->f->model.plan, &shape, s->pos, *chunk, 1);
    learn(s, &shape);
    s->depth++;
    s->pos += *chunk;
    if (s->pos > 6000) s->pos = 0; // the next prompt
    return step_ns(s->f, s->machine, &shape);
}

static struct scene scene_of(void **state, const struct machine *machine, double bound_steps) {
    struct scene s = {.f = *state, .machine = machine, .depth = 100, .random = 1};
    price_init(&s.price, &s.f->rates);
    const struct batch_shape shape = streams_shape(&s);
    s.bound_ns = (uint64_t)(bound_steps * step_ns(s.f, machine, &shape));
    return s;
}

static const double bounds[] = {1.2, 1.5, 2, 4, 10};
enum { N_BOUNDS = sizeof bounds / sizeof *bounds };

CASE(chunks_grow_to_what_fits_and_steps_stay_within_the_bound) {
    for (int m = 0; m < N_MACHINES; m++) {
        for (int b = 0; b < N_BOUNDS; b++) {
            struct scene s = scene_of(state, &machines[m], bounds[b]);
            decode(&s, 4);
            const struct batch_shape streams = streams_shape(&s);
            const double small = 0.8 * step_ns(s.f, s.machine, &streams);
            const double part = 0.3 * (double)s.bound_ns;
            double reached = 0, possible = 0;
            int late = 0;
            for (int i = 0; i < 200; i++) {
                int chunk, best;
                const double ns = mixed_step(&s, MAX_CHUNK, &chunk, &best);
                if (chunk > PRICE_MIN_CHUNK)
                    check(ns <= (double)s.bound_ns + (small > part ? small : part),
                          "%s, bound %.1f: step %d of %d takes %.2f ms, bound %.2f ms",
                          s.machine->name, bounds[b], i, chunk, ns / MS, (double)s.bound_ns / MS);
                late += chunk > PRICE_MIN_CHUNK && ns > 1.1 * (double)s.bound_ns;
                if (i < 30 || best < PRICE_MIN_CHUNK) continue;
                reached += chunk;
                possible += best;
            }
            check(late <= 4, "%s, bound %.1f: %d of 200 steps are late", s.machine->name, bounds[b],
                  late);
            check(reached >= 0.77 * possible, "%s, bound %.1f: %.0f tokens, %.0f would fit",
                  s.machine->name, bounds[b], reached, possible);
        }
    }
}

static double between(uint32_t *state, double low, double high) {
    return low * pow(high / low, uniform(state));
}

// Machines at random: products between bound by memory and by arithmetic, attention's FLOPs from
// twice as fast as those of products to twenty times as slow. Limits are for all steps together: on
// some machine there is a prompt that is misjudged.
CASE(steps_of_machines_never_seen_are_rarely_late) {
    enum { MACHINES = 40, STEPS = 150 };
    const double row_flops = 2.5e9, weight_bytes = 0.7e9; // of the fixture's model, about
    uint32_t random = 5;
    int late = 0, steps = 0;
    for (int m = 0; m < MACHINES; m++) {
        struct machine machine = {.name = "random", .weights_ms = between(&random, 0.3, 100)};
        machine.row_ms = machine.weights_ms * between(&random, 0.002, 0.5);
        machine.ns_per_byte = machine.weights_ms * MS / weight_bytes * between(&random, 0.5, 3);
        machine.ns_per_flop = machine.row_ms * MS / row_flops * between(&random, 0.5, 20);
        struct scene s = scene_of(state, &machine, bounds[m % N_BOUNDS]);
        decode(&s, 4);
        for (int i = 0; i < STEPS; i++) {
            int chunk, best;
            const double over = mixed_step(&s, 512, &chunk, &best) / (double)s.bound_ns;
            if (chunk <= PRICE_MIN_CHUNK) continue;
            check(over < 1.7, "machine %d, step %d: %.2f times the bound", m, i, over);
            late += over > 1.1;
            steps++;
        }
    }
    check(steps > MACHINES * STEPS / 4 && late < steps / 90, "%d of %d steps are late", late,
          steps);
}

CASE(outliers_and_noise_do_not_ruin_it) {
    for (int m = 0; m < N_MACHINES; m++) {
        struct scene s = scene_of(state, &machines[m], 3);
        s.noise = 0.1;
        s.outliers = 15;
        decode(&s, 20);
        double reached = 0, possible = 0;
        int late = 0;
        for (int i = 0; i < 600; i++) {
            int chunk, best;
            const double ns = mixed_step(&s, MAX_CHUNK, &chunk, &best);
            late += chunk > PRICE_MIN_CHUNK && ns > 1.15 * (double)s.bound_ns;
            if (i < 50 || best < PRICE_MIN_CHUNK) continue;
            reached += chunk;
            possible += best;
        }
        check(late <= 3, "%s: %d of 600 steps are late", s.machine->name, late);
        check(reached >= 0.78 * possible, "%s: %.0f tokens, %.0f would fit", s.machine->name,
              reached, possible);
    }
}

CASE(a_first_step_that_took_ten_times_as_long_is_forgotten) {
    struct scene s = scene_of(state, &machines[0], 3);
    const struct batch_shape shape = streams_shape(&s);
    price_learn(&s.price, &shape, (uint64_t)(10 * step_ns(s.f, s.machine, &shape)));
    decode(&s, 5);
    const double expected = step_ns(s.f, s.machine, &shape);
    const double predicted = (double)price_of(&s.price, &shape);
    check(fabs(predicted / expected - 1) < 0.03, "%.1f ms instead of %.1f", predicted / MS,
          expected / MS);
}

CASE(a_machine_that_becomes_slower_is_noticed) {
    struct scene s = scene_of(state, &machines[0], 4);
    struct machine slow = machines[0];
    slow.weights_ms *= 2;
    slow.row_ms *= 2;
    slow.ns_per_byte *= 2;
    slow.ns_per_flop *= 2;
    decode(&s, 4);
    int chunk, best;
    for (int i = 0; i < 100; i++) mixed_step(&s, 256, &chunk, &best);
    s.machine = &slow;
    for (int i = 0; i < 12; i++) mixed_step(&s, 256, &chunk, &best);
    for (int i = 0; i < 50; i++) {
        const double ns = mixed_step(&s, 256, &chunk, &best);
        check(ns <= 1.08 * (double)s.bound_ns, "step %d takes %.1f ms, bound %.1f ms", i, ns / MS,
              (double)s.bound_ns / MS);
    }
    s.machine = &machines[0]; // and faster again
    for (int i = 0; i < 40; i++) mixed_step(&s, 256, &chunk, &best);
    check(chunk > 0.95 * best, "chunk of %d, %d would fit", chunk, best);
}

CASE(what_is_predicted_is_what_comes) {
    for (int m = 0; m < N_MACHINES; m++) {
        struct scene s = scene_of(state, &machines[m], 4);
        decode(&s, 10);
        int chunk, best;
        for (int i = 0; i < 60; i++) mixed_step(&s, 256, &chunk, &best);
        decode(&s, 10);
        for (int i = 0; i < 40; i++) {
            struct batch_shape shape = streams_shape(&s);
            const int n = price_chunk(&s.price, &s.f->model.plan, &shape, s.pos, 256, s.bound_ns);
            batch_shape_add(&s.f->model.plan, &shape, s.pos, n, 1);
            const double ns = step_ns(s.f, s.machine, &shape);
            const double predicted = (double)price_of(&s.price, &shape);
            check(predicted > 0.72 * ns && predicted < 1.34 * ns,
                  "%s: %.2f ms predicted at position %d, %.2f ms came", s.machine->name,
                  predicted / MS, s.pos, ns / MS);
            mixed_step(&s, 256, &chunk, &best);
        }
    }
}

CASE(with_nothing_measured_prompts_progress_by_the_minimum) {
    struct scene s = scene_of(state, &machines[0], 4);
    const struct plan *plan = &s.f->model.plan;
    const struct batch_shape base = streams_shape(&s), none = {0};
    assert_int_equal(price_of(&s.price, &base), 0);
    assert_int_equal(price_chunk(&s.price, plan, &base, 0, 100, s.bound_ns), PRICE_MIN_CHUNK);
    assert_int_equal(price_chunk(&s.price, plan, &base, 0, 3, s.bound_ns), 3);
    decode(&s, 10);
    assert_int_equal(price_of(&s.price, &none), 0);
    // a bound that even the streams alone exceed
    assert_int_equal(price_chunk(&s.price, plan, &base, 0, 100, 1), PRICE_MIN_CHUNK);
    assert_int_equal(price_chunk(&s.price, plan, &base, 0, 1, 1), 1);
    // and one that nothing reaches
    assert_int_equal(price_chunk(&s.price, plan, &base, 0, 100, UINT64_MAX), 100);
}

// A row of each number is priced as the shape would be that has it.
CASE(further_rows_have_the_price_of_the_larger_shape) {
    enum { MOST = 40 };
    for (int m = 0; m < N_MACHINES; m++) {
        struct scene s = scene_of(state, &machines[m], 4);
        double ns[MOST + 1];
        decode(&s, 50);
        const struct batch_shape base = streams_shape(&s);
        price_of_more(&s.price, &base, MOST, ns);
        for (int n = 0; n <= MOST; n++) {
            struct batch_shape shape = base;
            shape.n_tokens += n;
            shape.n_out += n;
            shape.n_logits += n;
            for (int g = 0; g < s.f->model.plan.n_group; g++)
                for (int rows = 0; rows < 2; rows++)
                    shape.kv_pairs[g][rows] += shape.kv_pairs[g][rows] * n / base.n_tokens;
            const double expected = price_of_exact(&s.price, &shape);
            check(fabs(ns[n] / expected - 1) < 1e-4, "%s, %d rows: %g of %g", machines[m].name, n,
                  ns[n], expected);
        }
    }
}

// One between the streams alone and the streams with the minimum.
CASE(a_bound_that_few_tokens_fit_is_kept) {
    struct scene s = scene_of(state, &machines[0], 4);
    const struct plan *plan = &s.f->model.plan;
    decode(&s, 10);
    const struct batch_shape base = streams_shape(&s);
    struct batch_shape three = base, more = base;
    batch_shape_add(plan, &three, 0, 3, 1);
    batch_shape_add(plan, &more, 0, PRICE_MIN_CHUNK, 1);
    const uint64_t bound = price_of(&s.price, &three);
    assert_true(bound < price_of(&s.price, &more) && bound > price_of(&s.price, &base));
    assert_in_range(price_chunk(&s.price, plan, &base, 0, 100, bound), 2, 3);
}

CASE(a_chunk_is_not_many_times_what_was_run_lately) {
    struct scene s = scene_of(state, &machines[0], 4);
    int chunk, best;
    decode(&s, 4);
    for (int i = 0; i < 10; i++) mixed_step(&s, 12, &chunk, &best);
    const struct batch_shape base = streams_shape(&s);
    const int next = price_chunk(&s.price, &s.f->model.plan, &base, 0, 1000, UINT64_MAX);
    check(next > chunk && next <= 3 * (STREAMS + 12), "%d after %d", next, chunk);
}

CASE(more_rows_and_more_depth_never_take_less) {
    for (int m = 0; m < N_MACHINES; m++) {
        struct scene s = scene_of(state, &machines[m], 4);
        s.noise = 1;
        s.outliers = 5;
        decode(&s, 10);
        int chunk, best;
        for (int i = 0; i < 100; i++)
            mixed_step(&s, 1 + (int)(uniform(&s.random) * 300), &chunk, &best);
        for (int pos = 0; pos < 4000; pos += 500) {
            uint64_t before = 0;
            for (int n = 1; n < 20000; n += 1 + n / 16) {
                struct batch_shape shape = {0};
                batch_shape_add(&s.f->model.plan, &shape, pos, n, 1);
                const uint64_t now = price_of(&s.price, &shape);
                check(now >= before, "%s: %d rows at %d: %.3f ms after %.3f ms", s.machine->name, n,
                      pos, (double)now / MS, (double)before / MS);
                before = now;
            }
        }
    }
}

// --- one step that was interrupted, and a machine whose speed changes ---

static double error_of(const struct scene *s, const struct batch_shape *shape, double speed) {
    return (double)price_of(&s->price, shape) / (step_ns(s->f, s->machine, shape) * speed) - 1;
}

CASE(an_interrupted_step_does_not_spoil_the_price) {
    for (int m = 0; m < N_MACHINES; m++) {
        struct scene s = scene_of(state, &machines[m], 4);
        decode(&s, 40);
        const struct batch_shape shape = streams_shape(&s);
        price_learn(&s.price, &shape, (uint64_t)(20 * step_ns(s.f, s.machine, &shape)));
        check(fabs(error_of(&s, &shape, 1)) < 0.002, "%s: off by %g", s.machine->name,
              error_of(&s, &shape, 1));
        decode(&s, 20);
        const struct batch_shape later = streams_shape(&s);
        check(fabs(error_of(&s, &later, 1)) < 0.002, "%s: off by %g after 20 steps",
              s.machine->name, error_of(&s, &later, 1));
    }
}

// The price of all shapes, even of a shape that has not run since.
CASE(a_change_of_speed_is_followed_in_everything) {
    static const double speeds[] = {1.3, 2, 0.7};
    for (int m = 0; m < N_MACHINES; m++)
        for (int i = 0; i < 3; i++) {
            struct scene s = scene_of(state, &machines[m], 4);
            s.noise = 0.02;
            int chunk, best;
            decode(&s, 20);
            for (int k = 0; k < 30; k++) mixed_step(&s, 64, &chunk, &best);
            decode(&s, 20);
            struct batch_shape other = streams_shape(&s);
            batch_shape_add(&s.f->model.plan, &other, s.pos, 64, 1);
            const double before = error_of(&s, &other, 1);
            for (int k = 0; k < 40; k++, s.depth++) {
                const struct batch_shape shape = streams_shape(&s);
                price_learn(&s.price, &shape,
                            (uint64_t)(speeds[i] * step_ns(s.f, s.machine, &shape)));
            }
            const struct batch_shape shape = streams_shape(&s);
            check(fabs(error_of(&s, &shape, speeds[i])) < 0.002, "%s, speed %g: off by %g",
                  s.machine->name, speeds[i], error_of(&s, &shape, speeds[i]));
            check(fabs(error_of(&s, &other, speeds[i]) - before) < 0.08,
                  "%s, speed %g: another shape is off by %g after %g", s.machine->name, speeds[i],
                  error_of(&s, &other, speeds[i]), before);
        }
}

// The speed goes to and fro while a prompt is rare. Its price stays near what it took.
CASE(a_speed_that_comes_and_goes_does_not_drive_prices_apart) {
    static const struct {
        double slow;
        int period;
    } phases[] = {{2, 4}, {3, 10}, {2, 7}, {1.4, 4}, {2, 20}, {5, 6}};
    for (int m = 0; m < N_MACHINES; m++)
        for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
            struct scene s = scene_of(state, &machines[m], 4);
            s.price.never_doubts = true;
            struct batch_shape prompt = {0};
            batch_shape_add(&s.f->model.plan, &prompt, 0, 200, 1);
            for (int step = 0; step < 41 * 300; step++) {
                struct batch_shape one = {0};
                batch_shape_add(&s.f->model.plan, &one, s.depth, 1, 1);
                const struct batch_shape *shape = step % 41 ? &one : &prompt;
                const double speed = step / phases[i].period % 2 ? phases[i].slow : 1;
                const double noise = 1 + 0.1 * uniform(&s.random);
                price_learn_all(&s.price, shape,
                                (uint64_t)(speed * noise * step_ns(s.f, s.machine, shape)));
            }
            const double price = price_of_exact(&s.price, &prompt);
            const double least = step_ns(s.f, s.machine, &prompt);
            check(price > least / 8 && price < 8 * phases[i].slow * least,
                  "%s, %g times slower for %d steps: %g of %g ns", s.machine->name, phases[i].slow,
                  phases[i].period, price, least);
        }
}

// --- calibration ---

struct bench {
    struct scene scene;
    int n_runs, most, fails_at; // fails_at 0: none does
    uint64_t spent_ns;
    int room; // rows
};

static rn_status bench_run(void *ctx, int n, struct batch_shape *shape, uint64_t *ns,
                           rn_error *err) {
    (void)err;
    struct bench *b = ctx;
    *shape = (struct batch_shape){0};
    *ns = 0;
    if (++b->n_runs == b->fails_at) return RN_ERR_DEVICE;
    if (n > b->most) b->most = n;
    batch_shape_add(&b->scene.f->model.plan, shape, 0, n, n);
    if (n > b->room) return RN_OK;
    const double noise = b->n_runs % 3 == 0 ? 4 : 1; // every third run is interrupted
    *ns = (uint64_t)(noise * step_ns(b->scene.f, b->scene.machine, shape));
    b->spent_ns += *ns;
    return RN_OK;
}

CASE(calibration_finds_the_machine_within_its_budget) {
    for (int m = 0; m < N_MACHINES; m++) {
        struct bench b = {.scene = scene_of(state, &machines[m], 4), .room = 1000};
        assert_int_equal(price_calibrate(&b.scene.price, bench_run, &b, 33, UINT64_MAX, NULL),
                         RN_OK);
        assert_true(b.most <= 33);
        for (int n = 1; n <= 33; n++) {
            struct batch_shape shape = {0};
            batch_shape_add(&b.scene.f->model.plan, &shape, 0, n, n);
            check(fabs(error_of(&b.scene, &shape, 1)) < 0.05, "%s, %d rows: off by %g",
                  machines[m].name, n, error_of(&b.scene, &shape, 1));
        }
    }
    struct bench slow = {.scene = scene_of(state, &machines[0], 4), .room = 1000};
    assert_int_equal(price_calibrate(&slow.scene.price, bench_run, &slow, 33, 1, NULL), RN_OK);
    assert_int_equal(slow.n_runs, 1); // a large model is measured once, whatever it takes
    assert_int_equal(slow.most, 4);
    struct batch_shape shape = {0};
    batch_shape_add(&slow.scene.f->model.plan, &shape, 0, 4, 4);
    check(fabs(error_of(&slow.scene, &shape, 1)) < 0.05, "off by %g",
          error_of(&slow.scene, &shape, 1));
    struct bench few = {.scene = scene_of(state, &machines[0], 4), .room = 1000};
    const uint64_t budget = slow.spent_ns * 3 / 2; // ends after the second run of 4 rows
    assert_int_equal(price_calibrate(&few.scene.price, bench_run, &few, 33, budget, NULL), RN_OK);
    assert_int_equal(few.n_runs, 2);
    assert_int_equal(few.scene.price.n_point, 1);
    struct bench one = {.scene = scene_of(state, &machines[0], 4), .room = 1000};
    assert_int_equal(price_calibrate(&one.scene.price, bench_run, &one, 1, 1, NULL), RN_OK);
    assert_int_equal(one.most, 1);
    assert_true(one.scene.price.n_point > 0);
}

// A calibrated price holds while it is recent. It falls when it is old, so that its shape is tried
// again, unless fewer rows cost as much.
CASE(a_calibrated_price_stays_until_it_is_old) {
    for (int m = 0; m < N_MACHINES; m++) {
        struct bench b = {.scene = scene_of(state, &machines[m], 4), .room = 1000};
        struct scene *s = &b.scene;
        s->depth = 0;
        assert_int_equal(price_calibrate(&s->price, bench_run, &b, 33, UINT64_MAX, NULL), RN_OK);
        struct batch_shape more = {0};
        batch_shape_add(&s->f->model.plan, &more, 0, 3 * STREAMS, 3 * STREAMS);
        const double before = error_of(s, &more, 1);
        struct bench kept = b; // that never doubts
        kept.scene.price.never_doubts = true;
        for (int i = 0; i < 6000; i++, kept.scene.depth = 0) decode(&kept.scene, 1);
        check(fabs(error_of(&kept.scene, &more, 1) - before) < 0.02, "%s: off by %g after %g",
              s->machine->name, error_of(&kept.scene, &more, 1), before);
        for (int i = 0; i < 2000; i++, s->depth = 0) decode(s, 1);
        check(fabs(error_of(s, &more, 1) - before) < 0.02, "%s: off by %g after %g",
              s->machine->name, error_of(s, &more, 1), before);
        const struct batch_shape shape = streams_shape(s);
        const double gap = step_ns(s->f, s->machine, &more) / step_ns(s->f, s->machine, &shape);
        for (int i = 0; i < 4000; i++, s->depth = 0) decode(s, 1);
        check(gap < 1.1 || error_of(s, &more, 1) < before - 0.05, "%s: off by %g, never falls",
              s->machine->name, error_of(s, &more, 1));
    }
}

CASE(calibration_reports_a_failure_and_does_without_room) {
    for (int fails_at = 1; fails_at < 6; fails_at++) {
        struct bench b = {.scene = scene_of(state, &machines[0], 4),
                          .room = 1000,
                          .fails_at = fails_at};
        assert_int_equal(price_calibrate(&b.scene.price, bench_run, &b, 33, UINT64_MAX, NULL),
                         RN_ERR_DEVICE);
        assert_int_equal(b.n_runs, fails_at);
    }
    struct bench b = {.scene = scene_of(state, &machines[0], 4), .room = 0};
    assert_int_equal(price_calibrate(&b.scene.price, bench_run, &b, 33, UINT64_MAX, NULL), RN_OK);
    assert_int_equal(b.scene.price.n_point, 0);
}

CASE(a_sequences_share_is_its_part_of_the_weights_and_its_own_kv) {
    struct fixture *f = *state;
    struct batch_shape step = {0}, first = {0};
    const struct batch_seq seq[2] = {{.n_tokens = 1, .first_pos = 70, .n_out = 1},
                                     {.n_tokens = 40, .first_pos = 5, .n_out = 1}};
    for (int i = 0; i < 2; i++)
        batch_shape_add(&f->model.plan, &step, seq[i].first_pos, seq[i].n_tokens, 1);
    batch_shape_add(&f->model.plan, &first, 70, 1, 1);
    const struct cost cost = ledger_step(&f->rates, &step, 0);
    const uint64_t kv = plan_cost(&f->model.plan, &f->kv, &first).kv_read_bytes;
    const uint64_t a = ledger_share(&f->rates, &f->model.plan, &seq[0], 2, &cost);
    const uint64_t b = ledger_share(&f->rates, &f->model.plan, &seq[1], 2, &cost);
    assert_int_equal(a, cost.weight_bytes / 2 + kv);
    assert_int_equal(a + b, cost.weight_bytes / 2 * 2 + cost.kv_read_bytes);
}

TEST_PROGRAM(price) { return cases_run(setup, teardown); }
