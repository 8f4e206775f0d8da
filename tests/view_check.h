// Checks that must hold of every picture of an engine at any time: its streams, its pages and its
// statistics agree.
#ifndef RN_TESTS_VIEW_CHECK_H
#define RN_TESTS_VIEW_CHECK_H

#include "runnel.h"

// With steps in flight, a stream that has just ended holds its pages until they have landed.
#ifdef TEST_ASYNC
static bool view_in_flight = true;
#else
static bool view_in_flight;
#endif

static inline bool view_has_request(const rn_view *view, uint64_t id) {
    for (size_t i = 0; i < view->n_streams; i++)
        if (view->stream[i].request == id) return true;
    return false;
}

static inline const char *view_check_pages(const rn_view *view) {
    uint64_t n_held = 0, n_cached = 0, n_shared = 0, n_holds = 0, n_claimed = 0;
    uint64_t n_states_held = 0, n_states_cached = 0, n_left = 0;
    for (size_t i = 0; i < view->n_pages; i++) {
        const rn_page_view *page = &view->page[i];
        *(page->is_state ? &n_states_held : &n_held) += page->state == RN_PAGE_HELD;
        *(page->is_state ? &n_states_cached : &n_cached) += page->state == RN_PAGE_CACHED;
        n_shared += !page->is_state && page->holders > 1;
        n_holds += page->holders;
        if ((page->state == RN_PAGE_HELD) != (page->holders > 0)) return "a page's holders";
        if ((page->holders > 0) != (page->owner > 0)) return "a page's owner";
        n_left += page->owner && !view_has_request(view, page->owner);
    }
    for (size_t i = 0; i < view->n_streams; i++) n_claimed += view->stream[i].pages;
    if (n_held != view->stats->pages_held) return "the number of held pages";
    if (n_cached != view->stats->pages_cached) return "the number of cached pages";
    if (n_shared != view->stats->pages_shared) return "the number of shared pages";
    if (n_states_held != view->stats->states_held) return "the number of held states";
    if (n_states_cached != view->stats->states_cached) return "the number of cached states";
    if (n_left > 0 && !view_in_flight) return "an owner who is not there";
    if (n_left > 0 ? n_holds < n_claimed : n_holds != n_claimed) return "the pages of streams";
    return NULL;
}

// NULL: all is well; otherwise what is not.
static inline const char *view_check(const rn_view *view) {
    uint64_t n_waiting = 0;
    for (size_t i = 0; i < view->n_streams; i++) {
        const rn_stream_view *stream = &view->stream[i];
        n_waiting += stream->pages == 0;
        if (stream->done_tokens >= stream->prompt_tokens + stream->output_tokens)
            return "a stream's tokens";
        if (stream->cached_tokens >= stream->prompt_tokens) return "a stream's cached tokens";
        if (stream->state == RN_STREAM_WAITING && stream->pages > 0) return "who waits";
        if (stream->state == RN_STREAM_DECODE && stream->output_tokens == 0) return "who decodes";
    }
    if (view->n_streams != (size_t)(view->stats->running + view->stats->waiting))
        return "the number of streams";
    if (n_waiting < (uint64_t)view->stats->waiting) return "the number of waiting streams";
    return view_check_pages(view);
}

#endif
