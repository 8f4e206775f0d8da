// The drafter "lookup": the tokens that followed an earlier occurrence of the sequence's last
// tokens in the sequence itself. It holds nothing: the index is the sequence's, and grows with each
// offer.
#include <assert.h>
#include <stdlib.h>

#include "engine/draft/drafter.h"
#include "engine/request/seq.h"

enum { ADD_MOST = 4096 }; // tokens of a prompt that are indexed in one step

// The text from `at` on, continued beyond its end as it continues behind `at`: a text with a short
// period fills a draft of any length.
static void copy_on(const int32_t *token, int n_token, int at, int32_t *out, int n) {
    for (int i = 0; i < n; i++) out[i] = at + i < n_token ? token[at + i] : out[at + i - n_token];
}

static struct draft_offer offer(struct drafter *drafter, struct seq *seq, int most, int32_t *out) {
    (void)drafter;
    assert(most >= 1);
    struct suffix_index *const index = &seq->draft->own;
    if (index->max_tokens == 0) return (struct draft_offer){0};
    suffix_add(index, seq->token, seq->n_token, ADD_MOST);
    if (index->n_token < seq->n_token) return (struct draft_offer){0};
    const struct suffix_match match = suffix_find(index, seq->token, seq->n_token);
    if (match.length == 0) return (struct draft_offer){0};
    copy_on(seq->token, seq->n_token, match.at, out, most);
    return (struct draft_offer){
        .n = most,
        .source = draft_source_of(DRAFT_LOOKUP_SHORT, match.length),
    };
}

static void destroy(struct drafter *drafter) { free(drafter); }

static const struct drafter_class lookup_class = {
    .id = RN_DRAFTER_LOOKUP,
    .offer = offer,
    .destroy = destroy,
};

rn_status drafter_lookup_create(struct drafter **out, rn_error *err) {
    *out = malloc(sizeof **out);
    if (!*out) return err_set(err, RN_ERR_NOMEM, "no memory for the drafter lookup");
    **out = (struct drafter){.cls = &lookup_class};
    return RN_OK;
}
