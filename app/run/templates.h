// Chat templates of our own, for models whose files bring none.
#ifndef RN_APP_TEMPLATES_H
#define RN_APP_TEMPLATES_H

const char *template_find(const char *name); // Jinja; NULL: no such name

#endif
