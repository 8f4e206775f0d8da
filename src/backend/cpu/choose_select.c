// The candidates nearest to a centre: the k best, or the shortest run of the nearest whose units of
// mass reach a share of their total. Ties go to the lower id. Called by the filters.
//
// The run is not ordered: its end, the cut, is found digit by digit of the distance's bits. The
// sums of the first digit's values are made over all candidates. Only candidates with the digit in
// which the wanted sum is reached are looked at further. The rest are few, or all equal. Sums are
// of integers, so no way to make them changes the cut.
#include <assert.h>
#include <math.h>

#include "backend/cpu/choose_steps.h"
#include "base/half.h"

enum { FEW = 256 }; // candidates that a heap orders well

// ---------------------------------------------------------------- thresholds

void choose_keep_until(struct cpu_choice *choice, float centre, struct cut cut) {
    const struct run run = choose_run(choice);
    struct candidates *set = &choice->set;
    set->n = choice->chooser->passes->keep_within(&run, centre, cut.distance, cut.id, set->logit,
                                                  set->id);
    choice->is_whole = false;
}

static const float first_distance = 1, last_distance = 1024;

// A distance that holds at least k of the run, if it can be few more.
static float distance_of_count(const struct choose_passes *passes, const struct run *run, int k) {
    float distance = first_distance;
    while (distance <= last_distance && passes->count_within(run, 0, distance) < k) distance *= 2;
    if (distance > last_distance) return INFINITY;
    float step = distance / 2;
    for (int i = 0; i < 8; i++, step /= 2)
        if (passes->count_within(run, 0, distance - step) >= k) distance -= step;
    return distance;
}

// The peaks as a run of their own, with the peaks' peaks.
static struct run peaks_run(const struct chooser *chooser, const struct run *run) {
    const int n = choose_blocks(run->n);
    float *peak = chooser->peak + n;
    bool holes;
    chooser->passes->peaks(run->peak, n, peak, &holes);
    return (struct run){
        .logit = run->peak, .peak = peak, .n = n, .shift = run->shift, .scale = run->scale};
}

// ---------------------------------------------------------------- the cut

// The sum that is looked for, and the part of it that is nearer than the candidates that are still
// looked at.
struct goal {
    uint64_t wanted, nearer; // nearer < wanted
};

// The digit in which the goal is reached; candidates before it are nearer from now on.
static int digit_of_goal(const uint64_t *sum, struct goal *goal) {
    int digit = 0;
    while (goal->nearer + sum[digit] < goal->wanted) {
        goal->nearer += sum[digit++];
        assert(digit < CHOOSE_DIGITS);
    }
    return digit;
}

static struct near near_of(const struct chooser *chooser) {
    return (struct near){chooser->distance, chooser->units, chooser->near_id};
}

static int digit_of(uint32_t distance, int shift) {
    return (int)(distance >> shift & (CHOOSE_DIGITS - 1));
}

// Keeps those with the digit in which the goal is reached.
static int near_narrow(const struct near *near, int n, int shift, struct goal *goal) {
    uint64_t sum[CHOOSE_DIGITS] = {0};
    for (int i = 0; i < n; i++) sum[digit_of(near->distance[i], shift)] += near->units[i];
    const int digit = digit_of_goal(sum, goal);
    int kept = 0;
    for (int i = 0; i < n; i++) {
        const bool keep = digit_of(near->distance[i], shift) == digit;
        near->distance[kept] = near->distance[i];
        near->units[kept] = near->units[i];
        near->id[kept] = near->id[i];
        kept += keep;
    }
    return kept;
}

static void sift_down(uint64_t *key, int n, int at) {
    const uint64_t moved = key[at];
    for (int child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && key[child + 1] < key[child];
        if (moved <= key[child]) break;
        key[at] = key[child];
    }
    key[at] = moved;
}

// The candidate that reaches the goal, in the order of distance and place; ids ascend with their
// places. *reached: the sum up to it. n > 0.
static int near_in_order(const struct near *near, int n, const struct goal *goal,
                         uint64_t *reached) {
    uint64_t key[FEW], sum = goal->nearer;
    key[0] = (uint64_t)near->distance[0] << 32;
    for (int i = 1; i < n; i++) key[i] = (uint64_t)near->distance[i] << 32 | (uint32_t)i;
    for (int i = n / 2; i-- > 0;) sift_down(key, n, i);
    for (;;) {
        const int next = (int)(key[0] & UINT32_MAX);
        sum += near->units[next];
        if (sum >= goal->wanted) {
            *reached = sum;
            return next;
        }
        assert(n > 1);
        key[0] = key[--n];
        sift_down(key, n, 0);
    }
}

// The one of equals.
static int near_of_equals(const struct near *near, const struct goal *goal) {
    uint64_t sum = goal->nearer + near->units[0];
    int i = 0;
    while (sum < goal->wanted) sum += near->units[++i];
    return i;
}

static struct cut cut_at(const struct near *near, int last) {
    return (struct cut){f32_from_bits(near->distance[last]), near->id[last]};
}

// The end of the run that reaches the goal, among the first n near candidates.
static struct cut cut_among(const struct near *near, int n, struct goal goal) {
    static const int shifts[] = {20, 9, 0}; // 31 bits tell distances apart
    uint64_t reached;
    for (int i = 0; i < 3 && n > FEW; i++) n = near_narrow(near, n, shifts[i], &goal);
    return cut_at(near,
                  n > FEW ? near_of_equals(near, &goal) : near_in_order(near, n, &goal, &reached));
}

// ---------------------------------------------------------------- the k best

// A distance that holds at least the k best: k of them are peaks, of which there are fewer to look
// at, where there are enough.
static float distance_of_best(const struct cpu_choice *choice, int k) {
    const struct run run = choose_run(choice);
    if (k > choose_blocks(run.n) / 4 * 3) return INFINITY;
    const struct run peaks = peaks_run(choice->chooser, &run);
    return distance_of_count(choice->chooser->passes, &peaks, k);
}

void choose_keep_best(struct cpu_choice *choice, int k) {
    const struct chooser *chooser = choice->chooser;
    const struct choose_passes *passes = chooser->passes;
    const float reach = distance_of_best(choice, k);
    if (reach < INFINITY) choose_keep_until(choice, 0, (struct cut){reach, INT32_MAX});
    const struct run run = choose_run(choice);
    const struct near near = near_of(chooser);
    const struct ruler ruler = {.reach = INFINITY, .measure = MEASURE_COUNT, .shift = 20};
    struct goal goal = {(uint64_t)k, 0};
    uint64_t sum[CHOOSE_DIGITS];
    const bool many = run.n > FEW;
    if (many) memset(sum, 0, sizeof sum);
    passes->measure(&run, &ruler, &near, many ? sum : NULL);
    const int n = passes->list(&run, &ruler, many ? digit_of_goal(sum, &goal) : -1, &near);
    choose_keep_until(choice, 0, cut_among(&near, n, goal));
}

// ---------------------------------------------------------------- a share

static uint64_t units_wanted(uint64_t total, float share) {
    const double product = (double)total * (double)share;
    const uint64_t wanted = (uint64_t)product + ((double)(uint64_t)product < product);
    return wanted > 0 ? wanted : 1;
}

// A distance that surely holds the share: all n candidates beyond it, which are below the centre,
// would not weigh what may be missing.
static float reach_of_share(int n, float centre, float share, uint64_t total) {
    const double missing = (double)total / (double)WEIGHT_ONE * (1 - (double)share);
    const double below = (double)centre + rmath_log((double)n / missing);
    return (float)(below > (double)-centre ? below : (double)-centre) + 0.01f;
}

// Fine where the cut may well be: from a sixteenth of the reach on.
static struct ruler ruler_of_share(int n, float centre, float share, uint64_t total) {
    enum { SHIFT = 14 };
    const float reach = reach_of_share(n, centre, share, total);
    const int32_t low = (int32_t)f32_to_bits(reach) - ((CHOOSE_DIGITS - 2) << SHIFT);
    return (struct ruler){centre, reach, MEASURE_MASS, low > 0 ? low : 0, SHIFT};
}

// A search for the shortest run with a share of the total, of which only a lower and an upper bound
// may be known. Mostly both lead to the same cut, and far candidates are not looked at.
struct search {
    const struct choose_passes *passes;
    struct run run;
    struct near near;
    float share;
    struct ruler ruler;
    uint64_t least, most;        // bounds of the total
    uint64_t sum[CHOOSE_DIGITS]; // of the first digit's values
};

static uint64_t search_measure(struct search *search, float centre, uint64_t total) {
    search->ruler = ruler_of_share(search->run.n, centre, search->share, total);
    memset(search->sum, 0, sizeof search->sum);
    return search->passes->measure(&search->run, &search->ruler, &search->near, search->sum);
}

// The peaks alone are a lower bound of the total, and an upper bound of the mass beyond reach. No
// candidate of a block weighs more than its peak, but for the fraction of a unit and the error of
// weight_of.
static void search_from_best(struct search *search, const struct chooser *chooser) {
    const struct run peaks = peaks_run(chooser, &search->run);
    const uint64_t of_peaks = search->passes->mass_within(&peaks, 0, INFINITY);
    search->least = search_measure(search, 0, of_peaks);
    const uint64_t beyond = of_peaks - search->passes->mass_within(&peaks, 0, search->ruler.reach);
    search->most = search->least + CHOOSE_BLOCK * (beyond + beyond / 100000 + (uint64_t)peaks.n);
}

// From now on the total is known.
static void search_settle(struct search *search) {
    const struct ruler *ruler = &search->ruler;
    if (search->least == search->most) return;
    search->least += search->passes->mass_left_out(&search->run, ruler->centre, ruler->reach);
    search->most = search->least;
}

static int search_digit(const struct search *search, struct goal *goal) {
    *goal = (struct goal){units_wanted(search->least, search->share), 0};
    return digit_of_goal(search->sum, goal);
}

static struct cut search_end(struct search *search) {
    const uint64_t wanted_most = units_wanted(search->most, search->share);
    struct goal goal;
    int digit = search_digit(search, &goal);
    if (goal.nearer + search->sum[digit] < wanted_most) {
        search_settle(search);
        digit = search_digit(search, &goal);
    }
    const int n = search->passes->list(&search->run, &search->ruler, digit, &search->near);
    if (n <= FEW) {
        uint64_t reached;
        const int last = near_in_order(&search->near, n, &goal, &reached);
        if (reached >= wanted_most) return cut_at(&search->near, last);
    }
    search_settle(search);
    goal.wanted = units_wanted(search->least, search->share);
    return cut_among(&search->near, n, goal);
}

static struct cut cut_of_few(const struct choose_passes *passes, const struct run *run,
                             const struct near *near, float centre, float share) {
    const struct ruler ruler = {.centre = centre, .reach = INFINITY, .measure = MEASURE_MASS};
    const uint64_t total = passes->measure(run, &ruler, near, NULL);
    const int n = passes->list(run, &ruler, -1, near);
    return cut_among(near, n, (struct goal){units_wanted(total, share), 0});
}

void choose_keep_share(struct cpu_choice *choice, float centre, float share, uint64_t total) {
    const struct chooser *chooser = choice->chooser;
    struct search search;
    search.passes = chooser->passes;
    search.run = choose_run(choice);
    search.near = near_of(chooser);
    search.share = share;
    assert(total > 0 || centre == 0);
    struct cut cut;
    if (search.run.n <= FEW) {
        cut = cut_of_few(search.passes, &search.run, &search.near, centre, share);
    } else if (total > 0) {
        search_measure(&search, centre, total);
        search.least = search.most = total;
        cut = search_end(&search);
    } else {
        search_from_best(&search, chooser);
        cut = search_end(&search);
    }
    choose_keep_until(choice, centre, cut);
}
