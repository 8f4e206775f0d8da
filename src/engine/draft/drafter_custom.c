// The drafter "custom": a function of the program's. Its result is not trusted to be tokens.
#include <assert.h>
#include <stdlib.h>

#include "engine/draft/drafter.h"
#include "engine/request/seq.h"

struct custom {
    struct drafter base;
    rn_draft_fn fn;
    void *ctx;
    int n_vocab;
};

static struct draft_offer offer(struct drafter *drafter, struct seq *seq, int most, int32_t *out) {
    const struct custom *const custom = (const struct custom *)drafter;
    assert(most >= 1);
    int n_made =
        custom->fn(custom->ctx, seq->data, seq->choices.index, seq->token, seq->n_token, out, most);
    if (n_made > most) n_made = most;
    int n = 0;
    while (n < n_made && out[n] >= 0 && out[n] < custom->n_vocab) n++;
    if (n == 0) return (struct draft_offer){0};
    return (struct draft_offer){.n = n, .source = DRAFT_CUSTOM};
}

static void destroy(struct drafter *drafter) { free(drafter); }

static const struct drafter_class custom_class = {
    .id = RN_DRAFTER_CUSTOM,
    .offer = offer,
    .destroy = destroy,
};

rn_status drafter_custom_create(rn_draft_fn fn, void *ctx, int n_vocab, struct drafter **out,
                                rn_error *err) {
    assert(fn);
    *out = NULL;
    struct custom *const custom = malloc(sizeof *custom);
    if (!custom) return err_set(err, RN_ERR_NOMEM, "no memory for the drafter custom");
    *custom = (struct custom){{&custom_class}, fn, ctx, n_vocab};
    *out = &custom->base;
    return RN_OK;
}
