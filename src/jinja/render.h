// One render: its memory, its limits, its output and its scopes. A failure is set here and jumps
// back to the function of template.h that was called, so nothing in between checks for errors.
// Everything a render makes is owned by the render, so nothing is lost on the way.
#ifndef RN_JINJA_RENDER_H
#define RN_JINJA_RENDER_H

#include <setjmp.h>

#include "base/arena.h"
#include "jinja/ast.h"
#include "jinja/table.h"
#include "jinja/template.h"

// A step is an evaluated node, an item walked, or JINJA_STEP_BYTES worked on.
enum {
    JINJA_MAX_FRAMES = 1000, // statements and expressions inside each other; under 512 KiB of stack
    JINJA_MAX_RANGE = 100000,
    JINJA_STEP_BYTES = 256,
};

struct scope {
    struct scope *parent;
    struct dict vars;
};

struct render {
    const struct template *tmpl;
    struct template_limits limits;
    int64_t now;
    struct arena arena;
    size_t memory, memory_max; // memory_max: of limits.memory, which grows with the input
    uint64_t steps;
    size_t crumbs; // bytes worked on that make no step yet
    uint32_t at;   // the place in the source that is evaluated
    int n_frames, n_calls;
    // Output and the marks of its bytes. Text that becomes a value (of a macro, a filter) is
    // written behind it and taken off.
    char *out;
    uint8_t *marks;
    size_t out_len, out_cap;
    struct scope *scope;
    struct dict globals;
    jmp_buf failed; // where failures go
    rn_status status;
    rn_error *err;
};

// --- errors and limits (render.c) ---

// The template is wrong at the current place, or a limit is reached.
_Noreturn void jinja_fail(struct render *r, const char *fmt, ...) RN_PRINTF(2, 3);
// With a status and a message as it is: raise_exception, no memory.
_Noreturn void jinja_fail_with(struct render *r, rn_status status, const char *text, size_t len);
// An operation that undefined values do not have.
_Noreturn void jinja_fail_undefined(struct render *r, struct value v);

void jinja_charge(struct render *r, uint64_t steps);
void jinja_work(struct render *r, size_t bytes); // charges for bytes copied, compared or searched
void jinja_work_chars(struct render *r, size_t bytes); // for bytes looked at one by one
void *jinja_alloc(struct render *r, size_t bytes);     // zeroed
void *jinja_array(struct render *r, size_t count, size_t size);
// Twice the capacity for an array of n items.
void *jinja_array_grow(struct render *r, const void *old, size_t n, size_t *cap, size_t size);

// Counts a frame of the C stack; jinja_frame_leave takes it back.
void jinja_frame_enter(struct render *r);
void jinja_frame_leave(struct render *r);

// How many bytes of a name a message shows, so that the rest of the message has room.
static inline int jinja_shown(size_t len) { return len > 80 ? 80 : (int)len; }

// --- output (render.c) ---

void jinja_write(struct render *r, const char *data, size_t len);
void jinja_write_text(struct render *r, const char *text);
void jinja_write_str(struct render *r, const struct str *s, size_t from, size_t to); // with marks
void jinja_write_as(struct render *r, const char *data, size_t len, uint8_t mark);
// Fails unless `more` bytes are still allowed.
void jinja_write_check(struct render *r, uint64_t more);
// The text since `from` (a former out_len) as a string; it is no longer output then.
struct value jinja_take(struct render *r, size_t from);

static inline uint8_t str_mark(const struct str *s, size_t at) {
    return s->marks ? s->marks[at] : 0;
}

// --- text of values (print.c, json.c, format.c) ---

void jinja_print(struct render *r, struct value v);          // str(v)
struct value jinja_to_str(struct render *r, struct value v); // str(v); strings as they are

struct print_style {
    bool is_json; // json.dumps(v), else repr(v)
    bool is_ascii;
    const struct str *indent;                         // NULL: one line
    const struct str *item_separator, *key_separator; // NULL: Python's
};
void jinja_print_styled(struct render *r, struct value v, const struct print_style *style);
struct value jinja_read_json(struct render *r, const char *what, const char *json, size_t len,
                             uint8_t mark);

// "..."|format(args), and "...".format(args) where it is not is_percent.
struct value jinja_format(struct render *r, const struct str *text, const struct args *args,
                          bool is_percent);

// --- evaluation (eval.c, exec.c, call.c, operators.c, loop.c) ---

struct value jinja_eval(struct render *r, const struct node *node);
// The links of a chain, onto a value.
struct value jinja_eval_links(struct render *r, const struct node *link, struct value v);
struct value jinja_binary(struct render *r, enum node_op op, struct value a, struct value b);
struct value jinja_compare(struct render *r, enum node_op op, struct value a, struct value b);
struct value jinja_call(struct render *r, struct value callee, const struct args *args);
// A filter or test by name, for map, select and the like.
struct value jinja_call_named(struct render *r, const struct table *table, struct value name,
                              struct value self, const struct args *args);
_Noreturn void jinja_fail_no_entry(struct render *r, const struct table *table,
                                   const struct str *name);

enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };
enum flow jinja_exec(struct render *r, const struct node *body);
// A block's text in a scope of its own, through the filters of a chain (NULL: none).
struct value jinja_exec_capture(struct render *r, const struct node *body,
                                const struct node *filters);
void jinja_assign(struct render *r, const struct node *target, struct value value);
enum flow jinja_exec_for(struct render *r, const struct node *node);
struct value jinja_loop_attr(struct render *r, struct loop *loop, const struct str *name);

// --- scopes (exec.c) ---

struct scope *jinja_scope_push(struct render *r, struct scope *parent);
void jinja_scope_set(struct render *r, const struct str *name, struct value value);
struct value jinja_lookup(struct render *r, const struct str *name);

// --- arguments, for rows (call.c) ---

// The argument, or the fallback when it is absent; they fail for an argument of the wrong kind.
int64_t jinja_arg_int(struct render *r, const struct call *c, int i, int64_t fallback);
const struct str *jinja_arg_str(struct render *r, const struct call *c, int i); // NULL: absent
bool jinja_arg_bool(const struct call *c, int i);                               // false when absent

#endif
