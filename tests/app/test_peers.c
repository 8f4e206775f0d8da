// Words of llama.cpp, vLLM and Ollama: taken, or refused in one line that says what to use.
#include "options/peers.h"

#include "app/parsed.h"

static void each_spelling(void (*fn)(enum command_id command, const struct peer *peer,
                                     const char *spelling)) {
    const struct peer *peer;
    for (int i = 0; (peer = peer_at(i)); i++) {
        char words[512];
        assert_true(strlen(peer->spellings) < sizeof words && peer->commands);
        for (int command = 0; command < COMMAND_COUNT; command++) {
            if (!(peer->commands >> command & 1u)) continue;
            strcpy(words, peer->spellings);
            for (char *rest = words, *word; (word = strsep(&rest, "|"));)
                fn((enum command_id)command, peer, word);
        }
    }
}

// A word that is an option of the command as well would never reach its row.
static void spelling_reaches_its_row(enum command_id command, const struct peer *peer,
                                     const char *spelling) {
    const size_t len = strlen(spelling);
    check(spelling[0] == '-' && len > 1, "'%s'", spelling);
    check(option_find_alias(command, spelling, len) < 0, "%s is an alias", spelling);
    if (spelling[1] == '-')
        check(option_find(command, spelling + 2, len - 2) < 0, "%s %s is an option",
              command_name(command), spelling);
    // LOADS covers all commands, one of which may have the letter
    check(peer_find(command, spelling) == peer, "%s: %s has two rows", command_name(command),
          spelling);
    if (peer->kind != PEER_SETS && peer->kind != PEER_LAYERS) return;
    struct option_row row;
    check(option_row_get(command, peer->id, &row), "%s: %s", command_name(command), spelling);
}

CASE(every_spelling_reaches_its_row) { each_spelling(spelling_reaches_its_row); }

// Taken with a note, which --quiet leaves out; its value is the next argument, and no more.
static void harmless_is_taken(enum command_id command, const struct peer *peer,
                              const char *spelling) {
    char *flag = (char *)(uintptr_t)spelling, value[64], note[256];
    const bool has_value = *peer->values, is_any = !strcmp(peer->values, PEER_ANY_VALUE);
    snprintf(value, sizeof value, "%.*s", (int)strcspn(peer->values, "|"), peer->values);
    snprintf(note, sizeof note, "runnel: %s: not needed here: %s\n", spelling, peer->text);
    struct parsed p;
    parse(&p, command, flag, has_value ? value : NULL, NULL);
    check_accepted(&p);
    assert_string_equal(p.errors.text, note);
    check(!p.options.value[OPT_MODEL].origin && !p.options.value[OPT_LOSS].origin &&
              !p.options.positional,
          "%s: %s leaves its value", command_name(command), spelling);
    parsed_free(&p);
    if (!has_value) return;
    parse(&p, command, flag);
    check_refused(&p, "needs a value: ");
    if (is_any) return;
    snprintf(note, sizeof note, "%s no-such: %.120s", spelling, peer->text);
    parse(&p, command, flag, "no-such");
    check_refused(&p, note);
}

static void row_does_what_it_says(enum command_id command, const struct peer *peer,
                                  const char *spelling) {
    struct parsed p;
    if (peer->kind == PEER_HARMLESS) {
        harmless_is_taken(command, peer, spelling);
        return;
    }
    parse(&p, command, (char *)(uintptr_t)spelling);
    switch (peer->kind) {
    case PEER_INSTEAD: {
        char expected[256];
        snprintf(expected, sizeof expected, "runnel: %s: %s\n", spelling, peer->text);
        assert_string_equal(p.errors.text, expected);
        check_refused(&p, expected);
        return;
    }
    case PEER_LAYERS:
        check_refused(&p, "needs a value: N");
        return;
    case PEER_SETS:
        check_accepted(&p);
        assert_true(p.options.value[peer->id].origin == ORIGIN_COMMAND_LINE);
        break;
    default:
        check_accepted(&p);
    }
    parsed_free(&p);
}

CASE(every_row_does_what_it_says) { each_spelling(row_does_what_it_says); }

CASE(layers_choose_the_backend) {
    static char *const all[] = {"99", "999", "-1", "all", "auto"};
    struct parsed p;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        parse(&p, COMMAND_RUN, "-ngl", all[i], "-n", "3");
        check_accepted(&p);
        assert_false(option_given(&p.options, OPT_BACKEND));
        assert_int_equal(option_int(&p.options, OPT_MAX_TOKENS), 3);
        parsed_free(&p);
    }
    parse(&p, COMMAND_SERVE, "--n-gpu-layers=0", "-ngld", "0", "-np", "4");
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_BACKEND), "cpu");
    assert_string_equal(option_text(&p.options, OPT_DRAFT_BACKEND), "cpu");
    assert_int_equal(option_int(&p.options, OPT_MAX_SEQS), 4);
    parsed_free(&p);
    refused("-ngl 20: a model runs as a whole on one backend: --backend cpu", COMMAND_RUN, "-ngl",
            "20");
    refused("-ngl x: a model runs", COMMAND_RUN, "-ngl", "x");
}

CASE(bench_has_json_as_other_commands_do) {
    struct parsed p;
    parse(&p, COMMAND_BENCH, "-o", "csv", "--json");
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_OUTPUT), "json");
    parsed_free(&p);
}

CASE(repositories_are_models_by_name_and_0_is_the_models_context) {
    static char *const flags[][2] = {{"-hf", "-hfd"},
                                     {"-hfr", "-hfrd"},
                                     {"--hf-repo", "--hf-repo-draft"}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        struct parsed p;
        parse(&p, COMMAND_RUN, flags[i][0], "owner/name:Q8_0", flags[i][1], "owner/small", "-c",
              "0");
        check_accepted(&p);
        assert_string_equal(option_text(&p.options, OPT_MODEL), "owner/name:Q8_0");
        assert_string_equal(option_text(&p.options, OPT_DRAFT), "owner/small");
        assert_int_equal(option_int(&p.options, OPT_CTX), 0);
        parsed_free(&p);
    }
}

CASE(words_behind_a_flag_are_its_own_or_the_next_argument) {
    struct parsed p;
    parse(&p, COMMAND_RUN, "-fa", "on", "a.gguf", "-fa", "hi", "--flash-attn=1", "-fa", "-q");
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_MODEL), "a.gguf");
    assert_string_equal(option_text(&p.options, OPT_PROMPT), "hi");
    assert_true(option_flag(&p.options, OPT_QUIET));
    parsed_free(&p);
    refused("-fa off: attention is always", COMMAND_RUN, "-fa", "off");
    refused("--flash-attn maybe: attention", COMMAND_RUN, "--flash-attn=maybe");
    refused("-cnv: takes no value", COMMAND_RUN, "-cnv=yes");
}

CASE(harmless_flags_are_named_once_unless_quiet) {
    struct parsed p;
    parse(&p, COMMAND_SERVE, "--no-warmup", "--poll", "50", "--poll=0", "-ub", "512", "a.gguf");
    check_accepted(&p);
    assert_string_equal(p.errors.text,
                        "runnel: --no-warmup: not needed here: there is no warm-up run\n"
                        "runnel: --poll: not needed here: how threads wait is measured\n"
                        "runnel: -ub: not needed here: a step is one batch, of --batch-tokens N "
                        "(-b)\n");
    assert_string_equal(option_text(&p.options, OPT_MODEL), "a.gguf");
    parsed_free(&p);
    parse(&p, COMMAND_BENCH, "--no-warmup", "-mmp", "0", "-q", "-n", "8");
    check_accepted(&p);
    assert_string_equal(p.errors.text, "");
    assert_null(p.options.value[OPT_MODEL].list);
    parsed_free(&p);
    refused("--enforce-eager: takes no value", COMMAND_SERVE, "--enforce-eager=1");
    refused("--response-role bot: the role is always assistant", COMMAND_SERVE, "--response-role",
            "bot");
}

CASE(all_harmless_flags_of_a_command_have_their_notes_at_once) {
    static char words[1 << 13];
    char *flags[OPTIONS_HARMLESS + 1] = {NULL}, *at = words;
    const struct peer *peer;
    struct parsed p;
    int n = 0, n_lines = 0;
    for (int i = 0; (peer = peer_at(i)); i++) {
        if (peer->kind != PEER_HARMLESS || *peer->values) continue;
        if (!(peer->commands >> COMMAND_SERVE & 1u)) continue;
        const size_t size = strlen(peer->spellings) + 1;
        assert_true(size <= (size_t)(words + sizeof words - at));
        char *rest = memcpy(at, peer->spellings, size);
        for (char *word; (word = strsep(&rest, "|"));) flags[n++] = word;
        at += size;
    }
    check(n > 32, "%d flags", n);
    parse_list(&p, COMMAND_SERVE, flags);
    check_accepted(&p);
    for (const char *c = p.errors.text; *c; c++) n_lines += *c == '\n';
    assert_int_equal(n_lines, n);
    parsed_free(&p);
}

// options.h has room for as many.
CASE(harmless_flags_of_every_command_fit) {
    const struct peer *peer;
    for (int command = 0; command < COMMAND_COUNT; command++) {
        int n = 0;
        for (int i = 0; (peer = peer_at(i)); i++) {
            if (peer->kind != PEER_HARMLESS || !(peer->commands >> command & 1u)) continue;
            for (const char *c = peer->spellings; c; c = strchr(c + 1, '|')) n++;
        }
        check(n <= OPTIONS_HARMLESS, "%s has %d", command_name((enum command_id)command), n);
    }
}

TEST_PROGRAM(peers) { return cases_run(NULL, NULL); }
