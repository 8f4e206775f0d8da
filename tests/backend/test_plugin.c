// Backends in shared objects: they are found by name and by path. Unknown, broken and without a
// device are different errors. Without a name the best available backend is taken, and only "not
// here" is skipped. plugins/ has a file for each case, and the build puts their shared objects into
// the folder of this program.
// label: threads
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/table.h"
#include "check.h"
#include "parts.h"

struct world {
    struct plugin_folders here;  // the folder of this program
    struct plugin_folders local; // a temporary folder, then the folder of this program
    const struct backend_class *cls;
    struct backend_device device;
    rn_error err;
    char note[BACKEND_NOTE];
};

static int set_up(void **state) {
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    plugin_folders_init(&w->here);
    assert_true(w->here.n >= 1);
    w->here.n = 1;
    w->local.n = 2;
    w->local.owner = w->here.owner;
    snprintf(w->local.path[0], PATH_MAX, "/tmp/runnel-plugin-XXXXXX");
    assert_non_null(mkdtemp(w->local.path[0]));
    memcpy(w->local.path[1], w->here.path[0], PATH_MAX);
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;
    check(rmdir(w->local.path[0]) == 0, "%s: %s", w->local.path[0], strerror(errno));
    free(w);
    return 0;
}

static rn_status find(struct world *w, const char *name, const struct plugin_folders *folders) {
    w->err = (rn_error){0};
    return table_find(name, 0, folders, &w->cls, &w->device, &w->err);
}

// The search fails with that status, and with a message of one line that has the text.
static void refused(struct world *w, const char *name, rn_status status, const char *text) {
    const rn_status got = find(w, name, &w->local);
    check(got == status && w->err.status == status, "'%.64s': %s: %s", name, rn_status_text(got),
          w->err.message);
    check(strstr(w->err.message, text), "'%.64s': no '%s' in: %s", name, text, w->err.message);
    check(!strchr(w->err.message, '\n'), "'%.64s': more than a line", name);
    assert_int_equal(table_find(name, 0, &w->local, &w->cls, &w->device, NULL), status);
}

static rn_status best(struct world *w, const char *const *names) {
    memset(w->note, 'x', sizeof w->note);
    w->err = (rn_error){0};
    return table_best(names, 0, &w->local, NULL, &w->cls, &w->device, w->note, &w->err);
}

// ---------------------------------------------------------------- found

CASE(a_plugin_is_found_by_its_name) {
    struct world *w = *state;
    check(find(w, "good", &w->local) == RN_OK, "%s", w->err.message);
    assert_string_equal(w->cls->name, "good");
    assert_string_equal(w->device.name, "a device of a test");
    assert_int_equal(w->device.memory_free, 1 << 20);
    assert_int_equal(w->device.depth, 2);
    check(backend_find("good", 0, &w->cls, &w->device, &w->err) == RN_OK, "%s", w->err.message);
}

CASE(a_plugin_is_found_by_its_path) {
    struct world *w = *state;
    const struct plugin_folders none = {0};
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/runnel_good.so", w->here.path[0]);
    check(find(w, path, &none) == RN_OK, "%s", w->err.message);
    assert_string_equal(w->cls->name, "good");
    snprintf(path, sizeof path, "%s/runnel_misnamed.so", w->here.path[0]); // no name was given
    check(find(w, path, &none) == RN_OK, "%s", w->err.message);
}

CASE(a_plugin_is_loaded_once) {
    struct world *w = *state;
    assert_int_equal(find(w, "good", &w->local), RN_OK);
    const struct backend_class *first = w->cls;
    assert_int_equal(find(w, "good", &w->here), RN_OK);
    assert_ptr_equal(w->cls, first);
}

static void *find_often(void *ctx) {
    const struct world *w = ctx;
    for (int i = 0; i < 50; i++) {
        const struct backend_class *cls;
        struct backend_device device;
        const bool good = i % 2;
        const rn_status status =
            table_find(good ? "good" : "older", 0, &w->here, &cls, &device, NULL);
        if (status != (good ? RN_OK : RN_ERR_IO)) return NULL;
    }
    return ctx;
}

CASE(threads_may_search_at_the_same_time) {
    pthread_t thread[4];
    void *result;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, find_often, *state), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(thread[i], &result), 0);
        assert_ptr_equal(result, *state);
    }
}

CASE(a_built_in_backend_needs_no_file) {
    struct world *w = *state;
    const struct plugin_folders none = {0};
    assert_int_equal(find(w, "cpu", &none), RN_OK);
    assert_ptr_equal(w->cls, &backend_cpu);
}

// Where this program was started from, or under which name, has no say.
CASE(the_folders_are_those_of_the_program_and_of_the_installation) {
    char *before = getcwd(NULL, 0);
    struct plugin_folders a, b;
    plugin_folders_init(&a);
    assert_int_equal(chdir("/"), 0);
    plugin_folders_init(&b);
    assert_int_equal(chdir(before), 0);
    free(before);
    assert_int_equal(a.n, b.n);
    check(a.n >= 2, "%d folders", a.n);
    for (int i = 0; i < a.n; i++) {
        assert_string_equal(a.path[i], b.path[i]);
        check(a.path[i][0] == '/' && !strstr(a.path[i], ".."), "%s", a.path[i]);
    }
}

CASE(the_current_folder_is_not_searched) {
    struct world *w = *state;
    const struct plugin_folders none = {0};
    char *before = getcwd(NULL, 0);
    assert_int_equal(chdir(w->here.path[0]), 0);
    const rn_status status = find(w, "good", &none);
    assert_int_equal(chdir(before), 0);
    free(before);
    assert_int_equal(status, RN_ERR_ARG);
}

// ---------------------------------------------------------------- which device

CASE(a_device_is_found_by_its_number) {
    struct world *w = *state;
    check(table_find("good", 1, &w->local, &w->cls, &w->device, &w->err) == RN_OK, "%s",
          w->err.message);
    assert_string_equal(w->device.name, "a device of a test");
    check(backend_find("good", 1, &w->cls, &w->device, &w->err) == RN_OK, "%s", w->err.message);
}

// The status and the message of a number that a backend does not have.
static void number_refused(struct world *w, const char *name, int device, const char *text) {
    w->err = (rn_error){0};
    assert_int_equal(table_find(name, device, &w->local, &w->cls, &w->device, &w->err), RN_ERR_ARG);
    assert_string_equal(w->err.message, text);
    assert_int_equal(table_find(name, device, &w->local, &w->cls, &w->device, NULL), RN_ERR_ARG);
}

CASE(a_number_without_a_device_is_told_with_the_range) {
    struct world *w = *state;
    number_refused(w, "good", 7, "backend 'good': device is 7, expected 0 to 1");
    number_refused(w, "cpu", 1, "backend 'cpu': device is 1, expected 0: the CPU is one device");
    number_refused(w, "good", -1, "backend 'good': device is -1, expected 0 or more");
    number_refused(w, "cpu", -2147483647,
                   "backend 'cpu': device is -2147483647, expected 0 or more");
}

CASE(no_other_backend_is_taken_for_a_number_that_the_best_one_lacks) {
    struct world *w = *state;
    static const char *const good[] = {"absent", "good", "cpu", NULL}, *const cpu[] = {"cpu", NULL};
    assert_int_equal(table_best(good, 1, &w->local, NULL, &w->cls, &w->device, w->note, &w->err),
                     RN_OK);
    assert_string_equal(w->cls->name, "good");
    assert_string_equal(w->note, "absent: no device here (no driver); running on good");
    assert_int_equal(table_best(good, 2, &w->local, NULL, &w->cls, &w->device, w->note, &w->err),
                     RN_ERR_ARG);
    assert_string_equal(w->err.message, "backend 'good': device is 2, expected 0 to 1");
    assert_int_equal(table_best(cpu, 1, &w->local, NULL, &w->cls, &w->device, w->note, &w->err),
                     RN_ERR_ARG);
}

CASE(auto_is_no_name) {
    struct world *w = *state;
    const struct backend_class *best = NULL;
    assert_true(backend_is_auto(NULL) && backend_is_auto("auto"));
    assert_false(backend_is_auto("cpu") || backend_is_auto("autos") || backend_is_auto(""));
    assert_int_equal(backend_find(NULL, 0, &best, &w->device, NULL), RN_OK);
    assert_int_equal(backend_find("auto", 0, &w->cls, &w->device, NULL), RN_OK);
    assert_ptr_equal(w->cls, best);
}

CASE(names_of_devices_have_no_control_characters) {
    struct world *w = *state;
    assert_int_equal(find(w, "loud", &w->local), RN_OK);
    assert_string_equal(w->device.name, "a?[31m device?");
}

// ---------------------------------------------------------------- unknown

CASE(an_unknown_name_is_told_with_the_known_ones) {
    struct world *w = *state;
    char text[PATH_MAX + 96];
    snprintf(text, sizeof text, "backend: 'x' is not known (known: cpu; no runnel_x.so in %s, ",
             w->local.path[0]);
    refused(w, "x", RN_ERR_ARG, text);
    refused(w, "./x", RN_ERR_ARG, "backend: './x' is not known (known: cpu; no such file)");
    refused(w, "good/", RN_ERR_ARG, "no such file");
}

CASE(hostile_names_do_not_reach_the_file_system) {
    struct world *w = *state;
    static const char *const names[] = {"",        ".",         "..",    "x\n",
                                        "X",       "g\xc3\xb6", "good ", "good.so",
                                        "$ORIGIN", "\x1b[31m",  "a\\b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        refused(w, names[i], RN_ERR_ARG, "is no name");
    char name[1001];
    memset(name, 'a', 1000);
    name[1000] = '\0';
    refused(w, name, RN_ERR_ARG, "is no name");
    name[PLUGIN_MAX_NAME + 1] = '\0';
    refused(w, name, RN_ERR_ARG, "is no name");
    name[PLUGIN_MAX_NAME] = '\0';
    refused(w, name, RN_ERR_ARG, "is not known");
}

// A text with a '/' is the caller's own path; it is not looked for below the folders.
CASE(paths_are_taken_as_they_are) {
    struct world *w = *state;
    static const char *const paths[] = {"../x", "a/../../b", "/", "x/good", "./good\n", "//x"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const rn_status status = find(w, paths[i], &w->here);
        check(status == (strcmp(paths[i], "/") ? RN_ERR_ARG : RN_ERR_IO), "'%s': %s", paths[i],
              w->err.message);
    }
    char path[2 * PATH_MAX];
    memset(path, '/', sizeof path);
    memset(path + 1, 'a', sizeof path - 2);
    path[sizeof path - 1] = '\0';
    refused(w, path, RN_ERR_IO, "too long");
}

// ---------------------------------------------------------------- broken

CASE(a_broken_plugin_is_told_with_its_fault) {
    struct world *w = *state;
    char contract[64];
    snprintf(contract, sizeof contract, "was built for another contract than %u", BACKEND_CONTRACT);
    refused(w, "mute", RN_ERR_IO, "runnel_mute.so has no symbol runnel_backend");
    refused(w, "older", RN_ERR_IO, contract);
    refused(w, "partial", RN_ERR_IO, "runnel_partial.so: its class has no wait");
    refused(w, "misnamed", RN_ERR_IO, "runnel_misnamed.so: its class is called 'good'");
    refused(w, "typeless", RN_ERR_IO, "its default KV type 'f16' is none of its types");
    refused(w, "unlinked", RN_ERR_IO, "runnel_unlinked.so cannot be loaded: undefined symbol");
    refused(w, "lazy", RN_ERR_IO, "backend 'lazy': its class has no page_release");
    refused(w, "deep", RN_ERR_IO, "backend 'deep': 3 steps in flight, expected 1 to 2");
    refused(w, "mute", RN_ERR_IO, "backend 'mute': /");
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    check(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s", path);
}

// A broken file is the answer of the search: a good one in a later folder would hide the fault.
CASE(a_file_that_cannot_be_loaded_ends_the_search) {
    struct world *w = *state;
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/runnel_good.so", w->local.path[0]);
    write_file(path, "This is a text, and it is longer than the head of a shared object is. ....");
    refused(w, "good", RN_ERR_IO, "/runnel_good.so cannot be loaded: ");
    write_file(path, "");
    refused(w, "good", RN_ERR_IO, "/runnel_good.so cannot be loaded: file too short");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    refused(w, "good", RN_ERR_IO, "/runnel_good.so is not a regular file");
    rmdir(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(w, "good", RN_ERR_IO, "/runnel_good.so is not a regular file");
    unlink(path);
    assert_int_equal(symlink("nothing", path), 0);
    refused(w, "good", RN_ERR_IO, "/runnel_good.so: No such file");
    unlink(path);
    assert_int_equal(find(w, "good", &w->local), RN_OK);
}

static void copy_file(const char *from, const char *to) {
    char buffer[4096];
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    check(in && out, "%s, %s", from, to);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, in)) > 0;)
        assert_int_equal(fwrite(buffer, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

CASE(a_file_of_another_user_is_not_loaded_by_its_name) {
    struct world *w = *state;
    char path[PATH_MAX + 32], good[PATH_MAX + 32];
    if (geteuid() != 0) skip(); // it takes a user who can give files away
    snprintf(good, sizeof good, "%s/runnel_good.so", w->here.path[0]);
    snprintf(path, sizeof path, "%s/runnel_good.so", w->local.path[0]);
    copy_file(good, path);
    assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
    refused(w, "good", RN_ERR_IO, "/runnel_good.so is not loaded: its owner is user 12345");
    w->local.owner = 12345;
    const rn_status by_name = find(w, "good", &w->local);
    w->local.owner = w->here.owner;
    const rn_status by_path = find(w, path, &w->local);
    unlink(path);
    assert_int_equal(by_name, RN_OK);
    assert_int_equal(by_path, RN_OK);
}

// ---------------------------------------------------------------- no device

CASE(a_device_that_is_not_here_is_told) {
    struct world *w = *state;
    refused(w, "absent", RN_ERR_UNSUPPORTED, "backend 'absent': no device here (no driver)");
    refused(w, "silent", RN_ERR_UNSUPPORTED, "backend 'silent': no device here (unsupported)");
    refused(w, "rude", RN_ERR_UNSUPPORTED, "backend 'rude': no device here (???");
}

CASE(other_failures_of_a_device_keep_their_status) {
    refused(*state, "full", RN_ERR_NOMEM, "backend 'full': no memory for a context");
}

// ---------------------------------------------------------------- the best one

CASE(a_plugin_that_is_not_there_is_passed_over_in_silence) {
    struct world *w = *state;
    assert_int_equal(best(w, (const char *const[]){"x", "y", "cpu", "good", NULL}), RN_OK);
    assert_string_equal(w->cls->name, "cpu");
    assert_string_equal(w->note, "");
    assert_int_equal(best(w, (const char *const[]){"x", "good", "absent", "cpu", NULL}), RN_OK);
    assert_string_equal(w->cls->name, "good");
    assert_string_equal(w->note, "");
}

CASE(a_device_that_is_not_here_is_passed_over_with_a_note) {
    struct world *w = *state;
    assert_int_equal(best(w, (const char *const[]){"absent", "x", "cpu", NULL}), RN_OK);
    assert_ptr_equal(w->cls, &backend_cpu);
    assert_string_equal(w->device.name, "cpu");
    assert_string_equal(w->note, "absent: no device here (no driver); running on cpu");
    assert_int_equal(w->err.status, RN_OK);
    assert_int_equal(best(w, (const char *const[]){"silent", "absent", "good", NULL}), RN_OK);
    assert_string_equal(w->note, "silent: no device here; absent: no device here (no driver); "
                                 "running on good");
}

CASE(a_note_is_one_line_however_long_the_reasons_are) {
    struct world *w = *state;
    static const char *const names[] = {"rude", "rude", "rude", "rude", "cpu", NULL};
    static const char end[] = "; running on cpu";
    assert_int_equal(best(w, names), RN_OK);
    const size_t len = strlen(w->note);
    check(len < BACKEND_NOTE && !strchr(w->note, '\n'), "%s", w->note);
    assert_string_equal(w->note + len - (sizeof end - 1), end);
}

CASE(a_backend_that_refuses_the_plan_is_passed_over_with_a_note) {
    struct world *w = *state;
    static const char *const names[] = {"picky", "cpu", NULL}, *const none[] = {"picky", NULL};
    static const float rows[4];
    struct plan plan;
    plan_init(&plan);
    plan_end_with_rows(&plan, rows, 1, 4);
    assert_int_equal(table_best(names, 0, &w->local, &plan, &w->cls, &w->device, w->note, &w->err),
                     RN_OK);
    assert_ptr_equal(w->cls, &backend_cpu);
    assert_string_equal(w->note, "picky: the op embed is not there yet; running on cpu");
    // without a plan, or where no other backend is left or a device is asked for
    assert_int_equal(best(w, names), RN_OK);
    assert_string_equal(w->cls->name, "picky");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(table_best(i ? names : none, i, &w->local, &plan, &w->cls, &w->device,
                                    w->note, &w->err),
                         RN_ERR_UNSUPPORTED);
        assert_string_equal(w->err.message,
                            "picky: the op embed is not there yet; --backend cpu has it");
        assert_null(w->cls);
    }
    plan_deinit(&plan);
}

CASE(any_other_failure_ends_the_choice) {
    struct world *w = *state;
    assert_int_equal(best(w, (const char *const[]){"absent", "full", "cpu", NULL}), RN_ERR_NOMEM);
    assert_string_equal(w->err.message, "backend 'full': no memory for a context");
    assert_string_equal(w->note, "");
    assert_int_equal(best(w, (const char *const[]){"older", "cpu", NULL}), RN_ERR_IO);
    assert_int_equal(best(w, (const char *const[]){"mute", "cpu", NULL}), RN_ERR_IO);
    assert_int_equal(best(w, (const char *const[]){"lazy", "cpu", NULL}), RN_ERR_IO);
}

CASE(without_any_device_the_last_one_is_told) {
    struct world *w = *state;
    assert_int_equal(best(w, (const char *const[]){"silent", "absent", NULL}), RN_ERR_UNSUPPORTED);
    assert_string_equal(w->err.message, "backend 'absent': no device here (no driver)");
    assert_int_equal(w->err.status, RN_ERR_UNSUPPORTED);
    assert_null(w->cls);
    assert_int_equal(best(w, (const char *const[]){"x", NULL}), RN_ERR_UNSUPPORTED);
    assert_string_equal(w->err.message, "backend: there is none here");
}

CASE(without_plugins_the_best_one_is_the_cpu_and_has_no_note) {
    struct world *w = *state;
    struct plugin_folders folders;
    plugin_folders_init(&folders);
    for (int i = 0; i < folders.n; i++) {
        char path[PATH_MAX + 32];
        snprintf(path, sizeof path, "%s/runnel_cuda.so", folders.path[i]);
        if (access(path, F_OK) == 0) skip(); // one is installed on this machine
    }
    assert_int_equal(backend_best(0, &w->cls, &w->device, w->note, &w->err), RN_OK);
    assert_ptr_equal(w->cls, &backend_cpu);
    assert_string_equal(w->note, "");
    assert_int_equal(backend_find(NULL, 0, &w->cls, &w->device, NULL), RN_OK);
    assert_ptr_equal(w->cls, &backend_cpu);
}

TEST_PROGRAM(plugin) { return cases_run(set_up, tear_down); }
