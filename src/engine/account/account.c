// See account.h.
#include "engine/account/account.h"

#include <assert.h>
#include <string.h>

void account_init(struct account *account, uint64_t submit_ns) {
    *account = (struct account){.sum.submit_ns = submit_ns, .mark_ns = submit_ns, .span_tokens = 1};
}

// ---------------------------------------------------------------- shares

static void share_put(rn_share *share, rn_cause cause, uint64_t ns) {
    share->ns += ns;
    share->cause_ns[cause] += ns;
}

static void share_join(rn_share *sum, const rn_share *part) {
    sum->ns += part->ns;
    for (int i = 0; i < RN_CAUSE_COUNT; i++) sum->cause_ns[i] += part->cause_ns[i];
    sum->steps += part->steps;
    if (part->streams > sum->streams) sum->streams = part->streams;
    if (part->prompt_tokens > sum->prompt_tokens) {
        sum->prompt_tokens = part->prompt_tokens;
        sum->prompt_request = part->prompt_request;
    }
    if (part->pages_request) sum->pages_request = part->pages_request;
    if (part->preempt_request) sum->preempt_request = part->preempt_request;
}

static rn_cause share_largest(const rn_share *share) {
    int largest = RN_CAUSE_NONE;
    for (int i = 1; i < RN_CAUSE_COUNT; i++)
        if (share->cause_ns[i] > share->cause_ns[largest]) largest = i;
    return (rn_cause)largest;
}

// ---------------------------------------------------------------- stretches

// The length of the stretch from the mark to now, where the mark is then.
uint64_t account_advance(struct account *account, uint64_t now_ns) {
    if (now_ns <= account->mark_ns) return 0;
    const uint64_t ns = now_ns - account->mark_ns;
    account->mark_ns = now_ns;
    return ns;
}

void account_add(struct account *account, rn_cause cause, uint64_t now_ns) {
    share_put(&account->open, cause, account_advance(account, now_ns));
}

void account_wait(struct account *account, const uint64_t blocked_ns[ACCOUNT_BLOCKS], rn_cause rest,
                  uint64_t now_ns) {
    static const rn_cause causes[] = {
        [ACCOUNT_PLACES] = RN_CAUSE_QUEUE, [ACCOUNT_PAGES] = RN_CAUSE_PAGES};
    uint64_t left = account_advance(account, now_ns);
    for (int i = 0; i < ACCOUNT_BLOCKS; i++) {
        const uint64_t ns = blocked_ns[i] < left ? blocked_ns[i] : left;
        share_put(&account->open, causes[i], ns);
        left -= ns;
    }
    share_put(&account->open, rest, left);
}

void account_divide(struct account *account, const double part[RN_CAUSE_COUNT], uint64_t now_ns) {
    account_divide_ns(account, part, account_advance(account, now_ns));
}

void account_divide_ns(struct account *account, const double part[RN_CAUSE_COUNT], uint64_t ns) {
    double sum = 0, host = part[RN_CAUSE_HOST];
    for (int i = 0; i < RN_CAUSE_COUNT; i++) sum += part[i];
    const double beyond = (double)ns - sum;
    host = host + beyond > 0 ? host + beyond : 0;
    const double rest = sum - part[RN_CAUSE_HOST];
    const double scale = rest > 0 ? ((double)ns - host) / rest : 0;
    uint64_t left = ns;
    int largest = RN_CAUSE_HOST;
    double most = host;
    for (int i = 1; i < RN_CAUSE_COUNT; i++) {
        if (!(part[i] > 0) || i == RN_CAUSE_HOST) continue; // most causes have no part
        const double exact = part[i] * scale;
        const uint64_t whole = (uint64_t)exact, put = whole < left ? whole : left;
        share_put(&account->open, (rn_cause)i, put);
        left -= put;
        if (exact <= most) continue;
        most = exact;
        largest = i;
    }
    // the nanoseconds that rounding left go to the largest part
    const uint64_t rounded = host > 0 ? (uint64_t)host : 0, put = rounded < left ? rounded : left;
    share_put(&account->open, RN_CAUSE_HOST, put);
    share_put(&account->open, (rn_cause)largest, left - put);
}

// ---------------------------------------------------------------- tokens

// Of equal ones the latest.
static void slow_find_least(struct account *account) {
    const rn_slow_gap *slow = account->sum.slow;
    const uint64_t *ns = account->slow_ns;
    int least = 0;
    for (int i = 1; i < RN_SLOW_GAPS; i++)
        if (ns[i] < ns[least] || (ns[i] == ns[least] && slow[i].token > slow[least].token))
            least = i;
    account->slow_least = least;
    account->slow_least_ns = ns[least];
}

// In no order until the end: contexts grow, so a gap is often the longest, and would move all. Of
// equal gaps the later one gives way.
static void slow_add(struct account *account, const rn_share *gap) {
    rn_account *sum = &account->sum;
    if (gap->ns <= account->slow_least_ns) return;
    const int at = sum->n_slow < RN_SLOW_GAPS ? sum->n_slow++ : account->slow_least;
    account->slow_ns[at] = gap->ns;
    sum->slow[at] =
        (rn_slow_gap){.token = account->n_tokens, .end_ns = account->mark_ns, .share = *gap};
    if (sum->n_slow == RN_SLOW_GAPS) slow_find_least(account);
}

// The longest first; of equal ones the first.
static void slow_sort(rn_account *sum) {
    for (int i = 1; i < sum->n_slow; i++) {
        const rn_slow_gap gap = sum->slow[i];
        int at = i;
        for (; at > 0; at--) {
            const rn_slow_gap *before = &sum->slow[at - 1];
            if (before->share.ns > gap.share.ns) break;
            if (before->share.ns == gap.share.ns && before->token < gap.token) break;
            sum->slow[at] = *before;
        }
        sum->slow[at] = gap;
    }
}

// Neighbours become one: half as many spans, of twice as many tokens. The first span stays.
static void spans_halve(struct account *account) {
    rn_account *sum = &account->sum;
    const int n = (sum->n_spans - 1) / 2;
    const bool is_odd = (sum->n_spans - 1) % 2;
    for (int i = 0; i < n; i++) {
        const rn_span *a = &sum->span[1 + 2 * i], *b = a + 1;
        sum->span[1 + i] = (rn_span){.end_ns = b->end_ns,
                                     .ns = a->ns + b->ns,
                                     .max_ns = a->max_ns > b->max_ns ? a->max_ns : b->max_ns,
                                     .n_tokens = a->n_tokens + b->n_tokens,
                                     .cause = a->ns > b->ns ? a->cause : b->cause};
    }
    if (is_odd) sum->span[1 + n] = sum->span[sum->n_spans - 1];
    sum->n_spans = 1 + n + is_odd;
    account->span_tokens *= 2;
}

// The last span takes its place.
static void span_close(struct account *account) {
    rn_account *sum = &account->sum;
    if (sum->n_spans > 0) sum->span[sum->n_spans - 1] = account->last;
}

// The gap joins the last span.
static void span_grow(struct account *account, const rn_share *gap) {
    rn_span *last = &account->last;
    for (int i = 1; i < RN_CAUSE_COUNT; i++) {
        account->span_ns[i] += gap->cause_ns[i];
        if (account->span_ns[i] > account->span_ns[last->cause]) last->cause = (uint8_t)i;
    }
}

static void span_add(struct account *account, const rn_share *gap, rn_cause largest) {
    rn_account *sum = &account->sum;
    rn_span *last = &account->last;
    // the first token has a span of its own: its time is no gap
    const bool is_full = sum->n_spans < 2 || (int)last->n_tokens >= account->span_tokens;
    if (sum->n_spans == 0 || (is_full && gap->ns > 0)) {
        span_close(account);
        if (sum->n_spans == RN_SPANS) spans_halve(account);
        sum->n_spans++;
        *last = (rn_span){.cause = (uint8_t)largest};
        // a span of one token has the token's cause: no other gap joins it
        if (account->span_tokens > 1)
            memcpy(account->span_ns, gap->cause_ns, sizeof account->span_ns);
    } else if (gap->ns > 0) {
        span_grow(account, gap);
    }
    last->end_ns = account->mark_ns;
    last->ns += gap->ns;
    last->n_tokens++;
    if (gap->ns > last->max_ns) last->max_ns = gap->ns;
}

rn_cause account_token(struct account *account, uint64_t total[RN_CAUSE_COUNT], uint64_t *ns) {
    rn_account *sum = &account->sum;
    rn_share *gap = &account->open;
    const rn_cause largest = share_largest(gap);
    *ns = gap->ns;
    for (int i = 0; i < RN_CAUSE_COUNT; i++) total[i] += gap->cause_ns[i];
    if (!sum->first_ns) {
        sum->first_ns = account->mark_ns;
        share_join(&sum->first, gap);
    } else {
        assert(gap->ns == account->mark_ns - sum->last_ns);
        share_join(&account->decode, gap);
        account->n_tokens++;
        slow_add(account, gap);
    }
    sum->last_ns = account->mark_ns;
    span_add(account, gap, largest);
    *gap = (rn_share){0};
    return largest;
}

void account_end(struct account *account) {
    rn_account *sum = &account->sum;
    sum->end_ns = account->mark_ns;
    share_join(sum->first_ns ? &sum->rest : &sum->first, &account->open);
    account->open = (rn_share){0};
    sum->decode = account->decode;
    sum->decode_work = account->work;
    span_close(account);
    slow_sort(sum);
    assert(sum->first.ns == (sum->first_ns ? sum->first_ns : sum->end_ns) - sum->submit_ns);
    assert(!sum->first_ns || sum->decode.ns == sum->last_ns - sum->first_ns);
}
