// Nobody can tell from a text that parts of it were drafted: requests of every kind, in mixes with
// others, give what they give alone and without drafts, whoever drafts and however long drafts are.
// The invariants of the engine are tested after every step. test_speculation_long.c has more.
#include "speculation_law.h"
#include "speculation_ways.h"

static void run(rn_model *model, const rn_model *draft, struct mix_text text, uint64_t seed,
                int n_cases, int n_requests, int first, int stride) {
    struct mix_cases cases;
    mix_cases_create_from(&cases, model, "f16", text, seed, MIX_IS_SHORT ? n_cases / 4 : n_cases);
    ways_run(&cases, draft ? draft : model, draft ? KIN_RELATIVE : KIN_SELF, seed, n_requests,
             first, stride);
    mix_cases_destroy(&cases);
}

static void drafts_do_not_show_in_stories(void **state) {
    (void)state;
    rn_model *model = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    struct token_list story = story_read(model);
    run(model, NULL, (struct mix_text){story.id, (int)story.count}, 11, 250, 40, 0, 1);
    token_list_deinit(&story);
    bare_close(model);
}

static void drafts_do_not_show_with_a_smaller_model(void **state) {
    (void)state;
    rn_model *model = bare_open(MODELS_DIR "/tale-20m-q8_0.gguf");
    rn_model *draft = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    struct token_list story = story_read(model);
    run(model, draft, (struct mix_text){story.id, (int)story.count}, 12, 60, 40, 2, 9);
    token_list_deinit(&story);
    bare_close(draft);
    bare_close(model);
}

// States go back, and windows have given nothing away that is still seen.
static void drafts_do_not_show_in_recurrent_states(void **state) {
    (void)state;
    rn_model *model = recurrent_open();
    int32_t noise[2000];
    run(model, NULL, noise_fill(noise, 2000, model->info.n_vocab), 13, 100, 40, 0, 1);
    recurrent_model_deinit(&model->model);
    tokenizer_destroy(model->tokenizer);
    weights_close(model->weights);
    free(model);
}

static void drafts_do_not_show_with_windows_and_experts(void **state) {
    (void)state;
    rn_model *model = bare_open(TEST_DATA "/golden/gptoss/model.gguf");
    int32_t noise[2000];
    run(model, NULL, noise_fill(noise, 2000, model->info.n_vocab), 14, 100, 40, 1, 2);
    bare_close(model);
}

static void drafted_texts_follow_the_exact_law(void **state) {
    (void)state;
    static struct law law;
    rn_model *model = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    struct token_list story = story_read(model);
    law_init(&law, model, (struct mix_text){story.id, (int)story.count});
    law_check(&law, NULL);
    token_list_deinit(&story);
    bare_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafts_do_not_show_in_stories),
        cmocka_unit_test(drafts_do_not_show_with_a_smaller_model),
        cmocka_unit_test(drafts_do_not_show_in_recurrent_states),
        cmocka_unit_test(drafts_do_not_show_with_windows_and_experts),
        cmocka_unit_test(drafted_texts_follow_the_exact_law),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
