// Sentences from figures. A sentence names the causes with the most time and adds up the rest, so
// its parts are its total. Callers: record.c, for the document that all others show.
#include "record/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "record/split.h"

enum { NAMED_MAX = 4 };                // causes that a sentence names
static const double slow_factor = 1.5; // a gap that much over the mean is explained

// ---------------------------------------------------------------- pieces

static void line_begin(struct jbuf *out) {
    if (out->len) jbuf_text(out, "\n");
}

static const char *plural(uint64_t n) { return n == 1 ? "" : "s"; }

static double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// "71% of peak" or "93% of bandwidth", the roof that the steps came closer to; false: not known.
static bool roof_text(const struct record_machine *machine, const rn_work *work, char *out,
                      size_t size) {
    const double seconds = (double)work->run_ns * 1e-9;
    double bytes = ratio(ratio((double)work->bytes, seconds), machine->bandwidth);
    double flops = ratio(ratio((double)work->flops, seconds), machine->peak);
    if (!(bytes > 0) && !(flops > 0)) return false;
    // B and peak were measured at another moment, perhaps with less to spare.
    bytes = bytes > 1 ? 1 : bytes;
    flops = flops > 1 ? 1 : flops;
    const bool compute = flops > bytes;
    const double percent = 100 * (compute ? flops : bytes);
    snprintf(out, size, "%.*f%% of %s", percent < 10 ? 1 : 0, percent,
             compute ? "peak" : "bandwidth");
    return true;
}

static void put_request(struct jbuf *out, const char *before, uint64_t request) {
    if (request) jbuf_printf(out, "%s request %llu", before, (unsigned long long)request);
}

// The cause of a part of a share, with the request behind it. work NULL: roofs are left out.
static void put_cause(struct jbuf *out, const struct record *record, rn_cause cause,
                      const rn_share *share, const rn_work *work) {
    char count[SPLIT_TEXT_BYTES], roof[64];
    const bool has_roof = work && roof_text(&record->machine, work, roof, sizeof roof);
    jbuf_text(out, rn_cause_text(cause));
    switch (cause) {
    case RN_CAUSE_WEIGHTS:
        // beside a prompt the roof is the prompt's
        if (has_roof && !share->cause_ns[RN_CAUSE_OWN_PROMPT]) jbuf_printf(out, " at %s", roof);
        break;
    case RN_CAUSE_OWN_PROMPT:
        if (work) {
            jbuf_printf(out, " (%s token%s%s%s)", split_count(work->tokens, count),
                        plural(work->tokens), has_roof ? ", " : "", has_roof ? roof : "");
        }
        break;
    case RN_CAUSE_PROMPTS:
        if (share->prompt_request) {
            jbuf_printf(out, " (%s token%s of request %llu in a step)",
                        split_count((uint64_t)share->prompt_tokens, count),
                        plural((uint64_t)share->prompt_tokens),
                        (unsigned long long)share->prompt_request);
        }
        break;
    case RN_CAUSE_PAGES:
        put_request(out, ", most of them held by", share->pages_request);
        break;
    case RN_CAUSE_PREEMPTED:
        put_request(out, ", its pages went to", share->preempt_request);
        break;
    case RN_CAUSE_STREAMS:
        if (share->streams > 1)
            jbuf_printf(out, " (up to %s)", split_count((uint64_t)share->streams - 1, count));
        break;
    default:
        break;
    }
}

// The parts with their amounts; parts beyond NAMED_MAX and tiny parts are added up.
struct amounts {
    const struct split_scale *scale; // NULL: percents
};

static void put_amount(struct jbuf *out, const struct amounts *amounts, uint64_t units) {
    char text[SPLIT_TEXT_BYTES];
    if (amounts->scale)
        jbuf_text(out, split_text(amounts->scale, units, text));
    else
        jbuf_printf(out, "%llu%%", (unsigned long long)units);
}

static void put_parts(struct jbuf *out, const struct record *record, const struct split *split,
                      const struct amounts *amounts, const rn_share *share, const rn_work *work) {
    uint64_t named = 0;
    int n = 0;
    for (; n < split->n && n < NAMED_MAX; n++) {
        const struct split_part *part = &split->part[n];
        if (!part->units || split_is_tiny(part->ns, share->ns)) break;
        if (n) jbuf_text(out, ", ");
        put_amount(out, amounts, part->units);
        jbuf_text(out, " ");
        put_cause(out, record, part->cause, share, work);
        named += part->units;
    }
    if (named == split->units) return;
    if (n) jbuf_text(out, ", ");
    put_amount(out, amounts, split->units - named);
    jbuf_text(out, " other");
}

static void put_times(struct jbuf *out, const struct record *record, const rn_share *share,
                      const struct split_scale *scale, const rn_work *work) {
    struct split split;
    split_time(&split, share, scale->unit_ns);
    if (!split.n || !split.units) {
        jbuf_text(out, ".");
        return;
    }
    jbuf_text(out, ": ");
    put_parts(out, record, &split, &(struct amounts){.scale = scale}, share, work);
    jbuf_text(out, ".");
}

// ---------------------------------------------------------------- sentences

static const char *whole_text(const struct split_scale *scale, uint64_t ns,
                              char out[SPLIT_TEXT_BYTES]) {
    const uint64_t unit = scale->unit_ns;
    return split_text(scale, ns / unit + (ns % unit >= (unit + 1) / 2), out);
}

static void put_first(struct jbuf *out, const struct record *record,
                      const struct record_choice *choice) {
    const rn_account *account = &choice->account;
    const rn_share *share = &account->first;
    const struct split_scale scale = split_scale(share->ns);
    char text[SPLIT_TEXT_BYTES], cached[SPLIT_TEXT_BYTES];
    whole_text(&scale, share->ns, text);
    if (account->first_ns) {
        jbuf_printf(out, "%s to first token", text);
    } else if (choice->finish == RN_FINISH_NONE) {
        jbuf_printf(out, "No token yet after %s", text);
    } else {
        jbuf_printf(out, "No token in %s", text);
    }
    // a further choice has the prompt of the first one, and steps of its own behind it
    put_times(out, record, share, &scale, choice->index > 0 ? NULL : &account->prompt_work);
    if (choice->timings.cached_tokens) {
        char all[SPLIT_TEXT_BYTES];
        jbuf_printf(out, " %s of its %s prompt tokens came from the cache.",
                    split_count((uint64_t)choice->timings.cached_tokens, cached),
                    split_count((uint64_t)choice->timings.prompt_tokens, all));
    }
}

// Tokens after the first; 0: none.
static uint64_t gaps_of(const struct record_choice *choice) {
    return choice->timings.output_tokens > 1 ? (uint64_t)choice->timings.output_tokens - 1 : 0;
}

static void put_decode(struct jbuf *out, const struct record *record,
                       const struct record_choice *choice) {
    const rn_share *share = &choice->account.decode;
    const uint64_t gaps = gaps_of(choice);
    if (!gaps || !share->ns) return;
    char count[SPLIT_TEXT_BYTES], total[SPLIT_TEXT_BYTES], each[SPLIT_TEXT_BYTES];
    const struct split_scale scale = split_scale(share->ns), small = split_scale(share->ns / gaps);
    line_begin(out);
    jbuf_printf(out, "Then %s token%s in %s, %s a token (%.1f tokens/s).", split_count(gaps, count),
                plural(gaps), whole_text(&scale, share->ns, total),
                whole_text(&small, share->ns / gaps, each), (double)gaps * 1e9 / (double)share->ns);
    struct split split;
    split_percent(&split, share);
    jbuf_text(out, " Of the time between tokens: ");
    put_parts(out, record, &split, &(struct amounts){0}, share, &choice->account.decode_work);
    jbuf_text(out, ".");
}

// Tokens of one step come together, so there may be fewer gaps than tokens.
static double gap_mean_ns(const struct record_choice *choice) {
    const rn_share *decode = &choice->account.decode;
    const uint64_t tokens = gaps_of(choice);
    const uint64_t gaps = decode->steps && decode->steps < tokens ? decode->steps : tokens;
    return ratio((double)decode->ns, (double)gaps);
}

static void put_slowest(struct jbuf *out, const struct record *record,
                        const struct record_choice *choice) {
    const rn_account *account = &choice->account;
    if (!account->n_slow || gaps_of(choice) < 2) return;
    const rn_slow_gap *gap = &account->slow[0];
    const struct split_scale scale = split_scale(gap->share.ns);
    const double factor = ratio((double)gap->share.ns, gap_mean_ns(choice));
    char time[SPLIT_TEXT_BYTES], token[SPLIT_TEXT_BYTES];
    line_begin(out);
    jbuf_printf(out, "Slowest gap %s at token %s, %.1f times the mean",
                whole_text(&scale, gap->share.ns, time),
                split_count((uint64_t)gap->token + 1, token), factor);
    if (factor < slow_factor) {
        jbuf_text(out, ".");
        return;
    }
    put_times(out, record, &gap->share, &scale, NULL);
}

static void put_rest(struct jbuf *out, const struct record *record,
                     const struct record_choice *choice) {
    const rn_account *account = &choice->account;
    const uint64_t before = account->first.ns + account->decode.ns;
    if (!account->first_ns || account->rest.ns * 20 < before) return;
    const struct split_scale scale = split_scale(account->rest.ns);
    char text[SPLIT_TEXT_BYTES];
    line_begin(out);
    jbuf_printf(out, "%s after its last token", whole_text(&scale, account->rest.ns, text));
    put_times(out, record, &account->rest, &scale, NULL);
}

static void put_drafts(struct jbuf *out, const struct record_choice *choice) {
    const rn_timings *timings = &choice->timings;
    if (!timings->draft_tokens || !(timings->undrafted_ms > 0) || !(timings->decode_ms > 0)) return;
    char drafted[SPLIT_TEXT_BYTES], accepted[SPLIT_TEXT_BYTES];
    line_begin(out);
    jbuf_printf(out, "Drafts: %s of %s drafted tokens accepted, %.2f times the speed without.",
                split_count((uint64_t)timings->accepted_tokens, accepted),
                split_count((uint64_t)timings->draft_tokens, drafted),
                timings->undrafted_ms / timings->decode_ms);
}

static void put_memory(struct jbuf *out, const struct record *record,
                       const struct record_choice *choice) {
    const uint64_t bytes = record_kv_bytes(record, choice);
    const uint64_t tokens =
        (uint64_t)choice->timings.prompt_tokens + (uint64_t)choice->timings.output_tokens;
    char count[SPLIT_TEXT_BYTES];
    if (!bytes) return;
    line_begin(out);
    const bool small = bytes < 100000;
    jbuf_printf(out, "KV cache %.1f %s for %s token%s", (double)bytes / (small ? 1e3 : 1e6),
                small ? "kB" : "MB", split_count(tokens, count), plural(tokens));
    if (record->engine.kv_bytes) {
        const double percent = 100 * ratio((double)bytes, (double)record->engine.kv_bytes);
        jbuf_printf(out, ", %.*f%% of the engine's",
                    percent < 1    ? 2
                    : percent < 10 ? 1
                                   : 0,
                    percent);
    }
    jbuf_text(out, ".");
}

// Behind the last choice of the record.
static void put_missing(struct jbuf *out, const struct record *record,
                        const struct record_choice *choice) {
    const int missing = record->n - record->n_choices;
    if (missing <= 0 || choice != &record->choice[record->n_choices - 1]) return;
    line_begin(out);
    jbuf_printf(out,
                "%d of its %d choices %s no record: %s running, or --keep-requests is too low.",
                missing, record->n, missing == 1 ? "has" : "have",
                missing == 1 ? "it is" : "they are");
}

void words_write(struct jbuf *out, const struct record *record,
                 const struct record_choice *choice) {
    put_first(out, record, choice);
    put_decode(out, record, choice);
    put_slowest(out, record, choice);
    put_rest(out, record, choice);
    put_drafts(out, choice);
    put_memory(out, record, choice);
    put_missing(out, record, choice);
}

// ---------------------------------------------------------------- advice

static double part_of(const rn_share *share, rn_cause cause) {
    return ratio((double)share->cause_ns[cause], (double)share->ns);
}

static void advise(struct jbuf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void advise(struct jbuf *out, const char *fmt, ...) {
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    line_begin(out);
    jbuf_text(out, text);
}

// The next smaller type of the KV cache; NULL: there is none.
static const char *kv_smaller(const char *kv_type) {
    static const char *const order[] = {"f32", "f16", "int8", "int4"};
    for (size_t i = 0; i + 1 < sizeof order / sizeof *order; i++)
        if (!strcmp(order[i], kv_type)) return order[i + 1];
    return NULL;
}

static void advise_pages(struct jbuf *out, const struct record *record) {
    const char *smaller = kv_smaller(record->engine.kv_type);
    if (smaller) {
        advise(out,
               "KV memory was short: --kv-memory sets more aside, and --kv-type %s needs less of "
               "it than %s.",
               smaller, record->engine.kv_type);
    } else {
        advise(out, "KV memory was short: --kv-memory sets more aside.");
    }
}

static void advise_prompts(struct jbuf *out, const struct record *record) {
    if (record->engine.itl_ms > 0) {
        advise(out, "Prompts of others slowed it: an --itl-ms below %g cuts them smaller.",
               record->engine.itl_ms);
    } else {
        advise(out, "Prompts of others slowed it: --itl-ms N cuts them, so that a gap stays near "
                    "N ms.");
    }
}

// Where more than half of a decoding step reads the weights, and at the memory's speed, only fewer
// bytes for a token help.
static void advise_weights(struct jbuf *out, const struct record *record,
                           const struct record_choice *choice) {
    const rn_work *work = &choice->account.decode_work;
    const double share =
        ratio(ratio((double)work->bytes, (double)work->run_ns * 1e-9), record->machine.bandwidth);
    if (share < 0.7) return;
    advise(out, "The memory is the limit: fewer bytes per weight%s make a token faster.",
           record->engine.draft_max ? "" : " or drafts (--speculate, --draft)");
}

static void advise_decode(struct jbuf *out, const struct record *record,
                          const struct record_choice *choice) {
    const rn_share *share = &choice->account.decode;
    const rn_timings *timings = &choice->timings;
    const char *smaller = kv_smaller(record->engine.kv_type);
    if (part_of(share, RN_CAUSE_PROMPTS) > 0.25) advise_prompts(out, record);
    if (part_of(share, RN_CAUSE_DRAFTS) > 0.2 && timings->undrafted_ms > 0 &&
        timings->undrafted_ms < timings->decode_ms)
        advise(out, "Drafts cost more than they saved: --speculate off, or --draft-max lower.");
    if (part_of(share, RN_CAUSE_READER) > 0.25)
        advise(out, "Its client is the limit: it has to read faster.");
    if (part_of(share, RN_CAUSE_STREAMS) > 0.5)
        advise(out,
               "Sharing steps made it slower and all streams together faster: a lower --max-seqs "
               "(now %d) turns that around.",
               record->engine.max_seqs);
    if (part_of(share, RN_CAUSE_SLOWER) > 0.25)
        advise(out, "The machine was slower than usual: look for other work on its cores.");
    if (part_of(share, RN_CAUSE_KV) > 0.3 && smaller)
        advise(out, "Reading its long context took the time: --kv-type %s reads fewer bytes.",
               smaller);
    if (part_of(share, RN_CAUSE_WEIGHTS) > 0.6) advise_weights(out, record, choice);
}

void words_advise(struct jbuf *out, const struct record *record,
                  const struct record_choice *choice) {
    const rn_share *first = &choice->account.first, *decode = &choice->account.decode;
    const double short_of = part_of(first, RN_CAUSE_PAGES) + part_of(first, RN_CAUSE_PREEMPTED);
    const double lost = part_of(decode, RN_CAUSE_PAGES) + part_of(decode, RN_CAUSE_PREEMPTED);
    if (short_of > 0.25 || lost > 0.1) advise_pages(out, record);
    // it may also have waited for a step, or for a prefix that another request computes
    const int streams = first->streams > decode->streams ? first->streams : decode->streams;
    if (part_of(first, RN_CAUSE_QUEUE) > 0.25 && streams + 1 >= record->engine.max_seqs) {
        advise(out, "It waited for a place: --max-seqs (now %d) sets their number.",
               record->engine.max_seqs);
    }
    if (part_of(first, RN_CAUSE_PROMPTS) > 0.4) {
        advise(out, "Prompts of others went first: a lower \"priority\" puts this request before "
                    "other waiting requests, and a smaller --batch-tokens makes steps shorter.");
    }
    advise_decode(out, record, choice);
}
