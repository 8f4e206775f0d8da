// Shapes of the requests of the mixes of mix.h, and whether a text has its shape.
#ifndef RN_TESTS_MIX_SHAPES_H
#define RN_TESTS_MIX_SHAPES_H

#include "check.h"
#include "engine/choice/shape.h"

static const struct {
    rn_shape_kind kind;
    const char *source;
} mix_shape_sources[] = {
    {RN_SHAPE_SCHEMA, "{\"type\":\"object\",\"properties\":{\"who\":{\"enum\":[\"fox\",\"hare\"]},"
                      "\"n\":{\"type\":\"integer\",\"maximum\":99,\"minimum\":0},"
                      "\"ok\":{\"type\":\"boolean\"}},\"required\":[\"who\",\"n\"],"
                      "\"additionalProperties\":false}"},
    {RN_SHAPE_SCHEMA, "{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/n\"},\"maxItems\":3,"
                      "\"$defs\":{\"n\":{\"anyOf\":[{\"type\":\"string\",\"maxLength\":9},"
                      "{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/n\"}}]}}}"},
    {RN_SHAPE_OBJECT, ""},
    {RN_SHAPE_REGEX, "(yes|no|maybe)[,.] [a-z ]{3,30}(\\.|!)"},
    {RN_SHAPE_REGEX, "[^0-9]*"},
    {RN_SHAPE_GRAMMAR, "root ::= sum\nsum ::= one (\"+\" one)*\none ::= [0-9]{1,3} | \"(\" sum "
                       "\")\""},
    {RN_SHAPE_CHOICES, "[\"the fox was here\",\"the fox is gone\",\"a hare\",\"a\",\"\"]"},
    {RN_SHAPE_STRUCTURE,
     "{\"type\":\"structural_tag\",\"format\":{\"type\":\"triggered_tags\",\"triggers\":[\" the\"],"
     "\"tags\":[{\"begin\":\" the\",\"content\":{\"type\":\"regex\",\"pattern\":\"( "
     "[a-z]{1,8}){1,4}\"},"
     "\"end\":\".\"}]}}"},
};
enum { MIX_SHAPES = sizeof mix_shape_sources / sizeof *mix_shape_sources };

static inline void mix_shapes_create(const rn_model *model, rn_shape *out[MIX_SHAPES]) {
    rn_error err = {0};
    for (int i = 0; i < MIX_SHAPES; i++) {
        const char *source = mix_shape_sources[i].source;
        const rn_status status = rn_shape_compile(model, mix_shape_sources[i].kind, source,
                                                  strlen(source), &out[i], &err);
        check(status == RN_OK, "shape %d: %s", i, err.message);
    }
}

static inline void mix_shapes_release(rn_shape *shapes[MIX_SHAPES]) {
    for (int i = 0; i < MIX_SHAPES; i++) rn_shape_release(shapes[i]);
}

// Whether the text is the start of one that has the shape; complete: whether it has it.
static inline bool mix_shape_fits(const rn_shape *shape, const char *text, size_t len,
                                  bool complete) {
    struct constraint_run *run;
    assert_int_equal(constraint_open(shape->constraint, 1, &run, NULL), RN_OK);
    const bool fits = constraint_feed(run, 0, text, len);
    const bool ends = fits && constraint_may_end(run, 0);
    constraint_close(run);
    return complete ? ends : fits;
}

#endif
