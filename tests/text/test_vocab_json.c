// tokenizer.json becomes a vocab_source: real files against jansson's tree, each part of a pipeline
// by itself, and refusals with their messages.
// label: memory
#include "text/vocab_read.h"

static struct vocab_source source_read(const char *json) {
    struct vocab_source source;
    rn_error err = {0};
    const rn_status status = vocab_json_read(json, strlen(json), &arena, &source, &err);
    check(status == RN_OK, "%s\n%s", json, err.message);
    return source;
}

static void check_refused(rn_status want, const char *words, const char *json) {
    struct vocab_source source;
    rn_error err = {0};
    const rn_status status = vocab_json_read(json, strlen(json), &arena, &source, &err);
    check(status == want && strstr(err.message, words), "%s\nstatus %d, %s", json, status,
          err.message);
    check(!strncmp(err.message, "tokenizer.json: ", 16), "%s", err.message);
}

// A file whose parts are those given; single quotes stand for double ones.
struct parts {
    const char *normalizer, *pre, *post, *decoder, *added, *model;
};

static char *json_of(struct parts p) {
    char text[16384];
    static const char byte_level[] = "{'type':'ByteLevel','add_prefix_space':false}";
    const int n =
        snprintf(text, sizeof text,
                 "{'version':'1.0','truncation':null,'added_tokens':%s,'normalizer':%s,"
                 "'pre_tokenizer':%s,'post_processor':%s,'decoder':%s,'model':%s}",
                 p.added ? p.added : "[]", p.normalizer ? p.normalizer : "null",
                 p.pre ? p.pre : byte_level, p.post ? p.post : "null",
                 p.decoder ? p.decoder : byte_level,
                 p.model ? p.model
                         : "{'type':'BPE','vocab':{'a':0,'b':1,'ab':2},'merges':['a b']}");
    assert_true(n > 0 && (size_t)n < sizeof text);
    return json_quoted(text);
}

#define SOURCE(...) source_read(json_of((struct parts){__VA_ARGS__}))
#define REFUSED(status, words, ...)                                                                \
    check_refused(status, words, json_of((struct parts){__VA_ARGS__}))

// --- real files ---

static void check_vocab(const struct vocab_source *source, json_t *root) {
    json_t *const model = json_object_get(root, "model");
    const char *key;
    json_t *value;
    size_t i;
    json_object_foreach(json_object_get(model, "vocab"), key, value) {
        const json_int_t id = json_integer_value(value);
        check(id < source->n_token && is(source->token[id], key), "token %lld: %s", id, key);
    }
    assert_int_equal(source->n_token, 512);
    json_array_foreach(json_object_get(root, "added_tokens"), i, value) {
        const struct vocab_added *const added = &source->added[i];
        const char *const text = json_string_value(json_object_get(value, "content"));
        assert_int_equal(added->id, json_integer_value(json_object_get(value, "id")));
        assert_true(is(added->text, text) && is(source->token[added->id], text));
        assert_int_equal(added->special, json_is_true(json_object_get(value, "special")));
        assert_int_equal(added->normalized, json_is_true(json_object_get(value, "normalized")));
        assert_int_equal(source->type[added->id],
                         added->special ? TOKEN_CONTROL : TOKEN_USER_DEFINED);
    }
    assert_int_equal(source->n_added, i);
    json_array_foreach(json_object_get(model, "merges"), i, value) {
        assert_true(is(source->merge[i].left, json_string_value(json_array_get(value, 0))));
        assert_true(is(source->merge[i].right, json_string_value(json_array_get(value, 1))));
    }
    assert_int_equal(source->n_merge, i);
}

static struct vocab_source check_file(const char *name) {
    char path[500];
    snprintf(path, sizeof path, TEST_DATA "/golden/tokenizers/%s/tokenizer.json", name);
    size_t len;
    const struct vocab_source source = source_read(file_read(path, &len));
    json_t *const root = data_json_read(path);
    check_vocab(&source, root);
    json_decref(root);
    return source;
}

CASE_WITH(byte_level_files_are_read_whole, NULL, vocab_teardown) {
    struct vocab_source s = check_file("gpt-2");
    assert_true(s.model == VOCAB_BYTE_LEVEL && s.n_normal == 0 && s.n_split == 1);
    assert_true(s.split[0].kind == SPLIT_NAMED && is(s.split[0].pattern, "gpt-2"));
    assert_true(s.bos == -1 && s.eos == -1 && s.unk == -1 && !s.add_bos && !s.add_eos);
    s = check_file("llama-bpe");
    assert_true(s.model == VOCAB_BYTE_LEVEL && s.ignore_merges && s.n_split == 1);
    assert_true(s.split[0].kind == SPLIT_REGEX && s.split[0].behavior == SPLIT_ISOLATED);
    assert_memory_equal(s.split[0].pattern.data, "(?i:'s|'t|'re", 13);
    assert_true(s.add_bos && !s.add_eos && s.bos == 507);
    s = check_file("qwen2");
    assert_true(s.n_normal == 1 && s.normal[0].kind == NORMAL_NFC && !s.strip_space);
}

CASE_WITH(files_with_markers_are_read_whole, NULL, vocab_teardown) {
    struct vocab_source s = check_file("spm");
    assert_true(s.model == VOCAB_SPM_RANK && s.byte_fallback && s.fuse_unk && s.strip_space);
    assert_true(s.n_normal == 2 && s.normal[0].kind == NORMAL_PREPEND);
    assert_true(is(s.normal[0].to, MARKER) && s.normal[1].kind == NORMAL_REPLACE);
    assert_true(is(s.normal[1].from, " ") && is(s.normal[1].to, MARKER));
    assert_true(s.n_split == 0 && s.unk == 0 && s.bos == 1 && s.add_bos && !s.add_eos);
    int n_byte = 0;
    for (int32_t i = 0; i < s.n_token; i++) n_byte += s.type[i] == TOKEN_BYTE;
    assert_int_equal(n_byte, 256);
    s = check_file("gemma");
    assert_true(s.model == VOCAB_SPM_RANK && s.n_normal == 1 && !s.strip_space && s.bos == 2);
}

// --- the model ---

CASE_WITH(gaps_between_ids_are_unused_tokens, NULL, vocab_teardown) {
    const struct vocab_source s =
        SOURCE(.model = "{'type':'BPE','vocab':{'b':5,'a':1},'merges':[]}",
               .added = "[{'id':8,'content':'<x>','special':true}]");
    assert_int_equal(s.n_token, 9);
    for (int32_t i = 0; i < 9; i++) {
        const int want = i == 8 ? TOKEN_CONTROL : i == 1 || i == 5 ? TOKEN_NORMAL : TOKEN_UNUSED;
        check(s.type[i] == want && (want != TOKEN_UNUSED || s.token[i].len == 0), "token %d", i);
    }
    assert_true(is(s.token[1], "a") && is(s.token[5], "b") && is(s.token[8], "<x>"));
}

CASE_WITH(merges_come_as_strings_or_as_pairs, NULL, vocab_teardown) {
    const struct vocab_source s =
        SOURCE(.model = "{'vocab':{'a':0},'merges':['a b',['c','d e'],' x','\\u0061 \\u00e9']}");
    assert_int_equal(s.n_merge, 4);
    assert_true(is(s.merge[0].left, "a") && is(s.merge[0].right, "b"));
    assert_true(is(s.merge[1].left, "c") && is(s.merge[1].right, "d e"));
    assert_true(is(s.merge[2].left, "") && is(s.merge[2].right, "x"));
    assert_true(is(s.merge[3].left, "a") && is(s.merge[3].right, "\xc3\xa9"));
}

CASE_WITH(escapes_are_resolved_everywhere, NULL, vocab_teardown) {
    const struct vocab_source s =
        SOURCE(.model = "{'vocab':{'\\u0120a':0,'\\\"':1},'merges':[],'unk_token':'\\\"'}",
               .added = "[{'id':2,'content':'\\n\\n'}]");
    assert_true(is(s.token[0], "\xc4\xa0"
                               "a") &&
                is(s.token[1], "\"") && is(s.token[2], "\n\n"));
    assert_true(s.unk == 1 && s.type[1] == TOKEN_UNKNOWN);
}

CASE_WITH(flags_of_the_model_and_of_added_tokens_are_read, NULL, vocab_teardown) {
    const struct vocab_source s =
        SOURCE(.added = "[{'id':0,'content':'x','special':true,'lstrip':true},"
                        "{'id':4,'content':'y','rstrip':true,'single_word':true,'normalized':true},"
                        "{'id':3,'content':'z','normalized':false},{'id':5,'content':'w'}]",
               .model = "{'vocab':{'a':0},'merges':[],'fuse_unk':true,'byte_fallback':true,"
                        "'ignore_merges':true,'dropout':null,'continuing_subword_prefix':'',"
                        "'end_of_word_suffix':null,'unk_token':null}");
    assert_true(s.fuse_unk && s.byte_fallback && s.ignore_merges && s.unk == -1);
    const struct vocab_added *const a = s.added;
    assert_true(a[0].special && a[0].lstrip && !a[0].rstrip && !a[0].normalized);
    assert_true(!a[1].special && a[1].rstrip && a[1].single_word && a[1].normalized);
    assert_true(a[2].id == 3 && !a[2].normalized && a[3].normalized);
    assert_true(s.type[0] == TOKEN_CONTROL && is(s.token[0], "x")); // over the model's own
    assert_true(s.type[4] == TOKEN_USER_DEFINED && s.type[1] == TOKEN_UNUSED);
}

CASE_WITH(bytes_are_known_by_their_names, NULL, vocab_teardown) {
    static const char vocab[] = "{'vocab':{'<0x0A>':0,'<0xFF>':1,'<0xff>':2,'<0x0A':3,'<0xAG>':4,"
                                "'<0x0AB>':5},'merges':[],'byte_fallback':true}";
    static const char pre[] = "{'type':'Metaspace'}", decoder[] = "{'type':'Metaspace'}";
    struct vocab_source s = SOURCE(.model = vocab, .pre = pre, .decoder = decoder);
    for (int32_t i = 0; i < 6; i++)
        check(s.type[i] == (i < 2 ? TOKEN_BYTE : TOKEN_NORMAL), "token %d", i);
    s = SOURCE(.model = vocab); // byte-level: they are texts
    assert_int_equal(s.type[0], TOKEN_NORMAL);
}

CASE_WITH(other_models_are_refused_by_name, NULL, vocab_teardown) {
    REFUSED(RN_ERR_UNSUPPORTED, "WordPiece", .model = "{'type':'WordPiece','vocab':{}}");
    REFUSED(RN_ERR_UNSUPPORTED, "Unigram", .model = "{'type':'Unigram','vocab':[['a',0.5]]}");
    REFUSED(RN_ERR_UNSUPPORTED, "WordLevel", .model = "{'type':'WordLevel','vocab':{}}");
    REFUSED(RN_ERR_UNSUPPORTED, "continuing_subword_prefix",
            .model = "{'vocab':{},'merges':[],'continuing_subword_prefix':'##'}");
    REFUSED(RN_ERR_UNSUPPORTED, "end_of_word_suffix",
            .model = "{'vocab':{},'merges':[],'end_of_word_suffix':'</w>'}");
    REFUSED(RN_ERR_MODEL, "\"vocab\" is missing", .model = "{'merges':[]}");
    REFUSED(RN_ERR_MODEL, "\"merges\" is missing", .model = "{'vocab':{}}");
    REFUSED(RN_ERR_UNSUPPORTED, "neither byte-level nor", .pre = "null", .decoder = "null");
    check_refused(RN_ERR_MODEL, "\"model\" is missing", "{}");
}

CASE_WITH(bad_vocabularies_are_refused, NULL, vocab_teardown) {
    REFUSED(RN_ERR_MODEL, "token id 524288", .model = "{'vocab':{'a':524288},'merges':[]}");
    REFUSED(RN_ERR_MODEL, "token id -1", .model = "{'vocab':{'a':-1},'merges':[]}");
    REFUSED(RN_ERR_MODEL, "expected an integer", .model = "{'vocab':{'a':1.5},'merges':[]}");
    REFUSED(RN_ERR_MODEL, "have the id 1", .model = "{'vocab':{'a':1,'b':1},'merges':[]}");
    REFUSED(RN_ERR_MODEL, "expected an object", .model = "{'vocab':[],'merges':[]}");
    REFUSED(RN_ERR_MODEL, "expected an array", .model = "{'vocab':{},'merges':{}}");
    REFUSED(RN_ERR_MODEL, "one space", .model = "{'vocab':{},'merges':['ab']}");
    REFUSED(RN_ERR_MODEL, "one space", .model = "{'vocab':{},'merges':['a b c']}");
    REFUSED(RN_ERR_MODEL, "of two tokens", .model = "{'vocab':{},'merges':[['a']]}");
    REFUSED(RN_ERR_MODEL, "of two tokens", .model = "{'vocab':{},'merges':[['a','b','c']]}");
    REFUSED(RN_ERR_MODEL, "of two tokens", .model = "{'vocab':{},'merges':[[]]}");
    REFUSED(RN_ERR_MODEL, "of two tokens", .model = "{'vocab':{},'merges':[[],'x y']}");
    REFUSED(RN_ERR_MODEL, "expected a string", .model = "{'vocab':{},'merges':[1]}");
    REFUSED(RN_ERR_MODEL, "\"id\" is missing", .added = "[{'content':'x'}]");
    REFUSED(RN_ERR_MODEL, "\"content\" is missing", .added = "[{'id':7}]");
    REFUSED(RN_ERR_MODEL, "token id 600000", .added = "[{'id':600000,'content':'x'}]");
    REFUSED(RN_ERR_MODEL, "have the id 7",
            .added = "[{'id':7,'content':'x'},{'id':7,'content':'y'}]");
    REFUSED(RN_ERR_MODEL, "a key comes twice", .model = "{'vocab':{},'vocab':{},'merges':[]}");
    REFUSED(RN_ERR_MODEL, "unk_token \"u\"", .model = "{'vocab':{},'merges':[],'unk_token':'u'}",
            .pre = "{'type':'Metaspace'}", .decoder = "null");
    check_refused(RN_ERR_MODEL, "offset 1: expected a key", "{");
    check_refused(RN_ERR_MODEL, "text behind the value", "{} {}");
}

// --- the pipeline ---

CASE_WITH(normalizers_become_steps, NULL, vocab_teardown) {
    const struct vocab_source s =
        SOURCE(.normalizer = "{'type':'Sequence','normalizers':[{'type':'NFC'},{'type':'NFD'},"
                             "{'type':'NFKC'},{'type':'NFKD'},{'type':'Lowercase'},"
                             "{'type':'Replace','pattern':{'String':'x'},'content':'y'},"
                             "{'type':'Sequence','normalizers':[{'type':'Replace','content':'',"
                             "'pattern':{'Regex':'a+'}}]},{'type':'Prepend','prepend':'p'},"
                             "{'type':'Strip','strip_left':true,'strip_right':false},"
                             "{'type':'Strip','strip_left':false,'strip_right':true},"
                             "{'type':'Precompiled','precompiled_charsmap':'AAA='}]}");
    static const enum vocab_normal_kind kind[] = {NORMAL_NFC,           NORMAL_NFD,
                                                  NORMAL_NFKC,          NORMAL_NFKD,
                                                  NORMAL_LOWERCASE,     NORMAL_REPLACE,
                                                  NORMAL_REPLACE_REGEX, NORMAL_PREPEND,
                                                  NORMAL_STRIP_LEFT,    NORMAL_STRIP_RIGHT,
                                                  NORMAL_UNSUPPORTED};
    assert_int_equal(s.n_normal, 11);
    for (int i = 0; i < 11; i++) check(s.normal[i].kind == kind[i], "step %d", i);
    assert_true(is(s.normal[5].from, "x") && is(s.normal[5].to, "y"));
    assert_true(is(s.normal[6].from, "a+") && is(s.normal[6].to, ""));
    assert_true(is(s.normal[7].to, "p") && is(s.normal[10].from, "Precompiled"));
}

CASE_WITH(splits_keep_pattern_behavior_and_invert, NULL, vocab_teardown) {
    static const struct {
        const char *name;
        enum vocab_split_behavior behavior;
    } behaviors[] = {{"Isolated", SPLIT_ISOLATED},
                     {"Removed", SPLIT_REMOVED},
                     {"MergedWithPrevious", SPLIT_MERGED_WITH_PREVIOUS},
                     {"MergedWithNext", SPLIT_MERGED_WITH_NEXT},
                     {"Contiguous", SPLIT_CONTIGUOUS}};
    for (int i = 0; i < 5; i++) {
        char pre[300];
        snprintf(pre, sizeof pre,
                 "{'type':'Split','pattern':{'%s':'\\\\p{N}'},'behavior':'%s','invert':%s}",
                 i % 2 ? "String" : "Regex", behaviors[i].name, i % 2 ? "true" : "false");
        const struct vocab_source s = SOURCE(.pre = pre);
        assert_true(s.n_split == 1 && s.split[0].kind == (i % 2 ? SPLIT_LITERAL : SPLIT_REGEX));
        assert_true(s.split[0].behavior == behaviors[i].behavior && s.split[0].invert == i % 2);
        assert_true(is(s.split[0].pattern, "\\p{N}"));
    }
    REFUSED(RN_ERR_UNSUPPORTED, "Folded",
            .pre = "{'type':'Split','pattern':{'String':'a'},'behavior':'Folded'}");
    REFUSED(RN_ERR_MODEL, "a String or a Regex",
            .pre = "{'type':'Split','pattern':{},'behavior':'Isolated'}");
    REFUSED(RN_ERR_MODEL, "\"pattern\" is missing", .pre = "{'type':'Split'}");
}

CASE_WITH(pre_tokenizers_become_splits, NULL, vocab_teardown) {
    const struct vocab_source s =
        SOURCE(.pre =
                   "{'type':'Sequence','pretokenizers':[{'type':'Digits','individual_digits':true},"
                   "{'type':'Digits'},{'type':'Punctuation','behavior':'Contiguous'},"
                   "{'type':'Punctuation'},{'type':'Whitespace'},{'type':'WhitespaceSplit'},"
                   "{'type':'BertPreTokenizer'}]}");
    static const struct vocab_split want[] = {{SPLIT_DIGITS_INDIVIDUAL, SPLIT_ISOLATED, false, {0}},
                                              {SPLIT_DIGITS, SPLIT_CONTIGUOUS, false, {0}},
                                              {SPLIT_PUNCTUATION, SPLIT_CONTIGUOUS, false, {0}},
                                              {SPLIT_PUNCTUATION, SPLIT_ISOLATED, false, {0}},
                                              {SPLIT_WHITESPACE, SPLIT_REMOVED, true, {0}},
                                              {SPLIT_WHITESPACE_ALL, SPLIT_REMOVED, false, {0}},
                                              {SPLIT_UNSUPPORTED, SPLIT_ISOLATED, false, {0}}};
    assert_int_equal(s.n_split, 7);
    for (int i = 0; i < 7; i++)
        check(s.split[i].kind == want[i].kind && s.split[i].behavior == want[i].behavior &&
                  s.split[i].invert == want[i].invert,
              "split %d", i);
    assert_true(is(s.split[6].pattern, "BertPreTokenizer") && s.model == VOCAB_BYTE_LEVEL);
}

CASE_WITH(splits_behind_byte_level_see_its_alphabet, NULL, vocab_teardown) {
    const struct vocab_source s =
        SOURCE(.pre = "{'type':'Sequence','pretokenizers':[{'type':'Punctuation'},"
                      "{'type':'ByteLevel','add_prefix_space':false,'use_regex':true},"
                      "{'type':'Digits'},{'type':'Digits'}]}");
    static const enum vocab_split_kind want[] = {SPLIT_PUNCTUATION, SPLIT_NAMED, SPLIT_BYTE_LEVEL,
                                                 SPLIT_DIGITS, SPLIT_DIGITS};
    assert_int_equal(s.n_split, 5);
    for (int i = 0; i < 5; i++) check(s.split[i].kind == want[i], "split %d", i);
}

CASE_WITH(a_prefix_space_is_a_step_of_normalization, NULL, vocab_teardown) {
    struct vocab_source s =
        SOURCE(.pre = "{'type':'ByteLevel','add_prefix_space':true,'use_regex':false}");
    assert_true(s.n_normal == 1 && s.n_split == 0 && s.normal[0].kind == NORMAL_PREPEND_ONCE);
    assert_true(is(s.normal[0].to, " "));
    s = SOURCE(.pre = "{'type':'Sequence','pretokenizers':[{'type':'Digits'},"
                      "{'type':'ByteLevel','add_prefix_space':true}]}");
    assert_true(s.n_normal == 0 && s.split[s.n_split - 1].kind == SPLIT_UNSUPPORTED);
}

static void check_metaspace(const char *fields, int n_normal, enum vocab_normal_kind last,
                            int n_split) {
    char part[200];
    snprintf(part, sizeof part, "{'type':'Metaspace'%s}", fields);
    const struct vocab_source s = SOURCE(.pre = part, .decoder = part);
    check(s.model == VOCAB_SPM_RANK && s.n_normal == n_normal && s.n_split == n_split, "%s",
          fields);
    check(s.normal[0].kind == NORMAL_REPLACE && is(s.normal[0].from, " ") &&
              is(s.normal[0].to, MARKER) && s.normal[n_normal - 1].kind == last,
          "%s", fields);
    check(s.strip_space == (n_normal == 2), "%s", fields);
    if (n_split)
        check(s.split[0].kind == SPLIT_LITERAL && s.split[0].behavior == SPLIT_MERGED_WITH_NEXT &&
                  is(s.split[0].pattern, MARKER),
              "%s", fields);
}

CASE_WITH(metaspace_has_its_schemes, NULL, vocab_teardown) {
    check_metaspace("", 2, NORMAL_PREPEND_ONCE, 1);
    check_metaspace(",'prepend_scheme':'always','split':true", 2, NORMAL_PREPEND_ONCE, 1);
    check_metaspace(",'prepend_scheme':'first','split':false", 2, NORMAL_PREPEND_FIRST, 0);
    check_metaspace(",'prepend_scheme':'never','split':false", 1, NORMAL_REPLACE, 0);
    check_metaspace(",'replacement':'" MARKER "','add_prefix_space':true", 2, NORMAL_PREPEND_ONCE,
                    1);
    check_metaspace(",'add_prefix_space':false", 1, NORMAL_REPLACE, 1);
    REFUSED(RN_ERR_UNSUPPORTED, "replacement is _",
            .pre = "{'type':'Metaspace','replacement':'_'}");
    REFUSED(RN_ERR_UNSUPPORTED, "sometimes",
            .pre = "{'type':'Metaspace','prepend_scheme':'sometimes'}");
}

CASE_WITH(post_processors_say_what_is_around_a_text, NULL, vocab_teardown) {
    struct vocab_source s =
        SOURCE(.post = "{'type':'Sequence','processors':[{'type':'ByteLevel'},"
                       "{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'<\\u0061>'}},"
                       "{'Sequence':{'id':'A'}},{'SpecialToken':{'id':'b'}}],'special_tokens':"
                       "{'b':{'id':'b','ids':[2]},'<a>':{'ids':[1]}}}]}");
    assert_true(s.bos == 1 && s.eos == 2 && s.add_bos && s.add_eos);
    s = SOURCE(.post = "{'type':'TemplateProcessing','single':[{'Sequence':{'id':'A'}},"
                       "{'SpecialToken':{'id':'b'}}],'special_tokens':{'b':{'ids':[0]}}}");
    assert_true(s.bos == -1 && s.eos == 0 && !s.add_bos && s.add_eos);
    s = SOURCE(.post = "{'type':'RobertaProcessing','sep':['</s>',2],'cls':['<s>',0]}");
    assert_true(s.bos == 0 && s.eos == 2 && s.add_bos && s.add_eos);
    REFUSED(RN_ERR_UNSUPPORTED, "token, <sop>",
            .post = "{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'g'}},"
                    "{'SpecialToken':{'id':'<sop>'}}],'special_tokens':{'g':{'ids':[1]}}}");
    REFUSED(RN_ERR_UNSUPPORTED, "several ids of g",
            .post = "{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'g'}}],"
                    "'special_tokens':{'g':{'ids':[1,2]}}}");
    REFUSED(RN_ERR_MODEL, "token g is not in special_tokens",
            .post = "{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'g'}}],"
                    "'special_tokens':{'h':{'ids':[1]}}}");
    REFUSED(RN_ERR_MODEL, "token id 3, expected 0 to 2",
            .post = "{'type':'BertProcessing','sep':['x',3],'cls':['y',0]}");
    REFUSED(RN_ERR_UNSUPPORTED, "post-processor Odd", .post = "{'type':'Odd'}");
}

CASE_WITH(decoders_are_known_or_refused, NULL, vocab_teardown) {
    static const char spm[] =
        "{'type':'Sequence','decoders':[{'type':'Replace','pattern':{'String':'" MARKER "'},"
        "'content':' '},{'type':'ByteFallback'},{'type':'Fuse'},"
        "{'type':'Strip','content':' ','start':1,'stop':0}]}";
    struct vocab_source s = SOURCE(.pre = "null", .decoder = spm);
    assert_true(s.model == VOCAB_SPM_RANK && s.strip_space);
    s = SOURCE(.pre = "null", .decoder = "{'type':'ByteLevel'}");
    assert_true(s.model == VOCAB_BYTE_LEVEL && !s.strip_space && s.n_split == 0);
    s = SOURCE(.pre = "{'type':'ByteLevel'}", .decoder = "null");
    assert_true(s.model == VOCAB_BYTE_LEVEL);
    REFUSED(RN_ERR_UNSUPPORTED, "decoder BPEDecoder", .decoder = "{'type':'BPEDecoder'}");
    REFUSED(RN_ERR_UNSUPPORTED, "decoder that strips",
            .decoder = "{'type':'Strip','content':' ','start':2,'stop':0}");
    REFUSED(RN_ERR_UNSUPPORTED, "decoder that replaces x",
            .decoder = "{'type':'Replace','pattern':{'String':'x'},'content':' '}");
    REFUSED(RN_ERR_MODEL, "\"type\" is missing", .decoder = "{}");
    REFUSED(RN_ERR_UNSUPPORTED, "decoder ", .decoder = "{'type':''}");
}

CASE_WITH(long_pipelines_are_refused, NULL, vocab_teardown) {
    char part[2000] = "{'type':'Sequence','normalizers':[{'type':'NFC'}";
    for (int i = 1; i < 33; i++) strcat(part, ",{'type':'NFC'}");
    strcat(part, "]}");
    REFUSED(RN_ERR_UNSUPPORTED, "more than 32", .normalizer = part);
    strcpy(part, "{'type':'Sequence','pretokenizers':[{'type':'Digits'}");
    for (int i = 1; i < 33; i++) strcat(part, ",{'type':'Digits'}");
    strcat(part, "]}");
    REFUSED(RN_ERR_UNSUPPORTED, "more than 32", .pre = part);
}

// Every prefix and every flipped byte: a status and a message, never anything else.
CASE_WITH(damaged_files_are_refused_or_read, NULL, vocab_teardown) {
    char *const json = strdup(
        json_of((struct parts){.added = "[{'id':3,'content':'<x>','special':true}]",
                               .normalizer = "{'type':'Replace','pattern':{'String':' '},"
                                             "'content':'\\u2581'}",
                               .post = "{'type':'TemplateProcessing','single':[{'SpecialToken':"
                                       "{'id':'<x>'}}],'special_tokens':{'<x>':{'ids':[3]}}}"}));
    assert_non_null(json);
    const size_t len = strlen(json);
    int n_read = 0;
    for (size_t i = 0; i < len * 8; i++) {
        const size_t n = i < len ? i : len;
        char *const copy = malloc(n + 1);
        memcpy(copy, json, n);
        if (i >= len) copy[i % len] = (char)(copy[i % len] ^ 1 << (i / len));
        struct vocab_source source;
        rn_error err = {0};
        const rn_status status = vocab_json_read(copy, n, &arena, &source, &err);
        check(!status == !err.message[0], "%zu: %d %s", i, status, err.message);
        check(i >= len || status, "%zu bytes", i);
        n_read += !status;
        free(copy);
        arena_deinit(&arena);
    }
    assert_true(n_read > 100);
    free(json);
}

TEST_PROGRAM(vocab_json) { return cases_run(NULL, NULL); }
