// What is stored beside a page's bytes, on disk and in memory: its facts, and checksums of them and
// of the bytes. Numbers are little-endian.
#ifndef RN_ENGINE_STORE_PAGE_RECORD_H
#define RN_ENGINE_STORE_PAGE_RECORD_H

#include "engine/store/page_key.h"

// The facts of a page, beside its bytes.
struct page_facts {
    struct page_name name;
    struct page_key parent; // of the block before
    uint64_t bytes;
    uint64_t cost_ns; // of computing it again
};

enum page_record_kind { PAGE_RECORD_PAGE, PAGE_RECORD_NOTE };

struct page_record {
    char magic[8];
    uint32_t version, group;
    uint64_t bytes, cost_ns;
    uint8_t key[SHA256_BYTES], parent[SHA256_BYTES];
    uint8_t checksum[16]; // of the bytes behind it
    uint64_t own;         // checksum of the record up to here
    uint64_t reserved;    // 0
};
_Static_assert(sizeof(struct page_record) == 128, "the record of a stored page");

void page_record_fill(struct page_record *out, enum page_record_kind kind,
                      const struct page_facts *facts, const void *bytes);
// Whether it is one of that kind and has not changed.
bool page_record_is(const struct page_record *record, enum page_record_kind kind);
bool page_record_is_of(const struct page_record *record, const struct page_name *name);
struct page_facts page_record_facts(const struct page_record *record);
// Whether these are the bytes that it was made of.
bool page_record_has(const struct page_record *record, const void *bytes, size_t n);

#endif
