// Backends in shared objects. A plug-in is the file runnel_NAME.so. It shows one symbol,
// runnel_backend, which gives the class of the backend NAME. A plug-in carries its own copy of the
// functions that it uses: the program and the library do not export theirs.
//
// A plug-in must load without its device. It opens the driver's library in device(), which gives
// RN_ERR_UNSUPPORTED if there is no device. The table of drivers in plugin.c names the library of a
// known plug-in. If that library is missing, the plug-in's file is not even loaded.
#ifndef RN_BACKEND_PLUGIN_H
#define RN_BACKEND_PLUGIN_H

#include <limits.h>
#include <sys/types.h>

#include "backend/backend.h"

// --- for the plug-in ---

// The class, or NULL when the plug-in was built for another contract.
typedef const struct backend_class *(*plugin_entry)(unsigned contract);

// The last line of a plug-in's file. cls is the name of its struct backend_class.
#define BACKEND_PLUGIN(cls)                                                                        \
    __attribute__((visibility("default"))) const struct backend_class *runnel_backend(             \
        unsigned contract);                                                                        \
    const struct backend_class *runnel_backend(unsigned contract) {                                \
        return contract == BACKEND_CONTRACT ? &(cls) : NULL;                                       \
    }                                                                                              \
    _Static_assert(sizeof(cls) == sizeof(struct backend_class), "a class ends a plug-in")

// --- for the engine ---

enum { PLUGIN_MAX_FOLDERS = 3, PLUGIN_MAX_NAME = 32 };

struct plugin_folders {
    int n;
    char path[PLUGIN_MAX_FOLDERS][PATH_MAX]; // absolute, in the order of the search
    uid_t owner; // of the engine's file. Only files of this user, of root and of our own are loaded
};

// The folder of the program or library that holds the engine; lib/runnel beside it where it is
// called bin, otherwise runnel inside it; the installed folder. Neither the current folder nor an
// environment variable has a say.
void plugin_folders_init(struct plugin_folders *out);
// a-z, 0-9, _ and -, up to PLUGIN_MAX_NAME: such a name cannot leave the folders.
bool plugin_is_name(const char *text);
// The class of a plug-in by its name, or by the path of its file, which then has a '/'. RN_OK and
// NULL: there is no such file. RN_ERR_ARG: text is neither a name nor a path. RN_ERR_IO: the first
// such file is broken. RN_ERR_NOMEM: there is no memory to load it. RN_ERR_UNSUPPORTED: its driver
// is not on this machine; RN_ERR_DEVICE: its driver cannot be loaded. Both for names only. A
// plug-in is loaded once and stays.
rn_status plugin_find(const char *text, const struct plugin_folders *folders,
                      const struct backend_class **out, rn_error *err);

#endif
