// Reads fields of an untrusted JSON object. Absent and null fields leave *out as it is. A wrong
// field refuses the call (400, the field as param, the offending value in the message). After the
// first refusal nothing more is read, so a handler asks call_refused once at the end.
#ifndef RN_SERVER_FIELDS_H
#define RN_SERVER_FIELDS_H

#include "call.h"

struct fields {
    struct call *call;
    const json_t *object;
    const char *path; // "" or "messages[2]": the prefix of the field's name in messages
};

struct fields fields_of(struct call *call, const json_t *object, const char *path);

// False: refused, now or before.
bool field_int(const struct fields *fields, const char *name, int64_t min, int64_t max,
               int64_t *out);
bool field_real(const struct fields *fields, const char *name, double min, double max, double *out);
bool field_bool(const struct fields *fields, const char *name, bool *out);
// Borrowed from the object; no NUL inside. At most max bytes.
bool field_string(const struct fields *fields, const char *name, size_t max, const char **out,
                  size_t *len);
// Borrowed too, of any length: text for the model may hold NUL characters.
bool field_text(const struct fields *fields, const char *name, const char **out, size_t *len);
// One of "a|b|c"; *out is its index.
bool field_choice(const struct fields *fields, const char *name, const char *choices, int *out);
bool field_object(const struct fields *fields, const char *name, const json_t **out);
bool field_array(const struct fields *fields, const char *name, size_t max, const json_t **out);
// A string, or an array of at most max of them, each of 1 to bytes_max bytes.
bool field_strings(const struct fields *fields, const char *name, size_t max, size_t bytes_max,
                   const char **out, size_t *n_out);
// Refuses where the field is there and not null (or false, where absent_if_false).
bool field_unsupported(const struct fields *fields, const char *name, bool absent_if_false,
                       const char *why);
// Whether a part of a content with this type has no text that the model could read: "image",
// "input_audio" and the like. All APIs refuse them with CONTENT_TEXT_ALONE (template_input.h).
bool field_is_media(const char *type);
// Refuses with 400 naming this field: printf after it.
bool field_refuse(const struct fields *fields, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// A value for a message: its JSON, shortened, without control characters.
enum { JSON_SHOWN_BYTES = 96 };
const char *json_shown(const json_t *value, char out[JSON_SHOWN_BYTES]);
// "messages[2].content" where text is wrong at offset, found from the text alone; "": at the top.
void json_path_at(const char *text, size_t len, size_t offset, char *out, size_t out_size);

// Makes reals, as JavaScript does, of the integers that int64_t does not hold and a double does, so
// that the text can be parsed. text is NUL-terminated behind its len bytes. Such an integer at the
// place of one of big[n_big] is noted there.
void json_integers_fit(char *text, size_t len, struct json_big *big, size_t n_big);

#endif
