// Small files of other programs, read within limits: a line, a JSON object, a member of one. Only
// regular files are opened, so a pipe in a store does not block.
#ifndef RN_APP_MODELS_TEXT_FILE_H
#define RN_APP_MODELS_TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

// The first line without blanks at its end. False, and "": it cannot be read, or is too long.
bool text_file_line(const char *path, char *out, size_t size);
// NULL: problem, of size bytes, says why.
json_t *text_file_object(const char *path, size_t limit, char *problem, size_t size);
// A text member of the object in the file; false, and "": there is none.
bool text_file_member(const char *path, size_t limit, const char *key, char *out, size_t size);

#endif
