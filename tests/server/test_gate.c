// Access: names by which a page of another site could have reached us are refused, in any form.
// Keys are compared as a whole.
#include "gate.h"

#include <string.h>

#include "check.h"

static const char *const keys[] = {"sk-one", "sk-another-key"};
static const char *const hosts[] = {"models.example"};
static const char *const origins[] = {"https://app.example"};

static struct server_config config_of(bool with_hosts) {
    return (struct server_config){.host = "192.0.2.7", .hosts = hosts, .n_hosts = with_hosts};
}

// Browsers send an address in its usual form alone, and a port that is not the scheme's own.
static const struct {
    const char *host;
    bool allowed;
} forms[] = {
    {"localhost", true},
    {"LocalHost:8080", true},
    {"ui.localhost:1", true},
    {"UI.LOCALHOST", true},
    {"127.0.0.1", true},
    {"127.0.0.1:8080", true},
    {"10.1.2.3", true},
    {"192.0.2.7:8080", true},
    {"[::1]", true},
    {"[::1]:8080", true},
    {"[::1]:1", true},
    {"[::1]:65535", true},
    {"[2001:DB8::1]", true},
    {"[::ffff:127.0.0.1]:80", true},
    {"", false},
    {"evil.example", false},
    {"evil.example:8080", false},
    {"localhost.evil.example", false},
    {"127.0.0.1.evil.example", false},
    {"evillocalhost", false},
    {".localhost", false},
    {"models.example", false},
    // behind the bracket
    {"[::1].evil.example", false},
    {"[::1]evil.example", false},
    {"[::1].evil.example:80", false},
    {"[::1]8080", false},
    {"[::1]]", false},
    {"[::1]@evil.example", false},
    {"[::1]:80.evil.example", false},
    {"[::1", false},
    {"[", false},
    {"[]", false},
    {"[]:80", false},
    {"]", false},
    // in brackets there is an IPv6 address without a zone
    {"[localhost]", false},
    {"[127.0.0.1]", false},
    {"[192.0.2.7]", false},
    {"[::1%lo]", false},
    {"[fe80::1%25eth0]", false},
    {"[::1 ]", false},
    {"[[::1]]", false},
    {"::1", false},
    {"::1:80", false},
    // ports
    {":8080", false},
    {"localhost:", false},
    {"[::1]:", false},
    {"localhost:0", false},
    {"localhost:65536", false},
    {"localhost:000080", false},
    {"localhost:99999999999999999999", false},
    {"localhost:80a", false},
    {"localhost:+80", false},
    {"localhost:-1", false},
    {"localhost: 80", false},
    {"localhost:80:80", false},
    {"localhost:80@evil.example", false},
    {"127.0.0.1:x@evil.example", false},
    // dots, users, lists, blanks
    {"localhost.", false},
    {"127.0.0.1.", false},
    {".127.0.0.1", false},
    {"user@localhost", false},
    {"evil.example@ui.localhost", false},
    {"evil.example/ui.localhost", false},
    {"127.0.0.1 evil.example", false},
    {"localhost,evil.example", false},
    {" localhost", false},
    // IPv4 in other forms
    {"0x7f.1", false},
    {"0x7f000001", false},
    {"2130706433", false},
    {"127.1", false},
    {"127.0.1", false},
    {"0177.0.0.1", false},
    {"127.0.0.01", false},
    {"127.0.0.256", false},
};

CASE(test_only_names_of_this_machine_are_hosts) {
    const struct server_config config = config_of(false);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        check(gate_host(&config, forms[i].host) == forms[i].allowed, "'%s' was %s", forms[i].host,
              forms[i].allowed ? "refused" : "taken");
    char longest[4096];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_false(gate_host(&config, longest));
    assert_true(gate_host(&config, NULL)); // HTTP/1.0: no browser
}

CASE(test_further_hosts_are_those_that_are_configured) {
    struct server_config config = config_of(true);
    assert_true(gate_host(&config, "Models.Example:443"));
    assert_false(gate_host(&config, "xmodels.example"));
    config.keys = keys;
    config.n_keys = 2;
    assert_false(gate_host(&config, "evil.example")); // asked for by name, key or not
    config.n_hosts = 0;
    assert_true(gate_host(&config, "evil.example")); // the key decides
}

CASE(test_origins_are_the_servers_own_or_configured) {
    struct server_config config = config_of(false);
    bool cors = true;
    assert_true(gate_origin(&config, NULL, "localhost:8080", &cors) && !cors);
    assert_true(gate_origin(&config, "http://localhost:8080", "localhost:8080", &cors) && !cors);
    static const char *const bad[] = {"null",
                                      "",
                                      "http://evil.example",
                                      "http://localhost:8081",
                                      "http://localhost:8080.evil.example",
                                      "http://evil.example/localhost:8080",
                                      "https://app.example"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check(!gate_origin(&config, bad[i], "localhost:8080", &cors), "'%s' was taken", bad[i]);
    config.origins = origins;
    config.n_origins = 1;
    assert_true(gate_origin(&config, "https://app.example", "localhost:8080", &cors) && cors);
    assert_false(gate_origin(&config, "https://app.example.evil", "localhost:8080", &cors));
}

// The owner that the header gives; the key must open.
static struct owner owner_by(const struct server_config *config, const char *authorization,
                             const char *api_key) {
    struct owner owner = {7};
    check(gate_key(config, authorization, api_key, &owner), "'%s' does not open", authorization);
    return owner;
}

CASE(test_a_key_opens_as_a_whole_alone) {
    struct server_config config = config_of(false);
    struct owner owner;
    assert_true(owner_is(owner_by(&config, NULL, NULL), (struct owner){0})); // no key is asked for
    config.keys = keys;
    config.n_keys = 2;
    const struct owner one = owner_by(&config, "Bearer sk-one", NULL);
    const struct owner another = owner_by(&config, "bearer   sk-another-key", NULL);
    assert_false(owner_is(one, another));
    assert_true(owner_is(owner_by(&config, "Bearer sk-another-key", "sk-one"), another));
    assert_true(owner_is(owner_by(&config, NULL, "sk-one"), one));
    assert_true(owner_is(owner_by(&config, "Bearer wrong", "sk-one"), one));
    static const char *const bad[] = {"",
                                      "Bearer",
                                      "Bearer ",
                                      "Bearer sk",
                                      "Bearer sk-on",
                                      "Bearer sk-one ",
                                      "Bearer sk-onesk-one",
                                      "Basic sk-one",
                                      "sk-one",
                                      "Bearer sk-onE"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check(!gate_key(&config, bad[i], NULL, &owner), "'%s' opened", bad[i]);
    assert_false(gate_key(&config, NULL, NULL, &owner));
    assert_false(gate_key(&config, NULL, "", &owner));
}

// A restart may bring the keys in another order, or more of them.
CASE(an_owner_is_its_key_and_not_its_place) {
    static const char *const later[] = {"sk-new", "sk-another-key", "sk-one"};
    struct server_config before = config_of(false), after = config_of(false);
    before.keys = keys;
    before.n_keys = 2;
    after.keys = later;
    after.n_keys = 3;
    for (int i = 0; i < 2; i++) {
        const struct owner owner = owner_by(&before, NULL, keys[i]);
        assert_true(owner.hash);
        assert_true(owner_is(owner, owner_by(&after, NULL, keys[i])));
        assert_false(owner_is(owner, owner_by(&after, NULL, "sk-new")));
    }
}

TEST_PROGRAM(gate) { return cases_run(NULL, NULL); }
