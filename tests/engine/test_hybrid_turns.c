// Conversations with hybrid models while drafts are on: a turn evaluates its new tokens and little
// more, and its text is that of a new engine without cached prefixes and drafts. A draft may be
// refused at any place: no step is lost. Choices part inside of a block.
// label: no-address
#include "bare_engine.h"
#include "mix_toys.h"
#include "mtp_model.h"
#include "streams.h"

enum { PAGE = 32, TURNS = 20, LONGEST = 1024 };

// The models: the delta rule with a block that drafts, in two forms, Mamba-2 with attention, and
// Mamba-2 alone.
enum { DELTA, NEAR, MIXED, SCANS, N_MODELS };
static const char *const names[N_MODELS] = {"delta", "delta, near", "nemotron_h", "mamba2"};
static struct mtp_file files[2];
static rn_model *models[N_MODELS];

// Time that passes by the look: calibrations are short, and choices the same in every run.
static uint64_t now_ns;

static uint64_t next_now(void *ctx) {
    (void)ctx;
    return now_ns += 20000 + now_ns / 7 % 5000;
}

static int open_models(void **state) {
    (void)state;
    bare_clock = (struct engine_clock){next_now, NULL};
    for (int i = 0; i < 2; i++) {
        files[i] = mtp_file_make(i == DELTA ? MTP_RANDOM : MTP_NEAR);
        models[i] = bare_open(files[i].path);
    }
    models[MIXED] = bare_open(TEST_DATA "/golden/nemotron_h/model.gguf");
    models[SCANS] = bare_open(TEST_DATA "/golden/mamba2/model.gguf");
    return 0;
}

static int close_models(void **state) {
    (void)state;
    bare_clock = (struct engine_clock){0};
    for (int i = 0; i < N_MODELS; i++) rn_model_close(models[i]);
    for (int i = 0; i < 2; i++) mtp_file_remove(&files[i]);
    return 0;
}

static bool has_block(int m) { return m == DELTA || m == NEAR; }

static int context_of(int m) { return has_block(m) ? 512 : LONGEST; }

static int32_t some_token(int seed, int i) { return (seed * 131 + i * 29 + i * i * 7 + 3) % 500; }

// ---------------------------------------------------------------- conversations

// How engines of conversations draft: by themselves, with forced lengths, and now and then right.
static const struct {
    const char *name, *speculate;
    int right, draft_min, draft_max; // right: percent of the custom drafter's tokens
} ways[] = {
    {"auto", NULL, 0, 0, 0},
    {"mtp, 3", "mtp", 0, 3, 3},
    {"80%, 5", "custom", 80, 5, 5},
    {"60%, 31", "custom", 60, 31, 31},
};
enum { N_WAYS = sizeof ways / sizeof *ways };

static bool has_way(int m, int way) {
    return has_block(m) || !ways[way].speculate || strcmp(ways[way].speculate, "mtp") != 0;
}

static struct toy_truth truth_of(void *data, int choice) {
    (void)choice;
    return *(const struct toy_truth *)data;
}

// A conversation: an engine that knows it, and its text so far.
struct talk {
    int m;
    rn_engine *engine;
    struct toy_drafter toy;
    int32_t text[LONGEST];
    int n_text;
    int n_done;       // of the text: the last prompt and answer but for its last token
    int n_prompt;     // the last one
    int kept;         // positions that have a state, which no turn continued
    uint64_t drafted; // tokens
};

// The place before the end of a prompt that leaves a state, unless the prompt began behind it.
static int keep_place(int n_prompt) { return n_prompt < 8 ? 0 : (n_prompt - 8) / PAGE * PAGE; }

static void talk_begin(struct talk *talk, int m, int way, uint64_t kv_bytes) {
    *talk = (struct talk){.m = m};
    talk->toy = (struct toy_drafter){.truth = truth_of,
                                     .right = ways[way].right,
                                     .n_vocab = models[m]->info.n_vocab,
                                     .random = (uint64_t)way};
    const rn_engine_options options = {.max_seqs = 3,
                                       .n_ctx = context_of(m),
                                       .kv_bytes = kv_bytes,
                                       .speculate = ways[way].speculate,
                                       .draft_fn = ways[way].right ? toy_draft : NULL,
                                       .draft_ctx = &talk->toy,
                                       .draft_min = ways[way].draft_min,
                                       .draft_max = ways[way].draft_max};
    talk->engine = streams_engine(models[m], &options);
}

static void talk_add(struct talk *talk, int seed, int n) {
    assert_true(talk->n_text + n < LONGEST);
    for (int i = 0; i < n; i++) talk->text[talk->n_text++] = some_token(seed, i);
}

// One turn: its answer, as from a new engine. Returns the tokens of the prompt that were found.
static int talk_turn(struct talk *talk, int turn, int max_tokens, struct stream *answer) {
    static struct stream want;
    rn_request request = {.prompt = talk->text,
                          .n_prompt = (size_t)talk->n_text,
                          .max_tokens = max_tokens,
                          .ignore_eos = true};
    if (turn % 2)
        request.sampling =
            (rn_sampling){.temperature = 0.8f, .seed = (uint64_t)turn, .has_seed = true};
    rn_engine *fresh =
        streams_engine(models[talk->m], &(rn_engine_options){.no_prefix_cache = true,
                                                             .speculate = "off",
                                                             .n_ctx = LONGEST / 2,
                                                             .kv_pages = LONGEST / PAGE});
    streams_run(fresh, &request, &want);
    rn_engine_destroy(fresh);
    struct toy_truth truth = {talk->text, want.ids, talk->n_text, want.n_ids};
    request.data = &truth;
    streams_run(talk->engine, &request, answer);
    streams_check_same(&want, answer);
    assert_int_equal(answer->n_ids, max_tokens);
    talk->drafted += (uint64_t)answer->timings.draft_tokens;
    talk->n_prompt = talk->n_text;
    talk->n_done = talk->n_text + answer->n_ids - 1;
    const int found = answer->timings.cached_tokens;
    if (found < keep_place(talk->n_prompt)) talk->kept = keep_place(talk->n_prompt);
    return found;
}

static void talk_end(struct talk *talk, int way) {
    streams_check_empty(talk->engine);
    check(talk->drafted > 0 || !ways[way].draft_min, "%s, %s: nothing was drafted", names[talk->m],
          ways[way].name);
    rn_engine_destroy(talk->engine);
}

// The text goes on: the state of its end is there. A draft that was refused last is less than a
// block.
static void check_continues(int m, int way) {
    static struct stream answer;
    struct talk talk;
    talk_begin(&talk, m, way, 0);
    talk_add(&talk, m, 40);
    for (int turn = 1; turn <= TURNS; turn++) {
        const int n_known = talk.n_done;
        const uint64_t before = streams_stats(talk.engine).computed_tokens;
        const int found = talk_turn(&talk, turn, 2 + turn * 5 % 17, &answer);
        check(turn == 1 ? found == 0 : found <= n_known && found > n_known - PAGE,
              "%s, %s, turn %d: %d of %d found", names[m], ways[way].name, turn, found, n_known);
        const uint64_t evaluated = streams_stats(talk.engine).computed_tokens - before;
        if (answer.timings.draft_tokens == 0) assert_int_equal(evaluated, talk.n_done - found);
        for (int i = 0; i < answer.n_ids; i++) talk.text[talk.n_text++] = answer.ids[i];
        talk_add(&talk, turn * 7 + m, 1 + turn % 9);
    }
    talk_end(&talk, way);
}

CASE(a_turn_that_continues_evaluates_its_new_tokens) {
    for (int m = 0; m < N_MODELS; m++)
        for (int way = 0; way < N_WAYS; way++)
            if (has_way(m, way)) check_continues(m, way);
}

// The answer stays out of the history, and a shorter one is there instead: the state before the end
// of the last prompt is found. Now and then the text goes on; such a turn begins with the state of
// its end, and leaves none before it.
static void check_without_reasoning(int m, int way) {
    static struct stream answer;
    struct talk talk;
    int n_continued = 0;
    talk_begin(&talk, m, way, 0);
    talk_add(&talk, m, 50);
    for (int turn = 1; turn <= TURNS; turn++) {
        const int least = talk.kept, n_known = n_continued ? talk.n_done : talk.n_prompt;
        const int found = talk_turn(&talk, turn, 10 + turn * 3 % 40, &answer);
        check(found >= least && found <= n_known, "%s, %s, turn %d: %d of %d found, at least %d",
              names[m], ways[way].name, turn, found, n_known, least);
        check(!n_continued || found > n_known - PAGE, "%s, %s, turn %d: %d of %d found", names[m],
              ways[way].name, turn, found, n_known);
        n_continued = turn % 4 == 0 ? answer.n_ids : 0;
        for (int i = 0; i < n_continued; i++) talk.text[talk.n_text++] = answer.ids[i];
        if (!n_continued) talk.text[talk.n_text++] = (answer.ids[0] + 1) % 500;
        talk_add(&talk, turn * 11 + m, 4 + turn % 9);
    }
    talk_end(&talk, way);
}

CASE(a_turn_without_the_last_answer_evaluates_what_follows_the_last_prompt) {
    for (int m = 0; m < N_MODELS; m++)
        for (int way = 0; way < N_WAYS; way++)
            if (has_way(m, way)) check_without_reasoning(m, way);
}

// Bytes that a lone sequence of so many positions needs.
static uint64_t lone_bytes(int m, int n_positions) {
    rn_memory_plan plan;
    rn_error err = {0};
    check(rn_engine_plan_memory(models[m], &(rn_engine_options){.n_ctx = n_positions}, &plan,
                                &err) == RN_OK,
          "%s", err.message);
    return plan.kv_context_bytes;
}

// Others run beside the turn, and before the next one. Their states are newer, and cost less.
static void check_pressed(int m, int way, int n_states) {
    static struct stream answer, other[3];
    static int32_t prompt[3][70];
    struct talk talk;
    int n_found = 0;
    talk_begin(&talk, m, way,
               lone_bytes(m, context_of(m)) + (uint64_t)n_states * lone_bytes(m, PAGE));
    talk_add(&talk, m, 40);
    for (int turn = 1; turn <= TURNS; turn++) {
        const int n_known = talk.n_done;
        const int found = talk_turn(&talk, turn, 2 + turn * 5 % 17, &answer);
        check(found <= n_known, "%s, %s, turn %d: %d of %d found", names[m], ways[way].name, turn,
              found, n_known);
        n_found += turn > 1 && found > n_known - PAGE;
        for (int i = 0; i < answer.n_ids; i++) talk.text[talk.n_text++] = answer.ids[i];
        talk_add(&talk, turn * 7 + m, 1 + turn % 9);
        struct toy_truth truth[3];
        for (int i = 0; i < 3; i++) {
            for (int t = 0; t < 70; t++) prompt[i][t] = some_token(turn * 3 + i + 1000, t);
            truth[i] = (struct toy_truth){prompt[i], prompt[i], 70, 0};
            const rn_request request = {.prompt = prompt[i],
                                        .n_prompt = 70,
                                        .max_tokens = 12,
                                        .data = &truth[i],
                                        .ignore_eos = true};
            streams_submit(talk.engine, &request, &other[i]);
        }
        streams_drain(talk.engine, other, 3);
    }
    const rn_engine_stats s = streams_stats(talk.engine);
    check(n_states == 0 || n_found > TURNS * 3 / 4, "%s, %s: %d turns found their text", names[m],
          ways[way].name, n_found);
    check(s.evictions + s.state_evictions > 0, "%s, %s, %d states: no eviction", names[m],
          ways[way].name, n_states);
    talk_end(&talk, way);
}

CASE(a_conversation_among_others_keeps_its_text) {
    for (int m = 0; m < N_MODELS; m++)
        for (int way = 0; way < N_WAYS; way++)
            if (has_way(m, way)) check_pressed(m, way, (m + way) % 3 == 0 ? 0 : 10);
}

// A stop string inside of a draft that was right: the state went past the text's end, so the next
// turn begins at the last state that was kept.
static void check_stops(int m) {
    static struct stream want, got;
    static int32_t text[LONGEST];
    struct toy_drafter toy = {truth_of, 100, models[m]->info.n_vocab, 1, 0, 0};
    const rn_engine_options plain = {.no_prefix_cache = true,
                                     .speculate = "off",
                                     .n_ctx = LONGEST / 2,
                                     .kv_pages = LONGEST / PAGE};
    const rn_engine_options drafts = {.speculate = "custom",
                                      .n_ctx = LONGEST / 2,
                                      .kv_pages = LONGEST / PAGE,
                                      .draft_fn = toy_draft,
                                      .draft_ctx = &toy,
                                      .draft_min = 8,
                                      .draft_max = 8};
    rn_engine *without = streams_engine(models[m], &plain);
    rn_engine *with = streams_engine(models[m], &drafts);
    int n_text = 0, kept = 0, n_stopped = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < 12; i++) text[n_text++] = some_token(turn + 50 * m, i);
        rn_request request = {.prompt = text,
                              .n_prompt = (size_t)n_text,
                              .max_tokens = 30,
                              .ignore_eos = true};
        streams_run(without, &request, &want);
        static struct stream whole;
        whole = want;
        struct toy_truth truth = {text, whole.ids, n_text, whole.n_ids};
        char stop[2] = "";
        for (size_t i = 3; i < want.n_text && !stop[0]; i++)
            if (want.text[i] > ' ') stop[0] = want.text[i];
        const char *const stops[] = {stop};
        request.stop = stops;
        request.n_stop = stop[0] != 0;
        streams_run(without, &request, &want);
        request.data = &truth;
        streams_run(with, &request, &got);
        streams_check_same(&want, &got);
        n_stopped += got.finish == RN_FINISH_STOP;
        const int found = got.timings.cached_tokens;
        check(found >= kept, "%s, turn %d: %d of %d found", names[m], turn, found, kept);
        if (found < keep_place(n_text)) kept = keep_place(n_text);
        for (int i = 0; i < got.n_ids; i++) text[n_text++] = got.ids[i];
    }
    check(n_stopped > TURNS / 2, "%s: %d stops", names[m], n_stopped);
    rn_engine_destroy(without);
    rn_engine_destroy(with);
}

CASE(a_turn_after_a_stop_inside_of_a_draft_keeps_its_text) {
    for (int m = 0; m < N_MODELS; m++) check_stops(m);
}

// ---------------------------------------------------------------- refused drafts

// The coming tokens of a request, and the place of a wrong one in each draft.
struct wrong_at {
    const int32_t *ids;
    int n_prompt, n_ids, length, place;
};

static int draft_wrong(void *ctx, void *data, int choice, const int32_t *token, int n_token,
                       int32_t *out, int most) {
    const struct wrong_at *wrong = data;
    const int at = n_token - wrong->n_prompt, n = most < wrong->length ? most : wrong->length;
    (void)ctx, (void)choice, (void)token;
    for (int i = 0; i < n; i++) {
        const int32_t right = at + i < wrong->n_ids ? wrong->ids[at + i] : 0;
        out[i] = i == wrong->place ? (right + 1) % MTP_VOCAB : right;
    }
    return n;
}

// The steps of a text, if a refusal costs none. It leaves tokens to evaluate again beside the next
// ones, less than a block with the draft: the accepted ones, and those before where the snapshot is
// not in their block.
static int steps_of(int n_prompt, int n_ids, int length, int place, int *n_refused) {
    int steps = 1, done = 1, again = 0; // the prompt's step chooses the first
    while (done < n_ids) {
        int n = length < n_ids - done - 1 ? length : n_ids - done - 1;
        if (n > PAGE - 1 - again) n = PAGE - 1 - again;
        const bool is_refused = place < n;
        *n_refused += is_refused;
        const int before = done;
        done += 1 + (is_refused ? place : n);
        const int mark = n_prompt + before - 1 - again, next = mark + 1 + again;
        const bool has_snapshot = n > 0 && mark / PAGE == next / PAGE;
        again = !is_refused ? 0 : has_snapshot ? place : again + 1 + place;
        steps++;
    }
    return steps;
}

enum { REFUSED_IDS = 70, REFUSED_STREAMS = 3 };

static int run_refused(rn_engine *engine, const rn_request *request, int n, struct stream *out) {
    const uint64_t before = streams_stats(engine).steps;
    for (int i = 0; i < n; i++) streams_submit(engine, &request[i], &out[i]);
    streams_drain(engine, out, n);
    return (int)(streams_stats(engine).steps - before);
}

// Streams at once; each has a prompt of its own, and all are wrong at the same place.
static void check_refused(int m, rn_engine *const engine[2], int n_prompt, int length, int place,
                          int n_streams) {
    static int32_t prompt[REFUSED_STREAMS][64];
    static struct stream want[REFUSED_STREAMS], got[REFUSED_STREAMS];
    rn_request request[REFUSED_STREAMS] = {0};
    struct wrong_at wrong[REFUSED_STREAMS];
    for (int s = 0; s < n_streams; s++) {
        for (int i = 0; i < n_prompt; i++) prompt[s][i] = some_token(n_prompt + m + 9 * s, i);
        request[s] = (rn_request){.prompt = prompt[s],
                                  .n_prompt = (size_t)n_prompt,
                                  .max_tokens = REFUSED_IDS,
                                  .ignore_eos = true};
        if ((place + s) % 2)
            request[s].sampling = (rn_sampling){.temperature = 1, .seed = 3, .has_seed = true};
    }
    const int n_plain = run_refused(engine[0], request, n_streams, want);
    for (int s = 0; s < n_streams; s++) {
        wrong[s] = (struct wrong_at){want[s].ids, n_prompt, want[s].n_ids, length, place};
        request[s].data = &wrong[s];
    }
    const int n_steps = run_refused(engine[1], request, n_streams, got);
    for (int s = 0; s < n_streams; s++) streams_check_same(&want[s], &got[s]);
    int n_refused = 0;
    const int expected = steps_of(n_prompt, REFUSED_IDS, length, place, &n_refused);
    assert_int_equal(n_plain, REFUSED_IDS);
    assert_true(n_refused > 0 || place >= length);
    check(n_steps == expected && n_steps <= n_plain,
          "%s, prompt of %d, drafts of %d, wrong at %d: %d steps, %d expected", names[m], n_prompt,
          length, place, n_steps, expected);
}

CASE(a_refused_draft_costs_no_step_wherever_it_is_wrong) {
    static const int lengths[] = {1, 2, 3, 4, 5, 8, 15, 16, 30, 31};
    for (int m = 0; m < N_MODELS; m++) {
        rn_engine_options options = {.speculate = "off",
                                     .max_seqs = REFUSED_STREAMS,
                                     .logit_rows = 128,
                                     .n_ctx = 128,
                                     .kv_pages = 32,
                                     .no_prefix_cache = true};
        rn_engine *engine[2] = {streams_engine(models[m], &options)};
        options.no_prefix_cache = false;
        options.speculate = "custom";
        options.draft_fn = draft_wrong;
        options.draft_min = options.draft_max = RN_MAX_DRAFT;
        engine[1] = streams_engine(models[m], &options);
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            for (int place = 0; place <= lengths[i]; place += test_scale(3, 1, 1)) {
                check_refused(m, engine, 29 + (m + place) % 6, lengths[i], place, 1);
                if (lengths[i] == 5) check_refused(m, engine, 31, 5, place, REFUSED_STREAMS);
            }
        for (int i = 0; i < 2; i++) rn_engine_destroy(engine[i]);
    }
}

// ---------------------------------------------------------------- choices

enum { CHOICES = 4 };

static void run_choices(int m, const rn_request *request, const rn_engine_options *options,
                        struct stream *out) {
    rn_engine *engine = streams_engine(models[m], options);
    streams_submit(engine, request, out);
    streams_drain(engine, out, CHOICES);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

// The prompt but for its last token fills a step, so the first choice stands inside of a block when
// the others begin: they continue its state, and all that write first copy it.
CASE(choices_part_inside_of_a_block) {
    static struct stream want[CHOICES], got[CHOICES];
    static int32_t prompt[64];
    const rn_engine_options plain = {.no_prefix_cache = true,
                                     .speculate = "off",
                                     .n_ctx = 128,
                                     .kv_pages = 32};
    for (int m = 0; m < N_MODELS; m++)
        for (int n_prompt = 37; n_prompt < 45; n_prompt++) {
            for (int i = 0; i < n_prompt; i++) prompt[i] = some_token(n_prompt, i);
            const rn_request request = {.prompt = prompt,
                                        .n_prompt = (size_t)n_prompt,
                                        .n = CHOICES,
                                        .max_tokens = 40,
                                        .ignore_eos = true,
                                        .sampling = {.temperature = 1,
                                                     .seed = (uint64_t)n_prompt,
                                                     .has_seed = true}};
            const rn_engine_options drafts = {.speculate = has_block(m) ? "mtp" : "lookup,shared",
                                              .draft_min = 2,
                                              .draft_max = 6,
                                              .max_seqs = CHOICES,
                                              .batch_tokens = n_prompt - 1,
                                              .n_ctx = 128,
                                              .kv_pages = 32};
            run_choices(m, &request, &plain, want);
            run_choices(m, &request, &drafts, got);
            for (int i = 0; i < CHOICES; i++) streams_check_same(&want[i], &got[i]);
            for (int i = 1; i < CHOICES; i++)
                assert_int_equal(got[i].timings.cached_tokens, n_prompt - 1);
        }
}

TEST_PROGRAM(hybrid_turns) { return cases_run(open_models, close_models); }
