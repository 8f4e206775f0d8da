// Packing at create: with any slices and threads the packed bytes are those of one pass over each
// matrix. Every byte of a matrix is fetched once, and a failed fetch leaves nothing behind.
// label: threads
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"
#include "backend/table.h"
#include "backend_here.h"
#include "parts.h"

enum {
    EMBD = 256,
    WIDE = 5003, // rows: not a multiple of a group, and several slices
    ODD = 17,
    EXPERTS = 5,
    FF = 40,
    VOCAB = 2001,
};

// The plan's weights point into `seen`, which cannot be read; the bytes are in `bytes`, at the same
// offsets, and come by fetch alone.
struct fixture {
    struct plan plan;
    uint8_t *seen, *bytes;
    uint64_t used, size;
    uint8_t *fetches; // [size] how often each byte was fetched; two threads at one byte are a race
    _Atomic int n_fetch;
    int fail_at;         // the fetch that fails; 0: none
    pthread_t failed_in; // its thread
    _Atomic bool failed, failed_again;
    int n_meet; // the first fetches that wait for each other
    uint64_t meet_at[8];
    bool in_place;
    uint64_t matmul_bytes;
    int table, head; // the weights that are not packed, and packed and looked up
    const void *expert[EXPERTS];
    uint64_t done, total; // of progress
    int n_progress;
};

static void *map(uint64_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED, "%llu", (unsigned long long)bytes);
    return memory;
}

static rn_status fetch(const void *ctx, const void *data, uint64_t bytes, void *buffer,
                       const void **at, rn_error *err) {
    struct fixture *f = (struct fixture *)(uintptr_t)ctx;
    const uint64_t offset = (uint64_t)((const uint8_t *)data - f->seen);
    if (offset >= f->used || bytes > f->used - offset) abort(); // other threads cannot fail a test
    *at = buffer;
    if (bytes == 0) return RN_OK; // it has to be fetched
    const int number = ++f->n_fetch;
    if (number <= f->n_meet) f->meet_at[number - 1] = offset;
    while (number <= f->n_meet && f->n_fetch < f->n_meet) sched_yield();
    if (f->failed && pthread_equal(f->failed_in, pthread_self())) f->failed_again = true;
    if (number == f->fail_at) {
        f->failed_in = pthread_self();
        f->failed = true;
        return err_set(err, RN_ERR_IO, "the disk is on fire at %d", f->fail_at);
    }
    for (uint64_t i = 0; i < bytes; i++) f->fetches[offset + i]++;
    *at = f->bytes + offset;
    if (f->in_place) return RN_OK;
    memcpy(buffer, *at, bytes);
    *at = buffer;
    return RN_OK;
}

static void on_progress(void *ctx, uint64_t done, uint64_t total) {
    struct fixture *f = ctx;
    check(done > f->done && done <= total, "%llu after %llu of %llu", (unsigned long long)done,
          (unsigned long long)f->done, (unsigned long long)total);
    f->done = done;
    f->total = total;
    f->n_progress++;
}

static int add_weight(struct fixture *f, enum format_id format, int64_t rows, int64_t cols,
                      int n_expert) {
    const int count = n_expert ? n_expert : 1;
    const uint64_t bytes = format_row_bytes(format, cols) * (uint64_t)rows;
    struct plan_weight weight = {.name = "w",
                                 .format = format,
                                 .rows = rows,
                                 .cols = cols,
                                 .data = n_expert ? NULL : f->seen + f->used,
                                 .bytes = bytes * (uint64_t)count,
                                 .n_expert = n_expert,
                                 .expert_data = n_expert ? f->expert : NULL};
    for (int e = 0; e < n_expert; e++) { // the last one first: a file's order is its own
        f->expert[e] = f->seen + f->used + bytes * (uint64_t)(n_expert - 1 - e);
    }
    f->used += weight.bytes;
    check(f->used <= f->size, "%llu", (unsigned long long)f->used);
    return plan_add_weight(&f->plan, &weight);
}

static void add_op(struct fixture *f, enum op_kind kind, int in0, int in1, int out, int weight) {
    struct op op = op_of(&f->plan, kind, in0, in1, out);
    op.weight = weight;
    if (kind == OP_ROUTE) op.route.n_used = 1;
    plan_add_op(&f->plan, &op);
}

// An embedding that is the head, too; a wide product, a narrow one, experts.
static void build(struct fixture *f, enum format_id format) {
    struct plan *p = &f->plan;
    plan_init(p);
    p->n_vocab = VOCAB;
    p->fetch = fetch;
    p->fetch_ctx = f;
    const int x = plan_add_buffer(p, "x", EMBD, ROWS_TOKENS);
    const int wide = plan_add_buffer(p, "wide", WIDE, ROWS_TOKENS);
    const int odd = plan_add_buffer(p, "odd", ODD, ROWS_TOKENS);
    const int router = plan_add_buffer(p, "router", EXPERTS, ROWS_TOKENS);
    const int route = plan_add_buffer(p, "route", 2, ROWS_TOKENS);
    const int gate = plan_add_slots(p, "gate", FF, ROWS_TOKENS, 1);
    const int last = plan_add_buffer(p, "last", EMBD, ROWS_OUT);
    p->logits = plan_add_buffer(p, "logits", VOCAB, ROWS_LOGITS);
    const int head = add_weight(f, format, VOCAB, EMBD, 0);
    const int table = add_weight(f, format, ODD, EMBD, 0); // looked up alone: not fetched at create
    p->weight[table].is_cold = true;
    const int w_wide = add_weight(f, format, WIDE, EMBD, 0);
    const int w_odd = add_weight(f, format, ODD, EMBD, 0);
    const int w_router = add_weight(f, format, EXPERTS, EMBD, 0);
    const int w_experts = add_weight(f, format, FF, EMBD, EXPERTS);
    add_op(f, OP_EMBED, PLAN_NONE, PLAN_NONE, x, head);
    add_op(f, OP_EMBED, PLAN_NONE, PLAN_NONE, x, table);
    add_op(f, OP_MATMUL, x, PLAN_NONE, wide, w_wide);
    add_op(f, OP_MATMUL, x, PLAN_NONE, odd, w_odd);
    add_op(f, OP_MATMUL, x, PLAN_NONE, odd, w_odd); // the same weight again
    add_op(f, OP_MATMUL, x, PLAN_NONE, router, w_router);
    add_op(f, OP_ROUTE, router, PLAN_NONE, route, PLAN_NONE);
    add_op(f, OP_EXPERTS, x, route, gate, w_experts);
    add_op(f, OP_GATHER, x, PLAN_NONE, last, PLAN_NONE);
    add_op(f, OP_MATMUL, last, PLAN_NONE, p->logits, head);
    check(plan_finish(p, NULL) == RN_OK, "plan");
    f->table = table;
    f->head = head;
    f->matmul_bytes = f->used - p->weight[table].bytes;
    memset(f->fetches + ((const uint8_t *)p->weight[table].data - f->seen), 1,
           p->weight[table].bytes);
}

static void fixture_init(struct fixture *f, enum format_id format) {
    *f = (struct fixture){.size = 16 << 20};
    f->bytes = map(f->size);
    f->seen = mmap(NULL, f->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(f->seen != MAP_FAILED, "seen");
    f->fetches = map(f->size);
    build(f, format);
    for (uint64_t i = 0; i < f->used; i++) f->bytes[i] = (uint8_t)rng();
}

static void fixture_deinit(struct fixture *f) {
    plan_deinit(&f->plan);
    munmap(f->bytes, f->size);
    munmap(f->seen, f->size);
    munmap(f->fetches, f->size);
}

static rn_status create(struct fixture *f, int threads, struct here *out, rn_error *err) {
    const struct backend_config config = {.sizes = {1, 1, 1},
                                          .progress = on_progress,
                                          .progress_ctx = f};
    return here_try(out, &f->plan, &config, threads, err);
}

// One pass over the whole matrix, from its true bytes.
static void check_matrix(const struct fixture *f, const struct plan_weight *weight,
                         const void *data, const struct matmul_kernel *kernel, const void *packed) {
    struct plan_weight whole = *weight;
    whole.data = f->bytes + ((const uint8_t *)data - f->seen);
    whole.n_expert = 0;
    const int64_t groups = cpu_groups(weight->rows);
    const size_t bytes = (size_t)(kernel->group_bytes(weight->cols) * groups);
    uint8_t *want = calloc(1, bytes);
    check(want, "%zu bytes", bytes);
    kernel->pack(&whole, 0, groups, want);
    check(memcmp(want, packed, bytes) == 0, "%s [%lld, %lld]", format_at(weight->format)->name,
          (long long)weight->rows, (long long)weight->cols);
    free(want);
}

static int check_packed(const struct fixture *f, const struct cpu_backend *b) {
    int n = 0;
    for (int i = 0; i < f->plan.n_weight; i++) {
        const struct plan_weight *weight = &f->plan.weight[i];
        const struct cpu_weight *own = &b->weight[i];
        if (!own->kernel) continue;
        for (int e = 0; e < weight->n_expert; e++, n++)
            check_matrix(f, weight, weight->expert_data[e], own->kernel, own->expert[e]);
        if (weight->n_expert) continue;
        check_matrix(f, weight, weight->data, own->kernel, own->packed);
        n++;
    }
    return n;
}

// The head's rows are there as the file has them, too: they are looked up.
static void check_rows(const struct fixture *f, const struct cpu_backend *b) {
    const struct plan_weight *weight = &f->plan.weight[f->head];
    const struct cpu_weight *own = &b->weight[f->head];
    check(own->rows && own->rows == b->rows.base && b->rows.bytes >= weight->bytes, "rows");
    check(memcmp(own->rows, f->bytes + ((const uint8_t *)weight->data - f->seen), weight->bytes) ==
              0,
          "%s", format_at(weight->format)->name);
}

static const enum format_id formats[] = {FORMAT_F32, FORMAT_F16, FORMAT_Q8_0, FORMAT_Q4_0,
                                         FORMAT_Q4_K};

static bool machine_packs(void) {
    const struct cpu_ops *ops;
    return ops_find(NULL, &ops, NULL) == RN_OK && matmul_kernel_find(FORMAT_Q8_0, ops->isa);
}

CASE(packed_bytes_are_those_of_one_pass_and_each_byte_is_fetched_once) {
    if (!machine_packs()) skip();
    for (size_t i = 0; i < sizeof formats / sizeof *formats * 4; i++) {
        if (TEST_FOR_RACES && (formats[i / 4] != FORMAT_Q4_0 || i % 2 == 0)) continue;
        struct fixture f;
        struct here here;
        rn_error err = {0};
        fixture_init(&f, formats[i / 4]);
        f.in_place = i / 2 % 2;
        check(create(&f, i % 2 ? 3 : 1, &here, &err) == RN_OK, "%s", err.message);
        const int n = check_packed(&f, (const struct cpu_backend *)here.backend);
        check(n == 4 + EXPERTS, "%d matrices", n);
        check_rows(&f, (const struct cpu_backend *)here.backend);
        for (uint64_t at = 0; at < f.used; at++)
            check(f.fetches[at] == 1, "byte %llu: fetched %d times", (unsigned long long)at,
                  f.fetches[at]);
        check(f.n_fetch > 40, "%d slices", f.n_fetch);
        here_destroy(&here);
        fixture_deinit(&f);
    }
}

// It stays in its file: no copy, no part of the packed bytes, and no memory that is set aside.
CASE(a_cold_table_takes_no_memory) {
    if (!machine_packs()) skip();
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct fixture f;
        struct here here;
        struct backend_need need;
        const struct backend_sizes sizes = {.max_tokens = 1, .max_logits = 1, .max_seqs = 1};
        fixture_init(&f, formats[i]);
        check(backend_cpu.need(&f.plan, &sizes, "f16", &need, NULL) == RN_OK, "need");
        const uint64_t want = f.matmul_bytes + f.plan.weight[f.head].bytes; // there twice
        check(need.weights == want, "%llu of %llu", (unsigned long long)need.weights,
              (unsigned long long)want);
        check(create(&f, 1, &here, NULL) == RN_OK, "create");
        const struct cpu_backend *b = (const struct cpu_backend *)here.backend;
        uint64_t packed = 0;
        for (int w = 0; w < f.plan.n_weight; w++) {
            const struct plan_weight *weight = &f.plan.weight[w];
            const struct cpu_weight *own = &b->weight[w];
            if (w == f.table) {
                check(!own->packed && !own->kernel && !own->vector && !own->rows, "weight %d", w);
                continue;
            }
            packed += (uint64_t)(own->kernel->group_bytes(weight->cols) * cpu_groups(weight->rows) *
                                 (weight->n_expert ? weight->n_expert : 1));
        }
        check(b->packed.bytes == packed, "%llu packed bytes, expected %llu",
              (unsigned long long)b->packed.bytes, (unsigned long long)packed);
        here_destroy(&here);
        fixture_deinit(&f);
    }
}

CASE(progress_grows_to_all_bytes) {
    if (!machine_packs()) skip();
    for (int threads = 1 + 3 * TEST_FOR_RACES; threads <= 4; threads++) {
        struct fixture f;
        struct here here;
        fixture_init(&f, FORMAT_Q8_0);
        check(create(&f, threads, &here, NULL) == RN_OK, "%d threads", threads);
        check(f.done == f.matmul_bytes && f.total == f.matmul_bytes, "%llu of %llu",
              (unsigned long long)f.done, (unsigned long long)f.total);
        check(f.n_progress <= 65 && (threads > 1 || f.n_progress > 30), "%d calls", f.n_progress);
        here_destroy(&here);
        fixture_deinit(&f);
    }
}

CASE(threads_read_the_file_side_by_side_from_its_beginning) {
    if (!machine_packs()) skip();
    struct fixture f;
    struct here here;
    fixture_init(&f, FORMAT_Q8_0);
    f.n_meet = 3;
    check(create(&f, f.n_meet, &here, NULL) == RN_OK, "create");
    for (int i = 0; i < f.n_meet; i++)
        check(f.meet_at[i] < f.used / 4, "fetch %d: at %llu of %llu", i,
              (unsigned long long)f.meet_at[i], (unsigned long long)f.used);
    here_destroy(&here);
    fixture_deinit(&f);
}

// KB of address space; 0 with a sanitizer, which maps as it likes.
static long mapped_kb(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0;
#else
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;
    check(file && fscanf(file, "%ld", &pages) == 1, "statm");
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
#endif
}

// A buffer that is left behind has some 60 KB.
CASE(a_fetch_that_fails_is_an_error_and_leaves_nothing) {
    if (!machine_packs()) skip();
    struct fixture f;
    fixture_init(&f, FORMAT_Q8_0);
    long before = 0;
    for (int try = 0; try < test_scale(12, 24, 24); try++) {
        struct here here;
        rn_error err = {0};
        char want[64];
        f.n_fetch = 0;
        f.failed = false;
        f.done = 0;
        f.fail_at = 1 + try * 2;
        check(create(&f, 1 + try % 3, &here, &err) == RN_ERR_IO, "%s", err.message);
        check(!here.backend, "a backend");
        snprintf(want, sizeof want, "the disk is on fire at %d", f.fail_at);
        check(strcmp(err.message, want) == 0, "%s", err.message);
        check(f.done < f.matmul_bytes, "%llu bytes done", (unsigned long long)f.done);
        check(!f.failed_again, "the thread whose fetch failed continued");
        check(try % 3 || f.n_fetch == f.fail_at, "%d fetches after the one that failed",
              f.n_fetch - f.fail_at);
        if (try == 7) before = mapped_kb(); // threads have left their stacks to the next ones
    }
    check(mapped_kb() < before + 300, "%ld KB are mapped, were %ld", mapped_kb(), before);
    fixture_deinit(&f);
}

TEST_PROGRAM(pack) { return cases_run(NULL, NULL); }
