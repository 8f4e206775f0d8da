// Steps in flight: the host works while the device does, tokens pass from step to step without it,
// and none of that shows in a text. Rows past the end of a text are dropped, and pages stay held as
// long as a step may touch them.
#include "flight_world.h"
#include "view_check.h"

static void reset(void) {
    fake_reset();
    bare_clock = (struct engine_clock){0};
}

// ---------------------------------------------------------------- ahead

CASE(steps_overlap_and_texts_are_those_of_the_cpu) {
    const rn_request request[] = {world_request(0, 5, 40), world_sampled(1, 40, 40),
                                  world_request(2, 70, 40), world_sampled(3, 9, 40)};
    for (int m = 0; m < N_KINDS; m++) {
        reset();
        fake_control.delay_us = 500;
        world_alone(m, request, 4);
        rn_engine *engine = world_engine(m, (rn_engine_options){.max_seqs = 4});
        world_submit(engine, request, 4);
        streams_drain(engine, got, 4);
        world_check_texts(0, 4);
        assert_true(fake_control.n_overlap > 20);
        assert_true(engine->engine.n_overlapped > 20);
        assert_int_equal(fake_control.n_of_row, 4 * 39);
        streams_check_empty(engine);
        rn_engine_destroy(engine);
    }
}

static rn_request needy_request(int kind, struct toy_constraint *toy) {
    rn_request request = world_sampled(1, 20, 24);
    if (kind == 0) request.sampling.repetition_penalty = 1.3f, request.sampling.repeat_last_n = -1;
    if (kind == 1) request.sampling.presence_penalty = 0.5f;
    if (kind == 2) request.sampling.frequency_penalty = 0.5f;
    if (kind == 3) {
        request.sampling.dry_multiplier = 1;
        request.sampling.dry_base = 1.75f;
        request.sampling.dry_penalty_last_n = -1;
    }
    if (kind == 4) request.constraint = toy_begin(toy, (enum toy_kind)1, WORLD_VOCAB);
    return request;
}

// Penalties, DRY and constraints look at the last token. Requests beside such a one do not wait for
// it: as many of their tokens stay on the device as if they were alone.
CASE(a_token_that_the_next_choice_looks_at_is_read_first) {
    static struct toy_constraint toy;
    for (int kind = 0; kind < 5; kind++) {
        const rn_request request[] = {world_request(0, 20, 24), needy_request(kind, &toy)};
        reset();
        world_alone(WINDOW, request, 2);
        rn_engine *engine = world_engine(WINDOW, (rn_engine_options){.max_seqs = 2});
        rn_request needy = needy_request(kind, &toy);
        streams_run(engine, &needy, &got[1]);
        world_check_texts(1, 1);
        check(fake_control.n_of_row == 0, "kind %d", kind);
        streams_submit(engine, &request[0], &got[0]);
        needy = needy_request(kind, &toy);
        streams_submit(engine, &needy, &got[1]);
        const long before = fake_control.n_submit;
        streams_drain(engine, got, 2);
        world_check_texts(0, 2);
        check(fake_control.n_of_row == 23, "kind %d", kind);
        // the other one takes turns with the landings: twice the steps, and no more
        assert_in_range(fake_control.n_submit - before, 24, 2 * 24 + 2);
        rn_engine_destroy(engine);
    }
}

CASE(a_drafted_sequence_is_read_before_its_next_step) {
    static const int models[] = {PLAIN, RECURRENT};
    for (int m = 0; m < 2; m++) {
        rn_request request[] = {world_request(0, 20, 60), world_sampled(1, 33, 60)};
        reset();
        world_alone(models[m], request, 2);
        rn_engine *engine = world_engine(models[m], world_drafts(2, 3, 80));
        for (int i = 0; i < 2; i++) request[i].data = &want[i];
        world_submit(engine, request, 2);
        streams_drain(engine, got, 2);
        world_check_texts(0, 2);
        assert_int_equal(fake_control.n_of_row, 0);
        assert_true(got[0].timings.accepted_tokens > 0 && got[1].timings.accepted_tokens > 0);
        streams_check_empty(engine);
        rn_engine_destroy(engine);
    }
}

CASE(no_row_is_past_an_end_by_length) {
    for (int n = 0; n < 6; n++) {
        const rn_request request = world_request(0, 20, n);
        reset();
        world_alone(PLAIN, &request, 1);
        rn_engine *engine = world_engine(PLAIN, (rn_engine_options){0});
        world_submit(engine, &request, 1);
        streams_drain(engine, got, 1);
        world_check_texts(0, 1);
        assert_int_equal(got[0].finish, RN_FINISH_LENGTH);
        assert_int_equal(fake_control.n_submit, n > 0 ? n : 1);
        streams_check_empty(engine);
        rn_engine_destroy(engine);
    }
}

// ---------------------------------------------------------------- past the end

// Steps until the stream has ended: then only the step in flight holds its pages, and after the
// next step they are free.
static void check_leaves(rn_engine *engine, int n) {
    struct engine *const e = &engine->engine;
    for (bool busy = true; got[0].finish == RN_FINISH_NONE;) {
        assert_true(busy);
        assert_int_equal(world_step(engine, n, &busy), RN_OK);
    }
    const rn_engine_stats before = streams_stats(engine);
    assert_non_null(e->leaving);
    assert_null(e->leaving->next);
    assert_int_equal(e->leaving->id, got[0].id);
    assert_true(before.pages_held >= e->leaving->table.n_page);
    world_steps(engine, n, 1);
    assert_null(e->leaving);
    assert_true(streams_stats(engine).pages_held < before.pages_held);
}

CASE(a_row_past_a_stop_string_is_dropped) {
    static struct stream whole;
    const rn_request request[] = {world_request(0, 20, 100), world_request(1, 20, 100)};
    world_alone(WINDOW, request, 2);
    whole = want[0];
    for (size_t at = 3; at < 60; at += (size_t)test_scale(24, 16, 8)) {
        const struct world_stop chosen = world_stop_in(&whole, at);
        const char *const stop = chosen.text;
        rn_request stopping[] = {request[0], request[1]};
        stopping[0].stop = &stop;
        stopping[0].n_stop = 1;
        for (int n = 1; n <= 2; n++) {
            reset();
            fake_control.delay_us = 200;
            world_alone(WINDOW, stopping, 2);
            assert_int_equal(want[0].finish, RN_FINISH_STOP);
            rn_engine *engine = world_engine(WINDOW, (rn_engine_options){.max_seqs = 2});
            world_submit(engine, stopping, n);
            check_leaves(engine, n);
            streams_drain(engine, got, n);
            world_check_texts(0, n);
            if (n == 1) assert_int_equal(fake_control.n_submit, want[0].n_ids + 1);
            streams_check_empty(engine);
            rn_engine_destroy(engine);
        }
    }
}

CASE(a_row_past_an_end_token_is_dropped) {
    int32_t end = 0;
    while (!tokenizer_is_end(world_model[PLAIN]->tokenizer, end)) end++;
    const rn_logit_bias bias = {end, 100};
    rn_request request[] = {world_request(0, 40, 20), world_request(1, 20, 30)};
    request[0].ignore_eos = false;
    request[0].sampling.logit_bias = &bias;
    request[0].sampling.n_logit_bias = 1;
    reset();
    world_alone(PLAIN, request, 2);
    assert_int_equal(want[0].finish, RN_FINISH_STOP);
    rn_engine *engine = world_engine(PLAIN, (rn_engine_options){.max_seqs = 2});
    world_submit(engine, request, 2);
    check_leaves(engine, 2);
    world_end(engine, 2);
}

// A block that only a row past the end filled is not found by another request.
CASE(what_a_dropped_row_wrote_is_not_findable) {
    rn_request request = world_request(0, 20, 100);
    world_alone(PLAIN, &request, 1);
    for (int n_last = 31; n_last <= 33; n_last++) {
        reset();
        rn_engine *engine = world_engine(PLAIN, (rn_engine_options){0});
        rn_request cut = world_request(0, 20, n_last - 20);
        streams_submit(engine, &cut, &got[0]);
        while (got[0].n_ids < n_last - 21) world_steps(engine, 1, 1);
        rn_engine_cancel(engine, got[0].id);
        streams_drain(engine, got, 1);
        memcpy(world_prompt[1], world_prompt[0], sizeof world_prompt[0]);
        memcpy(world_prompt[1] + 20, want[0].ids, 60 * sizeof *want[0].ids);
        rn_request whole = request;
        whole.prompt = world_prompt[1];
        whole.n_prompt = 80;
        whole.max_tokens = 20;
        const int n_done = 20 + got[0].n_ids - 1;
        streams_run(engine, &whole, &got[1]);
        assert_memory_equal(got[1].ids, want[0].ids + 60, 20 * sizeof *want[0].ids);
        assert_true(got[1].timings.cached_tokens <= n_done);
        rn_engine_destroy(engine);
    }
}

// A request is cancelled while a step of it is in flight. Returns the tokens of its text that
// another request finds then.
static int found_behind_cancelled(enum fake_fault fault) {
    enum { PROMPT = 40, WHOLE = 90, MORE = 10 };
    rn_request cut = world_request(0, PROMPT, 100);
    world_alone(RECURRENT, &cut, 1);
    reset();
    rn_engine *engine = world_engine(RECURRENT, (rn_engine_options){0});
    streams_submit(engine, &cut, &got[0]);
    world_steps(engine, 1, 5);
    if (fault) fake_fail_at(fault, 1);
    world_steps(engine, 1, 1);
    rn_engine_cancel(engine, got[0].id);
    streams_drain(engine, got, 1);
    assert_int_equal(fake_control.n_fault, fault != FAKE_NONE);
    assert_int_equal(got[0].status, RN_ERR_CANCELLED);
    rn_request whole = world_request(1, WHOLE, MORE);
    memcpy(world_prompt[1], world_prompt[0], PROMPT * sizeof *world_prompt[0]);
    memcpy(world_prompt[1] + PROMPT, want[0].ids, (WHOLE - PROMPT) * sizeof *want[0].ids);
    streams_run(engine, &whole, &got[1]);
    assert_memory_equal(got[1].ids, want[0].ids + WHOLE - PROMPT, MORE * sizeof *want[0].ids);
    rn_engine_destroy(engine);
    return got[1].timings.cached_tokens;
}

// The state behind a step that failed, for the sequence or as a whole, serves nobody.
CASE(a_sequence_that_left_keeps_no_state_of_a_step_that_failed) {
    const int n = found_behind_cancelled(FAKE_NONE);
    check(n > 40, "%d tokens were found", n);
    check(found_behind_cancelled(FAKE_SEQ) < 40, "the sequence failed");
    check(found_behind_cancelled(FAKE_STEP) < 40, "the step failed");
}

static uint64_t fake_now_ns;

static uint64_t fake_now(void *ctx) {
    (void)ctx;
    return fake_now_ns += 1000;
}

CASE(a_cancel_and_a_deadline_end_with_a_step_in_flight) {
    rn_request request[] = {world_request(0, 40, 100), world_sampled(1, 20, 60)};
    world_alone(RECURRENT, request, 2);
    for (int after = 1; after < 12; after += test_scale(3, 1, 1)) {
        for (int late = 0; late < 2; late++) {
            reset();
            bare_clock.now = fake_now;
            rn_engine *engine = world_engine(RECURRENT, (rn_engine_options){.max_seqs = 2});
            request[0].timeout_ms = late ? 1000 : 0;
            world_submit(engine, request, 2);
            world_steps(engine, 2, after);
            if (late)
                fake_now_ns += 2000 * 1000000ull;
            else
                rn_engine_cancel(engine, got[0].id);
            streams_drain(engine, got, 2);
            assert_int_equal(got[0].status, late ? RN_ERR_DEADLINE : RN_ERR_CANCELLED);
            world_check_begins(0);
            world_check_texts(1, 1);
            streams_check_empty(engine);
            rn_engine_destroy(engine);
        }
    }
    bare_clock.now = NULL;
}

CASE(a_paused_stream_takes_the_token_in_flight_and_continues_later) {
    rn_request request[] = {world_request(0, 40, 40), world_sampled(1, 20, 60)};
    world_alone(RECURRENT, request, 2);
    for (int after = 1; after < 8; after++) {
        reset();
        rn_engine *engine = world_engine(RECURRENT, (rn_engine_options){.max_seqs = 2});
        world_submit(engine, request, 2);
        world_steps(engine, 2, after);
        rn_engine_pause(engine, got[0].id, true);
        const int before = got[0].n_ids;
        world_steps(engine, 2, 6);
        assert_in_range(got[0].n_ids, before, before + 1);
        rn_engine_pause(engine, got[0].id, false);
        world_end(engine, 2);
    }
}

// ---------------------------------------------------------------- pages

// The pages hold one of the two alone. The first keeps them until the row past its end has landed,
// which brings no event: the step that lands it says that there is more to do.
CASE(a_request_that_waits_for_the_pages_of_a_dropped_row_runs) {
    rn_request request[] = {world_request(0, 97, 20), world_request(1, 97, 20)};
    world_alone(PLAIN, request, 2);
    const struct world_stop chosen = world_stop_in(&want[0], 6);
    const char *const stop = chosen.text;
    request[0].stop = &stop;
    request[0].n_stop = 1;
    world_alone(PLAIN, request, 2);
    assert_int_equal(want[0].finish, RN_FINISH_STOP);
    reset();
    rn_engine *engine =
        world_engine(PLAIN, (rn_engine_options){.max_seqs = 2, .n_ctx = 128, .kv_pages = 4});
    world_submit(engine, request, 2);
    world_end(engine, 2);
}

// A request of higher priority takes the pages: the step in flight lands first, and brings a token
// of a stream that a cancel ends at the same time. The held back text of its last event leaves the
// token's alone.
CASE(a_token_that_lands_beside_a_cancel_keeps_its_text) {
    static const char *const stops[] = {"e\1", "a\1", "t\1", "o\1", "n\1", "s\1", "r\1", "i\1",
                                        " \1", "d\1", "h\1", "l\1", "u\1", "m\1", "c\1", "w\1"};
    rn_request request[] = {world_request(0, 70, 40), world_request(1, 97, 10)};
    world_alone(STORY, request, 2);
    request[0].stop = stops;
    request[0].n_stop = RN_MAX_STOPS;
    request[1].priority = 1;
    for (int after = 2; after < 24; after += test_scale(5, 2, 1)) {
        reset();
        rn_engine *engine =
            world_engine(STORY, (rn_engine_options){.max_seqs = 2, .n_ctx = 128, .kv_pages = 4});
        world_submit(engine, request, 1);
        world_steps(engine, 1, after);
        streams_submit(engine, &request[1], &got[1]);
        world_steps(engine, 2, 1);
        assert_true(engine->engine.land_first);
        rn_engine_cancel(engine, got[0].id);
        streams_drain(engine, got, 2);
        assert_int_equal(got[0].finish, RN_FINISH_CANCELLED);
        world_check_begins(0);
        world_check_texts(1, 1);
        streams_check_empty(engine);
        rn_engine_destroy(engine);
    }
}

// Chunks of a prompt follow each other without waiting. Checkpoints of recurrent states, windows
// and full blocks are kept as those of one step after the other are. Memory is plenty.
CASE(a_prompt_in_chunks_leaves_the_prefixes_that_it_leaves_on_the_cpu) {
    static const int chunks[] = {16, 32, 48, 50, 96};
    for (int run = 0; run < 15; run += test_scale(4, 1, 1)) {
        rn_engine *engine[2];
        reset();
        for (int f = 0; f < 2; f++)
            engine[f] = world_engine_on(f ? &backend_fake : &backend_cpu, run / 5,
                                        (rn_engine_options){.batch_tokens = chunks[run % 5],
                                                            .max_seqs = 2,
                                                            .kv_pages = 800});
        int found[2] = {0};
        for (int n = 250; n > 20; n -= n > 200 ? 9 : 37) {
            const rn_request request = world_request(0, n, 6);
            for (int f = 0; f < 2; f++) {
                streams_submit(engine[f], &request, f ? &got[0] : &want[0]);
                streams_drain(engine[f], f ? got : want, 1);
                found[f] = (f ? got : want)[0].timings.cached_tokens;
            }
            world_check_texts(0, 1);
            check(found[0] == found[1], "chunks of %d, prompt of %d: %d and %d are found",
                  chunks[run % 5], n, found[0], found[1]);
            assert_true(n == 250 || n <= 2 * WORLD_PAGE || found[1] > 0);
        }
        assert_true(fake_control.n_overlap > 0 || engine[1]->engine.n_overlapped > 0);
        for (int f = 0; f < 2; f++) rn_engine_destroy(engine[f]);
    }
}

// Choices that find no place at first share the prompt of one whose drafts are in flight.
CASE(choices_fork_a_prompt_whose_sequence_tries_a_draft) {
    for (int run = 0; run < 36; run += test_scale(5, 5, 1)) {
        reset();
        rn_request request[] = {world_sampled(0, 61 + run % 6, 30),
                                world_request(4, 12, 8 + run / 3 % 2)};
        request[0].n = 4;
        world_alone(run % 3, request, 2);
        rn_engine_options options = world_drafts(2, 4, 70);
        options.no_prefix_cache = run >= 18;
        rn_engine *engine = world_engine(run % 3, options);
        request[0].data = &want[0];
        request[1].data = &want[4];
        request[1].draft_max = -1; // it runs ahead, and ends beside a draft in flight
        streams_submit(engine, &request[1], &got[4]);
        streams_submit(engine, &request[0], &got[0]);
        world_end(engine, 5);
    }
}

// ---------------------------------------------------------------- memory

CASE(fixed_pages_fit_the_budget_and_a_lone_context_fits_them) {
    for (int run = 0; run < 9; run += test_scale(4, 1, 1)) {
        const int n_ctx = run < 3 ? 192 : 130;
        reset();
        rn_engine *probe =
            world_engine_on(&backend_cpu, run % 3, (rn_engine_options){.n_ctx = n_ctx});
        const uint64_t lone = kv_need(&probe->engine.kv_config, n_ctx, 1);
        rn_engine_destroy(probe);
        const uint64_t budget = run < 6 ? lone : lone + lone / 3;
        rn_engine *engine =
            world_engine(run % 3,
                         (rn_engine_options){.n_ctx = n_ctx, .max_seqs = 3, .kv_bytes = budget});
        const struct kv_config *config = &engine->engine.kv_config;
        uint64_t bytes = 0;
        for (int g = 0; g < config->n_group; g++)
            bytes += kv_group_pages(config, g) * config->group[g].page_bytes;
        check(bytes <= budget, "%llu bytes of %llu", (unsigned long long)bytes,
              (unsigned long long)budget);
        const rn_request request[] = {world_request(0, n_ctx - 40, -1), world_request(1, 30, -1),
                                      world_sampled(2, n_ctx - 1, -1)};
        world_submit(engine, request, 3);
        streams_drain(engine, got, 3);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(got[i].finish, RN_FINISH_LENGTH);
            assert_int_equal(got[i].n_ids, n_ctx - (int)request[i].n_prompt);
        }
        streams_check_empty(engine);
        rn_engine_destroy(engine);
    }
}

// ---------------------------------------------------------------- pictures and numbers

static int n_decoding(const rn_view *view) {
    int n = 0;
    for (size_t i = 0; i < view->n_streams; i++) n += view->stream[i].state == RN_STREAM_DECODE;
    return n;
}

// Also of one whose token is read first, of one that tries drafts, of one whose last row is in
// flight. Pages of a row past the end are held by one that is there no more.
CASE(a_picture_says_who_decodes_and_who_holds_pages_in_flight) {
    rn_request request[] = {world_request(0, 10, 30), world_sampled(1, 10, 30),
                            world_sampled(2, 40, 50)};
    request[1].sampling.presence_penalty = 1;
    world_alone(RECURRENT, request, 3);
    const struct world_stop chosen = world_stop_in(&want[0], 6);
    const char *const stop = chosen.text;
    request[0].stop = &stop;
    request[0].n_stop = 1;
    for (int i = 0; i < 3; i++) request[i].data = &want[i];
    request[0].draft_max = request[1].draft_max = -1;
    reset();
    rn_engine *engine = world_engine(RECURRENT, world_drafts(3, 3, 80));
    rn_watcher *watcher;
    assert_int_equal(rn_watcher_create(engine, &watcher, NULL), RN_OK);
    world_submit(engine, request, 3);
    int n_left = 0;
    view_in_flight = true;
    for (bool busy = true; busy;) {
        rn_watcher_ask(watcher);
        assert_int_equal(world_step(engine, 3, &busy), RN_OK);
        int n_live = 0;
        for (int i = 0; i < 3; i++) n_live += got[i].n_ids > 0 && got[i].finish == RN_FINISH_NONE;
        const rn_view *view = rn_watcher_view(watcher);
        assert_int_equal(n_decoding(view), n_live);
        check(!view_check(view), "%s", view_check(view));
        n_left += engine->engine.leaving != NULL;
    }
    assert_int_equal(got[0].finish, RN_FINISH_STOP);
    assert_true(n_left > 0 && got[2].timings.accepted_tokens > 0);
    rn_watcher_destroy(watcher);
    rn_engine_destroy(engine);
}

// Without drafts the time of a stream is what it would have been without them.
CASE(overlapping_steps_are_counted_once) {
    reset();
    fake_control.delay_us = 2000;
    rn_engine *engine = world_engine(PLAIN, (rn_engine_options){0});
    const rn_request request = world_request(0, 10, 60);
    world_submit(engine, &request, 1);
    streams_drain(engine, got, 1);
    const rn_engine_stats stats = streams_stats(engine);
    assert_true(stats.stream_ns > 0 && engine->engine.n_overlapped > 0);
    check(stats.undrafted_ns <= stats.stream_ns, "%g of the time",
          (double)stats.undrafted_ns / (double)stats.stream_ns);
    rn_engine_destroy(engine);
}

// Nothing waits for the device, and the engine ends with steps in flight, drafts and rows past
// ends.
CASE(an_engine_may_end_with_steps_in_flight) {
    for (int after = 1; after < 9; after++) {
        reset();
        fake_control.delay_us = 300;
        rn_request request[] = {world_request(0, 70, 60), world_sampled(1, 33, 60)};
        world_alone(RECURRENT, request, 2);
        rn_engine_options options = world_drafts(2, 3, 80);
        options.batch_tokens = 40;
        rn_engine *engine = world_engine(RECURRENT, options);
        for (int i = 0; i < 2; i++) request[i].data = &want[i];
        request[1].draft_max = -1;
        world_submit(engine, request, 2);
        world_steps(engine, 2, after);
        if (engine->engine.n_flight == 0) world_steps(engine, 2, 1); // it landed first
        assert_true(engine->engine.n_flight > 0);
        rn_engine_destroy(engine);
    }
}

// Requests whose tokens the host must know first: their prompts end in different steps, and yet
// they share each step from then on.
CASE(streams_that_all_wait_for_the_host_share_their_steps) {
    rn_request request[4];
    reset();
    for (int i = 0; i < 4; i++) {
        request[i] = world_sampled(i, 20, 40);
        request[i].sampling.presence_penalty = 1;
    }
    world_alone(PLAIN, request, 4);
    rn_engine *engine = world_engine(PLAIN, (rn_engine_options){.max_seqs = 4, .batch_tokens = 24});
    world_submit(engine, request, 4);
    streams_drain(engine, got, 4);
    world_check_texts(0, 4);
    const rn_engine_stats stats = streams_stats(engine);
    check(stats.steps <= 40 + 6, "%d steps", (int)stats.steps);
    rn_engine_destroy(engine);
}

TEST_PROGRAM(flights) { return cases_run(world_open, world_close); }
