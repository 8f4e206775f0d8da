// The parts of a tokenizer.json around its model: normalizer, pre-tokenizer, post-processor,
// decoder. Internal to vocab_json.c.
#ifndef RN_TEXT_VOCAB_PIPELINE_H
#define RN_TEXT_VOCAB_PIPELINE_H

#include "text/vocab_fields.h"

enum { VOCAB_MAX_STEPS = 32 };

struct vocab_pipeline {
    struct vocab_normal normal[VOCAB_MAX_STEPS];
    int32_t n_normal;
    struct vocab_split split[VOCAB_MAX_STEPS];
    int32_t n_split;
    bool is_byte_level;    // the pre-tokenizer or the decoder says so
    bool has_marker;       // U+2581 stands for a space
    bool has_bytes;        // <0xNN> are decoded as bytes
    bool strip_space;      // decoding drops the space that encoding put before the text
    int64_t before, after; // ids that the post-processor puts around a text; -1: nothing
    bool has_cut_bytes;    // behind a ByteLevel in the list of pre-tokenizers
};

// Fields that are not found are taken as null.
rn_status vocab_normalizer_read(const struct vocab_file *file, const struct vocab_field *field,
                                struct vocab_pipeline *out);
rn_status vocab_pre_tokenizer_read(const struct vocab_file *file, const struct vocab_field *field,
                                   struct vocab_pipeline *out);
rn_status vocab_post_processor_read(const struct vocab_file *file, const struct vocab_field *field,
                                    struct vocab_pipeline *out);
rn_status vocab_decoder_read(const struct vocab_file *file, const struct vocab_field *field,
                             struct vocab_pipeline *out);

#endif
