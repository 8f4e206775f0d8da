// The record of a request: a written document is read back, wrong documents are refused by their
// place, and the words say the record's figures, which add up.
#define _GNU_SOURCE 1 // asprintf
#include <stdio.h>

#include "check.h"
#include "explain/picture.h"
#include "made_record.h"
#include "record/split.h"
#include "record/words.h"

static struct record record;
static struct record_choice choice;

// Every case starts from the same record.
static int setup(void **state) {
    made_record(&record, &choice);
    return 0;
}
#define RECORD_CASE(name) CASE_WITH(name, setup, NULL)

static char *written(const struct record *from) {
    struct jbuf out = {0};
    record_write(&out, from);
    jbuf_bytes(&out, "", 1);
    assert_false(out.failed);
    return out.data;
}

static const char *words(void (*write)(struct jbuf *, const struct record *,
                                       const struct record_choice *)) {
    static char text[4096];
    struct jbuf out = {0};
    write(&out, &record, &choice);
    assert_true(!out.failed && out.len < sizeof text);
    memcpy(text, out.data ? out.data : "", out.len);
    text[out.len] = '\0';
    jbuf_deinit(&out);
    return text;
}

static void has(const char *text, const char *part) {
    check(strstr(text, part), "'%s' does not hold '%s'", text, part);
}

// ---------------------------------------------------------------- the document

RECORD_CASE(a_record_is_read_back_as_it_was) {
    char *text = written(&record);
    struct record back;
    rn_error err = {0};
    check(!record_read("made", text, strlen(text), &back, &err), "%s", err.message);
    assert_int_equal(back.n_choices, 1);
    assert_memory_equal(&back.choice->account, &choice.account, sizeof choice.account);
    assert_memory_equal(&back.choice->timings, &choice.timings, sizeof choice.timings);
    assert_memory_equal(&back.engine, &record.engine, sizeof record.engine);
    assert_string_equal(back.model, record.model);
    char *again = written(&back);
    assert_string_equal(again, text);
    free(again);
    free(text);
    record_free(&back);
}

RECORD_CASE(running_and_full_accounts_are_read_back) {
    choice.finish = RN_FINISH_NONE;
    rn_account *account = &choice.account;
    while (account->n_slow < RN_SLOW_GAPS) account->slow[account->n_slow++] = account->slow[0];
    while (account->n_spans < RN_SPANS) account->span[account->n_spans++] = account->span[0];
    char *text = written(&record);
    struct record back;
    rn_error err = {0};
    check(!record_read("made", text, strlen(text), &back, &err), "%s", err.message);
    assert_int_equal(back.choice->finish, RN_FINISH_NONE);
    assert_memory_equal(&back.choice->account, account, sizeof *account);
    has(text, "\"state\":\"running\"");
    free(text);
    record_free(&back);
}

// The first `from` of the document becomes `to`; the message holds `part` and starts with the name.
static void refused(const char *from, const char *to, const char *part) {
    char *text = written(&record), *at = strstr(text, from), *wrong = NULL;
    check(at, "no '%s'", from);
    const size_t n = (size_t)(at - text);
    assert_true(asprintf(&wrong, "%.*s%s%s", (int)n, text, to, at + strlen(from)) > 0);
    struct record back;
    rn_error err = {0};
    check(record_read("made.json", wrong, strlen(wrong), &back, &err) == RN_ERR_ARG,
          "'%s' for '%s' is taken", to, from);
    check(!strncmp(err.message, "made.json: ", 11) && strstr(err.message, part),
          "'%s' does not hold '%s'", err.message, part);
    assert_null(back.choice);
    free(wrong);
    free(text);
}

RECORD_CASE(wrong_documents_are_refused_by_their_place) {
    refused("\"version\":1", "\"version\":2", "version 2 of the schema, expected 1");
    refused("runnel.request", "other.request", "no document of the schema");
    refused("\"schema\":", "\"scheme\":", "no document of the schema");
    refused("\"prompt_tokens\":1024", "\"prompt_tokens\":-1",
            "'prompt_tokens' is out of its range");
    refused("\"prompt_tokens\":1024", "\"prompt_tokens\":1e3", "offset");
    refused("\"prompt_tokens\":1024", "\"prompt_tokenz\":1024", "'prompt_tokenz' is no member");
    refused("\"prompt_tokens\":1024,", "", "'prompt_tokens' is missing");
    refused("\"n\":1,", "\"n\":1,\"n\":1,", "'n' is there twice");
    refused("\"pages\":640000000", "\"pages\":639999999", "does not add up");
    refused("\"pages\":640000000", "\"pages\":960000000", "more than its 'ns'");
    refused("\"pages\":640000000", "\"papers\":640000000", "a cause that is not known");
    refused("\"finish\":\"stop\"", "\"finish\":\"dead\"", "no way to finish");
    refused("\"choices\":[", "\"choices\":[1,", "offset");
    refused("\"spans\":[[", "\"spans\":[[7,", "expected a string");
    refused("5,\"weights\"]", "5,\"weights\",1]", "spans");
    refused("chatcmpl-made", "chatcmpl-\\u0000made", "'id' has a NUL");
    refused("]]}}]}", "]]}}]", "offset");
    refused("]]}}]}", "]]}}]} x", "offset");
}

// Every prefix of a document is refused, whatever it is cut in.
RECORD_CASE(cut_documents_are_refused) {
    char *text = written(&record);
    const size_t len = strlen(text);
    for (size_t n = 0; n < len; n += 7) {
        struct record back;
        check(record_read("cut", text, n, &back, NULL) == RN_ERR_ARG, "%zu bytes are taken", n);
    }
    free(text);
}

// Bytes of a document become others: it is refused or taken, and nothing else happens.
RECORD_CASE(damaged_documents_do_no_harm) {
    char *text = written(&record);
    const size_t len = strlen(text);
    uint64_t seed = 5;
    int taken = 0;
    for (int round = 0; round < 3000; round++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const size_t at = (size_t)(seed >> 33) % len;
        const char before = text[at];
        text[at] = (char)(seed >> 24);
        struct record back;
        rn_error err = {0};
        if (record_read("damaged", text, len, &back, &err) == RN_OK) {
            char *again = written(&back);
            free(again);
            record_free(&back);
            taken++;
        } else {
            check(!strncmp(err.message, "damaged: ", 9), "'%s'", err.message);
        }
        text[at] = before;
    }
    check(taken > 0 && taken < 3000, "%d are taken", taken);
    free(text);
}

// ---------------------------------------------------------------- the words

RECORD_CASE(the_words_are_the_figures) {
    const char *text = words(words_write);
    has(text, "812 ms to first token: 640 ms waiting for KV pages, most of them held by request "
              "17, 160 ms its own prompt (1,024 tokens, 71% of peak), 12 ms reading weights");
    has(text, "Then 100 tokens in 1,000 ms, 10.0 ms a token (100.0 tokens/s). Of the time between "
              "tokens: 91% reading weights at 93% of bandwidth, 8% prompts of others (512 tokens "
              "of request 31 in a step), 1% ");
    has(text, "Slowest gap 94.0 ms at token 42, 9.4 times the mean: 80.0 ms prompts of others (512 "
              "tokens of request 31 in a step), 14.0 ms reading weights.");
    has(text, "KV cache 1.2 MB for 1,125 tokens");
    assert_null(strstr(text, "Drafts"));
}

RECORD_CASE(a_small_cache_is_in_kb) {
    record.engine.kv_token_bytes = 10;
    has(words(words_write), "KV cache 11.5 kB for 1,125 tokens"); // 36 pages of 32 tokens
}

RECORD_CASE(every_cause_has_the_words_of_the_charts) {
    for (int i = RN_CAUSE_NONE + 1; i < RN_CAUSE_COUNT; i++) {
        char sentence[128];
        choice.account.first = (rn_share){0};
        made_share(&choice.account.first, (rn_cause)i, MS(50));
        snprintf(sentence, sizeof sentence, "50.0 ms to first token: 50.0 ms %s",
                 rn_cause_text((rn_cause)i));
        has(words(words_write), sentence);
    }
}

RECORD_CASE(choices_without_a_record_are_counted) {
    assert_null(strstr(words(words_write), "no record"));
    record.n = 2;
    has(words(words_write), "\n1 of its 2 choices has no record: it is running, or "
                            "--keep-requests is too low.");
    record.n = 4;
    has(words(words_write), "\n3 of its 4 choices have no record: they are running, or ");
    struct record_choice both[2] = {choice, choice};
    struct jbuf out = {0};
    record.choice = both;
    record.n_choices = 2;
    words_write(&out, &record, &both[0]); // only the last one says it
    jbuf_bytes(&out, "", 1);
    assert_null(strstr(out.data, "no record"));
    jbuf_deinit(&out);
}

// ---------------------------------------------------------------- the picture

// Without colour, so a block is a letter.
static char *drawn(int columns) {
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    const struct picture picture = {.out = out, .columns = columns};
    assert_true(picture_print(&picture, &record));
    fclose(out);
    return text;
}

RECORD_CASE(its_own_prompt_is_the_last_block_before_the_first_token) {
    for (int columns = 50; columns <= 100; columns++) {
        char *text = drawn(columns);
        char *mark = strstr(text, "^ first token");
        assert_non_null(mark);
        char *line = mark, *strip;
        while (line[-1] != '\n') line--;
        const long at = mark - line;
        for (strip = line - 1; strip[-1] != '\n';) strip--;
        check(strip[at - 1] == 'p' && strip[at] == 'w', "%d columns: %.*s", columns,
              (int)(line - strip), strip);
        assert_true(strip[2] == 'g');
        free(text);
    }
    // 0.6% of the time, far less than a block
    choice.account.first = (rn_share){0};
    made_share(&choice.account.first, RN_CAUSE_OWN_PROMPT, MS(5));
    made_share(&choice.account.first, RN_CAUSE_QUEUE, MS(807));
    char *text = drawn(60);
    has(text, "qp");
    has(text, "p its own prompt");
    free(text);
}

RECORD_CASE(tiny_parts_are_one_row_and_no_block) {
    rn_share *first = &choice.account.first;
    *first = (rn_share){0};
    made_share(first, RN_CAUSE_QUEUE, MS(800));
    made_share(first, RN_CAUSE_HOST, MS(3));
    made_share(first, RN_CAUSE_KV, MS(3));
    made_share(first, RN_CAUSE_OWN_PROMPT, MS(6));
    choice.account.decode = (rn_share){0};
    choice.account.n_spans = choice.account.n_slow = 0;
    char *text = drawn(100);
    has(text, "    waiting for a place  800 ms   99%  qqq");
    has(text, "    its own prompt         6 ms    1%  p\n");
    has(text, "    other                  6 ms    0%\n");
    assert_null(strstr(text, "work between steps"));
    assert_null(strchr(strstr(text, "other  "), 'k'));
    free(text);
}

RECORD_CASE(a_request_without_a_token_says_so) {
    choice.account.first_ns = choice.account.last_ns = 0;
    choice.timings.output_tokens = 0;
    choice.account.decode = (rn_share){0};
    choice.account.n_slow = choice.account.n_spans = 0;
    has(words(words_write), "No token in 812 ms: 640 ms waiting");
    choice.finish = RN_FINISH_NONE;
    has(words(words_write), "No token yet after 812 ms: ");
}

RECORD_CASE(drafts_say_what_they_gave) {
    choice.timings.draft_tokens = 60;
    choice.timings.accepted_tokens = 45;
    choice.timings.undrafted_ms = 2000;
    has(words(words_write), "45 of 60 drafted tokens accepted, 2.00 times the speed without.");
}

// Advice names options where their cause dominates, and is silent otherwise.
RECORD_CASE(advice_follows_the_causes) {
    has(words(words_advise), "--kv-memory");
    has(words(words_advise), "--kv-type int8");
    has(words(words_advise), "or drafts (--speculate, --draft)");
    assert_null(strstr(words(words_advise), "--itl-ms"));
    choice.account.first = (rn_share){0};
    choice.account.decode = (rn_share){0};
    made_share(&choice.account.first, RN_CAUSE_OWN_PROMPT, MS(10));
    made_share(&choice.account.decode, RN_CAUSE_PROMPTS, MS(300));
    made_share(&choice.account.decode, RN_CAUSE_STREAMS, MS(700));
    has(words(words_advise), "--itl-ms N");
    has(words(words_advise), "--max-seqs (now 8)");
    assert_null(strstr(words(words_advise), "--kv-memory"));
    record.engine.itl_ms = 40;
    has(words(words_advise), "an --itl-ms below 40");
    choice.account.first = (rn_share){0};
    made_share(&choice.account.first, RN_CAUSE_QUEUE, MS(10));
    choice.account.first.streams = 3; // of 8 places
    assert_null(strstr(words(words_advise), "waited for a place"));
    choice.account.first.streams = 8;
    has(words(words_advise), "waited for a place: --max-seqs (now 8)");
    choice.account.first = (rn_share){0};
    choice.account.decode = (rn_share){0};
    made_share(&choice.account.decode, RN_CAUSE_CHOICE, MS(100));
    assert_string_equal(words(words_advise), "");
}

// ---------------------------------------------------------------- sums

// Parts are rounded, and add up to the rounded total, for every scale.
CASE(parts_add_up) {
    uint64_t seed = 7;
    for (int round = 0; round < 2000; round++) {
        rn_share share = {0};
        for (int i = 1; i < RN_CAUSE_COUNT; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if (seed >> 62) made_share(&share, (rn_cause)i, (seed >> 20) >> (round % 40));
        }
        const struct split_scale scale = split_scale(share.ns);
        struct split split;
        uint64_t sum = 0;
        split_time(&split, &share, scale.unit_ns);
        for (int i = 0; i < split.n; i++) sum += split.part[i].units;
        assert_int_equal(sum, split.units);
        check(split.units * scale.unit_ns <= share.ns + scale.unit_ns / 2 &&
                  (split.units + 1) * scale.unit_ns > share.ns,
              "%llu units of %llu ns", (unsigned long long)split.units,
              (unsigned long long)share.ns);
        sum = 0;
        split_percent(&split, &share);
        for (int i = 0; i < split.n; i++) sum += split.part[i].units;
        assert_int_equal(sum, share.ns ? 100 : 0);
    }
}

CASE(times_are_written_with_their_scale) {
    static const struct {
        uint64_t ns;
        const char *text;
    } rows[] = {{MS(812.4), "812 ms"}, {MS(94), "94.0 ms"},        {MS(9.4), "9.40 ms"},
                {450000, "0.450 ms"},  {MS(9999), "9,999 ms"},     {MS(12344), "12.34 s"},
                {0, "0.000 ms"},       {MS(1234567), "1,234.57 s"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct split_scale scale = split_scale(rows[i].ns);
        char text[SPLIT_TEXT_BYTES];
        assert_string_equal(split_text(&scale, (rows[i].ns + scale.unit_ns / 2) / scale.unit_ns,
                                       text),
                            rows[i].text);
    }
}

TEST_PROGRAM(record) { return cases_run(NULL, NULL); }
