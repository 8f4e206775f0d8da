// traceparent and tracestate to the letter of W3C Trace Context: each row breaks one rule, or just
// keeps it.
// label: memory
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "otlp_context.h"

#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"
#define VALID  "00-" TRACE "-" PARENT "-01"

// A head with these lines of fields.
static struct head head_of(const char *lines) {
    struct reader reader = {0};
    struct reader_bytes bytes;
    struct head head;
    char text[8192];
    snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: localhost\r\n%s\r\n", lines);
    assert_int_equal(reader_next(&reader, text, strlen(text), &bytes), READER_HEAD);
    reader_take_head(&reader, &head);
    reader_deinit(&reader);
    return head;
}

CASE(test_traceparents_that_keep_the_rules) {
    static const struct {
        const char *text;
        bool sampled;
    } good[] = {
        {VALID, true},
        {"00-" TRACE "-" PARENT "-00", false},
        {"00-" TRACE "-" PARENT "-03", true},  // random ids, sampled
        {"00-" TRACE "-" PARENT "-02", false}, // random ids alone
        {"00-" TRACE "-" PARENT "-ff", true},
        {"00-" TRACE "-" PARENT "-fe", false},
        {"01-" TRACE "-" PARENT "-01", true},          // a later version without more
        {"cc-" TRACE "-" PARENT "-01-what.the", true}, // and with more
        {"cc-" TRACE "-" PARENT "-01-", true},
        {"00-00000000000000000000000000000001-0000000000000001-01", true},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct otlp_context context = {0};
        check(otlp_traceparent_parse(good[i].text, &context), "%s was refused", good[i].text);
        check(context.sampled == good[i].sampled, "%s: sampled is %d", good[i].text,
              context.sampled);
        check(!strncmp(context.trace_id, good[i].text + 3, 32) && strlen(context.trace_id) == 32,
              "%s: trace %s", good[i].text, context.trace_id);
        check(!strncmp(context.parent_id, good[i].text + 36, 16) && strlen(context.parent_id) == 16,
              "%s: parent %s", good[i].text, context.parent_id);
    }
}

CASE(test_traceparents_that_break_a_rule) {
    static const char *const bad[] = {
        "",
        "00",
        "00-" TRACE "-" PARENT,
        "00-" TRACE "-" PARENT "-",
        "00-" TRACE "-" PARENT "-0",
        "00-" TRACE "-" PARENT "-011",
        "00-" TRACE "-" PARENT "-01-more", // of version 00 there is no more
        "00-" TRACE "-" PARENT "-01 ",
        "cc-" TRACE "-" PARENT "-01.what.the",
        "ff-" TRACE "-" PARENT "-01", // a forbidden version
        "0-" TRACE "-" PARENT "-01",
        "0g-" TRACE "-" PARENT "-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01", // upper case
        "00-" TRACE "-B7AD6B7169203331-01",
        "00-" TRACE "-" PARENT "-0A",
        "00-00000000000000000000000000000000-" PARENT "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319-" PARENT "-01",   // too short
        "00-0af7651916cd43dd8448eb211c80319cc-" PARENT "-01", // too long
        "00-" TRACE "-b7ad6b716920333-01",
        "00_" TRACE "_" PARENT "_01",
        "00-" TRACE "-" PARENT "_01",
        "00-" TRACE "_" PARENT "-01",
        " " VALID,
        "00-0af7651916cd43dd8448eb211c80319g-" PARENT "-01",
        "00-" TRACE "-b7ad6b716920333.-01",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct otlp_context context;
        check(!otlp_traceparent_parse(bad[i], &context), "'%s' was taken", bad[i]);
    }
}

CASE(test_a_request_continues_its_trace_or_starts_one) {
    static const struct {
        const char *lines;
        bool remote;
    } row[] = {
        {"traceparent: " VALID "\r\n", true},
        {"TraceParent: " VALID "\r\n", true},
        {"traceparent:   " VALID "  \r\n", true}, // the reader drops blanks around values
        {"traceparent: " VALID "x\r\n", false},
        {"traceparent: " VALID "\r\ntraceparent: " VALID "\r\n",
         false}, // one of two cannot be chosen
        {"trace-parent: " VALID "\r\n", false},
        {"", false},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct head head = head_of(row[i].lines);
        struct otlp_context own, none;
        otlp_context_read(&head, true, &own);
        otlp_context_read(&head, false, &none);
        check(own.known && own.remote == row[i].remote && none.known == row[i].remote, "%s",
              row[i].lines);
        check(!strcmp(own.trace_id, TRACE) == row[i].remote, "%s: %s", row[i].lines, own.trace_id);
        check(!strcmp(own.parent_id, PARENT) == row[i].remote, "%s: %s", row[i].lines,
              own.parent_id);
        check(own.sampled && strlen(own.trace_id) == 32 && strlen(own.span_id) == 16, "%s",
              row[i].lines);
        check(strcmp(own.span_id, own.parent_id) != 0 && strspn(own.span_id, "0") < 16, "%s",
              row[i].lines);
        head_deinit(&head);
    }
    struct head head = head_of("");
    struct otlp_context a, b;
    otlp_context_read(&head, true, &a);
    otlp_context_read(&head, true, &b);
    assert_string_not_equal(a.trace_id, b.trace_id);
    assert_string_not_equal(a.span_id, b.span_id);
    assert_int_equal(strspn(a.trace_id, "0123456789abcdef"), 32);
    head_deinit(&head);
}

// ---------------------------------------------------------------- tracestate

static void expect_state(const char *lines, const char *want) {
    struct head head = head_of(lines);
    char got[OTLP_STATE_BYTES + 1];
    otlp_tracestate_read(&head, got);
    check(!strcmp(got, want), "%.200s gives '%s', not '%s'", lines, got, want);
    head_deinit(&head);
}

CASE(test_tracestates_are_joined_or_dropped) {
    expect_state("", "");
    expect_state("tracestate: congo=t61rcWkgMzE\r\n", "congo=t61rcWkgMzE");
    expect_state("tracestate: a=1, b=2\t,c=3\r\n", "a=1,b=2,c=3");
    expect_state("tracestate: a=1\r\ntracestate: b=2\r\n", "a=1,b=2");
    expect_state("tracestate: a=1,,b=2,\r\n", "a=1,b=2"); // empty members are allowed
    expect_state("tracestate: fw529a3039@dt=FfF, a*/_-1=x y!\r\n", "fw529a3039@dt=FfF,a*/_-1=x y!");
    expect_state("tracestate: 1a=x;y\r\n", "1a=x;y");
    static const char *const bad[] = {"a",     "a=",  "=1",   "A=1",     "a b=1",
                                      "a=1=2", "_=1", "a =1", "a=1,a=2", "a=1,B=2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char lines[64];
        snprintf(lines, sizeof lines, "tracestate: %s\r\n", bad[i]);
        expect_state(lines, "");
    }
}

// n members of len bytes each.
static char *members(int n, int len) {
    static char lines[4096];
    int used = snprintf(lines, sizeof lines, "tracestate: ");
    for (int i = 0; i < n; i++)
        used += snprintf(lines + used, sizeof lines - (size_t)used, "%sk%02d=%.*s", i ? "," : "", i,
                         len - 4, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    snprintf(lines + used, sizeof lines - (size_t)used, "\r\n");
    return lines;
}

CASE(test_tracestates_have_limits) {
    struct head head = head_of(members(32, 15)); // 511 bytes with the commas
    char got[OTLP_STATE_BYTES + 1];
    otlp_tracestate_read(&head, got);
    assert_int_equal(strlen(got), 511);
    head_deinit(&head);
    expect_state(members(33, 6), "");  // too many
    expect_state(members(32, 16), ""); // too long
}

TEST_PROGRAM(otlp_context) { return cases_run(NULL, NULL); }
