// A page store: pages survive restarts and crashes, wrong files are noticed and removed, a full
// disk and another server do no harm. No read ever gives other bytes than those of the page's name.
// label: threads memory
#include <limits.h>

#include "store_world.h"

static struct page_record record; // of the last file that was read

CASE(a_page_is_found_after_a_restart) {
    struct store_world *w = world_make(1);
    struct page_store *store = world_open(w);
    assert_true(page_store_is_ready(store)); // a small model is hashed at once
    for (int n = 0; n < 20; n++) assert_true(world_offer(w, store, 0, n, (uint32_t)n) > 0);
    page_store_destroy(store);
    store = world_open(w);
    const struct page_name last = world_name(store, 0, 19), next = world_name(store, 0, 20);
    assert_true(page_store_has(store, &last));
    assert_false(page_store_has(store, &next));
    assert_int_equal(world_fetch(w, store, 0, 20), FETCH_DONE);
    for (int n = 0; n < 20; n++) {
        const struct page_name name = world_name(store, 0, n);
        assert_true(world_is_right(&name, w->page[0][n]));
    }
    rn_store_stats stats;
    page_store_get_stats(store, &stats);
    assert_int_equal(stats.hits, 20);
    assert_int_equal(stats.read_bytes, 20 * world_bytes[0]);
    assert_int_equal(stats.pages, 20);
    page_store_destroy(store);
    world_free(w);
}

CASE(another_arithmetic_finds_nothing) {
    struct store_world *w = world_make(2);
    struct page_store *store = world_open(w);
    world_offer(w, store, 0, 0, 0);
    page_store_destroy(store);
    store = world_open_as(w, "toy 2", 1 << 20, NULL);
    struct page_name name = world_name(store, 0, 0);
    assert_false(page_store_has(store, &name));
    page_store_destroy(store);
    store = world_open(w);
    name = world_name(store, 0, 0);
    assert_true(page_store_has(store, &name));
    page_store_destroy(store);
    world_free(w);
}

CASE(salts_and_chains_have_names_of_their_own) {
    const struct page_key root = page_key_root((const uint8_t *)"0123456789abcdef", 16, "x");
    const struct page_key other = page_key_root((const uint8_t *)"0123456789abcdeg", 16, "x");
    const int32_t token[] = {1, 2, 3};
    const struct page_key a = page_key_salt(&root, "a", 1), b = page_key_salt(&root, "b", 1);
    const struct page_key keys[] = {root,
                                    other,
                                    page_key_root((const uint8_t *)"0123456789abcdef", 16, "y"),
                                    a,
                                    b,
                                    page_key_block(&root, token, 3),
                                    page_key_block(&root, token, 2),
                                    page_key_block(&a, token, 3),
                                    page_key_block(&b, token, 3),
                                    page_key_block(&other, token, 3)};
    const int n = (int)(sizeof keys / sizeof *keys);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) assert_false(page_key_equal(&keys[i], &keys[j]));
}

CASE(files_are_for_their_owner_alone) {
    struct store_world *w = world_make(3);
    struct page_store *store = world_open(w);
    struct stat info;
    char path[400];
    world_offer(w, store, 0, 0, 0);
    page_store_destroy(store);
    static const char *const folders[] = {"tmp", "models", "slots"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s/%s", w->folder.path, folders[i]);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0700);
    }
    store_folder_remove(&w->folder); // the next open makes it
    store = world_open(w);
    world_offer(w, store, 0, 0, 0);
    page_store_destroy(store);
    assert_int_equal(stat(w->folder.path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    world_free(w);
}

// ---------------------------------------------------------------- wrong files

struct spoiling {
    struct store_world *w;
    int n; // files that were spoilt
};

static void spoil(void *ctx, const char *path) {
    struct spoiling *s = ctx;
    struct stat info;
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &info) == 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    const off_t at = (off_t)(world_random(s->w) % (uint64_t)info.st_size);
    uint8_t byte;
    switch (world_random(s->w) % 4) {
    case 0:
        assert_int_equal(ftruncate(fd, at), 0);
        break;
    case 1:
        assert_int_equal(pwrite(fd, "x", 1, info.st_size), 1);
        break;
    default:
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= (uint8_t)(1u << world_random(s->w) % 8);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    close(fd);
    s->n++;
}

CASE(a_wrong_file_is_removed_and_never_used) {
    struct store_world *w = world_make(4);
    const int n_rounds = test_scale(4, 6, 30), n_pages = 16;
    uint64_t removed = 0;
    for (int round = 0; round < n_rounds; round++) {
        struct page_store *store = world_open(w);
        for (int n = 0; n < n_pages; n++) world_offer(w, store, 0, n, (uint32_t)n);
        page_store_destroy(store);
        struct spoiling s = {w, 0};
        assert_int_equal(store_folder_pages(w->folder.path, spoil, &s), n_pages);
        store = world_open(w);
        for (int n = 0; n < n_pages; n++) { // each alone: no page of them is right
            struct page_fetch *fetch = page_fetch_take(store);
            fetch->item[0] = (struct page_item){.name = world_name(store, 0, n), .page = 3};
            fetch->n_item = 1;
            fetch->is_priced = true;
            page_fetch_ask(store, fetch);
            while (atomic_load(&fetch->state) == FETCH_ASKED) usleep(20);
            // the reserved bytes of a header are not used
            if (atomic_load(&fetch->state) == FETCH_DONE)
                assert_true(world_is_right(&fetch->item[0].name, w->page[0][3]));
            page_fetch_leave(store, fetch);
        }
        rn_store_stats stats;
        page_store_get_stats(store, &stats);
        removed += stats.removed;
        page_store_destroy(store);
    }
    assert_true(removed > (uint64_t)(n_rounds * n_pages) * 9 / 10);
    world_free(w);
}

CASE(a_file_under_another_name_is_not_its_page) {
    struct store_world *w = world_make(5);
    struct page_store *store = world_open(w);
    struct page_dir *dir = &store->dir;
    world_offer(w, store, 0, 0, 0);
    world_offer(w, store, 0, 1, 1);
    world_drain(store);
    uint8_t bytes[WORLD_MOST_BYTES];
    const struct page_name a = world_name(store, 0, 0), b = world_name(store, 0, 1);
    char from[400], to[400];
    world_path(w, &a, from);
    world_path(w, &b, to);
    assert_int_equal(page_file_get(dir, &b, world_bytes[0], &record, bytes), PAGE_FILE_OK);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(page_file_get(dir, &a, world_bytes[0], &record, bytes), PAGE_FILE_MISSING);
    assert_int_equal(page_file_get(dir, &b, world_bytes[0], &record, bytes), PAGE_FILE_BAD);
    page_store_destroy(store);
    world_free(w);
}

// ---------------------------------------------------------------- offers that are taken back

// Pages change as soon as they were withdrawn, while the writer copies others: what is stored under
// a name are its bytes all the same.
CASE(a_withdrawn_page_may_change_at_once) {
    struct store_world *w = world_make(6);
    struct page_store *store = world_open_as(w, "toy", 1 << 24, NULL);
    const int n_pages = test_scale(200, 600, 2000);
    uint16_t offer[WORLD_SLOTS] = {0};
    for (int i = 0; i < n_pages; i++) {
        const uint32_t slot = (uint32_t)(world_random(w) % WORLD_SLOTS);
        if (offer[slot]) page_store_withdraw(store, offer[slot], 0, slot);
        memset(w->page[0][slot], 0xee, WORLD_MOST_BYTES);
        offer[slot] = world_offer(w, store, 2 * i, 0, slot);
        if (world_random(w) % 4 == 0) usleep(30);
    }
    page_store_destroy(store);
    store = world_open_as(w, "toy", 1 << 24, NULL);
    int n_found = 0;
    for (int i = 0; i < n_pages; i++) {
        const struct page_name name = world_name(store, 2 * i, 0);
        uint8_t bytes[WORLD_MOST_BYTES];
        const enum page_file_status status =
            page_file_get(&store->dir, &name, world_bytes[0], &record, bytes);
        assert_true(status == PAGE_FILE_OK || status == PAGE_FILE_MISSING);
        if (status == PAGE_FILE_OK) assert_true(world_is_right(&name, bytes));
        n_found += status == PAGE_FILE_OK;
    }
    assert_true(n_found > 0);
    page_store_destroy(store);
    world_free(w);
}

CASE(a_fetch_that_was_left_writes_nothing_more) {
    struct store_world *w = world_make(7);
    struct page_store *store = world_open(w);
    for (int n = 0; n < 60; n++) world_offer(w, store, 0, n, (uint32_t)n);
    world_drain(store);
    for (int round = 0; round < test_scale(20, 60, 200); round++) {
        struct page_fetch *fetch;
        while (!(fetch = page_fetch_take(store))) usleep(20);
        fetch->is_priced = true;
        fetch->n_item = 60;
        for (int i = 0; i < 60; i++)
            fetch->item[i] =
                (struct page_item){.name = world_name(store, 0, i), .page = (uint32_t)i};
        page_fetch_ask(store, fetch);
        usleep((useconds_t)(world_random(w) % 300));
        page_fetch_leave(store, fetch);
        memset(w->page[0], 0x11, sizeof w->page[0]);
        usleep(20);
        for (int i = 0; i < 60; i++) assert_int_equal(w->page[0][i][5], 0x11);
    }
    page_store_destroy(store);
    world_free(w);
}

// ---------------------------------------------------------------- the disk

CASE(a_full_disk_stops_the_writing_and_is_said_once) {
    struct store_world *w = world_make(8);
    struct bad_system bad;
    bad_init(&bad, LONG_MAX);
    struct page_store *store = world_open_as(w, "toy", 1 << 20, &bad.io);
    world_offer(w, store, 0, 0, 0);
    world_drain(store);
    atomic_store(&bad.is_full, true);
    world_offer(w, store, 0, 1, 1);
    world_drain(store); // the writer has met it
    for (int n = 2; n < 10; n++) assert_int_equal(world_offer(w, store, 0, n, (uint32_t)n), 0);
    rn_store_stats stats;
    page_store_get_stats(store, &stats);
    assert_true(stats.is_stopped && stats.errors == 1 && stats.written == 1 && stats.dropped == 8);
    assert_int_equal(w->n_notes, 1);
    assert_non_null(strstr(w->note, "No space left"));
    assert_int_equal(world_fetch(w, store, 0, 1), FETCH_DONE); // reading goes on
    page_store_destroy(store);
    atomic_store(&bad.is_full, false);
    assert_int_equal(store_folder_pages(w->folder.path, NULL, NULL), 1);
    world_free(w);
}

// Each try that fails pauses the writing again, without another word; a try that works says so.
CASE(a_disk_that_stays_full_is_said_once_and_its_end_too) {
    struct store_world *w = world_make(18);
    struct bad_system bad;
    bad_init(&bad, LONG_MAX);
    struct page_store *store = world_open_as(w, "toy", 1 << 20, &bad.io);
    store->pause_ms = 1;
    atomic_store(&bad.is_full, true);
    for (int n = 0; n < 3; n++) {
        world_offer(w, store, 0, n, (uint32_t)n);
        world_drain(store);
        while (atomic_load(&store->is_full)) { // up to the end of the pause
            bell_ring(&store->writer_bell);
            usleep(1000);
        }
    }
    rn_store_stats stats;
    page_store_get_stats(store, &stats);
    assert_int_equal(stats.errors, 3);
    assert_int_equal(w->n_notes, 1);
    atomic_store(&bad.is_full, false);
    for (int n = 0; n < 2; n++) world_offer(w, store, 0, n, (uint32_t)n);
    world_drain(store);
    assert_int_equal(w->n_notes, 2);
    assert_string_equal(w->note, "page store: pages are stored again");
    page_store_destroy(store);
    assert_int_equal(store_folder_pages(w->folder.path, NULL, NULL), 2);
    world_free(w);
}

// Until the page is found; false: it is not within seconds.
static bool waits_for(const struct page_store *store, const struct page_name *name) {
    for (int i = 0; i < 1000 && !page_store_has(store, name); i++) usleep(10000);
    return page_store_has(store, name);
}

// A page that the system did not read is not asked for again and again, and not lost either. Its
// file still counts.
CASE(a_page_that_cannot_be_read_for_a_while_is_not_forgotten) {
    enum { PAGES = 4 };
    static const int open_code[] = {EMFILE, 0, ENOMEM}, read_code[] = {0, EIO, 0};
    for (int i = 0; i < 3; i++) {
        struct store_world *w = world_make(20 + (uint64_t)i);
        struct bad_system bad;
        bad_init(&bad, LONG_MAX);
        struct page_store *store = world_open_as(w, "toy", 1 << 20, &bad.io);
        const struct page_name first = world_name(store, 0, 0), next = world_name(store, 0, 1);
        for (int n = 0; n < PAGES; n++) world_offer(w, store, 0, n, (uint32_t)n);
        world_drain(store);
        bad.open_code = open_code[i];
        bad.read_code = read_code[i];
        assert_int_equal(world_fetch(w, store, 0, PAGES), FETCH_FAILED);
        assert_true(!page_store_has(store, &first) && page_store_has(store, &next));
        rn_store_stats stats;
        page_store_get_stats(store, &stats);
        assert_true(stats.pages == PAGES && stats.errors == 1 && stats.removed == 0);
        page_store_look_often(store);
        usleep(100000);
        assert_false(page_store_has(store, &first)); // its time is far
        page_store_get_stats(store, &stats);
        assert_true(stats.pages == PAGES && stats.errors == 1);
        store->pause_ms = 1;
        page_store_hide(store, &first);
        bad.open_code = bad.read_code = 0;
        assert_true(waits_for(store, &first));
        assert_int_equal(world_fetch(w, store, 0, PAGES), FETCH_DONE);
        page_store_destroy(store);
        world_free(w);
    }
}

// How many of the pages have facts that were read.
static int count_known(struct page_store *store) {
    int n = 0;
    pthread_mutex_lock(&store->lock);
    for (uint32_t at = 0; at < store->index.n_entry; at++) n += store->index.entry[at].is_known;
    pthread_mutex_unlock(&store->lock);
    return n;
}

// The same at the start of a server, which reads the facts of all pages.
CASE(facts_that_cannot_be_read_for_a_while_are_read_later) {
    enum { PAGES = 4 };
    struct store_world *w = world_make(23);
    struct bad_system bad;
    struct page_store *store = world_open(w);
    for (int n = 0; n < PAGES; n++) world_offer(w, store, 0, n, (uint32_t)n);
    page_store_destroy(store);
    bad_init(&bad, LONG_MAX);
    bad.open_code = ENFILE;
    store = world_open_as(w, "toy", 1 << 20, &bad.io);
    rn_store_stats stats = {0};
    for (int i = 0; i < 1000 && stats.errors < PAGES; i++) {
        usleep(10000);
        page_store_get_stats(store, &stats);
    }
    assert_true(stats.errors == PAGES && stats.pages == PAGES);
    page_store_look_often(store);
    usleep(100000);
    page_store_get_stats(store, &stats);
    assert_int_equal(stats.errors, PAGES); // not tried again yet
    assert_int_equal(count_known(store), 0);
    pthread_mutex_lock(&store->lock);
    store->pause_ms = 1;
    pthread_mutex_unlock(&store->lock);
    for (int n = 0; n < PAGES; n++) {
        const struct page_name name = world_name(store, 0, n);
        page_store_hide(store, &name);
    }
    bad.open_code = 0;
    for (int n = 0; n < PAGES; n++) {
        const struct page_name name = world_name(store, 0, n);
        assert_true(waits_for(store, &name));
    }
    assert_int_equal(world_fetch(w, store, 0, PAGES), FETCH_DONE);
    for (int i = 0; i < 1000 && count_known(store) < PAGES; i++) usleep(10000);
    assert_int_equal(count_known(store), PAGES);
    page_store_destroy(store);
    world_free(w);
}

// A page that is computed again is stored again, and found at once.
CASE(a_page_that_could_not_be_read_is_written_anew) {
    struct store_world *w = world_make(24);
    struct page_store *store = world_open(w);
    const struct page_name name = world_name(store, 0, 0);
    world_offer(w, store, 0, 0, 0);
    world_drain(store);
    page_store_hide(store, &name);
    assert_false(page_store_has(store, &name));
    world_offer(w, store, 0, 0, 0);
    world_drain(store);
    assert_int_equal(world_fetch(w, store, 0, 1), FETCH_DONE);
    rn_store_stats stats;
    page_store_get_stats(store, &stats);
    assert_true(stats.written == 2 && stats.pages == 1);
    assert_int_equal(store->index.entry[page_index_find(&store->index, &name)].again_ns, 0);
    page_store_destroy(store);
    world_free(w);
}

// Pages of another server that can never be read, as those of another user, take room like all
// others. So they go as others do when a page needs it.
CASE(pages_that_cannot_be_read_make_room_too) {
    enum { PAGES = 10, OWN = 3 };
    struct store_world *w = world_make(25);
    const uint64_t most = PAGES * world_bytes[0];
    struct bad_system bad;
    bad_init(&bad, LONG_MAX);
    bad.open_code = EACCES;
    struct page_store *store = world_open_as(w, "toy", most, &bad.io);
    struct page_store *other = world_open_as(w, "toy", most, NULL);
    for (int n = 0; n < PAGES; n++) world_offer(w, other, 0, n, (uint32_t)n);
    world_drain(other);
    page_store_destroy(other);
    page_store_look_often(store);
    rn_store_stats stats = {0};
    for (int i = 0; i < 1000 && stats.errors < PAGES; i++) {
        usleep(10000);
        page_store_get_stats(store, &stats);
    }
    assert_true(stats.errors == PAGES && stats.bytes == most);
    for (int n = 0; n < OWN; n++) world_offer(w, store, 2, n, (uint32_t)n);
    world_drain(store);
    page_store_get_stats(store, &stats);
    check(stats.written == OWN && stats.dropped == 0, "%d pages were written", (int)stats.written);
    assert_true(stats.evictions == OWN && stats.bytes == most);
    page_store_destroy(store);
    world_free(w);
}

CASE(old_pages_make_room_and_the_size_is_kept) {
    struct store_world *w = world_make(9);
    const uint64_t most = 10 * world_bytes[0];
    struct page_store *store = world_open_as(w, "toy", most, NULL);
    rn_store_stats stats;
    for (int i = 0; i < 40; i++) {
        world_offer(w, store, 2 * i, 0, 0);
        world_drain(store);
        page_store_get_stats(store, &stats);
        assert_true(stats.bytes <= most);
    }
    assert_int_equal(stats.pages, 10);
    assert_int_equal(stats.evictions, 30);
    assert_int_equal(store_folder_pages(w->folder.path, NULL, NULL), 10);
    page_store_destroy(store);
    store = world_open_as(w, "toy", 4 * world_bytes[0], NULL); // a smaller one, after a restart
    world_wait_pages(w, 4);
    page_store_destroy(store);
    world_free(w);
}

// A process that is killed at any call, again and again: half of a write, a rename that is missing.
CASE(a_crash_at_any_moment_leaves_right_pages_or_none) {
    struct store_world *w = world_make(10);
    const int n_restarts = test_scale(40, 100, 1000);
    int n_found = 0, n_over = 0;
    for (int i = 0; i < n_restarts; i++) {
        struct bad_system bad;
        bad_init(&bad, 1 + (long)(world_random(w) % 100));
        struct page_store *store = world_open_as(w, "toy", 60 * world_bytes[0], &bad.io);
        const int chain = (int)(world_random(w) % 12); // more than the store holds
        for (int n = 0; page_store_is_ready(store) && n < 16; n++)
            world_offer(w, store, chain, n, 32 + (uint32_t)n); // slots that no fetch fills
        if (page_store_is_ready(store) && i % 2) world_fetch(w, store, chain, 8);
        page_store_destroy(store);
        n_over += atomic_load(&bad.is_over);
        store = world_open_as(w, "toy", 60 * world_bytes[0], NULL);
        for (int n = 0; n < 16; n++) {
            const struct page_name name = world_name(store, chain, n);
            uint8_t bytes[WORLD_MOST_BYTES];
            const enum page_file_status status =
                page_file_get(&store->dir, &name, world_bytes[name.group], &record, bytes);
            check(status == PAGE_FILE_OK || status == PAGE_FILE_MISSING, "restart %d: %d", i,
                  (int)status);
            if (status == PAGE_FILE_OK) assert_true(world_is_right(&name, bytes));
            n_found += status == PAGE_FILE_OK;
        }
        page_store_destroy(store);
    }
    print_message("%d restarts, %d in the middle of work, %d pages found\n", n_restarts, n_over,
                  n_found);
    assert_true(n_over > n_restarts / 4 && n_found > n_restarts);
    world_free(w);
}

// ---------------------------------------------------------------- a folder that others change

// Nobody waits for the other end of a pipe.
CASE(a_pipe_in_the_place_of_a_file_is_a_wrong_file) {
    struct store_world *w = world_make(13);
    struct page_store *store = world_open(w);
    char path[400], slot[PAGE_SMALL_NAME], got[10];
    const struct page_name name = world_name(store, 0, 0);
    uint8_t bytes[WORLD_MOST_BYTES];
    world_offer(w, store, 0, 0, 0);
    world_drain(store);
    world_path(w, &name, path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(page_file_get(&store->dir, &name, world_bytes[0], &record, bytes),
                     PAGE_FILE_BAD);
    page_small_name("slots", &name.key, slot);
    assert_int_equal(mkfifoat(store->dir.fd, slot, 0600), 0);
    assert_int_equal(page_small_get(&store->dir, slot, got, sizeof got), -1);
    page_store_destroy(store);
    world_free(w);
}

CASE(a_folder_that_was_emptied_is_used_again) {
    struct store_world *w = world_make(14);
    struct page_store *store = world_open_as(w, "toy", 10 * world_bytes[0], NULL);
    rn_store_stats stats;
    for (int n = 0; n < 10; n++) world_offer(w, store, 0, n, (uint32_t)n);
    world_drain(store);
    store_folder_empty(&w->folder);
    page_store_look_often(store);
    for (int i = 0; i < 2000; i++) {
        page_store_get_stats(store, &stats);
        if (stats.pages == 0) break;
        usleep(5000);
    }
    assert_true(stats.pages == 0 && stats.bytes == 0);
    for (int n = 0; n < 10; n++) world_offer(w, store, 2, n, (uint32_t)n);
    world_drain(store);
    page_store_get_stats(store, &stats);
    check(stats.pages == 10 && stats.evictions == 0 && stats.errors == 0, "%d pages, %d evictions",
          (int)stats.pages, (int)stats.evictions);
    assert_int_equal(store_folder_pages(w->folder.path, NULL, NULL), 10);
    page_store_destroy(store);
    world_free(w);
}

// Each says that it continues the other, so neither may go first. The size is kept all the same.
CASE(files_that_lie_about_their_chain_do_not_make_the_store_grow) {
    struct store_world *w = world_make(15);
    struct page_store *store = world_open(w);
    uint8_t bytes[WORLD_MOST_BYTES];
    struct page_facts a = world_facts(store, 0, 0, 1), b = world_facts(store, 0, 1, 1);
    a.parent = b.name.key;
    world_fill(&a.name, bytes);
    assert_int_equal(page_file_put(&store->dir, &a, bytes), 0);
    world_fill(&b.name, bytes);
    assert_int_equal(page_file_put(&store->dir, &b, bytes), 0);
    page_store_destroy(store);
    store = world_open_as(w, "toy", 3 * world_bytes[0], NULL);
    for (int n = 0; n < 6; n++) world_offer(w, store, 2 + 2 * n, 0, (uint32_t)n);
    world_drain(store);
    assert_int_equal(store_folder_pages(w->folder.path, NULL, NULL), 3);
    page_store_destroy(store);
    store = world_open_as(w, "toy", world_bytes[0], NULL);
    for (int n = 0; n < 6; n++) world_offer(w, store, 20 + 2 * n, 0, (uint32_t)n);
    world_drain(store);
    assert_int_equal(store_folder_pages(w->folder.path, NULL, NULL), 2); // those alone
    page_store_destroy(store);
    world_free(w);
}

CASE(a_folder_that_any_user_may_write_to_is_told) {
    struct store_world *w = world_make(16);
    struct page_store *store = world_open(w);
    page_store_destroy(store);
    assert_int_equal(w->n_notes, 0);
    assert_int_equal(chmod(w->folder.path, 0777), 0);
    store = world_open(w);
    assert_int_equal(w->n_notes, 1);
    assert_non_null(strstr(w->note, "any user may write"));
    page_store_destroy(store);
    world_free(w);
}

// ---------------------------------------------------------------- two servers

CASE(two_stores_share_a_folder) {
    struct store_world *w = world_make(11);
    struct page_store *a = world_open(w), *b = world_open(w);
    for (int n = 0; n < 8; n++) world_offer(w, a, 0, n, (uint32_t)n);
    world_drain(a);
    const struct page_name last = world_name(b, 0, 7);
    page_store_look_often(b);
    for (int i = 0; i < 1000 && !page_store_has(b, &last); i++) usleep(10000);
    assert_int_equal(world_fetch(w, b, 0, 8), FETCH_DONE);
    for (int n = 0; n < 8; n++) {
        const struct page_name name = world_name(b, 0, n);
        assert_true(world_is_right(&name, w->page[0][n]));
    }
    // one of them evicts all; the other one finds nothing, and goes on
    page_store_destroy(a);
    a = world_open_as(w, "toy", 1, NULL);
    world_wait_pages(w, 0);
    page_store_destroy(a); // it would evict the next page too
    assert_int_equal(world_fetch(w, b, 0, 8), FETCH_FAILED);
    rn_store_stats stats;
    page_store_get_stats(b, &stats);
    assert_true(stats.errors == 0 && stats.removed == 0);
    world_offer(w, b, 0, 0, 0);
    world_drain(b);
    assert_int_equal(world_fetch(w, b, 0, 1), FETCH_DONE);
    page_store_destroy(b);
    world_free(w);
}

// ---------------------------------------------------------------- small files

TEST_PROGRAM(page_store) { return cases_run(NULL, NULL); }
