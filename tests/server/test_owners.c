// Two API keys on one server with a page store: what a request leaves behind is for its key alone.
// Another key gets the answers that it would get if nothing was there.
// label: threads memory
#include "json_at.h"
#include "serve.h"
#include "store_folder.h"

static const char *const keys[] = {"key-of-anna", "key-of-bert"};
enum { ANNA, BERT };

struct world {
    struct serve serve;
    struct store_folder folder;
};

static void begin(struct world *world, const char *const *list, int n_keys) {
    struct server_config config = serve_config();
    config.keys = list;
    config.n_keys = n_keys;
    config.stream_bytes_max = 512; // a stream that is not read is paused soon
    serve_start_store(&world->serve, &config, 256, world->folder.path);
}

static int setup(void **state) {
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->folder = store_folder_make();
    begin(world, keys, 2);
    *state = world;
    return 0;
}

static int stop(void **state) {
    struct world *world = *state;
    serve_stop(&world->serve);
    store_folder_remove(&world->folder);
    free(world);
    json_kept_free();
    return 0;
}

// Sends a request as HTTP/1.0, with ' for "; more: further header lines. slow: its reader takes
// little.
static int ask_with(const struct world *world, const char *key, const char *more,
                    const char *method, const char *path, const char *body, bool slow) {
    char text[4096], *quoted = json_quoted(body ? body : "");
    const int len = snprintf(text, sizeof text,
                             "%s %s HTTP/1.0\r\nAuthorization: Bearer %s\r\n%sContent-Length: "
                             "%zu\r\n\r\n%s",
                             method, path, key, more, strlen(quoted), quoted);
    free(quoted);
    check(len > 0 && (size_t)len < sizeof text, "%d", len);
    const int fd = serve_connect_to(world->serve.port, slow);
    check(fd >= 0 && serve_send(fd, text, (size_t)len), "%s", path);
    return fd;
}

static int ask(const struct world *world, const char *key, const char *more, const char *method,
               const char *path, const char *body) {
    return ask_with(world, key, more, method, path, body, false);
}

static const json_t *parsed(struct reply reply, int status) {
    check(reply.status == status, "expected %d: %.300s", status, reply.data);
    const json_t *json = json_of(reply.body, strlen(reply.body));
    reply_free(&reply);
    return json;
}

static const json_t *got(const struct world *world, int who, const char *path, int status) {
    return parsed(serve_finish(ask(world, keys[who], "", "GET", path, NULL)), status);
}

static const json_t *posted(const struct world *world, int who, const char *path, const char *body,
                            int status) {
    return parsed(serve_finish(ask(world, keys[who], "", "POST", path, body)), status);
}

// ---------------------------------------------------------------- slots

#define TEXT "the secret of anna is a long text that takes some pages of tokens, and then some more"
#define SLOT "{'prompt':'" TEXT "','n_predict':4,'ignore_eos':true,'id_slot':%d}"

// Gives the slot a text.
static void fill(const struct world *world, int who, int slot) {
    char body[256];
    snprintf(body, sizeof body, SLOT, slot);
    posted(world, who, "/completion", body, 200);
}

static const json_t *act(const struct world *world, int who, int slot, const char *action,
                         const char *name, int status) {
    char path[64], body[64] = "";
    snprintf(path, sizeof path, "/slots/%d?action=%s", slot, action);
    if (name) snprintf(body, sizeof body, "{'filename':'%s'}", name);
    return posted(world, who, path, body, status);
}

static void expect_no_text(const struct world *world, int who, const char *name) {
    const char *message = string_at(act(world, who, 3, "restore", name, 400), "error.message");
    check(strstr(message, "there is no text of the name"), "%s", message);
}

CASE_WITH(a_saved_name_is_its_keys, setup, stop) {
    const struct world *world = *state;
    fill(world, ANNA, 0);
    const json_int_t n = (json_int_t)number_at(act(world, ANNA, 0, "save", "mine", 200), "n_saved");
    expect_no_text(world, BERT, "mine");
    assert_int_equal(number_at(act(world, BERT, 1, "erase", "mine", 200), "n_erased"), 0);
    assert_int_equal(number_at(act(world, ANNA, 1, "restore", "mine", 200), "n_restored"), n);
    posted(world, BERT, "/completion", "{'prompt':'b','n_predict':1,'id_slot':2}", 200);
    act(world, BERT, 2, "save", "mine", 200); // a text of its own
    assert_int_equal(number_at(act(world, ANNA, 1, "restore", "mine", 200), "n_restored"), n);
    assert_int_equal(number_at(act(world, BERT, 1, "restore", "mine", 200), "n_restored"), 2);
    act(world, ANNA, 1, "erase", "mine", 200);
    expect_no_text(world, ANNA, "mine");
    act(world, BERT, 1, "restore", "mine", 200);
}

CASE_WITH(a_slot_is_its_keys, setup, stop) {
    const struct world *world = *state;
    fill(world, ANNA, 0);
    expect_json(act(world, BERT, 0, "save", "taken", 400), "error.code", "'slot_empty'");
    assert_int_equal(number_at(act(world, BERT, 0, "erase", NULL, 200), "n_erased"), 0);
    posted(world, BERT, "/completion", "{'prompt':'b','n_predict':1,'id_slot':0}", 200);
    const json_t *saved = act(world, ANNA, 0, "save", "mine", 200);
    assert_true(number_at(saved, "n_saved") > 20);
    assert_int_equal(number_at(act(world, BERT, 0, "save", "mine", 200), "n_saved"), 2);
    assert_int_equal(number_at(act(world, ANNA, 0, "erase", NULL, 200), "n_erased"),
                     number_at(saved, "n_saved"));
    expect_json(act(world, ANNA, 0, "save", "mine", 400), "error.code", "'slot_empty'");
}

// The store outlives the server, and its keys come in another order.
CASE_WITH(a_name_is_its_keys_after_a_restart, setup, stop) {
    struct world *world = *state;
    static const char *const later[] = {"key-of-carla", "key-of-bert", "key-of-anna"};
    fill(world, ANNA, 0);
    act(world, ANNA, 0, "save", "mine", 200);
    serve_stop(&world->serve);
    begin(world, later, 3);
    expect_no_text(world, BERT, "mine");
    act(world, ANNA, 0, "restore", "mine", 200);
    serve_stop(&world->serve);
    begin(world, NULL, 0); // without keys there are other names
    expect_no_text(world, ANNA, "mine");
    fill(world, ANNA, 0);
    act(world, ANNA, 0, "save", "all", 200);
    act(world, BERT, 1, "restore", "all", 200);
}

// ---------------------------------------------------------------- requests

// The number of requests in the list.
static int listed(const struct world *world, int who) {
    return (int)size_at(got(world, who, "/requests", 200), "requests");
}

static void expect_unknown(const struct world *world, int who, const char *id) {
    static const char *const endings[] = {"/trace", "/trace?format=perfetto"};
    char path[160];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/requests/%s%s", id, endings[i]);
        expect_json(got(world, who, path, 404), "error.code", "'request_not_found'");
    }
}

#define COMPLETE "{'prompt':'Once','max_tokens':4,'ignore_eos':true}"

CASE_WITH(a_finished_request_is_its_keys, setup, stop) {
    const struct world *world = *state;
    const json_t *answer = parsed(serve_finish(ask(world, keys[ANNA], "X-Request-Id: r1\r\n",
                                                   "POST", "/v1/completions", COMPLETE)),
                                  200);
    assert_int_equal(listed(world, BERT), 0);
    assert_int_equal(listed(world, ANNA), 1);
    char number[24];
    const json_t *list = got(world, ANNA, "/requests", 200);
    snprintf(number, sizeof number, "%d", (int)number_at(list, "requests.0.request"));
    const char *const names[] = {string_at(answer, "id"), "r1", number};
    for (int i = 0; i < 3; i++) {
        char path[160];
        snprintf(path, sizeof path, "/requests/%s/trace", names[i]);
        got(world, ANNA, path, 200);
        expect_unknown(world, BERT, names[i]);
    }
    // the same name of another key hides nothing
    parsed(serve_finish(
               ask(world, keys[BERT], "X-Request-Id: r1\r\n", "POST", "/v1/completions", COMPLETE)),
           200);
    const json_t *mine = got(world, ANNA, "/requests/r1/trace", 200);
    assert_string_equal(string_at(mine, "id"), string_at(answer, "id"));
    check(strcmp(string_at(got(world, BERT, "/requests/r1/trace", 200), "id"),
                 string_at(answer, "id")) != 0,
          "the record of the other key");
}

// Its reader takes nothing more, so the stream is paused in the middle.
static int run_on(const struct world *world, int who) {
    const int fd = ask_with(world, keys[who], "X-Request-Id: r2\r\n", "POST", "/v1/completions",
                            "{'prompt':'a','max_tokens':400,'ignore_eos':true,'logprobs':20,"
                            "'stream':true,'stop':['a secret of anna']}",
                            true);
    char first[16];
    assert_true(recv(fd, first, sizeof first, 0) > 0);
    return fd;
}

// The running requests of the list, and the slots with parameters.
static int running(const struct world *world, int who) {
    size_t at;
    int n = 0;
    const json_t *row;
    json_array_foreach(at_path(got(world, who, "/requests", 200), "requests"), at, row) {
        n += strcmp(string_at(row, "state"), "finished") != 0;
    }
    return n;
}

static int described(const struct world *world, int who, int *n_busy) {
    size_t at;
    int n = 0;
    const json_t *slot;
    *n_busy = 0;
    json_array_foreach(got(world, who, "/slots", 200), at, slot) {
        const bool busy = json_is_true(at_path(slot, "is_processing"));
        *n_busy += busy;
        n += busy && json_object_get(slot, "params") != NULL;
        const bool has_any = json_object_get(slot, "id_task") || json_object_get(slot, "params") ||
                             json_object_get(slot, "n_prompt_tokens") ||
                             json_object_get(slot, "next_token");
        check(has_any == (json_object_get(slot, "params") != NULL), "a part of a description");
    }
    return n;
}

// The streams of a picture, and how many have ids.
static int pictured(const struct world *world, int who, int *n_named) {
    const json_t *picture = got(world, who, "/engine", 200), *stream;
    size_t at;
    *n_named = 0;
    json_array_foreach(at_path(picture, "streams"), at, stream) {
        *n_named += *string_at(stream, "id") != 0;
    }
    return (int)size_at(picture, "streams");
}

CASE_WITH(a_running_request_is_its_keys, setup, stop) {
    const struct world *world = *state;
    int fd = run_on(world, ANNA), n;
    assert_int_equal(running(world, ANNA), 1);
    assert_int_equal(running(world, BERT), 0);
    expect_unknown(world, BERT, "r2");
    got(world, ANNA, "/requests/r2/trace", 200);
    assert_int_equal(described(world, ANNA, &n), 1);
    assert_int_equal(n, 1);
    assert_int_equal(described(world, BERT, &n), 0);
    assert_int_equal(n, 1); // as busy as it is
    assert_int_equal(pictured(world, ANNA, &n), 1);
    assert_int_equal(n, 1);
    assert_int_equal(pictured(world, BERT, &n), 1);
    assert_int_equal(n, 0);
    close(fd);
}

// ---------------------------------------------------------------- users

static double queue_ms(int fd) {
    return number_at(parsed(serve_finish(fd), 200), "timings.queue_ms");
}

// Many requests of anna come before one of bert. Whether that one gets a place before most of them.
static bool bert_overtakes(const struct world *world, const char *user) {
    enum { MANY = 24, OVERTAKEN = 6 };
    int fd[MANY];
    double ms[MANY];
    char body[128];
    snprintf(body, sizeof body, "{'prompt':'Once','max_tokens':40,'ignore_eos':true%s}", user);
    for (int i = 0; i < MANY; i++)
        fd[i] = ask(world, keys[ANNA], "", "POST", "/v1/completions", body);
    const double late_ms = queue_ms(ask(world, keys[BERT], "", "POST", "/v1/completions", body));
    for (int i = 0; i < MANY; i++) ms[i] = queue_ms(fd[i]);
    return late_ms < ms[MANY - OVERTAKEN];
}

// The name of a user, or the lack of one, does not put requests of two keys in one queue. A machine
// that is too busy may have done anna's work before bert's request came.
CASE_WITH(the_users_of_a_key_are_its_own, setup, stop) {
    static const char *const users[] = {",'user':'all'", ""};
    for (int i = 0; i < 2; i++) {
        int tries = 0;
        while (!bert_overtakes(*state, users[i])) check(++tries < 10, "user %d", i);
    }
}

TEST_PROGRAM(owners) { return cases_run(NULL, NULL); }
