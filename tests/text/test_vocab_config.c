// tokenizer_config.json: the keys that are read, and their effect on a vocabulary.
// label: memory
#include "text/vocab_read.h"

static struct vocab_config config_read(const char *text) {
    const char *const json = json_quoted(text);
    struct vocab_config config;
    rn_error err = {0};
    check(vocab_config_read(json, strlen(json), &arena, &config, &err) == RN_OK, "%s: %s", text,
          err.message);
    return config;
}

static void check_refused(const char *text, const char *words) {
    const char *const json = json_quoted(text);
    struct vocab_config config;
    rn_error err = {0};
    check(vocab_config_read(json, strlen(json), &arena, &config, &err) == RN_ERR_MODEL &&
              strstr(err.message, words) && !strncmp(err.message, "tokenizer_config.json: ", 23),
          "%s: %s", text, err.message);
}

CASE_WITH(silence_is_told_from_no, NULL, vocab_teardown) {
    struct vocab_config c = config_read("{}");
    assert_true(c.add_bos == -1 && c.add_eos == -1 && !c.bos.len && !c.eos.len && !c.unk.len);
    assert_true(!c.chat_template.len && c.n_added == 0);
    c = config_read("{'bos_token':null,'add_bos_token':null,'chat_template':null}");
    assert_true(c.add_bos == -1 && !c.bos.len && !c.chat_template.len);
    c = config_read("{'add_bos_token':false,'add_eos_token':true}");
    assert_true(c.add_bos == 0 && c.add_eos == 1);
}

CASE_WITH(tokens_are_texts_or_objects, NULL, vocab_teardown) {
    const struct vocab_config c =
        config_read("{'bos_token':'<s>','eos_token':{'__type':'AddedToken','content':'<\\/s>',"
                    "'lstrip':false},'unk_token':'<unk>'}");
    assert_true(is(c.bos, "<s>") && is(c.eos, "</s>") && is(c.unk, "<unk>"));
}

CASE_WITH(the_default_template_is_taken_or_the_first, NULL, vocab_teardown) {
    struct vocab_config c = config_read("{'chat_template':'{{ x }}\\n'}");
    assert_true(is(c.chat_template, "{{ x }}\n"));
    c = config_read("{'chat_template':[{'name':'tool_use','template':'T'},"
                    "{'name':'default','template':'D'},{'name':'rag','template':'R'}]}");
    assert_true(is(c.chat_template, "D"));
    c = config_read("{'chat_template':[{'name':'a','template':'A'},{'template':'B','name':'b'}]}");
    assert_true(is(c.chat_template, "A"));
    c = config_read("{'chat_template':[]}");
    assert_true(!c.chat_template.len);
}

CASE_WITH(unknown_members_may_hold_anything, NULL, vocab_teardown) {
    const struct vocab_config c = config_read(
        "{'model_max_length':1000000000000000019884624838656,'x':1e30,'y':[{},[null,-1.5e400]],"
        "'additional_special_tokens':['<a>'],'tokenizer_class':'LlamaTokenizer','eos_token':'e'}");
    assert_true(is(c.eos, "e"));
}

CASE_WITH(bad_files_are_refused, NULL, vocab_teardown) {
    check_refused("", "ends where a value");
    check_refused("[]", "expected an object");
    check_refused("{'bos_token':1}", "expected a string");
    check_refused("{'add_bos_token':'yes'}", "expected true or false");
    check_refused("{'chat_template':{}}", "expected an array");
    check_refused("{'chat_template':['x']}", "expected an object");
    check_refused("{'added_tokens_decoder':{'x':{}}}", "a token id from 0 to 524287");
    check_refused("{'added_tokens_decoder':{'-1':{}}}", "a token id from 0 to 524287");
    check_refused("{'added_tokens_decoder':{'524288':{}}}", "a token id from 0 to 524287");
    check_refused("{'added_tokens_decoder':{'99999999999':{}}}", "a token id from 0 to 524287");
    check_refused("{'added_tokens_decoder':{'5':{}}}", "\"content\" is missing");
    check_refused("{'added_tokens_decoder':{'5':'x'}}", "expected an object");
    check_refused("{'eos_token':'a','eos_token':'b'}", "a key comes twice");
}

CASE_WITH(added_tokens_have_their_flags, NULL, vocab_teardown) {
    const struct vocab_config c = config_read(
        "{'added_tokens_decoder':{'0':{'content':'<unk>','special':true,'normalized':false},"
        "'32000':{'content':'<x>','lstrip':true,'rstrip':true,'single_word':true,"
        "'normalized':true,'special':false}}}");
    assert_int_equal(c.n_added, 2);
    assert_true(c.added[0].id == 0 && c.added[0].special && !c.added[0].normalized);
    assert_true(c.added[1].id == 32000 && c.added[1].lstrip && c.added[1].rstrip);
    assert_true(c.added[1].single_word && c.added[1].normalized && !c.added[1].special);
}

// --- over a vocabulary ---

static struct text_span span(const char *text) { return (struct text_span){text, strlen(text)}; }

static struct vocab_source pieces(void) {
    static struct text_span token[6];
    static int32_t type[6] = {TOKEN_UNKNOWN,      TOKEN_CONTROL, TOKEN_CONTROL,
                              TOKEN_USER_DEFINED, TOKEN_NORMAL,  TOKEN_UNUSED};
    static float score[6] = {0, 0, 0, 0, -7, -8};
    static struct vocab_added added;
    static const char *const text[6] = {"<unk>", "<s>", "</s>", "  ", "ab", "gone"};
    for (int i = 0; i < 6; i++) token[i] = span(text[i]);
    added = (struct vocab_added){.id = 3, .text = span(MARKER MARKER), .normalized = true};
    return (struct vocab_source){.name = "tokenizer.model",
                                 .model = VOCAB_SPM_SCORE,
                                 .token = token,
                                 .type = type,
                                 .score = score,
                                 .n_token = 6,
                                 .added = &added,
                                 .n_added = 1,
                                 .bos = 1,
                                 .eos = 2,
                                 .unk = 0,
                                 .add_bos = true};
}

static void apply(const char *json, struct vocab_source *source) {
    const struct vocab_config config = config_read(json);
    rn_error err = {0};
    check(vocab_config_apply(&config, &arena, source, &err) == RN_OK, "%s: %s", json, err.message);
}

static void check_apply_refused(const char *json, const char *words) {
    struct vocab_source source = pieces();
    const struct vocab_config config = config_read(json);
    rn_error err = {0};
    check(vocab_config_apply(&config, &arena, &source, &err) == RN_ERR_MODEL &&
              strstr(err.message, words),
          "%s: %s", json, err.message);
}

CASE_WITH(names_become_ids, NULL, vocab_teardown) {
    struct vocab_source s = pieces();
    apply("{'bos_token':'</s>','eos_token':'ab','unk_token':'<s>'}", &s);
    assert_true(s.bos == 2 && s.eos == 4 && s.unk == 0 && s.add_bos && !s.add_eos);
    s.unk = -1; // where the model has none
    apply("{'unk_token':'<s>'}", &s);
    assert_int_equal(s.unk, 1);
    s = pieces();
    apply("{'unk_token':'nowhere','add_bos_token':false,'add_eos_token':true}", &s);
    assert_true(s.bos == 1 && s.eos == 2 && s.unk == 0 && !s.add_bos && s.add_eos);
    s = pieces();
    apply("{'bos_token':'nowhere','add_bos_token':false}", &s);
    assert_true(s.bos == 1 && !s.add_bos);
    check_apply_refused("{'eos_token':'nowhere'}", "eos_token \"nowhere\"");
    check_apply_refused("{'eos_token':'gone'}", "eos_token \"gone\""); // unused tokens have no text
    check_apply_refused("{'bos_token':'nowhere'}", "bos_token \"nowhere\"");
}

CASE_WITH(nothing_is_added_that_does_not_exist, NULL, vocab_teardown) {
    struct vocab_source s = pieces();
    s.bos = s.eos = -1;
    apply("{'add_bos_token':true,'add_eos_token':true}", &s);
    assert_true(!s.add_bos && !s.add_eos);
}

CASE_WITH(what_a_tokenizer_json_puts_around_a_text_stays, NULL, vocab_teardown) {
    struct vocab_source s = pieces();
    s.model = VOCAB_BYTE_LEVEL;
    s.bos = 4;
    s.eos = 4;
    s.add_eos = true;
    apply("{'bos_token':'<s>','eos_token':'</s>'}", &s);
    assert_true(s.bos == 4 && s.eos == 4 && s.n_end == 1 && s.end[0] == 2);
    s.n_end = 0;
    apply("{'bos_token':'<s>','eos_token':'</s>','add_bos_token':true,'add_eos_token':true}", &s);
    assert_true(s.bos == 1 && s.eos == 2 && s.n_end == 0);
}

CASE_WITH(added_tokens_go_over_the_pieces_of_a_model, NULL, vocab_teardown) {
    struct vocab_source s = pieces();
    apply("{'added_tokens_decoder':{"
          "'0':{'content':'<unk>','special':true},"
          "'3':{'content':'" MARKER MARKER "','rstrip':true,'special':false},"
          "'4':{'content':'<|x|>','special':true},"
          "'8':{'content':'y" MARKER "','special':false,'normalized':false}},"
          "'eos_token':'<|x|>'}",
          &s);
    assert_int_equal(s.n_token, 9);
    static const int32_t want[] = {TOKEN_UNKNOWN,      TOKEN_CONTROL, TOKEN_CONTROL,
                                   TOKEN_USER_DEFINED, TOKEN_CONTROL, TOKEN_UNUSED,
                                   TOKEN_UNUSED,       TOKEN_UNUSED,  TOKEN_USER_DEFINED};
    for (int i = 0; i < 9; i++) check(s.type[i] == want[i], "token %d: %d", i, s.type[i]);
    assert_true(is(s.token[3], "  ") && is(s.token[4], "<|x|>") && is(s.token[7], ""));
    assert_true(is(s.token[8], "y ") && s.score[4] == -7 && s.score[8] == 0);
    assert_int_equal(s.n_added, 4);
    // the model's own stays sought in the normalized text
    assert_true(s.added[0].id == 3 && s.added[0].normalized && s.added[0].rstrip);
    assert_true(is(s.added[0].text, MARKER MARKER) && s.eos == 4);
    assert_true(s.added[3].id == 8 && !s.added[3].normalized);
}

CASE_WITH(added_tokens_of_a_tokenizer_json_stay, NULL, vocab_teardown) {
    struct vocab_source s = pieces();
    s.model = VOCAB_SPM_RANK;
    s.score = NULL;
    apply("{'added_tokens_decoder':{'8':{'content':'y'}}}", &s);
    assert_true(s.n_token == 6 && s.n_added == 1);
}

TEST_PROGRAM(vocab_config) { return cases_run(NULL, NULL); }
