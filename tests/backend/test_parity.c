// Op parity by (backend class, op, shape): random plans around each op of plan/ops.def run through
// the class interface and are compared with a reference, row by row. The definition of the numerics
// is the CPU's scalar variant. A backend joins by a line in the table.
// label: threads
#include <math.h>

#include "backend/backend.h"
#ifndef TABLE_LINES
#include "fake/fake_backend.h"
#endif
#include "parity_feed.h"
#include "whole_pool.h"

// Cases of an op. Each format and each KV type is met; attention costs the reference much time.
static int n_cases(enum op_kind kind) {
    if (TEST_FOR_RACES) return 1;
    if (kind == OP_KV_APPEND || kind == OP_ATTENTION) return test_scale(8, 16, 16);
    return test_scale(1, 2, kind == OP_EXPERTS ? 2 : 4) * FORMAT_COUNT;
}

// ---------------------------------------------------------------- the table

struct way {
    const char *name;                          // of the class
    const struct backend_class *cls;           // instead of a name; NULL: by the name
    const struct backend_class *(*find)(void); // the same as a function
    const char *variant;                       // NULL: the best
    int n_threads;                             // of the host
};

struct parity {
    struct way way, reference;
    double tolerance; // of the largest number in a row of the reference; 0: every bit
    bool has_gaps;    // it may refuse plans as unsupported
    unsigned without; // ops that are not compared: bits by enum op_kind
};

#define SCALAR                                                                                     \
    { .name = "cpu", .variant = "scalar", .n_threads = 1 }

static const struct parity table[] = {
#ifdef TABLE_LINES // of another file that includes this one
    TABLE_LINES
#else
#ifndef TEST_EMULATED
    {.way = {.name = "cpu", .variant = "scalar", .n_threads = 3}, .reference = SCALAR},
#endif
    {.way = {.name = "cpu", .variant = "avx2", .n_threads = 3}, .reference = SCALAR},
    {.way = {.name = "cpu", .variant = "avxvnni", .n_threads = 2}, .reference = SCALAR},
    {.way = {.name = "cpu", .variant = "avx512bw", .n_threads = 3}, .reference = SCALAR},
    {.way = {.name = "cpu", .variant = "avx512", .n_threads = 1}, .reference = SCALAR},
    {.way = {.name = "cpu", .variant = "amx", .n_threads = 2}, .reference = SCALAR},
    {.way = {.name = "cpu", .variant = "neon", .n_threads = 2}, .reference = SCALAR},
#ifndef TEST_EMULATED
    {.way = {.cls = &backend_fake, .n_threads = 2},
     .reference = SCALAR,
     .without = 1u << OP_INPUT}, // it runs no draft blocks
#endif
#endif
};
enum { N_TABLE = sizeof table / sizeof *table };

// ---------------------------------------------------------------- running a case

// A way that is here, with its threads.
struct runner {
    const struct backend_class *cls;
    struct backend_device device;
    const char *variant;
    struct pool *pool;
};

static rn_status runner_init(struct runner *r, const struct way *way) {
    *r = (struct runner){.cls = way->find ? way->find() : way->cls, .variant = way->variant};
    const rn_status status = r->cls ? r->cls->device(0, &r->device, NULL)
                                    : backend_find(way->name, 0, &r->cls, &r->device, NULL);
    return status ? status : whole_pool_create(way->n_threads, &r->pool, NULL);
}

// Rows of results, one after the other.
struct rows {
    float *data;
    size_t n_float, cap_float;
    int *width;
    int n_row, cap_row;
};

static void rows_free(struct rows *rows) {
    free(rows->data);
    free(rows->width);
    *rows = (struct rows){.n_row = 0};
}

static void rows_add(struct rows *rows, const float *row, int width) {
    if (rows->n_float + (size_t)width > rows->cap_float) {
        rows->cap_float = 2 * (rows->cap_float + (size_t)width);
        rows->data = realloc(rows->data, rows->cap_float * sizeof *rows->data);
        assert_non_null(rows->data);
    }
    if (rows->n_row == rows->cap_row) {
        rows->cap_row = 2 * rows->cap_row + 64;
        rows->width = realloc(rows->width, (size_t)rows->cap_row * sizeof *rows->width);
        assert_non_null(rows->width);
    }
    memcpy(rows->data + rows->n_float, row, (size_t)width * sizeof *row);
    rows->n_float += (size_t)width;
    rows->width[rows->n_row++] = width;
}

struct flight {
    int n_out, n_logits;
};

// The result of the oldest step: logits of the first out rows, hidden rows from there on.
static void collect(const struct parity_case *c, struct backend *backend,
                    const struct flight *flight, struct rows *out) {
    struct step_result result;
    rn_error err = {0};
    check(backend->cls->wait(backend, &result, &err) == RN_OK, "%s", err.message);
    for (int i = 0; i < flight->n_logits; i++) rows_add(out, result.logits[i], c->plan.n_vocab);
    for (int i = flight->n_logits; i < flight->n_out; i++)
        rows_add(out, result.hidden[i], c->plan.buffer[c->plan.hidden].width);
}

// All batches, as many in flight as the device takes; those of a draft block are alone.
static void feed_all(const struct runner *r, const struct parity_case *c, struct backend *backend,
                     struct rows *out) {
    static struct parity_feed feed;
    struct flight flight[BACKEND_MAX_DEPTH];
    int n_submitted = 0, n_waited = 0;
    check(r->device.depth >= 1 && r->device.depth <= BACKEND_MAX_DEPTH, "%d", r->device.depth);
    for (feed_init(&feed, c); feed_next(&feed);) {
        rn_error err = {0};
        if (n_submitted - n_waited == (feed.batch.is_draft ? 1 : r->device.depth)) {
            collect(c, backend, &flight[n_waited % BACKEND_MAX_DEPTH], out);
            n_waited++;
        }
        flight[n_submitted % BACKEND_MAX_DEPTH] =
            (struct flight){feed.batch.n_out, feed.batch.n_logits};
        check(r->cls->submit(backend, &feed.batch, &err) == RN_OK, "%s", err.message);
        n_submitted++;
        feed_spoil(&feed);
        for (int i = 0; r->cls->page_release && i < feed.n_gone; i++)
            r->cls->page_release(backend, feed.gone[i].group, feed.gone[i].page);
    }
    for (; n_waited < n_submitted; n_waited++)
        collect(c, backend, &flight[n_waited % BACKEND_MAX_DEPTH], out);
}

// kv_type: a class that lacks it takes its widest, f32.
static rn_status run_case(const struct runner *r, const struct parity_case *c, const char *kv_type,
                          struct rows *out) {
    struct backend_config config = {.variant = r->variant,
                                    .sizes = {PARITY_ROWS, PARITY_ROWS, PARITY_SEQS,
                                              c->index % 2 == 1},
                                    .n_pages = {PARITY_ALL_PAGES, PARITY_ALL_PAGES,
                                                PARITY_ALL_PAGES, PARITY_ALL_PAGES},
                                    .pool = r->pool};
    struct backend_need need;
    struct backend *backend;
    rn_error err = {0};
    rows_free(out);
    if (backend_kv_type(r->cls, kv_type, &config.kv_type, NULL)) config.kv_type = "f32";
    rn_status status = r->cls->need(&c->plan, &config.sizes, config.kv_type, &need, &err);
    if (!status) status = r->cls->create(&c->plan, &config, &backend, &err);
    if (status == RN_ERR_UNSUPPORTED) return status;
    check(status == RN_OK, "%s %d (%s): %s", op_name(c->kind), c->index, c->shape, err.message);
    for (int g = 0; g < c->plan.n_group; g++) assert_true(need.kv.page[g] > 0);
    feed_all(r, c, backend, out);
    backend_destroy(backend);
    return RN_OK;
}

// ---------------------------------------------------------------- comparing

// The first element that differs by more than the tolerance; -1: none does.
static int differs_at(const float *got, const float *want, int width, double tolerance) {
    double most = 0;
    if (tolerance == 0 && memcmp(got, want, (size_t)width * sizeof *got) == 0) return -1;
    for (int i = 0; i < width; i++)
        if (isfinite(want[i])) most = fmax(most, fabs((double)want[i]));
    for (int i = 0; i < width; i++) {
        if (tolerance == 0 ? memcmp(&got[i], &want[i], sizeof *got) != 0
                           : !(fabs((double)got[i] - (double)want[i]) <= tolerance * most) &&
                                 !(isnan(got[i]) && isnan(want[i])))
            return i;
    }
    return -1;
}

static void compare(const struct parity *p, const struct parity_case *c, const char *kv_type,
                    const struct rows *got, const struct rows *want) {
    check(got->n_row == want->n_row && got->n_float == want->n_float, "%d rows, not %d", got->n_row,
          want->n_row);
    size_t at = 0;
    for (int r = 0; r < got->n_row; at += (size_t)got->width[r++]) {
        assert_int_equal(got->width[r], want->width[r]);
        const int i = differs_at(got->data + at, want->data + at, got->width[r], p->tolerance);
        check(i < 0, "%s %s, %d threads: %s %d (%s), KV %s: row %d, element %d of %d is %g, not %g",
              p->way.name  ? p->way.name
              : p->way.cls ? p->way.cls->name
                           : "found",
              p->way.variant ? p->way.variant : "best", p->way.n_threads, op_name(c->kind),
              c->index, c->shape, kv_type, r, i, got->width[r], (double)got->data[at + (size_t)i],
              (double)want->data[at + (size_t)i]);
    }
}

// ---------------------------------------------------------------- an op

// The references' rows for the case at hand, which lines of the table share.
struct wanted {
    const struct way *reference;
    const char *kv_type;
    struct rows rows;
};

enum { MAX_WANTED = 16 };

struct check {
    struct runner way[N_TABLE], reference[N_TABLE];
    bool is_here[N_TABLE];
    int n_run[N_TABLE], n_refused[N_TABLE];
    struct wanted wanted[MAX_WANTED];
    int n_wanted;
};

// Whether the machine has the way: its device and its variant.
static bool runner_is_here(struct runner *r, const struct way *way) {
    struct parity_case *c = parity_case_create(OP_GATHER, 0);
    struct rows rows = {.n_row = 0};
    rn_status status = runner_init(r, way);
    if (!status) status = run_case(r, c, r->cls->kv_default, &rows);
    check(status == RN_OK || status == RN_ERR_UNSUPPORTED, "status %d", (int)status);
    if (status && r->pool) pool_destroy(r->pool);
    rows_free(&rows);
    parity_case_destroy(c);
    return status == RN_OK;
}

static bool same_way(const struct way *a, const struct way *b) {
    return a->name == b->name && a->cls == b->cls && a->find == b->find &&
           a->variant == b->variant && a->n_threads == b->n_threads;
}

static const struct rows *reference_rows(struct check *k, int t, const struct parity_case *c,
                                         const char *kv_type) {
    for (int i = 0; i < k->n_wanted; i++)
        if (same_way(k->wanted[i].reference, &table[t].reference) &&
            strcmp(k->wanted[i].kv_type, kv_type) == 0)
            return &k->wanted[i].rows;
    assert_true(k->n_wanted < MAX_WANTED);
    struct wanted *wanted = &k->wanted[k->n_wanted++];
    wanted->reference = &table[t].reference;
    wanted->kv_type = kv_type;
    assert_int_equal(run_case(&k->reference[t], c, kv_type, &wanted->rows), RN_OK);
    return &wanted->rows;
}

// Cases with keys and values take the KV types of the class in turn.
static void check_case(struct check *k, int t, const struct parity_case *c) {
    const struct backend_class *cls = k->way[t].cls;
    const char *type = cls->kv_default;
    struct rows got = {.n_row = 0};
    int n_types = 0;
    while (cls->kv_types[n_types]) n_types++;
    if (c->plan.n_group > 0) type = cls->kv_types[c->index % n_types];
    if (run_case(&k->way[t], c, type, &got) == RN_ERR_UNSUPPORTED) {
        k->n_refused[t]++;
    } else {
        k->n_run[t]++;
        compare(&table[t], c, type, &got, reference_rows(k, t, c, type));
    }
    rows_free(&got);
}

static void check_cases(struct check *k, enum op_kind kind) {
    for (int index = 0; index < n_cases(kind); index++) {
        struct parity_case *c = parity_case_create(kind, index);
        for (int t = 0; t < N_TABLE; t++)
            if (k->is_here[t] && !(table[t].without >> kind & 1)) check_case(k, t, c);
        for (int i = 0; i < k->n_wanted; i++) rows_free(&k->wanted[i].rows);
        k->n_wanted = 0;
        parity_case_destroy(c);
    }
}

static void check_op(enum op_kind kind) {
    struct check k = {.n_wanted = 0};
    for (int t = 0; t < N_TABLE; t++) {
        k.is_here[t] = runner_is_here(&k.way[t], &table[t].way);
        if (k.is_here[t])
            check(runner_is_here(&k.reference[t], &table[t].reference), "no reference is here");
    }
    check_cases(&k, kind);
    for (int t = 0; t < N_TABLE; t++) {
        if (!k.is_here[t]) continue;
        check(table[t].has_gaps || table[t].without >> kind & 1 ||
                  (k.n_run[t] == n_cases(kind) && k.n_refused[t] == 0),
              "line %d: %d plans were run, %d refused", t, k.n_run[t], k.n_refused[t]);
        pool_destroy(k.way[t].pool);
        pool_destroy(k.reference[t].pool);
    }
}

#define OP(name, text, class)                                                                      \
    static void the_rows_of_##name##_are_those_of_the_reference(void **state) {                    \
        check_op(OP_##name);                                                                       \
    }
#include "plan/ops.def"
#undef OP

// ---------------------------------------------------------------- the test itself

// Features that some case of an op has.
struct seen {
    bool format[FORMAT_COUNT], rows[3], gate[GATE_COUNT + 1], norm[NORM_COUNT], style[2], window[4];
    bool bias, no_bias, add, set, in_place, cap, sinks, bare, grouped, uneven, part, positions;
    bool scaled, factor, latent;
};

static void op_see(const struct plan *plan, const struct op *op, struct seen *s) {
    const struct plan_kv_group *group =
        op->kind == OP_ATTENTION ? &plan->group[op->kv.group] : NULL;
    s->rows[op->rows] = true;
    *(op->bias == PLAN_NONE ? &s->no_bias : &s->bias) = true;
    s->in_place |= op->in[0] == op->out;
    if (op->kind == OP_EMBED || op_is_product(op->kind))
        s->format[plan->weight[op->weight].format] = true;
    switch (op->kind) {
    case OP_EMBED:
        *(op->embed.add ? &s->add : &s->set) = true;
        s->positions |= op->embed.positions;
        break;
    case OP_NORM:
        *(op->norm.add ? &s->add : &s->set) = s->norm[op->norm.kind] = true;
        s->part |= op->norm.group < plan->buffer[op->out].width;
        s->bare |= op->weight == PLAN_NONE;
        s->scaled |= op->norm.scale != 0;
        break;
    case OP_ROUTE:
        s->factor |= op->weight != PLAN_NONE;
        break;
    case OP_COMBINE:
        *(op->experts.set ? &s->set : &s->add) = true;
        break;
    case OP_MATMUL:
        *(op->matmul.add ? &s->add : &s->set) = true;
        break;
    case OP_ROPE:
        s->style[plan->rope[op->rope.rope].style] = true;
        s->part |= plan->rope[op->rope.rope].n_rot < op->rope.dim;
        break;
    case OP_ATTENTION:
        s->window[group->kind] = true;
        s->cap |= op->kv.softcap > 0;
        s->sinks |= op->weight != PLAN_NONE;
        s->grouped |= op->kv.n_head > group->n_head_kv;
        s->uneven |= group->dim_k != group->dim_v;
        s->latent |= group->is_latent && group->dim_v < group->dim_k;
        break;
    case OP_GATE:
        s->gate[op->gate] = true;
        break;
    default:
        break;
    }
}

static void cases_have_what_an_op_can_have(void **state) {
    if (TEST_FOR_RACES) skip();
    static struct seen seen[OP_COUNT];
    for (int kind = 0; kind < OP_COUNT; kind++) {
        for (int index = 0; index < n_cases((enum op_kind)kind); index++) {
            struct parity_case *c = parity_case_create((enum op_kind)kind, index);
            for (int i = 0; i < c->plan.n_op; i++)
                if (c->plan.op[i].kind == (enum op_kind)kind)
                    op_see(&c->plan, &c->plan.op[i], &seen[kind]);
            parity_case_destroy(c);
        }
    }
    for (int f = 0; f < FORMAT_COUNT; f++)
        check(seen[OP_EMBED].format[f] && seen[OP_MATMUL].format[f] && seen[OP_EXPERTS].format[f] &&
                  seen[OP_HEADS].format[f],
              "%s", format_at((enum format_id)f)->name);
    const struct seen *s = &seen[OP_EMBED];
    assert_true(s->add && s->set && s->positions);
    s = &seen[OP_NORM];
    assert_true(s->add && s->set && s->in_place && s->part && s->bare && s->scaled);
    assert_true(seen[OP_COMBINE].add && seen[OP_COMBINE].set && seen[OP_ROUTE].factor);
    for (int k = 0; k < NORM_COUNT; k++) assert_true(s->norm[k]);
    s = &seen[OP_MATMUL];
    assert_true(s->add && s->set && s->bias && s->no_bias && s->rows[0] && s->rows[1]);
    assert_true(s->rows[2] && seen[OP_SOFTCAP].rows[2] && seen[OP_GATHER].rows[1]);
    s = &seen[OP_ROPE];
    assert_true(s->style[0] && s->style[1] && s->part && s->rows[1]);
    s = &seen[OP_ATTENTION];
    assert_true(s->window[KV_FULL] && s->window[KV_WINDOW] && s->window[KV_CHUNK]);
    assert_true(s->cap && s->sinks && s->grouped && s->uneven);
    assert_true(s->latent && seen[OP_HEADS].rows[1]);
    assert_true(s->rows[0] && s->rows[1] && seen[OP_EXPERTS].rows[1] && seen[OP_EXPERTS].bias);
    for (int g = 0; g <= GATE_XIELU; g++) assert_true(seen[OP_GATE].gate[g]);
}

static void batches_have_every_size_and_sequences_at_several_depths(void **state) {
    if (TEST_FOR_RACES) skip();
    static struct parity_feed feed;
    bool size[PARITY_ROWS + 1] = {false}, copies = false, gone = false, shallow_and_deep = false;
    for (int index = 0; index < n_cases(OP_ATTENTION); index++) {
        struct parity_case *c = parity_case_create(OP_ATTENTION, index);
        for (feed_init(&feed, c); feed_next(&feed);) {
            const struct batch *batch = &feed.batch;
            int least = PARITY_PAGED, most = 0;
            size[batch->n_tokens] = true;
            gone |= feed.n_gone > 0;
            for (int i = 0; i < batch->n_pages; i++) copies |= batch->page[i].from != BATCH_ZERO;
            for (int i = 0; i < batch->n_tokens; i++) {
                if (batch->pos[i] < least) least = batch->pos[i];
                if (batch->pos[i] > most) most = batch->pos[i];
            }
            shallow_and_deep |= least < KV_PAGE_TOKENS && most > 256;
            assert_true(batch->n_logits <= batch->n_out && batch->n_out <= batch->n_tokens);
        }
        parity_case_destroy(c);
    }
    assert_true(size[1] && size[2] && size[3] && size[8] && size[17] && size[PARITY_ROWS]);
    assert_true(copies && gone && shallow_and_deep);
}

static void a_difference_is_seen_beyond_the_tolerance(void **state) {
    const float want[4] = {1, -100, 0, NAN}, zero[4] = {1, -100, -0.0f, NAN};
    const float near[4] = {1.05f, -100, 0, NAN}, odd[4] = {1, -100, 0, 1};
    assert_int_equal(differs_at(want, want, 4, 0), -1);
    assert_int_equal(differs_at(zero, want, 4, 0), 2);
    assert_int_equal(differs_at(zero, want, 4, 1e-6), -1);
    assert_int_equal(differs_at(near, want, 4, 0), 0);
    assert_int_equal(differs_at(near, want, 4, 1e-4), 0);
    assert_int_equal(differs_at(near, want, 4, 1e-3), -1);
    assert_int_equal(differs_at(odd, want, 4, 1e-3), 3);
}

TEST_PROGRAM(parity) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_difference_is_seen_beyond_the_tolerance),
        cmocka_unit_test(cases_have_what_an_op_can_have),
        cmocka_unit_test(batches_have_every_size_and_sequences_at_several_depths),
#define OP(name, text, class) cmocka_unit_test(the_rows_of_##name##_are_those_of_the_reference),
#include "plan/ops.def"
#undef OP
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
