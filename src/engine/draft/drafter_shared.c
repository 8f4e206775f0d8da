// The drafter "shared": the tokens that followed the sequence's last tokens in recent requests with
// the same salt, in prompts and outputs. A text is learned when its sequence is over.
#include <assert.h>
#include <stdlib.h>

#include "engine/draft/drafter.h"
#include "engine/request/seq.h"

enum { LEARN_TOKENS = 4096 };

struct shared {
    struct drafter base;
    struct suffix_texts *texts; // owned
};

static struct draft_offer offer(struct drafter *drafter, struct seq *seq, int most, int32_t *out) {
    const struct shared *const shared = (const struct shared *)drafter;
    assert(most >= 1);
    int length;
    const int n = suffix_texts_find(shared->texts, seq->token, seq->n_token, seq->salt, seq->n_salt,
                                    out, most, &length);
    if (n == 0) return (struct draft_offer){0};
    return (struct draft_offer){.n = n, .source = draft_source_of(DRAFT_SHARED_SHORT, length)};
}

// Only the end of a long text is learned: its last step must not take longer.
static void learn(struct drafter *drafter, const struct seq *seq) {
    const struct shared *const shared = (const struct shared *)drafter;
    const int n = seq->n_token < LEARN_TOKENS ? seq->n_token : LEARN_TOKENS;
    suffix_texts_add(shared->texts, seq->token + seq->n_token - n, n, seq->salt, seq->n_salt);
}

static void forget(struct drafter *drafter) {
    suffix_texts_forget(((const struct shared *)drafter)->texts);
}

static void destroy(struct drafter *drafter) {
    struct shared *const shared = (struct shared *)drafter;
    suffix_texts_destroy(shared->texts);
    free(shared);
}

static const struct drafter_class shared_class = {
    .id = RN_DRAFTER_SHARED,
    .offer = offer,
    .learn = learn,
    .forget = forget,
    .destroy = destroy,
};

rn_status drafter_shared_create(int max_tokens, struct drafter **out, rn_error *err) {
    *out = NULL;
    struct shared *const shared = malloc(sizeof *shared);
    if (!shared) return err_set(err, RN_ERR_NOMEM, "no memory for the drafter shared");
    shared->base.cls = &shared_class;
    const rn_status status = suffix_texts_create(max_tokens, &shared->texts, err);
    if (status != RN_OK) {
        free(shared);
        return status;
    }
    *out = &shared->base;
    return RN_OK;
}
