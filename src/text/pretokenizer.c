// The tables of pre-tokenizers: names, as model files give them, and regular expressions. A name's
// steps are those of the tokenizer.json that the model was published with. Steps that several names
// share are written once. "default" has the steps that llama.cpp takes for files without a name.
// Steps of rarer names are expressions for PCRE2.
#include "text/pretokenizer.h"

#include <stdio.h>
#include <string.h>

#include "unicode/unicode.h"

struct step_row { // one of match and regex is the pattern
    pattern_fn match;
    const char *regex;
    bool covers;
    enum vocab_split_behavior behavior;
};

enum { STEPS_MAX = 6 };

#define ALL(pattern)                                                                               \
    { .match = pattern, .covers = true }
#define PART(pattern)                                                                              \
    { .match = pattern }
#define EXPR(expression)                                                                           \
    { .regex = expression }

static const struct step_row gpt2[STEPS_MAX] = {ALL(pattern_gpt2)};
static const struct step_row llama3[STEPS_MAX] = {ALL(pattern_llama3)};
static const struct step_row qwen2[STEPS_MAX] = {ALL(pattern_qwen2)};
static const struct step_row qwen35[STEPS_MAX] = {ALL(pattern_qwen35)};
static const struct step_row seed_coder[STEPS_MAX] = {ALL(pattern_seed_coder)};
static const struct step_row gpt4o[STEPS_MAX] = {ALL(pattern_gpt4o)};
static const struct step_row tekken[STEPS_MAX] = {ALL(pattern_tekken)};
static const struct step_row single_digits[STEPS_MAX] = {PART(pattern_number), ALL(pattern_gpt2)};
static const struct step_row minicpm5[STEPS_MAX] = {PART(pattern_numbers_3),
                                                    ALL(pattern_long_numbers)};
static const struct step_row fallback[STEPS_MAX] = {PART(pattern_punctuation_run),
                                                    ALL(pattern_gpt2), PART(pattern_numbers),
                                                    PART(pattern_digits_3)};
static const struct step_row falcon[STEPS_MAX] = {
    {.match = pattern_punctuation, .behavior = SPLIT_CONTIGUOUS},
    ALL(pattern_gpt2),
    PART(pattern_byte_numbers), // these follow ByteLevel
    PART(pattern_digits_3),
};
static const struct step_row deepseek_llm[STEPS_MAX] = {
    PART(pattern_line_end),  PART(pattern_space_cased), PART(pattern_space_signs),
    PART(pattern_space_end), PART(pattern_asian),       PART(pattern_number)};
static const struct step_row deepseek_coder[STEPS_MAX] = {PART(pattern_line_end),
                                                          PART(pattern_space_letters),
                                                          PART(pattern_space_marks),
                                                          PART(pattern_asian),
                                                          PART(pattern_number)};
static const struct step_row deepseek_v3[STEPS_MAX] = {PART(pattern_numbers_3),
                                                       PART(pattern_han_kana),
                                                       PART(pattern_deepseek_v3)};

static const struct step_row laguna[STEPS_MAX] = {ALL(pattern_lines), ALL(pattern_qwen2)};
static const struct step_row lines[STEPS_MAX] = {ALL(pattern_lines)};

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LINES        "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

// Words have no Han character: those are words of their own. Published as sets with "&&". The
// script's characters are written out, since PCRE2 takes \p{Han} for a larger set.
#define HAN                                                                                        \
    "[\u2E80-\u2E99\u2E9B-\u2EF3\u2F00-\u2FD5\u3005\u3007\u3021-\u3029\u3038-\u303B\u3400-"        \
    "\u4DBF\u4E00-\u9FFF\uF900-\uFA6D\uFA70-\uFAD9\U00016FE2\U00016FE3\U00016FF0\U00016FF1"        \
    "\U00020000-\U0002A6DF\U0002A700-\U0002B739\U0002B740-\U0002B81D\U0002B820-"                   \
    "\U0002CEA1\U0002CEB0-\U0002EBE0\U0002EBF0-\U0002EE5D\U0002F800-\U0002FA1D"                    \
    "\U00030000-\U0003134A\U00031350-\U000323AF]"
#define K2_UPPER "(?:(?!" HAN ")[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}])"
#define K2_LOWER "(?:(?!" HAN ")[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}])"
#define K2_LEAD  "[^\\r\\n\\p{L}\\p{N}]?"
static const struct step_row kimi_k2[STEPS_MAX] = {
    EXPR(HAN "+|" K2_LEAD K2_UPPER "*" K2_LOWER "+" CONTRACTIONS "?|" K2_LEAD K2_UPPER "+" K2_LOWER
             "*" CONTRACTIONS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" LINES)};
// Words may have blanks inside. Nothing behind a loop gives it a reason to go back, so the loops
// are possessive: their time is linear.
static const struct step_row exaone_moe[STEPS_MAX] = {
    EXPR(CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*+(?: \\p{L}\\p{M}*+)*+)++|\\p{N}| "
                      "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+")};
static const struct step_row youtu[STEPS_MAX] = {
    EXPR("[\uAC00-\uD7A3\u3131-\u318E]+|[\uFF01\u2026\u201C\u201D\u2018\u2019\u2014\uFF1A\uFF1B"
         "\uFF0C\u3001-\u303F\uFE30-\uFE4F]+|[\u3105-\u312F]+|[\u4E00-\u9FA5\u3040-\u309F\u30A0-"
         "\u30FF]+"),
    ALL(pattern_youtu)};
// Groups of three digits that end where the number ends. Published as a group that looks ahead to
// the number's end; so each would cost the length of the number. Here the first one or two digits
// are cut off once, and groups follow from the left.
#define FIRST_OF(digit) "(?<!" digit ")" digit "{1,2}(?=(?:" digit "{3})*+\\z)"
static const struct step_row afmoe[STEPS_MAX] = {
    PART(pattern_numbers), EXPR(FIRST_OF("\\p{N}")), PART(pattern_numbers_3),
    EXPR("[\u4E00-\u9FFF\u3400-\u4DBF\uF900-\uFAFF\u3040-\u309F\u30A0-\u30FF\uFF65-\uFF9F\u2F00-"
         "\u2FDF\u0E40-\u0E7F\u0E80-\u0EFF\u1780-\u17FF\u1000-\u109F\uAA60-\uAA7F\uA9E0-\uA9FF"
         "\uAC00-\uD7AF\u1100-\u11FF]+"),
    PART(pattern_deepseek_v3)};
// A number before a letter is left to the second pattern.
static const struct step_row tiny_aya[STEPS_MAX] = {EXPR("(?<!\\d)\\d++(?!\\w)"),
                                                    EXPR(FIRST_OF("\\d")), ALL(pattern_gpt4o)};
// Published as cuts before groups, so other numbers stay with the digits around them.
static const struct step_row superbpe[STEPS_MAX] = {
    PART(pattern_numbers),
    {.regex = "(?<!\\d)\\d{1,2}(?=(?:\\d{3})++(?!\\d))", .behavior = SPLIT_MERGED_WITH_PREVIOUS},
    {.regex = "\\d{3}", .behavior = SPLIT_MERGED_WITH_NEXT}};
static const struct step_row jais2[STEPS_MAX] = {EXPR(
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
                 "\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|"
                 "\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|"
                 "\\s{1}")};
#define BLOOM " ?[^(\\s|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)]+"
static const struct step_row bloom[STEPS_MAX] = {EXPR(BLOOM)};
static const struct step_row viking[STEPS_MAX] = {EXPR(BLOOM), PART(pattern_number)};
static const struct step_row chameleon[STEPS_MAX] = {EXPR("<sentinel:[0-9]+>"),
                                                     EXPR("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
                                                     EXPR("([\\t\\n]|    |  )"),
                                                     PART(pattern_number),
                                                     EXPR("[\\p{P}!-/:-@\\[-`{-~]"),
                                                     ALL(pattern_gpt2)};

enum { NFC = 1, WHOLE = 2 }; // WHOLE: merges are ignored where a whole word is a token

static const struct {
    const char *name;
    const struct step_row *steps; // [STEPS_MAX], rows without a pattern end it
    int traits;
} names[] = {
    {"", gpt2, 0},
    {"gpt-2", gpt2, 0},
    {"gpt2", gpt2, 0},
    {"phi-2", gpt2, 0},
    {"gigachat", gpt2, 0},
    {"a.x-4.0", gpt2, 0},
    {"mellum", gpt2, 0},
    {"exaone4", gpt2, 0},
    {"jais", gpt2, 0},
    {"trillion", gpt2, 0},
    {"granite-docling", gpt2, 0},
    {"jina-es", gpt2, 0},
    {"jina-de", gpt2, 0},
    {"jina-v2-es", gpt2, 0},
    {"jina-v2-de", gpt2, 0},
    {"modern-bert", gpt2, 0},
    {"mpt", gpt2, NFC},
    {"olmo", gpt2, NFC},
    {"default", fallback, 0},
    {"llama-bpe", llama3, WHOLE},
    {"llama3", llama3, WHOLE},
    {"llama-v3", llama3, WHOLE},
    {"falcon3", llama3, WHOLE},
    {"falcon-h1", llama3, WHOLE},
    {"pixtral", llama3, WHOLE},
    {"midm-2.0", llama3, WHOLE},
    {"lfm2", llama3, WHOLE},
    {"jina-v5-nano", llama3, WHOLE},
    {"dbrx", llama3, 0},
    {"smaug-bpe", llama3, 0},
    {"glm4", llama3, 0},
    {"chatglm-bpe", llama3, 0},
    {"minicpm5", minicpm5, WHOLE},
    {"qwen2", qwen2, NFC},
    {"qwen35", qwen35, NFC},
    {"deepseek-r1-qwen", qwen2, 0},
    {"megrez", qwen2, 0},
    {"stablelm2", qwen2, 0},
    {"hunyuan", qwen2, 0},
    {"solar-open", qwen2, 0},
    {"grok-2", qwen2, 0},
    {"bailingmoe", qwen2, 0}, // the pattern differs in writing only
    {"bailingmoe2", qwen2, 0},
    {"llada-moe", qwen2, 0},
    {"kormo", qwen2, 0},
    {"f2llmv2", qwen2, NFC},
    {"laguna", laguna, 0},
    {"seed-coder", seed_coder, 0},
    {"gpt-4o", gpt4o, 0},
    {"o200k", gpt4o, 0},
    {"llama4", gpt4o, 0},
    {"kanana2", gpt4o, 0},
    {"minimax-m2", gpt4o, 0},
    {"talkie", gpt4o, 0},
    {"granite-embed-multi-97m", gpt4o, WHOLE},
    {"tiny_aya", tiny_aya, 0},
    {"cohere2moe", tiny_aya, 0},
    {"youtu", youtu, WHOLE},
    {"kimi-k2", kimi_k2, WHOLE},
    {"exaone-moe", exaone_moe, 0},
    {"tekken", tekken, WHOLE},
    {"starcoder", single_digits, 0},
    {"refact", single_digits, 0},
    {"smollm", single_digits, 0},
    {"codeshell", single_digits, 0},
    {"exaone", single_digits, 0},
    {"minerva-7b", single_digits, 0},
    {"mellum2", single_digits, 0},
    {"command-r", single_digits, NFC},
    {"falcon", falcon, 0},
    {"deepseek-llm", deepseek_llm, 0},
    {"deepseek-coder", deepseek_coder, 0},
    {"deepseek-v3", deepseek_v3, 0},
    {"hunyuan-dense", deepseek_v3, 0},
    {"joyai-llm", deepseek_v3, 0},
    {"afmoe", afmoe, 0},
    {"superbpe", superbpe, 0},
    {"jais-2", jais2, 0},
    {"bloom", bloom, 0},
    {"poro-chat", bloom, 0},
    {"gpt3-finnish", bloom, 0},
    {"viking", viking, 0},
    {"chameleon", chameleon, 0},
    // not at byte level: the reader of the file sees to that
    {"gemma4", lines, 0},
    {"sarvam-moe", lines, 0},
};

#define UPPER  "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER  "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BEFORE "[^\\r\\n\\p{L}\\p{N}]?"
#define OTHERS "| ?[^\\s\\p{L}\\p{N}]+"
#define GPT2   " ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

// Line ends are written as escapes here; files also have them as they are.
static const struct {
    const char *expression;
    pattern_fn match;
    bool covers;
} expressions[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d|" GPT2, pattern_gpt2, true},
    {"'(?:[sdmt]|ll|ve|re)|" GPT2, pattern_gpt2, true},
    {CONTRACTIONS "|" BEFORE "\\p{L}+|\\p{N}{1,3}" OTHERS "[\\r\\n]*" LINES, pattern_llama3, true},
    {"'(?i:[sdmt]|ll|ve|re)|" BEFORE "+\\p{L}+|\\p{N}{1,3}" OTHERS
     "+[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     pattern_llama3, true},
    {CONTRACTIONS "|" BEFORE "\\p{L}+|\\p{N}" OTHERS "[\\r\\n]*" LINES, pattern_qwen2, true},
    {"'(?i:[sdmt]|ll|ve|re)|" BEFORE "+\\p{L}+|\\p{N}" OTHERS
     "+[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     pattern_qwen2, true},
    {CONTRACTIONS "|" BEFORE "\\p{L}+|\\p{N}+" OTHERS "[\\r\\n]*" LINES, pattern_long_numbers,
     true},
    {CONTRACTIONS "|" BEFORE "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" LINES,
     pattern_qwen35, true},
    {CONTRACTIONS "|" BEFORE "\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" LINES,
     pattern_seed_coder, true},
    {BEFORE UPPER "*" LOWER "+" CONTRACTIONS "?|" BEFORE UPPER "+" LOWER "*" CONTRACTIONS
                  "?|\\p{N}{1,3}" OTHERS "[\\r\\n/]*" LINES,
     pattern_gpt4o, true},
    {BEFORE UPPER "*" LOWER "+|" BEFORE UPPER "+" LOWER "*|\\p{N}" OTHERS "[\\r\\n/]*" LINES,
     pattern_tekken, true},
    {BEFORE UPPER "*" LOWER "+" CONTRACTIONS "?|" BEFORE UPPER "+" LOWER "*" CONTRACTIONS
                  "?|\\p{N}" OTHERS "[\\r\\n/]*" LINES,
     pattern_youtu, true},
    {"[^\\n]+|[\\n]+", pattern_lines, true},
    {"\\p{N}", pattern_number, false},
    {"\\p{N}+", pattern_numbers, false},
    {"\\p{N}{1,3}", pattern_numbers_3, false},
    {"[0-9][0-9][0-9]", pattern_digits_3, false},
    {"[\\r\\n]", pattern_line_end, false},
    {"\\s+$", pattern_space_end, false},
    {"\\s", pattern_white, false},
    {"\\s?\\p{L}+", pattern_space_letters, false},
    {"\\s?\\p{P}+", pattern_space_marks, false},
    {"[\\p{P}\\$\\+<=>\\^~\\|]+", pattern_punctuation_run, false},
    {"[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+", pattern_han_kana, false},
    {"[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+", pattern_asian, false},
    {"\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+", pattern_space_signs,
     false},
    {"[!\"#$%&'()*+,\\-./"
     ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
     "?[\\p{P}\\p{S}]+[\\r\\n]*" LINES,
     pattern_deepseek_v3, false},
};

enum { EXPRESSION_COUNT = sizeof expressions / sizeof expressions[0] };

bool pretokenizer_expression(size_t row, const char **expression, pattern_fn *match) {
    if (row >= EXPRESSION_COUNT) return false;
    *expression = expressions[row].expression;
    *match = expressions[row].match;
    return true;
}

// ---------------------------------------------------------------- from a vocabulary's splits

static bool span_is(struct text_span span, const char *text) {
    return span.len == strlen(text) && (span.len == 0 || memcmp(span.data, text, span.len) == 0);
}

// The next character of an expression, with line ends as escapes and an escaped quote as a quote:
// files write both forms. 0 at the end.
static int expression_next(struct text_span *rest, int *pending) {
    if (*pending) {
        const int next = *pending;
        *pending = 0;
        return next;
    }
    if (rest->len == 0) return 0;
    const char next = *rest->data;
    const bool quote = next == '\\' && rest->len > 1 && rest->data[1] == '"';
    rest->data += 1 + quote;
    rest->len -= 1 + (size_t)quote;
    if (quote) return '"';
    if (next == '\r') *pending = 'r';
    if (next == '\n') *pending = 'n';
    return *pending ? '\\' : (uint8_t)next;
}

static bool expression_is(struct text_span span, const char *expression) {
    int pending = 0, next;
    do {
        next = expression_next(&span, &pending);
        if (next != (uint8_t)*expression++) return false;
    } while (next);
    return span.len == 0;
}

struct builder {
    struct splitter *splitter;
    struct pretokenizer_traits *traits;
    struct arena *arena;
    bool behind_bytes; // the text is in the byte-level alphabet by now
    rn_error *err;
};

static void refuse(struct builder *b, const char *what, struct text_span name, const char *why) {
    if (b->traits->unsupported[0]) return; // the first one is named
    char quoted[64];
    unicode_quote(name.data, name.len, quoted, sizeof quoted);
    snprintf(b->traits->unsupported, sizeof b->traits->unsupported,
             "%s '%s' is not supported%s%.40s", what, quoted, why[0] ? ": " : "", why);
}

static rn_status step_add(struct builder *b, struct split_step step) {
    struct splitter *const splitter = b->splitter;
    if (splitter->n_step == SPLIT_MAX_STEPS) {
        refuse(b, "a pre-tokenizer with more splits than", (struct text_span){"16", 2}, "");
        regex_destroy(step.regex);
        return RN_OK;
    }
    splitter->step[splitter->n_step++] = step;
    return RN_OK;
}

static rn_status add_row(struct builder *b, const struct step_row *row) {
    if (!row->match && !row->regex) return RN_OK; // behind the last one
    struct split_step step = {.match = row->match,
                              .covers = row->covers,
                              .behavior = row->behavior};
    if (row->regex) {
        const struct text_span expression = {row->regex, strlen(row->regex)};
        const rn_status status = regex_create(expression, &step.regex, b->err);
        if (status != RN_OK) return status;
    }
    return step_add(b, step);
}

static rn_status add_named(struct builder *b, const struct vocab_split *split) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!span_is(split->pattern, names[i].name)) continue;
        if (names[i].traits & NFC) b->traits->nfc = true;
        if (names[i].traits & WHOLE) b->traits->ignore_merges = true;
        rn_status status = RN_OK;
        for (size_t k = 0; k < STEPS_MAX && status == RN_OK; k++)
            status = add_row(b, &names[i].steps[k]);
        return status;
    }
    refuse(b, "pre-tokenizer", split->pattern, "");
    return RN_OK;
}

static rn_status add_regex(struct builder *b, const struct vocab_split *split) {
    struct split_step step = {.behavior = split->behavior, .invert = split->invert};
    const bool each =
        step.behavior == SPLIT_ISOLATED || (step.behavior == SPLIT_REMOVED && step.invert);
    for (size_t i = 0; i < EXPRESSION_COUNT; i++) {
        if (!expression_is(split->pattern, expressions[i].expression)) continue;
        step.match = expressions[i].match;
        step.covers = expressions[i].covers && each;
        if (b->behind_bytes && step.match != pattern_digits_3) break;
        return step_add(b, step);
    }
    if (b->behind_bytes) {
        refuse(b, "pre-tokenizer", split->pattern, "it follows ByteLevel");
        return RN_OK;
    }
    rn_error why = {0};
    const rn_status status = regex_create(split->pattern, &step.regex, &why);
    if (status == RN_OK) return step_add(b, step);
    if (status != RN_ERR_UNSUPPORTED) return err_set(b->err, status, "%s", why.message);
    refuse(b, "regular expression", split->pattern, why.message);
    return RN_OK;
}

static rn_status add_literal(struct builder *b, const struct vocab_split *split) {
    if (split->pattern.len == 0) return RN_OK; // cuts nothing
    const char *const text = arena_strdup(b->arena, split->pattern.data, split->pattern.len);
    if (!text) return err_set(b->err, RN_ERR_NOMEM, "out of memory for a pre-tokenizer");
    return step_add(b, (struct split_step){.literal = {text, split->pattern.len},
                                           .behavior = split->behavior,
                                           .invert = split->invert});
}

static rn_status add_split(struct builder *b, const struct vocab_split *split) {
    const bool bytes = b->behind_bytes;
    struct split_step step = {.behavior = split->behavior, .invert = split->invert};
    switch (split->kind) {
    case SPLIT_REGEX:
        return add_regex(b, split);
    case SPLIT_DIGITS:
        step = (struct split_step){.match = bytes ? pattern_byte_numbers : pattern_numbers};
        return step_add(b, step);
    case SPLIT_DIGITS_INDIVIDUAL:
        step = (struct split_step){.match = bytes ? pattern_byte_number : pattern_number};
        return step_add(b, step);
    case SPLIT_BYTE_LEVEL:
        b->behind_bytes = true;
        return RN_OK;
    case SPLIT_UNSUPPORTED:
        refuse(b, "pre-tokenizer", split->pattern, "");
        return RN_OK;
    default:
        break;
    }
    if (bytes) {
        refuse(b, "pre-tokenizer", split->pattern, "it follows ByteLevel");
        return RN_OK;
    }
    switch (split->kind) {
    case SPLIT_NAMED:
        return add_named(b, split);
    case SPLIT_LITERAL:
        return add_literal(b, split);
    case SPLIT_PUNCTUATION:
        step.match = pattern_punctuation;
        return step_add(b, step);
    case SPLIT_WHITESPACE:
        step = (struct split_step){pattern_word, .behavior = SPLIT_REMOVED, .invert = true};
        return step_add(b, step);
    case SPLIT_WHITESPACE_ALL:
        step = (struct split_step){pattern_white, .behavior = SPLIT_REMOVED};
        return step_add(b, step);
    default:
        return err_set(b->err, RN_ERR_MODEL, "a split of the unknown kind %d", (int)split->kind);
    }
}

rn_status pretokenizer_init(struct splitter *splitter, const struct vocab_source *source,
                            struct arena *arena, struct pretokenizer_traits *traits,
                            rn_error *err) {
    struct builder b = {.splitter = splitter, .traits = traits, .arena = arena, .err = err};
    *splitter = (struct splitter){0};
    *traits = (struct pretokenizer_traits){0};
    for (int32_t i = 0; i < source->n_split; i++) {
        if ((unsigned)source->split[i].behavior > SPLIT_CONTIGUOUS)
            return err_set(err, RN_ERR_MODEL, "a split of the unknown behavior %d",
                           (int)source->split[i].behavior);
        const rn_status status = add_split(&b, &source->split[i]);
        if (status != RN_OK) return status;
    }
    return RN_OK;
}
