// Keys, hosts and origins. Nothing here allocates or remembers.
#include "gate.h"

#include <arpa/inet.h>
#include <openssl/sha.h>
#include <stdlib.h>
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

// NULL if it is none of the keys.
static const char *key_find(const struct server_config *config, const char *given) {
    const size_t len = strlen(given);
    const char *found = NULL;
    for (int i = 0; i < config->n_keys; i++)
        if (same_secret(config->keys[i], given, len)) found = config->keys[i];
    return len ? found : NULL;
}

static struct owner owner_of(const char *key) {
    unsigned char hash[SHA256_DIGEST_LENGTH];
    struct owner owner;
    SHA256((const unsigned char *)key, strlen(key), hash);
    memcpy(&owner.hash, hash, sizeof owner.hash);
    if (!owner.hash) owner.hash = 1; // 0 stands for no keys
    return owner;
}

bool gate_key(const struct server_config *config, const char *authorization, const char *api_key,
              struct owner *owner) {
    static const char bearer[] = "Bearer ";
    const size_t n = sizeof bearer - 1;
    *owner = (struct owner){0};
    if (!config->n_keys) return true;
    const char *found = api_key ? key_find(config, api_key) : NULL;
    if (authorization && !strncasecmp(authorization, bearer, n)) {
        authorization += n;
        while (*authorization == ' ') authorization++;
        const char *key = key_find(config, authorization);
        if (key) found = key;
    }
    if (found) *owner = owner_of(found);
    return found != NULL;
}

// "", or ":" and a port.
static bool is_port(const char *text) {
    if (!*text) return true;
    const size_t digits = strspn(text + 1, "0123456789");
    if (*text != ':' || !digits || digits > 5 || text[1 + digits]) return false;
    const long port = strtol(text + 1, NULL, 10);
    return port > 0 && port <= 65535;
}

struct host {
    char name[256]; // without the port and brackets
    bool is_v6;     // it was in brackets
};

// "name", "name:port", "[v6]" or "[v6]:port". False: it is none of these, or longer than any name.
static bool host_read(const char *text, struct host *out) {
    out->is_v6 = *text == '[';
    text += out->is_v6;
    const size_t len = strcspn(text, out->is_v6 ? "]" : ":");
    if (len == 0 || len >= sizeof out->name || (out->is_v6 && !text[len])) return false;
    memcpy(out->name, text, len);
    out->name[len] = '\0';
    return is_port(text + len + out->is_v6);
}

static bool is_address(const struct host *host) {
    unsigned char bytes[16];
    return inet_pton(host->is_v6 ? AF_INET6 : AF_INET, host->name, bytes) == 1;
}

static bool is_local_name(const char *name) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const size_t len = strlen(name), tail = strlen(".localhost");
    if (name[strspn(name, letters)]) return false;
    return !strcasecmp(name, "localhost") ||
           (len > tail && !strcasecmp(name + len - tail, ".localhost"));
}

bool gate_host(const struct server_config *config, const char *text) {
    struct host host;
    if (config->n_keys && !config->n_hosts) return true;
    if (!text) return true; // HTTP/1.0, as load balancers check health; browsers always send one
    if (!host_read(text, &host)) return false;
    if (is_address(&host)) return true;
    if (host.is_v6) return false;
    if (is_local_name(host.name) || !strcasecmp(host.name, config->host)) return true;
    for (int i = 0; i < config->n_hosts; i++) {
        if (!strcasecmp(host.name, config->hosts[i])) return true;
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
