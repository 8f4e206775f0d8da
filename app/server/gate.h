// Access: the key, the Host header, the Origin header.
#ifndef RN_SERVER_GATE_H
#define RN_SERVER_GATE_H

#include "owner.h"
#include "server.h"

// Whether the request carries one of the keys. authorization: "Bearer KEY"; either may be NULL. The
// time that it takes does not tell how much of a key was right. *owner is the key's. authorization
// wins.
bool gate_key(const struct server_config *config, const char *authorization, const char *api_key,
              struct owner *owner);
// Whether the Host header is allowed (DNS rebinding): without keys it must be an address,
// localhost, a name below localhost, the configured host or one of the configured names, with or
// without a port. An IPv4 address has four decimal numbers, as browsers send it. NULL: there is no
// header.
bool gate_host(const struct server_config *config, const char *host);
// Whether a page of that origin may call: the server's own, or a configured one. *cors: the answer
// needs CORS headers. origin NULL: not a page of another site.
bool gate_origin(const struct server_config *config, const char *origin, const char *host,
                 bool *cors);

#endif
