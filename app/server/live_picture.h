// A picture of the engine as JSON, for the page. I/O thread only.
#ifndef RN_SERVER_LIVE_PICTURE_H
#define RN_SERVER_LIVE_PICTURE_H

#include "jbuf.h"
#include "live_streams.h"
#include "server_state.h"

// The engine's counters at a moment.
struct live_moment {
    uint64_t time_ns, steps, output_tokens, computed_tokens, run_ns, busy_ns, bytes;
    uint64_t refused_tokens; // of drafts
    uint64_t cause_ns[RN_CAUSE_COUNT];
};

enum { LIVE_MOMENTS = 16 };

// Moments of about the last second, ascending; rates are over all of it.
struct live_moments {
    struct live_moment moment[LIVE_MOMENTS];
    int n;
};

void live_moments_add(struct live_moments *moments, uint64_t time_ns, const rn_engine_stats *stats);

struct live_picture {
    const struct served *served;
    struct owner owner; // who looks: the streams of others have no id
    uint64_t start_ns;  // the zero of its times
    const struct live_streams *streams;
    const struct live_moments *moments;
    const rn_engine_stats *stats;
    const rn_step *step; // [n_steps], the last steps
    size_t n_steps;
    const struct jbuf *pages; // from live_picture_pages; empty: not known
    uint64_t time_ns;
};

// "pages":[...],"page_scale":k, and the same of states
void live_picture_pages(struct jbuf *out, const struct live_streams *streams,
                        const rn_page_view *page, size_t n_pages);
void live_picture_write(struct jbuf *out, const struct live_picture *picture);

#endif
