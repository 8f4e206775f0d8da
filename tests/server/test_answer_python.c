// Answers: calls that are written as Python writes them, and calls of pairs.
#include "answer_text.h"

static void expect_python(const char *calls, const char *want) {
    char text[1024];
    snprintf(text, sizeof text, LFM2_OPEN "%s" LFM2_CLOSE, calls);
    expect(LFM2, text, want);
}

CASE(lfm2_calls) {
    expect_python("[f()]", "T0(f)A0({})");
    expect_python("[f(a=1, b=\"x\")]", "T0(f)A0({\"a\":1,\"b\":\"x\"})");
    expect_python("[f(a=1), Calendar.new(b=None,)]",
                  "T0(f)A0({\"a\":1})T1(Calendar.new)A1({\"b\":null})");
    expect_python(" [ f ( a = -1.5e3 , b = [ True , False , true , null , ] ) , ] ",
                  "T0(f)A0({\"a\":-1.5e3,\"b\":[true,false,true,null]})");
    expect_python("[f(a={\"k\": {'l': []}, }, b=(1, 'x'), c=(2), d=(3,), e=())]",
                  "T0(f)A0({\"a\":{\"k\":{\"l\":[]}},\"b\":[1,\"x\"],\"c\":2,\"d\":[3],\"e\":[]})");
    expect_python("f(a=1)", "T0(f)A0({\"a\":1})");
    expect_python("[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "T0(f)A0({\"a\": 1})");
    expect_python("[gr\u00FC\u00DFe-2(\u00E4=1)]", "T0(gr\u00FC\u00DFe-2)A0({\"\u00E4\":1})");
    expect(LFM2,
           "Look.\n" LFM2_OPEN "[f(a=1)]" LFM2_CLOSE "\nThen\n" LFM2_OPEN "[g()]" LFM2_CLOSE "end",
           "C(Look.)T0(f)A0({\"a\":1})C(Then)T1(g)A1({})C(end)");
    expect(LFM2 THINK, "<think>[f()]</think>" LFM2_OPEN "[f()]", "R([f()])T0(f)A0({})");
    // the other signs of its templates
    expect("List of tools: [", LFM2_OPEN "[f()]" LFM2_CLOSE, "T0(f)A0({})");
    expect(LFM2_OPEN, LFM2_OPEN "[f()]" LFM2_CLOSE, "T0(f)A0({})");
}

CASE(lfm2_strings) {
    expect_python("[f(a='', b=\"\", c='''''')]", "T0(f)A0({\"a\":\"\",\"b\":\"\",\"c\":\"\"})");
    expect_python("[f(a='[(\"', b=\")]'\")]", "T0(f)A0({\"a\":\"[(\\\"\",\"b\":\")]'\"})");
    expect_python("[f(a='it\\'s \\\\', b=\"\\\"\\n\\t\\/\\d\")]",
                  "T0(f)A0({\"a\":\"it's \\\\\",\"b\":\"\\\"\\n\\t\\\\/\\\\d\"})");
    expect_python("[f(a='it\\', (x\\\\', b='\\\\\\'')]",
                  "T0(f)A0({\"a\":\"it', (x\\\\\",\"b\":\"\\\\'\"})");
    // quotes without escapes, as the template writes them
    expect_python("[f(a='it's', b=\"say \"hi\" now\" )]",
                  "T0(f)A0({\"a\":\"it's\",\"b\":\"say \\\"hi\\\" now\"})");
    expect_python("[f(a='two\nlines\\\n joined')]", "T0(f)A0({\"a\":\"two\\nlines joined\"})");
    expect_python("[f(a='''it's, ''\n''', b=\"\"\"x\"y\"\"\")]",
                  "T0(f)A0({\"a\":\"it's, ''\\n\",\"b\":\"x\\\"y\"})");
    expect_python(
        "[f(a='\\x41\\u00e9\\U0001F600\\101\\0', b='\\ud83d\\ude00\\ud83d!\\ude00')]",
        "T0(f)A0({\"a\":\"A\u00E9\U0001F600A\\u0000\",\"b\":\"\U0001F600\uFFFD!\uFFFD\"})");
    expect_python("[f(a='" LFM2_CLOSE "')]", "T0(f)A0({\"a\":\"" LFM2_CLOSE "\"})");
}

CASE(what_is_no_python_call_is_content) {
    static const char *const calls[] = {
        "",
        "[]",
        "[f]",
        "[f(]",
        "[f(1)]",
        "[f(a=)]",
        "[f(a=b)]",
        "[f(a=1]",
        "[f(a=1}]",
        "[f(a=1 b=2)]",
        "[f(a='\\x4')]",
        "[(a=1)]",
        "[f(a=[1)]]",
        "[f(,)]",
        "[1(a=1)]",
        "[f(1a=2)]",
        "[f(a={1: 2})]",
        "[f(a=0x10)]",
        "[f(a==1)]",
        "[f(a=1+2)]",
        "[,f()]",
        "[f(a=g(b=1))]",
        "text",
        "[f(a=1; b=2)]",
        "[f(a={'k'})]",
        "[f(a={k: 1})]",
        "[f(a=(,))]",
        "[\"f\"]",
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char text[256], want[300];
        snprintf(text, sizeof text, LFM2_OPEN "%s" LFM2_CLOSE ".", calls[i]);
        snprintf(want, sizeof want, "C(%s)", text);
        expect(LFM2, text, want);
    }
    expect(LFM2, "[f(a=1)]", "C([f(a=1)])");
    expect(LFM2, LFM2_OPEN "f(a=1), g()", "T0(f)A0({\"a\":1})C(, g())");
    expect(LFM2, "a [link](url) " LFM2_OPEN "[f(a=", "C(a [link](url) " LFM2_OPEN "[f(a=)");
}

CASE(broken_python_calls_keep_their_beginning) {
    expect_python("[f(a=1))", "T0(f)A0({\"a\":1})C()" LFM2_CLOSE ")");
    expect_python("[f(a=1) g()]", "T0(f)A0({\"a\":1})C(g()]" LFM2_CLOSE ")");
    expect_python("[f(a=1), 5]", "T0(f)A0({\"a\":1})C(, 5]" LFM2_CLOSE ")");
    expect_python("[f(a=1,,)]", "C(" LFM2_OPEN "[f(a=1,,)]" LFM2_CLOSE ")");
    expect_python("[f(a=1,b=,)]", "T0(f)A0({\"a\":1~)C(,b=,)]" LFM2_CLOSE ")");
    expect_python("[f(a='x)]", "T0(f)A0({\"a\":\"x)]" LFM2_CLOSE "~)");
    expect_python("[f(a='x\\x4')]", "T0(f)A0({\"a\":\"x~)C(\\x4')]" LFM2_CLOSE ")");
    expect_python("[f(a={'k': 'x', 'l'})]",
                  "T0(f)A0({\"a\":{\"k\":\"x\"~)C(, 'l'})]" LFM2_CLOSE ")");
    expect(LFM2, LFM2_OPEN "[f(a='x\\u00e", "T0(f)A0({\"a\":\"x~)");
    expect(LFM2, LFM2_OPEN "[f(a='x', b=12", "T0(f)A0({\"a\":\"x\"~)");
    expect(LFM2, LFM2_OPEN "[f(a='x' ", "T0(f)A0({\"a\":\"x~)");
    expect(LFM2, LFM2_OPEN "[f(), g(", "T0(f)A0({})C(, g()");
}

CASE(bytes_of_python_strings) {
    expect_python(
        "[f(a='\\\u00E9', b='\xE2\x82', c='\xF0\x9F x')]",
        "T0(f)A0({\"a\":\"\\\\\u00E9\",\"b\":\"\uFFFD\uFFFD\",\"c\":\"\uFFFD\uFFFD x\"})");
    expect_python(
        "[f(a='\\7', b='\\08', c='\\ud83d\\u0041', d='\\ud83d\\x41')]",
        "T0(f)A0({\"a\":\"\\u0007\",\"b\":\"\\u00008\",\"c\":\"\uFFFDA\",\"d\":\"\uFFFDA\"})");
}

CASE(deep_python_is_content) {
    struct jbuf text = {0};
    jbuf_text(&text, LFM2_OPEN "[f(a=");
    for (int i = 0; i < 100; i++) jbuf_text(&text, i < 50 ? "[" : "]");
    jbuf_text(&text, ")]");
    struct job job = {answer_marks_of(LFM2), true, false, text.data, text.len, NULL};
    struct joined joined = run(&job, 3);
    check(joined.n_tools == 1, "%s", joined.text.data);
    joined_deinit(&joined);
    jbuf_clear(&text);
    jbuf_text(&text, LFM2_OPEN "[f(a=");
    for (int i = 0; i < 200; i++) jbuf_text(&text, i < 100 ? "[" : "]");
    jbuf_text(&text, ")]");
    job.text = text.data;
    job.len = text.len;
    joined = run(&job, 3);
    check(joined.content.len == text.len, "%s", joined.text.data);
    joined_deinit(&joined);
    jbuf_deinit(&text);
}

CASE(olmo3_calls) {
    expect(OLMO3, "Ok.\n<function_calls>\nf(a=\"x\", b=[1, true])\ng()\n</function_calls>",
           "C(Ok.)T0(f)A0({\"a\":\"x\",\"b\":[1,true]})T1(g)A1({})");
    expect(OLMO3, "<function_calls>f()</function_calls>g()", "T0(f)A0({})C(g())");
    expect(OLMO3, "<function_calls>f()\nx y\n</function_calls>",
           "T0(f)A0({})C(x y\n</function_calls>)");
}

CASE(llama4_calls) {
    expect(LLAMA4, "[f(a=\"x\"), g(b=1)]", "T0(f)A0({\"a\":\"x\"})T1(g)A1({\"b\":1})");
    expect(LLAMA4, "<|python_start|>[f()]<|python_end|>", "T0(f)A0({})");
    expect(LLAMA4,
           "<|python_start|>{\"name\": \"f\", \"parameters\": {\"a\": 1}}; {\"name\": \"g\", "
           "\"parameters\": {}}<|python_end|>",
           "T0(f)A0({\"a\": 1})T1(g)A1({})");
    expect(LLAMA4, "<|python_start|><|python_end|>{\"name\": \"f\", \"parameters\": {}}",
           "T0(f)A0({})");
    expect("Use [func_name1(param1=value1)]", " [f()]", "T0(f)A0({})");
    expect(LLAMA4, "[1] says (x=1)", "C([1] says (x=1))");
    expect(LLAMA4, "[f](http://x)", "C([f](http://x))");
    expect(LLAMA4, "See [f(a=1)]", "C(See [f(a=1)])");
    // text that is no call is let out at once
    struct joined joined = {.last = -1};
    struct answer_parts parts;
    parts_init(&parts, answer_marks_of(LLAMA4), true, NULL, false);
    parts_feed(&parts, "[Note: it", 9, false, on_part, &joined);
    assert_int_equal(joined.content.len, 9);
    parts_deinit(&parts);
    joined_deinit(&joined);
    expect(LLAMA, "[f(a=1)]", "C([f(a=1)])");
}

CASE(gemma4_calls) {
    expect(GEMMA4,
           "<|channel>thought\nhm\n<channel|>Look.<|tool_call>call:f{a:" G4_QUOTE
           "it's {\"x\"}, ]" G4_QUOTE ",b:[1,-2.5e3,true,null," G4_QUOTE G4_QUOTE
           "],c:{k:false," G4_QUOTE "l m" G4_QUOTE
           ":{}}}<tool_call|><|tool_call>call:g{}<tool_call|>",
           "R(hm)C(Look.)T0(f)A0({\"a\":\"it's {\\\"x\\\"}, ]\",\"b\":[1,-2.5e3,true,null,\"\"],"
           "\"c\":{\"k\":false,\"l m\":{}}})T1(g)A1({})");
    expect(GEMMA4, "<|tool_call>call:f{ a : Paris , b: x.y ,c:None}<tool_call|>ok",
           "T0(f)A0({\"a\":\"Paris\",\"b\":\"x.y\",\"c\":null})C(ok)");
    expect(GEMMA4, "<|channel>thought\nhm<|tool_call>call:f{}<tool_call|>", "R(hm)T0(f)A0({})");
    // thoughts between content, and marks that are left over
    expect(GEMMA4, "<|channel>thought\n<channel|>Yes.<|channel>thought\nhm<channel|> No.<channel|>",
           "C(Yes.)R(hm)C(No.)");
    expect(GEMMA4, "<|channel><|channel>thought\nhm<channel|>a <channel|> b", "R(hm)C(a  b)");
    expect(GEMMA4, "a<|channel>", "C(a)");
    expect("<start_function_call>",
           "<start_function_call>call:f{a:<escape>x<y{<escape>,b:1}<end_function_call>",
           "T0(f)A0({\"a\":\"x<y{\",\"b\":1})");
    expect("<|function_call|>", "Ok.<|function_call|>{\"name\": \"f\", \"arguments\": {}}",
           "C(Ok.)T0(f)A0({})");
    static const char *const bad[] = {"call:f",        "call:{}",       "call:f {}",
                                      "call:f{a}",     "call:f{a:}",    "call:f{:1}",
                                      "call:f{a:[1}]", "call:f{a:<b>}", "call:f{a:1 2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[128], want[160];
        snprintf(text, sizeof text, "<|tool_call>%s", bad[i]);
        snprintf(want, sizeof want, "C(%s)", text);
        expect(GEMMA4, text, want);
    }
    expect(GEMMA4, "<|tool_call>f{a:1}}<tool_call|>x{", "T0(f)A0({\"a\":1})C(}<tool_call|>x{)");
    expect(GEMMA4, "<|tool_call>call:f{a:1,}", "T0(f)A0({\"a\":1~)C(,})");
    expect(GEMMA4, "<|tool_call>call:f{a:1 2,b:3", "T0(f)A0({\"a\":\"1 2\"~)");
    expect(GEMMA4, "<|tool_call>call:f{a:" G4_QUOTE "x}<|\"", "T0(f)A0({\"a\":\"x}~)");
}

TEST_PROGRAM(answer_python) { return cases_run(NULL, NULL); }
