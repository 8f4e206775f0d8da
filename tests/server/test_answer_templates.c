// Answers: the formats of published models, which follow from their templates.
#include "answer_text.h"
#include "data_file.h"

static bool opens(const char *tmpl, const char *prompt) {
    const struct answer_marks marks = answer_marks_of(tmpl);
    return answer_marks_opened(&marks, prompt, strlen(prompt));
}

// The markup of published models follows from their templates.
CASE(templates_tell_the_format) {
    static const char *const cases[][3] = {
        {"chatml", "<think>a</think><tool_call>{}", "C(<think>a</think><tool_call>{})"},
        {"phi3", "{\"name\": \"f\", \"parameters\": {}}",
         "C({\"name\": \"f\", \"parameters\": {}})"},
        {"gemma", "<tool_call>{\"name\": \"f\"}", "C(<tool_call>{\"name\": \"f\"})"},
        {"hermes", "<tool_call>{\"name\": \"f\"}</tool_call>", "T0(f)A0({})"},
        {"qwen25", "<tool_call>{\"name\": \"f\"}</tool_call>", "T0(f)A0({})"},
        {"qwen3", "<think>a</think><tool_call>{\"name\": \"f\"}</tool_call>", "R(a)T0(f)A0({})"},
        {"llama3", "{\"name\": \"f\", \"parameters\": {}}", "T0(f)A0({})"},
        {"mistral", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}]", "T0(f)A0({})"},
        {"deepseek", "<think>a</think>" DS_CALLS DS_CALL "f" DS_SEP "{}" DS_CALL_END,
         "R(a)T0(f)A0({})"},
        {"gptoss", "<|channel|>analysis<|message|>a<|end|>", "R(a)"},
        {"qwen35",
         "<think>a</think><tool_call><function=f><parameter=a>1</parameter></function></tool_call>",
         "R(a)T0(f)A0({\"a\":1})"},
        {"nemotron", "<think>a</think><TOOLCALL>[{\"name\": \"f\"}]</TOOLCALL>", "R(a)T0(f)A0({})"},
        {"lfm2", "<think>a</think>" LFM2_OPEN "[f(a=1)]" LFM2_CLOSE, "R(a)T0(f)A0({\"a\":1})"},
        {"apertus", "<|inner_prefix|>a<|inner_suffix|><|tools_prefix|>[{\"f\": {}}]",
         "R(a)T0(f)A0({})"},
        {"cohere", "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>",
         "R(a)C(b)"},
        {"deepseek31", DS_CALLS DS_CALL "f" DS_SEP "{}" DS_CALL_END DS_CALLS_END, "T0(f)A0({})"},
        {"ernie45",
         "<think>a</think><response>b</response><tool_call>{\"name\": \"f\"}</tool_call>",
         "R(a)C(b)T0(f)A0({})"},
        {"exaone4", "<think>a</think><tool_call>{\"name\": \"f\"}</tool_call>", "R(a)T0(f)A0({})"},
        {"gemma4", "<|channel>thought\na<channel|>b<|tool_call>call:f{a:1}<tool_call|>",
         "R(a)C(b)T0(f)A0({\"a\":1})"},
        {"glm45", "<think>a</think><tool_call>f</tool_call>", "R(a)T0(f)A0({})"},
        {"granite4", "<tool_call>{\"name\": \"f\"}</tool_call>", "T0(f)A0({})"},
        {"hunyuan",
         "<think>a</think><answer>b<tool_calls>[{\"name\": \"f\"}]</tool_calls></answer>",
         "R(a)C(b)T0(f)A0({})"},
        {"kimi", "<think>a</think><|tool_call_begin|>f:0<|tool_call_argument_begin|>{}",
         "R(a)T0(f)A0({})"},
        {"llama4", "[f(a=1)]", "T0(f)A0({\"a\":1})"},
        {"minimax", "<think>a</think><minimax:tool_call><invoke name=\"f\"></invoke>",
         "R(a)T0(f)A0({})"},
        {"ministral3", "[THINK]a[/THINK][TOOL_CALLS]f[ARGS]{}", "R(a)T0(f)A0({})"},
        {"olmo3", "<think>a</think><function_calls>f()</function_calls>", "R(a)T0(f)A0({})"},
        {"seed", "<seed:think>a</seed:think><seed:tool_call><function=f></function>",
         "R(a)T0(f)A0({})"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[DATA_PATH_BYTES];
        snprintf(path, sizeof path, TEST_DATA "/templates/%s.jinja", cases[i][0]);
        struct data_file file = data_file_find(path);
        check(file.data != NULL, "%s", path);
        expect((const char *)file.data, cases[i][1], cases[i][2]);
        free(file.data);
    }
}

// Whether the prompt of a conversation, as jinja2 rendered it, opens the reasoning.
CASE(templates_open_the_reasoning) {
    static const struct {
        const char *family, *name;
        bool opens;
    } cases[] = {{"qwen35", "one turn", true},        {"qwen35", "reasoning off", false},
                 {"qwen35", "tools called", true},    {"nemotron", "one turn", true},
                 {"lfm2", "one turn", false},         {"qwen3", "one turn", false},
                 {"qwen3", "reasoning off", false},   {"minimax", "one turn", true},
                 {"olmo3", "one turn", true},         {"ernie45", "one turn", true},
                 {"ernie45", "reasoning off", false}, {"gemma4", "one turn", false},
                 {"gemma4", "reasoning off", false},  {"deepseek31", "one turn", false},
                 {"exaone4", "one turn", false},      {"cohere", "reasoning off", false},
                 {"glm45", "one turn", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[DATA_PATH_BYTES];
        snprintf(path, sizeof path, TEST_DATA "/templates/%s.jinja", cases[i].family);
        struct data_file source = data_file_read(path);
        snprintf(path, sizeof path, TEST_DATA "/templates/expected/%s.json", cases[i].family);
        json_t *rendered = data_json_read(path);
        const char *text =
            json_string_value(json_object_get(json_object_get(rendered, cases[i].name), "text"));
        check(text && opens((const char *)source.data, text) == cases[i].opens, "%s, %s: %s",
              cases[i].family, cases[i].name, text ? text : "no text");
        json_decref(rendered);
        free(source.data);
    }
}

// ---------------------------------------------------------------- calls that templates write

// Calls as a list of {"name", "arguments"}.
static void on_call(void *ctx, enum answer_part part, int tool, const char *text, size_t len) {
    json_t *calls = ctx;
    if (part == PART_TOOL)
        json_array_append_new(calls, json_pack("{s:s%}", "name", text, len));
    else if (part == PART_TOOL_ARGUMENTS)
        json_object_set_new(json_array_get(calls, (size_t)tool), "arguments",
                            json_loadb(text, len, 0, NULL));
}

// The first calls of a conversation in that form, and tools whose schemas have their values.
static json_t *calls_of(const json_t *messages, json_t *tools) {
    json_t *calls = json_array();
    for (size_t i = 0; i < json_array_size(messages) && !json_array_size(calls); i++) {
        const json_t *list = json_object_get(json_array_get(messages, i), "tool_calls");
        for (size_t k = 0; k < json_array_size(list); k++) {
            const json_t *call = json_object_get(json_array_get(list, k), "function");
            json_t *name = json_object_get(call, "name"), *properties = json_object(), *value;
            json_t *arguments = json_object_get(call, "arguments");
            const char *key;
            json_object_foreach(arguments, key, value)
                json_object_set_new(properties, key, json_pack("{s:[O]}", "enum", value));
            json_array_append_new(tools, json_pack("{s:{s:O, s:{s:o}}}", "function", "name", name,
                                                   "parameters", "properties", properties));
            json_array_append_new(calls,
                                  json_pack("{s:O, s:O}", "name", name, "arguments", arguments));
        }
    }
    return calls;
}

// The texts around the first answer of a conversation.
struct written {
    const char *family, *begin, *end;
};

static void expect_read_back(const struct written *written, const char *source, const char *name,
                             const json_t *messages, const char *text) {
    json_t *tools = json_array(), *calls = json_array(), *want = calls_of(messages, tools);
    json_t *types = answer_types_of(tools);
    struct answer_parts parts;
    const char *begin = strstr(text, written->begin);
    if (begin) begin += strlen(written->begin);
    const char *const end = begin ? strstr(begin, written->end) : NULL;
    check(begin && end && json_array_size(want), "%s, %s: %s", written->family, name, text);
    parts_init(&parts, answer_marks_of(source), true, types, false);
    parts_feed(&parts, begin, (size_t)(end - begin), true, on_call, calls);
    parts_deinit(&parts);
    check(json_equal(calls, want), "%s, %s: %s gave %s", written->family, name, begin,
          json_dumps(calls, JSON_COMPACT));
    json_decref(types);
    json_decref(calls);
    json_decref(tools);
    json_decref(want);
}

CASE(calls_that_a_template_writes_are_read_back) {
    static const struct written families[] = {
        {"hermes", "assistant\n", "<|im_end|>"},
        {"qwen25", "assistant\n", "<|im_end|>"},
        {"qwen3", "assistant\n", "<|im_end|>"},
        {"qwen35", "assistant\n", "<|im_end|>"},
        {"nemotron", "Assistant\n", "<SPECIAL_12>"},
        {"lfm2", "assistant\n", "<|im_end|>"},
        {"apertus", "<|assistant_start|>", "<|tools_suffix|>"},
        {"cohere", "<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"},
        {"deepseek31", "<\uFF5CAssistant\uFF5C></think>", "<\uFF5Cend\u2581of"},
        {"ernie45", "assistant\n", "<|im_end|>"},
        {"exaone4", "[|assistant|]\n", "[|endofturn|]"},
        {"gemma4", "<|turn>model\n", "<|tool_response>"},
        {"glm45", "<|assistant|>", "<|observation|>"},
        {"granite4", "assistant<|end_of_role|>", "<|end_of_text|>"},
        {"hunyuan", "<|extra_0|>", "<|eos|>"},
        {"kimi", "assistant<|im_middle|>", "<|im_end|>"},
        {"llama4", "assistant<|header_end|>\n\n", "<|eot|>"},
        {"minimax", "]~b]ai\n", "[e~["},
        {"ministral3", "[/INST]", "</s>"},
        {"olmo3", "assistant\n", "<|im_end|>"},
        {"seed", "<seed:bos>assistant", "<seed:eos>"},
    };
    static const char *const names[] = {"tool called", "tools called", "numbers"};
    json_t *all = data_json_read(TEST_DATA "/templates/conversations.json"), *conversation;
    int n = 0;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char path[DATA_PATH_BYTES];
        snprintf(path, sizeof path, TEST_DATA "/templates/%s.jinja", families[i].family);
        struct data_file source = data_file_read(path);
        snprintf(path, sizeof path, TEST_DATA "/templates/expected/%s.json", families[i].family);
        json_t *rendered = data_json_read(path);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            const char *text =
                json_string_value(json_object_get(json_object_get(rendered, names[k]), "text"));
            size_t at;
            json_array_foreach(json_object_get(all, "conversations"), at, conversation) {
                const json_t *name = json_object_get(conversation, "name");
                if (!text || strcmp(json_string_value(name), names[k])) continue;
                const json_t *variables = json_object_get(conversation, "variables");
                expect_read_back(&families[i], (const char *)source.data, names[k],
                                 json_object_get(variables, "messages"), text);
                n++;
            }
        }
        json_decref(rendered);
        free(source.data);
    }
    json_decref(all);
    check(n >= 46, "%d conversations", n);
}

TEST_PROGRAM(answer_templates) { return cases_run(NULL, NULL); }
