// The table of routes (routes.def).
#ifndef RN_SERVER_ROUTES_H
#define RN_SERVER_ROUTES_H

#include "call.h"

enum route_access {
    ROUTE_KEY,  // needs the key where the server has one: the default
    ROUTE_OPEN, // never: /health and /ping, the page and its files, and nothing else
};

struct route {
    const char *method, *path; // a path that ends in '*' is a prefix
    enum route_access access;
    enum call_api api;
    bool always;                        // answers while loading and draining too
    void (*at_once)(struct call *call); // on the I/O thread; or
    void (*prepare)(struct call *call); // on a worker
};

// NULL: none; allow then lists the methods that the path has ("GET, POST"), "": no such path. HEAD
// finds GET's.
const struct route *route_find(const char *method, const char *path, char *allow,
                               size_t allow_size);

// The path of the first route that the path has, whatever its method; NULL: there is none.
const char *route_path(const char *path);

// What to use instead of a path that clients of other servers know (absent.def); NULL if it is no
// such path.
const char *route_absent(const char *path);

#define ROUTE_AT_ONCE(method, path, access, api, always, handler) void handler(struct call *call);
#define ROUTE_PREPARE(method, path, api, handler)                 void handler(struct call *call);
#include "routes.def"
#undef ROUTE_AT_ONCE
#undef ROUTE_PREPARE

#endif
