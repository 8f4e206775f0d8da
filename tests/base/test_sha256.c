// SHA-256 against the examples of its standard, in pieces of every length.
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "check.h"

static void expect(const char *hex, const uint8_t hash[SHA256_BYTES]) {
    char text[2 * SHA256_BYTES + 1];
    for (int i = 0; i < SHA256_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", hash[i]);
    assert_string_equal(text, hex);
}

CASE(hashes_of_the_standard) {
    static const char *const pairs[][2] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct sha256 sha;
        uint8_t hash[SHA256_BYTES];
        sha256_init(&sha);
        sha256_add(&sha, pairs[i][0], strlen(pairs[i][0]));
        sha256_end(&sha, hash);
        expect(pairs[i][1], hash);
    }
}

CASE(a_million_letters_in_pieces_of_any_length) {
    static char letters[199];
    memset(letters, 'a', sizeof letters);
    struct sha256 sha;
    uint8_t hash[SHA256_BYTES];
    sha256_init(&sha);
    for (size_t done = 0, piece = 1; done < 1000000; piece = piece % sizeof letters + 1) {
        const size_t n = 1000000 - done < piece ? 1000000 - done : piece;
        sha256_add(&sha, letters, n);
        done += n;
    }
    sha256_end(&sha, hash);
    expect("cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", hash);
}

TEST_PROGRAM(sha256) { return cases_run(NULL, NULL); }
