// What happens to a model's file while it is used. After the load no file is needed, so texts stay
// as they are. A file that is written to while it is loaded fails the load, with its name. Tables
// of Gemma 4 are read in steps: writing to their file ends the engine with an error that says so,
// and nothing else does. label: address
#define _GNU_SOURCE 1
#include <fcntl.h>

#include "golden_folder.h"
#include "streams.h"

enum act {
    CHMOD, // these change no byte
    DELETE,
    RENAME, // another file takes its name
    TRUNCATE,
    SAME,  // cp of the same bytes
    OTHER, // cp of other ones
    ZERO,
    GROW,
    RESTORE, // emptied, then written again
    GARBAGE, // in the middle
    N_ACTS,
};
enum time { BEFORE_LOAD, IN_LOAD, IDLE, IN_STREAM, N_TIMES };

enum { N_PROMPT = 40, N_TEXT = 24 };

// A model in a folder of its own, and its file that is acted on.
struct place {
    struct data_folder folder;
    char model[DATA_PATH_BYTES], file[DATA_PATH_BYTES];
    struct data_file bytes;
    bool reads_in_steps;
};

static struct place place_make(const char *name, const char *tokenizer) {
    struct place p = {.reads_in_steps = strncmp(name, "gemma4-e", 8) == 0};
    char from[DATA_PATH_BYTES];
    if (tokenizer) {
        p.folder = golden_folder_make(name, tokenizer);
        snprintf(p.model, sizeof p.model, "%s", p.folder.path);
        snprintf(p.file, sizeof p.file, "%s/model.safetensors", p.folder.path);
    } else {
        p.folder = data_folder_make();
        snprintf(from, sizeof from, TEST_DATA "/golden/%s/model.gguf", name);
        check(data_file_copy(from, p.folder.path, "model.gguf"), "%s", from);
        snprintf(p.model, sizeof p.model, "%s/model.gguf", p.folder.path);
        snprintf(p.file, sizeof p.file, "%s", p.model);
    }
    p.bytes = data_file_read(p.file);
    return p;
}

static void place_remove(struct place *p) {
    free(p->bytes.data);
    data_folder_remove(&p->folder);
}

static void put(const char *path, int flags, off_t at, const void *bytes, size_t size) {
    const int fd = open(path, O_WRONLY | flags, 0600);
    check(fd >= 0 && pwrite(fd, bytes, size, at) == (ssize_t)size, "%s", path);
    close(fd);
}

// As it was, written long ago.
static void place_reset(const struct place *p) {
    const struct timespec past[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    put(p->file, O_CREAT | O_TRUNC, 0, p->bytes.data, p->bytes.size);
    assert_int_equal(utimensat(AT_FDCWD, p->file, past, 0), 0);
}

static void place_act(const struct place *p, enum act act) {
    const size_t size = p->bytes.size, half = size / 2;
    char other[DATA_PATH_BYTES + 8];
    uint8_t *garbage = malloc(size);
    assert_non_null(garbage);
    for (size_t i = 0; i < size; i++) garbage[i] = (uint8_t)(p->bytes.data[i] ^ 0x5a);
    snprintf(other, sizeof other, "%s.new", p->file);
    if (act == CHMOD) assert_int_equal(chmod(p->file, 0400), 0);
    if (act == DELETE) assert_int_equal(unlink(p->file), 0);
    if (act == RENAME) {
        put(other, O_CREAT | O_TRUNC, 0, garbage, half);
        assert_int_equal(rename(other, p->file), 0);
    }
    if (act == TRUNCATE) assert_int_equal(truncate(p->file, (off_t)size / 3), 0);
    if (act == ZERO || act == RESTORE) assert_int_equal(truncate(p->file, 0), 0);
    if (act == SAME) put(p->file, O_TRUNC, 0, p->bytes.data, size);
    if (act == OTHER) put(p->file, O_TRUNC, 0, garbage, half);
    if (act == GROW) put(p->file, 0, (off_t)size, garbage, half);
    if (act == RESTORE) put(p->file, 0, 0, p->bytes.data, size);
    if (act == GARBAGE) put(p->file, 0, (off_t)half, garbage, half);
    free(garbage);
}

// ---------------------------------------------------------------- engines

struct loading {
    const struct place *place;
    enum act act;
    bool is_done;
};

static void on_progress(void *ctx, uint64_t done, uint64_t total) {
    struct loading *l = ctx;
    if (l->is_done || done < total / 2) return;
    l->is_done = true;
    place_act(l->place, l->act);
}

static const rn_request *story(const rn_model *model) {
    static int32_t prompt[N_PROMPT];
    static rn_request request;
    for (int i = 0; i < N_PROMPT; i++)
        prompt[i] = (i * 37 + 11) % rn_model_get_info(model)->n_vocab;
    request = (rn_request){.prompt = prompt,
                           .n_prompt = N_PROMPT,
                           .max_tokens = N_TEXT,
                           .ignore_eos = true};
    return &request;
}

// The engine has ended, and the request with it; the message names the file.
static void check_ended(rn_engine *engine, const rn_request *request, struct stream *stream) {
    bool busy = true;
    rn_error err = {0};
    uint64_t id;
    while (busy) {
        rn_engine_step(engine, &busy);
        for (rn_event event; rn_engine_next_event(engine, &event);) {
            if (event.finish)
                check(event.reason && strstr(event.reason, "model."), "status %d: %s", event.status,
                      event.reason);
            streams_take(stream, &event, 0);
        }
    }
    assert_int_equal(stream->finish, RN_FINISH_ERROR);
    assert_int_equal(stream->status, RN_ERR_IO);
    assert_int_equal(rn_engine_health(engine, &err), RN_ERR_IO);
    check(strstr(err.message, "changed since it was opened"), "%s", err.message);
    assert_int_equal(rn_engine_submit(engine, request, &id, &err), RN_ERR_IO);
}

static void check_texts(const struct place *p, const rn_model *model, rn_engine *engine,
                        enum act act, enum time time, const struct stream *want) {
    static struct stream stream;
    const rn_request *request = story(model);
    if (time == IDLE) place_act(p, act);
    streams_submit(engine, request, &stream);
    for (int i = 0; time == IN_STREAM && i < 6; i++) streams_step(engine, &stream, 1, i, 0);
    if (time == IN_STREAM) place_act(p, act);
    if (p->reads_in_steps && time >= IDLE && act >= TRUNCATE) {
        check_ended(engine, request, &stream);
        return;
    }
    streams_drain(engine, &stream, 1);
    streams_check_same(want, &stream);
    assert_int_equal(rn_engine_health(engine, NULL), RN_OK);
}

static void check_act(const struct place *p, enum act act, enum time time,
                      const struct stream *want) {
    struct loading loading = {.place = p, .act = act, .is_done = time != IN_LOAD};
    const rn_engine_options options = {.n_threads = 1 + (act & 1),
                                       .n_ctx = 128,
                                       .speculate = "off",
                                       .no_prefix_cache = true,
                                       .progress = on_progress,
                                       .progress_ctx = &loading};
    rn_model *model;
    rn_engine *engine;
    rn_error err = {0};
    place_reset(p);
    check(rn_model_open(p->model, &model, &err) == RN_OK, "%s", err.message);
    if (time == BEFORE_LOAD) place_act(p, act);
    const rn_status status = rn_engine_create(model, &options, &engine, &err);
    assert_true(loading.is_done);
    if (time <= IN_LOAD && act >= TRUNCATE) {
        assert_int_equal(status, RN_ERR_IO);
        check(strstr(err.message, "model."), "%s", err.message);
        check(strstr(err.message, "changed since") || strstr(err.message, "ends at"), "%s",
              err.message);
    } else {
        check(status == RN_OK, "%d at %d: %s", act, time, err.message);
        check_texts(p, model, engine, act, time, want);
        rn_engine_destroy(engine);
    }
    rn_model_close(model);
}

static void check_all(const char *name, const char *tokenizer) {
    static struct stream want;
    struct place p = place_make(name, tokenizer);
    rn_model *model;
    rn_error err = {0};
    check(rn_model_open(p.model, &model, &err) == RN_OK, "%s", err.message);
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_ctx = 128});
    streams_run(engine, story(model), &want);
    rn_engine_destroy(engine);
    rn_model_close(model);
    for (int act = 0; act < N_ACTS; act++)
        for (int time = 0; time < N_TIMES; time++)
            check_act(&p, (enum act)act, (enum time)time, &want);
    place_remove(&p);
}

CASE(a_gguf_file_is_not_needed_after_the_load) { check_all("llama-spm", NULL); }

CASE(nor_is_a_folder) { check_all("llama-spm", "spm"); }

CASE(nor_a_file_with_experts_and_states) {
    check_all("qwen3moe", NULL);
    check_all("falcon_h1", NULL);
}

CASE(an_engine_ends_when_a_table_that_steps_read_is_written_to) { check_all("gemma4-e2b", NULL); }

// The draft model has files of its own.
CASE(a_draft_that_changes_before_it_is_loaded_is_named) {
    struct place p = place_make("llama-spm", NULL);
    rn_model *model, *draft;
    rn_engine *engine;
    rn_error err = {0};
    place_reset(&p);
    check(rn_model_open(TEST_DATA "/golden/llama-spm/model.gguf", &model, &err) == RN_OK, "%s",
          err.message);
    check(rn_model_open(p.model, &draft, &err) == RN_OK, "%s", err.message);
    place_act(&p, GARBAGE);
    assert_int_equal(rn_engine_create(model, &(rn_engine_options){.draft = draft}, &engine, &err),
                     RN_ERR_IO);
    check(strstr(err.message, "model.gguf: changed since it was opened"), "%s", err.message);
    rn_model_close(draft);
    rn_model_close(model);
    place_remove(&p);
}

TEST_PROGRAM(changed_files) { return cases_run(NULL, NULL); }
