// See pace.h. Everything is plain arithmetic on the struct: a prediction takes tens of nanoseconds.
#include "engine/price/pace.h"

#include <assert.h>

enum {
    EXACT_ROWS = 16,   // up to here a bucket is a number of rows; then 8 buckets double it
    STALE_STEPS = 256, // mixed steps after which a bucket is forgotten: it may have been bad luck
    INERTIA = 6,       // by default: the machine's speed changes
    SLOW_STEPS = 4,    // in a row until the machine is believed to have become slower
};

static const double correction = 0.8; // of the rates, per step
static const double growth = 2.5;     // of a step's rows over those of recent ones
static const double fading = 0.97;    // of what counts as recent, per mixed step
static const double slower = 1.25;    // factor to the prediction that may be an accident
static const double surprise = 1.5;   // the same where nothing was measured yet

static double clamp(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

static int bucket_of(int64_t rows) {
    int octave = 0;
    while (rows >> octave >= 2 * EXACT_ROWS) octave++;
    if (rows < EXACT_ROWS) return (int)rows;
    const int index = EXACT_ROWS + 8 * octave + (int)((rows >> octave) - EXACT_ROWS) / 2;
    return index < PACE_BUCKETS ? index : PACE_BUCKETS - 1;
}

void pace_init(struct pace *pace, const struct cost_rates *rates) {
    *pace = (struct pace){.rates = rates, .inertia = INERTIA};
}

struct attention {
    double bytes, flops;
};

static struct attention attention_of(const struct cost_rates *rates,
                                     const struct batch_shape *shape) {
    struct attention sum = {0};
    for (int g = 0; g < rates->n_group; g++) {
        for (int rows = 0; rows < 2; rows++) {
            sum.bytes +=
                (double)shape->kv_read[g][rows] * (double)rates->read[g][rows].kv_read_bytes;
            sum.flops += (double)shape->kv_pairs[g][rows] * (double)rates->pair[g][rows].flops;
        }
    }
    return sum;
}

static double attention_ns(const struct pace *pace, const struct batch_shape *shape) {
    const struct attention a = attention_of(pace->rates, shape);
    return a.bytes * pace->ns_per_byte + a.flops * pace->ns_per_flop;
}

// Above the largest measured number of rows. Time per row falls as rows share the weights, so the
// time in proportion is an upper bound. It is too careful by far where the weights dominate: what
// is assumed goes on with the slope that was seen, at most half a small step below that bound.
static double rows_above(const struct pace *pace, double rows) {
    const struct pace_point *top = &pace->point[pace->n_point - 1], *half = NULL;
    for (const struct pace_point *p = pace->point; p->rows * 2 <= top->rows; p++) half = p;
    const double bound = top->ns * rows / top->rows;
    const double few = pace->point[0].rows > EXACT_ROWS ? EXACT_ROWS / pace->point[0].rows : 1;
    const double careful = bound - 0.5 * pace->point[0].ns * few;
    if (!half) return careful > top->ns ? careful : top->ns;
    const double slope = (top->ns - half->ns) / (top->rows - half->rows);
    const double straight = top->ns + slope * (rows - top->rows);
    const double more = straight < bound ? straight : bound;
    return more > careful ? more : careful;
}

static double rows_ns(const struct pace *pace, double rows) {
    const struct pace_point *p = pace->point;
    if (rows <= p->rows) return p->ns;
    if (rows > p[pace->n_point - 1].rows) return rows_above(pace, rows);
    int low = 0, high = pace->n_point - 1; // p[low].rows < rows <= p[high].rows
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (p[middle].rows < rows)
            low = middle;
        else
            high = middle;
    }
    const double share = (rows - p[low].rows) / (p[high].rows - p[low].rows);
    return p[low].ns + share * (p[high].ns - p[low].ns);
}

uint64_t pace_predict(const struct pace *pace, const struct batch_shape *shape) {
    if (pace->n_point == 0 || shape->n_tokens == 0) return 0;
    return (uint64_t)(rows_ns(pace, (double)shape->n_tokens) + attention_ns(pace, shape));
}

// The buckets that hold something, made monotone: neighbours that fall are read as their mean.
static void read_table(struct pace *pace) {
    struct run { // of points that share a mean
        double ns, weight;
        int end;
    } run[PACE_BUCKETS];
    int n = 0, n_run = 0;
    for (int i = 0; i < PACE_BUCKETS; i++) {
        const struct pace_bucket *b = &pace->bucket[i];
        if (b->count == 0) continue;
        pace->point[n++].rows = b->rows;
        run[n_run++] = (struct run){b->ns, b->count, n};
        for (; n_run > 1 && run[n_run - 1].ns < run[n_run - 2].ns; n_run--) {
            struct run *a = &run[n_run - 2], *z = &run[n_run - 1];
            a->ns = (a->ns * a->weight + z->ns * z->weight) / (a->weight + z->weight);
            a->weight += z->weight;
            a->end = z->end;
        }
    }
    pace->n_point = n;
    for (int r = 0, i = 0; r < n_run; r++)
        for (; i < run[r].end; i++) pace->point[i].ns = run[r].ns;
}

static void bucket_add(struct pace_bucket *b, double rows, double ns, int inertia) {
    if (b->count == 0 || ns * surprise < b->ns) { // the first, or the others were bad luck
        *b = (struct pace_bucket){.rows = rows, .ns = ns, .count = 1};
        return;
    }
    b->age = 0;
    if (b->count < inertia) b->count++;
    const double share = 1.0 / b->count;
    b->rows += share * (rows - b->rows);
    b->ns += share * (ns - b->ns);
}

static void forget_old(struct pace *pace, int lifetime) {
    for (int i = 0; i < PACE_BUCKETS; i++) {
        struct pace_bucket *b = &pace->bucket[i];
        if (b->count > 0 && ++b->age > lifetime) b->count = 0;
    }
}

// Several slow steps in a row are no accident: the machine became slower, in everything.
static void notice_slower(struct pace *pace, double ratio) {
    if (ratio < slower) {
        pace->n_slow = 0;
        return;
    }
    if (pace->n_slow++ == 0 || ratio < pace->slow_ratio) pace->slow_ratio = ratio;
    if (pace->n_slow < SLOW_STEPS) return;
    for (int i = 0; i < PACE_BUCKETS; i++) pace->bucket[i].ns *= pace->slow_ratio;
    pace->ns_per_byte *= pace->slow_ratio;
    pace->ns_per_flop *= pace->slow_ratio;
    pace->n_slow = 0;
}

static void learn_first(struct pace *pace, const struct batch_shape *shape, double ns) {
    const struct cost cost = cost_rates_apply(pace->rates, shape);
    pace->ns_per_byte = ns / (double)(cost.weight_bytes + cost.kv_read_bytes + 1);
    pace->ns_per_flop = 2 * ns / (double)(cost.flops + 1); // attention is slower than products
    const double rest = ns - attention_ns(pace, shape);
    bucket_add(&pace->bucket[bucket_of(shape->n_tokens)], (double)shape->n_tokens,
               rest > ns / 2 ? rest : ns / 2, pace->inertia);
}

// How much of rows_ns may be wrong: what it adds to the largest number of rows measured; less where
// much was measured.
static double rows_unsure(const struct pace *pace, const struct pace_bucket *bucket, double rows,
                          double ns) {
    const struct pace_point *top = &pace->point[pace->n_point - 1];
    const double unsure = rows > top->rows ? ns - top->ns : 0;
    const double least = 0.5 * ns / (bucket->count + 1);
    return unsure > least ? unsure : least;
}

void pace_learn(struct pace *pace, const struct batch_shape *shape, uint64_t measured_ns) {
    if (shape->n_logits == 0 || measured_ns == 0) return;
    const double rows = (double)shape->n_tokens;
    if (pace->n_point == 0) {
        learn_first(pace, shape, (double)measured_ns);
        read_table(pace);
        return;
    }
    if (shape->n_tokens > shape->n_logits) {
        if (!pace->lifetime) forget_old(pace, STALE_STEPS);
        pace->recent_rows *= fading;
        if (pace->recent_rows < rows) pace->recent_rows = rows;
    }
    if (pace->lifetime) forget_old(pace, pace->lifetime);
    const struct attention a = attention_of(pace->rates, shape);
    struct pace_bucket *bucket = &pace->bucket[bucket_of(shape->n_tokens)];
    const double part[] = {rows_ns(pace, rows), a.bytes * pace->ns_per_byte,
                           a.flops * pace->ns_per_flop};
    const double predicted = part[0] + part[1] + part[2];
    const double ratio = (double)measured_ns / predicted;
    // Slow twice at the same number of rows is no accident either: what was known of it is wrong.
    const bool slow = ratio >= slower, doubted = slow && bucket->was_slow;
    if (doubted) bucket->count = 0;
    const bool known = bucket->count > 0;
    const double ns = predicted * clamp(ratio, 0, known ? slower : surprise);
    // What was mispredicted is divided by the squares of what is uncertain in each part.
    const double unsure = doubted ? part[0] : rows_unsure(pace, bucket, rows, part[0]);
    const double error =
        (ns - predicted) / (unsure * unsure + part[1] * part[1] + part[2] * part[2]);
    if (!slow || !known) {
        pace->ns_per_byte *= clamp(1 + correction * error * part[1], 0.5, 2);
        pace->ns_per_flop *= clamp(1 + correction * error * part[2], 0.5, 2);
    }
    bucket_add(bucket, rows, clamp(part[0] + error * unsure * unsure, part[0] / 16, part[0] * 2),
               pace->inertia);
    bucket->was_slow = slow && known;
    if (known) notice_slower(pace, ratio);
    read_table(pace);
}

static bool fits(const struct pace *pace, const struct plan *plan, const struct batch_shape *base,
                 int first_pos, int n_tokens, double left_ns) {
    struct batch_shape chunk = {0};
    batch_shape_add(plan, &chunk, first_pos, n_tokens, 1);
    return rows_ns(pace, (double)(base->n_tokens + n_tokens)) + attention_ns(pace, &chunk) <=
           left_ns;
}

int pace_chunk(const struct pace *pace, const struct plan *plan, const struct batch_shape *base,
               int first_pos, int wanted, uint64_t bound_ns) {
    assert(wanted > 0);
    int low = wanted < PACE_MIN_CHUNK ? wanted : PACE_MIN_CHUNK, high = wanted + 1;
    if (pace->n_point == 0) return low;
    // Deep in a prompt rows and attention can make up for each other's errors; at the begin of the
    // next one they do not, so it is approached in a few steps.
    const double most = growth * pace->recent_rows - (double)base->n_tokens;
    if (pace->recent_rows > 0 && most < wanted) high = most > low ? (int)most + 1 : low + 1;
    const double left_ns = (double)bound_ns - attention_ns(pace, base);
    if (!fits(pace, plan, base, first_pos, low, left_ns)) {
        if (rows_ns(pace, (double)base->n_tokens) > left_ns) return low; // nothing would keep it
        high = low;
        low = 1;
    }
    while (high - low > 1) { // low is allowed, high is too much
        const int middle = low + (high - low) / 2;
        if (fits(pace, plan, base, first_pos, middle, left_ns))
            low = middle;
        else
            high = middle;
    }
    return low;
}
