// See price.h. Plain arithmetic on the struct: a price takes tens of nanoseconds.
#include "engine/price/price.h"

#include <assert.h>

enum {
    EXACT_ROWS = 16,    // up to here a bucket is a number of rows; then 8 buckets double it
    INERTIA = 32,       // largest weight of an average, in measurements
    STALE_STEPS = 2048, // without a measurement, after which a price falls
    ALIKE_STEPS = 4,    // in a row that show a change of the machine's speed
    CALIBRATE_PASSES = 3,
};

static const double slower = 1.25; // factor to the price; more may be an accident
static const double faster = 0.8;  // factor to the price; less is a surprise too
static const double unknown = 1.5; // as slower, where nothing was measured yet
static const double speed_change = 1.15;
static const double furthest = 2;          // factor from the last measurement to a scaled price
static const double confirming = 1.0 / 16; // part of a step that confirms a rate of attention
static const double stale = 0.9;           // factor to a price that was not measured for long
static const double correction = 0.8;      // of the rates of attention, per step
static const double growth = 2.5;          // of a step's rows over those of recent ones
static const double fading = 0.97;         // of the recent rows, with each step that has a prompt
// The usual time follows the price, by these parts of the difference in each step. A slower speed
// that lasts ten seconds of steps, or a thousand short steps, becomes usual.
static const double usual_falls = 1.0 / 128, usual_rises = 1.0 / 1024, usual_rises_ns = 10e9;

static double clamp(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

// ---------------------------------------------------------------- shapes

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

double price_attention_ns(const struct price *price, const struct batch_shape *shape) {
    const struct attention a = attention_of(price->rates, shape);
    return a.bytes * price->ns_per_byte + a.flops * price->ns_per_flop;
}

static double rows_in(const struct price *price, int64_t n_tokens, int64_t n_out,
                      int64_t n_logits) {
    const struct cost *row = price->rates->row;
    const double flops = (double)n_tokens * (double)row[ROWS_TOKENS].flops +
                         (double)n_out * (double)row[ROWS_OUT].flops +
                         (double)n_logits * (double)row[ROWS_LOGITS].flops;
    return flops / price->row_flops;
}

static double rows_of(const struct price *price, const struct batch_shape *shape) {
    return rows_in(price, shape->n_tokens, shape->n_out, shape->n_logits);
}

static int bucket_of(double rows) {
    const int64_t n = (int64_t)(rows + 0.5);
    int octave = 0;
    while (n >> octave >= 2 * EXACT_ROWS) octave++;
    if (n < EXACT_ROWS) return (int)n;
    const int index = EXACT_ROWS + 8 * octave + (int)((n >> octave) - EXACT_ROWS) / 2;
    return index < PRICE_BUCKETS ? index : PRICE_BUCKETS - 1;
}

void price_init(struct price *price, const struct cost_rates *rates) {
    double flops = 0;
    for (int domain = 0; domain < COST_DOMAINS; domain++) flops += (double)rates->row[domain].flops;
    *price = (struct price){.rates = rates, .row_flops = flops > 0 ? flops : 1};
}

// ---------------------------------------------------------------- the table

// Above the largest measured number of rows. Time per row falls as rows share the weights, so the
// time in proportion is an upper bound. That bound is far too pessimistic where the weights
// dominate: the table continues with the measured slope, at most half a small step below the bound.
static double rows_above(const struct price *price, double rows) {
    const struct price_point *top = &price->point[price->n_point - 1];
    const double bound = top->ns * rows / top->rows;
    const double few = price->point[0].rows > EXACT_ROWS ? EXACT_ROWS / price->point[0].rows : 1;
    const double careful = bound - 0.5 * price->point[0].ns * few;
    if (price->half < 0) return careful > top->ns ? careful : top->ns;
    const struct price_point *half = &price->point[price->half];
    const double slope = (top->ns - half->ns) / (top->rows - half->rows);
    const double straight = top->ns + slope * (rows - top->rows);
    const double more = straight < bound ? straight : bound;
    return more > careful ? more : careful;
}

static double rows_ns(const struct price *price, double rows) {
    const struct price_point *p = price->point;
    if (rows <= p->rows) return p->ns;
    if (rows > p[price->n_point - 1].rows) return rows_above(price, rows);
    int low = 0, high = price->n_point - 1; // p[low].rows < rows <= p[high].rows
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

double price_of_exact(const struct price *price, const struct batch_shape *shape) {
    if (price->n_point == 0 || shape->n_tokens == 0) return 0;
    return rows_ns(price, rows_of(price, shape)) + price_attention_ns(price, shape);
}

uint64_t price_of(const struct price *price, const struct batch_shape *shape) {
    return (uint64_t)price_of_exact(price, shape);
}

void price_of_more(const struct price *price, const struct batch_shape *shape, int most,
                   double *ns) {
    assert(price->n_point > 0 && shape->n_tokens > 0);
    const struct attention a = attention_of(price->rates, shape);
    const double read_ns = a.bytes * price->ns_per_byte, pairs_ns = a.flops * price->ns_per_flop;
    const double rows = rows_of(price, shape), row = rows_in(price, 1, 1, 1);
    const double each_ns = pairs_ns / (double)shape->n_tokens;
    for (int n = 0; n <= most; n++)
        ns[n] = rows_ns(price, rows + n * row) + read_ns + pairs_ns + n * each_ns;
}

double price_rows_ns(const struct price *price, int64_t n_tokens, int64_t n_out, int64_t n_logits) {
    return price->n_point > 0 ? rows_ns(price, rows_in(price, n_tokens, n_out, n_logits)) : 0;
}

double price_usual_ns(const struct price *price, const struct batch_shape *shape) {
    const struct price_bucket *b = &price->bucket[bucket_of(rows_of(price, shape))];
    if (b->seen < PRICE_KNOWN || b->age > PRICE_RECENT) return 0;
    const double ns = price_of_exact(price, shape);
    return b->ns > b->usual_ns ? ns * (b->usual_ns / b->ns) : ns;
}

// The measured buckets, made monotone: neighbours that fall are read as their mean.
static void read_table(struct price *price) {
    struct run { // of points that share a mean
        double ns, weight;
        int end;
    } run[PRICE_BUCKETS];
    int n = 0, n_run = 0;
    for (int i = 0; i < price->n_used; i++) {
        const struct price_bucket *b = &price->bucket[price->used[i]];
        price->point[n++].rows = b->rows;
        run[n_run++] = (struct run){b->ns, b->count, n};
        for (; n_run > 1 && run[n_run - 1].ns < run[n_run - 2].ns; n_run--) {
            struct run *a = &run[n_run - 2], *z = &run[n_run - 1];
            a->ns = (a->ns * a->weight + z->ns * z->weight) / (a->weight + z->weight);
            a->weight += z->weight;
            a->end = z->end;
        }
    }
    price->n_point = n;
    for (int r = 0, i = 0; r < n_run; r++)
        for (; i < run[r].end; i++) price->point[i].ns = run[r].ns;
    price->half = -1;
    while (price->point[price->half + 1].rows * 2 <= price->point[n - 1].rows) price->half++;
}

// ---------------------------------------------------------------- learning

static void bucket_use(struct price *price, int index) {
    int at = price->n_used++;
    for (; at > 0 && price->used[at - 1] > index; at--) price->used[at] = price->used[at - 1];
    price->used[at] = (uint8_t)index;
}

static void bucket_add(struct price *price, double rows, double ns, double ratio) {
    const int index = bucket_of(rows);
    struct price_bucket *b = &price->bucket[index];
    if (b->count == 0) bucket_use(price, index);
    if (b->age > PRICE_RECENT) b->seen = 0; // the rates of attention may be others by now
    b->age = 0;
    if (ratio > slower || ratio < faster) b->count /= 2;
    if (b->count < INERTIA) b->count++;
    const double share = 1.0 / b->count;
    b->rows += share * (rows - b->rows);
    b->ns += share * (ns - b->ns);
    // The first measurements decide the usual time; later it forgets slow phases slowly.
    if (b->seen < PRICE_KNOWN) b->seen++;
    const double rise = clamp(ns / usual_rises_ns, usual_rises, 1);
    const double follow = b->seen < PRICE_KNOWN ? 1 : b->ns < b->usual_ns ? usual_falls : rise;
    b->usual_ns += follow * (b->ns - b->usual_ns);
}

// A shape whose price is too high is not tried again. So a price that was not measured for long
// falls, step by step, but never below the price of fewer rows.
static void doubt_old(struct price *price) {
    double below = 0;
    for (int i = 0; i < price->n_used; i++) {
        struct price_bucket *b = &price->bucket[price->used[i]];
        if (b->age < STALE_STEPS) b->age++;
        if (b->age == STALE_STEPS && !price->never_doubts) {
            b->age = 0;
            b->count = 1;
            if (b->ns > below) b->ns = clamp(b->ns * stale, below, b->ns);
        }
        below = b->ns;
    }
}

// A price at another speed. One that is too far from its last measurement already does not get
// further.
static double scaled(double price, double ratio, double last) {
    const double low = last / furthest, high = last * furthest;
    return clamp(price * ratio, price < low ? price : low, price > high ? price : high);
}

// Several slow steps in a row are no accident, nor several fast ones: the machine's speed changed,
// in everything, by the least of their ratios.
static void notice_speed(struct price *price, double ratio) {
    const int way = ratio > speed_change ? 1 : ratio < 1 / speed_change ? -1 : 0;
    if (way == 0 || price->n_alike * way < 0) price->n_alike = 0;
    if (way == 0) return;
    if (price->n_alike == 0 || (ratio < price->alike_ratio) == (way > 0))
        price->alike_ratio = ratio;
    price->n_alike += way;
    if (price->n_alike * way < ALIKE_STEPS) return;
    for (int i = 0; i < price->n_used; i++) {
        struct price_bucket *b = &price->bucket[price->used[i]];
        b->ns = scaled(b->ns, price->alike_ratio, b->last_ns);
    }
    price->ns_per_byte = scaled(price->ns_per_byte, price->alike_ratio, price->last_per_byte);
    price->ns_per_flop = scaled(price->ns_per_flop, price->alike_ratio, price->last_per_flop);
    price->n_alike = 0;
}

static void learn_first(struct price *price, const struct batch_shape *shape, double ns) {
    const struct cost cost = cost_rates_apply(price->rates, shape);
    price->ns_per_byte = ns / (double)(cost.weight_bytes + cost.kv_read_bytes + 1);
    price->ns_per_flop = 2 * ns / (double)(cost.flops + 1); // attention is slower than products
    const double rest = ns - price_attention_ns(price, shape), rows = rows_of(price, shape);
    price->last_per_byte = price->ns_per_byte;
    price->last_per_flop = price->ns_per_flop;
    bucket_add(price, rows, rest > ns / 2 ? rest : ns / 2, 1);
    price->bucket[bucket_of(rows)].last_ns = ns;
}

// How much of rows_ns may be wrong: the part above the largest number of rows measured; less where
// much was measured.
static double rows_unsure(const struct price *price, const struct price_bucket *bucket, double rows,
                          double ns) {
    const struct price_point *top = &price->point[price->n_point - 1];
    const double unsure = rows > top->rows ? ns - top->ns : 0;
    const double least = 0.5 * ns / (bucket->count + 1);
    return unsure > least ? unsure : least;
}

void price_learn(struct price *price, const struct batch_shape *shape, uint64_t measured_ns) {
    if (shape->n_logits > 0) price_learn_all(price, shape, measured_ns);
}

void price_learn_all(struct price *price, const struct batch_shape *shape, uint64_t measured_ns) {
    if (measured_ns == 0) return;
    if (price->n_point == 0) {
        learn_first(price, shape, (double)measured_ns);
        read_table(price);
        return;
    }
    const double rows = rows_of(price, shape);
    if (shape->n_tokens > shape->n_logits) {
        price->recent_rows *= fading;
        if (price->recent_rows < rows) price->recent_rows = rows;
    }
    doubt_old(price);
    const struct attention a = attention_of(price->rates, shape);
    const struct price_bucket *bucket = &price->bucket[bucket_of(rows)];
    const double part[] = {rows_ns(price, rows), a.bytes * price->ns_per_byte,
                           a.flops * price->ns_per_flop};
    const double expected = part[0] + part[1] + part[2];
    const double ratio = (double)measured_ns / expected;
    const bool is_surprise = bucket->count > 0 && (ratio > slower || ratio < faster);
    const double ns = expected * clamp(ratio, 0, bucket->count > 0 ? slower : unknown);
    // The difference is divided by the squares of each part's uncertainty.
    const double unsure = rows_unsure(price, bucket, rows, part[0]);
    const double error =
        (ns - expected) / (unsure * unsure + part[1] * part[1] + part[2] * part[2]);
    if (!is_surprise) {
        price->ns_per_byte *= clamp(1 + correction * error * part[1], 0.5, 2);
        price->ns_per_flop *= clamp(1 + correction * error * part[2], 0.5, 2);
        if (part[1] > confirming * expected) price->last_per_byte = price->ns_per_byte;
        if (part[2] > confirming * expected) price->last_per_flop = price->ns_per_flop;
    }
    bucket_add(price, rows, clamp(part[0] + error * unsure * unsure, part[0] / 16, part[0] * 2),
               is_surprise ? ratio : 1);
    price->bucket[bucket_of(rows)].last_ns = ratio * part[0];
    notice_speed(price, ratio);
    read_table(price);
}

// ---------------------------------------------------------------- before the first request

rn_status price_calibrate(struct price *price, price_run_fn run, void *ctx, int most,
                          uint64_t budget_ns, rn_error *err) {
    static const int rows[] = {4, 1, 8, 64, 2, 16, 3, 6, 12, 5, 24, 32};
    enum { N = sizeof rows / sizeof *rows };
    struct batch_shape shape[N];
    // A few rows first: real steps soon tell the time of one, but would not try a high price. The
    // first run warms up. Of a large model it is the only one, because the first request waits.
    const int first = rows[0] > most ? 1 : 0;
    uint64_t best[N] = {0}, ns = 0, spent = 0;
    rn_status status = run(ctx, rows[first], &shape[first], &ns, err);
    spent += ns;
    if (!status && ns > budget_ns) best[first] = ns;
    for (int i = 0; i < CALIBRATE_PASSES * N && !status; i++) {
        const int at = i % N;
        if (spent > budget_ns) break;
        if (rows[at] > most) continue;
        status = run(ctx, rows[at], &shape[at], &ns, err);
        spent += ns;
        if (ns > 0 && (best[at] == 0 || ns < best[at])) best[at] = ns;
    }
    for (int n = 1; n <= most; n++) // from the smallest on; again, because a surprise weighs less
        for (int i = 0; i < 2 * N; i++)
            if (rows[i % N] == n && best[i % N] > 0) price_learn(price, &shape[i % N], best[i % N]);
    return status;
}

// ---------------------------------------------------------------- prompts

static bool fits(const struct price *price, const struct plan *plan, const struct batch_shape *base,
                 int first_pos, int n_tokens, uint64_t bound_ns) {
    struct batch_shape shape = *base;
    batch_shape_add(plan, &shape, first_pos, n_tokens, 1);
    return price_of(price, &shape) <= bound_ns;
}

int price_chunk(const struct price *price, const struct plan *plan, const struct batch_shape *base,
                int first_pos, int wanted, uint64_t bound_ns) {
    assert(wanted > 0);
    int low = wanted < PRICE_MIN_CHUNK ? wanted : PRICE_MIN_CHUNK, high = wanted + 1;
    if (price->n_point == 0) return low;
    // Deep in a prompt the errors of rows and attention can cancel. At the start of the next one
    // they do not, so the chunk grows in a few steps.
    const double most = growth * price->recent_rows - (double)base->n_tokens;
    if (price->recent_rows > 0 && most < wanted) high = most > low ? (int)most + 1 : low + 1;
    if (!fits(price, plan, base, first_pos, low, bound_ns)) {
        if (price_of(price, base) > bound_ns) return low; // nothing would keep it
        high = low;
        low = 1;
    }
    while (high - low > 1) { // low is allowed, high is too much
        const int middle = low + (high - low) / 2;
        if (fits(price, plan, base, first_pos, middle, bound_ns))
            low = middle;
        else
            high = middle;
    }
    return low;
}
