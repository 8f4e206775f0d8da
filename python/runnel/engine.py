"""Engines: they run the requests of a model, all of them together."""

from __future__ import annotations

import atexit
import ctypes
import itertools
import reprlib
import threading
import weakref
from collections import deque
from ctypes import byref, c_int, c_uint64, c_void_p, sizeof
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Union, cast, overload

from . import _native as native
from ._native import lib
from .errors import ArgumentError, CancelledError, ClosedError, Error, FullError, error_for
from .model import ChatTemplate, Messages, Model
from .settings import RequestBuilder, engine_options
from .stream import Event, Logprob, Result, Stream, Timings

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .settings import Settings

Prompt = Union[str, Sequence[int]]
_EVENTS = 256
_FINISH_NONE, _FINISH_ERROR = 0, 4


class Engine:
    """Runs requests of a model, several at a time, on threads of its own.

    Any thread, and any coroutine, may submit requests at any moment. ``with`` closes the engine at
    the end of the block: requests that run are cancelled.

    :param model: the model; it stays open as long as the engine does.
    :param draft: a small model with the same vocabulary, whose drafts are verified together.
    :param progress: called while weights are loaded, with the bytes done and their total.
    :param options: fields of rn_engine_options, such as ``max_seqs`` (requests at a time),
        ``n_ctx`` (tokens of a text), ``n_threads``, ``kv_bytes``, ``kv_type``, ``backend``.
    """

    def __init__(self, model: Model, *, draft: Optional[Model] = None,
                 progress: Optional[Callable[[int, int], None]] = None, **options: Any) -> None:
        struct = engine_options(options)
        for name, given in (("model", model), ("draft", draft)):
            if not isinstance(given, Model) and (given is not None or name == "model"):
                raise native.wrong_type(name, "a runnel.Model", given)
        if progress is not None and not callable(progress):
            raise native.wrong_type("progress", "a function", progress)
        if progress is not None:
            tell = progress
            called = native.PROGRESS(lambda _, done, total: tell(done, total))  # alive while the weights are loaded
            struct.progress = ctypes.cast(called, c_void_p)
        if draft is not None:
            struct.draft = draft.handle
        handle = c_void_p()
        lib.engine_create_sized(model.handle, byref(struct), sizeof(struct), byref(handle))
        self.model = model
        self._models = [model] + ([draft] if draft is not None else [])
        for used in self._models:
            used._acquire()
        self._handle: Optional[c_void_p] = handle
        # Calls with the handle hold it, so that the handle lives as long. A stream that is collected
        # meanwhile cancels its request in the same thread.
        self._lock = threading.RLock()
        self._streams: "weakref.WeakValueDictionary[int, Stream]" = weakref.WeakValueDictionary()
        self._keys = itertools.count(1)
        try:
            lib.engine_start(handle)
        except Exception:
            self._destroy(handle)
            raise
        self._is_over = threading.Event()  # the handle is gone
        self._reader = threading.Thread(target=_read, args=(weakref.ref(self), handle, self._is_over),
                                        name="runnel-reader", daemon=True)
        self._reader.start()
        _open_engines.add(self)

    # --- life ---

    def close(self) -> None:
        """Cancels the requests, ends the threads and frees the memory. May be called again."""
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is None:
            return
        lib.engine_stop(handle, False)
        if threading.current_thread() is not self._reader:
            self._reader.join()
        for stream in list(self._streams.values()):
            stream._fail(CancelledError("the engine was closed"))
        self._is_over.set()
        self._destroy(handle)

    def _destroy(self, handle: c_void_p) -> None:
        self._handle = None
        lib.engine_destroy(handle)
        for used in self._models:
            used._leave()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_reader", None) is not None:
            self.close()

    def _open(self) -> c_void_p:
        if self._handle is None:
            raise ClosedError("the engine is closed")
        return self._handle

    # --- requests ---

    def generate(self, prompt: Prompt, **settings: "Unpack[Settings]") -> Stream:
        """Continues a text, or ids: returns at once, with a :class:`Stream` of the text."""
        ids = self.model.tokenize(prompt, bos=True) if isinstance(prompt, str) else prompt
        return self._submit(ids, cast(Mapping[str, Any], settings))

    def complete(self, prompt: Prompt, **settings: "Unpack[Settings]") -> Result:
        """Continues a text and waits for its end."""
        return self.generate(prompt, **settings).result()

    def chat(self, messages: Messages, *, tools: Optional[Sequence[Any]] = None,
             variables: Optional[Mapping[str, Any]] = None, continue_final: bool = False,
             template: Optional[ChatTemplate] = None, **settings: "Unpack[Settings]") -> Stream:
        """Answers a conversation: a list of messages with ``role`` and ``content``, or a user's message.

        :param tools: descriptions of tools, for templates that know them. A call comes back as
            text, in the model's own syntax.
        :param variables: further variables of the template, such as ``{"enable_thinking": False}``.
        :param continue_final: the last message is the start of the answer.
        :param template: one that replaces the model's own.
        """
        ids = self.model.chat_tokens(messages, tools=tools, variables=variables, continue_final=continue_final,
                                     template=template)
        return self._submit(ids, cast(Mapping[str, Any], settings))

    @overload
    def embed(self, texts: str, *, pooling: Optional[str] = ..., normalize: Optional[bool] = ...  # type: ignore[misc]
              ) -> List[float]: ...

    @overload
    def embed(self, texts: Sequence[str], *, pooling: Optional[str] = ..., normalize: Optional[bool] = ...
              ) -> List[List[float]]: ...

    def embed(self, texts: Union[str, Sequence[str]], *, pooling: Optional[str] = None,
              normalize: Optional[bool] = None) -> Any:
        """A vector for a text, or for each of several, however many.

        :param pooling: ``mean`` of the last hidden states of all tokens, the ``last`` one's, or the
            first one's (``cls``). Without it the model's files say which; the mean if they do not.
        :param normalize: the vectors have length 1. Without it they have, unless the model's files
            say that they keep theirs.
        """
        number = c_int()
        lib.model_pooling(self.model.handle, None if pooling is None else native.c_text("pooling", pooling),
                          byref(number))
        if normalize is None:
            normalize = self.model.info["normalizes"] != 0
        elif not isinstance(normalize, int):
            raise native.wrong_type("normalize", "True or False", normalize)
        several = [texts] if isinstance(texts, str) else native.listed("texts", "a str or a list of them", texts)
        running: Deque[Stream] = deque()
        vectors: List[Any] = []

        def take() -> None:
            stream = running.popleft()
            stream.result()
            vectors.append(stream.embedding)

        for text in several:
            ids = self.model.tokenize(text, bos=True)
            while True:
                try:
                    running.append(self._submit(ids, {}, number.value, normalize))
                    break
                except FullError:
                    if not running:  # others fill the queue
                        raise
                    take()
        while running:
            take()
        return vectors[0] if isinstance(texts, str) else vectors

    def _submit(self, ids: Sequence[int], settings: Mapping[str, Any], pooling: int = 0,
                normalize: bool = False) -> Stream:
        builder = RequestBuilder(self.model, ids)
        builder.apply(settings)
        request = builder.request
        request.pooling, request.normalize = pooling, bool(normalize)
        tops = request.top_prompt_logprobs
        stream = Stream(self, max(1, request.n), self.model.info["n_vocab"] if tops < 0 else tops)
        key, identity = next(self._keys), c_uint64()
        request.data = key  # events have it before submit returns the id
        with self._lock:
            handle = self._open()
            self._streams[key] = stream
            lib.engine_submit_sized(handle, byref(request), sizeof(request), byref(identity))
            stream._id = identity.value
        return stream

    def _cancel(self, request: int) -> None:
        with self._lock:
            if self._handle is not None:
                lib.engine_cancel(self._handle, request)

    def _pause(self, request: int, pause: bool) -> None:
        with self._lock:
            if self._handle is not None:
                lib.engine_pause(self._handle, request, pause)

    # --- figures ---

    @property
    def info(self) -> Dict[str, Any]:
        """Backend, sizes and drafters of the engine (rn_engine_info)."""
        info = native.EngineInfo()
        with self._lock:
            lib.engine_get_info_sized(self._open(), byref(info), sizeof(info))
        return native.as_dict(info)

    @property
    def stats(self) -> Dict[str, Any]:
        """Counters since the engine was created, and its present state (rn_engine_stats)."""
        stats = native.EngineStats()
        with self._lock:
            lib.engine_get_stats_sized(self._open(), byref(stats), sizeof(stats))
        return native.as_dict(stats)

    def forget_prefixes(self) -> None:
        """Forgets cached prefixes that no request uses."""
        with self._lock:
            lib.engine_forget_prefixes(self._open())


# Engines that the program has not closed end before the interpreter does: threads cannot end later.
_open_engines: "weakref.WeakSet[Engine]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for engine in list(_open_engines):
        engine.close()


# ---------------------------------------------------------------- the reader


def _read(engine: "weakref.ref[Engine]", handle: c_void_p, is_over: threading.Event) -> None:
    """Hands events to their streams, until the engine is stopped. Holds no engine while it waits."""
    events = (native.Event * _EVENTS)()
    while not is_over.is_set():  # this thread may have held the engine last, and closed it
        count = lib.engine_wait_sized(handle, events, sizeof(native.Event), _EVENTS, -1)
        if count == 0:
            return
        owner = engine()
        if owner is None:
            continue
        for event in events[:count]:
            stream = owner._streams.get(event.data)
            if stream is not None:
                try:
                    stream._put(_event(event, owner.model, stream))
                except Exception as error:  # its reader must not wait for ever
                    stream._fail(Error(f"an event could not be read: {error!r}"))
            del stream
        del owner


def _logprobs(values: Any, first: int, count: int) -> List[Logprob]:
    return [Logprob(values[i].token, values[i].logprob) for i in range(first, first + count) if values[i].token >= 0]


def _prompt_logprobs(event: native.Event, width: int) -> Optional[List[List[Logprob]]]:
    if not event.n_prompt_logprobs:
        return None
    return [_logprobs(event.prompt_logprob, row * width, width) for row in range(event.n_prompt_logprobs)]


def _event(event: native.Event, model: Model, stream: Stream) -> Event:
    finish = lib.finish_text(event.finish).decode() if event.finish != _FINISH_NONE else None
    error = None
    if event.finish == _FINISH_ERROR:
        reason = event.reason or lib.status_text(event.status)
        error = error_for(event.status, reason.decode("utf-8", "replace"))
    return Event(choice=event.choice, token=event.token if event.token >= 0 else None,
                 text=ctypes.string_at(event.text, event.text_len).decode("utf-8", "replace") if event.text_len else "",
                 finish=finish, logprobs=_logprobs(event.logprob, 0, event.n_logprobs) if event.n_logprobs else [],
                 gap_ms=event.gap_ms, cause=lib.cause_name(event.cause).decode(), drafted=event.drafted,
                 time_ns=event.time_ns,
                 timings=Timings(**native.as_dict(event.timings.contents)) if finish else None, seed=event.seed,
                 stop=event.stop.decode("utf-8", "replace") if event.stop else None,
                 stop_token=event.stop_token if event.stop_token >= 0 else None, error=error,
                 prompt_logprobs=_prompt_logprobs(event, stream._row_width),
                 embedding=event.embedding[:model.info["n_embd"]] if event.embedding else None, last=event.last)
