// Random requests give the same tokens, text and logits alone and in any mix with others: chunks,
// cached prefixes, forks, preemption, drafts, penalties, two steps in flight, up to 256 sequences
// at a time. On a GPU 2,000 requests (MIX_REQUESTS) run over the models below; MIX_ONLY and
// MIX_MODEL repeat one mix. The emulator runs a few requests of one small model, or of
// MIX_MODEL.
#include <time.h>

#include "cuda_engine.h"
#include "family_mixes.h"

enum { SEED = 11, N_REQUESTS = 2000, MOST_SEQS = 256, MOST_REQUESTS = 320 };
enum { FEW_REQUESTS = 16, FEW_SEQS = 12 }; // the emulator's

// Every kind of layer. A model that the backend lacks is passed over, and said.
static const struct part {
    const char *name, *path; // path NULL: of families.def
    const char *kv_type;
    int share;      // of the requests
    bool has_block; // qwen3_5 with a block that drafts (mtp_model.h)
} parts[] = {
    {"llama", TEST_DATA "/golden/llama/model.gguf", "f16", 3, false},
    {"tale-1m", MODELS_DIR "/tale-1m-f16.gguf", "f16", 10, false},
    {"tale-1m", MODELS_DIR "/tale-1m-f16.gguf", "int8", 4, false},
    {"gemma3", TEST_DATA "/golden/gemma3/model.gguf", "bf16", 2, false},
    {"gemma2", TEST_DATA "/golden/gemma2/model.gguf", "fp8", 2, false},
    {"gptoss", TEST_DATA "/golden/gptoss/model.gguf", "f16", 3, false},
    {"qwen3moe", TEST_DATA "/golden/qwen3moe/model.gguf", "int8", 3, false},
    {"deepseek_v2", NULL, "f16", 2, false},
    {"glm4_moe_lite", NULL, "int8", 2, false},
    {"gemma4-e2b", NULL, "f16", 2, false},
    {"qwen3_5", TEST_DATA "/golden/qwen3_5/model.gguf", "f16", 2, false},
    {"qwen3_5, block", NULL, "f16", 2, true},
    {"nemotron_h-moe", TEST_DATA "/golden/nemotron_h-moe/model.gguf", "bf16", 2, false},
    {"granitemoehybrid", TEST_DATA "/golden/granitemoehybrid/model.gguf", "f16", 2, false},
};
enum { N_PARTS = sizeof parts / sizeof *parts };

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void print_head(void) {
    print_message("| model            | KV   | requests | tokens | steps | hits | forks | "
                  "preempted | drafted | accepted | most at once | differ | seconds |\n"
                  "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
}

static void print_line(const char *name, const char *kv_type, const struct mix_totals *t,
                       double seconds) {
    print_message("| %-16s | %-4s | %8d | %6d | %5d | %4d | %5d | %9d | %7d | %8d | %12d | %6d | "
                  "%7.1f |\n",
                  name, kv_type, (int)t->requests, (int)t->tokens, (int)t->steps, (int)t->hits,
                  (int)t->forks, (int)t->preemptions, (int)t->draft_tokens, (int)t->accepted,
                  t->running_max, (int)t->mismatches, seconds);
}

// NULL: the backend refuses the model.
static rn_model *model_that_runs(const struct part *part, const char *path) {
    rn_model *model = path ? NULL : family_open(part->name);
    rn_engine *engine;
    rn_error err = {0};
    check(model || rn_model_open(path, &model, &err) == RN_OK, "%s", err.message);
    const rn_engine_options options = {.kv_type = part->kv_type, .max_seqs = 1, .n_ctx = 64};
    const rn_status status = rn_engine_create(model, &options, &engine, &err);
    if (status == RN_OK) {
        rn_engine_destroy(engine);
        return model;
    }
    check(status == RN_ERR_UNSUPPORTED || status == RN_ERR_ARG, "%s: status %d: %s", part->name,
          status, err.message);
    print_message("%s is refused: %s\n", part->name, err.message);
    rn_model_close(model);
    return NULL;
}

// The totals of one model are added to all.
static void part_run(int index, int n_requests, int most_seqs, struct mix_totals *all) {
    const struct part *part = &parts[index];
    const char *only = getenv("MIX_ONLY"), *name = getenv("MIX_MODEL");
    const uint64_t seed = SEED + 1000 * (uint64_t)index;
    const double begin = now_s();
    int32_t noise[HYBRID_NOISE];
    struct mix_cases cases;
    if (name && strcmp(name, part->name) != 0) return;
    struct mtp_file file = {0};
    if (part->has_block) file = mtp_file_make(MTP_NEAR);
    rn_model *model = model_that_runs(part, part->has_block ? file.path : part->path);
    if (part->has_block) mtp_file_remove(&file);
    if (!model) return;
    const struct mix_text text = hybrid_noise(noise, rn_model_get_info(model)->n_vocab);
    struct mix_totals totals = {0};
    mix_cases_create_all(&cases, model, part->kv_type, text, true, seed, n_requests / 2);
    cases.most_seqs = most_seqs;
    cases.most_requests = n_requests < MOST_REQUESTS ? n_requests : MOST_REQUESTS;
    hybrid_run_cases(&cases, part->has_block, seed, index, n_requests,
                     only ? strtoull(only, NULL, 16) : 0, &totals);
    mix_cases_destroy(&cases);
    rn_model_close(model);
    print_line(part->name, part->kv_type, &totals, now_s() - begin);
    mix_totals_add(all, &totals);
}

CASE(mixes_give_the_tokens_of_alone_runs) {
    struct mix_totals all = {0};
    const char *text = getenv("MIX_REQUESTS");
    const int wanted = text ? atoi(text) : cuda_wanted() ? N_REQUESTS : FEW_REQUESTS;
    const double begin = now_s();
    int shares = 0;
    (void)state;
    if (!cuda_wanted()) print_message("the emulator: %d requests; a GPU runs more\n", wanted);
    for (int i = 0; i < N_PARTS; i++) shares += parts[i].share;
    print_head();
    for (int i = 0; i < (cuda_wanted() || getenv("MIX_MODEL") ? N_PARTS : 1); i++) {
        const int n = cuda_wanted() ? wanted * parts[i].share / shares : wanted;
        part_run(i, n > 20 ? n : 20, cuda_wanted() ? MOST_SEQS : FEW_SEQS, &all);
    }
    print_line("all", "", &all, now_s() - begin);
    assert_int_equal(all.mismatches, 0);
    if (!cuda_wanted() || wanted < N_REQUESTS) return;
    assert_true(all.preemptions > 0 && all.hits > 0 && all.forks > 0 && all.accepted > 0);
    check(all.running_max > MOST_SEQS / 2, "%d at a time", all.running_max);
}

TEST_PROGRAM(mix) { return cases_run(NULL, NULL); }
