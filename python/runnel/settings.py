"""Settings of a request: their names and types, and the struct that they become."""

from __future__ import annotations

import ctypes
import difflib
import json
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, TypedDict, Union

from . import _native as native
from ._native import lib
from .errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from .model import Model, Shape


class Settings(TypedDict, total=False):
    """Keyword arguments of :meth:`Engine.generate`, :meth:`Engine.complete` and :meth:`Engine.chat`.

    A sampling setting that is absent is the model's own; everything else that is absent is off.
    """

    max_tokens: int
    """Most tokens of the text. Absent: until the text ends, or the context is full."""
    min_tokens: int
    """No token and no stop string ends the text before this many."""
    n: int
    """Texts of one prompt, 1 to 128; each event says which one it belongs to."""
    seed: int
    """Absent: one is drawn, and the result has it."""
    greedy: bool
    """The likeliest token each time: temperature 0."""
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical_p: float
    top_n_sigma: float
    xtc_probability: float
    xtc_threshold: float
    repetition_penalty: float
    repeat_last_n: int
    presence_penalty: float
    frequency_penalty: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: Sequence[str]
    logit_bias: Mapping[int, float]
    """By token: -100, which bans it, to 100."""
    stop: Union[str, Sequence[str]]
    """Strings that end the text and are not part of it."""
    stop_tokens: Sequence[int]
    include_stop: bool
    ignore_eos: bool
    bad_words: Sequence[str]
    special_text: bool
    """Special tokens are text too."""
    logprobs: int
    """Tokens have logprobs, with this many of the likeliest ones, 0 to 20; -1: with the whole vocabulary."""
    prompt_logprobs: int
    """The same for the prompt's tokens, once."""
    shape: "Shape"
    """See :meth:`Model.shape`."""
    reasoning: Mapping[str, Any]
    """Marks and budget of a model that thinks: open, close, last, answer (a list), budget."""
    priority: int
    user: str
    timeout: float
    """Seconds until the request ends with :class:`DeadlineError`."""
    cache_salt: str
    draft_max: int


_SAMPLING = {name: kind for name, kind in native.Sampling._fields_ if kind in (ctypes.c_float, ctypes.c_int)}
_PLAIN = {"max_tokens", "min_tokens", "n", "include_stop", "ignore_eos", "special_text", "priority", "draft_max"}


def check_names(settings: Mapping[str, Any], known: Mapping[str, Any], what: str) -> None:
    """ArgumentTypeError for a keyword that does not exist."""
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            raise ArgumentTypeError(f"{what}: there is no {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


class RequestBuilder:
    """A request and the memory that it points to, alive until it is submitted."""

    def __init__(self, model: "Model", prompt: Sequence[int]) -> None:
        self.request = native.Request()
        self.request.prompt, self.request.n_prompt = self._ids("prompt", prompt)
        self.request.sampling = lib.sampling_defaults(model.handle)
        self._model = model
        self._kept: List[Any] = []  # arrays and strings behind pointers

    def _ids(self, name: str, ids: Sequence[int]) -> Tuple[Any, int]:
        array, count = native.id_array(name, ids)
        return ctypes.cast(array, ctypes.POINTER(ctypes.c_int32)), count

    def _text(self, name: str, text: Any) -> bytes:
        data = native.c_text(name, text)
        self._kept.append(data)
        return data

    def _texts(self, name: str, texts: Union[str, Sequence[str]]) -> Tuple[Any, int]:
        items = [texts] if isinstance(texts, str) else native.listed(name, "a str or a list of them", texts)
        array = (ctypes.c_char_p * max(1, len(items)))(*[self._text(name, item) for item in items])
        self._kept.append(array)
        return ctypes.cast(array, ctypes.POINTER(ctypes.c_char_p)), len(items)

    def apply(self, settings: Mapping[str, Any]) -> None:
        """Fills the request; raises ArgumentError for what cannot be said to the library."""
        check_names(settings, Settings.__annotations__, "request")
        sampling = self.request.sampling
        for name, value in settings.items():
            if value is None:
                continue
            if name in _SAMPLING:
                native.assign(sampling, name, value)
            elif name in _PLAIN:
                self._set_plain(name, value)
            else:
                getattr(self, "_set_" + name)(value)
        if settings.get("greedy"):
            sampling.temperature = 0

    def _set_plain(self, name: str, value: Any) -> None:
        if name == "max_tokens" and value == 0:
            self.request.prompt_only = True
        native.assign(self.request, name, value)

    def _set_greedy(self, value: bool) -> None:
        pass  # by apply, when everything else is set

    def _set_seed(self, value: int) -> None:
        self.request.sampling.has_seed = True
        native.assign(self.request.sampling, "seed", value)

    def _set_logit_bias(self, value: Mapping[int, float]) -> None:
        if not isinstance(value, Mapping):
            raise native.wrong_type("logit_bias", "a dict of tokens and numbers", value)
        try:
            tokens, count = native.id_array("logit_bias", [int(token) for token in value])  # of JSON they are texts
        except (TypeError, ValueError) as error:
            raise error if isinstance(error, ArgumentError) else native.wrong_type("logit_bias", "token ids", value)
        biases = [native.number("logit_bias", bias) for bias in value.values()]
        array = (native.LogitBias * max(1, count))(*map(native.LogitBias, tokens, biases))
        self._kept.append(array)
        self.request.sampling.logit_bias = ctypes.cast(array, ctypes.POINTER(native.LogitBias))
        self.request.sampling.n_logit_bias = count

    def _set_dry_sequence_breakers(self, value: Sequence[str]) -> None:
        texts, count = self._texts("dry_sequence_breakers", value)
        self.request.sampling.dry_sequence_breakers = texts
        self.request.sampling.n_dry_sequence_breakers = count

    def _set_stop(self, value: Union[str, Sequence[str]]) -> None:
        self.request.stop, self.request.n_stop = self._texts("stop", value)

    def _set_stop_tokens(self, value: Sequence[int]) -> None:
        self.request.stop_tokens, self.request.n_stop_tokens = self._ids("stop_tokens", value)

    def _set_bad_words(self, value: Sequence[str]) -> None:
        self.request.bad_words, self.request.n_bad_words = self._texts("bad_words", value)

    def _set_logprobs(self, value: int) -> None:
        self.request.logprobs = True
        native.assign(self.request, "top_logprobs", native.integer("logprobs", value))

    def _set_prompt_logprobs(self, value: int) -> None:
        self.request.prompt_logprobs = True
        native.assign(self.request, "top_prompt_logprobs", native.integer("prompt_logprobs", value))

    def _set_shape(self, value: "Shape") -> None:
        from .model import Shape  # which imports this module

        if not isinstance(value, Shape):
            raise native.wrong_type("shape", "a runnel.Shape, which Model.shape makes", value)
        if value.model is not self._model:
            raise ArgumentError("shape: it is another model's")
        self._kept.append(value)
        self.request.shape = value.handle

    def _set_reasoning(self, value: Mapping[str, Any]) -> None:
        if not isinstance(value, Mapping):
            raise native.wrong_type("reasoning", "a dict", value)
        check_names(value, dict.fromkeys(("open", "close", "last", "answer", "budget")), "reasoning")
        reasoning = self.request.reasoning
        for name in ("open", "close", "last"):
            if value.get(name) is not None:
                setattr(reasoning, name, self._text("reasoning", value[name]))
        if value.get("answer"):
            texts, count = self._texts("reasoning", value["answer"])
            marks = (ctypes.c_char_p * (count + 1))(*texts[:count])  # the last one is None
            self._kept.append(marks)
            reasoning.answer = ctypes.cast(marks, ctypes.POINTER(ctypes.c_char_p))
        reasoning.has_budget = value.get("budget") is not None
        native.assign(reasoning, "budget", value.get("budget") or 0)

    def _set_user(self, value: str) -> None:
        self.request.user = self._text("user", value)

    def _set_cache_salt(self, value: str) -> None:
        self.request.cache_salt = self._text("cache_salt", value)

    def _set_timeout(self, value: float) -> None:
        self.request.timeout_ms = native.number("timeout", value) * 1000


def json_text(name: str, value: Any) -> bytes:
    """JSON for the library: a str is taken as JSON already."""
    if isinstance(value, str):
        return native.c_text(name, value)
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except TypeError as error:
        raise ArgumentTypeError(f"{name}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{name}: {error}") from None


ENGINE_OPTIONS: Dict[str, Any] = {
    name: kind for name, kind in native.EngineOptions._fields_
    if name != "draft" and kind is not ctypes.c_void_p}  # pointers are the library's business


def engine_options(options: Mapping[str, Any]) -> native.EngineOptions:
    """The struct of an engine's options."""
    check_names(options, ENGINE_OPTIONS, "engine")
    struct = native.EngineOptions()
    for name, value in options.items():
        if value is not None:
            native.assign(struct, name, value)
    return struct
