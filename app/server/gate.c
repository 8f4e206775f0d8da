// Keys, hosts and origins. Nothing here allocates or remembers.
#include "gate.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

// Takes the same time for all values of one length.
static bool same_secret(const char *key, const char *given, size_t given_len) {
    const size_t len = strlen(key);
    volatile unsigned char differs = len != given_len;
    for (size_t i = 0; i < given_len; i++) {
        differs |= (unsigned char)(given[i] ^ key[len ? i % len : 0]);
    }
    return !differs;
}

// The number of the key; -1: it is none.
static int key_find(const struct server_config *config, const char *given) {
    const size_t len = strlen(given);
    int found = -1;
    for (int i = 0; i < config->n_keys; i++)
        if (same_secret(config->keys[i], given, len)) found = i;
    return len ? found : -1;
}

bool gate_key(const struct server_config *config, const char *authorization, const char *api_key,
              int *number) {
    static const char bearer[] = "Bearer ";
    const size_t n = sizeof bearer - 1;
    *number = 0;
    if (!config->n_keys) return true;
    int found = api_key ? key_find(config, api_key) : -1;
    if (authorization && !strncasecmp(authorization, bearer, n)) {
        authorization += n;
        while (*authorization == ' ') authorization++;
        const int key = key_find(config, authorization);
        if (key >= 0) found = key;
    }
    if (found >= 0) *number = found;
    return found >= 0;
}

// "name:port", "[v6]:port" without the port and brackets. False: longer than any name.
static bool host_name(const char *host, char *out, size_t size) {
    size_t len;
    if (*host == '[') {
        host++;
        len = strcspn(host, "]");
    } else {
        len = strcspn(host, ":");
    }
    if (len == 0 || len >= size) return false;
    memcpy(out, host, len);
    out[len] = '\0';
    return true;
}

static bool is_address(const char *name) {
    unsigned char bytes[16];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

static bool is_local_name(const char *name) {
    const size_t len = strlen(name), tail = strlen(".localhost");
    return !strcasecmp(name, "localhost") ||
           (len > tail && !strcasecmp(name + len - tail, ".localhost"));
}

bool gate_host(const struct server_config *config, const char *host) {
    char name[256];
    if (config->n_keys && !config->n_hosts) return true;
    if (!host) return true; // HTTP/1.0, as load balancers check health; browsers always send one
    if (!host_name(host, name, sizeof name)) return false;
    if (is_address(name) || is_local_name(name) || !strcasecmp(name, config->host)) return true;
    for (int i = 0; i < config->n_hosts; i++) {
        if (!strcasecmp(name, config->hosts[i])) return true;
    }
    return false;
}

bool gate_origin(const struct server_config *config, const char *origin, const char *host,
                 bool *cors) {
    *cors = false;
    if (!origin) return true;
    const char *name = strstr(origin, "://");
    if (name && host && !strcasecmp(name + 3, host)) return true;
    *cors = true;
    for (int i = 0; i < config->n_origins; i++) {
        if (!strcmp(config->origins[i], "*") || !strcasecmp(config->origins[i], origin))
            return true;
    }
    return false;
}
