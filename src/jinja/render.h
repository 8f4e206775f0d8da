// One render: its memory, its limits, its output and its scopes. Every function that can fail
// returns V_ERROR, false, NULL or -1 after the error was set here once; callers only hand it on.
#ifndef RN_JINJA_RENDER_H
#define RN_JINJA_RENDER_H

#include "base/arena.h"
#include "base/status.h"
#include "jinja/ast.h"
#include "jinja/table.h"

// What a render may use. A step is an evaluated node, an item walked, or JINJA_STEP_BYTES worked
// on.
struct jinja_limits {
    uint64_t steps;
    size_t output; // bytes
    size_t memory; // bytes of all values together
};

enum {
    JINJA_MAX_FRAMES = 1000, // statements and expressions inside each other; under 512 KiB of stack
    JINJA_MAX_RANGE = 100000,
    JINJA_STEP_BYTES = 256,
};

struct binding {
    const struct str *name;
    struct value value;
};

struct scope {
    struct scope *parent;
    struct binding *vars;
    uint32_t n, cap;
    bool is_captured; // a macro refers to it: not to be used again
};

struct render {
    const struct template *tmpl;
    struct jinja_limits limits;
    int64_t now;
    struct arena arena;
    size_t memory;
    uint64_t steps;
    size_t crumbs; // bytes worked on that make no step yet
    uint32_t at;   // the place in the source that is evaluated
    int n_frames, n_calls;
    // Output. Text that becomes a value (of a macro, a filter) is written behind it and taken off.
    char *out;
    size_t out_len, out_cap;
    struct scope *scope;
    struct scope *free_scopes; // linked by parent
    struct dict *globals;
    rn_status status;
    rn_error *err;
};

// --- errors and limits (render.c) ---

// The template is wrong at the current place.
struct value jinja_fail(struct render *r, const char *fmt, ...) RN_PRINTF(2, 3);
// A limit is reached.
struct value jinja_limit(struct render *r, const char *fmt, ...) RN_PRINTF(2, 3);
// raise_exception: the message as it is.
struct value jinja_raise(struct render *r, const char *message, size_t len);
// An operation that undefined values do not have.
struct value jinja_fail_undefined(struct render *r, struct value v);

bool jinja_charge(struct render *r, uint64_t steps);
bool jinja_work(struct render *r, size_t bytes); // charges for bytes copied, compared or searched
bool jinja_work_chars(struct render *r, size_t bytes); // for bytes looked at one by one
void *jinja_alloc(struct render *r, size_t bytes);     // NULL: failed
void *jinja_array(struct render *r, size_t count, size_t size);

// --- output (render.c) ---

bool jinja_write(struct render *r, const char *data, size_t len);
bool jinja_write_text(struct render *r, const char *text);
// Whether so many bytes more are allowed; an error is set if not.
bool jinja_write_fits(struct render *r, uint64_t more);
bool jinja_write_char(struct render *r, uint32_t cp);
// What was written since the mark (a former out_len), as a string; it is no longer output then.
struct value jinja_take(struct render *r, size_t mark);

// --- text of values (print.c, json.c) ---

bool jinja_print(struct render *r, struct value v);          // str(v)
bool jinja_print_repr(struct render *r, struct value v);     // repr(v)
struct value jinja_to_str(struct render *r, struct value v); // str(v); strings as they are

struct json_style {
    const char *indent; // NULL: one line
    size_t indent_len;
    const char *item_separator, *key_separator;
    size_t item_separator_len, key_separator_len;
    bool is_ascii, is_sorted;
};
bool jinja_print_json(struct render *r, struct value v, const struct json_style *style);
// The JSON text of one object into r->globals.
bool jinja_read_globals(struct render *r, const char *text, size_t len);

// "..." % args and "...".format(args); format(v, spec).
struct value jinja_percent(struct render *r, const struct str *format, struct value args);
struct value jinja_format(struct render *r, const struct str *format, const struct args *args);
bool jinja_print_spec(struct render *r, struct value v, const char *spec, size_t len);

// strftime(format) of r->now in UTC.
struct value jinja_strftime(struct render *r, const struct str *format);

// --- evaluation (eval.c, exec.c, call.c, operators.c) ---

struct value jinja_eval(struct render *r, const struct node *node);
// The links of a chain, onto a value.
struct value jinja_eval_links(struct render *r, const struct node *link, struct value v);
struct value jinja_binary(struct render *r, enum node_op op, struct value a, struct value b);
struct value jinja_compare(struct render *r, enum node_op op, struct value a, struct value b);

struct value jinja_call(struct render *r, struct value callee, const struct args *args);
struct value jinja_call_macro(struct render *r, const struct macro *macro, const struct args *args);
// A filter or test by name, for map, select and the like.
struct value jinja_call_named(struct render *r, const struct table *table, struct value name,
                              struct value self, const struct args *args);

enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE, FLOW_ERROR };
enum flow jinja_exec(struct render *r, const struct node *body);
// Runs the body into a string.
struct value jinja_exec_capture(struct render *r, const struct node *body);

// Counts a frame of the C stack; jinja_frame_leave takes it back.
bool jinja_frame_enter(struct render *r);
void jinja_frame_leave(struct render *r);

// --- scopes (scope.c) ---

// With the names of the shadow (or NULL) bound as missing. NULL: failed.
struct scope *jinja_scope_push(struct render *r, struct scope *parent, const struct shadow *shadow);
// Empties it again but for those.
bool jinja_scope_reset(struct render *r, struct scope *scope, const struct shadow *shadow);
void jinja_scope_pop(struct render *r, struct scope *scope, struct scope *back);
bool jinja_scope_set(struct render *r, struct scope *scope, const struct str *name,
                     struct value value);
struct value jinja_lookup(struct render *r, const struct str *name);

// --- loops (loop.c) ---

enum flow jinja_exec_for(struct render *r, const struct node *node);
bool jinja_assign(struct render *r, const struct node *target, struct value value);
struct value jinja_loop_attr(struct render *r, struct value loop, const struct str *name);
struct value jinja_loop_call(struct render *r, struct loop *loop, const struct args *args);
bool jinja_loop_print(struct render *r, struct loop *loop);

// --- strings (strings.c) ---

size_t jinja_n_chars(struct str *s);
// The byte offset of the n-th character (n at most the number of characters).
size_t jinja_char_offset(struct str *s, size_t n);
bool str_equals(const struct str *s, const char *text);
bool str_same(const struct str *a, const struct str *b);
// The first place of needle in [from, to) of s, or SIZE_MAX; charges for the work.
size_t jinja_find(struct render *r, const struct str *s, const struct str *needle, size_t from,
                  size_t to);
size_t jinja_find_last(struct render *r, const struct str *s, const struct str *needle, size_t from,
                       size_t to);

// --- arguments, for rows ---

// Each sets *out, or leaves it when the argument is absent; false: of the wrong kind.
bool jinja_arg_int(struct render *r, const struct call *c, int i, int64_t *out);
bool jinja_arg_bool(struct render *r, const struct call *c, int i, bool *out);
bool jinja_arg_str(struct render *r, const struct call *c, int i, const struct str **out);

// A list's items sorted by their keys, stable. keys[i] belongs to q->items[i]; both are permuted.
bool jinja_sort(struct render *r, struct value *items, struct value *keys, size_t n,
                bool is_reverse);

#endif
