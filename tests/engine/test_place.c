// Which device a model and its draft model run on: the number reaches the backend, and two devices
// of one backend do not share memory.
#include "bare_engine.h"
#include "fake/fake_backend.h"

#define MODEL MODELS_DIR "/tale-1m-f16.gguf"

static rn_model *model;

static int open_model(void **state) {
    (void)state;
    model = bare_open(MODEL);
    return 0;
}

static int close_model(void **state) {
    (void)state;
    rn_model_close(model);
    return 0;
}

static struct backend_place found(const struct place_wanted *wanted) {
    struct backend_place place;
    rn_error err = {0};
    check(place_find(wanted, &place, &err) == RN_OK, "%s", err.message);
    return place;
}

CASE(a_place_has_the_device_of_its_number) {
    struct backend_place place = found(&(struct place_wanted){.cls = &backend_fake, .device = 1});
    assert_int_equal(place.index, 1);
    assert_string_equal(place_device_name(&place), "another device that is not there");
    place = found(&(struct place_wanted){.name = "cpu"});
    assert_int_equal(place.index, 0);
    assert_string_equal(place_device_name(&place), "");
    rn_error err = {0};
    assert_int_equal(place_find(&(struct place_wanted){.cls = &backend_fake, .device = 2}, &place,
                                &err),
                     RN_ERR_ARG);
    assert_string_equal(err.message, "device is 2, expected 0 to 1");
}

CASE(a_draft_model_is_beside_its_target_unless_a_backend_is_named) {
    const struct backend_place target =
        found(&(struct place_wanted){.cls = &backend_fake, .device = 1, .kv_type = "int8"});
    struct backend_place draft;
    assert_int_equal(place_find_draft(&(struct place_wanted){.device = 7}, &target, &draft, NULL),
                     RN_OK);
    assert_true(place_is_same(&target, &draft));
    assert_int_equal(place_find_draft(&(struct place_wanted){.cls = &backend_fake}, &target, &draft,
                                      NULL),
                     RN_OK);
    assert_false(place_is_same(&target, &draft));
    assert_int_equal(draft.index, 0);
    assert_string_equal(draft.kv_type, "int8");
    assert_int_equal(place_find_draft(&(struct place_wanted){.name = "cpu"}, &target, &draft, NULL),
                     RN_OK);
    assert_false(place_is_same(&target, &draft));
    assert_int_equal(place_find_draft(&(struct place_wanted){.name = "cpu", .device = 1}, &target,
                                      &draft, NULL),
                     RN_ERR_ARG);
}

// The memory of two places as the engine divides it.
static struct budget divided(const struct backend_place *place, const struct backend_place *draft) {
    const struct place_sizes sizes = {.sizes = {.n_ctx = 64, .max_seqs = 4}};
    struct budget budget;
    rn_error err = {0};
    check(place_budget(place, &model->model, draft, &model->model, &sizes, &budget, &err) == RN_OK,
          "%s", err.message);
    return budget;
}

CASE(two_devices_of_one_backend_have_memory_of_their_own) {
    const struct backend_place first = found(&(struct place_wanted){.cls = &backend_fake});
    const struct backend_place second =
        found(&(struct place_wanted){.cls = &backend_fake, .device = 1});
    const struct budget together = divided(&first, &first), apart = divided(&first, &second);
    assert_true(apart.free_bytes > together.free_bytes);
    assert_true(apart.free_bytes - together.free_bytes >= together.beside.weight_bytes);
}

static void created(const rn_engine_options *options, long first, long second) {
    rn_engine *engine;
    rn_engine_info info;
    rn_memory_plan plan;
    rn_error err = {0};
    fake_reset();
    check(rn_engine_create(model, options, &engine, &err) == RN_OK, "%s", err.message);
    assert_int_equal(fake_control.n_create[0], first);
    assert_int_equal(fake_control.n_create[1], second);
    rn_engine_get_info(engine, &info);
    assert_string_equal(info.device, options->device ? "another device that is not there"
                                                     : "a device that is not there");
    rn_engine_destroy(engine);
    // the plan is not hooked, so it is the CPU's
    assert_int_equal(rn_engine_plan_memory(model, &(rn_engine_options){.backend = "cpu"}, &plan,
                                           NULL),
                     RN_OK);
    assert_string_equal(plan.device, "");
}

CASE(the_number_reaches_the_backends) {
    rn_engine_options options = {.n_ctx = 64, .n_threads = 1, .speculate = "off"};
    bare_class = &backend_fake;
    created(&options, 1, 0);
    options.device = 1;
    created(&options, 0, 1);
    options.speculate = "model";
    options.draft = model;
    created(&options, 0, 2);
    bare_draft_class = &backend_fake;
    created(&options, 1, 1);
    options.device = 0;
    options.draft_device = 1;
    created(&options, 1, 1);
    rn_engine *engine;
    rn_error err = {0};
    options.draft_device = -1;
    assert_int_equal(rn_engine_create(model, &options, &engine, &err), RN_ERR_ARG);
    options.draft_device = 2;
    assert_int_equal(rn_engine_create(model, &options, &engine, &err), RN_ERR_ARG);
    assert_string_equal(err.message, "device is 2, expected 0 to 1");
    bare_class = bare_draft_class = NULL;
}

TEST_PROGRAM(place) { return cases_run(open_model, close_model); }
