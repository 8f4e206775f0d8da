"""A request while it runs: its events, its text, its result."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, AsyncIterator, Deque, Iterator, List, NamedTuple, Optional

from .errors import ArgumentError, Error

if TYPE_CHECKING:
    from .engine import Engine

# A reader that is this many events behind is waited for: its request is paused.
PAUSE_AT, RESUME_AT = 4096, 1024


class Logprob(NamedTuple):
    """A token and the natural logarithm of its probability."""

    token: int
    logprob: float


@dataclass(frozen=True)
class Timings:
    """Figures of a text (rn_timings); times are in milliseconds."""

    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    stored_tokens: int
    preemptions: int
    queue_ms: float
    prompt_ms: float
    ttft_ms: float
    decode_ms: float
    gap_ms_max: float
    decode_bytes: int
    decode_steps: int
    draft_tokens: int
    accepted_tokens: int
    draft_steps: int
    undrafted_ms: float

    @property
    def tokens_per_second(self) -> float:
        """Speed after the first token; 0: there was no second one."""
        return (self.output_tokens - 1) * 1000 / self.decode_ms if self.decode_ms > 0 else 0.0


@dataclass(frozen=True)
class Event:
    """One token of a text, a piece of text, or the end."""

    choice: int
    token: Optional[int]
    text: str
    """Text that became certain, in whole characters."""
    finish: Optional[str]
    """With the last event of a choice: stop, length, cancelled or error."""
    logprobs: List[Logprob]
    """Where asked for: the token's own, then the likeliest ones."""
    gap_ms: float
    """Since the choice's last token."""
    cause: str
    """The largest cause of that time."""
    drafted: bool
    time_ns: int
    timings: Optional[Timings] = None
    """With a finish."""
    seed: int = 0
    stop: Optional[str] = None
    """The stop string that matched."""
    stop_token: Optional[int] = None
    error: Optional[Error] = None
    prompt_logprobs: Optional[List[List[Logprob]]] = None
    embedding: Optional[List[float]] = None
    last: bool = False


@dataclass
class Result:
    """A text that has ended."""

    text: str = ""
    tokens: List[int] = field(default_factory=list)
    logprobs: List[List[Logprob]] = field(default_factory=list)
    finish: str = ""
    """stop, length or cancelled."""
    stop: Optional[str] = None
    stop_token: Optional[int] = None
    seed: int = 0
    timings: Optional[Timings] = None

    def __str__(self) -> str:
        return self.text


class Stream:
    """A request that was submitted. Iterate over its text, or its events, or wait for its result.

    All of it works in threads and, with ``async for`` and ``await``, in asyncio. Each event is
    handed out once: iterate in one way only. Leaving the ``with`` block, or dropping the stream,
    cancels what has not ended.
    """

    def __init__(self, engine: "Engine", n: int, top_prompt_logprobs: int) -> None:
        self._engine = engine
        self._row_width = 1 + top_prompt_logprobs  # of prompt_logprobs
        self._id = 0  # of the request
        self._events: Deque[Event] = deque()
        self._changed = threading.Condition()
        self._wakers: List[Any] = []  # of coroutines: (loop, future)
        self._has_ended = False
        self._is_paused = False
        self._failure: Optional[Error] = None  # of the engine: no more events come
        self.results = [Result() for _ in range(n)]
        """The texts so far, one for each of the request's ``n``."""
        self.prompt_logprobs: Optional[List[List[Logprob]]] = None
        """Where asked for: a row for each token of the prompt but the first."""
        self.embedding: Optional[List[float]] = None

    # --- the engine's reader ---

    def _put(self, event: Event) -> None:
        with self._changed:
            self._events.append(event)
            if len(self._events) == PAUSE_AT and not self._is_paused:
                self._is_paused = True
                self._engine._pause(self._id, True)
            self._wake()

    def _fail(self, error: Error) -> None:
        with self._changed:
            self._failure = error
            self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()
        for loop, future in self._wakers:
            try:
                loop.call_soon_threadsafe(_set_ready, future)
            except RuntimeError:
                pass  # the loop is closed
        self._wakers.clear()

    # --- the program ---

    def _take(self) -> Optional[Event]:
        """The next event; None: the request has ended. IndexError: none has come yet."""
        if self._has_ended:
            return None
        if not self._events and self._failure:
            self._has_ended = True
            raise self._failure
        event = self._events.popleft()
        if self._is_paused and len(self._events) <= RESUME_AT:
            self._is_paused = False
            self._engine._pause(self._id, False)
        self._note(event)
        return event

    def _note(self, event: Event) -> None:
        result = self.results[event.choice]
        result.text += event.text
        if event.token is not None:
            result.tokens.append(event.token)
            if event.logprobs:
                result.logprobs.append(event.logprobs)
        if event.prompt_logprobs is not None:
            self.prompt_logprobs = event.prompt_logprobs
        if event.finish:
            result.finish, result.stop, result.stop_token = event.finish, event.stop, event.stop_token
            result.seed, result.timings = event.seed, event.timings
            self.embedding = event.embedding
        self._has_ended = self._has_ended or event.last

    def _next(self, timeout: Optional[float] = None) -> Optional[Event]:
        with self._changed:
            while True:
                try:
                    return self._take()
                except IndexError:
                    if not self._changed.wait(timeout):
                        raise TimeoutError("no event came in time") from None

    async def _next_async(self) -> Optional[Event]:
        while True:
            with self._changed:
                try:
                    return self._take()
                except IndexError:
                    loop = asyncio.get_running_loop()
                    ready = loop.create_future()
                    self._wakers.append((loop, ready))
            await ready

    @staticmethod
    def _checked(event: Event) -> Event:
        if event.error is not None:
            raise event.error
        return event

    def events(self) -> Iterator[Event]:
        """Events, one for each token; an error of the request is raised at its place."""
        while True:
            event = self._next()
            if event is None:
                return
            yield self._checked(event)

    async def events_async(self) -> AsyncIterator[Event]:
        """The same in asyncio."""
        while True:
            event = await self._next_async()
            if event is None:
                return
            yield self._checked(event)

    def __iter__(self) -> Iterator[str]:
        """Pieces of the text, as they become certain."""
        self._check_single()
        return (event.text for event in self.events() if event.text)

    async def __aiter__(self) -> AsyncIterator[str]:
        self._check_single()
        async for event in self.events_async():
            if event.text:
                yield event.text

    def _check_single(self) -> None:
        if len(self.results) > 1:
            raise ArgumentError(f"the request has {len(self.results)} texts: use events()")

    def result(self) -> Result:
        """Waits for the end; the first of the texts. An error of the request is raised."""
        for _ in self.events():
            pass
        return self.results[0]

    def __await__(self) -> Any:
        return self._result_async().__await__()

    async def _result_async(self) -> Result:
        async for _ in self.events_async():
            pass
        return self.results[0]

    def cancel(self) -> None:
        """Ends the request: its last event says "cancelled". Nothing happens after its end."""
        self._engine._cancel(self._id)

    def close(self) -> None:
        """Cancels the request, unless it has ended."""
        if not self._has_ended and self._id:
            self.cancel()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    async def __aenter__(self) -> "Stream":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def _set_ready(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
