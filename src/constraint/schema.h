// JSON Schema to rules. A place in the grammar stands for a conjunction of schemas: those of allOf,
// of $ref and of its siblings, the chosen branch of anyOf. Each conjunction becomes one rule, found
// again by its parts, so recursive schemas end. Rules wait in a queue, so nothing here recurses
// deeper than a schema is nested.
#ifndef RN_CONSTRAINT_SCHEMA_H
#define RN_CONSTRAINT_SCHEMA_H

#include "constraint/schema_form.h"

enum { CONJUNCTION_MAX = 48 };

enum { // keywords of a part that a branch was chosen for
    CHOSEN_ANY_OF = 1,
    CHOSEN_ONE_OF = 2,
};

struct conjunction {
    const struct json *part[CONJUNCTION_MAX]; // objects; none: anything
    uint8_t chosen[CONJUNCTION_MAX];
    uint32_t n;
    bool is_never; // false is a part
    struct form *form;
};

enum type {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_OBJECT = 4,
    TYPE_ARRAY = 8,
    TYPE_STRING = 16,
    TYPE_NUMBER = 32,
    TYPE_INTEGER = 64,
    TYPE_ALL = 127,
};

struct schema {
    struct grammar *g;
    const struct json *document;  // that errors point into
    const struct json *root;      // that references point into
    struct conjunction **rule_of; // [capacity] the conjunction of a rule; NULL: another one
    uint32_t n_rule_of;
    struct form json;
    const struct node *unit;  // one character of a string, with any escape
    uint32_t number, integer; // rules for any such value
};

// The document may hold several schemas. Their rules for any value are made once.
void schema_init(struct schema *s, struct grammar *g, const struct json *document);
// The texts of a schema of the document, which is a member of `holder`.
const struct node *schema_part(struct schema *s, const struct json *schema,
                               const struct json *holder, const char *keyword,
                               struct form *form); // NULL: JSON

// An error at a keyword of a part whose value is another one than expected.
const struct node *schema_expected(struct schema *s, const struct json *part, const char *keyword,
                                   const struct json *value, const char *expected);
// An error at a keyword of a part: "/properties/a/not: ...".
const struct node *schema_fail(struct schema *s, const struct json *part, const char *keyword,
                               const char *fmt, ...) RN_PRINTF(4, 5);
// Adds a schema with its references and allOf. false: an error.
bool conjunction_add(struct schema *s, struct conjunction *c, const struct json *schema,
                     const struct json *holder, const char *keyword);
// The value that a conjunction describes: text, or the call of a rule.
const struct node *schema_value(struct schema *s, const struct conjunction *c);

// Bounds such as minLength: the larger minimum or the smaller maximum of all parts.
bool schema_bounds(struct schema *s, const struct conjunction *c, const char *min_key,
                   const char *max_key, int64_t *min, int64_t *max);
// Whether some part has the keyword; that part.
const struct json *schema_part_with(const struct conjunction *c, const char *keyword);

// --- by type ---
const struct node *schema_object(struct schema *s, const struct conjunction *c);
const struct node *schema_array(struct schema *s, const struct conjunction *c);
const struct node *schema_string(struct schema *s, const struct conjunction *c);
const struct node *schema_number(struct schema *s, const struct conjunction *c, bool integer);

// Whether a listed value of the type passes the other keywords.
bool schema_string_passes(struct schema *s, const struct conjunction *c, const struct json *value);
bool schema_number_passes(struct schema *s, const struct conjunction *c, const struct json *value);

// --- strings ---

// Characters of a string in their one form: escaped only where JSON asks for it.
const struct node *string_class(struct grammar *g, const struct range *range, size_t n);
const struct node *string_text(struct grammar *g, const char *text, size_t len); // with quotes
const struct node *string_unit(struct grammar *g); // any character, in any form
// The expression of a format; NULL: a name that says nothing. *is_known where it is refused.
const char *format_expression(const char *name, size_t len, bool *is_known);

#endif
