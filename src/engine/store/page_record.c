// See page_record.h.
#define _GNU_SOURCE 1
#include "engine/store/page_record.h"

#include <endian.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { VERSION = 1 };

static const char magic[][8] = {[PAGE_RECORD_PAGE] = "RNLPAGE", [PAGE_RECORD_NOTE] = "RNLNOTE"};

static void checksum_of(const void *bytes, size_t n, uint8_t out[16]) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, n));
    memcpy(out, &canonical, 16);
}

static uint64_t own_checksum(const struct page_record *record) {
    return htole64(XXH3_64bits(record, offsetof(struct page_record, own)));
}

void page_record_fill(struct page_record *out, enum page_record_kind kind,
                      const struct page_facts *facts, const void *bytes) {
    *out = (struct page_record){.version = htole32(VERSION),
                                .group = htole32((uint32_t)facts->name.group),
                                .bytes = htole64(facts->bytes),
                                .cost_ns = htole64(facts->cost_ns)};
    memcpy(out->magic, magic[kind], sizeof out->magic);
    memcpy(out->key, facts->name.key.at, sizeof out->key);
    memcpy(out->parent, facts->parent.at, sizeof out->parent);
    checksum_of(bytes, (size_t)facts->bytes, out->checksum);
    out->own = own_checksum(out);
}

bool page_record_is(const struct page_record *record, enum page_record_kind kind) {
    return memcmp(record->magic, magic[kind], sizeof record->magic) == 0 &&
           record->version == htole32(VERSION) && record->own == own_checksum(record);
}

bool page_record_is_of(const struct page_record *record, const struct page_name *name) {
    return memcmp(record->key, name->key.at, sizeof record->key) == 0 &&
           le32toh(record->group) == (uint32_t)name->group;
}

struct page_facts page_record_facts(const struct page_record *record) {
    struct page_facts facts = {.name.group = (int)le32toh(record->group),
                               .bytes = le64toh(record->bytes),
                               .cost_ns = le64toh(record->cost_ns)};
    memcpy(facts.name.key.at, record->key, sizeof record->key);
    memcpy(facts.parent.at, record->parent, sizeof record->parent);
    return facts;
}

bool page_record_has(const struct page_record *record, const void *bytes, size_t n) {
    uint8_t checksum[16];
    if (le64toh(record->bytes) != n) return false;
    checksum_of(bytes, n, checksum);
    return memcmp(checksum, record->checksum, sizeof checksum) == 0;
}
