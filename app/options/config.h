// Files of options: lines of NAME = VALUE. --config is one (config.c), --models another
// (serve/models_file.c).
#ifndef RN_APP_OPTIONS_CONFIG_H
#define RN_APP_OPTIONS_CONFIG_H

#include "app.h"

// A file that is being read.
struct config {
    struct options *options;   // that get the values
    enum option_origin origin; // of the values; stronger ones stay
    const char *path;
    int line;
    int first; // values of earlier lines are weaker
};

// A whole file, as text. False: refused (printed).
bool config_read(const char *path, struct text *out);
// Prints "FILE:LINE: ..."; false.
bool config_refuse(const struct config *config, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
// Without the blanks around it, in place.
char *config_trim(char *text);
// Cuts a line into its two parts. *key NULL: there is nothing in it. False: refused.
bool config_cut(const struct config *config, char *line, char **key, char **value);
bool config_unknown(const struct config *config, const char *key); // refuses
bool config_value_take(const struct config *config, enum option_id id, const char *key,
                       const char *text);

#endif
