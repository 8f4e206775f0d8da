// Replays thousands of requests through the public interface and compares the hash of each with
// that of replay.txt. A hash covers tokens, text by events, logprobs, logits, vectors, finish,
// status, stop string and seed. It covers nothing that depends on time or on drafts.
//   replay [PREFIX]             compares the cases whose names begin so; exit status 1: some differ
//   replay --record [PREFIX]    prints the lines instead, for cases that are new
//   --alone, --threads N, --isa NAME    runs the cases so; the hashes are the same
// A name is MODEL/KV TYPE/COMPANY/RECIPE. The tables of models, companies and recipes and their
// order are part of the record, so a new case gets a loop of its own behind those of plan_run.
#include <unistd.h>

#include "company.h"

enum {
    PER_MODEL = 3,  // engines for each model and KV type
    PER_ENGINE = 9, // requests of each
    MAX_ASKS = RECIPES,
    MAX_LINES = 8192,
    MAX_TOLD = 20, // differences that are printed
    PATH_BYTES = 512,
};

struct source {
    const char *name;
    const char *tokenizer; // a folder's; NULL: a GGUF file
    const char *draft;     // a small model with the same vocabulary; NULL: none
};

static const struct source sources[] = {
    {"gemma2", NULL, NULL},
    {"gemma3", NULL, NULL},
    {"gpt2", NULL, NULL},
    {"gptoss", NULL, NULL},
    {"gptoss-notrunc", "gpt-4o", NULL},
    {"granite", NULL, NULL},
    {"llama", NULL, NULL},
    {"llama-spm", NULL, NULL},
    {"llama3-rope", NULL, NULL},
    {"mistral", "spm", NULL},
    {"mistral-full", NULL, NULL},
    {"mixtral", NULL, NULL},
    {"olmo2", NULL, NULL},
    {"phi3", NULL, NULL},
    {"qwen2", NULL, NULL},
    {"qwen3", NULL, NULL},
    {"qwen3moe", NULL, NULL},
    {"smollm3", NULL, NULL},
    {"tale-1m-f16", NULL, NULL},
    {"tale-1m-q8_0", NULL, NULL},
    {"tale-20m-q8_0", NULL, "tale-1m-q8_0"},
    {"tale-20m-q4_k_m", NULL, "tale-1m-f16"},
};
enum { SOURCES = sizeof sources / sizeof sources[0] };

static const char *const kv_types[] = {"f32", "f16", "int8", "int4"};
enum { KV_TYPES = sizeof kv_types / sizeof kv_types[0] };

struct line {
    char name[96];
    uint64_t hash;
    bool seen;
};

struct replay {
    bool record;
    const char *prefix; // of the names of the cases that are run
    struct changes changes;
    struct line *lines; // of replay.txt
    int n_lines;
    int n_run, n_differ;
    struct tally tally[COMPANIES];
};

// ---------------------------------------------------------------- models

static rn_model *open_path(const char *path) {
    rn_model *model;
    rn_error err;
    if (rn_model_open(path, &model, &err) != RN_OK) die("%s", err.message);
    return model;
}

// A folder of links to the model's files and to those of its tokenizer. It is removed when the
// model is open: the files are open then.
static rn_model *open_folder(const struct source *source) {
    static const char *const files[] = {"model.safetensors",      "config.json",
                                        "generation_config.json", "tokenizer.json",
                                        "tokenizer_config.json",  "tokenizer.model"};
    enum { FILES = sizeof files / sizeof files[0], OF_MODEL = 3 };
    char folder[] = "replay-data.XXXXXX", from[PATH_BYTES], to[PATH_BYTES];
    if (!mkdtemp(folder)) die("%s cannot be made", folder);
    for (int i = 0; i < FILES; i++) {
        snprintf(from, sizeof from, TEST_DATA "/golden/%s%s/%s", i < OF_MODEL ? "" : "tokenizers/",
                 i < OF_MODEL ? source->name : source->tokenizer, files[i]);
        snprintf(to, sizeof to, "%s/%s", folder, files[i]);
        if (access(from, R_OK) == 0 && symlink(from, to) != 0) die("%s cannot be made", to);
    }
    rn_model *model = open_path(folder);
    for (int i = 0; i < FILES; i++) {
        snprintf(to, sizeof to, "%s/%s", folder, files[i]);
        unlink(to);
    }
    rmdir(folder);
    return model;
}

static rn_model *open_trained(const char *name) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, MODELS_DIR "/%s.gguf", name);
    return open_path(path);
}

static rn_model *open_source(const struct source *source) {
    char path[PATH_BYTES];
    if (source->tokenizer) return open_folder(source);
    if (strncmp(source->name, "tale-", 5) == 0) return open_trained(source->name);
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", source->name);
    return open_path(path);
}

// ---------------------------------------------------------------- the record

static void lines_read(struct replay *replay) {
    char text[256];
    unsigned long long hash;
    FILE *file = fopen(REPLAY_FILE, "r");
    replay->lines = calloc(MAX_LINES, sizeof *replay->lines);
    if (!file || !replay->lines) die("%s cannot be read", REPLAY_FILE);
    while (fgets(text, sizeof text, file)) {
        struct line *line = &replay->lines[replay->n_lines];
        if (text[0] == '#' || text[0] == '\n') continue;
        if (replay->n_lines == MAX_LINES || sscanf(text, "%95s %llx", line->name, &hash) != 2)
            die("%s: not a case: %s", REPLAY_FILE, text);
        line->hash = hash;
        replay->n_lines++;
    }
    fclose(file);
}

static void tell(struct replay *replay, const char *name, const char *what) {
    if (++replay->n_differ <= MAX_TOLD) printf("%s %s\n", name, what);
}

static void compare(struct replay *replay, const struct ask *ask) {
    const uint64_t hash = ask_hash(ask);
    struct line *line = replay->lines, *end = line + replay->n_lines;
    while (line < end && strcmp(line->name, ask->name) != 0) line++;
    if (line == end)
        tell(replay, ask->name, "is not in the record");
    else if (line->seen)
        tell(replay, ask->name, "is there twice");
    else if (line->hash != hash)
        tell(replay, ask->name, "differs");
    if (line < end) line->seen = true;
}

static bool is_wanted(const struct replay *replay, const char *name) {
    return strncmp(name, replay->prefix, strlen(replay->prefix)) == 0;
}

static void take_result(struct replay *replay, const struct ask *ask) {
    if (!is_wanted(replay, ask->name)) return;
    replay->n_run++;
    if (replay->record)
        printf("%s %016llx\n", ask->name, (unsigned long long)ask_hash(ask));
    else
        compare(replay, ask);
}

// Lines without a case, and companies that were not what they are for.
static void check_rest(struct replay *replay) {
    for (int i = 0; i < replay->n_lines; i++)
        if (!replay->lines[i].seen && is_wanted(replay, replay->lines[i].name))
            tell(replay, replay->lines[i].name, "was not run");
    for (int i = 0; i < COMPANIES && !replay->changes.alone && !*replay->prefix; i++) {
        const struct tally *t = &replay->tally[i];
        const char *why = tally_complaint(t, companies[i].want);
        if (why) tell(replay, companies[i].name, why);
        printf("%s: %llu engines, %llu requests, %llu preemptions, %llu hits, %llu of %llu drafted "
               "tokens accepted\n",
               companies[i].name, (unsigned long long)t->engines, (unsigned long long)t->requests,
               (unsigned long long)t->preemptions, (unsigned long long)t->hits,
               (unsigned long long)t->accepted, (unsigned long long)t->drafted);
    }
    printf("%d requests, %d differ\n", replay->n_run, replay->n_differ);
}

// ---------------------------------------------------------------- the plan

struct stage {
    const struct source *source;
    const rn_model *model, *draft;
};

// One engine with the n recipes from `first` on. It is left out when no case is wanted.
static void stage_run(struct replay *replay, const struct stage *stage, const char *kv_type,
                      int company, int first, int n) {
    static struct ask asks[MAX_ASKS];
    struct room room = {.company = &companies[company],
                        .asks = asks,
                        .n = n,
                        .n_vocab = rn_model_get_info(stage->model)->n_vocab,
                        .is_large = stage->source->draft != NULL,
                        .random = 5};
    bool wanted = false;
    memset(asks, 0, sizeof asks);
    for (int i = 0; i < n; i++) {
        asks[i].recipe = &recipes[(first + i) % RECIPES];
        snprintf(asks[i].name, sizeof asks[i].name, "%s/%s/%s/%s", stage->source->name, kv_type,
                 room.company->name, asks[i].recipe->name);
        wanted |= is_wanted(replay, asks[i].name);
    }
    if (!wanted) return;
    for (int i = 0; i < n; i++)
        ask_make(&asks[i], stage->model, hash_text(stage->source->name), room.company->bend);
    room_run(&room, stage->model, stage->draft, kv_type, &replay->changes, &replay->tally[company]);
    for (int i = 0; i < n; i++) take_result(replay, &asks[i]);
}

// Companies and recipes take turns over models and KV types. Models with a draft model then run
// every recipe with it.
static void plan_run(struct replay *replay) {
    int turn = 0;
    for (int i = 0; i < SOURCES; i++) {
        struct stage stage = {.source = &sources[i]};
        rn_model *model = open_source(stage.source), *draft = NULL;
        stage.model = model;
        for (int j = 0; j < KV_TYPES * PER_MODEL; j++, turn++)
            stage_run(replay, &stage, kv_types[j / PER_MODEL], turn % ROTATION,
                      turn * PER_ENGINE % RECIPES, PER_ENGINE);
        if (stage.source->draft) {
            stage.draft = draft = open_trained(stage.source->draft);
            for (int j = 1; j < 3; j++)
                stage_run(replay, &stage, kv_types[j], ROTATION, 0, RECIPES);
        }
        rn_model_close(draft);
        rn_model_close(model);
    }
}

static struct replay read_arguments(int argc, char **argv) {
    struct replay replay = {.prefix = "", .changes = {.n_threads = 1}};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--record") == 0)
            replay.record = true;
        else if (strcmp(argv[i], "--alone") == 0)
            replay.changes.alone = true;
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            replay.changes.n_threads = atoi(argv[++i]);
        else if (strcmp(argv[i], "--isa") == 0 && i + 1 < argc)
            replay.changes.isa = argv[++i];
        else if (argv[i][0] != '-')
            replay.prefix = argv[i];
        else
            die("usage: replay [--record] [--alone] [--threads N] [--isa NAME] [PREFIX]");
    }
    return replay;
}

int main(int argc, char **argv) {
    struct replay replay = read_arguments(argc, argv);
    if (!replay.record) lines_read(&replay);
    plan_run(&replay);
    if (!replay.record) check_rest(&replay);
    free(replay.lines);
    return replay.n_differ != 0;
}
