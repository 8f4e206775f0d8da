// The division of memory, for made-up plans: figures are chosen so that they can be checked by
// hand.
#include "check.h"

#include <string.h>

#include "engine/pages/budget.h"

enum {
    WEIGHTS = 1000000,
    N_CTX = 1024,
    DIM = 16,
    VOCAB = 100,
    WINDOW = 64,
    // of a group of 2 layers with 1 head: keys and values of 32 tokens
    PAGE = 2 * 2 * DIM * 2 * KV_PAGE_TOKENS,
    CONTEXT = N_CTX / KV_PAGE_TOKENS * PAGE,
};

// Plain: weights of a million bytes, a buffer of 10 floats a token and the logits. Windowed: the
// same with a second group. Beside: a tenth of the weights, one layer, a buffer of 4 floats.
static struct plan plain, windowed, beside;

static void build(struct plan *plan, int width, uint64_t weight_bytes, int n_layer, int n_group) {
    plan_init(plan);
    plan->n_vocab = VOCAB;
    plan_add_buffer(plan, "x", width, ROWS_TOKENS);
    plan->logits = plan_add_buffer(plan, "logits", VOCAB, ROWS_LOGITS);
    const struct plan_weight weight = {.name = "w",
                                       .format = FORMAT_F32,
                                       .rows = (int64_t)weight_bytes / 4000,
                                       .cols = 1000,
                                       .bytes = weight_bytes};
    plan_add_weight(plan, &weight);
    struct plan_kv_group group = {
        .kind = KV_FULL, .n_layer = n_layer, .n_head_kv = 1, .dim_k = DIM, .dim_v = DIM};
    plan_add_kv_group(plan, &group);
    group.kind = KV_WINDOW;
    group.window = WINDOW;
    if (n_group > 1) plan_add_kv_group(plan, &group);
    assert_false(plan->failed);
}

static int build_plans(void **state) {
    (void)state;
    build(&plain, 10, WEIGHTS, 2, 1);
    build(&windowed, 10, WEIGHTS, 2, 2);
    build(&beside, 4, WEIGHTS / 10, 1, 1);
    return 0;
}

static int free_plans(void **state) {
    (void)state;
    plan_deinit(&plain);
    plan_deinit(&windowed);
    plan_deinit(&beside);
    return 0;
}

// Takes the plan's weights and buffers, and pages of the bytes that their type's name says.
static rn_status made_up_need(const struct plan *plan, const struct backend_sizes *sizes,
                              const char *kv_type, struct backend_need *out, rn_error *err) {
    (void)err;
    *out = (struct backend_need){.weights = 0};
    for (int i = 0; i < plan->n_weight; i++) out->weights += plan->weight[i].bytes;
    for (int i = 0; i < plan->n_buffer; i++)
        out->step +=
            (uint64_t)plan->buffer[i].width * sizeof(float) *
            (uint64_t)(plan->buffer[i].rows == ROWS_LOGITS ? sizes->max_logits : sizes->max_tokens);
    for (int g = 0; g < plan->n_group; g++)
        out->kv.page[g] = (uint64_t)plan->group[g].n_layer * 2 * DIM * KV_PAGE_TOKENS *
                          (uint64_t)(*kv_type - '0');
    return RN_OK;
}

static const struct backend_class made_up = {.name = "made up", .need = made_up_need};

static struct budget_request request_of(const struct plan *plan) {
    return (struct budget_request){
        .cls = &made_up, .plan = plan, .n_ctx_max = N_CTX, .kv_type = "2", .available = 1 << 30};
}

static struct budget_beside beside_it(void) {
    return (
        struct budget_beside){.plan = &beside, .n_ctx_max = N_CTX, .cls = &made_up, .kv_type = "2"};
}

// The result of a request that must succeed.
static struct budget chosen(const struct budget_request *request) {
    struct budget budget;
    rn_error err = {0};
    const rn_status status = budget_choose(request, &budget, &err);
    check(status == RN_OK, "%s", err.message);
    return budget;
}

// The request fails with the status, and the message has all the words.
static void refused(const struct budget_request *request, rn_status expected,
                    const char *const *words, int n_words) {
    struct budget budget;
    rn_error err = {0};
    const rn_status status = budget_choose(request, &budget, &err);
    check(status == expected, "status %d, '%s'", (int)status, err.message);
    for (int i = 0; i < n_words; i++)
        check(strstr(err.message, words[i]), "'%s' is not in '%s'", words[i], err.message);
}
#define refused_with(request, status, ...)                                                         \
    refused(request, status, (const char *const[]){__VA_ARGS__},                                   \
            (int)(sizeof(const char *const[]){__VA_ARGS__} / sizeof(const char *)))

CASE(defaults_are_filled_in_and_parts_counted) {
    struct budget_request request = request_of(&plain);
    struct budget budget = chosen(&request);
    assert_int_equal(budget.weight_bytes, WEIGHTS);
    assert_int_equal(budget.step_bytes, (256 * 10 + 1 * VOCAB) * 4);
    assert_int_equal(budget.page_bytes, PAGE);
    assert_int_equal(budget.sizes.n_ctx, N_CTX);
    assert_int_equal(budget.sizes.max_seqs, 1);
    assert_int_equal(budget.sizes.batch_tokens, 256);
    assert_int_equal(budget.sizes.logit_rows, 1);
    assert_int_equal(budget.context_bytes, CONTEXT);
    request.wanted = (struct budget_sizes){.max_seqs = 300, .logit_rows = -1};
    budget = chosen(&request);
    assert_int_equal(budget.sizes.batch_tokens, 300);
    assert_int_equal(budget.sizes.logit_rows, 300);
    assert_int_equal(budget.step_bytes, (300 * 10 + 300 * VOCAB) * 4);
}

CASE(a_device_has_its_own_tokens_of_a_step_where_memory_allows) {
    struct budget_request request = request_of(&plain);
    request.step_tokens = 2048;
    request.available = 0;
    assert_int_equal(chosen(&request).sizes.batch_tokens, 2048);
    const uint64_t step = (uint64_t)(2048 * 10 + VOCAB) * 4;
    request.available = WEIGHTS + 16 * step;
    assert_int_equal(chosen(&request).sizes.batch_tokens, 2048);
    request.available -= 16;
    assert_int_equal(chosen(&request).sizes.batch_tokens, 1024);
    request.available = 2 * WEIGHTS;
    request.wanted.max_seqs = 300;
    assert_int_equal(chosen(&request).sizes.batch_tokens, 300);
    request.wanted.batch_tokens = 700;
    assert_int_equal(chosen(&request).sizes.batch_tokens, 700);
    // as many rows of logits as fit: they are part of the buffers
    request.wanted = (struct budget_sizes){.logit_rows = -1};
    request.available = WEIGHTS + 16 * 1024 * (10 + VOCAB) * 4;
    assert_int_equal(chosen(&request).sizes.batch_tokens, 1024);
    assert_int_equal(chosen(&request).sizes.logit_rows, 1024);
}

CASE(sizes_out_of_range_are_refused_by_name) {
    struct budget_request request = request_of(&plain);
    request.wanted.n_ctx = N_CTX + 1;
    refused_with(&request, RN_ERR_ARG, "context is 1025", "1 to 1024");
    request.wanted = (struct budget_sizes){.max_seqs = 5000};
    refused_with(&request, RN_ERR_ARG, "max_seqs is 5000", "4096");
    request.wanted = (struct budget_sizes){.max_seqs = 8, .batch_tokens = 7};
    refused_with(&request, RN_ERR_ARG, "batch_tokens is 7", "8 to");
    request.wanted = (struct budget_sizes){.max_seqs = 8, .logit_rows = 7};
    refused_with(&request, RN_ERR_ARG, "logit_rows is 7", "8 to");
}

CASE(with_much_memory_each_sequence_gets_two_contexts) {
    struct budget_request request = request_of(&plain);
    assert_int_equal(chosen(&request).kv_bytes, 2 * CONTEXT);
    request.wanted.max_seqs = 3;
    assert_int_equal(chosen(&request).kv_bytes, 6 * CONTEXT);
    request.wanted.n_ctx = N_CTX / 2;
    assert_int_equal(chosen(&request).kv_bytes, 3 * CONTEXT);
}

CASE(with_little_memory_it_is_what_is_free_after_the_rest) {
    struct budget_request request = request_of(&plain);
    const uint64_t step = (256 * 10 + VOCAB) * 4;
    request.available = 1200000;
    const struct budget budget = chosen(&request);
    assert_int_equal(budget.kv_bytes, 1200000 - 60000 - WEIGHTS - step);
    assert_int_equal(budget.sizes.n_ctx, 31 * KV_PAGE_TOKENS); // of 129,360 bytes
}

CASE(a_context_that_does_not_fit_is_shortened_unless_it_was_asked_for) {
    struct budget_request request = request_of(&plain);
    request.kv_bytes = 3 * PAGE + PAGE - 1;
    const struct budget budget = chosen(&request);
    assert_int_equal(budget.sizes.n_ctx, 3 * KV_PAGE_TOKENS);
    assert_int_equal(budget.context_bytes, 3 * PAGE);
    request.wanted.n_ctx = 3 * KV_PAGE_TOKENS;
    assert_int_equal(chosen(&request).sizes.n_ctx, 3 * KV_PAGE_TOKENS);
    request.wanted.n_ctx++;
    refused_with(&request, RN_ERR_ARG, "a context of 97", "16.0 KiB of KV memory",
                 "the 16.0 KiB that were asked for", "96 positions");
    request.kv_bytes = 0;
    request.available = 1100000; // 34,360 bytes are left
    request.wanted.n_ctx = N_CTX;
    refused_with(&request, RN_ERR_NOMEM, "a context of 1024", "128.0 KiB",
                 "are free beside the weights", "256 positions");
    request.wanted.n_ctx = 256;
    assert_int_equal(chosen(&request).sizes.n_ctx, 256);
}

CASE(memory_is_given_in_bytes_or_in_pages_of_all_groups) {
    struct budget_request request = request_of(&windowed);
    request.kv_pages = 20;
    assert_int_equal(chosen(&request).kv_bytes, 20 * 2 * PAGE);
    request.kv_bytes = 123456; // counts before pages
    assert_int_equal(chosen(&request).kv_bytes, 123456);
    request.available = 1; // a given size is not compared with free memory
    assert_int_equal(chosen(&request).kv_bytes, 123456);
}

CASE(memory_that_holds_no_page_is_refused_with_the_numbers) {
    struct budget_request request = request_of(&windowed);
    request.kv_bytes = 2 * PAGE - 1;
    refused_with(&request, RN_ERR_ARG, "KV memory of 8.0 KiB", "32 tokens takes 8.0 KiB");
    request.kv_bytes = 2 * PAGE;
    assert_int_equal(chosen(&request).sizes.n_ctx, KV_PAGE_TOKENS);
    request.kv_bytes = 0;
    request.available = WEIGHTS;
    refused_with(&request, RN_ERR_NOMEM, "976.6 KiB of memory are free", "weights take 976.6 KiB",
                 "step 10.4 KiB", "page of 8.0 KiB");
}

CASE(a_window_takes_its_own_pages_only) {
    struct budget_request request = request_of(&windowed);
    const struct budget budget = chosen(&request);
    const struct kv_config config = budget_kv_config(&windowed, &budget.kv);
    assert_int_equal(budget.kv_bytes, 2 * kv_need(&config, N_CTX, 256));
    assert_true(budget.context_bytes < 2 * CONTEXT);
    // memory for all pages of the full group and of the window holds the whole context
    request.kv_bytes = kv_need(&config, N_CTX, 1);
    assert_int_equal(chosen(&request).sizes.n_ctx, N_CTX);
    request.kv_bytes--;
    assert_in_range(chosen(&request).sizes.n_ctx, N_CTX - 2 * KV_PAGE_TOKENS, N_CTX - 1);
}

// A plan of a full group, or of none, and one or two groups of states.
static int interval(bool has_kv, int n_states, uint64_t kv_page, uint64_t state_page) {
    struct plan plan = {.n_group = has_kv + n_states};
    struct kv_bytes bytes = {{0}};
    if (has_kv) bytes.page[0] = kv_page;
    for (int g = has_kv; g < plan.n_group; g++) {
        plan.group[g].kind = KV_RECURRENT;
        bytes.page[g] = state_page;
    }
    const struct kv_config config = budget_kv_config(&plan, &bytes);
    for (int g = has_kv; g < plan.n_group; g++)
        assert_int_equal(config.group[g].interval, config.group[has_kv].interval);
    if (has_kv) assert_int_equal(config.group[0].interval, 0);
    return config.group[has_kv].interval;
}

CASE(checkpoints_are_as_far_apart_as_their_states_are_large) {
    assert_int_equal(interval(true, 1, 1000, 1), 1);
    assert_int_equal(interval(true, 1, 1000, 1000), 1);
    assert_int_equal(interval(true, 1, 1000, 1001), 2);
    assert_int_equal(interval(true, 1, 1000, 4000), 4);
    assert_int_equal(interval(true, 2, 1000, 4000), 8); // a checkpoint is a state of each
    assert_int_equal(interval(true, 1, 1000, 31001), 32);
    assert_int_equal(interval(true, 1, 1000, 75000), 32); // 1,024 tokens
    assert_int_equal(interval(false, 1, 0, 4000), 32);
}

CASE(where_the_memory_is_unknown_each_sequence_gets_a_context) {
    struct budget_request request = request_of(&plain);
    request.available = 0;
    request.wanted.max_seqs = 3;
    const struct budget budget = chosen(&request);
    assert_int_equal(budget.kv_bytes, 3 * CONTEXT);
    assert_int_equal(budget.sizes.n_ctx, N_CTX);
}

// Each group maps the whole budget.
CASE(a_limit_on_addresses_is_shared_by_the_groups) {
    struct budget_request request = request_of(&windowed);
    request.available = 1200000;
    const uint64_t taken = WEIGHTS + (256 * 10 + VOCAB) * 4;
    const uint64_t reserve = (16u << 20) + (3u << 19); // one sequence
    request.address_room = reserve + 1200000;
    const uint64_t room = 1200000 - taken;
    assert_int_equal(chosen(&request).kv_bytes, room / 2);
    // the stacks come out of it, too
    request.stack_bytes = 4000;
    assert_int_equal(chosen(&request).kv_bytes, (room - 4000) / 2);
    request.address_room = 0;
    assert_int_equal(chosen(&request).kv_bytes, room - 60000);
    request.available = request.address_room = 1200000;
    refused_with(&request, RN_ERR_NOMEM, "threads and requests 17.5 MiB: the rest holds no KV page",
                 "1.1 MiB of memory are free");
}

CASE(amounts_beyond_all_bounds_are_refused) {
    struct budget_request request = request_of(&windowed);
    request.kv_bytes = UINT64_MAX;
    refused_with(&request, RN_ERR_ARG, "16.0 EiB", "more than can be used, 1.0 TiB");
    // page numbers up to the page manager's limit are accepted; more are refused here already
    request.kv_bytes = (uint64_t)KV_MAX_GROUP_PAGES * PAGE;
    assert_int_equal(chosen(&request).kv_bytes, request.kv_bytes);
    request.kv_bytes++;
    refused_with(&request, RN_ERR_ARG, "1.0 TiB", "more than can be used, 1.0 TiB");
    request.kv_bytes = UINT64_MAX;
    request.total = 1 << 30;
    refused_with(&request, RN_ERR_ARG, "16.0 EiB", "more than there is, 1.0 GiB");
    request.kv_bytes = request.total;
    assert_int_equal(chosen(&request).kv_bytes, request.total);
    request.total = request.kv_bytes = 0;
    request.kv_pages = UINT32_MAX;
    refused_with(&request, RN_ERR_ARG, "32.0 TiB", "more than can be used");
}

CASE(a_model_beside_takes_its_part_of_what_is_free) {
    struct budget_request request = request_of(&plain);
    request.available = 1320000;
    request.beside = beside_it();
    const struct budget budget = chosen(&request);
    const uint64_t step = (256 * 10 + VOCAB) * 4, beside_step = (256 * 4 + VOCAB) * 4;
    const uint64_t left = 1320000 - 66000 - WEIGHTS - step - WEIGHTS / 10 - beside_step;
    assert_int_equal(budget.weight_bytes, WEIGHTS);
    assert_int_equal(budget.beside.weight_bytes, WEIGHTS / 10);
    assert_int_equal(budget.beside.step_bytes, beside_step);
    assert_int_equal(budget.free_bytes, left);
    assert_in_range(budget.kv_bytes, left * 2 / 3 - 1, left * 2 / 3 + 1);
    assert_in_range(budget.beside.kv_bytes, left / 3 - 1, left / 3 + 1);
    assert_true(budget.kv_bytes + budget.beside.kv_bytes <= left);
    assert_int_equal(budget.beside.n_ctx, budget.sizes.n_ctx);
}

CASE(memory_that_was_asked_for_stays_the_models_and_that_beside_is_added) {
    struct budget_request request = request_of(&plain);
    request.beside = beside_it();
    request.kv_bytes = 8 * PAGE;
    struct budget budget = chosen(&request);
    assert_int_equal(budget.kv_bytes, 8 * PAGE);
    assert_int_equal(budget.beside.kv_bytes, 4 * PAGE);
    assert_int_equal(budget.sizes.n_ctx, 8 * KV_PAGE_TOKENS);
    assert_int_equal(budget.beside.n_ctx, 8 * KV_PAGE_TOKENS);
    // one that follows shorter sequences only needs less, but never less than one of them
    request.beside.n_ctx_max = 64;
    request.kv_bytes = CONTEXT;
    budget = chosen(&request);
    assert_int_equal(budget.kv_bytes, CONTEXT);
    assert_int_equal(budget.beside.n_ctx, 64);
    assert_int_equal(budget.beside.kv_bytes, PAGE);
    request.kv_bytes = CONTEXT / 4;
    assert_int_equal(chosen(&request).beside.kv_bytes, PAGE);
}

CASE(a_model_on_a_device_of_its_own_takes_nothing_from_the_other) {
    struct budget_request request = request_of(&windowed);
    request.available = 1200000;
    const struct budget alone = chosen(&request);
    request.beside = beside_it();
    request.beside.is_apart = true;
    request.beside.kv_type = "4"; // pages are the device's own: as large as two layers of "2"
    request.beside.available = 1 << 30;
    const struct budget budget = chosen(&request);
    assert_int_equal(budget.free_bytes, alone.free_bytes);
    assert_int_equal(budget.kv_bytes, alone.kv_bytes);
    assert_int_equal(budget.sizes.n_ctx, alone.sizes.n_ctx);
    assert_int_equal(budget.kv.page[0], PAGE);
    assert_int_equal(budget.beside.kv.page[0], PAGE);
    assert_int_equal(budget.beside.weight_bytes, WEIGHTS / 10);
    assert_int_equal(budget.beside.step_bytes, (256 * 4 + VOCAB) * 4);
    assert_int_equal(budget.beside.n_ctx, budget.sizes.n_ctx);
    const struct kv_config config = budget_kv_config(&beside, &budget.beside.kv);
    assert_true(budget.beside.kv_bytes >= kv_need(&config, budget.beside.n_ctx, 1));
}

CASE(a_device_of_its_own_bounds_the_models_pages) {
    struct budget_request request = request_of(&plain);
    const uint64_t taken = WEIGHTS / 10 + (256 * 4 + VOCAB) * 4;
    request.beside = beside_it();
    request.beside.is_apart = true;
    // unknown: in proportion to the other one's two contexts, whose pages are twice as large
    assert_int_equal(chosen(&request).beside.kv_bytes, CONTEXT);
    // of what is free, 5% are a reserve: the page of the context and a half is left
    request.beside.available = (taken + CONTEXT * 3 / 4) * 20 / 19 + 20;
    struct budget budget = chosen(&request);
    assert_in_range(budget.beside.kv_bytes, CONTEXT * 3 / 4, CONTEXT * 3 / 4 + 20);
    assert_int_equal(budget.beside.n_ctx, N_CTX);
    // a context that does not fit there is refused, with what that device has
    request.beside.available = (taken + CONTEXT / 4) * 20 / 19;
    refused_with(&request, RN_ERR_NOMEM, "the draft model's device has", "weights take 97.7 KiB",
                 "a context of 1024 64.0 KiB");
    request.wanted.n_ctx = N_CTX / 4;
    budget = chosen(&request);
    assert_int_equal(budget.beside.n_ctx, N_CTX / 4);
    request.beside.available = taken / 2; // not even its weights
    refused_with(&request, RN_ERR_NOMEM, "the draft model's device has");
}

// Memory of the host is just memory; memory of a device is told with the device's name.
CASE(messages_name_the_device) {
    static const char name[] = "Abacus 9000";
    struct budget_request request = request_of(&plain);
    request.available = WEIGHTS / 2;
    refused_with(&request, RN_ERR_NOMEM, "488.3 KiB of memory are free, and the weights take",
                 "threads and requests");
    request.device = name;
    refused_with(&request, RN_ERR_NOMEM,
                 "488.3 KiB of device memory are free on Abacus 9000, and the weights take 976.6 "
                 "KiB, the buffers of a step 10.4 KiB, the reserve 24.4 KiB: the rest holds no");
    request.available = (WEIGHTS + 11000 + CONTEXT / 2) * 20 / 19;
    request.wanted.n_ctx = N_CTX;
    refused_with(&request, RN_ERR_NOMEM, "that are free beside the weights on Abacus 9000 hold");
    request.total = 1 << 20;
    request.kv_bytes = 2 << 20;
    refused_with(&request, RN_ERR_ARG,
                 "KV memory of 2.0 MiB is more than there is on Abacus 9000, 1.0 MiB");
    request = request_of(&plain);
    request.beside = beside_it();
    request.beside.is_apart = true;
    request.beside.available = WEIGHTS / 20;
    refused_with(&request, RN_ERR_NOMEM, "the draft model's device has 48.8 KiB free; its");
    request.beside.device = name;
    refused_with(&request, RN_ERR_NOMEM,
                 "the draft model's device has 48.8 KiB free on Abacus 9000; its weights take");
}

// A draft model on a device of its own takes none of the memory that is too little here.
CASE(a_message_counts_the_parts_that_share_the_memory) {
    struct budget_request request = request_of(&plain);
    request.available = WEIGHTS / 2;
    request.beside = beside_it();
    refused_with(&request, RN_ERR_NOMEM, "the weights take 1.0 MiB");
    request.beside.is_apart = true;
    refused_with(&request, RN_ERR_NOMEM, "the weights take 976.6 KiB");
}

static rn_status refusing_need(const struct plan *plan, const struct backend_sizes *sizes,
                               const char *kv_type, struct backend_need *out, rn_error *err) {
    (void)plan, (void)sizes, (void)kv_type, (void)out;
    return err_set(err, RN_ERR_UNSUPPORTED, "no such op here");
}

CASE(a_plan_that_the_backend_refuses_has_no_budget) {
    static const struct backend_class refusing = {.name = "refusing", .need = refusing_need};
    struct budget_request request = request_of(&plain);
    request.beside = beside_it();
    request.beside.cls = &refusing;
    refused_with(&request, RN_ERR_UNSUPPORTED, "no such op here");
    request.beside.cls = &made_up;
    chosen(&request);
    request.cls = &refusing;
    refused_with(&request, RN_ERR_UNSUPPORTED, "no such op here");
}

TEST_PROGRAM(budget) { return cases_run(build_plans, free_plans); }
