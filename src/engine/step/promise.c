// See promise.h. The forecast plays the schedule's rules (admit.c, schedule.c) over a copy of their
// numbers: admission in turn, a token for every stream, the rest of a step for prompts. Where only
// streams run, as many steps are taken at once as leave their number the same.
#include "engine/step/promise.h"

#include <stdio.h>
#include <stdlib.h>

// That a step spends on the forecasts of requests that have just arrived, but for one of them. Of a
// burst the others wait for the next step, and are not admitted before.
enum { CHECK_NS = 1000000 };

// Prices are averages: the schedule keeps a promise with some room.
static const double room = 0.95;

// The bound of a step, or the tighter one that the stream allows.
static uint64_t tighter(uint64_t bound, const struct seq *seq) {
    if (!seq->bound || seq->bound->token_ns == UINT64_MAX) return bound;
    const uint64_t most = (uint64_t)(room * (double)seq->bound->token_ns);
    return most < bound ? most : bound;
}

// Rule 3: the time that its first token has at that time; UINT64_MAX: any.
static uint64_t slack_of(const struct seq *seq, uint64_t now) {
    const struct seq_bound *bound = seq->bound;
    if (!bound || bound->first_ns == UINT64_MAX || seq->account.sum.first_ns) return UINT64_MAX;
    const uint64_t by = seq->account.sum.submit_ns + bound->first_ns;
    return by > now ? (uint64_t)(room * (double)(by - now)) : UINT64_MAX;
}

// ---------------------------------------------------------------- expectations

// Tokens that it will still write. The mean of earlier texts is known where they end by themselves.
static int expected_left(const struct engine *engine, const struct seq *seq) {
    const int most = seq->limit - seq->n_token;
    const double usual = engine->usual_output - (seq->n_token - seq->n_prompt);
    if (seq->ignore_eos || engine->usual_output <= 0 || usual >= most) return most;
    return usual < 1 ? 1 : (int)usual;
}

// The time of decode with drafts over that without.
static double draft_factor(const struct engine *engine) {
    const rn_engine_stats *stats = &engine->stats;
    if (!engine->draft || !stats->undrafted_ns || stats->stream_ns >= stats->undrafted_ns) return 1;
    return (double)stats->stream_ns / (double)stats->undrafted_ns;
}

// ---------------------------------------------------------------- the play

// A running sequence.
struct player {
    const struct seq *seq;
    int pos;    // evaluated positions
    int prompt; // positions to evaluate before its next token
    int left;   // tokens to write after that
    struct kv_amount need;
};

struct play {
    const struct engine *engine;
    const struct seq *own; // whose times are asked for
    bool has_first, has_ended;
    struct player *player; // [n] in turn
    int n;
    struct seq **waiting; // [n_waiting] their turns, see engine_turns_init
    int n_waiting;
    struct player next; // the first of them, once has_next
    bool has_next;
    struct kv_amount held, most;
    double ns; // since its submit
    double factor;
};

static uint64_t play_now(const struct play *play) {
    return play->own->account.sum.submit_ns + (uint64_t)play->ns;
}

static struct player player_of(const struct engine *engine, const struct seq *seq, bool runs) {
    struct player p = {.seq = seq, .left = expected_left(engine, seq)};
    p.pos = runs ? seq_next(seq)
                 : kv_peek(engine->kv, seq->token, seq->n_token, seq->salt, seq->n_salt);
    p.prompt = seq_known(seq) - p.pos;
    const int n = seq->n_token + 1, rest = n > p.pos ? n - p.pos : 1;
    p.need = kv_need_amount(&engine->kv_config, n,
                            rest < engine->batch_tokens ? rest : engine->batch_tokens);
    if (runs && seq_is_stream(seq)) p.prompt = 0;
    return p;
}

static void play_insert(struct play *play, const struct player *player) {
    int at = play->n++;
    for (; at > 0 && engine_goes_first(play->engine, player->seq, play->player[at - 1].seq); at--)
        play->player[at] = play->player[at - 1];
    play->player[at] = *player;
}

// A running sequence holds a part of what it needs. The rest of a prompt is promised to it.
static void play_hold(struct play *play, const struct player *player) {
    const struct kv_amount has = kv_table_amount(&play->engine->kv_config, &player->seq->table);
    kv_amount_add(&play->held, &player->need);
    kv_amount_take(&play->held, &has);
}

// Running sequences, and waiting ones that go before this one, which is the last of them. Returns
// the number of sequences that go before it.
static int play_begin(struct play *play, const struct engine *engine, struct seq *seq) {
    int n_before = 0;
    *play = (struct play){.engine = engine,
                          .own = seq,
                          .player = engine->players,
                          .waiting = engine->players_waiting,
                          .factor = draft_factor(engine)};
    kv_get_amounts(engine->kv, &play->held, &play->most);
    for (int i = 0; i < engine->n_running; i++) {
        if (engine->running[i]->is_paused) continue;
        const struct player player = player_of(engine, engine->running[i], true);
        play_insert(play, &player);
        play_hold(play, &player);
        n_before += engine_goes_first(engine, player.seq, seq);
    }
    for (int i = 0; i < engine->n_waiting; i++) {
        const struct waiter *waiter = &engine->waiting[i];
        if (waiter->seq == seq || waiter->is_paused) continue;
        if (engine_goes_first(engine, waiter->seq, seq))
            play->waiting[play->n_waiting++] = waiter->seq;
    }
    n_before += play->n_waiting;
    play->waiting[play->n_waiting++] = seq;
    engine_turns_init(engine, play->waiting, play->n_waiting);
    return n_before;
}

// Rule 2, over the players.
static bool allows(const struct play *play, const struct player *more) {
    const struct engine *engine = play->engine;
    struct batch_shape shape = {0};
    uint64_t bound = UINT64_MAX;
    for (int i = 0; i < play->n; i++) {
        const struct player *p = &play->player[i];
        batch_shape_add(engine->plan, &shape, p->pos + p->prompt, 1, 1);
        if (p->seq->bound && p->seq->bound->token_ns < bound) bound = p->seq->bound->token_ns;
    }
    if (bound == UINT64_MAX) return true;
    batch_shape_add(engine->plan, &shape, more->pos + more->prompt, 1, 1);
    return price_of_exact(&engine->price, &shape) <= room * (double)bound;
}

static bool has_room(const struct play *play, const struct player *more) {
    struct kv_amount sum = play->held;
    kv_amount_add(&sum, &more->need);
    return kv_amount_fits(&sum, &play->most);
}

// In turn. A waiting sequence is looked at closely when it is the next one.
static void play_admit(struct play *play) {
    const struct engine *engine = play->engine;
    while (play->n_waiting > 0 && play->n < engine->max_seqs) {
        const struct player *next = &play->next;
        if (!play->has_next) play->next = player_of(engine, play->waiting[0], false);
        play->has_next = true;
        if (play->n > 0 && (!has_room(play, next) || !allows(play, next))) return;
        play->has_next = false;
        engine_turns_pop(engine, play->waiting, play->n_waiting--);
        play_insert(play, next);
        kv_amount_add(&play->held, &next->need);
    }
}

static void play_remove(struct play *play, int at) {
    play->has_ended |= play->player[at].seq == play->own;
    kv_amount_take(&play->held, &play->player[at].need);
    play->n--;
    for (int i = at; i < play->n; i++) play->player[i] = play->player[i + 1];
}

// The streams' rows of a step, k steps from now. Returns their number.
static int streams_shape(const struct play *play, int k, struct batch_shape *shape) {
    int n = 0;
    *shape = (struct batch_shape){0};
    for (int i = 0; i < play->n; i++) {
        const struct player *p = &play->player[i];
        if (p->prompt > 0) continue;
        batch_shape_add(play->engine->plan, shape, p->pos + k, 1, 1);
        n++;
    }
    return n;
}

// Rule 1, over the players.
static uint64_t play_bound(const struct play *play) {
    uint64_t bound = UINT64_MAX;
    for (int i = 0; i < play->n; i++) {
        const struct player *p = &play->player[i];
        if (p->prompt > 0) continue;
        if (play->engine->itl_ns < bound) bound = play->engine->itl_ns;
        bound = tighter(bound, p->seq);
    }
    return bound;
}

// The chunk of each prompt in this step goes to chunk[], by player. Returns how many have one.
static int prompts_shape(const struct play *play, int n_streams, struct batch_shape *shape,
                         int *chunk) {
    const struct engine *engine = play->engine;
    uint64_t bound = play_bound(play);
    int tokens = engine->batch_tokens - n_streams, n = 0;
    for (int i = 0; i < play->n; i++) chunk[i] = 0;
    for (int i = 0; i < play->n; i++) {
        const struct player *p = &play->player[i];
        if (p->prompt == 0 || tokens <= 0) continue;
        int take = p->prompt < tokens ? p->prompt : tokens;
        if (bound != UINT64_MAX)
            take = price_chunk(&engine->price, engine->plan, shape, p->pos, take, bound);
        if (n > 0 && bound != UINT64_MAX && take <= PRICE_MIN_CHUNK) continue;
        batch_shape_add(engine->plan, shape, p->pos, take, take == p->prompt);
        const uint64_t slack = slack_of(p->seq, play_now(play));
        if (slack < bound) bound = slack;
        chunk[i] = take;
        tokens -= take;
        n++;
    }
    return n;
}

// Streams alone: as many steps as leave all of them running.
static void play_streams(struct play *play) {
    int k = INT_MAX;
    bool has_prompts = false;
    for (int i = 0; i < play->n; i++) {
        const struct player *p = &play->player[i];
        has_prompts |= p->prompt > 0;
        if (p->prompt == 0 && p->left < k) k = p->left;
    }
    if (k < 1 || has_prompts) k = 1;
    struct batch_shape shape;
    streams_shape(play, k / 2, &shape);
    play->ns += play->factor * k * price_of_exact(&play->engine->price, &shape);
    for (int i = play->n - 1; i >= 0; i--) {
        struct player *p = &play->player[i];
        if (p->prompt > 0) continue;
        p->pos += k;
        p->left -= k;
        if (p->left <= 0) play_remove(play, i);
    }
}

static void play_step(struct play *play) {
    struct batch_shape shape;
    int *const chunk = play->engine->player_chunk;
    const int n_streams = streams_shape(play, 0, &shape);
    if (prompts_shape(play, n_streams, &shape, chunk) == 0) {
        play_streams(play);
        return;
    }
    play->ns += price_of_exact(&play->engine->price, &shape);
    for (int i = play->n - 1; i >= 0; i--) {
        struct player *p = &play->player[i];
        if (p->prompt > 0 && chunk[i] == 0) continue;
        const int n = p->prompt > 0 ? chunk[i] : 1;
        p->pos += n;
        p->prompt = p->prompt > 0 ? p->prompt - n : 0;
        if (p->prompt > 0) continue;
        p->left--;
        play->has_first |= p->seq == play->own;
        if (p->left <= 0) play_remove(play, i);
    }
}

void engine_forecast(const struct engine *engine, struct seq *seq, uint64_t now, double first_ns,
                     double token_ns, struct forecast *out) {
    struct play play;
    const int n_before = play_begin(&play, engine, seq);
    const struct player own = player_of(engine, seq, false);
    const int n_more = own.left - 1; // tokens behind the first
    *out = (struct forecast){.n_before = n_before, .n_prompt = own.prompt};
    play.ns = (double)(now - seq->account.sum.submit_ns);
    if (engine->n_flight > 0) // it lands first
        play.ns += price_of_exact(&engine->price, &engine->flight[engine->first_flight].shape);
    while (!play.has_first && play.ns <= first_ns) {
        play_admit(&play);
        play_step(&play);
    }
    struct batch_shape shape;
    out->first_ns = play.ns;
    out->n_streams = streams_shape(&play, 0, &shape);
    if (!play.has_first || n_more <= 0) return;
    const double most_ns = out->first_ns + token_ns * n_more;
    while (!play.has_ended && play.ns <= most_ns) {
        play_admit(&play);
        play_step(&play);
    }
    // up to here; more where it stopped early
    out->token_ns = (play.ns - out->first_ns) / n_more;
}

// ---------------------------------------------------------------- the rules

uint64_t engine_step_bound(const struct engine *engine) {
    uint64_t bound = engine->itl_ns;
    if (engine->n_bounded == 0) return bound;
    for (int i = 0; i < engine->n_running; i++) {
        const struct seq *seq = engine->running[i];
        if (!seq->is_paused && seq_is_stream(seq)) bound = tighter(bound, seq);
    }
    return bound;
}

bool engine_keeps_promises(const struct engine *engine, const struct seq *seq) {
    if (engine->n_bounded == 0 || engine->price.n_point == 0) return true;
    struct batch_shape shape = {0};
    uint64_t bound = UINT64_MAX;
    for (int i = 0; i < engine->n_running; i++) {
        const struct seq *other = engine->running[i];
        if (other->is_paused) continue;
        batch_shape_add(engine->plan, &shape, seq_known(other) - 1, 1, 1);
        if (other->bound && other->bound->token_ns < bound) bound = other->bound->token_ns;
    }
    if (bound == UINT64_MAX) return true;
    batch_shape_add(engine->plan, &shape, seq_known(seq) - 1, 1, 1);
    return price_of_exact(&engine->price, &shape) <= room * (double)bound;
}

uint64_t engine_prompt_bound(const struct engine *engine, const struct seq *seq) {
    return slack_of(seq, engine->event_ns);
}

// ---------------------------------------------------------------- arrivals

// Why it is refused; false: it is not.
static bool is_refused(const struct engine *engine, struct seq *seq, uint64_t now) {
    struct seq_bound *const bound = seq->bound;
    const double first_ns = (double)bound->first_ns, token_ns = (double)bound->token_ns;
    const double forever = 1e18;
    struct forecast at;
    engine_forecast(engine, seq, now, bound->first_ns == UINT64_MAX ? forever : first_ns,
                    bound->token_ns == UINT64_MAX ? 0 : token_ns, &at);
    if (bound->first_ns != UINT64_MAX && at.first_ns > first_ns) {
        snprintf(bound->reason, sizeof bound->reason,
                 "The first token is expected after at least %.1f ms, not within %g ms: %d "
                 "sequence%s before it, and %d tokens of its prompt are to be evaluated",
                 at.first_ns * 1e-6, (double)bound->first_ns * 1e-6, at.n_before,
                 at.n_before == 1 ? " goes" : "s go", at.n_prompt);
        return true;
    }
    if (bound->token_ns == UINT64_MAX || at.token_ns <= token_ns) return false;
    snprintf(bound->reason, sizeof bound->reason,
             "A token is expected every %.2f ms at best, not every %g ms: %d stream%s a step",
             at.token_ns * 1e-6, (double)bound->token_ns * 1e-6, at.n_streams,
             at.n_streams == 1 ? " has" : "s share");
    return true;
}

static struct waiter *oldest_unchecked(struct engine *engine) {
    struct waiter *first = NULL;
    for (int i = 0; i < engine->n_waiting; i++) {
        struct waiter *waiter = &engine->waiting[i];
        if (waiter->is_unchecked && (!first || waiter->turn.id < first->turn.id)) first = waiter;
    }
    return first;
}

void engine_check_bounds(struct engine *engine, uint64_t now) {
    if (!engine->has_unchecked) return;
    // the oldest first: its promise holds when the next one is looked at
    for (uint64_t at = now; at - now < CHECK_NS; at = engine_now(engine)) {
        struct waiter *const first = oldest_unchecked(engine);
        engine->has_unchecked = first != NULL;
        if (!first) return;
        struct seq *const seq = first->seq;
        first->is_unchecked = false;
        seq->bound->is_checked = true;
        engine_changed(engine, CHANGE_WAITING);
        if (engine->price.n_point > 0 && is_refused(engine, seq, now))
            engine_refuse(engine, seq, RN_FINISH_ERROR, RN_ERR_BOUND, seq->bound->reason);
    }
}

void engine_bound_enter(struct engine *engine, const struct seq *seq) {
    if (!seq->bound) return;
    engine->n_bounded++;
    engine->has_unchecked = true;
}

void engine_bound_leave(struct engine *engine, const struct seq *seq, rn_finish finish) {
    const double follow = 1.0 / 16;
    const double n = seq->n_token - seq->n_prompt;
    if (seq->bound) engine->n_bounded--;
    if (finish != RN_FINISH_STOP) return;
    if (engine->usual_output <= 0) engine->usual_output = n;
    engine->usual_output += follow * (n - engine->usual_output);
}

rn_status engine_promises_init(struct engine *engine, rn_error *err) {
    const size_t n = (size_t)engine->max_live, seqs = (size_t)engine->max_seqs;
    engine->players = calloc(seqs, sizeof *engine->players);
    engine->player_chunk = calloc(seqs, sizeof *engine->player_chunk);
    engine->players_waiting = calloc(n, sizeof(struct seq *));
    if (engine->players && engine->player_chunk && engine->players_waiting) return RN_OK;
    return err_set(err, RN_ERR_NOMEM, "no memory for the forecasts of %zu sequences", n);
}

void engine_promises_deinit(struct engine *engine) {
    free(engine->players);
    free(engine->player_chunk);
    free(engine->players_waiting);
}
