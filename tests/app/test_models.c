// Models by name: each store's layout, names that mean one, several or no model, and damaged or
// hostile stores. The stores are made here, in a folder that is HOME.
#include <fcntl.h>

#include "bench_world.h"
#include "data_file.h"
#include "models/advice.h"
#include "models/find.h"
#include "models/name.h"
#include "models/store.h"
#include "models/text_file.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define DIGEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define OTHER  "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define HUB    "home/.cache/huggingface/hub/"
#define OLLAMA "home/.ollama/models/"

static struct caught caught;
static struct data_folder folder;
static char here[DATA_PATH_BYTES];

static void parents_make(const char *path) {
    char part[DATA_PATH_BYTES];
    for (const char *slash = path; (slash = strchr(slash + 1, '/'));) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        mkdir(part, 0777);
    }
}

static void put(const char *path, const char *text) {
    parents_make(path);
    data_file_write(".", path, text, strlen(text));
}

static void put_link(const char *path, const char *to) {
    parents_make(path);
    assert_int_equal(symlink(to, path), 0);
}

// A file of a repository as a link into its blobs.
static void put_hub(const char *repository, const char *file) {
    char path[DATA_PATH_BYTES], to[DATA_PATH_BYTES];
    snprintf(path, sizeof path, HUB "models--%s/blobs/b-%s", repository, file);
    put(path, "weights");
    snprintf(path, sizeof path, HUB "models--%s/refs/main", repository);
    put(path, COMMIT);
    snprintf(path, sizeof path, HUB "models--%s/snapshots/" COMMIT "/%s", repository, file);
    snprintf(to, sizeof to, "../../blobs/b-%s", file);
    put_link(path, to);
}

static void put_manifest(const char *name, const char *kind, const char *digest, int size) {
    char path[DATA_PATH_BYTES], text[1024];
    snprintf(path, sizeof path, OLLAMA "manifests/%s", name);
    snprintf(text, sizeof text,
             "{\"layers\":[{\"mediaType\":\"application/vnd.ollama.image.%s\",\"digest\":\"%s\","
             "\"size\":%d}]}",
             kind, digest, size);
    put(path, text);
}

static int stores_make(void **state) {
    static const char *const unset[] = {"HF_HOME",     "HF_HUB_CACHE",  "HUGGINGFACE_HUB_CACHE",
                                        "LLAMA_CACHE", "OLLAMA_MODELS", "XDG_CACHE_HOME"};
    char home[2 * DATA_PATH_BYTES];
    if (environment_clean(state) || !getcwd(here, sizeof here)) return 1;
    for (size_t i = 0; i < sizeof unset / sizeof *unset; i++) unsetenv(unset[i]);
    folder = data_folder_make();
    if (chdir(folder.path)) return 1;
    snprintf(home, sizeof home, "%s/%s/home", here, folder.path);
    setenv("HOME", home, 1);
    setenv("RUNNEL_MODELS", "own:none", 1);
    put("own/plain.gguf", "p");
    put("own/small-q8_0.gguf", "s");
    put("own/deep/big-Q2_K-00002-of-00002.gguf", "22");
    put("own/deep/big-Q2_K-00001-of-00002.gguf", "1");
    put("own/deep/mmproj-big.gguf", "x");
    put("own/half/x-Q4_0-00001-of-00003.gguf", "1");
    put_link("own/deep/loop", "../deep");
    put_hub("org--Model-GGUF", "Model-Q4_K_M.gguf");
    put_hub("org--Model-GGUF", "Model-UD-Q4_K_M.gguf");
    put_hub("org--Model-GGUF", "Model-F16.gguf");
    put_hub("org--Folder-1B", "config.json");
    put_hub("org--Folder-1B", "model.safetensors");
    put_link(HUB "models--org--Folder-1B/snapshots/" COMMIT "/README.md", "nowhere");
    put(HUB "models--org--Folder-1B/snapshots/" COMMIT "/sub/config.json", "{}");
    put(HUB "models--org--Folder-1B/snapshots/" COMMIT "/sub/model.safetensors", "s");
    put_hub("org--Gap", "config.json");
    put_hub("org--Gap", "model.safetensors");
    put_link(HUB "models--org--Gap/snapshots/" COMMIT "/tokenizer.json", "nowhere");
    put_hub("org--Below-GGUF", "config.json");
    put(HUB "models--org--Below-GGUF/snapshots/" COMMIT "/Q4_0/below-Q4_0.gguf", "b");
    put_hub("org--Bare", "config.json");
    put_hub("bad--gone", "gone-Q4_0.gguf");
    unlink(HUB "models--bad--gone/blobs/b-gone-Q4_0.gguf");
    put_hub("bad--ref", "ref-Q4_0.gguf");
    put(HUB "models--bad--ref/refs/main", "../../../../etc");
    put_hub("bad--out", "in-Q4_0.gguf");
    put_link(HUB "models--bad--out/snapshots/" COMMIT "/out-Q5_0.gguf", "/etc/passwd");
    put("home/.cache/llama.cpp/me_story_tale-Q8_0.gguf", "t");
    put("home/.cache/llama.cpp/manifest=me=story=latest.json",
        "{\"ggufFile\":{\"rfilename\":\"tale-Q8_0.gguf\"}}");
    put("home/.cache/llama.cpp/manifest=me=torn=latest.json", "{\"ggufFile\":");
    put("home/.cache/llama.cpp/manifest=me=lost=Q4_0.json",
        "{\"ggufFile\":{\"rfilename\":\"lost.gguf\"}}");
    put(OLLAMA "blobs/sha256-" DIGEST, "ollama");
    put_manifest("registry.ollama.ai/library/llama3.2/latest", "model", "sha256:" DIGEST, 6);
    put(OLLAMA "blobs/sha256-" OTHER, "larger one");
    put_manifest("registry.ollama.ai/library/llama3.2/3b", "model", "sha256-" OTHER, 10);
    put_manifest("registry.ollama.ai/library/llama3.2/1b", "model", "sha256:" DIGEST, 6);
    put_manifest("hf.co/u/r/Q4_K_M", "model", "sha256:" DIGEST, 6);
    put_manifest("registry.ollama.ai/library/bad/up", "model", "sha256:../../../plain", 6);
    put_manifest("registry.ollama.ai/library/bad/cut", "model", "sha256:" DIGEST, 7);
    put_manifest("registry.ollama.ai/library/bad/none", "tensor", "sha256:" DIGEST, 6);
    put(OLLAMA "manifests/registry.ollama.ai/library/bad/torn", "[1]");
    put("home/.lmstudio/models/pub/thing-GGUF/thing-q8_0.gguf", "l");
    return 0;
}

static int stores_remove(void **state) {
    char command[DATA_PATH_BYTES];
    (void)state;
    snprintf(command, sizeof command, "rm -r '%s'", folder.path);
    return chdir(here) || system(command);
}

// The path that the name means ends so.
static void found(const char *name, const char *ending) {
    char *path = NULL;
    caught_begin(&caught);
    const int code = model_path_find(name, false, &path);
    caught_end(&caught);
    check(code == APP_OK, "%s: status %d: %s", name, code, caught.err);
    const size_t len = strlen(path), end = strlen(ending);
    check(len >= end && !strcmp(path + len - end, ending), "%s: %s, expected %s", name, path,
          ending);
    free(path);
}

static void refused(const char *name, const char *part) {
    char *path = NULL;
    caught_begin(&caught);
    const int code = model_path_find(name, false, &path);
    caught_end(&caught);
    check(code == APP_USAGE && !path, "%s: status %d, %s", name, code, path ? path : "no path");
    check(strstr(caught.err, part), "%s: '%s' is not in: %s", name, part, caught.err);
}

CASE(a_name_means_the_model_of_a_store) {
    found("plain", "own/plain.gguf");
    found("plain.gguf", "own/plain.gguf");
    found("small", "own/small-q8_0.gguf");
    found("small:Q8_0", "own/small-q8_0.gguf");
    found("big", "own/deep/big-Q2_K-00001-of-00002.gguf");
    found("org/model-gguf:f16", "snapshots/" COMMIT "/Model-F16.gguf");
    found("org/Model:F16", "snapshots/" COMMIT "/Model-F16.gguf");
    found("org/Model-GGUF:UD-Q4_K_M", "Model-UD-Q4_K_M.gguf");
    found("org/Model-GGUF/Model-F16.gguf", "Model-F16.gguf");
    found("Folder-1B", "models--org--Folder-1B/snapshots/" COMMIT);
    found("org/Folder-1B/sub", "models--org--Folder-1B/snapshots/" COMMIT "/sub");
    found("org/Below-GGUF", "/Q4_0/below-Q4_0.gguf");
    found("me/story", "me_story_tale-Q8_0.gguf");
    found("llama3.2", "blobs/sha256-" DIGEST);
    found("llama3.2:3b", "blobs/sha256-" OTHER);
    found("llama3.2:1b", "blobs/sha256-" DIGEST);
    found("hf.co/u/r:Q4_K_M", "blobs/sha256-" DIGEST);
    found("pub/thing-GGUF", "thing-q8_0.gguf");
    found("thing", "thing-q8_0.gguf");
}

CASE(a_path_is_a_path) {
    found("own/plain.gguf", "own/plain.gguf");
    found("own", "own"); // a folder, whatever it holds
    found("/nowhere/plain", "/nowhere/plain");
    found("./plain", "./plain");
    found("missing.gguf", "missing.gguf"); // opening it has the message
    char *path = NULL;
    assert_int_equal(model_path_find("nosuch", true, &path), APP_OK);
    assert_string_equal(path, "nosuch");
    free(path);
}

CASE(several_models_of_a_name_are_listed) {
    refused("org/Model-GGUF", "3 models have this name");
    check(strstr(caught.err, "\n  org/Model-GGUF:UD-Q4_K_M  (Hugging Face)"), "%s", caught.err);
    refused("org/Model-GGUF:Q4_K_M/x", "no such file");
    refused("org/Model-GGUF:Q3_K", "not with the tag 'Q3_K'; there are:");
    check(strstr(caught.err, "\n  org/Model-GGUF:F16  "), "%s", caught.err);
    check(strstr(caught.err, "hf download org/Model-GGUF --include '*Q3_K*'\n"), "%s", caught.err);
    refused("llama3.2:7b", "not with the tag '7b'; there are:");
    check(strstr(caught.err, "\n  llama3.2:3b  (Ollama)"), "%s", caught.err);
}

CASE(a_name_that_is_not_here_has_a_command) {
    refused("Qwen/Qwen3-8B", "no model of this name is on this machine");
    check(strstr(caught.err, "  8B parameters need about 16."), "%s", caught.err);
    refused("gemma3", "ollama pull gemma3\n");
    check(strstr(caught.err, "Largest models that fit:"), "%s", caught.err);
    refused("org/Modle-GGUF", "did you mean 'org/Model-GGUF'?");
    refused("a/b;rm", "no such file");
    check(!strstr(caught.err, "hf download"), "a command with a name for a shell: %s", caught.err);
}

CASE(damaged_and_hostile_entries_say_why) {
    refused("half", "2 of its 3 parts are missing");
    refused("org/Bare", "has config.json, and no weights");
    refused("org/Gap", "tokenizer.json: links to nowhere, which is missing");
    refused("bad/gone", "links to ../../blobs/b-gone-Q4_0.gguf, which is missing");
    refused("bad/ref", "refs/main: '../../../../etc' is not a commit of 40 digits");
    refused("bad/out:Q5_0", "links to /etc/passwd, which is outside of the store");
    found("bad/out:Q4_0", "in-Q4_0.gguf");
    refused("me/torn", "manifest=me=torn=latest.json: is not JSON: line 1");
    refused("me/lost", "names the file me_lost_lost.gguf, which is missing");
    refused("bad:up", "'sha256:../../../plain' is not a digest");
    refused("bad:cut", "has 6 bytes, and the manifest says 7");
    refused("bad:none", "has 0 layers of type");
    refused("bad:torn", "is not a JSON object");
    put_manifest("registry.ollama.ai/library/bad/lost", "model",
                 "sha256:ee112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 6);
    refused("bad:lost", "is missing; 'ollama pull bad:lost' brings it back");
}

CASE(entries_have_sizes_and_no_projector_is_one) {
    struct model_list list;
    assert_true(stores_read(&list));
    int n_big = 0;
    for (int i = 0; i < list.n; i++) {
        const struct model_entry *entry = &list.entry[i];
        check(!strstr(entry->path, "mmproj"), "%s", entry->path);
        if (strcmp(entry->file, "big-Q2_K") != 0) continue;
        n_big++; // once, though a link leads to it again
        assert_int_equal(entry->bytes, 3);
        assert_string_equal(entry->name, "deep");
    }
    assert_int_equal(n_big, 1);
    assert_false(list.is_cut);
    model_list_free(&list);
}

CASE(variables_move_the_stores) {
    setenv("HF_HOME", "elsewhere", 1);
    put("elsewhere/hub/models--o--moved/snapshots/" COMMIT "/moved.gguf", "m"); // no refs
    found("o/moved", "/moved.gguf");
    refused("org/Model-GGUF:F16", "no model of this name");
    setenv("HF_HUB_CACHE", HUB, 1); // before HF_HOME
    found("org/Model-GGUF:F16", "Model-F16.gguf");
    unsetenv("HF_HUB_CACHE");
    unsetenv("HF_HOME");
    setenv("LLAMA_CACHE", "elsewhere/hub", 1); // repositories as in the hub's cache
    found("moved", "/moved.gguf");
    unsetenv("LLAMA_CACHE");
    char far[4040] = ""; // the manifests' paths fit, those of blobs do not
    memset(far, '/', sizeof far - 1);
    memcpy(far, ".", 1);
    memcpy(far + sizeof far - sizeof OLLAMA, OLLAMA, sizeof OLLAMA - 1);
    setenv("OLLAMA_MODELS", far, 1);
    refused("llama3.2:3b", "the path of blobs/sha256-" OTHER " has more than 4095 bytes");
    unsetenv("OLLAMA_MODELS");
    put("home/.lmstudio/settings.json", "{\"downloadsFolder\": 5}");
    found("thing", "thing-q8_0.gguf");
}

CASE(quantizations_are_read_from_names) {
    static const struct {
        const char *stem, *tag;
    } names[] = {{"a-Q4_K_M", "Q4_K_M"},
                 {"a.q4_0", "Q4_0"},
                 {"a-bf16", "BF16"},
                 {"a-IQ2_XXS", "IQ2_XXS"},
                 {"a-UD-q2_k", "UD-Q2_K"},
                 {"a-mxfp4", "MXFP4"},
                 {"Qwen3-8B", ""},
                 {"Q4_0", ""},
                 {"a-Qwen", ""},
                 {"a-F16-imat-IQ1_S", "IQ1_S"},
                 {"", ""},
                 {"a-", ""}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char tag[MODEL_TAG];
        model_tag_read(names[i].stem, tag);
        assert_string_equal(tag, names[i].tag);
    }
}

// What the advice says with this much free memory.
static void advised(double gb, const char *name, const char *part, const char *not_part) {
    static char text[8192];
    static struct room room;
    char base[256];
    const char *colon = strrchr(name, ':');
    snprintf(base, sizeof base, "%.*s", (int)strcspn(name, ":"), name);
    const struct advice_wanted wanted = {name, base, colon ? colon + 1 : ""};
    if (!room.device.backend) assert_int_equal(room_get(&room, NULL), RN_OK);
    room.device.memory_free = (uint64_t)(gb * 1e9);
    FILE *out = fmemopen(text, sizeof text, "w");
    if (*name)
        advice_missing(out, &room, &wanted);
    else
        advice_models(out, &room);
    fclose(out);
    check(strstr(text, part), "%s, %g GB: '%s' is not in: %s", name, gb, part, text);
    check(!*not_part || !strstr(text, not_part), "%s, %g GB: '%s' is in: %s", name, gb, not_part,
          text);
}

CASE(the_advice_for_a_missing_model_fits_the_memory) {
    advised(24, "Qwen/Qwen3-8B",
            "BF16 fits\n  fetch its folder, about 16.0 GB, from Hugging Face:  hf "
            "download Qwen/Qwen3-8B\n",
            "include");
    advised(14, "Qwen/Qwen3-8B", "hf download Qwen/Qwen3-8B-GGUF --include '*Q8_0*'\n", "folder");
    advised(8, "Qwen/Qwen3-8B", "hf download Qwen/Qwen3-8B-GGUF --include '*Q4_K_M*'\n", "folder");
    advised(2, "Qwen/Qwen3-8B", "none of them fits\n  it needs a machine with more than 5.",
            "hf download");
    advised(24, "Qwen/Qwen3-30B-A3B-Instruct-2507",
            "hf download unsloth/Qwen3-30B-A3B-Instruct-2507-GGUF --include '*Q4_K_M*'\n",
            "folder");
    advised(24, "org/Some-8B-GGUF", "hf download org/Some-8B-GGUF --include '*Q4_K_M*'\n",
            "unsloth");
    advised(24, "org/Some-1B-GGUF", "hf download org/Some-1B-GGUF --include '*Q8_0*'\n", "unsloth");
    advised(24, "org/Some-8B:Q5_K_M", "hf download unsloth/Some-8B-GGUF --include '*Q5_K_M*'\n",
            "folder");
    advised(24, "org/Some-30B:Q8_0",
            "Q4_K_M fits\n  fetch a file in Q4_K_M from Hugging Face:  hf download "
            "unsloth/Some-30B-GGUF --include '*Q4_K_M*'\n",
            "'*Q8_0*'");
    advised(24, "org/Some-8B-GGUF:q8_0", "hf download org/Some-8B-GGUF --include '*q8_0*'\n", "");
    advised(24, "meta/Big-70B", "or a GPU such as NVIDIA L40S\n", "hf download");
    advised(24, "meta/Big-70B", "Qwen3-30B-A3B as Q4_K_M fits here", "hf download");
    advised(24, "a/b;rm", "Largest models that fit:", "hf download");
    advised(24, "llama3.1:8b", "ollama pull llama3.1:8b\n", "-p TEXT");
    advised(24, "hello", "If it is meant as a prompt, -p TEXT gives one.\n", "unsloth");
    advised(2, "llama3.1:8b", "none of them fits", "ollama pull");
}

// It has one format, of which Hugging Face and Ollama have files.
CASE(gpt_oss_is_sized_as_it_is_published) {
    static const char *const names[] = {"openai/gpt-oss-20b", "gpt-oss:20b", "gpt-oss",
                                        "unsloth/gpt-oss-20b-GGUF"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        advised(24, names[i], "MXFP4, which needs about 12.", "70b");
        advised(24, names[i], "ollama pull gpt-oss:20b, then -m gpt-oss:20b\n", "120b");
        advised(24, names[i], "hf download ggml-org/gpt-oss-20b-GGUF --include '*mxfp4*'\n",
                "BF16");
        advised(8, names[i], "does not fit\n", "hf download");
        advised(8, names[i], "(runnel plan gpt-oss-20b --device ", "ollama");
    }
    advised(24, "openai/gpt-oss-120b", "MXFP4, which needs about 63.", "hf download");
    advised(24, "openai/gpt-oss-120b",
            "or a GPU such as NVIDIA A100 80 GB SXM (runnel plan gpt-oss-120b --device a100-80)\n",
            "BF16");
    advised(96, "gpt-oss:120b", "hf download ggml-org/gpt-oss-120b-GGUF --include '*mxfp4*'\n", "");
    advised(96, "gpt-oss:120b", "ollama pull gpt-oss:120b, then -m gpt-oss:120b\n", "gpt-oss:20b");
}

CASE(the_recommended_model_is_the_largest_that_fits) {
    static const struct {
        double gb;
        const char *repository, *larger;
    } cases[] = {{2, "Qwen/Qwen3-0.6B-GGUF", "1.7B"},
                 {4, "Qwen/Qwen3-4B-GGUF", "8B"},
                 {8, "Qwen/Qwen3-8B-GGUF", "14B"},
                 {16, "ggml-org/gpt-oss-20b-GGUF", "30B"},
                 {24, "Qwen/Qwen3-30B-A3B-GGUF", "120b"},
                 {96, "ggml-org/gpt-oss-120b-GGUF", "405b"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[128];
        snprintf(command, sizeof command, ":\n  hf download %s --include '*", cases[i].repository);
        advised(cases[i].gb, "", command, cases[i].larger);
    }
    advised(8, "",
            "curl -L -o Qwen3-8B-Q4_K_M.gguf "
            "https://huggingface.co/Qwen/Qwen3-8B-GGUF/resolve/main/Qwen3-8B-Q4_K_M.gguf\n",
            "");
    advised(8, "", "  ollama pull qwen3:8b\n    then  runnel run -m qwen3:8b\n", "");
    advised(16, "", "  ollama pull gpt-oss:20b\n    then  runnel run -m gpt-oss:20b\n", "120b");
    advised(96, "", "  ollama pull gpt-oss:120b\n    then  runnel run -m gpt-oss:120b\n", "405b");
    advised(0.5, "", "The smallest of the usual models, Qwen3-0.6B as Q8_0, needs ", "hf download");
}

CASE(models_have_short_names) {
    static const struct {
        const char *given, *path, *name, *shown;
    } names[] = {
        {NULL, "tale (embedded)", "Tale", "tale (embedded)"},
        {"own/plain.gguf", "own/plain.gguf", "Plain", "plain.gguf"},
        {"./own/deep/", "./own/deep/", "", "deep"},
        {"org/model-GGUF:F16", HUB "models--org--Model-GGUF/snapshots/" COMMIT "/Model-F16.gguf",
         "", "org/model-GGUF:F16"},
        {NULL, HUB "models--org--Folder-1B/snapshots/" COMMIT, "", "org/Folder-1B"},
        {NULL, OLLAMA "blobs/sha256-" DIGEST, "Llama", "Llama"},
        {NULL, OLLAMA "blobs/sha256-" DIGEST, "", "sha256-" DIGEST},
        {NULL, OLLAMA "blobs/sha256-" DIGEST, "L\033[2Ja\nma\xff \xc3\xa9",
         "L\\x1b[2Ja\\nma\\xff \xc3\xa9"},
        {NULL, "a/\033c.gguf", "x", "\\x1bc.gguf"},
        {"org/\033c", "nowhere", "x", "org/\\x1bc"},
        {NULL, "a/sha256-notes.gguf", "x", "sha256-notes.gguf"},
        {NULL, "/models/Folder-1B/config.json", "", "Folder-1B"},
        {NULL, "config.json", "", "config.json"},
        {NULL, "8b:Q4_K_M", "", "8b:Q4_K_M"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const rn_model_info info = {.path = names[i].path, .name = names[i].name};
        assert_string_equal(model_name_short(names[i].given, &info).text, names[i].shown);
    }
}

CASE(sizes_are_read_from_names) {
    static const struct {
        const char *name;
        double parameters;
    } names[] = {{"Qwen/Qwen3-8B", 8e9},
                 {"llama3.2:1b", 1e9},
                 {"Qwen3-0.6B-GGUF", 6e8},
                 {"smollm:135m", 1.35e8},
                 {"Qwen3-30B-A3B", 3e10},
                 {"gemma-3n-E2B", 2e9},
                 {"llama3.2", 0},
                 {"phi-4", 0},
                 {"a-999999999999b", 0},
                 {"mixtral-8x7b", 0},
                 {"", 0}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const double parameters = room_parameters(names[i].name);
        check(fabs(parameters - names[i].parameters) <= 1e-6 * parameters, "%s: %g", names[i].name,
              parameters);
    }
}

CASE(the_list_has_heads_and_problems) {
    char text[2 * DATA_PATH_BYTES];
    snprintf(text, sizeof text, "own/tiny-F16.gguf");
    put_link(text, TINY);
    int code = line_run_as(COMMAND_MODELS, "", command_models, &caught);
    check(code == APP_OK, "%d: %s", code, caught.err);
    check(strstr(caught.out, "\ntiny:F16 "), "%s", caught.out);
    check(strstr(caught.out, "not a GGUF file"), "%s", caught.out);
    code = line_run_as(COMMAND_MODELS, "--json", command_models, &caught);
    check(code == APP_OK, "%d: %s", code, caught.err);
    json_t *root = json_loads(caught.out, 0, NULL);
    size_t index, n_good = 0;
    const json_t *row;
    json_array_foreach(json_object_get(root, "models"), index, row) {
        if (!json_is_null(json_object_get(row, "problem"))) continue;
        n_good++;
        assert_string_equal(json_string_value(json_object_get(row, "name")), "tiny:F16");
        assert_string_equal(json_string_value(json_object_get(row, "architecture")), "llama");
        assert_true(json_is_true(json_object_get(row, "fits")));
        assert_true(json_integer_value(json_object_get(row, "memory_bytes")) > 0);
    }
    assert_int_equal(n_good, 1);
    json_decref(root);
}

CASE(names_and_one_path_are_for_other_programs) {
    int code = line_run_as(COMMAND_MODELS, "--names", command_models, &caught);
    check(code == APP_OK, "%d: %s", code, caught.err);
    check(strstr(caught.out, "llama3.2:1b\n"), "%s", caught.out);
    check(!strstr(caught.out, "bad:cut"), "%s", caught.out); // it cannot be opened
    code = line_run_as(COMMAND_MODELS, "llama3.2:3b", command_models, &caught);
    check(code == APP_OK && strstr(caught.out, "sha256-" OTHER "\n"), "%d: %s", code, caught.out);
    code = line_run_as(COMMAND_MODELS, "nosuch", command_models, &caught);
    check(code == APP_USAGE && !*caught.out, "%d: %s", code, caught.out);
    check(strstr(caught.err, "no model of this name"), "%s", caught.err);
}

TEST_PROGRAM(models) { return cases_run(stores_make, stores_remove); }
