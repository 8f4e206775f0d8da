// A text between two others: `suffix` of completions, and /infill. The model is the small one with
// other names for its four special tokens, as the vocabularies of code models have them.
#include "calls.h"

// "length, bytes" of each name, as in a GGUF file; together as long as the names before.
static void names_put(const char *const names[4], char out[128], size_t *len) {
    *len = 0;
    for (int i = 0; i < 4; i++) {
        const uint64_t size = strlen(names[i]);
        memcpy(out + *len, &size, sizeof size);
        memcpy(out + *len + sizeof size, names[i], size);
        *len += sizeof size + size;
    }
}

static char *file; // behind the open model
static rn_model *coder;

static void coder_open(const char *const names[4]) {
    static const char *const old[4] = {"<|endoftext|>", "<|user|>", "<|assistant|>", "<|end|>"};
    char from[128], to[128];
    size_t len, same;
    names_put(old, from, &len);
    names_put(names, to, &same);
    assert_int_equal(len, same);
    FILE *in = fopen(MODELS_DIR "/tale-1m-f16.gguf", "rb");
    assert_non_null(in);
    fseek(in, 0, SEEK_END);
    const size_t size = (size_t)ftell(in);
    rewind(in);
    file = aligned_alloc(64, (size + 63) / 64 * 64);
    assert_non_null(file);
    assert_int_equal(fread(file, 1, size, in), size);
    fclose(in);
    char *at = memmem(file, size, from, len);
    assert_non_null(at);
    memcpy(at, to, len);
    rn_error err = {0};
    check(!rn_model_open_memory("coder", file, size, &coder, &err), "%s", err.message);
    served.model = coder;
}

static void coder_close(void) {
    served.model = model;
    rn_model_close(coder);
    free(file);
}

static const char *const with_middle[4] = {"<end>", "<fim_prefix>", "<fim_suffix>", "<fim_middle>"};
static const char *const suffix_first[4] = {"<|endoftext|>", "[PREFIX]", "[SUFFIX]",
                                            "<|otherone|>"};

static const char *const code_llama[4] = {"<|endoftext_abc|>", "▁<PRE>", "▁<SUF>", "▁<MID>"};

static void expect_prompt(const struct generation_prompt *prompt, const char *want) {
    char *text;
    size_t len;
    assert_int_equal(rn_detokenize(coder, prompt->ids, prompt->n_ids, true, &text, &len, NULL),
                     RN_OK);
    check(len == strlen(want) && !memcmp(text, want, len), "'%.*s' instead of '%s'", (int)len, text,
          want);
    rn_free(text);
}

CASE(a_suffix_is_put_behind_its_mark) {
    coder_open(with_middle);
    const struct call *call =
        call_prepared(completions_prepare, "{'prompt':['int a','x'],'suffix':'; }'}");
    assert_int_equal(call->generation->n_prompts, 2);
    expect_prompt(&call->generation->prompt[0],
                  "<end><fim_prefix>int a<fim_suffix>; }<fim_middle>");
    expect_prompt(&call->generation->prompt[1], "<end><fim_prefix>x<fim_suffix>; }<fim_middle>");
    call = call_prepared(completions_prepare, "{'prompt':'<fim_middle>','suffix':'b'}");
    const struct generation_prompt *prompt = &call->generation->prompt[0];
    int marks = 0; // spelled out in a text they stay letters
    for (size_t i = 0; i < prompt->n_ids; i++) marks += prompt->ids[i] < 4;
    assert_int_equal(marks, 4);
    call = call_prepared(completions_prepare, "{'prompt':'a','suffix':''}");
    expect_prompt(&call->generation->prompt[0], "<end>a");
    expect_refusal(completions_prepare, "{'prompt':'a','suffix':'b','echo':true}", "suffix",
                   "cannot be combined with echo");
    coder_close();
}

CASE(a_model_without_a_middle_continues_the_prefix) {
    coder_open(suffix_first);
    const struct call *call = call_prepared(completions_prepare, "{'prompt':'a','suffix':'b'}");
    expect_prompt(&call->generation->prompt[0], "<|endoftext|>[SUFFIX]b[PREFIX]a");
    assert_int_equal(call->generation->params.n_stop_token, 1); // <|endoftext|>
    coder_close();
}

CASE(marks_of_sentencepiece_are_known) {
    coder_open(code_llama);
    const struct call *call = call_prepared(completions_prepare, "{'prompt':'a','suffix':'b'}");
    expect_prompt(&call->generation->prompt[0], "<|endoftext_abc|>▁<PRE>a▁<SUF>b▁<MID>");
    coder_close();
}

CASE(infill_has_a_start_and_other_files) {
    coder_open(with_middle);
    const struct call *call =
        call_prepared(native_infill, "{'input_prefix':'a','input_suffix':'b','prompt':'c',"
                                     "'input_extra':[{'filename':'f.c','text':'d'}]}");
    expect_prompt(&call->generation->prompt[0],
                  "<end>f.c\nd\n<fim_prefix>a<fim_suffix>b<fim_middle>c");
    static const struct refusal rows[] = {
        {"{'input_prefix':'a'}", "input_suffix", "expected a string"},
        {"{'input_suffix':'a'}", "input_prefix", "expected a string"},
        {"{'input_prefix':'a','input_suffix':'b','prompt':[1]}", "prompt", "expected a string"},
        {"{'input_prefix':'a','input_suffix':'b','input_extra':[{'filename':'x'}]}",
         "input_extra[0].text", "expected a string"},
    };
    expect_refusals(native_infill, rows);
    coder_close();
}

CASE(other_vocabularies_are_refused) {
    expect_refusal(completions_prepare, "{'prompt':'a','suffix':'b'}", "suffix",
                   "has no marks for a text between two others");
    expect_refusal(native_infill, "{'input_prefix':'a','input_suffix':'b'}", "input_suffix",
                   "has no marks");
}

TEST_PROGRAM(fim) { return cases_run(open_server, close_server); }
