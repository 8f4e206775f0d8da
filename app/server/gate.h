// Access: the key, the Host header, the Origin header.
#ifndef RN_SERVER_GATE_H
#define RN_SERVER_GATE_H

#include "server.h"

// Whether the request carries one of the keys. authorization: "Bearer KEY"; either may be NULL. The
// time that it takes does not tell how much of a key was right. *number is the key's, from 0; 0
// where the server has none. authorization wins.
bool gate_key(const struct server_config *config, const char *authorization, const char *api_key,
              int *number);
// Whether a page could have reached us by this name (DNS rebinding): without keys the name must be
// an address, localhost, the configured host or one of the configured names.
bool gate_host(const struct server_config *config, const char *host);
// Whether a page of that origin may call: the server's own, or a configured one. *cors: the answer
// needs CORS headers. origin NULL: not a page of another site.
bool gate_origin(const struct server_config *config, const char *origin, const char *host,
                 bool *cors);

#endif
