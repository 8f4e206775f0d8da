// Whether the server's own histograms say the same: /metrics before and after a load, in vLLM's
// names. The server sees neither the network nor this program, so its times are a little shorter.
#ifndef RN_APP_LOAD_AGREE_H
#define RN_APP_LOAD_AGREE_H

#include "load/target.h"

enum agree_figure { AGREE_TTFT, AGREE_ITL, AGREE_TPOT, AGREE_E2EL, AGREE_COUNT };

// Sums and numbers of the histograms, and the counters of drafts; has: the text had it.
struct agree_state {
    bool has_drafts;
    double drafts, draft_tokens, draft_accepted;
    struct {
        bool has;
        double sum_s, count;
    } figure[AGREE_COUNT];
};

struct agree_row {
    const char *name;
    double here_ms, server_ms;
    bool has, agrees;
};

// From a text in Prometheus' format; samples of all labels are added up.
void agree_parse(const char *text, size_t len, struct agree_state *out);
// The server's state now; nothing where it has no /metrics.
void agree_ask(const struct load_target *target, struct agree_state *out);
// Whether the server has any of these: asking one that has not may take as long as its patience.
bool agree_is_known(const struct agree_state *state);
// Means between the two states against the load's. They agree within a tenth and a millisecond.
void agree_compare(const struct agree_state *before, const struct agree_state *after,
                   const struct load_figures *figures, struct agree_row rows[AGREE_COUNT]);
// The drafts between the two states, of all clients; false: the server does not count them.
bool agree_drafts(const struct agree_state *before, const struct agree_state *after,
                  struct load_drafts *out);
// Prints the rows. False: there are none, or some do not agree.
bool agree_print(const struct agree_row rows[AGREE_COUNT]);

#endif
