// Draft lengths by expected tokens per second. A draft is a prefix of what a source has, so its
// tokens gain rate, rate^2, ...: less and less. The best lengths for a number of rows are those
// that take the largest gains first, over all sequences. That is walked from no rows to all there
// is room for: what verifying costs has steps, so all numbers are looked at and not only the first
// ones that are better. Sequences that cost more than rows are walked with and without.
//
// Called by the step's thread alone; arithmetic only, a microsecond or two for one sequence.
#include "engine/draft/spec_control.h"

#include <assert.h>
#include <string.h>

enum {
    LEAN_PRIOR = 4,    // tokens that a prior counts as
    LEAN_ALL = 5,      // tokens that the rate of all counts as
    LEAN_OWN = 24,     // tokens that the rate of a sequence counts as beside that of lately
    KNOWN = 16,        // tokens tried, of all sequences, after which a source is known
    FADE_STEPS = 1024, // after which what was counted counts half
    CHANGE_STEPS = 4,  // that agree before the number of rows changes for little
    PLAIN_GAP = 8,     // steps
    PROBE_GAP = 8,     // the first one, in steps
    PROBE_GAP_GROWS = 4,
    PROBE_GAP_MAX = 256,
    SETUP_PART = 4,   // a setup is to be paid back in the first part of what is left
    SETUP_LEFT = 512, // tokens; more are not counted on
    N_WALKS = 3,
};

#define CHANCE        3.0 // variances by which counts may differ by chance
#define RATE_MIN      0.01
#define RATE_MAX      0.99
#define RATE_HOPEFUL  0.3         // cheaper rows could make it pay
#define FORGET_ONE    (0.69 / 64) // of a sequence's counts, by each token tried: half after 64
#define FORGET_LATELY (0.69 / 8)
#define FORGET_ALL    (0.69 / 256) // of those of all sequences
#define GAIN_LEAST    1e-3         // tokens; less is not worth a row
#define BETTER_NONE   1.06         // drafts promise so much more than none to begin
#define BETTER_LITTLE 1.015        // to change between lengths, after some steps that agree
#define BETTER_MUCH   1.06         // to change at once
#define WORSE_NONE    1.03         // none promises so much more: drafts end at once
#define LOSS_PART     0.005        // of all time may be lost by knowing better
#define LOSS_STEPS    1.75         // in advance
#define LOSS_SAVED    64           // steps; no more than that is saved up
#define SETUP_RISK    0.005        // of what is left of a text, for a source that is not known
#define RATES_NEW     0.2          // the mean of rates differs by more: another situation
#define TOKENS_NEW    0.1          // relative

void spec_control_init(struct spec_control *control, const double *prior) {
    memset(control, 0, sizeof *control);
    memcpy(control->prior, prior, sizeof control->prior);
    for (int i = 0; i < SPEC_MAX_SOURCES; i++) control->gap[i] = PROBE_GAP;
    control->probed = -1;
}

// --- rates ---

// What was counted, with its age: a text changes.
static struct spec_rate faded(const struct spec_control *control, struct spec_rate rate) {
    const uint32_t age = (uint32_t)control->steps - rate.step;
    const float keep = (float)FADE_STEPS / (FADE_STEPS + (float)age);
    return (struct spec_rate){.tried = rate.tried * keep, .accepted = rate.accepted * keep};
}

// The rate of what was counted, with `weight` further tokens at the rate `expected`. They count
// less where what was counted differs from them by more than chance: a sequence whose drafts all
// fail is not taken for one of the others for long.
static double lean(double expected, double weight, struct spec_rate counted) {
    const double tried = (double)counted.tried, accepted = (double)counted.accepted;
    const double differs = accepted - tried * expected;
    const double variance = tried * expected * (1 - expected) + 1;
    const double contradicts = differs * differs / (CHANCE * variance);
    const double counts = weight / (1 + contradicts * contradicts);
    return (accepted + counts * expected) / (tried + counts);
}

static double clamped(double x, double least, double most) {
    return x < least ? least : x > most ? most : x;
}

static double rate_of_all(const struct spec_control *control, int source) {
    const double prior = clamped(control->prior[source], RATE_MIN, RATE_MAX);
    return clamped(lean(prior, LEAN_PRIOR, control->all[source]), RATE_MIN, RATE_MAX);
}

double spec_rate_of(const struct spec_control *control, const struct spec_rates *rates,
                    int source) {
    assert(source >= 0 && source < SPEC_MAX_SOURCES);
    const struct spec_rate own = faded(control, rates->rate[source]);
    const struct spec_rate lately = faded(control, rates->lately[source]);
    const double usual = lean(rate_of_all(control, source), LEAN_ALL, own);
    const double rate = lean(clamped(usual, RATE_MIN, RATE_MAX), LEAN_OWN, lately);
    return clamped(rate, RATE_MIN, RATE_MAX);
}

static void count(struct spec_control *control, struct spec_rate *rate, double forget, int tried,
                  int accepted) {
    const struct spec_rate before = faded(control, *rate);
    const float keep = (float)clamped(1 - forget * tried, 0, 1);
    rate->tried = before.tried * keep + (float)tried;
    rate->accepted = before.accepted * keep + (float)accepted;
    rate->step = (uint32_t)control->steps;
}

void spec_learn(struct spec_control *control, struct spec_rates *rates, int source, int tried,
                int accepted) {
    assert(source >= 0 && source < SPEC_MAX_SOURCES);
    assert(accepted >= 0 && accepted <= tried);
    if (control->risked >> source & 1) control->allowance_ns += accepted * control->token_ns;
    count(control, &rates->rate[source], FORGET_ONE, tried, accepted);
    count(control, &rates->lately[source], FORGET_LATELY, tried, accepted);
    count(control, &control->all[source], FORGET_ALL, tried, accepted);
}

static void note_plain(struct spec_control *control) {
    control->last_plain = control->steps;
    control->last_plain_ns = control->spent_ns;
}

void spec_learn_step(struct spec_control *control, double ns) {
    control->steps++;
    control->spent_ns += ns;
    control->allowance_ns += LOSS_PART * ns;
    if (!control->has_chosen) note_plain(control); // nobody had an offer
    control->has_chosen = false;
    control->risked = 0;
}

// --- the best lengths for every number of rows ---

// Bids that a walk takes from.
enum reach { REACH_FREE, REACH_READY, REACH_ALL }; // cost nothing; need no setup

// rows -> what is expected of the best lengths of so many tokens; from the forced rows on.
struct walk {
    int base, top;
    double value[SPEC_MAX_ROWS + 1]; // tokens per ns
    double ns[SPEC_MAX_ROWS + 1];
    uint16_t order[SPEC_MAX_ROWS]; // whose token the (rows + 1)st is
};

// The drafts of a walk: sequences, and what they cost, at each place of a drafter's.
struct drafting {
    int n_seqs[SPEC_MAX_DRAFTERS][SPEC_MAX_DRAFT];
    double ns[SPEC_MAX_DRAFTERS][SPEC_MAX_DRAFT];
};

// One more token for the bid: what drafting it costs.
static double take(struct spec_bid *bid, const struct spec_costs *costs,
                   struct drafting *drafting) {
    const int place = bid->n++;
    bid->gain = bid->n < bid->most ? bid->gain * bid->rate : 0;
    double ns = place == 0 ? bid->share : 0;
    if (bid->drafter >= 0) {
        const int n_seqs = ++drafting->n_seqs[bid->drafter][place];
        double *const at_place = &drafting->ns[bid->drafter][place];
        const double now = costs->draft_ns(costs->draft_ctx, bid->drafter, place, n_seqs);
        ns += now - *at_place;
        *at_place = now;
    }
    return ns;
}

static bool within(const struct spec_bid *bid, enum reach reach) {
    if (bid->barred) return false;
    if (reach == REACH_ALL) return true;
    return bid->setup_ns <= 0 && (reach == REACH_READY || bid->drafter < 0);
}

static double value_of(double tokens, double ns) { return tokens / (ns > 1 ? ns : 1); }

static int best_gain(const struct spec_bid *bids, int n_bids) {
    int best = 0;
    for (int i = 1; i < n_bids; i++)
        if (bids[i].gain > bids[best].gain) best = i;
    return best;
}

static void walk_rows(struct spec_bid *bids, int n_bids, const struct spec_costs *costs,
                      enum reach reach, struct walk *out) {
    struct drafting drafting;
    memset(&drafting, 0, sizeof drafting);
    double tokens = costs->tokens, draft_ns = 0;
    int rows = 0;
    for (int i = 0; i < n_bids; i++) {
        struct spec_bid *const bid = &bids[i];
        bid->n = 0;
        bid->gain = bid->luck > 0 ? bid->rate * bid->luck : bid->rate;
        for (; bid->n < bid->forced; rows++) {
            tokens += bid->gain;
            draft_ns += take(bid, costs, &drafting);
        }
        if (!within(bid, reach)) bid->gain = 0;
    }
    out->base = rows;
    for (;; rows++) {
        out->ns[rows] = costs->verify_ns[rows] + draft_ns;
        out->value[rows] = value_of(tokens, out->ns[rows]);
        if (rows == costs->max_rows || n_bids == 0) break;
        const int best = best_gain(bids, n_bids);
        if (bids[best].gain < GAIN_LEAST) break;
        out->order[rows] = (uint16_t)best;
        tokens += bids[best].gain;
        draft_ns += take(&bids[best], costs, &drafting);
    }
    out->top = rows;
}

// Every walk that differs from those before it.
struct survey {
    int n_walks;
    struct walk walk[N_WALKS];
    int top; // rows of the longest
    double value[SPEC_MAX_ROWS + 1];
    uint8_t from[SPEC_MAX_ROWS + 1]; // the walk that the value is of
};

static void survey_init(struct survey *survey, struct spec_bid *bids, int n_bids,
                        const struct spec_costs *costs) {
    bool any[N_WALKS] = {0};
    for (int i = 0; i < n_bids; i++)
        for (int reach = REACH_FREE; reach <= REACH_ALL; reach++)
            if (within(&bids[i], (enum reach)reach)) {
                any[reach] = true;
                break;
            }
    survey->n_walks = 0;
    survey->top = 0;
    for (int reach = REACH_FREE; reach <= REACH_ALL; reach++) {
        if (!any[reach] && !(reach == REACH_ALL && survey->n_walks == 0)) continue;
        const int at = survey->n_walks++;
        struct walk *const walk = &survey->walk[at];
        walk_rows(bids, n_bids, costs, (enum reach)reach, walk);
        for (int rows = walk->base; rows <= walk->top; rows++)
            if (rows > survey->top || at == 0 || walk->value[rows] > survey->value[rows]) {
                survey->value[rows] = walk->value[rows];
                survey->from[rows] = (uint8_t)at;
            }
        if (at == 0 || walk->top > survey->top) survey->top = walk->top;
    }
}

static int survey_base(const struct survey *survey) { return survey->walk[0].base; }

static const struct walk *survey_walk(const struct survey *survey, int rows) {
    return &survey->walk[survey->from[rows]];
}

// The number of rows with the most tokens per second; the fewest of equal ones.
static int survey_best(const struct survey *survey) {
    int best = survey_base(survey);
    for (int rows = best + 1; rows <= survey->top; rows++)
        if (survey->value[rows] > survey->value[best]) best = rows;
    return best;
}

static void survey_take(const struct survey *survey, int rows, struct spec_bid *bids, int n_bids) {
    const struct walk *const walk = survey_walk(survey, rows);
    for (int i = 0; i < n_bids; i++) bids[i].n = bids[i].forced;
    for (int row = walk->base; row < rows; row++) bids[walk->order[row]].n++;
}

// --- what bids are ---

static bool is_known(const struct spec_control *control, int source) {
    return control->all[source].tried >= KNOWN;
}

static double plain_token_ns(const struct spec_costs *costs) {
    return costs->tokens > 0 ? costs->verify_ns[0] / costs->tokens : 0;
}

// What a source that is not known, or a probe, may lose now.
static double allowed_ns(const struct spec_control *control, const struct spec_costs *costs) {
    return control->allowance_ns + LOSS_STEPS * costs->verify_ns[0];
}

// The part of the setup that this step bears; a bid whose draft cannot be worth it is barred. No
// token is worth more than one without drafts costs, because the best choice is not worse than
// none.
static void price_setup(struct spec_bid *bid, const struct spec_costs *costs) {
    bid->share = bid->setup_ns;
    if (bid->setup_ns <= 0) return;
    const double left = clamped(bid->left, 1, SETUP_LEFT);
    if (left > SETUP_PART) bid->share *= SETUP_PART / left;
    const double most = bid->rate / (1 - bid->rate);
    const double tokens = most < bid->most ? most : bid->most;
    if (bid->share >= tokens * plain_token_ns(costs)) bid->barred = true;
}

// Forced tokens go place by place, so that all sequences have some where there is not room for
// all of them.
static void force(struct spec_bid *bids, int n_bids, int room) {
    int deepest = 0;
    for (int i = 0; i < n_bids; i++)
        if (bids[i].least > deepest) deepest = bids[i].least;
    for (int place = 0; place < deepest; place++)
        for (int i = 0; i < n_bids && room > 0; i++)
            if (place < bids[i].least && place < bids[i].most) {
                bids[i].forced++;
                room--;
            }
}

static void prepare(struct spec_bid *bids, int n_bids, const struct spec_costs *costs) {
    for (int i = 0; i < n_bids; i++) {
        struct spec_bid *const bid = &bids[i];
        assert(bid->source >= 0 && bid->source < SPEC_MAX_SOURCES);
        assert(bid->drafter < SPEC_MAX_DRAFTERS && bid->most <= SPEC_MAX_DRAFT);
        assert(bid->drafter < 0 || costs->draft_ns);
        bid->rate = clamped(bid->rate, RATE_MIN, RATE_MAX);
        bid->forced = 0;
        bid->barred = bid->most <= 0;
        price_setup(bid, costs);
    }
    force(bids, n_bids, costs->max_rows);
}

// --- the account of what is lost by knowing better ---

// ns that the drafts of unknown sources add to the step, setups in full; *left becomes the most
// tokens that may still come of one that has a setup.
static double risk_ns(const struct spec_control *control, const struct spec_bid *bids, int n_bids,
                      const struct walk *walk, int rows, int *left) {
    double setups_ns = 0, shares_ns = 0;
    int n_unknown = 0;
    *left = 0;
    for (int i = 0; i < n_bids; i++) {
        const struct spec_bid *const bid = &bids[i];
        if (bid->n == 0) continue;
        shares_ns += bid->share;
        if (is_known(control, bid->source)) continue;
        n_unknown += bid->n;
        setups_ns += bid->setup_ns;
        if (bid->setup_ns > 0 && bid->left > *left) *left = bid->left;
    }
    if (n_unknown == 0) return 0;
    const double added_ns = walk->ns[rows] - walk->ns[walk->base] - shares_ns;
    return added_ns * n_unknown / rows + setups_ns;
}

// Where the best choice would lose more than is allowed if unknown sources turned out bad, they
// are left out.
static bool bar_unknown(struct spec_control *control, struct spec_bid *bids, int n_bids,
                        const struct spec_costs *costs, const struct survey *survey) {
    bool any = false;
    for (int i = 0; i < n_bids; i++) any |= !bids[i].barred && !is_known(control, bids[i].source);
    if (!any) return false;
    const int rows = survey_best(survey);
    int left;
    survey_take(survey, rows, bids, n_bids);
    const double risk = risk_ns(control, bids, n_bids, survey_walk(survey, rows), rows, &left);
    const double allowed =
        allowed_ns(control, costs) +
        SETUP_RISK * (left < SETUP_LEFT ? left : SETUP_LEFT) * plain_token_ns(costs);
    if (risk <= allowed) return false;
    for (int i = 0; i < n_bids; i++)
        if (!is_known(control, bids[i].source)) bids[i].barred = true;
    return true;
}

// Accepted tokens of the source give back what is charged here.
static void charge(struct spec_control *control, int source, double ns) {
    if (ns < 0) ns = 0;
    control->allowance_ns -= ns;
    control->risked |= 1u << source;
}

static void charge_unknown(struct spec_control *control, const struct spec_bid *bids, int n_bids,
                           const struct walk *walk, int rows) {
    int left;
    double ns = risk_ns(control, bids, n_bids, walk, rows, &left);
    for (int i = 0; i < n_bids; i++)
        if (bids[i].n > 0 && !is_known(control, bids[i].source)) {
            charge(control, bids[i].source, ns);
            ns = 0;
        }
}

// --- the choice ---

// Whether the last choice was made for something else: other bids, or rates and tokens that differ
// by more than they do from step to step.
static bool is_new(struct spec_control *control, const struct spec_bid *bids, int n_bids,
                   double tokens) {
    int n = 0;
    double rates = 0;
    for (int i = 0; i < n_bids; i++) {
        if (bids[i].barred) continue;
        n++;
        rates += bids[i].rate;
    }
    const double rates_by = rates - control->last_rates, tokens_by = tokens - control->last_tokens;
    const double rates_new = RATES_NEW * n, tokens_new = TOKENS_NEW * control->last_tokens;
    if (n == control->last_bids && rates_by <= rates_new && rates_by >= -rates_new &&
        tokens_by <= tokens_new && tokens_by >= -tokens_new)
        return false;
    control->last_bids = n;
    control->last_rates = rates;
    control->last_tokens = tokens;
    return true;
}

// The rows that promise enough more than those of the last choice to change to; those otherwise.
static int better_than(const struct survey *survey, int last) {
    const int base = survey_base(survey), best = survey_best(survey);
    const double *const value = survey->value;
    const bool worth = value[best] >= BETTER_NONE * value[base];
    if (last == base) return worth ? best : base;
    if (value[base] > value[last]) return worth ? best : base;
    return value[best] >= BETTER_LITTLE * value[last] ? best : last;
}

static int choose_rows(struct spec_control *control, const struct survey *survey, bool anew) {
    const int base = survey_base(survey);
    const int kept = control->last_rows;
    const int last = kept < base ? base : kept > survey->top ? survey->top : kept;
    const int better = better_than(survey, anew ? base : last);
    if (anew) {
        control->leaning = 0;
        control->last_rows = better;
        return better;
    }
    if (better == last) {
        control->leaning = 0;
        return last;
    }
    const int lean_by = better > last ? 1 : -1;
    control->leaning = control->leaning * lean_by > 0 ? control->leaning + lean_by : lean_by;
    const double much = better == base ? WORSE_NONE : BETTER_MUCH;
    if (control->leaning * lean_by < CHANGE_STEPS &&
        survey->value[better] < much * survey->value[last])
        return last;
    control->leaning = 0;
    control->last_rows = better;
    return better;
}

// --- steps against the choice ---

static bool take_plain(struct spec_control *control, struct spec_bid *bids, int n_bids,
                       const struct spec_costs *costs, double value) {
    const double loss_ns = costs->verify_ns[0] - costs->tokens / value;
    const double since_ns = control->spent_ns - control->last_plain_ns;
    if (control->steps - control->last_plain < PLAIN_GAP || loss_ns > LOSS_PART * since_ns ||
        loss_ns > allowed_ns(control, costs))
        return false;
    control->allowance_ns -= loss_ns;
    for (int i = 0; i < n_bids; i++) bids[i].n = 0;
    return true;
}

// Whether nothing was heard of a source for so long that its rate may be another one. What free
// sources offer is compared with the text without being verified, so they are heard all the time.
static bool is_unheard(const struct spec_control *control, int source) {
    return (uint32_t)control->steps - control->all[source].step >= control->gap[source];
}

// Whether a source was not drafted from for so long that it is to be tried: because it is unheard,
// or because its rate is not bad and what keeps it from being used is a cost that may have changed.
static bool is_due(const struct spec_control *control, const struct spec_bid *bid) {
    const uint64_t silent = control->steps - control->last_draft[bid->source];
    return silent >= control->gap[bid->source] &&
           (bid->rate >= RATE_HOPEFUL || is_unheard(control, bid->source));
}

static bool take_probe(struct spec_control *control, struct spec_bid *bids, int n_bids,
                       const struct spec_costs *costs, int rows) {
    if (rows >= costs->max_rows) return false;
    struct spec_bid *best = NULL;
    for (int i = 0; i < n_bids; i++) {
        struct spec_bid *const bid = &bids[i];
        if (bid->n > 0 || bid->most <= 0 || !is_due(control, bid)) continue;
        if (!best || bid->setup_ns < best->setup_ns ||
            (bid->setup_ns <= best->setup_ns && bid->rate > best->rate))
            best = bid;
    }
    if (!best) return false;
    double loss_ns = costs->verify_ns[rows + 1] - costs->verify_ns[rows] + best->setup_ns;
    if (best->drafter >= 0) loss_ns += costs->draft_ns(costs->draft_ctx, best->drafter, 0, 1);
    if (loss_ns > allowed_ns(control, costs)) return false;
    const uint32_t risked = control->risked;
    charge(control, best->source, loss_ns);
    // of one that is heard anyway, what others learn in this step would be taken for the probe's
    if (!is_unheard(control, best->source)) control->risked = risked;
    best->n = 1;
    control->probed = best->source;
    const uint32_t gap = control->gap[best->source] * PROBE_GAP_GROWS;
    control->gap[best->source] = gap < PROBE_GAP_MAX ? gap : PROBE_GAP_MAX;
    return true;
}

// Of all that is drafted in the step, whoever wanted it.
static void remember(struct spec_control *control, const struct spec_bid *bids, int n_bids) {
    bool any = false;
    for (int i = 0; i < n_bids; i++) {
        if (bids[i].n == 0) continue;
        any = true;
        control->last_draft[bids[i].source] = control->steps;
        if (bids[i].source != control->probed) control->gap[bids[i].source] = PROBE_GAP;
    }
    if (!any) note_plain(control);
}

enum spec_turn spec_choose(struct spec_control *control, struct spec_bid *bids, int n_bids,
                           const struct spec_costs *costs) {
    assert(costs->max_rows >= 0 && costs->max_rows <= SPEC_MAX_ROWS);
    control->has_chosen = true;
    control->risked = 0;
    control->probed = -1;
    control->token_ns = plain_token_ns(costs);
    const double saved_ns = LOSS_SAVED * costs->verify_ns[0];
    if (control->allowance_ns > saved_ns) control->allowance_ns = saved_ns;

    struct survey survey;
    prepare(bids, n_bids, costs);
    survey_init(&survey, bids, n_bids, costs);
    if (bar_unknown(control, bids, n_bids, costs, &survey))
        survey_init(&survey, bids, n_bids, costs);
    const int base = survey_base(&survey);
    const bool anew = is_new(control, bids, n_bids, costs->tokens);
    const int rows = choose_rows(control, &survey, anew);
    survey_take(&survey, rows, bids, n_bids);

    enum spec_turn turn = SPEC_CHOSEN;
    if (base == 0 && rows > 0 && take_plain(control, bids, n_bids, costs, survey.value[rows])) {
        turn = SPEC_PLAIN;
    } else {
        charge_unknown(control, bids, n_bids, survey_walk(&survey, rows), rows);
        if (base == 0 && take_probe(control, bids, n_bids, costs, rows)) turn = SPEC_PROBE;
    }
    remember(control, bids, n_bids);
    return turn;
}
