// A record with figures that a reader can add up in the head: 812 ms to the first token, of which
// 640 ms waited for pages; 100 further tokens in 1,000 ms; one gap with another request's prompt.
#ifndef RN_TESTS_APP_MADE_RECORD_H
#define RN_TESTS_APP_MADE_RECORD_H

#include "record/record.h"

#define MS(x) ((uint64_t)((x)*1e6))

static inline void made_share(rn_share *share, rn_cause cause, uint64_t ns) {
    share->cause_ns[cause] += ns;
    share->ns += ns;
}

static inline void made_account(rn_account *account) {
    *account = (rn_account){.submit_ns = MS(1000), .start_ns = MS(1640)};
    made_share(&account->first, RN_CAUSE_PAGES, MS(640));
    made_share(&account->first, RN_CAUSE_OWN_PROMPT, MS(160));
    made_share(&account->first, RN_CAUSE_WEIGHTS, MS(12));
    account->first.steps = 5;
    account->first.pages_request = 17;
    account->first_ns = account->submit_ns + account->first.ns;
    made_share(&account->decode, RN_CAUSE_WEIGHTS, MS(910));
    made_share(&account->decode, RN_CAUSE_PROMPTS, MS(80));
    made_share(&account->decode, RN_CAUSE_HOST, MS(10));
    account->decode.steps = 100;
    account->decode.prompt_request = 31;
    account->decode.prompt_tokens = 512;
    account->last_ns = account->end_ns = account->first_ns + account->decode.ns;
    // 1,024 tokens at 71% of the peak of 1 TFLOP/s; decoding at 93% of 10 GB/s
    account->prompt_work = (rn_work){
        .steps = 5, .tokens = 1024, .bytes = 5000000, .flops = 113600000000, .run_ns = MS(160)};
    account->decode_work = (rn_work){
        .steps = 100, .tokens = 100, .bytes = 8463000000, .flops = 1000000000, .run_ns = MS(910)};
    rn_slow_gap *gap = &account->slow[account->n_slow++];
    *gap = (rn_slow_gap){.token = 41, .end_ns = account->first_ns + MS(500)};
    made_share(&gap->share, RN_CAUSE_PROMPTS, MS(80));
    made_share(&gap->share, RN_CAUSE_WEIGHTS, MS(14));
    gap->share.prompt_request = 31;
    gap->share.prompt_tokens = 512;
    for (int i = 0; i < 20; i++) {
        account->span[account->n_spans++] =
            (rn_span){.end_ns = account->first_ns + MS(50) * (uint64_t)(i + 1),
                      .ns = MS(50),
                      .max_ns = MS(94),
                      .n_tokens = 5,
                      .cause = i == 9 ? RN_CAUSE_PROMPTS : RN_CAUSE_WEIGHTS};
    }
}

static inline void made_record(struct record *record, struct record_choice *choice) {
    const rn_engine_info info = {.backend = "cpu",
                                 .isa = "avx2",
                                 .kv_type = "f16",
                                 .n_threads = 2,
                                 .n_ctx = 4096,
                                 .max_seqs = 8,
                                 .batch_tokens = 256,
                                 .kv_token_bytes = 1000,
                                 .kv_bytes = 64000000,
                                 .weight_bytes = 84630000,
                                 .drafters = ""};
    record_init(record, "chatcmpl-made", 18, "made \"model\"", &info, 10e9, 1e12);
    *choice = (struct record_choice){.finish = RN_FINISH_STOP,
                                     .timings = {.prompt_tokens = 1024,
                                                 .output_tokens = 101,
                                                 .queue_ms = 640,
                                                 .prompt_ms = 172,
                                                 .ttft_ms = 812,
                                                 .decode_ms = 1000,
                                                 .gap_ms_max = 94,
                                                 .decode_bytes = 8463000000,
                                                 .decode_steps = 100}};
    made_account(&choice->account);
    record->n = record->n_choices = 1;
    record->choice = choice;
}

#endif
